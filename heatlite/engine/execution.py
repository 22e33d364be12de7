"""One attempt at one claimed action: which walks an operation takes, and how the stack ends."""

import logging
import threading
from concurrent.futures import Executor as Pool
from dataclasses import dataclass, replace

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.status import ActionStatus, Control, LockLevel, Status, Verb
from heatlite.engine import planner
from heatlite.engine.definitions import EMPTY_TEMPLATE, Definitions
from heatlite.engine.executor import Executor, Stop, aborted_text
from heatlite.engine.gate import timeout_seconds
from heatlite.engine.journal import Journal, Writes, moved, stack_event
from heatlite.engine.scope import Resources, Surroundings
from heatlite.engine.step import DIFFERS
from heatlite.engine.transitions import Transitions
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition

log = logging.getLogger(__name__)

RETRY_COMMIT = 1.0
"""Seconds until a commit that the database refused (locked, disk full) is tried again."""

CANCELS = frozenset({Stop.CANCEL, Stop.CANCEL_ROLLBACK, Stop.ABORT})


@dataclass(frozen=True, slots=True)
class Parts:
    """What every execution works with."""

    store: Store
    surroundings: Surroundings
    clock: Clock
    settings: Settings
    definitions: Definitions
    pool: Pool
    """Where handlers run that may block."""


