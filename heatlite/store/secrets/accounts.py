"""Accounts of resources' agents in Keystone's stack domain, and their projects.

The row is written before the account is created. After a crash it tells which account to find and remove.
"""

from collections.abc import Iterable

import peewee

from heatlite.core.errors import NotSupported
from heatlite.store.records import AccountRecord
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.access import Account, AccountProject

_ROWS = Rows(AccountRecord, Account)
_PASSWORD = (_ROWS.columns.index("password"),)


class Accounts:
    """Accounts of resources, and one project per tree with accounts."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self._encryption = encryption
        self._database = encryption.database

    def insert(self, record: AccountRecord) -> None:
        """Add an account. Raises NotSupported without a key to encrypt its password."""
        if self._encryption.cipher is None:
            raise NotSupported(feature="Storing an account without encryption_keys")
        row = {**_ROWS.cells(record), "password": self._encryption.encrypt(record.password)}
        self._database.change(Account.insert(row))

    def record_ids(self, record: AccountRecord) -> None:
        """Write the ids of user and project, which exist now."""
        values = {Account.user_id: record.user_id, Account.project_id: record.project_id}
        self._database.change(Account.update(values).where(*_key(record.stack_id, record.physical_name)))

    def get(self, stack_id: str, physical_name: str) -> AccountRecord | None:
        """Return the account of a resource. Raises UnreadableSecret."""
        return self._first(*_key(stack_id, physical_name))

    def of_user(self, user_id: str) -> AccountRecord | None:
        """Return the account with this user."""
        return self._first(Account.user_id == user_id)

    def of_stack(self, stack_id: str) -> list[AccountRecord]:
        """Return the accounts of a stack's own resources."""
        return self._select(Account.stack_id == stack_id)

    def passwords(self, root_id: str) -> list[str]:
        """Return the passwords of all accounts in a tree, by its root."""
        found = self._database.select(Account.select(Account.password).where(Account.root_id == root_id))
        return [self._encryption.decrypt(password) for (password,) in found]

    def delete(self, record: AccountRecord) -> None:
        """Remove an account."""
        self._database.change(Account.delete().where(*_key(record.stack_id, record.physical_name)))

    def delete_all(self, stack_id: str) -> None:
        """Remove the accounts of a deleted stack; for a root the project, too."""
        self._database.change(Account.delete().where(Account.stack_id == stack_id))
        self._database.change(AccountProject.delete().where(AccountProject.root_id == stack_id))

    # -- projects ----------------------------------------------------------------------------------

    def has_project(self, root_id: str) -> bool:
        """Return whether a tree has a project, or one is being created."""
        select = AccountProject.select(AccountProject.root_id).where(AccountProject.root_id == root_id)
        return bool(self._database.select(select))

    def add_project(self, root_id: str) -> None:
        """Add a tree's project, before its creation."""
        self._database.change(AccountProject.insert(root_id=root_id))

    def record_project(self, root_id: str, project_id: str) -> None:
        """Write the id of a tree's project, which exists now."""
        update = AccountProject.update({AccountProject.project_id: project_id})
        self._database.change(update.where(AccountProject.root_id == root_id))

    def projects(self, root_ids: Iterable[str]) -> dict[str, str]:
        """Return the ids of the projects of trees that have one: root → project."""
        select = AccountProject.select(AccountProject.root_id, AccountProject.project_id)
        is_made = AccountProject.project_id.is_null(False)
        return dict(self._database.select(select.where(AccountProject.root_id.in_([*root_ids]), is_made)))

    def _first(self, *conditions: peewee.ColumnBase) -> AccountRecord | None:
        return next(iter(self._select(*conditions)), None)

    def _select(self, *conditions: peewee.ColumnBase) -> list[AccountRecord]:
        rows = self._database.select(Account.select(*_ROWS.selected()).where(*conditions))
        return _ROWS.records(self._encryption.decrypt_rows(rows, _PASSWORD))


def _key(stack_id: str, physical_name: str) -> tuple[peewee.ColumnBase, ...]:
    return Account.stack_id == stack_id, Account.physical_name == physical_name
