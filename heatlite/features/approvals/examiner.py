"""Admission by approvals: looks at plans, and asks for decisions."""

from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData, AwaitedApproval
from heatlite.core.clock import Clock, to_text
from heatlite.core.config import Settings
from heatlite.core.errors import ActionConflict, HeatliteError
from heatlite.core.ids import random_id
from heatlite.core.json import JsonMap
from heatlite.core.runtime.meter import Meter
from heatlite.core.status import ActionStatus, Verb
from heatlite.engine.admission.claims import (
    OF_NO_OBJECT,
    ChangeKind,
    Claim,
    Examiner,
    Postponed,
    PreparedRequest,
    Undecided,
)
from heatlite.engine.operations.scheduled_requests import ScheduledRequests
from heatlite.engine.preview.preview import StackPreview
from heatlite.engine.state.requests import ShownPlan
from heatlite.features.approvals.errors import (
    ApprovalRequired,
    NotApproved,
    ScalingNeedsApproval,
    TooManyApprovals,
    plan_changed,
)
from heatlite.features.approvals.feature import OPTION, WAIT
from heatlite.features.approvals.journal import Journal
from heatlite.features.approvals.judging import SUBJECTS, policy_of, reasons, request_key
from heatlite.features.approvals.people import identity, place_of
from heatlite.features.approvals.store.records import ApprovalRecord, ApprovalState
from heatlite.features.approvals.store.store import ApprovalStore, ended
from heatlite.features.approvals.views import plan_content
from heatlite.features.change_policy.effective import Approve, ChangePolicyValues, SignalMode
from heatlite.store.errors import Duplicate, Fenced
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store

MOST_PENDING = 20
"""Approvals of a stack that wait at once."""
_VERBS = {ChangeKind.DELETE: Verb.DELETE}
"""Verbs of actions that wait, where it is not UPDATE."""


