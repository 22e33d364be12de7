"""Access keys of users, for requests with an AWS signature.

A check of the signature needs the secret itself, so it is encrypted and not hashed.
"""

import peewee

from heatlite.core.errors import NotSupported
from heatlite.core.json import decoder, dump
from heatlite.store.records import AccessKeyRecord
from heatlite.store.rows import Codec, Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.access import AccessKey

_ROWS = Rows(
    AccessKeyRecord,
    AccessKey,
    codecs={"roles": Codec(lambda roles: dump(sorted(roles)), decoder(frozenset[str]))},
)
_SECRET = (_ROWS.columns.index("secret"),)


class AccessKeys:
    """Access keys by their ids."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self._encryption = encryption
        self._database = encryption.database

    def insert(self, record: AccessKeyRecord) -> None:
        """Add a key. Raises NotSupported without a key to encrypt its secret."""
        if self._encryption.cipher is None:
            raise NotSupported(feature="Storing an access key without encryption_keys")
        row = {**_ROWS.cells(record), "secret": self._encryption.encrypt(record.secret)}
        self._database.change(AccessKey.insert(row))

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
        select = AccessKey.select(*_ROWS.selected()).where(condition).order_by(AccessKey.created_at, AccessKey.id)
        return _ROWS.records(self._encryption.decrypt_rows(self._database.select(select), _SECRET))
