"""The audit log: each request that changes something, once."""

import logging
import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeAlias

import peewee
from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.json import canonical
from heatlite.core.runtime.bulkhead import check_may_wait, may_wait
from heatlite.store.database.paging import after, directed
from heatlite.store.database.sql import marks
from heatlite.store.database.statements import Value
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.audit import Audit
from heatlite.store.writes.batch import Table
from heatlite.store.writes.late_writes import LateWrites

log = logging.getLogger(__name__)

MAX_UNKNOWN = 10_000
"""Stored rows of each outcome without a known caller. Sending such requests needs no account."""
REPEAT_SECONDS = 60.0
"""Refusals that are equal in all but their time are one row in this time."""
MAX_DISTINCT = 100
"""Refusals of one caller with a row of their own in `DISTINCT_SECONDS`; more are one row per operation and status."""
DISTINCT_SECONDS = 3600.0
MAX_REFUSALS = 1000
"""Rows that are read for the refusals of one operation."""
MAX_CACHED = 1000
"""Refusals whose repeats are counted in memory. Those beyond are written at once."""


class AuditOutcome(StrEnum):
    """Results of a request."""

    DONE = "done"
    """Its change is committed; an operation that it queued may still be running."""
    REFUSED = "refused"
    """Nothing changed: the request is wrong, not permitted, or in conflict with something."""
    FAILED = "failed"
    """The server could not answer it."""


class AuditRecord(Struct, frozen=True):
    """One request. Times are seconds since the epoch."""

    request_id: str
    project: str
    time: float
    user: str | None
    """None if the caller is unknown."""
    user_id: str
    address: str
    method: str
    path: str
    operation: str
    """The rule of the access policy: ``stacks:create``."""
    stack_id: str | None = None
    stack_name: str | None = None
    resource: str | None = None
    target: str | None = None
    """Id or name of what else it concerns, such as a run or a token."""
    outcome: AuditOutcome = AuditOutcome.DONE
    status: int | None = None
    """Code of the answer, unless the request succeeded."""
    reason: str = ""
    plan_digest: str | None = None
    action_id: str | None = None
    """The queued action."""
    approval_id: str | None = None
    """The approval that was asked for, decided or used."""
    times: int = 1
    """Refused requests of this row: equal ones in a minute, or further ones of the caller in an hour."""
    last_time: float = 0.0
    """Time of the last of them. The log sets it."""


_ROWS = Rows(AuditRecord, Audit, computed={"repeat_key": lambda _: None})
_WRITTEN = _ROWS.written


class AuditQuery(Struct, frozen=True):
    """Filters of a list. Values of one field are alternatives."""

    user: tuple[str, ...] = ()
    operation: tuple[str, ...] = ()
    outcome: tuple[str, ...] = ()
    stack: tuple[str, ...] = ()
    """Ids or names."""
    address: tuple[str, ...] = ()
    request_id: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    limit: int = 100
    marker: str | None = None
    """Request id of the last row of the page before."""


_Same: TypeAlias = tuple[object, ...]
"""Values that are the same in equal refusals."""


def _same(record: AuditRecord) -> _Same:
    same = (
        record.time // REPEAT_SECONDS, record.project, record.user, record.user_id, record.address, record.method,
        record.operation, record.status,
    )  # fmt: skip
    return same if record.user is None else (*same, record.path, record.reason)


class _Repeats(Struct):
    """Repeats of a refusal that has a row."""

    last: AuditRecord
    pending: int = 0
    """Repeats not yet written."""


class AuditEntry:
    """The row of one request, from its begin to its answer."""

    def __init__(self, rows: "AuditLog", describe: Callable[[], AuditRecord]) -> None:
        self._rows = rows
        self._describe = describe
        self._written: AuditRecord | None = None
        rows.database.before_commit(self._write)

    def _write(self) -> None:
        self._written = self._describe()
        self._rows.insert(self._written)

    def close(self, is_kept: bool = True) -> None:
        """Write the outcome of the request, unless its row has it.

        Without `is_kept` the request leaves no row. Raises DatabaseUnavailable.
        """
        is_stored = not self._rows.database.withdraw() and self._written is not None
        may_be_stored = self._written is not None  # the answer to a commit may have been lost
        if not may_be_stored and not is_kept:
            return
        record = self._describe()
        if is_stored and is_kept and record == self._written:
            return
        if not may_be_stored and record.outcome is AuditOutcome.REFUSED and self._rows.is_repeat(record):
            return
        with self._rows.database.transaction():
            if may_be_stored:
                self._rows.remove([record.request_id])
            if is_kept:
                self._rows.insert(record)


