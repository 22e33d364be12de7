"""The store of readings."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heatlite.core.json import dump, parse
from heatlite.features.parameter_sources.store.records import Reading
from heatlite.features.parameter_sources.store.tables import Reading as Model
from heatlite.store.feature_store import ConsistencyRule, FeatureStore, Series
from heatlite.store.rows import Codec, Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import ProjectValues

if TYPE_CHECKING:
    from heatlite.store.store import Store


_ROWS = Rows(Reading, Model, codecs={"value": Codec(dump, parse)})


class ReadingStore(FeatureStore):
    """Readings of root stacks."""

    tables = (Model,)
    series = Series("parameter_sources", Path(__file__).parent)
    of_stacks = {"reading": "reader_id"}
    rules = (
        ConsistencyRule(
            "a reading has the stack that it is for",
            "reading",
            "SELECT id, reader_id FROM reading WHERE NOT EXISTS (SELECT 1 FROM stack WHERE stack.id = reader_id)",
        ),
    )

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        super().__init__(encryption, values)
        self._table = Table(encryption, _ROWS)

    def lock(self, store: "Store") -> None:
        """Lock all readings until the transaction ends.

        Those of projects depend on each other.
        """
        store.limit_locks.take("parameter sources")

    def of_readers(self, stack_ids: Sequence[str]) -> list[Reading]:
        """Return the readings of some stacks, the newest first."""
        found = self._table.select_in("WHERE reader_id IN ()", stack_ids)
        return sorted(found, key=lambda one: (one.read_at, one.id), reverse=True)

    def of_owner(self, stack_id: str) -> list[Reading]:
        """Return what was read from a stack, the newest first."""
        return self._table.select("WHERE owner_id = ? ORDER BY read_at DESC, id DESC", (stack_id,))

    def insert(self, readings: Sequence[Reading]) -> None:
        """Add readings, in the transaction that stores their values."""
        self._table.insert(readings)

    def delete(self, reading_ids: Sequence[str]) -> None:
        """Remove readings."""
        self._table.delete(reading_ids)