class ApprovalExaminer(Examiner):
    """Asks for an approval where a change policy says so (`claims.Examiner`).

    Safe for threads.
    """

    def __init__(
        self, store: Store, clock: Clock, settings: Settings, scheduled: Callable[[], ScheduledRequests], meter: Meter
    ) -> None:
        self.store = store
        self.rows = store.of(ApprovalStore)
        self.clock = clock
        self._settings = settings
        self._scheduled = scheduled
        self.journal = Journal(store, clock, meter)

    def concerns(self, types: Collection[str]) -> bool:
        """Return False: a repair needs no approval."""
        return False

    def examine(self, asked: PreparedRequest) -> "ApprovalClaim | None":
        """Return the claim of a request."""
        if asked.change not in SUBJECTS:
            return None
        if asked.observes:
            self.reasons(asked)  # makes the plan, if a policy asks, so that the transaction reads no cloud
        return ApprovalClaim(self, asked)

    def shown(self, asked: PreparedRequest, because: Sequence[str]) -> JsonMap:
        """Return whether a plan needs an approval, if a policy asks for any."""
        if asked.change not in SUBJECTS or not because and self.policy(asked).approve is Approve.NEVER:
            return {}
        return {"approval": {"needed": bool(because), "because": [*because]}}

    def reasons(self, asked: PreparedRequest) -> Sequence[str]:
        """Return why a policy asks for an approval of a plan."""
        return reasons(self.policy(asked), asked.change, asked.preview)

    def ask_ahead(self, asked: PreparedRequest, because: Sequence[str]) -> None:
        """Ask for the approval of a request for a later time, if it is to wait for that.

        While an approval is being decided, compare its plan. Raises Postponed, PlanChanged, ApprovalRequired.
        """
        begun = asked.context.scheduled
        if asked.change not in SUBJECTS or asked.context.options.get(OPTION) != WAIT:
            return
        found = None if begun is None else self.rows.of_action(begun.action_id)
        if found is None and not because:
            return
        seen = asked.shown(asked.preview())
        if found is None or not _stands(found, key_of(self.store, asked), seen.digest, self.clock.now()):
            because = found.because if found is not None and not because else because
            raise self.request(asked, seen, because, self.policy(asked))

    def policy(self, asked: PreparedRequest) -> ChangePolicyValues:
        """Return the change policy of the stack that a request changes."""
        root_id = "" if asked.change is ChangeKind.CREATE else asked.stack.root_id or asked.stack.id
        return policy_of(self.store, self._settings, asked.stack.project, root_id)

    def request(
        self, asked: PreparedRequest, shown: ShownPlan, because: Sequence[str], policy: ChangePolicyValues
    ) -> HeatliteError:
        """Ask for an approval, unless an equal one is open.

        Returns the answer of the request. Raises as `_check_begun`.
        """
        try:
            return self._request(asked, shown, because, policy)
        except Duplicate:  # an equal request has asked meanwhile
            return self._request(asked, shown, because, policy)

    def _request(
        self, asked: PreparedRequest, shown: ShownPlan, because: Sequence[str], policy: ChangePolicyValues
    ) -> HeatliteError:
        context, is_new = asked.context, asked.change is ChangeKind.CREATE
        begun = None if context.scheduled is None else context.scheduled.action_id
        waits = begun is None and context.options.get(OPTION) == WAIT
        with self.store.transaction():
            root, path = (asked.stack, "") if is_new else place_of(self.store, asked.stack)
            if not is_new:
                self.store.stacks.lock(root.id)
            self._check_begun(asked)
            key, now = key_of(self.store, asked), self.clock.now()
            found = self._open(key, begun, root)
            if found is not None and _stands(found, key, shown.digest, now):
                record = found
            else:
                record = self._new(asked, shown, because, policy, root, asked.path() or path)
                record = self._replace(found, record, now)
            if not is_new and waits and record.action_id is None:
                record = self._keep(asked, record)
            context.approvals[:] = [record.id]
        if begun is not None and record.action_id == begun:
            return plan_changed(record)
        if waits and record.action_id is not None:
            action = self.store.actions.get(record.action_id)
            if action is not None:
                context.queued[:] = [action.id]
                return Postponed(action)
        return ApprovalRequired(record)

    def _check_begun(self, asked: PreparedRequest) -> None:
        """Lock the scheduled action that begins, if one does.

        Raises Fenced if it waits no more, and NotApproved at its time if its approval does not hold.
        """
        begun = asked.context.scheduled
        if begun is None:
            return
        action = self.store.actions.lock(begun.action_id)
        if action is None or action.status is not ActionStatus.INIT:
            raise Fenced(begun.action_id)
        own = self.rows.of_action(begun.action_id)
        if own is not None and begun.not_before is not None and asked.action is None:
            raise NotApproved(own)

    def _open(self, key: str, begun: str | None, root: StackRecord) -> ApprovalRecord | None:
        """Return the open approval of a content, or else that of the action that begins.

        The content of a request that waits changes with its stack.
        """
        found = self.rows.open(key)
        return self.awaited(begun, root.id) if found is None and begun is not None else found

    def awaited(self, action_id: str, root_id: str) -> ApprovalRecord | None:
        """Return the approval of a root stack that an action has waited for.

        A change of two trees may need one of each.
        """
        found = self.rows.of_action(action_id)
        return found if found is not None and found.stack_id == root_id else None

    def _new(
        self,
        asked: PreparedRequest,
        shown: ShownPlan,
        because: Sequence[str],
        policy: ChangePolicyValues,
        root: StackRecord,
        path: str,
    ) -> ApprovalRecord:
        context, now = asked.context, self.clock.now()
        is_new = asked.change is ChangeKind.CREATE
        is_whole = asked.stack.root_id is None or asked.change in OF_NO_OBJECT  # its paths begin at the root
        due = None if asked.action is None else asked.action.not_before
        at: JsonMap = {} if due is None else {"not_before": to_text(due)}
        return ApprovalRecord(
            id=random_id(),
            project=root.project,
            subject=SUBJECTS[asked.change],
            state=ApprovalState.PENDING,
            stack_name=root.name,
            stack_id="" if is_new else root.id,
            digest=shown.digest,
            requested_by=context.user,
            requester=identity(context),
            requested_at=now,
            open_key=key_of(self.store, asked),
            resource=path or None,
            because=tuple(because),
            expires_at=now + policy.approval_ttl if due is None else min(now + policy.approval_ttl, due),
            content={**plan_content(shown, () if is_whole else tuple(path.split("/"))), **at},
        )

    def _replace(self, before: ApprovalRecord | None, record: ApprovalRecord, now: float) -> ApprovalRecord:
        """Write a new approval, in place of one with another plan or without time left.

        Returns it. The action that has waited for the former waits for it.
        """
        if before is None:
            if record.stack_id and self.rows.count_pending(record.stack_id) >= MOST_PENDING:
                known = [one for one in self.rows.open_of_stack(record.stack_id) if one.state is ApprovalState.PENDING]
                raise TooManyApprovals(min(known, key=lambda one: one.requested_at), MOST_PENDING)
            self.journal.requested(record)
            return record
        state = ApprovalState.EXPIRED if is_over(before, now) else ApprovalState.OBSOLETE
        self.journal.moved(before, replace(ended(before, state), replaced_by=record.id))
        self.journal.requested(record)
        if before.action_id is not None and before.state is ApprovalState.PENDING:
            kept = self.store.actions.lock(before.action_id)
            if kept is not None and kept.request is not None:
                record = replace(record, action_id=kept.id)
                self.store.queue.take(kept.id)
                waiting = replace(kept, data=awaited(kept, record), approval_id=record.id)
                self.store.queue.schedule(replace(waiting, status_reason=waits_for(record)))
                self.rows.move(record, record)
        return record

    def _keep(self, asked: PreparedRequest, record: ApprovalRecord) -> ApprovalRecord:
        """Keep a request until its approval."""
        if asked.later is None:
            return record
        requests, context, stack = self._scheduled(), asked.context, asked.addressed or asked.stack
        verb = _VERBS.get(asked.change, Verb.UPDATE)
        action = asked.action or requests.new_action(context, stack, verb, asked.later())
        approval = AwaitedApproval(record.id, record.digest)
        action = requests.await_approval(context, stack, action, approval, waits_for(record))
        after = replace(record, action_id=action.id)
        self.rows.move(record, after)
        return after


