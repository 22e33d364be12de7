"""Decisions: approve, reject, expire."""

import logging
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from heatlite.core.actions.decisions import Decider, Decision, DecisionStep
from heatlite.core.clock import Clock, to_text
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import (
    DatabaseUnavailable,
    EntityNotFound,
    Forbidden,
    HeatliteError,
    InvalidStackState,
    MultipleChoices,
    NotFound,
    NotSupported,
)
from heatlite.core.ids import random_id
from heatlite.core.json import JsonMap
from heatlite.core.runtime.meter import Meter
from heatlite.core.runtime.timer import for_each
from heatlite.core.status import ActionStatus, Result
from heatlite.engine.admission.admission import audit
from heatlite.engine.execution.termination import outputs
from heatlite.engine.operations.asked import RETRY
from heatlite.engine.operations.scheduled_requests import ScheduledRequests
from heatlite.engine.state.conflict_rules import Operation, maintenance_refusal
from heatlite.features.approvals.errors import ApprovalChanged, InvalidApprovalState
from heatlite.features.approvals.journal import Journal
from heatlite.features.approvals.people import four_eyes, identity, is_requester, time_to_live
from heatlite.features.approvals.store.records import ApprovalRecord, ApprovalState, Subject
from heatlite.features.approvals.store.store import ApprovalStore, ended
from heatlite.store.errors import Fenced
from heatlite.store.records import ActionRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

MOST_CANDIDATES = 10
"""Approvals that the error for an ambiguous id names."""
APPROVE = "stacks:approve"
HEALING = "healing"
"""Requester of proposed repairs. No user is the same."""
YOURSELF = "You have requested it yourself: another user must decide (four_eyes in a change policy)."
_AFTER = {
    DecisionStep.APPROVED: ApprovalState.DONE,
    DecisionStep.REJECTED: ApprovalState.REJECTED,
    DecisionStep.ENDED: ApprovalState.OBSOLETE,
}
_BECAUSE = {Subject.NODE_ACTION: "node_action", Subject.PLAYBOOK_RUN: "playbook", Subject.REPAIR: "healing"}
EXPIRY_USER = "heatlite: expiry"
"""User of what the server decides because the time is over."""
OF_FEATURES = frozenset(_BECAUSE)
"""Subjects that are work of features."""


