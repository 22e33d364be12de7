"""Incidents."""

import hashlib
from collections.abc import Sequence

from msgspec import Struct

from heatlite.core.actions.decisions import Decision, DecisionStep
from heatlite.core.context import Context
from heatlite.features.healing.store.observations import open_key
from heatlite.features.healing.store.records import IncidentRecord
from heatlite.features.healing.store.tables import Incident
from heatlite.features.healing.terms import Brake, IncidentState
from heatlite.store.database.sql import chunks, marks
from heatlite.store.database.statements import Value
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table
from heatlite.store.writes.record_store import RecordStore

REPAIR = "repair"
"""Subject of decisions."""
_CLOSED = str(IncidentState.CLOSED)
_BEFORE_REPAIR = tuple(
    str(state)
    for state in (IncidentState.OBSERVED, IncidentState.CONFIRMED, IncidentState.MARKED, IncidentState.PROPOSED)
)


class IncidentQuery(Struct, frozen=True):
    """Filters of a list of incidents."""

    state: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    stack_id: tuple[str, ...] = ()
    """Ids of stacks with the resources, or of the roots of their trees."""
    path: tuple[str, ...] = ()
    closed_as: tuple[str, ...] = ()
    limit: int | None = None
    marker: str | None = None


def digest(physical_id: str) -> str:
    """Return the digest by which the incidents of an object are found."""
    return hashlib.sha256(physical_id.encode()).hexdigest()


def _open_key(record: IncidentRecord) -> str | None:
    is_open = record.state is not IncidentState.CLOSED
    return open_key(record.root_id, record.path, record.source) if is_open else None


_ROWS = Rows(
    IncidentRecord,
    Incident,
    computed={"open_key": _open_key, "object_digest": lambda record: digest(record.physical_id)},
)


def decision_of(step: DecisionStep, record: IncidentRecord, by: Context | None = None) -> Decision:
    """Return a step of the decision about the repair that an incident proposes."""
    digest_ = record.plan_digest or ""
    return Decision(step, REPAIR, record.id, record.project, record.root_id, by, digest_, record.path)


