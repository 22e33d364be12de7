"""One attempt at one claimed action: which walks an operation takes, and how the stack ends."""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor as Pool
from dataclasses import dataclass, replace
from functools import partial

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.status import ActionStatus, Control, LockLevel, Status, Verb
from heatlite.engine import planner
from heatlite.engine.breakpoints import Breakpoints, verb_of, waits_at
from heatlite.engine.children import Children, Order, keeps_objects
from heatlite.engine.definitions import EMPTY_TEMPLATE, Definitions
from heatlite.engine.executor import Executor, Stop, aborted_text, patiently
from heatlite.engine.handover import stack_record
from heatlite.engine.journal import Journal, Writes, moved, stack_event
from heatlite.engine.plan import Outcome
from heatlite.engine.scope import PlannedValues, Resources, Surroundings
from heatlite.engine.snapshots import parts
from heatlite.engine.step import DIFFERS, DRIFTED, LEFT, Work, drop_saved
from heatlite.engine.transitions import Transitions
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ActionRecord, ResourceRecord, SnapshotRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition
from heatlite.template.environment import Environment
from heatlite.template.loader import load_mapping

ROLLED_BACK = frozenset({Verb.CREATE, Verb.UPDATE, Verb.ADOPT, Verb.RESTORE})
"""What is rolled back where the stack is to be (heat-engine §8)."""

GIVES_UP = frozenset({None, Stop.TIMEOUT, Stop.FORCE_CANCEL})
"""Why a forced deletion ends: whatever is there still is left behind."""

CANCELS = frozenset({Stop.CANCEL, Stop.FORCE_CANCEL, Stop.CANCEL_ROLLBACK, Stop.ABORT})


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
    wake: Callable[[], None]
    """Says that there is something to claim."""


