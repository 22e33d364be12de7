"""Scheduled actions: timed, repeated, or after other actions.

Until its start time an action is INIT: it holds nothing and changes nothing of the stack. At that time its author's
rights are asked again, and it passes admission like a request. If a lock or another action refuses it, it ends
CANCELLED: there is no retry, and nothing fires at an unlock. A suspended stack is not checked, because the check would
replace the state that allows its resume.

A series continues after every run, failed and refused runs included. It ends when its waiting or running action is
cancelled, or with the stack.

A scheduled update, delete or change of a group keeps its request (`ScheduledRequests`).

Dependencies cannot form a cycle: an action names existing actions only, and its list never changes.
"""

import logging
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionInputs
from heatlite.core.clock import Clock, to_text
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionConflict,
    DatabaseUnavailable,
    HeatliteError,
    HTTPBadRequest,
    RequestLimitExceeded,
    StackNotFound,
    wire_name,
)
from heatlite.core.runtime.logs import logged
from heatlite.core.runtime.timer import for_each
from heatlite.core.status import MAX_REASON, ActionStatus, Needs, Result, Status, Verb
from heatlite.engine.admission.admission import Admission, audit, zone_of
from heatlite.engine.admission.caller_context import restore_context
from heatlite.engine.execution.action_log import about_action
from heatlite.engine.execution.termination import outputs
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import Timing
from heatlite.engine.state.unit_of_work import stack_event
from heatlite.store.errors import Fenced
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

MAX_SCHEDULED = 100
"""Highest number of scheduled actions per stack."""
REFUSED = "REFUSED"
"""Status of the event of a stack whose action was refused at its time: ``UPDATE_REFUSED``."""

ONCE = frozenset({Verb.SUSPEND, Verb.RESUME})
"""Verbs without effect on a stack that is already in their final state, as in Heat."""