class Incidents(RecordStore[IncidentRecord]):
    """Incidents. Each method is one statement, or one per `IN_LIMIT` rows."""

    def __init__(self, encryption: FieldEncryption) -> None:
        super().__init__(encryption, Table(encryption, _ROWS))

    def move(self, record: IncidentRecord) -> bool:
        """Write an incident if it is unchanged since it was read, and count its version.

        Returns False if it has changed since; nothing is written then.
        """
        values = dict(zip(_ROWS.written, _ROWS.rows([record])[0], strict=True))
        del values["id"]
        del values["object_digest"]  # reports on the object before a repair must still be known
        values["version"] = record.version + 1
        changes = ", ".join(f"{self._database.quote(name)} = ?" for name in values)
        sql = f"UPDATE incident SET {changes} WHERE id = ? AND version = ?"
        if self._database.write(sql, (*values.values(), record.id, record.version)) != 1:
            return False
        self._decide(record)
        return True

    def _decide(self, record: IncidentRecord) -> None:
        """Tell that an incident proposes a repair, or proposes none any more."""
        came_from = record.history[-1].before if record.history else ""
        if record.state is IncidentState.PROPOSED:
            self._database.listeners.decided(decision_of(DecisionStep.ASKED, record))
        elif came_from == IncidentState.PROPOSED:
            begun = record.state is IncidentState.REPAIRING
            self._database.listeners.decided(
                decision_of(DecisionStep.APPROVED if begun else DecisionStep.ENDED, record)
            )

    def note_reports(self, incident_ids: Sequence[str], now: float) -> None:
        """Count a report for each incident. One that a report may lead on becomes due."""
        may_go_on = f"evidence_since IS NULL OR state = 'OBSERVED' AND reason = '{Brake.CONFIRMING}'"
        for some in chunks(incident_ids):
            self._database.write(
                f"UPDATE incident SET due = CASE WHEN {may_go_on} THEN ? ELSE due END,"
                " evidence_since = COALESCE(evidence_since, ?), last_report_at = ?, reports = reports + 1,"
                f" version = version + 1 WHERE id IN ({marks(some)}) AND state <> '{_CLOSED}'",
                (now, now, now, *some),
            )

    def wake(self, incident_ids: Sequence[str], now: float) -> None:
        """Make open incidents due."""
        for some in chunks(incident_ids):
            self._database.write(
                f"UPDATE incident SET due = ?, version = version + 1 WHERE id IN ({marks(some)})"
                f" AND state <> '{_CLOSED}'",
                (now, *some),
            )

    def wake_tree(self, root_id: str, now: float) -> None:
        """Make the open incidents of a tree due: its state has changed."""
        sql = "UPDATE incident SET due = ?, version = version + 1 WHERE root_id = ? AND due > ?"
        self._database.send(sql, (now, root_id, now))

    def take_over_mark(self, incident_id: str) -> None:
        """Let an incident hold a mark that another one has set."""
        self._database.write(
            "UPDATE incident SET is_marked = ?, version = version + 1 WHERE id = ?", (True, incident_id)
        )

    def postpone(self, root_id: str, now: float, until: float) -> None:
        """Look at the due incidents of a tree later."""
        sql = "UPDATE incident SET due = ?, version = version + 1 WHERE root_id = ? AND due <= ?"
        self._database.write(sql, (until, root_id, now))

    def demand_evidence(self, now: float, root_id: str | None = None, source: tuple[str, str] | None = None) -> None:
        """Ignore earlier reports for incidents that await repair.

        They are those of a tree, a source, or all. `source` is the project and the name of a source.
        """
        sql = (
            "UPDATE incident SET evidence_after = ?, evidence_since = NULL, reports = 0, due = ?, version = version + 1"
            f" WHERE state IN ({marks(_BEFORE_REPAIR)})"
        )
        values: list[Value] = [now, now, *_BEFORE_REPAIR]
        if root_id is not None:
            sql, values = f"{sql} AND root_id = ?", [*values, root_id]
        if source is not None:
            sql, values = f"{sql} AND project = ? AND source = ?", [*values, *source]
        self._database.write(sql, values)

    def due_roots(self, now: float, limit: int) -> list[str]:
        """Return the roots of what is due longest, each once.

        Incidents are due, and trees with new marks.
        """
        due = "SELECT * FROM (SELECT root_id, due FROM {} WHERE due <= ? ORDER BY due LIMIT ?) AS {}"
        sql = f"{due.format('incident', 'a')} UNION ALL {due.format('healing_policy', 'b')} ORDER BY due LIMIT ?"
        rows = self._database.read(f"SELECT root_id FROM ({sql}) AS c", (now, limit, now, limit, limit))
        return list(dict.fromkeys(root_id for (root_id,) in rows))

    def exist(self) -> bool:
        """Return True if there is an incident or a healing policy."""
        return any(self._database.read(f"SELECT 1 FROM {table} LIMIT 1") for table in ("incident", "healing_policy"))

    def open_of_root(self, root_id: str) -> list[IncidentRecord]:
        """Return the open incidents of a tree, oldest first."""
        return self._table.select("WHERE root_id = ? AND state <> ? ORDER BY created_at, id", (root_id, _CLOSED))

    def proposed(self, root_id: str | None = None) -> list[IncidentRecord]:
        """Return the incidents that propose a repair, or those of a tree."""
        where, values = ("", ()) if root_id is None else (" AND root_id = ?", (root_id,))
        return self._table.select(f"WHERE state = ?{where} ORDER BY id", (IncidentState.PROPOSED, *values))

    def open_of_resources(self, resource_ids: Sequence[str]) -> list[IncidentRecord]:
        """Return the open incidents of rows, oldest first."""
        out = self._table.select_in("WHERE resource_id IN () AND state <> ?", resource_ids, _CLOSED)
        return sorted(out, key=lambda one: (one.created_at, one.id))

    def open_of_slots(self, slots: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
        """Return the ids of the open incidents of slots: root, path and source of each."""
        by_key = {open_key(*slot): slot for slot in slots}
        sql = "SELECT open_key, id FROM incident WHERE open_key IN ()"
        return {by_key[key]: incident_id for key, incident_id in self._database.read_in(sql, [*by_key])}

    def of_object(self, project: str, physical_id: str) -> list[IncidentRecord]:
        """Return the incidents that were opened for an object, newest first."""
        rest = "WHERE project = ? AND object_digest = ? ORDER BY created_at DESC"
        return self._table.select(rest, (project, digest(physical_id)))

    def count_open(self, project: str) -> int:
        """Return the number of open incidents of a project."""
        rest = "SELECT COUNT(*) FROM incident WHERE project = ? AND state <> ?"
        ((number,),) = self._database.read(rest, (project, _CLOSED))
        return int(number)

    def count_slots(self, project: str, source: str, since: float, only_open: bool) -> int:
        """Return the number of slots with incidents opened by a source since a moment."""
        sql = (
            "SELECT COUNT(*) FROM (SELECT DISTINCT root_id, path FROM incident"
            " WHERE project = ? AND source = ? AND created_at >= ?"
        )
        sql += f" AND state <> '{_CLOSED}') AS slots" if only_open else ") AS slots"
        ((number,),) = self._database.read(sql, (project, source, since))
        return int(number)

    def count_resources(self, project: str, source: str, since: float) -> int:
        """Count a project's live resources of the types of recent incidents."""
        sql = (
            "SELECT COUNT(*) FROM resource JOIN stack ON stack.id = resource.stack_id"
            " WHERE stack.project = ? AND stack.deleted_at IS NULL AND resource.mapped_type IN (SELECT mapped_type"
            " FROM resource WHERE id IN (SELECT resource_id FROM incident"
            " WHERE project = ? AND source = ? AND created_at >= ?))"
        )
        ((number,),) = self._database.read(sql, (project, project, source, since))
        return int(number)

    def roots_of_source(self, project: str, source: str) -> list[str]:
        """Return the roots of the trees in which a source has open incidents."""
        sql = "SELECT DISTINCT root_id FROM incident WHERE project = ? AND source = ? AND state <> ?"
        return [root_id for (root_id,) in self._database.read(sql, (project, source, _CLOSED))]

    def count_by_state(self) -> dict[str, int]:
        """Return the number of open incidents by state."""
        sql = "SELECT state, COUNT(*) FROM incident WHERE due IS NOT NULL GROUP BY state"
        return dict(self._database.read(sql))

    def count_by_reason(self) -> dict[str, int]:
        """Return the number of held incidents by the first reason."""
        sql = "SELECT reason, COUNT(*) FROM incident WHERE due IS NOT NULL AND reason IS NOT NULL GROUP BY reason"
        return dict(self._database.read(sql))

    def page(self, project: str, query: IncidentQuery) -> list[IncidentRecord]:
        """Return a page of a project's incidents, newest first."""
        rest, values = "WHERE project = ?", [project]
        for name in ("state", "source", "path", "closed_as"):
            wanted: tuple[str, ...] = getattr(query, name)
            if wanted:
                rest, values = f"{rest} AND {name} IN ({marks(wanted)})", [*values, *wanted]
        if stacks := query.stack_id:
            rest += f" AND (stack_id IN ({marks(stacks)}) OR root_id IN ({marks(stacks)}))"
            values += [*stacks, *stacks]
        parameters: list[Value] = [*values]
        marker = None if query.marker is None else self.get(query.marker)
        if marker is not None:
            rest += " AND (created_at < ? OR created_at = ? AND id < ?)"
            parameters += [marker.created_at, marker.created_at, marker.id]
        rest += " ORDER BY created_at DESC, id DESC"
        if query.limit is not None:
            rest, parameters = f"{rest} LIMIT ?", [*parameters, query.limit]
        return self._table.select(rest, parameters)

    def older_than(self, moment: float, limit: int) -> list[str]:
        """Return the ids of incidents that were closed before a moment."""
        sql = "SELECT id FROM incident WHERE closed_at < ? ORDER BY closed_at LIMIT ?"
        return [number for (number,) in self._database.read(sql, (moment, limit))]
