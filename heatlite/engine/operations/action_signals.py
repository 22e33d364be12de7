"""Signals to actions: CANCEL, SUSPEND, RESUME (docs/reference/actions.md).

An action without a worker changes its status at once. A claimed action gets a control flag; its worker reads the flag
at its next commit, or within a second. A maintenance lock refuses no signals. A locked stack runs only its lock,
unlock, delete or a run, and stopping one of these is no operation on the stack.
"""

from contextlib import suppress

from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import ActionImmutable, Forbidden, HTTPBadRequest, InvalidActionState, NotFound, NothingBakes
from heatlite.core.status import ENDED_ACTIONS, ActionStatus, Control, Signal, Verb
from heatlite.engine.admission.admission import audit
from heatlite.engine.execution.termination import Termination, held_derived, suspend_derived
from heatlite.engine.state.unit_of_work import stack_event, with_state
from heatlite.engine.state.ways_out import acting
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store


class ActionSignals:
    """Sends signals to actions."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._endings = Termination(store, clock)

    def signal(self, context: Context, action: ActionRecord, signal: Signal, force: bool = False) -> ActionRecord:
        """Signal an action and the actions derived from it.

        Returns the action as stored afterwards.

        CANCEL ends an action that has not started; a running one starts no further step and then ends. With `force` it
        ends at once, even if a worker holds it. SUSPEND starts no further step and releases the worker until RESUME; it
        is idempotent. Raises HTTPBadRequest, ActionImmutable, InvalidActionState, Forbidden, NotFound.
        """
        if force and signal is not Signal.CANCEL:
            raise HTTPBadRequest(f"'force' is valid with CANCEL only, not with {signal}.")
        with self._store.transaction():
            action = self._held(context, action)
            match signal:
                case Signal.CANCEL:
                    self._cancel(action, force)
                case Signal.SUSPEND:
                    self._check_suspendable(action)
                    # The action first: with the flag set it derives no further actions.
                    self._store.controls.suspend(action, self._clock.now())
                    suspend_derived(self._store, action, self._clock.now())
                case Signal.RESUME:
                    if not _is_suspended(action):
                        raise _refusal(action, "only a suspended action can be resumed.")
                    self._resume(action)
            after = self._store.actions.get(action.id)
        assert after is not None
        how = " (forced)" if force else ""
        audit.info("signal stack=%s action=%s %s%s by=%s", action.stack_id, action.id, signal, how, context.user)
        return after

    def revoke(self, action_id: str) -> None:
        """Cancel the action with this id, for the operator of the workers.

        Does nothing if there is none, or if it has ended or is being stopped.
        """
        action = self._store.actions.get(action_id)
        if action is None or action.status in ENDED_ACTIONS or action.control is not None:
            return
        with suppress(ActionImmutable, NotFound):  # it has ended meanwhile
            self.signal(Context(action.project, "celery"), action, Signal.CANCEL)

    def end_bake(self, context: Context, stack: StackRecord, reason: str) -> None:
        """End the time in which the running update may be taken back: its clean-up begins.

        Raises NothingBakes.
        """
        with self._store.transaction():
            held = self._store.stacks.lock(stack.id)
            baking = [one for one in self._store.actions.live([stack.id]) if one.is_baking and one.control is None]
            if held is None or not baking:
                raise NothingBakes(stack_name=stack.name)
            told = f"The bake was ended by {context.user}" + (f": {reason}" if reason else "")
            held, now = with_state(held, held.verb, held.status, told), self._clock.now()
            self._store.stacks.save(held)
            self._store.events.append_many([stack_event(held, now)])
            ended = [self._store.controls.signal(action.id, Control.END_BAKE, now) for action in baking]
            if not any(ended):  # an alert or a cancel has come meanwhile
                raise NothingBakes(stack_name=stack.name)
        audit.info("end_bake stack=%s by=%s reason=%s", stack.id, context.user, reason)

    def _held(self, context: Context, action: ActionRecord) -> ActionRecord:
        """Lock the action and its stack until the transaction ends, and return the action.

        Raises as `signal`.
        """
        found = self._endings.take(action)
        if found is None:
            raise NotFound(entity="Action", name=action.id)
        if found.status in ENDED_ACTIONS:
            reason = found.status_reason or "no reason given"
            raise ActionImmutable(
                action_id=found.id, action=found.verb, status=found.status, reason=reason, holder=acting(found)
            )
        stack = self._store.stacks.get(found.stack_id)
        if stack is not None and self._is_guarded(stack) and not context.is_admin:
            raise Forbidden("An administrator has locked the stack: only an administrator can signal its actions.")
        return found

    def _is_guarded(self, stack: StackRecord) -> bool:
        """True if an administrator's lock holds the stack."""
        above = self._store.stacks.ancestors(stack)
        return any(one.lock is not None and one.lock.by_admin for one in (stack, *above))

    def _cancel(self, action: ActionRecord, force: bool) -> None:
        if force or not action.was_claimed and action.status is not ActionStatus.RUNNING:
            self._endings.cancel(action)
        else:
            self._store.controls.signal(action.id, Control.CANCEL, self._clock.now())

    @staticmethod
    def _check_suspendable(action: ActionRecord) -> None:
        if action.status is ActionStatus.INIT:
            what = "it is not approved yet" if action.verb is Verb.RUN else "its start time has not come"
            raise _refusal(action, f"{what}, so there is nothing to suspend; CANCEL it instead.")
        if action.control not in (None, Control.SUSPEND):
            raise _refusal(action, "it is already being stopped.")

    def _resume(self, action: ActionRecord) -> None:
        self._store.controls.resume(action, self._clock.now())
        for derived in held_derived(self._store, action):
            self._resume(derived)


def _is_suspended(action: ActionRecord) -> bool:
    """True if the action is suspended or about to be."""
    return action.status is ActionStatus.SUSPENDED or action.control is Control.SUSPEND


def _refusal(action: ActionRecord, hint: str) -> InvalidActionState:
    control = "" if action.control is None else f", asked to {action.control}"
    return InvalidActionState(
        action_id=action.id, action=action.verb, status=action.status, control=control, hint=hint,
        holder=acting(action),
    )  # fmt: skip
