"""Leases of one worker: renewed while it holds the actions."""

from collections.abc import Collection

from heatlite.core.clock import Clock
from heatlite.core.runtime.timer import for_each
from heatlite.engine.execution.attempts import HELD, AttemptState, AttemptTable
from heatlite.engine.execution.claiming import Claiming
from heatlite.engine.execution.sweep import POLL_INTERVAL
from heatlite.store.database.limits import Pace
from heatlite.store.store import Store


class Leases:
    """Renews the leases of a worker when a third of their time is over."""

    def __init__(
        self, store: Store, clock: Clock, lease: float, owner: str, table: AttemptTable, claiming: Claiming
    ) -> None:
        """`lease`: in seconds."""
        self._store = store
        self._clock = clock
        self._lease = lease
        self._owner = owner
        self._table = table
        self._claiming = claiming
        self._renewed_at = clock.now()

    def keep(self) -> float:
        """Renew the leases if it is time. Returns the pause until the next call."""
        now = self._clock.now()
        # Also once the clock was set back: what is claimed since has a lease by the new time.
        if not 0 <= now - self._renewed_at < self._lease / 3:
            self._renew(now)
            self._renewed_at = now
            parked = [attempt.action.id for attempt in self._table.of((AttemptState.PARKED,))]
            for action in self._store.actions.ended(parked):
                self._table.drop(action.id)
        return POLL_INTERVAL

    def _renew(self, now: float) -> None:
        with self._claiming.lock:
            own = {attempt.action.id for attempt in self._table.of(HELD)}
            if not own.issuperset(self._store.claims.held_by(self._owner)):
                # The answer to a claim was lost: no thread of this worker runs the action.
                reason = "its worker did not receive the claim"
                with self._store.transaction():
                    self._store.claims.release(self._owner, now, reason, keeps=own)
        if own:
            # Waiting for one locked row would let all leases expire.
            with self._store.database.limits_of(Pace.REQUEST):
                renew_leases(self._store, self._owner, own, now + self._lease)


def renew_leases(store: Store, owner: str, action_ids: Collection[str], until: float) -> None:
    """Renew leases until that time (seconds since the epoch).

    Raises DatabaseUnavailable after the last one.
    """
    with store.transaction():
        skipped = store.claims.heartbeat(owner, action_ids, until)

    def renew(action_id: str) -> None:
        with store.transaction():
            store.claims.heartbeat_one(owner, action_id, until)

    for_each(skipped, renew)
