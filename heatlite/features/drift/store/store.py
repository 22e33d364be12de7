"""Drift of resources, by their ids."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from heatlite.core.clock import to_text
from heatlite.core.config import Settings
from heatlite.core.differences import Differences
from heatlite.core.json import JsonMap
from heatlite.core.runtime.meter import Gauge
from heatlite.core.status import MAX_REASON
from heatlite.features.drift import states
from heatlite.features.drift.states import DriftRecord, DriftState
from heatlite.features.drift.store.tables import MODELS, Drift
from heatlite.store.database.sql import chunks, marks
from heatlite.store.database.statements import Value
from heatlite.store.feature_store import FeatureStore, Moved, ObjectNews, OldRows, RootRows, Series, StackFilter
from heatlite.store.records import EventRecord, ResourceRecord
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import ProjectValues

DRIFT = "DRIFT"
"""Action of the events."""

_ROWS = Rows(DriftRecord, Drift)
_COUNTED_STATES = (DriftState.DRIFTED, DriftState.IN_SYNC, DriftState.UNKNOWN)
_COUNTED = ", ".join(f"COALESCE(SUM(CASE WHEN state = '{state}' THEN 1 ELSE 0 END), 0)" for state in _COUNTED_STATES)


class DriftCounts(Struct, frozen=True):
    """Numbers of resources by state."""

    drifted: int
    in_sync: int
    unknown: int
    not_checked: int
    ignored: int
    """Resources of which something is ignored."""
    checked_at: float | None
    """Time of the last check that could compare."""


class DriftQuery(Struct, frozen=True):
    """Filters of a list of drift. An empty one accepts all values."""

    state: tuple[DriftState, ...]
    resource_type: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    """Ids of root stacks."""
    ignored: bool = False
    """Also those of which something is ignored, in any state."""
    complete: bool = False
    """Only those that are neither failed nor marked unhealthy."""
    limit: int = 0
    marker: str = ""
    """Id of the resource before the page."""


class Listed(Struct, frozen=True):
    """A resource of a list of drift."""

    resource_id: str
    name: str
    type: str
    physical_id: str | None
    stack_id: str
    root_id: str
    drift: DriftRecord | None
    """None: it is not checked."""


class DriftStore(FeatureStore):
    """Drift of resources. One without a row is not checked."""

    tables = MODELS
    series = Series("drift", Path(__file__).parent)
    of_stacks = {"drift": "stack_id"}
    stack_rows = RootRows("drift", "root_id")
    stack_filters = {
        "drifted": StackFilter(f"SELECT root_id FROM drift WHERE state = '{DriftState.DRIFTED}'", project="project")
    }

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        super().__init__(encryption, values)
        self._table = Table(
            encryption, _ROWS, key="resource_id", fixed=("project", "root_id", "stack_id")
        )
        self._swept = ""
        """Id of the last resource that retention has looked at."""

    # -- what the engine tells ---------------------------------------------------------------------

    def objects_seen(self, news: ObjectNews) -> list[EventRecord]:
        known = self.of([*news.compared, *news.unseen, *news.judged, *news.updated, *news.gone])
        after: dict[str, DriftRecord] = {}
        rows: dict[str, ResourceRecord] = {}
        for key, (row, found) in news.compared.items():
            after[key], rows[key] = states.compared(known.get(key) or _new(news, row), found, news.time), row
        for key, row in news.unseen.items():
            after[key], rows[key] = states.unseen(known.get(key) or _new(news, row), news.time), row
        for key, (row, found) in news.judged.items():
            after[key], rows[key] = states.judged(known[key], found, news.time), row
        for key, update in news.updated.items():
            if key in known:
                after[key], rows[key] = states.updated(known[key], update.names, update.is_observed), update.row
        self._table.insert([one for key, one in after.items() if key not in known])
        self._table.update([one for key, one in after.items() if key in known and one != known[key]])
        gone = [key for key in news.gone if key in known]
        ended = self._rows_of([key for key in gone if known[key].differences])
        self._table.delete(gone)
        events = [_event(rows[key], known.get(key), one, news.time) for key, one in after.items()]
        events += [_event(row, known[row.id], None, news.time) for row in ended]
        return [event for event in events if event is not None]

    def differences(self, project: str, root_id: str, stack_id: str) -> Mapping[str, Differences]:
        sql = (
            f"WHERE stack_id = ? AND (root_id = ? AND state = '{DriftState.DRIFTED}' OR project = ? AND ignored > 0)"
        )
        found = self._table.select(sql, (stack_id, root_id, project))
        return {one.resource_id: Differences(one.differences or (), one.truncated) for one in found}

    def _rows_of(self, resource_ids: Sequence[str]) -> list["EventResource"]:
        sql = "SELECT id, stack_id, name, type, physical_id FROM resource WHERE id IN ()"
        return [EventResource(*row) for row in self.database.read_in(sql, resource_ids)]

    def resources_moved(self, moved: Moved) -> None:
        if moved.source == moved.target:
            return
        moved.change_root(self.database, "drift")
        names = [*moved.names.values()]
        for some in chunks(names):
            self.database.write(
                "UPDATE drift SET stack_id = ?, root_id = ? WHERE resource_id IN"
                f" (SELECT id FROM resource WHERE stack_id = ? AND name IN ({marks(some)}))",
                (moved.target.stack_id, moved.target.root_id, moved.target.stack_id, *some),
            )

    def old_rows(self, settings: Settings, now: float, limit: int) -> Iterator[OldRows]:
        # Of resources that were removed while the feature was off. A sweep looks at a part of the table only.
        sql = (
            "SELECT d.resource_id, r.id FROM"
            " (SELECT resource_id FROM drift WHERE resource_id > ? ORDER BY resource_id LIMIT ?) d"
            " LEFT JOIN resource r ON r.id = d.resource_id ORDER BY d.resource_id"
        )
        rows = self.database.read(sql, (self._swept, limit))
        self._swept = str(rows[-1][0]) if len(rows) == limit else ""
        yield self._table.delete, [str(key) for key, present in rows if present is None]

    # -- what is asked -----------------------------------------------------------------------------

    def of(self, resource_ids: Sequence[str]) -> dict[str, DriftRecord]:
        """Return the records of resources, by id."""
        return {one.resource_id: one for one in self._table.select_in("WHERE resource_id IN ()", resource_ids)}

    def counts(self, project: str, roots: Sequence[str] = ()) -> DriftCounts:
        """Return the numbers of a project, or of some of its trees.

        One statement, which reads indexes.
        """
        some, within = marks(roots), [*roots]
        total = (
            "SELECT COUNT(*) FROM stack JOIN resource ON resource.stack_id = stack.id"
            " WHERE stack.project = ? AND stack.deleted_at IS NULL"
            f"{f' AND COALESCE(stack.root_id, stack.id) IN ({some})' if roots else ''}"
        )
        sql = (
            "SELECT state, SUM(number), MAX(checked_at) FROM ("  # grouped by the index first
            "SELECT state, COUNT(*) AS number, MAX(checked_at) AS checked_at FROM drift WHERE root_id IN"
            f" (SELECT id FROM stack WHERE project = ?{f' AND id IN ({some})' if roots else ''})"
            " GROUP BY root_id, state) found GROUP BY state"
            " UNION ALL SELECT 'ignored', COUNT(*), NULL FROM drift WHERE project = ? AND ignored > 0"
            f"{f' AND root_id IN ({some})' if roots else ''}"
            f" UNION ALL SELECT 'all', ({total}), NULL"
        )
        rows = self.database.read(sql, (project, *within) * 3)
        found = {str(state): (int(number), at) for state, number, at in rows}
        drifted, in_sync, unknown = (found.get(one, (0, None))[0] for one in _COUNTED_STATES)
        known = [found[one] for one in _COUNTED_STATES if one in found]
        rest = max(0, found["all"][0] - sum(number for number, _ in known))
        checked_at = max((at for _, at in known if at is not None), default=None)
        return DriftCounts(drifted, in_sync, unknown, rest, found["ignored"][0], checked_at)

    def page(self, project: str, query: DriftQuery) -> list[Listed]:
        """Return resources of live stacks of a project, by id. One statement."""
        columns = ", ".join(f"d.{name}" for name in _ROWS.columns)
        absent = DriftState.NOT_CHECKED in query.state
        known = [state for state in query.state if state is not DriftState.NOT_CHECKED]
        conditions, values = ["s.project = ?", "s.deleted_at IS NULL", "r.id > ?"], [project, query.marker]
        states_ = [f"d.state IN ({marks(known)})"] if known else []
        states_ += ["d.state IS NULL"] if absent else []
        states_ += ["d.ignored > 0"] if query.ignored else []
        conditions.append(f"({' OR '.join(states_)})")
        values += [str(state) for state in known]
        if query.complete:
            conditions.append("r.status = 'COMPLETE'")
        if query.resource_type:
            conditions.append(f"r.type IN ({marks(query.resource_type)})")
            values += query.resource_type
        if query.roots:
            root = "COALESCE(s.root_id, s.id)" if absent else "d.root_id"
            conditions.append(f"{root} IN ({marks(query.roots)})")
            values += query.roots
        tables = (
            "resource r JOIN stack s ON s.id = r.stack_id LEFT JOIN drift d ON d.resource_id = r.id"
            if absent
            else "drift d JOIN resource r ON r.id = d.resource_id JOIN stack s ON s.id = r.stack_id"
        )
        if not absent:
            conditions += ["d.project = ?", "d.resource_id > ?"]
            values += [project, query.marker]
        sql = (
            f"SELECT r.id, r.name, r.type, r.physical_id, r.stack_id, COALESCE(s.root_id, s.id), {columns}"
            f" FROM {tables} WHERE {' AND '.join(conditions)} ORDER BY r.id LIMIT ?"
        )
        rows = self.database.read(sql, (*values, query.limit))
        found = iter(self._table.records([row[6:] for row in rows if row[6] is not None]))
        return [
            Listed(key, name, kind, physical_id, stack_id, root_id, None if cells[0] is None else next(found))
            for key, name, kind, physical_id, stack_id, root_id, *cells in rows
        ]

    def paths(self, listed: Sequence[Listed]) -> dict[str, str]:
        """Return the paths of resources from the roots of their trees, by id.

        A statement for each level of nested stacks and each part of a long list.
        """
        above: dict[str, tuple[str | None, str]] = {}
        wanted = {one.stack_id for one in listed if one.stack_id != one.root_id}
        while wanted:
            found: dict[str, tuple[str | None, str]] = {}
            sql = "SELECT id, parent_id, parent_resource FROM stack WHERE id IN ()"
            found.update({key: (parent, name) for key, parent, name in self.database.read_in(sql, [*wanted])})
            above.update(found)
            wanted = {parent for parent, _ in found.values() if parent is not None} - above.keys()
        paths = {}
        for one in listed:
            names, at = [one.name], above.get(one.stack_id)
            while at is not None and at[0] is not None:
                names.insert(0, at[1])
                at = above.get(at[0])
            paths[one.resource_id] = "/".join(names)
        return paths

    def stack_facts(self, root_ids: Sequence[str], noted: Sequence[str]) -> Mapping[str, JsonMap]:
        found = {one: _stack_fact((0, 0, None)) for one in root_ids}
        sql = (
            "SELECT root_id, SUM(CASE WHEN state = 'drifted' THEN 1 ELSE 0 END),"
            " SUM(CASE WHEN state = 'unknown' THEN 1 ELSE 0 END), MAX(checked_at)"
            " FROM drift WHERE root_id IN () GROUP BY root_id"
        )
        for root_id, *numbers in self.database.read_in(sql, noted):
            found[str(root_id)] = _stack_fact(numbers)
        return found

    def resource_facts(self, resource_ids: Sequence[str]) -> Mapping[str, JsonMap]:
        found = {one: _resource_fact(DriftState.NOT_CHECKED, None, None, 0) for one in resource_ids}
        sql = "SELECT resource_id, state, since, checked_at, number FROM drift WHERE resource_id IN ()"
        for key, state, since, checked_at, number in self.database.read_in(sql, resource_ids):
            found[str(key)] = _resource_fact(DriftState(state), since, checked_at, int(number))
        return found

    def totals(self) -> Iterator[Gauge]:
        ((drifted, _, unknown, stacks),) = self.database.read(
            f"SELECT {_COUNTED}, COUNT(DISTINCT CASE WHEN state = 'drifted' THEN root_id END) FROM drift"
        )
        for name, text, number in (
            ("heatlite_resources_drifted", "Resources that differ from their stored properties.", drifted),
            ("heatlite_resources_drift_unknown", "Resources whose drift no check could look at.", unknown),
            ("heatlite_stacks_drifted", "Root stacks with a drifted resource.", stacks),
        ):
            yield Gauge(name, text, (), {(): int(number)})


class EventResource(Struct, frozen=True):
    """A resource as its events name it."""

    id: str
    stack_id: str
    name: str
    type: str
    physical_id: str | None


def _new(news: ObjectNews, row: ResourceRecord) -> DriftRecord:
    return DriftRecord(row.id, news.project, news.root_id, row.stack_id, DriftState.UNKNOWN)


def _event(
    row: ResourceRecord | EventResource, before: DriftRecord | None, after: DriftRecord | None, now: float
) -> EventRecord | None:
    """Return the event of a change; None: it is no beginning and no end."""
    status = states.turn(before, after)
    if status is None:
        return None
    told = after if status == states.DETECTED else before
    reason = "" if told is None else told.paths[:MAX_REASON]
    return EventRecord(row.stack_id, row.name, row.type, row.physical_id, DRIFT, status, reason, now)


def _stack_fact(numbers: Iterable[Value]) -> JsonMap:
    drifted, unknown, checked_at = numbers
    return {"drift": {"drifted": int(drifted or 0), "unknown": int(unknown or 0), "checked_at": _time(checked_at)}}


def _resource_fact(state: DriftState, since: Value, checked_at: Value, number: int) -> JsonMap:
    return {
        "drift": {
            "state": str(state),
            "since": _time(since),
            "checked_at": _time(checked_at),
            "differences": number,
        }
    }


def _time(value: Value) -> str | None:
    return None if value is None else to_text(float(value))
