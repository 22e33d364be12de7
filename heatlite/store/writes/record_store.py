"""Base of stores whose records have ids."""

from collections.abc import Sequence
from typing import Generic

from heatlite.store.rows import Record
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table


class RecordStore(Generic[Record]):
    """Records of a table. Each method is one statement, or one per `IN_LIMIT` rows."""

    def __init__(self, encryption: FieldEncryption, table: Table[Record]) -> None:
        self._database = encryption.database
        self._table = table

    def get(self, record_id: str) -> Record | None:
        """Return a record by its id."""
        return self._table.first("WHERE id = ?", (record_id,))

    def insert_many(self, records: Sequence[Record]) -> None:
        """Add records in their order. Raises Duplicate."""
        self._table.insert(records)

    def save_many(self, records: Sequence[Record]) -> None:
        """Write what may change of existing records."""
        self._table.update(records)

    def delete_many(self, ids: Sequence[str]) -> None:
        """Remove records."""
        self._table.delete(ids)
