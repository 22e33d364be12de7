"""The store of schedules."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import peewee
from msgspec.structs import replace

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.core.runtime.meter import Gauge
from heatlite.features.schedules.store.records import LastOccurrence, ScheduleRecord
from heatlite.features.schedules.store.tables import Schedule
from heatlite.store.feature_store import ConsistencyRule, FeatureStore, Moved, RootRows, Series
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import ProjectValues

_LAST = Rows(LastOccurrence, Schedule, names={name: f"last_{name}" for name in LastOccurrence.__struct_fields__})
_ROWS = Rows(ScheduleRecord, Schedule, parts={"last": _LAST})


class SchedulesStore(FeatureStore):
    """Schedules of stacks."""

    tables = (Schedule,)
    series = Series("schedules", Path(__file__).parent)
    of_stacks = {"schedule": "stack_id"}
    stack_rows = RootRows("schedule", "stack_id")
    rules = (
        ConsistencyRule(
            "a schedule has a stack",
            "schedule",
            "SELECT id, stack_id FROM schedule WHERE NOT EXISTS (SELECT 1 FROM stack WHERE stack.id = stack_id)",
        ),
        ConsistencyRule(
            "a paused schedule is not due",
            "schedule",
            "SELECT id, next_at FROM schedule WHERE NOT enabled AND next_at IS NOT NULL",
        ),
    )

    def __init__(self, encryption: FieldEncryption, project_values: ProjectValues) -> None:
        super().__init__(encryption, project_values)
        self._table = Table(encryption, _ROWS)

    def insert(self, record: ScheduleRecord) -> None:
        """Add a schedule. Raises Duplicate for a second one of its name."""
        self.database.change(Schedule.insert(_ROWS.cells(record)))

    def replace(self, record: ScheduleRecord) -> bool:
        """Write a schedule. Returns False if it is gone.

        Raises Duplicate for the name of another one.
        """
        cells = _ROWS.cells(record)
        del cells["id"]
        return self.database.change(Schedule.update(cells).where(Schedule.id == record.id)) == 1

    def settle(
        self, record: ScheduleRecord, last: LastOccurrence | None, since: float, next_at: float | None
    ) -> bool:
        """Write the end of an occurrence, or another due time.

        Returns False, and writes nothing, if the due time has changed since it was read.
        """
        cells: dict[str, object] = {"since": since, "next_at": next_at}
        if last is not None:
            cells |= _LAST.cells(last)
        due = Schedule.next_at.is_null() if record.next_at is None else Schedule.next_at == record.next_at
        return self.database.change(Schedule.update(cells).where(Schedule.id == record.id, due)) == 1

    def postpone(self, stack_id: str, now: float, until: float) -> None:
        """Look later at the schedules of a stack whose time has come."""
        due = (Schedule.stack_id == stack_id, Schedule.next_at <= now)
        self.database.change(Schedule.update(next_at=until).where(*due))

    def delete(self, schedule_id: str) -> bool:
        """Remove a schedule. Returns whether it existed."""
        return self.database.change(Schedule.delete().where(Schedule.id == schedule_id)) == 1

    def get(self, stack_id: str, name: str) -> ScheduleRecord | None:
        """Return the schedule of a stack by its id, else by its name."""
        found = self._table.select("WHERE stack_id = ? AND (id = ? OR name = ?)", (stack_id, name, name))
        return min(found, key=lambda one: one.id != name, default=None)

    def of_stack(self, stack_id: str) -> list[ScheduleRecord]:
        """Return the schedules of a stack, by name."""
        return sorted(self._table.select("WHERE stack_id = ?", (stack_id,)), key=lambda one: one.name)

    def due(self, now: float, stack_id: str | None = None) -> list[ScheduleRecord]:
        """Return the schedules whose time has come, of one stack or of all."""
        of_stack, parameters = ("", (now,)) if stack_id is None else ("AND stack_id = ? ", (now, stack_id))
        return self._table.select(f"WHERE next_at <= ? {of_stack}ORDER BY next_at, id", parameters)

    def enabled(self) -> list[ScheduleRecord]:
        """Return the schedules that are not paused."""
        return self._table.select("WHERE enabled ORDER BY next_at, id")

    def last(self, schedule_ids: Sequence[str]) -> dict[str, LastOccurrence | None]:
        """Return the last occurrences of schedules, by id."""
        return {one.id: one.last for one in self._table.select_in("WHERE id IN ()", schedule_ids)}

    def stack_facts(self, root_ids: Sequence[str], noted: Sequence[str]) -> Mapping[str, JsonMap]:
        found: dict[str, JsonMap] = {}
        # As text: peewee takes longer to make it than the database to answer, and each look at a stack asks.
        sql = (
            "SELECT stack_id, name, task, next_at FROM schedule"
            " WHERE stack_id IN () AND next_at IS NOT NULL ORDER BY next_at, id"
        )
        for stack_id, name, task, at in self.database.read_in(sql, noted):
            found.setdefault(stack_id, {"next_schedule": {"name": name, "do": task, "next_at": to_text(at)}})
        return found

    def resources_moved(self, moved: Moved) -> None:
        for one in self.of_stack(moved.source.root_id):
            path = one.options.get("resource")
            if not isinstance(path, str) or not moved.covers(path):
                continue
            name, target = one.name, moved.target.root_id
            if target != one.stack_id and self.get(target, name) is not None:
                name = f"{name}-{one.id[-8:]}"
            options = {**one.options, "resource": moved.path(path)}
            self.replace(replace(one, options=options, stack_id=target, name=name))

    def gauges(self) -> Iterator[Gauge]:
        query = Schedule.select(Schedule.enabled, peewee.fn.COUNT(Schedule.id)).group_by(Schedule.enabled)
        counts = {bool(enabled): float(count) for enabled, count in self.database.select(query)}
        yield Gauge(
            "heatlite_schedules",
            "Schedules of stacks, by state.",
            ("state",),
            {("enabled",): counts.get(True, 0.0), ("paused",): counts.get(False, 0.0)},
        )