class Execution:
    """One attempt at one action. `run` returns when the action has ended or was given back."""

    def __init__(self, parts: Parts, action: ActionRecord, stack: StackRecord, rows: list[ResourceRecord]) -> None:
        self.action = action
        self._parts = parts
        self._stack = stack
        self._journal = Journal(rows)
        self._resources = Resources(stack, parts.surroundings)
        self._breakpoints = Breakpoints(parts.store.mail, action)
        self._resources.retries = bool(action.inputs.get("retry"))
        self._left: list[str] = []
        """What of its snapshots a deletion could not remove."""
        self._forced = bool(action.inputs.get("force"))
        deadline = action.deadline
        if self._forced:
            deadline = min(deadline or math.inf, parts.clock.now() + parts.settings.error_wait_time)
        retry_limit = parts.settings.action_retry_limit
        self._transitions = Transitions(
            self._journal, self._resources, self._breakpoints, parts.clock.now, retry_limit
        )
        self._transitions.keeps_objects = keeps_objects(action)
        self._children = Children(
            parts.store,
            parts.clock,
            parts.definitions,
            self._resources,
            action,
            parts.settings.max_resources_per_stack,
            parts.wake,
        )
        self._executor = Executor(
            parts.clock,
            parts.pool,
            self._transitions,
            self._children,
            self._commit_progress,
            lambda children, held: patiently(parts.clock, partial(self._park, children, held)),
            patience=parts.settings.error_wait_time,
            rolls_back=not stack.disable_rollback and stack.verb in ROLLED_BACK,
            deadline=deadline,
        )
        self._control: Control | None = None

    def request(self, control: Control) -> bool:
        """Somebody wants the action to stop (from any thread). A rollback only stops for a delete.

        Tells whether that is new.
        """
        heard = control in (Control.ABORT, Control.FORCE_CANCEL) or self._stack.verb is not Verb.ROLLBACK
        return heard and self._executor.request(control)

    def drain(self) -> None:
        """Give the action back at the next tick, so that another engine goes on with it (from any thread)."""
        self._executor.drain()

    @property
    def awaits_nested(self) -> bool:
        """Whether it waits for nested stacks, in which another process may be at work."""
        return self._executor.awaits_nested

    @property
    def nudged(self) -> bool:
        """Whether something has happened that it has not looked at yet."""
        return self._executor.nudged

    def nudge(self) -> None:
        """A nested stack has done something (from any thread)."""
        self._executor.nudge()

    def resume(self, action: ActionRecord) -> None:
        """Go on with the action, which has been claimed again; `run` is advanced after this."""
        self.action = action
        if action.control is not None:
            self.request(action.control)

    def run(self) -> Iterator[float | None]:
        """Do the action. Yields as `Executor.walk`; where that is None, `resume` it once the action is claimed again.

        Raises `Fenced` when another worker has taken it over.
        """
        if self.action.control is not None:
            self.request(self.action.control)
        walk, transitions = self._executor.walk, self._transitions
        match self.action.verb:
            case Verb.CREATE | Verb.UPDATE | Verb.ADOPT | Verb.RESTORE:
                yield from self._converge()
            case Verb.DELETE:
                yield from self._delete()
            case Verb.CHECK:
                yield from walk(planner.plan_check(self._rows()), transitions.begin_check)
                yield from self._end()
            case Verb.SNAPSHOT if "delete" in self.action.inputs:
                self._delete_snapshot(str(self.action.inputs["delete"]))
            case Verb.SNAPSHOT:
                transitions.snapshot = str(self.action.inputs["snapshot"])
                plan = planner.plan_snapshot(self._rows(), self.action.created_at)
                yield from walk(plan, transitions.begin_snapshot)
                yield from self._end()
            case Verb.SUSPEND:
                yield from walk(planner.plan_suspend(self._rows()), transitions.begin_suspend)
                yield from self._end()
            case Verb.RESUME:
                yield from walk(planner.plan_resume(self._rows()), transitions.begin_resume)
                yield from self._end()
            case Verb.LOCK if self.action.inputs.get("level") == LockLevel.ALL:
                yield from walk(planner.plan_lock(self._rows()), transitions.begin_lock)
                yield from self._end()
            case Verb.LOCK | Verb.UNLOCK:
                nested = planner.plan_nested(
                    self._nested_rows(), Outcome.LOCK if self.action.verb is Verb.LOCK else Outcome.UNLOCK
                )
                yield from walk(planner.plan_unlock(self._rows()), transitions.begin_unlock)
                yield from walk(nested, transitions.begin_nested)
                yield from self._end()
            case _:
                raise NotImplementedError(f"no such operation: {self.action.verb}")

    def _rows(self) -> list[ResourceRecord]:
        return list(self._journal.rows.values())

    def _nested_rows(self) -> list[ResourceRecord]:
        return [row for row in self._rows() if issubclass(self._resources.type_of(row), StackResource)]

    # -- operations of several walks ---------------------------------------------------------------

    def _converge(self) -> Iterator[float | None]:
        if self._stack.verb is not Verb.ROLLBACK:
            entries = self.action.inputs.get("resources")
            if isinstance(entries, dict) and self.action.verb is Verb.ADOPT:
                self._transitions.adopted = entries
            elif isinstance(entries, dict):
                self._resources.restore(entries)
            if self.action.inputs.get("converge"):
                self._resources.observe(self._rows(), self._parts.pool.map)
            yield from self._make(self._parts.definitions.of(self._stack))
            yield from self._executor.wait_out()
            stop = self._executor.stop
            failed = stop in (Stop.FAILURE, Stop.TIMEOUT) and self._executor.rolls_back
            if not failed and stop is not Stop.CANCEL_ROLLBACK:
                yield from self._end()
                return
            self._start_rollback()
        yield from self._make(self._parts.definitions.of(self._rollback_target()))
        yield from self._end()

    def _rollback_target(self) -> StackRecord:
        """The stack as a rollback is to leave it. A rolled-back create keeps its template: it can be retried."""
        stack = self._stack
        if stack.previous_template_id is None or stack.previous_environment is None:
            return stack
        return replace(stack, template_id=stack.previous_template_id, environment=stack.previous_environment)

    def _make(self, definition: Definition) -> Iterator[float | None]:
        """Make the stack what `definition` says, then remove what it no longer needs."""
        self._breakpoints.start(self._stack.verb, definition.environment)
        plan = planner.plan_converge(definition, self._rows(), PlannedValues(self._resources))
        self._transitions.start_converging(definition, plan)
        yield from self._executor.walk(plan, self._transitions.begin_converge)
        if self._executor.stop is None:
            # Everything that was asked for is there: that an old object does not go is no reason to undo it.
            self._executor.rolls_back = False
            keep = [row.id for row in self._transitions.chosen.values()]
            yield from self._executor.walk(planner.plan_cleanup(self._rows(), keep), self._transitions.begin_delete)

    def _start_rollback(self) -> None:
        """Tell of the failure, then turn to the previous definition, all in one commit."""
        now = self._parts.clock.now()
        self._resources.forget()
        self._settle_leftovers()
        failed = moved(self._stack, self._stack.verb, Status.FAILED, self._failure_reason())
        self._journal.tell(stack_event(failed, now))
        stack = moved(self._stack, Verb.ROLLBACK, Status.IN_PROGRESS, "Stack ROLLBACK started")
        if self.action.verb in (Verb.CREATE, Verb.ADOPT):
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
        deadline = now + stack.timeout_seconds(self._parts.settings.stack_action_timeout)
        # What led here must not keep the rollback from waiting for nested stacks, nor stop it after a crash.
        self._commit(stack, also=lambda: self._parts.store.actions.turn_back(self.action.id, deadline))
        self._resources.stack = stack
        self._executor.restart(deadline)
        if self._control is Control.ABORT:
            self.request(Control.ABORT)

    def _delete(self) -> Iterator[float | None]:
        if not self._forced:
            environment = load_mapping(self._stack.environment, "environment", "Environment")
            self._breakpoints.start(Verb.DELETE, Environment.parse(environment))
        # Whatever a maintenance lock still holds might refuse to go. (Nested stacks see to that themselves.)
        nested = {row.id for row in self._nested_rows()}
        own = planner.plan_unlock(row for row in self._rows() if row.id not in nested)
        yield from self._executor.walk(own, self._transitions.begin_unlock)
        self._executor.failures.clear()
        if self._executor.stop is None and not self._transitions.keeps_objects:
            kept = self._drop_parts(self._parts.store.snapshots.of(self._stack.id))
            self._executor.failures += kept
            self._left += kept
        done = [row.id for row in self._rows() if row.verb is Verb.DELETE and row.status is Status.COMPLETE]
        waiting = [row.id for row in self._rows() if waits_at(row) is not None]
        plan = planner.plan_cleanup(self._rows(), {*done}.difference(waiting), goes_on=self._forced)
        yield from self._executor.walk(plan, self._transitions.begin_delete)
        yield from self._end()

    # -- snapshots -----------------------------------------------------------------------------------

    def _drop_parts(self, snapshots: Sequence[SnapshotRecord]) -> list[str]:
        """Have types remove what they keep for snapshots; why some did not."""
        found = [part for snapshot in snapshots for part in parts(snapshot, self._resources)]
        return [failure for failure in self._parts.pool.map(drop_saved, found) if failure is not None]

    def _delete_snapshot(self, snapshot_id: str) -> None:
        """Remove a snapshot with all that belongs to it. The stack's state is not concerned."""
        snapshots = self._parts.store.snapshots
        snapshot = snapshots.get(self._stack.id, snapshot_id)
        failures = [] if snapshot is None else self._drop_parts([snapshot])
        if snapshot is None or not failures:
            self._commit(None, ActionStatus.SUCCEEDED, lambda: snapshots.delete_many([snapshot_id]))
            return
        failed = replace(snapshot, status=Status.FAILED, status_reason="; ".join(failures))
        self._commit(None, ActionStatus.FAILED, lambda: snapshots.save(failed))

    def _write_snapshot(self, stack: StackRecord) -> None:
        """Write what has come of the snapshot that the action takes; `stack` is as it ends. A nested one has none."""
        store = self._parts.store
        snapshot = store.snapshots.get(stack.id, str(self.action.inputs.get("snapshot")))
        if snapshot is not None:
            record = stack_record(store, stack, self._rows())
            store.snapshots.save(
                replace(snapshot, status=stack.status, status_reason=stack.status_reason, data=record)
            )

    # -- the end -----------------------------------------------------------------------------------

    def _end(self) -> Iterator[float | None]:
        """Write the stack's final state and the action's, and let go, in one transaction."""
        yield from self._executor.wait_out()
        if self._executor.stop is Stop.DRAIN:
            return  # The worker gives back whatever it still owns.
        failed = self._executor.stop is not None or bool(self._executor.failures)
        gives_up = self._forced and self._executor.stop in GIVES_UP
        failed = failed and not gives_up
        self._settle_leftovers()
        stack = self._failed() if failed else self._completed()
        self._journal.tell(stack_event(stack, self._parts.clock.now()))
        status = ActionStatus.FAILED if failed else ActionStatus.SUCCEEDED
        cancelled = self._executor.stop in CANCELS and not gives_up
        also = partial(self._write_snapshot, stack) if self.action.verb is Verb.SNAPSHOT else None
        self._commit(stack, ActionStatus.CANCELLED if cancelled else status, also)

    def _settle_leftovers(self) -> None:
        """Fail what an earlier attempt left in progress and this one stopped too soon to take up."""
        stop = self._executor.stop
        if stop is None:
            return
        for row in self._rows():
            hook = waits_at(row)
            if row.status is Status.IN_PROGRESS:
                self._transitions.fail(row, aborted_text(row.verb, stop))
            elif hook is not None:
                self._transitions.end_wait(row, aborted_text(verb_of(hook), stop))

    def _failed(self) -> StackRecord:
        return moved(self._stack, self._stack.verb, Status.FAILED, self._failure_reason())

    def _completed(self) -> StackRecord:
        verb = self._stack.verb
        reason = f"Stack {verb} completed successfully"
        if verb is Verb.CHECK and any(not self._resources.type_of(row).has("check") for row in self._rows()):
            reason += ". 'CHECK' not fully supported (see resources)"
        drifted = [row.name for row in self._rows() if row.verb is verb and row.status_reason.startswith(DIFFERS)]
        if verb is Verb.CHECK and drifted:
            reason += f"{DRIFTED}{', '.join(sorted(drifted))} (see resources)"
        if verb is Verb.DELETE:
            left = self._left + [text for row in self._rows() for text in self._transitions.left_behind(row)]
            reason += f". {LEFT}{'; '.join(left)}" if left else ""
            for row in self._rows():
                self._transitions.forget(row)
        stack = moved(self._stack, verb, Status.COMPLETE, reason)
        if verb in (Verb.CREATE, Verb.UPDATE, Verb.RESTORE):
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
            case Stop.CANCEL | Stop.FORCE_CANCEL | Stop.CANCEL_ROLLBACK | Stop.ABORT:
                return f"Stack {self._stack.verb} cancelled"
            case _:
                return "; ".join(self._executor.failures)

    # -- commits -----------------------------------------------------------------------------------

    def _commit_progress(self) -> None:
        """Write what the tick has changed, if anything."""
        if self._journal.dirty or self._children.placed:
            self._commit()

    def _commit(
        self,
        stack: StackRecord | None = None,
        ends: ActionStatus | None = None,
        also: Callable[[], None] | None = None,
    ) -> None:
        """One fenced transaction; a database that does not take it now is asked again until it does.

        `also` writes what else belongs into it.
        """
        writes, orders = self._journal.take(), self._children.take()
        patiently(self._parts.clock, partial(self._write, writes, orders, stack, ends, also))
        if orders:
            self._children.written(orders)

    def _park(self, children: int, held: Sequence[Work]) -> bool:
        """Let go of the action until one of its `children` has ended, or one of the works that are `held` may go on.

        False if that has happened already, or if something is asked of the action.
        """
        store, action = self._parts.store, self.action
        with store.transaction():
            lease = self._parts.settings.lease_seconds
            self._control = store.actions.hold(
                action.id, action.owner or "", action.attempt, self._parts.clock.now(), lease
            )
            stays = self._control is None and not self._breakpoints.let_go(held)
            parked = stays and store.actions.park(action, children)
        if self._control is not None:
            self.request(self._control)
        return parked

    def _write(
        self,
        writes: Writes,
        orders: list[Order],
        stack: StackRecord | None,
        ends: ActionStatus | None,
        also: Callable[[], None] | None,
    ) -> None:
        store, action, now = self._parts.store, self.action, self._parts.clock.now()
        with store.transaction():
            lease = self._parts.settings.lease_seconds
            if ends is not None:
                store.actions.hold_parent(action)
            self._control = store.actions.hold(action.id, action.owner or "", action.attempt, now, lease)
            store.resources.insert_many(writes.new)
            store.resources.save_many(writes.changed)
            store.resources.delete_many(writes.gone)
            self._children.write(orders)
            if also is not None:
                also()
            events = writes.events
            if stack is not None and self._control is Control.ABORT:
                # A delete has taken the stack's state over; only the resources' story is still ours to tell.
                events = [event for event in events if event.physical_id != stack.id]
                stack = None
            store.events.append_many(events)
            if stack is not None:
                store.stacks.save(stack)
                if stack.deleted_at is not None:
                    store.snapshots.clear(stack.id)
                    store.suppressed.clear(stack.id)  # nobody can ask for them any more, and they may hold secrets
            if ends is not None:
                self._breakpoints.forget()
                store.actions.finish(action, ends, "" if stack is None else stack.status_reason, now)
        if stack is not None:
            self._stack = stack
        if self._control is not None:
            self.request(self._control)
