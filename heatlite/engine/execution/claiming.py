"""Claims of one worker: which actions it takes, and when."""

import threading
from functools import partial
from math import inf

from heatlite.core.clock import Clock
from heatlite.core.runtime.meter import Meter
from heatlite.engine.dispatch.slots import Slots
from heatlite.engine.execution.attempts import Attempt, AttemptTable, Reads
from heatlite.store.actions.claims import max_takeovers
from heatlite.store.store import Store

TAKEOVER_INTERVAL = 2.0
"""Seconds between claims of two actions that were taken over without progress.

If one of them ends the worker, no attempt of another ends with it.
"""


class Claiming:
    """Claims actions for the free slots of a worker."""

    def __init__(
        self, store: Store, clock: Clock, lease: float, owner: str, meter: Meter, slots: Slots, table: AttemptTable
    ) -> None:
        """`lease`: in seconds."""
        self.lock = threading.Lock()
        """Held during a claim: what is claimed is in the table, and no other thread takes the free slot."""
        self._store = store
        self._clock = clock
        self._lease = lease
        self._meter = meter
        self._slots = slots
        self._table = table
        self._owner = owner
        self._began = self._takeovers_from = clock.now()
        self._retry_times: set[float] = set()

    def claim(self, action_id: str | None = None) -> list[Attempt]:
        """Claim the named action, or the next ones. Empty: there is none, or no free slot."""
        with self.lock:
            free = self._table.free_slots(self._slots.limit)
            if not free:
                return []
            now, limits, store = self._clock.now(), self._slots.claim_filter(), self._store
            limit = max_takeovers(now - self._began) if now >= self._takeovers_from else 0
            claim_many, kinds, zones = store.claims.claim_many, limits.kinds, limits.zones
            claim = partial(claim_many, free, self._owner, now, self._lease, action_id, kinds, zones, limit)
            reads: dict[str, Reads] = {}
            if action_id is None:
                actions = claim()
            else:
                stack, rows = store.stacks.send_get, store.resources.send_of
                with store.transaction():  # so that one round trip claims and reads
                    actions = claim()
                    reads = {one.id: (stack(one.stack_id), rows(one.stack_id)) for one in actions}
            for action in actions:
                if action.takeovers:
                    self._takeovers_from = now + TAKEOVER_INTERVAL
                if action.attempt == 1:
                    submitted = max(action.created_at, action.not_before or 0.0)
                    self._meter.action_begun(action.verb, self._clock.now() - submitted)
            # Committed: without its commit a claim's number comes again.
            return [self._table.claim(action, reads.get(action.id)) for action in actions]

    def retry_at(self, moment: float) -> None:
        """Note the time at which an action may be claimed again (from any thread)."""
        self._retry_times.add(moment)

    def next_retry(self) -> float:
        """Return the next of these times; infinity if there is none."""
        now = self._clock.now()
        for moment in tuple(self._retry_times):
            if moment <= now:
                self._retry_times.discard(moment)
        return min(tuple(self._retry_times), default=inf)
