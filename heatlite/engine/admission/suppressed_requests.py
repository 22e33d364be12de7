"""What of a refused request goes to the list of suppressed requests (docs/decisions/0021-what-a-lock-hides.md)."""

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from heatlite.core.clock import Clock
from heatlite.core.json import JsonMap, canonical, dump
from heatlite.engine.state.conflict_rules import Operation
from heatlite.store.records import SuppressedRecord
from heatlite.store.store import Store

MOST_NOTED = 10_000
"""Requests whose repeats are counted in memory first."""
WRITE_INTERVAL = 1.0
"""Seconds between two writes of one request's count: a client that hammers a locked stack must not write each time."""
LONGEST_SHOWN = 255
"""Characters of a text in the effect of a request."""
LARGEST_SHOWN = 1000
"""Characters of a body that is shown as it is."""


@dataclass(slots=True)
class _Noted:
    """A request that this process has seen refused."""

    written_at: float
    last_time: float
    pending: int = 0
    """Repeats that are not written yet."""


class Suppression:
    """Keeps what locks refuse, each request once for each lock, and counts the repeats."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._noted: dict[tuple[str, str, str], _Noted] = {}
        """By stack, digest and roles. (The requests themselves would be gigabytes.)"""
        self._lock = threading.Lock()

    def note(self, entry: SuppressedRecord, locked_at: float, effect: Callable[[], JsonMap]) -> None:
        """List a request, or count its repeat. `effect` is asked only of one that is new; what it raises is raised."""
        digest = self._store.suppressed.digest(entry, locked_at)
        key, now = (entry.stack_id, digest, canonical(entry.author.get("roles"))), entry.time
        with self._lock:
            noted = self._noted.get(key)
            if noted is not None:
                noted.pending, noted.last_time = noted.pending + 1, now
                if now - noted.written_at < WRITE_INTERVAL:
                    return
        if noted is None or not self._write(entry.stack_id, digest, noted):
            # New; or it was dropped or replayed since, perhaps by another process.
            entry = replace(entry, effect=effect())
            with self._store.transaction():
                self._store.suppressed.add(entry, locked_at)
        with self._lock:
            if len(self._noted) >= MOST_NOTED:
                self._noted.clear()
            self._noted[key] = _Noted(now, now)

    def _write(self, stack_id: str, digest: str, noted: _Noted) -> bool:
        """Write the repeats that are counted in memory; False where the request is not listed any more."""
        with self._lock:
            times, noted.pending = noted.pending, 0
        with self._store.transaction():
            return self._store.suppressed.repeat(stack_id, digest, noted.last_time, times)

    def flush(self) -> None:
        """Write the counts of all repeats of which this process knows."""
        with self._lock:
            pending = [(key, noted) for key, noted in self._noted.items() if noted.pending]
        for (stack_id, digest, _), noted in pending:
            self._write(stack_id, digest, noted)

    def forget(self, stack_id: str, number: int) -> bool:
        """Take a request off the list; False where it is not there. What comes again is listed again."""
        with self._store.transaction():
            is_there = self._store.suppressed.delete(stack_id, number)
        self.forgotten()
        return is_there

    def forgotten(self) -> None:
        """Ask the store again of whatever comes."""
        with self._lock:
            self._noted.clear()


def effect(operation: Operation, body: JsonMap | None) -> JsonMap:
    """What a request would do, of an operation whose body says all of it."""
    if operation is Operation.SIGNAL:
        text = canonical(body)
        return {"bytes": len(text.encode()), "digest": hashlib.sha256(text.encode()).hexdigest()}
    if body is None:
        return {}
    if operation is Operation.MARK:
        reason = body.get("resource_status_reason")
        shown: JsonMap = {"mark_unhealthy": body.get("mark_unhealthy")}
        return shown if reason is None else {**shown, "resource_status_reason": str(reason)[:LONGEST_SHOWN]}
    return body if len(dump(body)) <= LARGEST_SHOWN else {}