class ApprovalClaim(Claim):
    """Part of approvals in the transaction of a request (`claims.Claim`)."""

    def __init__(self, examiner: ApprovalExaminer, asked: PreparedRequest) -> None:
        self._examiner = examiner
        self._asked = asked
        self._policy = ChangePolicyValues()
        self._held: ApprovalRecord | None = None
        """The approval that the operation needs."""
        self._used: ApprovalRecord | None = None
        """The same, if it is not being decided by what begins."""
        self._continued: ApprovalRecord | None = None

    def look(self, preview: Callable[[], StackPreview]) -> Sequence[str]:
        """Return why the policy asks for an approval of the plan."""
        asked = self._asked
        self._policy = self._examiner.policy(asked)
        if asked.change is ChangeKind.SIGNAL and self._policy.signals is SignalMode.PASS:
            return ()
        because = reasons(self._policy, asked.change, preview)
        if because or asked.context.scheduled is None:
            return because
        # What was asked for is begun as it was approved, though the policy asks no more.
        found = self._examiner.awaited(asked.context.scheduled.action_id, asked.stack.root_id or asked.stack.id)
        any_change = found is not None and reasons(ChangePolicyValues(approve=Approve.ALWAYS), asked.change, preview)
        return found.because if found is not None and any_change else ()

    def require_approval(self, because: Sequence[str], preview: Callable[[], StackPreview]) -> None:
        """Find the approval of the plan.

        Raises Undecided without one, ScalingNeedsApproval.
        """
        examiner, asked, policy = self._examiner, self._asked, self._policy
        if asked.change is ChangeKind.SIGNAL and policy.signals is SignalMode.PASS:
            return
        if asked.change is ChangeKind.SIGNAL:
            raise ScalingNeedsApproval(because=", ".join(because))
        last = asked.continues()
        self._continued = None if last is None else examiner.rows.used_by(last)
        if self._continued is not None:
            return
        seen = asked.shown(preview())
        found = self._found()
        if found is not None and found.digest == seen.digest and self._allows(found):
            self._held = found
            self._used = found if found.state is ApprovalState.APPROVED else None
            return
        raise Undecided(lambda: examiner.request(asked, seen, because, policy))

    def _found(self) -> ApprovalRecord | None:
        """Return the open approval of the content.

        For a scheduled request whose time has come, it is its own.
        """
        examiner, asked, begun = self._examiner, self._asked, self._asked.context.scheduled
        if begun is not None and begun.not_before is not None:
            own = examiner.rows.of_action(begun.action_id)
            if own is not None:
                return own if own.open_key == key_of(examiner.store, asked, begun.not_before) else None
        return examiner.rows.open(key_of(examiner.store, asked))

    def _allows(self, found: ApprovalRecord) -> bool:
        """Return whether an approval is decided, or is being decided by what begins now."""
        if is_over(found, self._examiner.clock.now()):
            return False
        begun = self._asked.context.scheduled
        waits = begun is not None and begun.action_id == found.action_id and begun.not_before is None
        return found.state is ApprovalState.APPROVED or waits

    def take(self, action: ActionRecord, stack: StackRecord, preview: Callable[[], StackPreview] | None = None) -> None:
        """Use the approval. Raises ActionConflict if another request has used it."""
        if self._continued is not None:
            self._examiner.rows.move(self._continued, replace(self._continued, used_by=action.id))
            self._note(self._continued, action)
        if self._held is not None:
            self._note(self._held, action)
        if self._used is None:
            self._end_unused()
            return
        used = replace(ended(self._used, ApprovalState.DONE), action_id=action.id, used_by=action.id)
        if not self._examiner.journal.moved(self._used, used):
            raise ActionConflict(f"Another request has used the approval {used.id} of stack {stack.name}.")

    def _end_unused(self) -> None:
        """End the approval of a scheduled request that needs none any more."""
        begun = self._asked.context.scheduled
        own = None if begun is None or begun.not_before is None else self._examiner.rows.of_action(begun.action_id)
        if own is not None:
            self._examiner.journal.moved(own, ended(own, ApprovalState.OBSOLETE))

    def _note(self, record: ApprovalRecord, action: ActionRecord) -> None:
        """Note the approval of an action, and of the request."""
        self._examiner.store.queue.note_approval(action.id, record.id)
        self._asked.context.approvals[:] = [record.id]