class Approvals:
    """Reads and decides approvals."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        scheduled: Callable[[], ScheduledRequests],
        meter: Meter,
        deciders: Callable[[], Mapping[str, Decider]],
    ) -> None:
        """`deciders` decide about work of features, by subject."""
        self._deciders = deciders
        self._store = store
        self._rows = store.of(ApprovalStore)
        self._clock = clock
        self._settings = settings
        self._scheduled = scheduled
        self._journal = Journal(store, clock, meter)

    def get(self, project: str, reference: str) -> ApprovalRecord:
        """Return the approval of a project with an id, or a beginning of one.

        It has its content.

        Raises EntityNotFound, MultipleChoices.
        """
        found = self._rows.find(project, reference, MOST_CANDIDATES + 1)
        if len(found) > 1:
            ids = ", ".join(one.id for one in found[:MOST_CANDIDATES])
            raise MultipleChoices(f"{reference} matches several approvals. Use the id of one: {ids}.")
        record = self._rows.get(found[0].id) if found else None
        if record is None:
            raise EntityNotFound(entity="Approval", name=reference)
        return record

    def rule(self, record: ApprovalRecord) -> str:
        """Return the rule that a decision needs."""
        decider = self._deciders().get(record.subject)
        return APPROVE if decider is None else decider.rule

    def content(self, record: ApprovalRecord) -> JsonMap:
        """Return what will run, and where."""
        decider = self._deciders().get(record.subject)
        return record.content if decider is None else decider.content(_target(record))

    def may_decide(self, context: Context, record: ApprovalRecord) -> bool:
        """Return whether a caller may decide now."""
        if record.state is not ApprovalState.PENDING or not context.may(self.rule(record)):
            return False
        return not (is_requester(context, record) and self._needs_another(record))

    def _needs_another(self, record: ApprovalRecord) -> bool:
        """Return whether the requester may not decide."""
        decider = self._deciders().get(record.subject)
        by_another = decider is not None and decider.by_another
        return by_another or self._has_four_eyes(record)

    def _has_four_eyes(self, record: ApprovalRecord) -> bool:
        return four_eyes(self._store, self._settings, record.project, record.stack_id)

    def approve(self, context: Context, record: ApprovalRecord, digest: str, reason: str) -> ApprovalRecord:
        """Approve, and begin what waits. Returns the approval as it is then.

        Raises ApprovalChanged, InvalidApprovalState, Forbidden for the requester where another user has to decide, and
        what refuses the operation, which leaves the approval as it is.
        """
        self._check(context, record, "approved", digest)
        decider = self._decider(record)
        if decider is not None:
            decider.approve(context, _target(record), digest)
            return self._with_reason(record, reason)
        decided = replace(record, decided_by=context.user, decided_at=self._clock.now(), reason=reason)
        action = None if record.action_id is None else self._store.actions.get(record.action_id)
        if action is not None and action.not_before is not None:
            self._approve_ahead(record, decided, action)
            return self._again(record)
        self._check_lock(context, record)
        if record.action_id is None:
            with self._store.transaction():
                self._move(record, replace(decided, state=ApprovalState.APPROVED), "approved")
        else:
            self._begin(record, decided)
        audit.info("approval %s of %s approved by=%s", record.id, record.subject, context.user)
        return self._again(record)

    def reject(self, context: Context, record: ApprovalRecord, reason: str) -> ApprovalRecord:
        """Reject. An action that waits ends CANCELLED. Returns the approval as it is then.

        Raises InvalidApprovalState, and Forbidden as `approve`.
        """
        self._check(context, record, "rejected", None)
        decider = self._decider(record)
        if decider is not None:
            decider.reject(context, _target(record), reason)
            return self._with_reason(record, reason)
        decided = replace(record, decided_by=context.user, decided_at=self._clock.now(), reason=reason)
        with self._store.transaction():
            self._end(record, ended(decided, ApprovalState.REJECTED), f"Rejected by {context.user}", "rejected")
        audit.info("approval %s of %s rejected by=%s", record.id, record.subject, context.user)
        return self._again(record)

    def _decider(self, record: ApprovalRecord) -> Decider | None:
        """Return what decides about the work of a feature; None for operations on stacks.

        Raises Unsupported if the feature is off.
        """
        found = self._deciders().get(record.subject)
        if found is None and record.subject in OF_FEATURES:
            raise NotSupported(feature=f"{record.subject} (its feature is off)")
        return found

    def _with_reason(self, record: ApprovalRecord, reason: str) -> ApprovalRecord:
        """Return an approval that a feature has decided, with the text of who decided."""
        found = self._again(record)
        if reason and not found.is_open:
            after = replace(found, reason=reason)
            with self._store.transaction():
                self._rows.move(found, after)
            return after
        return found

    def _check(self, context: Context, record: ApprovalRecord, what: str, digest: str | None) -> None:
        over = record.expires_at is not None and record.expires_at <= self._clock.now()
        if record.state is not ApprovalState.PENDING or over:
            state = ApprovalState.EXPIRED if record.is_open and over else record.state
            raise InvalidApprovalState(record, state, what)
        # A requester may always reject, also where only another user may approve.
        needs_another = self._has_four_eyes(record) if digest is None else self._needs_another(record)
        if needs_another and is_requester(context, record):
            raise Forbidden(YOURSELF)
        if digest is not None and digest != record.digest:
            raise ApprovalChanged(record, digest)

    def _approve_ahead(self, record: ApprovalRecord, decided: ApprovalRecord, action: ActionRecord) -> None:
        """Approve a scheduled request, which begins at its time.

        Raises PlanChanged, InvalidApprovalState.
        """
        stack = self._store.stacks.get(action.stack_id)
        if stack is None:
            raise self._outdated(record, "approved")
        try:
            self._scheduled().ask_again(action, stack)
        except Fenced:  # a rejection or a cancel was faster
            raise self._outdated(record, "approved") from None
        with self._store.transaction():
            # It holds until that time.
            self._move(record, replace(decided, state=ApprovalState.APPROVED, expires_at=None), "approved")
            self._store.stacks.lock(action.stack_id)
            try:
                self._store.queue.take(action.id)
            except Fenced:
                raise self._outdated(record, "approved") from None
            reason = f"Approved by {decided.decided_by}: it begins at {to_text(action.not_before)}"
            self._store.queue.schedule(replace(action, status_reason=reason))
        audit.info("approval %s of %s approved by=%s", record.id, record.subject, decided.decided_by)

    def _check_lock(self, context: Context, record: ApprovalRecord) -> None:
        """Raise StackLocked for a stack that is locked."""
        stack = self._store.stacks.get(record.stack_id) if record.stack_id else None
        if stack is None:
            return
        error = maintenance_refusal(operation_of(record, None), stack, context)
        if error is not None:
            raise error

    def _begin(self, record: ApprovalRecord, decided: ApprovalRecord) -> None:
        """Carry out the request that waits, and use the approval in its transaction."""
        action = self._store.actions.get(record.action_id or "")
        stack = None if action is None else self._store.stacks.get(action.stack_id)
        if action is None or stack is None or action.request is None:
            raise self._outdated(record, "approved")
        done = replace(ended(decided, ApprovalState.DONE), used_by=action.id)
        try:
            self._scheduled().begin(action, stack, lambda: self._move(record, done, "approved"))
        except Fenced:
            raise self._outdated(record, "approved") from None
        except (NotFound, InvalidStackState) as error:
            if isinstance(error, InvalidStackState) and operation_of(record, action) is not Operation.RETRY:
                raise  # it may begin in another state
            # What it is about was deleted meanwhile, or there is no failure to go on from.
            with self._store.transaction():
                self._end(record, ended(record, ApprovalState.OBSOLETE), error.message, "approved")
            error.message += f" So approval {record.id} is OBSOLETE now, and its request is cancelled."
            raise

    def _move(self, before: ApprovalRecord, after: ApprovalRecord, what: str) -> None:
        if not self._journal.moved(before, after):
            raise self._outdated(before, what)

    def _outdated(self, record: ApprovalRecord, what: str) -> InvalidApprovalState:
        now = self._rows.get(record.id)
        state = ApprovalState.OBSOLETE if now is None or now.state is ApprovalState.PENDING else now.state
        return InvalidApprovalState(record, state, what)

    def _again(self, record: ApprovalRecord) -> ApprovalRecord:
        return self._rows.get(record.id) or record

    def _end(self, record: ApprovalRecord, after: ApprovalRecord, reason: str, what: str) -> None:
        """Write the end of an approval, and that of the action that waits for it."""
        if record.state is ApprovalState.PENDING and record.action_id is not None:
            action = self._store.actions.get(record.action_id)
            if action is not None:
                self._store.stacks.lock(action.stack_id)
            action = self._store.actions.lock(record.action_id)
            self._move(record, after, what)
            if action is not None and action.status is ActionStatus.INIT:
                now = self._clock.now()
                self._store.moves.end(action, ActionStatus.CANCELLED, reason, now, outputs(Result.CANCEL, reason))
            return
        self._move(record, after, what)

    # -- without a decision --------------------------------------------------------------------------

    def expire(self) -> None:
        """End the approvals whose time is over. Raises DatabaseUnavailable."""
        for_each(self._rows.due(self._clock.now()), self._expire)

    def _expire(self, record: ApprovalRecord) -> None:
        decider = self._deciders().get(record.subject)
        if decider is not None:
            server = Context(record.project, user=EXPIRY_USER)
            try:
                decider.reject(server, _target(record), "its approval has expired")
            except DatabaseUnavailable:
                raise
            except HeatliteError as error:  # a lock, or an operation that runs: it is tried again
                log.info("approval %s cannot expire yet: %s", record.id, error.message)
            return
        try:
            with self._store.transaction():
                self._end(record, ended(record, ApprovalState.EXPIRED), "Its approval has expired", "approved")
        except (InvalidApprovalState, Fenced):
            pass  # another engine, or a decision, was first

    def settle(self) -> None:
        """Make up for what was asked, decided and ended while the feature was off.

        Raises DatabaseUnavailable.
        """
        for record in self._rows.lost():
            with self._store.transaction():
                self._journal.moved(record, ended(record, ApprovalState.OBSOLETE))
        for subject, decider in self._deciders().items():
            waiting = {(one.root_id, one.target, one.digest) for one in decider.waiting()}
            known = {(one.stack_id, _target(one), one.digest) for one in self._rows.pending(subject)}
            for root_id in sorted({root for root, *_ in waiting ^ known}):
                with self._store.transaction():
                    root = self._store.stacks.lock(root_id)  # as each step of a decision does
                    is_gone = root is None or root.deleted_at is not None
                    self._settle_tree(subject, root_id, () if is_gone else decider.waiting(root_id))

    def _settle_tree(self, subject: str, root_id: str, waiting: Sequence[Decision]) -> None:
        targets = {one.target for one in waiting}
        for record in self._rows.pending(subject, root_id):
            if _target(record) not in targets:
                self._journal.moved(record, ended(record, ApprovalState.OBSOLETE))
        for one in waiting:
            self.follow(one)

    def follow(self, decision: Decision) -> None:
        """Keep the approval of work of a feature. Call in the transaction of the step.

        Raises Forbidden for the requester, where another user has to decide.
        """
        if decision.step is DecisionStep.GRANTED:
            if four_eyes(self._store, self._settings, decision.project, decision.root_id):
                raise Forbidden(f"{YOURSELF} Send the request without its approval.")
            return
        key = f"{decision.subject}:{decision.target}"
        found = self._rows.open(key)
        if decision.step is DecisionStep.ASKED:
            # Of runs that waited when approvals were introduced, no digest is known.
            if found is None or found.digest not in ("", decision.digest):
                new = self._asked(decision, key)
                if found is not None:
                    self._journal.moved(found, replace(ended(found, ApprovalState.OBSOLETE), replaced_by=new.id))
                self._journal.requested(new)
                if new.action_id is not None:
                    self._store.queue.note_approval(new.action_id, new.id)
                _note(decision.by, new)
            return
        if found is None:
            return
        _note(decision.by, found)
        after = ended(found, _AFTER[decision.step])
        if decision.by is not None and decision.by.user == EXPIRY_USER:
            after = replace(after, state=ApprovalState.EXPIRED)
        elif decision.by is not None:
            if is_requester(decision.by, found) and self._has_four_eyes(found):
                raise Forbidden(YOURSELF)
            after = replace(after, decided_by=decision.by.user, decided_at=self._clock.now())
        self._journal.moved(found, after)

    def _asked(self, decision: Decision, key: str) -> ApprovalRecord:
        """Return the approval of work of a feature.

        It expires only if a policy says so.
        """
        root = self._store.stacks.get(decision.root_id)
        by, subject, now = decision.by, Subject(decision.subject), self._clock.now()
        ttl = time_to_live(self._store, self._settings, decision.project, decision.root_id)
        return ApprovalRecord(
            id=random_id(),
            project=decision.project,
            subject=subject,
            state=ApprovalState.PENDING,
            stack_name="" if root is None else root.name,
            stack_id=decision.root_id,
            digest=decision.digest,
            requested_by=HEALING if by is None else by.user,
            requester="" if by is None else identity(by),
            requested_at=now,
            open_key=key,
            resource=decision.resource,
            nodes=decision.nodes,
            because=(_BECAUSE[subject],),
            expires_at=None if ttl is None else now + ttl,
            action_id=decision.target if subject is Subject.PLAYBOOK_RUN else None,
            incident_id=decision.target if subject is Subject.REPAIR else None,
            node_action_id=decision.target if subject is Subject.NODE_ACTION else None,
        )

    def cancelled(self, action: ActionRecord) -> None:
        """Note that an action that waited has ended. Call in the transaction of its end."""
        record = self._rows.of_action(action.id)
        if record is not None:
            over = record.expires_at is not None and record.expires_at <= self._clock.now()
            self._journal.moved(record, ended(record, ApprovalState.EXPIRED if over else ApprovalState.OBSOLETE))

    def stack_deleted(self, stack_id: str) -> None:
        """End the approvals of a stack that is gone. Call in the transaction of its end."""
        for record in self._rows.open_of_stack(stack_id):
            self._journal.moved(record, ended(record, ApprovalState.OBSOLETE))


def operation_of(record: ApprovalRecord, action: ActionRecord | None) -> Operation:
    """Return the operation on a stack that an approval lets begin.

    `action` is the one that waits for it.
    """
    if record.subject is Subject.DELETE:
        return Operation.DELETE
    request = None if action is None else action.request
    return Operation.RETRY if request is not None and request["key"] == RETRY else Operation.UPDATE


def _note(by: Context | None, record: ApprovalRecord) -> None:
    """Note the approval for the row of the request in the audit log."""
    if by is not None:
        by.approvals[:] = [record.id]


def _target(record: ApprovalRecord) -> str:
    """Return the id of the work of a feature that an approval is about."""
    return record.node_action_id or record.incident_id or record.action_id or ""