class Execution:
    """One attempt at one action. `run` returns when the action has ended or was given back."""

    def __init__(self, parts: Parts, action: ActionRecord, stack: StackRecord, rows: list[ResourceRecord]) -> None:
        self.action = action
        self._parts = parts
        self._stack = stack
        self._journal = Journal(rows)
        self._resources = Resources(stack, parts.surroundings)
        self._transitions = Transitions(self._journal, self._resources, parts.clock.now)
        self._executor = Executor(
            parts.clock,
            parts.pool,
            self._transitions,
            self._commit_progress,
            patience=parts.settings.error_wait_time,
            rolls_back=not stack.disable_rollback and stack.verb in (Verb.CREATE, Verb.UPDATE),
            deadline=action.deadline,
        )
        self._control: Control | None = None

    def request(self, control: Control) -> None:
        """Somebody wants the action to stop (from any thread). A rollback only stops for a delete."""
        if control is Control.ABORT or self._stack.verb is not Verb.ROLLBACK:
            self._executor.request(control)

    def drain(self) -> None:
        """Give the action back at the next tick, so that another engine goes on with it (from any thread)."""
        self._executor.drain()

    def run(self) -> None:
        """Do the action. Raises `Fenced` when another worker has taken it over."""
        if self.action.control is not None:
            self.request(self.action.control)
        walk, transitions = self._executor.walk, self._transitions
        match self.action.verb:
            case Verb.CREATE | Verb.UPDATE:
                self._converge()
            case Verb.DELETE:
                self._delete()
            case Verb.CHECK:
                walk(planner.plan_check(self._rows()), transitions.begin_check)
                self._end()
            case Verb.SUSPEND:
                walk(planner.plan_suspend(self._rows()), transitions.begin_suspend)
                self._end()
            case Verb.RESUME:
                walk(planner.plan_resume(self._rows()), transitions.begin_resume)
                self._end()
            case Verb.LOCK if self.action.inputs.get("level") == LockLevel.ALL:
                walk(planner.plan_lock(self._rows()), transitions.begin_lock)
                self._end()
            case Verb.LOCK | Verb.UNLOCK:
                walk(planner.plan_unlock(self._rows()), transitions.begin_unlock)
                self._end()
            case _:
                raise NotImplementedError(f"no such operation: {self.action.verb}")

    def _rows(self) -> list[ResourceRecord]:
        return list(self._journal.rows.values())

    # -- operations of several walks ---------------------------------------------------------------

    def _converge(self) -> None:
        if self._stack.verb is not Verb.ROLLBACK:
            if self.action.inputs.get("converge"):
                self._resources.observe(self._rows(), self._parts.pool.map)
            self._make(self._parts.definitions.of(self._stack))
            stop = self._executor.stop
            failed = stop in (Stop.FAILURE, Stop.TIMEOUT) and self._executor.rolls_back
            if not failed and stop is not Stop.CANCEL_ROLLBACK:
                self._end()
                return
            self._start_rollback()
        self._make(self._parts.definitions.of(self._rollback_target()))
        self._end()

    def _rollback_target(self) -> StackRecord:
        """The stack as a rollback is to leave it. A rolled-back create keeps its template: it can be retried."""
        stack = self._stack
        if stack.previous_template_id is None or stack.previous_environment is None:
            return stack
        return replace(stack, template_id=stack.previous_template_id, environment=stack.previous_environment)

    def _make(self, definition: Definition) -> None:
        """Make the stack what `definition` says, then remove what it no longer needs."""
        plan = planner.plan_converge(definition, self._rows(), self._resources)
        self._transitions.start_converging(definition, plan)
        self._executor.walk(plan, self._transitions.begin_converge)
        if self._executor.stop is None:
            # Everything that was asked for is there: that an old object does not go is no reason to undo it.
            self._executor.rolls_back = False
            keep = [row.id for row in self._transitions.chosen.values()]
            self._executor.walk(planner.plan_cleanup(self._rows(), keep), self._transitions.begin_delete)

    def _start_rollback(self) -> None:
        """Tell of the failure, then turn to the previous definition, all in one commit."""
        now = self._parts.clock.now()
        self._resources.forget()
        self._settle_leftovers()
        failed = moved(self._stack, self._stack.verb, Status.FAILED, self._failure_reason())
        self._journal.tell(stack_event(failed, now))
        stack = moved(self._stack, Verb.ROLLBACK, Status.IN_PROGRESS, "Stack ROLLBACK started")
        if self.action.verb is Verb.CREATE:
            with self._parts.store.transaction():
                nothing = self._parts.store.templates.put(EMPTY_TEMPLATE, {})
            stack = replace(stack, previous_template_id=nothing, previous_environment={})
        elif stack.previous_template_id is not None and stack.previous_environment is not None:
            stack = replace(
                stack,
                template_id=stack.previous_template_id,
                environment=stack.previous_environment,
                previous_template_id=None,
                previous_environment=None,
            )
        self._journal.tell(stack_event(stack, now))
        self._commit(stack)
        self._executor.restart(now + timeout_seconds(stack, self._parts.settings))
        if self._control is Control.ABORT:
            self.request(Control.ABORT)

    def _delete(self) -> None:
        # Whatever a maintenance lock still holds might refuse to go.
        self._executor.walk(planner.plan_unlock(self._rows()), self._transitions.begin_unlock)
        self._executor.failures.clear()
        self._executor.walk(planner.plan_cleanup(self._rows(), ()), self._transitions.begin_delete)
        self._end()

    # -- the end -----------------------------------------------------------------------------------

    def _end(self) -> None:
        """Write the stack's final state and the action's, and let go, in one transaction."""
        if self._executor.stop is Stop.DRAIN:
            return  # The worker gives back whatever it still owns.
        failed = self._executor.stop is not None or bool(self._executor.failures)
        self._settle_leftovers()
        stack = self._failed() if failed else self._completed()
        self._journal.tell(stack_event(stack, self._parts.clock.now()))
        status = ActionStatus.FAILED if failed else ActionStatus.SUCCEEDED
        self._commit(stack, ActionStatus.CANCELLED if self._executor.stop in CANCELS else status)

    def _settle_leftovers(self) -> None:
        """Fail what an earlier attempt left in progress and this one stopped too soon to take up."""
        stop = self._executor.stop
        for row in self._rows():
            if row.status is Status.IN_PROGRESS and stop is not None:
                self._transitions.fail(row, aborted_text(row.verb, stop))

    def _failed(self) -> StackRecord:
        return moved(self._stack, self._stack.verb, Status.FAILED, self._failure_reason())

    def _completed(self) -> StackRecord:
        verb = self._stack.verb
        reason = f"Stack {verb} completed successfully"
        if verb is Verb.CHECK and any(not self._resources.type_of(row).has("check") for row in self._rows()):
            reason += ". 'CHECK' not fully supported (see resources)"
        drifted = [row.name for row in self._rows() if row.verb is verb and row.status_reason.startswith(DIFFERS)]
        if verb is Verb.CHECK and drifted:
            reason += f". Not as stored: {', '.join(sorted(drifted))} (see resources)"
        stack = moved(self._stack, verb, Status.COMPLETE, reason)
        if verb in (Verb.CREATE, Verb.UPDATE):
            stack = replace(stack, previous_template_id=None, previous_environment=None)
        if verb is Verb.UNLOCK:
            stack = replace(stack, lock=None)
        if verb is Verb.DELETE:
            stack = replace(stack, deleted_at=self._parts.clock.now())
        return stack

    def _failure_reason(self) -> str:
        match self._executor.stop:
            case Stop.TIMEOUT:
                return "Timed out"
            case Stop.CANCEL | Stop.CANCEL_ROLLBACK | Stop.ABORT:
                return f"Stack {self._stack.verb} cancelled"
            case _:
                return "; ".join(self._executor.failures)

    # -- commits -----------------------------------------------------------------------------------

    def _commit_progress(self) -> None:
        """Write what the tick has changed, if anything."""
        if self._journal.dirty:
            self._commit()

    def _commit(self, stack: StackRecord | None = None, ends: ActionStatus | None = None) -> None:
        """One fenced transaction; a database that does not take it now is asked again until it does."""
        writes = self._journal.take()
        while True:
            try:
                self._write(writes, stack, ends)
                return
            except DatabaseUnavailable as error:
                log.warning("stack %s: not written yet, trying again: %s", self._stack.name, error)
                self._parts.clock.wait(threading.Event(), RETRY_COMMIT)

    def _write(self, writes: Writes, stack: StackRecord | None, ends: ActionStatus | None) -> None:
        store, action, now = self._parts.store, self.action, self._parts.clock.now()
        with store.transaction():
            lease = self._parts.settings.lease_seconds
            self._control = store.actions.hold(action.id, action.owner or "", action.attempt, now, lease)
            store.resources.insert_many(writes.new)
            store.resources.save_many(writes.changed)
            store.resources.delete_many(writes.gone)
            events = writes.events
            if stack is not None and self._control is Control.ABORT:
                # A delete has taken the stack's state over; only the resources' story is still ours to tell.
                events = [event for event in events if event.physical_id != stack.id]
                stack = None
            store.events.append_many(events)
            if stack is not None:
                store.stacks.save(stack)
                if stack.deleted_at is not None:
                    store.suppressed.clear(stack.id)  # nobody can ask for them any more, and they may hold secrets
            if ends is not None:
                store.actions.finish(action, ends, "" if stack is None else stack.status_reason, now)
        if stack is not None:
            self._stack = stack
        if self._control is not None:
            self.request(self._control)
