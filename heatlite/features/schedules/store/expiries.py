"""The rows of expiries."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import peewee

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.core.runtime.meter import Gauge
from heatlite.features.schedules.expiry.state import ExpiryRecord
from heatlite.features.schedules.store.tables import Expiry
from heatlite.store.feature_store import ConsistencyRule, FeatureStore, RootRows, Series, StackFilter
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import ProjectValues

_ROWS = Rows(ExpiryRecord, Expiry)


class ExpiryStore(FeatureStore):
    """Expiries of root stacks, at most one for each."""

    tables = (Expiry,)
    series = Series("schedules", Path(__file__).parent)
    of_stacks = {"expiry": "stack_id"}
    stack_rows = RootRows("expiry", "stack_id")
    rules = (
        ConsistencyRule(
            "an expiry has a stack",
            "expiry",
            "SELECT stack_id, state FROM expiry WHERE NOT EXISTS (SELECT 1 FROM stack WHERE stack.id = stack_id)",
        ),
        ConsistencyRule(
            "an expiry that is not done is looked at",
            "expiry",
            "SELECT stack_id, state FROM expiry WHERE (due IS NULL) <> (state = 'done')",
        ),
    )
    stack_filters = {
        "expires_before": StackFilter(
            "SELECT stack_id FROM expiry WHERE state <> 'done' AND expires_at < ?", takes_time=True, project="project"
        )
    }

    def __init__(self, encryption: FieldEncryption, project_values: ProjectValues) -> None:
        super().__init__(encryption, project_values)
        self._table = Table(encryption, _ROWS, key="stack_id")

    def put(self, record: ExpiryRecord) -> None:
        """Write an expiry in place of any former one of the stack. Lock the stack first."""
        self.delete(record.stack_id)
        self.database.change(Expiry.insert(_ROWS.cells(record)))

    def change(self, before: ExpiryRecord, after: ExpiryRecord) -> bool:
        """Write a change of an expiry, unless it was changed since it was read.

        Returns False if nothing was written.
        """
        cells = {**_ROWS.cells(after), "version": before.version + 1}
        seen = (Expiry.stack_id == before.stack_id, Expiry.version == before.version)
        return self.database.change(Expiry.update(cells).where(*seen)) == 1

    def delete(self, stack_id: str) -> bool:
        """Remove the expiry of a stack. Returns whether it had one."""
        return self.database.change(Expiry.delete().where(Expiry.stack_id == stack_id)) == 1

    def of(self, stack_ids: Sequence[str]) -> dict[str, ExpiryRecord]:
        """Return the expiries of stacks, by id."""
        return {one.stack_id: one for one in self._table.select_in("WHERE stack_id IN ()", stack_ids)}

    def due(self, now: float) -> list[ExpiryRecord]:
        """Return the expiries that are to be looked at, the longest due first."""
        return self._table.select("WHERE due <= ? ORDER BY due, stack_id", (now,))

    def stack_facts(self, root_ids: Sequence[str], noted: Sequence[str]) -> Mapping[str, JsonMap]:
        found = self.of(noted)
        return {one: {"expiry": shown(found[one]) if one in found else None} for one in root_ids}

    def gauges(self) -> Iterator[Gauge]:
        query = Expiry.select(peewee.fn.COUNT(Expiry.stack_id)).where(Expiry.due.is_null(False))
        ((count,),) = self.database.select(query)
        yield Gauge("heatlite_stacks_expiring", "Stacks with an expiry that is not done.", (), {(): float(count)})


def shown(record: ExpiryRecord) -> JsonMap:
    """Return what is shown of an expiry."""
    return {
        "expires_at": to_text(record.expires_at),
        "then": record.task.value,
        "warn_before": [*record.warn_before],
        "state": record.state.value,
        "code": record.code,
        "set_by": record.set_by,
    }
