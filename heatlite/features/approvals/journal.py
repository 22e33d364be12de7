"""Writes approvals, with events of their root stacks and counters."""

from msgspec.structs import replace

from heatlite.core.clock import Clock
from heatlite.core.runtime.meter import Meter
from heatlite.core.status import MAX_REASON
from heatlite.engine.state.unit_of_work import stack_event
from heatlite.features.approvals.metrics import APPROVALS
from heatlite.features.approvals.store.records import OF_STACKS, ApprovalRecord, ApprovalState
from heatlite.features.approvals.store.store import ApprovalStore
from heatlite.store.store import Store

VERB = "APPROVAL"
"""First word of the events: ``APPROVAL_REQUESTED``."""
_WORDS = {
    ApprovalState.APPROVED: "APPROVED",
    ApprovalState.REJECTED: "REJECTED",
    ApprovalState.EXPIRED: "EXPIRED",
}


class Journal:
    """Writes approvals. Call in a transaction."""

    def __init__(self, store: Store, clock: Clock, meter: Meter) -> None:
        self._store = store
        self._rows = store.of(ApprovalStore)
        self._clock = clock
        self._meter = meter
        meter.declare(APPROVALS)

    def requested(self, record: ApprovalRecord) -> None:
        """Write a new approval. Raises Duplicate if an equal one is open."""
        self._rows.insert(record)
        self._tell(record, "REQUESTED", f"by {record.requested_by}: {', '.join(record.because)}")
        self._meter.count(APPROVALS, record.subject.value, record.state.value)

    def moved(self, before: ApprovalRecord, after: ApprovalRecord) -> bool:
        """Write a change of state. Returns False if another one came first."""
        if not self._rows.move(before, after):
            return False
        word = _WORDS.get(after.state)
        if after.state is ApprovalState.DONE and before.state is ApprovalState.PENDING:
            word = "APPROVED"
        if word is not None:
            by = f"by {after.decided_by}" if after.decided_by else ""
            self._tell(after, word, ": ".join(filter(None, (by, after.reason))))
        self._meter.count(APPROVALS, after.subject.value, after.state.value)
        return True

    def _tell(self, record: ApprovalRecord, word: str, text: str) -> None:
        if record.subject not in OF_STACKS:
            return  # its feature tells of it
        stack = self._store.stacks.get(record.stack_id) if record.stack_id else None
        if stack is None:
            return
        about = f"{record.subject} of {record.resource or record.stack_name}, approval {record.id} {text}"
        event = replace(stack_event(stack, self._clock.now()), verb=VERB, status=word, physical_id=record.id)
        self._store.events.append_many([replace(event, status_reason=about[:MAX_REASON])])
