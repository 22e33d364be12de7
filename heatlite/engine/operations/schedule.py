"""Checks, suspends and resumes that are not done at once and alone: later, again and again, after other actions.

Until its time has come an action is INIT: it holds nothing, nothing of the stack changes, and whether the stack is
locked or held is asked then. It passes admission like any caller, or it has missed its time: nothing tries again,
nothing fires at an unlock. What is suspended is not checked: it would not be known any more that it is to be resumed.
A series goes on after each, also after one that has failed or was not let in, until somebody cancels the one that
waits or runs, or the stack is deleted.

No action can depend on itself, by whatever way: it names what is there already, and what it names never changes.
"""

import logging
from dataclasses import replace

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
)
from heatlite.core.status import ActionStatus, Needs, Result, Status, Verb
from heatlite.engine.admission.admission import Admission, audit, zone_of
from heatlite.engine.admission.caller_context import restore_context
from heatlite.engine.execution.action_log import about_action
from heatlite.engine.execution.termination import outputs
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import Timing
from heatlite.store.errors import Fenced
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

MOST_SCHEDULED = 100
"""Actions on one stack that wait for their time."""

ONCE = frozenset({Verb.SUSPEND, Verb.RESUME})
"""What there is nothing to do for where the stack has been through it (heat-engine §2)."""


class Schedule:
    """Starts actions when they are to start."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, admission: Admission) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._admission = admission

    def start(self, context: Context, stack: StackRecord, verb: Verb, timing: Timing) -> None:
        """Queue a check, a suspend or a resume, or keep it for its time.

        What depends on other actions holds the stack while it waits for them. Raises HTTPBadRequest for a time that is
        past and for actions that are not there, ActionConflict where the stack has a series of the verb already,
        RequestLimitExceeded, and as `Admission.admitted`.
        """
        if timing.not_before is not None:
            self._admission.require_types(context, Operation(verb.lower()), stack)
            self._keep(context, stack, verb, timing)
            return
        prechecked = self._admission.precheck_action(context, Operation(verb.lower()), stack, timing.body)
        with self._admission.admitted(prechecked) as stack:
            if _is_done(stack, verb):
                return
            depends_on = self._checked(stack, verb, timing)
            action = self._action(context, self._admission.set_in_progress(stack, verb), verb, timing)
            self._admission.enqueue_action(context, action, depends_on)

    def _keep(self, context: Context, stack: StackRecord, verb: Verb, timing: Timing) -> None:
        with self._store.transaction():
            held = self._store.stacks.lock(stack.id)
            if held is None or held.deleted_at is not None:
                raise StackNotFound(name=stack.name)
            if timing.not_before is not None and timing.not_before <= self._clock.now():
                raise HTTPBadRequest(f"not_before is {to_text(timing.not_before)}, which is not in the future.")
            if self._store.queue.count_scheduled(stack.id) >= MOST_SCHEDULED:
                raise RequestLimitExceeded(
                    message=f"{MOST_SCHEDULED} actions on stack {stack.name} wait for their time already."
                )
            depends_on = self._checked(held, verb, timing)
            action = replace(self._action(context, held, verb, timing), not_before=timing.not_before, deadline=None)
            self._admission.enqueue_action(context, action, depends_on)

    def _checked(self, stack: StackRecord, verb: Verb, timing: Timing) -> list[tuple[str, Needs]]:
        """What the action is to depend on; its stack is held. Raises HTTPBadRequest, ActionConflict."""
        known = self._store.queue.series(stack.id, verb) if timing.interval else None
        if known is not None:
            raise ActionConflict(
                f"Stack {stack.name} has a {verb} every {known.interval:g} seconds already: action {known.id} is of"
                " that series. To end the series, cancel that action."
            )
        for action_id in timing.depends_on:
            found = self._store.actions.get(action_id) or self._store.node_actions.get(action_id)
            if found is None or found.project != stack.project:
                raise HTTPBadRequest(f"depends_on: this project has no action with the id {action_id}.")
        return [(action_id, Needs.SUCCESS) for action_id in dict.fromkeys(timing.depends_on)]

    def _action(self, context: Context, stack: StackRecord, verb: Verb, timing: Timing) -> ActionRecord:
        action = replace(self._admission.new_action(context, stack, verb), interval=timing.interval)
        if not timing.timeout:
            return action
        return replace(action, timeout=timing.timeout, deadline=action.created_at + timing.timeout)

    # -- when the time has come --------------------------------------------------------------------

    def sweep(self) -> None:
        """Let in whose time has come; called once a second, by every engine. Raises DatabaseUnavailable."""
        for action in self._store.queue.due(self._clock.now()):
            with about_action(action):
                try:
                    self._admit(action)
                except Fenced:
                    pass  # Another engine was first, or somebody has cancelled it.
                except DatabaseUnavailable:
                    raise
                except HeatliteError as error:
                    self._miss(action, error)

    def _admit(self, action: ActionRecord) -> None:
        stack = self._store.stacks.get(action.stack_id)
        if stack is None:
            raise StackNotFound(name=action.stack_id)
        context = restore_context(replace(action, secrets=None), None)
        prechecked = self._admission.precheck_action(context, Operation(action.verb.lower()), stack)
        with self._admission.admitted(prechecked) as stack:
            action = self._taken(action)
            if _is_done(stack, action.verb):
                raise ActionConflict(f"Stack {stack.name} is {stack.verb}_COMPLETE already: there is nothing to do.")
            if action.verb is Verb.CHECK and self._is_suspended(stack):
                raise ActionConflict(f"Stack {stack.name} is suspended: once checked, it could not be resumed.")
            self._admission.set_in_progress(stack, action.verb)
            now = self._clock.now()
            deadline = now + (action.timeout or self._settings.default_action_timeout)
            admitted = replace(action, zone=zone_of(stack), deadline=deadline, updated_at=now)
            self._store.queue.admit(admitted, self._admission.running_node_actions(admitted))

    def _is_suspended(self, stack: StackRecord) -> bool:
        """Whether something in its tree is: the stack itself may have been locked and unlocked since."""
        tree = [stack.id, *(nested.id for nested in self._store.stacks.descendants(stack))]
        return self._store.resources.any_suspended(tree)

    def _miss(self, action: ActionRecord, error: HeatliteError) -> None:
        """Its time has come and it is not let in: it ends, and its series goes on."""
        reason = f"Its time had come, but: {error.message}"
        try:
            with self._store.transaction():
                stack = self._store.stacks.lock(action.stack_id)
                action, now = self._taken(action), self._clock.now()
                self._store.moves.end(action, ActionStatus.CANCELLED, reason, now, outputs(Result.CANCEL, reason))
                if action.interval and stack is not None and stack.deleted_at is None:
                    self._store.queue.schedule_successor(action, now)
        except Fenced:
            return
        audit.info("missed stack=%s request=%s by=%s: %s", action.stack_id, action.verb, action.requested_by, error)

    def _taken(self, action: ActionRecord) -> ActionRecord:
        """The action as it is now, which nobody else lets in or ends until the transaction is over. Raises Fenced."""
        taken = self._store.actions.lock(action.id)
        if taken is None or taken.status is not ActionStatus.INIT:
            raise Fenced(action.id)
        return taken


def _is_done(stack: StackRecord, verb: Verb) -> bool:
    return verb in ONCE and stack.state_without_lock == (verb, Status.COMPLETE)
