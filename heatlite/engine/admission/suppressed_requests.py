"""Suppressed requests: records of requests that a maintenance lock refused."""

import hashlib
import threading
from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from heatlite.core.json import JsonMap, canonical, dump
from heatlite.core.runtime.bulkhead import check_may_wait
from heatlite.engine.state.conflict_rules import Operation
from heatlite.store.records import SuppressedRecord
from heatlite.store.store import Store

MAX_EXAMINED = 10_000
"""Requests that are remembered as examined."""
MAX_SHOWN_REASON = 255
"""Longest reason in the effect of a request, in characters."""
MAX_SHOWN_BODY = 1000
"""Largest body shown unchanged, in characters of JSON."""


_Key: TypeAlias = tuple[str, str]
"""Id of the stack, and digest of the request."""


class SuppressedRequests:
    """Records refused requests, each once per lock, and counts repeats.

    Each process counts repeats in memory for a second: a client that retries neither waits for the database's writer
    nor delays it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._examined: set[tuple[str, str, str]] = set()
        """Stack, digest and roles of requests whose effect was examined; full requests would take gigabytes."""
        self._repeats: dict[_Key, tuple[float, int]] = {}
        """Time of the last repeat, and number of those not yet written."""
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        """Held while repeats are written, so that a list and the end of the process wait for that."""
        store.late_writes.add(self.flush)

    def add(self, entry: SuppressedRecord, locked_at: float, effect: Callable[[], JsonMap]) -> None:
        """Record a request, or count its repeat.

        Calls `effect` for a new request, and for one of a caller with other roles: it may raise that this caller is
        refused for another reason.
        """
        key = (entry.stack_id, self._store.suppressed.digest(entry, locked_at))
        examined = (*key, canonical(entry.author.get("roles")))
        is_listed = self._store.suppressed.is_listed(*key)
        if not is_listed or examined not in self._examined:
            entry = replace(entry, effect=effect())
        if not is_listed:
            with self._store.transaction():
                self._store.suppressed.add(entry, locked_at)
        with self._lock:
            if len(self._examined) >= MAX_EXAMINED:
                self._examined.clear()
            self._examined.add(examined)
            if is_listed:
                self._repeats[key] = entry.time, self._repeats.get(key, (0.0, 0))[1] + 1
        if is_listed:
            self._store.late_writes.ask()

    def flush(self) -> None:
        """Write the repeats that this process has counted. Raises DatabaseUnavailable."""
        check_may_wait()
        with self._writing:
            with self._lock:
                counted, self._repeats = self._repeats, {}
            if not counted:
                return
            try:
                with self._store.transaction():
                    for key, (last_time, times) in counted.items():
                        self._store.suppressed.count_repeat(*key, last_time, times)
            except BaseException:
                with self._lock:
                    for key, (last_time, times) in counted.items():
                        later, more = self._repeats.get(key, (last_time, 0))
                        self._repeats[key] = later, times + more
                raise

    def remove(self, stack_id: str, number: int) -> bool:
        """Remove a request.

        Returns False if it is not listed. A repeat is recorded as a new request.
        """
        self.flush()
        with self._store.transaction():
            return self._store.suppressed.delete(stack_id, number)


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
