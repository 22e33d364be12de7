"""Access keys of users, for requests with an AWS signature.

A check of the signature needs the secret itself, so it is encrypted and not hashed.
"""


import peewee

from heatlite.core.errors import NotSupported
from heatlite.core.json import dump, parse
from heatlite.store.database.statements import Row
from heatlite.store.records import AccessKeyRecord
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.access import AccessKey

_COLUMNS = (
    AccessKey.id, AccessKey.project, AccessKey.user, AccessKey.roles, AccessKey.secret, AccessKey.created_at
)  # fmt: skip


class AccessKeys:
    """Access keys by their ids."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self._encryption = encryption
        self._database = encryption.database

    def insert(self, record: AccessKeyRecord) -> None:
        """Add a key. Raises NotSupported without a key to encrypt its secret."""
        if self._encryption.cipher is None:
            raise NotSupported(feature="Storing an access key without encryption_keys")
        self._database.change(
            AccessKey.insert(
                id=record.id,
                project=record.project,
                user=record.user,
                roles=dump(sorted(record.roles)),
                secret=self._encryption.encrypt(record.secret),
                created_at=record.created_at,
            )
        )

    def get(self, key_id: str) -> AccessKeyRecord | None:
        """Return a key. Raises UnreadableSecret."""
        return next(iter(self._select(AccessKey.id == key_id)), None)

    def of_project(self, project: str) -> list[AccessKeyRecord]:
        """Return the keys of a project, oldest first."""
        return self._select(AccessKey.project == project)

    def delete(self, key_id: str) -> None:
        """Remove a key."""
        self._database.change(AccessKey.delete().where(AccessKey.id == key_id))

    def _select(self, condition: peewee.ColumnBase) -> list[AccessKeyRecord]:
        select = AccessKey.select(*_COLUMNS).where(condition).order_by(AccessKey.created_at, AccessKey.id)
        return [self._record(row) for row in self._database.select(select)]

    def _record(self, row: Row) -> AccessKeyRecord:
        key_id, project, user, roles, secret, created_at = row
        return AccessKeyRecord(
            key_id, project, user, frozenset(parse(roles)), self._encryption.decrypt(secret), created_at
        )