def key_of(store: Store, asked: PreparedRequest, not_before: float | None = None) -> str:
    """Return the key of the approval of a request.

    One for a later time is a request of its own.
    """
    target = f"{asked.stack.project}/{asked.stack.name}" if asked.change is ChangeKind.CREATE else asked.stack.id
    options: JsonMap = {key: one for key, one in asked.context.options.items() if key != OPTION}
    due = not_before if asked.action is None else asked.action.not_before
    if due is not None:
        options["not_before"] = due
    content = [asked.content(), options] if options else asked.content()
    return request_key(store, SUBJECTS[asked.change], target, content)


def _stands(record: ApprovalRecord, key: str, digest: str, now: float) -> bool:
    """Return whether an approval is that of a content and plan, and has time left."""
    return (record.open_key, record.digest) == (key, digest) and not is_over(record, now)


def is_over(record: ApprovalRecord, now: float) -> bool:
    """Return whether the time of an approval is over."""
    return record.expires_at is not None and record.expires_at <= now


def waits_for(record: ApprovalRecord) -> str:
    """Return the reason of an action that waits."""
    return f"Waits for approval {record.id}: heatlite approval approve {record.id}"


def awaited(action: ActionRecord, record: ApprovalRecord) -> ActionData:
    """Return the data of an action that waits for another approval."""
    return replace(action.data, approval=AwaitedApproval(record.id, record.digest))