class AuditLog:
    """Requests of all projects."""

    def __init__(self, encryption: FieldEncryption, late_writes: LateWrites) -> None:
        self.database = database = encryption.database
        self._encryption = encryption
        self._table = Table(encryption, _ROWS)
        # Plain SQL: each refusal runs it, and peewee would take longer to write it than the database to run it.
        self._insert = f"INSERT INTO audit ({database.quote(*_WRITTEN)}) VALUES ({marks(_WRITTEN)})"
        of_action = "FROM stack JOIN action ON action.stack_id = stack.id WHERE action.id = ?"
        values = dict.fromkeys(_WRITTEN, "?")
        values |= {"stack_id": f"(SELECT stack.id {of_action})", "stack_name": f"(SELECT stack.name {of_action})"}
        # A create has its stack from the action that it queued.
        created = ", ".join(values.values())
        self._insert_created = f"INSERT INTO audit ({database.quote(*_WRITTEN)}) VALUES ({created})"
        repeated = database.backend.on_conflict.format(key="repeat_key")
        times, last = (database.backend.new_value.format(column=name) for name in ("times", "last_time"))
        self._count = f"{self._insert} {repeated} times = audit.times + {times}, last_time = {last}"
        refused = " AND ".join(f"{name} = ?" for name in map(database.quote, ("user", "user_id", "outcome")))
        self._last_distinct = f"SELECT request_id FROM audit WHERE {refused} AND time >= ? LIMIT 1 OFFSET ?"
        self._cached: dict[_Same, _Repeats] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        """Held while repeats are written, so that a list and the end of the process wait for that."""
        self._late_writes = late_writes
        late_writes.add(self.flush)

    def begin(self, describe: Callable[[], AuditRecord]) -> AuditEntry:
        """Begin the row of the request that this thread serves.

        The request's first transaction writes it, so that no change is without one. `describe` returns the row as far
        as the request has come. The caller closes the entry.
        """
        return AuditEntry(self, describe)

    def insert(self, record: AuditRecord) -> None:
        """Add a row, or count a repeated refusal."""
        row = self._table.cells(replace(record, last_time=record.time))
        if record.stack_id is None and record.action_id is not None and record.outcome is not AuditOutcome.REFUSED:
            row["stack_id"] = row["stack_name"] = record.action_id
            self.database.send(self._insert_created, [*row.values()])
            return
        if record.outcome is AuditOutcome.REFUSED:
            row["repeat_key"] = self._repeat_key(record)
        self.database.send(self._count if row["repeat_key"] else self._insert, [*row.values()])

    def is_repeat(self, record: AuditRecord) -> bool:
        """Count a repeat of a refusal in memory, and return True.

        Return False for the first one of this process, which the caller writes. Repeats are written later, so a client
        that retries neither waits for the database's writer nor delays it. A thread that must not write has repeats
        only: the first one may be of another minute, or forgotten.
        """
        key = _same(record)
        with self._lock:
            found = self._cached.get(key)
            if found is None and not may_wait():
                found = self._cached[key] = _Repeats(record)
            if found is not None:
                found.last, found.pending = record, found.pending + 1
                self._late_writes.ask()
                return True
            self._forget()
            if len(self._cached) < MAX_CACHED:
                self._cached[key] = _Repeats(record)
        return False

    def _forget(self) -> None:
        """Forget refusals without pending repeats, if there are many.

        Call with the lock held.
        """
        if len(self._cached) >= MAX_CACHED:
            self._cached = {same: one for same, one in self._cached.items() if one.pending}

    def flush(self) -> None:
        """Write the repeats that this process has counted. Raises DatabaseUnavailable."""
        check_may_wait()
        with self._writing:
            self._write_counted()

    def _write_counted(self) -> None:
        with self._lock:
            self._forget()  # a thread that must not write adds to full ones, too
            counted = [(one, one.last, one.pending) for one in self._cached.values() if one.pending]
            for one, _, _ in counted:
                one.pending = 0
        if not counted:
            return
        try:
            with self.database.transaction():
                for _, last, times in counted:
                    self.insert(replace(last, times=times))
        except BaseException:
            with self._lock:
                for one, _, times in counted:
                    one.pending += times
            raise

    def _repeat_key(self, record: AuditRecord) -> str:
        if record.user is not None and self._has_most(record):
            hour = record.time // DISTINCT_SECONDS
            further = ["further", hour, record.user, record.user_id, record.method, record.operation, record.status]
            return self._encryption.digest(canonical(further))
        return self._encryption.digest(canonical(_same(record)))

    def _has_most(self, record: AuditRecord) -> bool:
        """Return True if the caller has `MAX_DISTINCT` refusals in this hour."""
        begin = record.time // DISTINCT_SECONDS * DISTINCT_SECONDS
        mine = (record.user, record.user_id, str(AuditOutcome.REFUSED), begin, MAX_DISTINCT - 1)
        return bool(self.database.read(self._last_distinct, mine))

    def page(self, project: str, query: AuditQuery) -> list[AuditRecord]:
        """Return a page of a project's requests, newest first."""
        self.flush()
        wanted: list[peewee.ColumnBase] = [Audit.project == project]
        for name in ("user", "operation", "outcome", "address", "request_id"):
            values: tuple[str, ...] = getattr(query, name)
            if values:
                wanted.append(getattr(Audit, name).in_(values))
        if query.stack:
            wanted.append(Audit.stack_id.in_(query.stack) | Audit.stack_name.in_(query.stack))
        if query.since is not None:
            wanted.append(Audit.time >= query.since)
        if query.until is not None:
            wanted.append(Audit.time < query.until)
        order = (Audit.time, Audit.request_id)
        if query.marker is not None:
            marked = self.database.select(Audit.select(*order).where(Audit.request_id == query.marker))
            wanted += [after(order, row, descending=True) for row in marked]
        rows = Audit.select(*_ROWS.selected()).where(*wanted).order_by(*directed(order, descending=True))
        return self._table.records(self.database.select(rows.limit(query.limit)))

    def refusals(self, project: str, operation: str, since: float) -> list[AuditRecord]:
        """Return the newest refused requests for an operation, latest first."""
        rest = "WHERE project = ? AND operation = ? AND outcome = ? AND time >= ? ORDER BY last_time DESC"
        wanted = (project, operation, str(AuditOutcome.REFUSED), since)
        return self._table.select(f"{rest} LIMIT {MAX_REFUSALS}", wanted)

    def last_of_stack(self, project: str, stack_id: str, since: float) -> AuditRecord | None:
        """Return the newest request on a stack since a moment."""
        # As text: peewee takes longer to make it than the database to answer, and each reason of an action asks.
        rest = "WHERE project = ? AND time >= ? AND stack_id = ? ORDER BY last_time DESC, request_id DESC LIMIT 1"
        return self._table.first(rest, (project, since, stack_id))

    def has(self, project: str, request_id: str) -> bool:
        """Return whether a project has a row of a request."""
        found = Audit.select(Audit.request_id).where(Audit.project == project, Audit.request_id == request_id)
        return bool(self.database.select(found))

    def older_than(self, moment: float, limit: int) -> list[str]:
        """Return the request ids of rows from before a moment, oldest first."""
        return self._ids("time < ? ORDER BY time LIMIT ?", moment, limit)

    def over_limit(self, limit: int) -> list[str]:
        """Return the request ids of rows without a caller beyond the limit of an outcome."""
        rest = f"{self.database.quote('user')} IS NULL AND outcome = ? ORDER BY time DESC LIMIT ? OFFSET ?"
        return [found for outcome in AuditOutcome for found in self._ids(rest, str(outcome), limit, MAX_UNKNOWN)]

    def remove(self, ids: Sequence[str]) -> None:
        """Remove rows."""
        self.database.change(Audit.delete().where(Audit.request_id.in_(ids)))

    def _ids(self, condition: str, *parameters: Value) -> list[str]:
        rows = self.database.read(f"SELECT request_id FROM audit WHERE {condition}", parameters)
        return [str(request_id) for (request_id,) in rows]