class ScheduledActions:
    """Starts actions at their time."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        admission: Admission,
        begin_request: Callable[[ActionRecord, StackRecord], None],
        author_now: Callable[[Context, StackRecord], Context],
    ) -> None:
        """`begin_request` carries out the request of an action whose time has come.

        `author_now` returns the author of stored work with the present rights.
        """
        self._author_now = author_now
        self._store = store
        self._clock = clock
        self._settings = settings
        self._admission = admission
        self._begin_request = begin_request

    def start(self, context: Context, stack: StackRecord, verb: Verb, timing: Timing) -> bool:
        """Enqueue a check, suspend or resume, or schedule it for its start time.

        Returns False if the stack is suspended or resumed already. An action with dependencies holds the stack while
        it waits for them. Raises HTTPBadRequest for a time in the past or an unknown action. Raises ActionConflict if
        the stack already has a series of the verb, RequestLimitExceeded, and as `Admission.admitted`. Raises Forbidden
        for later work if the rights of the caller cannot be confirmed.
        """
        if timing.not_before is not None or timing.interval:
            self._with_rights(context, stack, verb)
        if timing.not_before is not None:
            self._admission.require_types(context, Operation(verb.lower()), stack)
            with self._store.transaction():
                held = self.held(stack, timing.not_before)
                depends_on = self._checked(held, verb, timing)
                self.keep(context, self._action(context, held, verb, timing), timing.not_before, depends_on)
            return True
        prechecked = self._admission.precheck_action(context, Operation(verb.lower()), stack, timing.body)
        with self._admission.admitted(prechecked) as stack:
            depends_on = self._checked(stack, verb, timing)
            self._check_order(stack, timing.depends_on)
            if _is_done(stack, verb):
                return False
            action = self._action(context, self._admission.set_in_progress(stack, verb), verb, timing)
            self._admission.enqueue_action(context, action, depends_on)
        return True

    def held(self, stack: StackRecord, not_before: float) -> StackRecord:
        """Lock the row of a stack on which an action is to be scheduled.

        Call in a transaction.

        Raises StackNotFound, HTTPBadRequest for a time in the past, RequestLimitExceeded.
        """
        held = self.free(stack)
        if not_before <= self._clock.now():
            raise HTTPBadRequest(f"not_before is {to_text(not_before)}, which is not in the future.")
        return held

    def free(self, stack: StackRecord) -> StackRecord:
        """Lock the row of a stack on which an action is to wait. Call in a transaction.

        Raises StackNotFound, RequestLimitExceeded.
        """
        held = self._store.stacks.lock(stack.id)
        if held is None or held.deleted_at is not None:
            raise StackNotFound(name=stack.name)
        if self._store.queue.count_scheduled(stack.id) >= MAX_SCHEDULED:
            raise RequestLimitExceeded(message=f"{MAX_SCHEDULED} actions on stack {stack.name} are already scheduled.")
        return held

    def keep(
        self,
        context: Context,
        action: ActionRecord,
        not_before: float | None,
        depends_on: Sequence[tuple[str, Needs]] = (),
    ) -> ActionRecord:
        """Store an action for its time, in the transaction of `held`. Returns it.

        Without a time it waits for something else.
        """
        action = replace(action, not_before=not_before, deadline=None)
        self._store.queue.schedule(action, depends_on)
        context.queued.append(action.id)
        return action

    def _checked(self, stack: StackRecord, verb: Verb, timing: Timing) -> list[tuple[str, Needs]]:
        """Return the dependencies of the action. Call with the stack row locked.

        Raises HTTPBadRequest and ActionConflict.
        """
        known = self._store.queue.series(stack.id, verb) if timing.interval else None
        if known is not None:
            raise ActionConflict(
                f"Stack {stack.name} has a {verb} every {known.interval:g} seconds already (action {known.id})."
                " To end the series, cancel that action."
            )
        for action_id in timing.depends_on:
            found = self._store.actions.get(action_id)
            is_known = found is not None and found.project == stack.project
            if not is_known and not any(one.has_work(stack.project, action_id) for one in self._store.features):
                raise HTTPBadRequest(f"depends_on: this project has no action with the id {action_id}.")
        return [(action_id, Needs.SUCCESS) for action_id in dict.fromkeys(timing.depends_on)]

    def _check_order(self, stack: StackRecord, depends_on: Sequence[str]) -> None:
        """Refuse to hold a stack for an action that has yet to take it.

        Call with the stack row locked. Raises ActionConflict.
        """
        if not depends_on:
            return
        line = {stack.id, *(one.id for one in self._store.stacks.ancestors(stack))}
        line.update(one.id for one in self._store.stacks.descendants(stack))
        for action_id in depends_on:
            found = self._store.actions.get(action_id)
            if found is not None and found.status is ActionStatus.INIT and found.stack_id in line:
                raise ActionConflict(
                    f"Stack {stack.name} would be held for action {found.id} ({found.verb}), which could then not"
                    " begin: it has yet to wait for its time, or for an approval. Choose a later not_before, or wait"
                    " until it has begun."
                )

    def _action(self, context: Context, stack: StackRecord, verb: Verb, timing: Timing) -> ActionRecord:
        inputs = ActionInputs(believes_absence=timing.believes_absence)
        action = replace(self._admission.new_action(context, stack, verb, inputs), interval=timing.interval)
        if not timing.timeout:
            return action
        return replace(action, timeout=timing.timeout, deadline=action.created_at + timing.timeout)

    # -- at the start time --------------------------------------------------------------------

    def sweep(self) -> None:
        """Admit the actions that are due, without those that keep a request.

        Every engine calls this once a second. Raises DatabaseUnavailable, after the last of them: it may be for one
        stack only, whose row another process holds.
        """
        for_each((one for one in self._due() if one.request is None), self._begin)

    def sweep_requests(self) -> None:
        """Carry out the requests of the actions that are due. They may wait for the cloud.

        As `sweep`.
        """
        for_each((one for one in self._due() if one.request is not None), self._begin)

    def _due(self) -> Sequence[ActionRecord]:
        return self._store.queue.due(self._clock.now())

    def _begin(self, action: ActionRecord) -> None:
        # One action must not keep the others from their time.
        with about_action(action), logged(log, "a scheduled action cannot begin: internal error") as look:
            try:
                self._admit(action)
            except Fenced:
                pass  # Another engine has admitted it, or it was cancelled.
            except DatabaseUnavailable:
                raise
            except HeatliteError as error:
                self._miss(action, error)
        if look.failed:
            self._miss(action, HeatliteError("an internal error, of which the engine's log says more."))

    def _admit(self, action: ActionRecord) -> None:
        stack = self._store.stacks.get(action.stack_id)
        if stack is None:
            raise StackNotFound(name=action.stack_id)
        if action.request is not None:
            self._begin_request(action, stack)
            return
        context = self._with_rights(restore_context(action), stack, action.verb)
        prechecked = self._admission.precheck_action(context, Operation(action.verb.lower()), stack)
        with self._admission.admitted(prechecked) as stack:
            action = self._taken(action)
            if _is_done(stack, action.verb):
                raise ActionConflict(f"Stack {stack.name} is {stack.verb}_COMPLETE already: there is nothing to do.")
            if action.verb is Verb.CHECK and self.is_suspended(stack):
                raise ActionConflict(f"Stack {stack.name} is suspended: once checked, it could not be resumed.")
            known = self._store.dependencies.of(action.id)
            self._check_order(stack, [one.depended for one in known if one.dependent == action.id])
            self._admission.set_in_progress(stack, action.verb)
            now = self._clock.now()
            deadline = now + self._settings.time_limit(action.timeout)
            admitted = replace(action, zone=zone_of(stack), deadline=deadline, updated_at=now)
            self._store.queue.admit(admitted, self._admission.running_work(admitted))

    def _with_rights(self, author: Context, stack: StackRecord, verb: Verb) -> Context:
        """Return the author of a later action with the present rights.

        Raises Forbidden if those do not suffice, CloudUnavailable.
        """
        author = self._author_now(author, stack)
        for rule in ("actions:action", f"actions:{verb.lower()}"):
            author.require(rule)
        return author

    def is_suspended(self, stack: StackRecord) -> bool:
        """True if a resource of the tree is suspended.

        The stack's own state may be that of a lock since.
        """
        tree = [stack.id, *(nested.id for nested in self._store.stacks.descendants(stack))]
        return self._store.resources.any_suspended(tree)

    def _miss(self, action: ActionRecord, error: HeatliteError) -> None:
        """End an action refused at its start time. Tell it, or go on with its series."""
        reason = f"Its time had come, but: {error.message}"
        try:
            with self._store.transaction():
                stack = self._store.stacks.lock(action.stack_id)
                action, now = self._taken(action), self._clock.now()
                ended = replace(outputs(Result.CANCEL, reason), code=wire_name(error))
                self._store.moves.end(action, ActionStatus.CANCELLED, reason, now, ended)
                if stack is None or stack.deleted_at is not None:
                    pass  # what it was for is gone
                elif action.interval:
                    self._store.queue.schedule_successor(action, now)
                else:
                    told = replace(stack_event(stack, now), verb=action.verb, status=REFUSED)
                    self._store.events.append_many([replace(told, status_reason=reason[:MAX_REASON])])
        except Fenced:
            return
        parts = (action.stack_id, action.verb, action.requested_by, error.message)
        audit.info("missed stack=%s request=%s by=%s: %s", *parts)

    def _taken(self, action: ActionRecord) -> ActionRecord:
        """Lock the action row until the transaction ends.

        Raises Fenced if the action is no longer INIT.
        """
        taken = self._store.actions.lock(action.id)
        if taken is None or taken.status is not ActionStatus.INIT:
            raise Fenced(action.id)
        return taken


def _is_done(stack: StackRecord, verb: Verb) -> bool:
    return verb in ONCE and stack.state_without_lock == (verb, Status.COMPLETE)
