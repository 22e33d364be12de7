"""Suppressed requests: records of requests that a maintenance lock refused."""

import hashlib
import threading
from collections.abc import Callable
from functools import partial
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.clock import Clock
from heatlite.core.json import JsonMap, canonical, dump
from heatlite.core.reading import only_reads, require_engine, when_answered
from heatlite.engine.state.conflict_rules import Operation
from heatlite.store.records import SuppressedRecord
from heatlite.store.store import Store

MAX_CACHED_REFUSALS = 10_000
"""Requests whose repeats are counted in memory before they are written."""
WRITE_INTERVAL = 1.0
"""Seconds between two writes of one request's count; limits the load of a client that retries."""
MAX_SHOWN_REASON = 255
"""Longest reason in the effect of a request, in characters."""
MAX_SHOWN_BODY = 1000
"""Largest body shown unchanged, in characters of JSON."""


class _Refusal(Struct):
    """A refused request, as counted by this process."""

    written_at: float
    last_time: float
    pending: int = 0
    """Repeats not yet written."""


class Repeats(Struct, frozen=True):
    """Repeats of a recorded request, as counted by a reader."""

    stack_id: str
    digest: str
    roles: str
    last_time: float
    times: int


class SuppressedRequests:
    """Records refused requests, each once per lock, and counts repeats."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cached: dict[tuple[str, str, str], _Refusal] = {}
        """Keyed by stack, digest and roles; full requests would take gigabytes."""
        self._taken_next: dict[tuple[str, str, str], _Refusal] = {}
        """Those of a reader with repeats for the engine's process."""
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        """Held while all repeats are written, so that a list and the end of the process wait for that."""

    def add(self, entry: SuppressedRecord, locked_at: float, effect: Callable[[], JsonMap]) -> None:
        """Record a request, or count its repeat.

        Calls `effect` for a new request only, and raises what it raises. A reader counts repeats of a request that is
        listed, for `take_repeats`. It raises NeedsEngine for any other.
        """
        digest = self._store.suppressed.digest(entry, locked_at)
        key, now = (entry.stack_id, digest, canonical(entry.author.get("roles"))), entry.time
        if only_reads():
            self._count(key, now, effect)
            return
        with self._lock:
            refusal = self._cached.get(key)
            if refusal is not None:
                refusal.pending, refusal.last_time = refusal.pending + 1, now
                if now - refusal.written_at < WRITE_INTERVAL:
                    return
        if refusal is None or not self._write(entry.stack_id, digest, refusal):
            # New, or removed since by a replay or by the limit of the list, perhaps in another process.
            entry = replace(entry, effect=effect())
            with self._store.transaction():
                self._store.suppressed.add(entry, locked_at)
        self._remember(key, now)

    def _remember(self, key: tuple[str, str, str], now: float) -> None:
        """Note that a request has been written.

        Repeats that were counted meanwhile stay.
        """
        with self._lock:
            if key not in self._cached and len(self._cached) >= MAX_CACHED_REFUSALS:
                self._cached = {one: refusal for one, refusal in self._cached.items() if refusal.pending}
            if key in self._cached or len(self._cached) < MAX_CACHED_REFUSALS:
                self._cached.setdefault(key, _Refusal(now, now)).written_at = now

    def _count(self, key: tuple[str, str, str], now: float, effect: Callable[[], JsonMap]) -> None:
        """Count a repeat in a reader."""
        if not self._store.suppressed.is_listed(*key[:2]):
            require_engine()
        if key not in self._cached:
            effect()  # with other roles the caller may be refused for another reason
            self._remember(key, now)
        when_answered(partial(self._count_answered, key, now))

    def _count_answered(self, key: tuple[str, str, str], now: float) -> None:
        with self._lock:
            counted = self._taken_next.setdefault(key, _Refusal(now, now))
            counted.pending, counted.last_time = counted.pending + 1, now

    def take_repeats(self) -> list[Repeats]:
        """Return the repeats that a reader has counted, and forget them."""
        with self._lock:
            taken, self._taken_next = self._taken_next, {}
        return [Repeats(*key, one.last_time, one.pending) for key, one in taken.items()]

    def add_repeats(self, repeats: Repeats) -> None:
        """Count the repeats that a reader has counted. `flush` writes them."""
        key = (repeats.stack_id, repeats.digest, repeats.roles)
        with self._lock:
            refusal = self._cached.setdefault(key, _Refusal(repeats.last_time, repeats.last_time))
            refusal.pending += repeats.times
            refusal.last_time = max(refusal.last_time, repeats.last_time)

    def _write(self, stack_id: str, digest: str, refusal: _Refusal) -> bool:
        """Write the repeats counted in memory.

        Returns False if the request is no longer listed.
        """
        with self._lock:
            times, refusal.pending = refusal.pending, 0
        try:
            with self._store.transaction():
                return self._store.suppressed.count_repeat(stack_id, digest, refusal.last_time, times)
        except BaseException:
            with self._lock:
                refusal.pending += times
            raise

    def flush(self) -> None:
        """Write all repeats that the engine's process has counted."""
        require_engine()
        with self._writing:
            with self._lock:
                pending = [(key, refusal) for key, refusal in self._cached.items() if refusal.pending]
            for (stack_id, digest, _), refusal in pending:
                self._write(stack_id, digest, refusal)

    def remove(self, stack_id: str, number: int) -> bool:
        """Remove a request.

        Returns False if it is not listed. A repeat is recorded as a new request.
        """
        with self._store.transaction():
            is_there = self._store.suppressed.delete(stack_id, number)
        self.clear_cache()
        return is_there

    def clear_cache(self) -> None:
        """Look the next request of each kind up in the store.

        Counted repeats stay.
        """
        with self._lock:
            self._cached = {key: refusal for key, refusal in self._cached.items() if refusal.pending}
            for refusal in self._cached.values():
                refusal.written_at = -inf


def effect(operation: Operation, body: JsonMap | None) -> JsonMap:
    """Return the effect of a request whose body describes it completely."""
    if operation is Operation.SIGNAL:
        text = canonical(body)
        return {"bytes": len(text.encode()), "digest": hashlib.sha256(text.encode()).hexdigest()}
    if body is None:
        return {}
    if operation in (Operation.MARK, Operation.MARK_HEALTHY) and "marks" not in body:
        reason = body.get("resource_status_reason")
        shown: JsonMap = {"mark_unhealthy": body.get("mark_unhealthy")}
        return shown if reason is None else {**shown, "resource_status_reason": str(reason)[:MAX_SHOWN_REASON]}
    return body if len(dump(body)) <= MAX_SHOWN_BODY else {}
