"""One attempt at one claimed action: which walks an operation takes, and how the stack ends."""

import math
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor as Pool
from dataclasses import dataclass, replace
from functools import partial

from heatlite.core.action_payloads import ActionData, StopRecord
from heatlite.core.check_tally import CheckTally
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import ActionConflict, DatabaseUnavailable
from heatlite.core.masking import Mask
from heatlite.core.meter import Meter
from heatlite.core.status import STATUS_AFTER, Control, LockLevel, Result, Status, Verb
from heatlite.engine.execution.termination import outputs, suspend_derived
from heatlite.engine.planning import planner
from heatlite.engine.planning.collect import PlannedValues, converge
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.planning.snapshot_parts import parts
from heatlite.engine.planning.stack_document import stack_record
from heatlite.engine.state.database_retry import patiently
from heatlite.engine.state.definitions import EMPTY_TEMPLATE, Definitions, secrets_of
from heatlite.engine.state.hooks import verb_of, waits_at
from heatlite.engine.state.protected import declare
from heatlite.engine.state.unit_of_work import Journal, Writes, moved, stack_event
from heatlite.engine.state.values import Resources, Surroundings
from heatlite.engine.steps.breakpoints import Breakpoints, parked_as
from heatlite.engine.steps.children import Children, Order, keeps_objects
from heatlite.engine.steps.handlers import DIFFERS, DRIFTED, LEFT, drop_saved
from heatlite.engine.steps.orphans import Orphans
from heatlite.engine.steps.step_execution import HookWait
from heatlite.engine.steps.stopping import Stop, Stopping, aborted_text
from heatlite.engine.steps.transitions import Transitions
from heatlite.engine.steps.walk import Walker
from heatlite.plugin.nested import StackResource
from heatlite.store.errors import AlreadyCommitted, Fenced
from heatlite.store.records import ActionRecord, ResourceRecord, SnapshotRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition
from heatlite.template.environment import Environment

ROLLED_BACK = frozenset({Verb.CREATE, Verb.UPDATE, Verb.ADOPT, Verb.RESTORE})
"""What is rolled back where the stack is to be (heat-engine §8)."""

GIVES_UP = frozenset({None, Stop.TIMEOUT, Stop.FORCE_CANCEL})
"""Why a forced deletion ends: whatever is there still is left behind."""

MOST_OF_FAILURES = 64 * 1024
"""Characters of failures that are kept for the next attempt: the first ones, of which there may be thousands."""

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
    afterwards: Callable[[Callable[[], None]], None]
    """Has something done that may take long, by a thread that nobody else wants; the engine waits for it at its end."""
    stopping: threading.Event
    """Says that the engine is about to end."""
    meter: Meter


def phase_of(action: ActionRecord, stack: StackRecord) -> str:
    """The name of a phase of an action, which rows keep: its way there, or the rollback that follows."""
    return f"{action.id}/rollback" if stack.verb is Verb.ROLLBACK else action.id


class Execution:
    """One attempt at one action. `execute` returns when the action has ended or is to be given back."""

    def __init__(self, parts: Parts, action: ActionRecord, stack: StackRecord, rows: list[ResourceRecord]) -> None:
        self.action = action
        self.mask = Mask(partial(secrets_of, parts.store, parts.definitions, stack)) if stack.sealed else None
        """What its reasons must not tell."""
        self._data = action.data
        self._parts = parts
        self._stack = stack
        self._journal = Journal(rows)
        self._resources = Resources(stack, parts.surroundings)
        self._breakpoints = Breakpoints(parts.store.messages, action)
        self._resources.suspended = action.suspended
        self._resources.phase = phase_of(action, stack)
        self._resources.retries = action.inputs.retry
        self._left: list[str] = []
        """What of its snapshots a deletion could not remove."""
        self._forced = action.inputs.force
        deadline = action.deadline
        if self._forced:
            deadline = min(deadline or math.inf, parts.clock.now() + parts.settings.error_wait_time)
        retry_limit = parts.settings.action_retry_limit
        self._transitions = Transitions(
            self._journal, self._resources, self._breakpoints, parts.clock.now, retry_limit
        )
        self._transitions.operations.keeps_objects = keeps_objects(action)
        self._children = Children(
            parts.store,
            parts.clock,
            parts.definitions,
            self._resources,
            action,
            parts.settings.max_resources_per_stack,
            self._transitions.budget,
        )
        self._recorded: int | None = None
        """What other walks of the tree know that this stack's rows hold."""
        self._stopping = Stopping(
            parts.clock,
            lambda: parts.store.claims.control_of(self.action),
            patience=parts.settings.error_wait_time,
            rolls_back=not stack.disable_rollback and stack.verb in ROLLED_BACK,
            deadline=deadline,
        )
        self._walker = Walker(
            parts.clock,
            parts.pool,
            self._transitions,
            self._children,
            parts.meter,
            self._commit_progress,
            lambda children, held: patiently(parts.clock, partial(self._park, children, held)),
            lambda: patiently(parts.clock, self._set_aside),
            self._stopping,
        )
        if action.data.checked is not None:
            self._transitions.operations.tally = action.data.checked.copy()
        if action.data.stopping is not None:
            # An earlier attempt has failed or was stopped: this one only brings it to its end.
            self._stopping.restore(action.data.stopping, action.suspended)
            self._walker.failures += action.data.stopping.failures
        self._suspected = action.takeovers
        """How often it was taken over, until this attempt has progressed."""
        self._control: Control | None = None
        self._result: Result | None = None
        self.reason = ""
        """Why it is to be begun again, where that is the result."""

    @property
    def control(self) -> Control | None:
        """What it has heard is asked of the action."""
        return self._stopping.control

    def call(self) -> None:
        """Something else is asked of the action now, or it is somebody else's (from any thread)."""
        self._walker.notify()

    def drain(self) -> None:
        """Give the action back at the next tick, so that another engine goes on with it (from any thread)."""
        self._walker.drain()

    @property
    def awaits_nested(self) -> bool:
        """Whether it waits for nested stacks, in which another process may be at work."""
        return self._walker.awaits_nested

    @property
    def nudged(self) -> bool:
        """Whether something has happened that it has not looked at yet."""
        return self._walker.is_nudged

    def nudge(self) -> None:
        """A nested stack has done something (from any thread)."""
        self._walker.nudge()

    def resume(self, action: ActionRecord) -> None:
        """Go on with the action, which has been claimed again; `execute` is advanced after this."""
        self._stopping.extend(action.suspended - self.action.suspended)
        self._stopping.control = action.control
        self._resources.suspended = action.suspended
        self.action = action

    def execute(self) -> Generator[float | None, None, Result | None]:
        """Do the action. Yields as `Executor.walk`; where that is None, `resume` it once the action is claimed again.

        What it came to; None where it was stopped so that another engine can go on with it. All but RETRY are written.
        Raises `Fenced` when another worker has taken it over.
        """
        try:
            for until in self._run():
                self._count_takeovers(0)  # nothing that it has called is under way: whatever ends the engine, not this
                yield until
                self._count_takeovers(self._suspected)
        except Fenced:
            # Somewhere else: a call may hang for ever, and the slot is wanted.
            self._parts.afterwards(self._clear_up)
            raise
        except (DatabaseUnavailable, ActionConflict) as error:
            self._walker.wait_for_calls()
            self.reason = error.message
            return Result.RETRY
        return self._result

    def _count_takeovers(self, number: int) -> None:
        """Say how many takeovers have brought nothing, should the engine end now; of most attempts, none anyway."""
        if self._suspected:
            count = partial(self._parts.store.claims.set_takeovers, self.action, number)
            patiently(self._parts.clock, count)

    def _clear_up(self) -> None:
        """Once no handler is at work any more: remove what nobody knows of."""
        self._walker.wait_for_calls()
        orphans = Orphans(self._parts.store, self._parts.clock, self._stack.project)
        orphans.remove(self._walker.unwritten(), self._parts.stopping)

    def _run(self) -> Iterator[float | None]:
        self._stopping.control = self.action.control
        yield from self._walker.rest()
        if self.action.failed_dependencies:
            self._end_unbegun()
            return
        objection = "" if self._needs_no_cloud else self._parts.surroundings.stack_clouds.objection(self._stack)
        if objection:
            self._end_refused(objection)
            return
        walk, operations = self._walker.walk, self._transitions.operations
        match self.action.verb:
            case Verb.CREATE | Verb.UPDATE | Verb.ADOPT | Verb.RESTORE:
                yield from self._converge()
            case Verb.DELETE:
                yield from self._delete()
            case Verb.CHECK:
                yield from walk(planner.plan_check(self._undone()), operations.begin_check)
                yield from self._end()
            case Verb.SNAPSHOT if self.action.inputs.deleted_snapshot is not None:
                self._delete_snapshot(self.action.inputs.deleted_snapshot)
            case Verb.SNAPSHOT:
                operations.snapshot = self.action.inputs.snapshot or ""
                yield from walk(planner.plan_snapshot(self._undone()), operations.begin_snapshot)
                yield from self._end()
            case Verb.SUSPEND:
                yield from walk(planner.plan_suspend(self._undone()), operations.begin_suspend)
                yield from self._end()
            case Verb.RESUME:
                yield from walk(planner.plan_resume(self._undone()), operations.begin_resume)
                yield from self._end()
            case Verb.LOCK if self.action.inputs.level is LockLevel.ALL:
                yield from walk(planner.plan_lock(self._undone()), operations.begin_lock)
                yield from self._end()
            case Verb.LOCK | Verb.UNLOCK:
                outcome = Outcome.LOCK if self.action.verb is Verb.LOCK else Outcome.UNLOCK
                nested = planner.plan_nested(self._nested(self._undone()), outcome)
                yield from walk(planner.plan_unlock(self._undone()), operations.begin_unlock)
                yield from walk(nested, operations.begin_nested)
                yield from self._end()
            case _:
                raise NotImplementedError(f"no such operation: {self.action.verb}")

    def _rows(self) -> list[ResourceRecord]:
        return list(self._journal.rows.values())

    def _undone(self) -> list[ResourceRecord]:
        """The rows with which an earlier attempt was not done, well or badly."""
        phase = self._resources.phase
        return [row for row in self._rows() if row.moved_in != phase or row.status is Status.IN_PROGRESS]

    def _nested(self, rows: Iterable[ResourceRecord]) -> list[ResourceRecord]:
        return [row for row in rows if issubclass(self._resources.type_of(row), StackResource)]

    # -- operations of several walks ---------------------------------------------------------------

    def _converge(self) -> Iterator[float | None]:
        if self._stack.verb is not Verb.ROLLBACK:
            entries = self.action.inputs.resources
            if entries is not None and self.action.verb is Verb.ADOPT:
                self._transitions.converging.adopted = entries
            elif entries is not None:
                self._resources.restore(entries)
            if self.action.inputs.converge:
                self._resources.observe(self._rows(), self._parts.pool.map)
            yield from self._make(self._parts.definitions.of(self._stack))
            yield from self._walker.wait_out()
            stop = self._stopping.stop
            failed = stop in (Stop.FAILURE, Stop.TIMEOUT) and self._stopping.rolls_back
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
        plan = converge(definition, self._rows(), PlannedValues(self._resources))
        protected = planner.protected(plan, self._rows(), self._resources.protected)
        refused = [f"DeletionProtected: {text}" for text in protected]
        refused += [f"NotSupported: resources.{name}: {why}" for name, why in plan.refused.items()]
        if refused and not any(row.status is Status.IN_PROGRESS for row in self._rows()):
            # Nothing is begun. What an earlier attempt has begun is seen through; the steps refuse by themselves.
            self._walker.failures += refused
            self._stopping.fail()
            return
        self._transitions.converging.start(definition, plan)
        yield from self._walker.walk(plan, self._transitions.converging.begin)
        if self._stopping.stop is None:
            self._stopping.finish_making()
        if self._stopping.is_made:
            keep = [row.id for row in self._transitions.rows.chosen.values()]
            cleanup = planner.plan_cleanup(self._rows(), keep)
            yield from self._walker.walk(cleanup, self._transitions.operations.begin_delete)

    def _start_rollback(self) -> None:
        """Tell of the failure, then turn to the previous definition, all in one commit."""
        now = self._parts.clock.now()
        self._resources.forget()
        self._settle_leftovers()
        failed = moved(self._stack, self._stack.verb, Status.FAILED, self._failure_reason())
        self._journal.tell(stack_event(failed, now))
        stack = moved(self._stack, Verb.ROLLBACK, Status.IN_PROGRESS, "Stack ROLLBACK started")
        undoes_create = self.action.verb in (Verb.CREATE, Verb.ADOPT)
        if undoes_create:
            nothing = self._parts.store.templates.address(EMPTY_TEMPLATE, {})
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
        deadline = now + stack.timeout_seconds(self._parts.settings.default_action_timeout)
        # What led here must not keep the rollback from waiting for nested stacks, nor stop it after a crash.
        self._data = replace(self._kept_data(), rolled_back_after=self._outcome())

        def turn_back() -> None:
            if undoes_create:
                self._parts.store.templates.put(EMPTY_TEMPLATE, {})  # together with the reference, so that it stays
            self._parts.store.moves.start_rollback(self.action.id, deadline)

        self._commit(stack, also=turn_back)
        self._resources.stack = stack
        self._resources.phase = phase_of(self.action, stack)
        self._transitions.rows.interrupted.clear()
        self._stopping.restart(deadline)
        self._walker.failures.clear()
        if self._control is not Control.CANCEL_ROLLBACK:
            self._stopping.control = self._control

    def _delete(self) -> Iterator[float | None]:
        if not self._forced:
            self._breakpoints.start(Verb.DELETE, Environment.stored(self._stack.environment))
        # Whatever a maintenance lock still holds might refuse to go. (Nested stacks see to that themselves.)
        nested = {row.id for row in self._nested(self._rows())}
        own = [row for row in self._undone() if row.id not in nested and not self._deletes(row)]
        yield from self._walker.walk(planner.plan_unlock(own, optional=True), self._transitions.operations.begin_unlock)
        yield from self._walker.rest()
        if self._stopping.stop is None and not self._transitions.operations.keeps_objects:
            kept = self._drop_parts(self._parts.store.snapshots.of(self._stack.id))
            self._walker.failures += [text for text in kept if text not in self._walker.failures]
            self._left += kept
        gone = [row.id for row in self._rows() if row.verb is Verb.DELETE and row.status is Status.COMPLETE]
        failed = [row.id for row in self._rows() if row.status is Status.FAILED and self._deletes(row)]
        waiting = [row.id for row in self._rows() if waits_at(row) is not None]
        plan = planner.plan_cleanup(self._rows(), {*gone, *failed}.difference(waiting), goes_on=self._forced)
        yield from self._walker.walk(plan, self._transitions.operations.begin_delete)
        if self._stack.parent_id is None and self._outcome() is Result.OK:
            # Before the stack's end is written: there is nobody to do it after that.
            store, clouds = self._parts.store, self._parts.surroundings.services.clouds
            clouds.revoke(store.credentials.of(self._stack.id))
        if self._outcome() is Result.OK and self._parts.surroundings.accounts is not None:
            self._parts.surroundings.accounts.close_all(self._stack)
        yield from self._end()

    def _deletes(self, row: ResourceRecord) -> bool:
        """Whether this deletion has begun with the row, perhaps in an earlier attempt."""
        return row.verb is Verb.DELETE and row.moved_in == self._resources.phase

    # -- snapshots -----------------------------------------------------------------------------------

    def _drop_parts(self, snapshots: Sequence[SnapshotRecord]) -> list[str]:
        """Have types remove what they keep for snapshots; why some did not."""
        found = [part for snapshot in snapshots for part in parts(snapshot, self._resources)]
        return [failure for failure in self._parts.pool.map(drop_saved, found) if failure is not None]

    def _delete_snapshot(self, snapshot_id: str) -> None:
        """Remove a snapshot with all that belongs to it. The stack's state is not concerned."""
        snapshots = self._parts.store.snapshots
        snapshot = snapshots.get(self._stack.id, snapshot_id)
        self._stopping.check()
        stop = self._stopping.stop
        if stop is Stop.DRAIN:
            return
        if stop is not None:
            failures = [aborted_text(Verb.DELETE, stop)]
        else:
            failures = [] if snapshot is None else self._drop_parts([snapshot])
        if snapshot is None or not failures:
            self._commit(None, Result.OK, lambda: snapshots.delete_many([snapshot_id]))
            return
        failed = replace(snapshot, status=Status.FAILED, status_reason="; ".join(failures))
        result = self._outcome() if stop is not None else Result.ERROR
        self._commit(None, result, lambda: snapshots.save(failed), failed.status_reason)

    def _write_snapshot(self, stack: StackRecord) -> None:
        """Write what has come of the snapshot that the action takes; `stack` is as it ends. A nested one has none."""
        store = self._parts.store
        snapshot = store.snapshots.get(stack.id, self.action.inputs.snapshot or "")
        if snapshot is not None:
            record = stack_record(store, stack, self._rows())
            store.snapshots.save(
                replace(snapshot, status=stack.status, status_reason=stack.status_reason, data=record)
            )

    # -- the end -----------------------------------------------------------------------------------

    def _end(self) -> Iterator[float | None]:
        """Write the stack's final state and the action's, and let go, in one transaction."""
        yield from self._walker.wait_out()
        if self._stopping.stop is Stop.DRAIN:
            return  # The worker gives back whatever it still owns.
        result = self._outcome()
        self._settle_leftovers()
        stack = self._completed() if result is Result.OK else self._failed()
        self._journal.tell(stack_event(stack, self._parts.clock.now()))
        also = partial(self._write_snapshot, stack) if self.action.verb is Verb.SNAPSHOT else None
        if result is Result.OK and self._makes:
            entries = self.action.inputs.resources if self.action.verb is Verb.ADOPT else None
            by, now = self.action.requested_by, self._parts.clock.now()
            also = partial(declare, self._parts.store, stack, by, now, entries=entries)
        if result is Result.OK:
            # What was rolled back did not succeed, however well the way back went.
            result = self._data.rolled_back_after or result
        self._commit(stack, result, also)

    @property
    def _makes(self) -> bool:
        """Whether it makes a stack what a caller wants; what is nested in that is protected with it, at its end."""
        return self.action.parent_id is None and self._stack.verb in ROLLED_BACK

    def _outcome(self) -> Result:
        """What the walks have come to."""
        stop = self._stopping.stop
        if self._forced and stop in GIVES_UP:
            return Result.OK
        if stop in CANCELS:
            return Result.CANCEL
        if stop is Stop.TIMEOUT:
            return Result.TIMEOUT
        return Result.OK if stop is None and not self._walker.failures else Result.ERROR

    def _end_unbegun(self) -> None:
        """An action that this one depends on has not succeeded: nothing is begun."""
        needed = self._parts.store.dependencies.of(self.action.id)
        failed = [one.depended for one in needed if one.dependent == self.action.id and one.state == "failed"]
        self._end_refused(f"Action {', '.join(failed)}, on which it depends, has not succeeded")

    @property
    def _needs_no_cloud(self) -> bool:
        """Whether the action asks no cloud about an object, or leaves behind what it cannot reach."""
        if self.action.verb in (Verb.LOCK, Verb.UNLOCK):
            return not any(row.is_locked for row in self._rows()) and self.action.inputs.level is not LockLevel.ALL
        return self._forced or self._transitions.operations.keeps_objects

    def _end_refused(self, reason: str) -> None:
        """End the action before anything is begun."""
        stack = moved(self._stack, self._stack.verb, Status.FAILED, reason)
        self._journal.tell(stack_event(stack, self._parts.clock.now()))
        self._commit(stack, Result.ERROR)

    def _settle_leftovers(self) -> None:
        """Fail what an earlier attempt left in progress and this one stopped too soon to take up."""
        stop = self._stopping.stop
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
                self._transitions.rows.delete(row)
        stack = moved(self._stack, verb, Status.COMPLETE, reason)
        if verb in (Verb.CREATE, Verb.UPDATE, Verb.RESTORE):
            stack = replace(stack, previous_template_id=None, previous_environment=None)
        if verb is Verb.UNLOCK:
            stack = replace(stack, lock=None)
        if verb is Verb.DELETE:
            stack = replace(stack, deleted_at=self._parts.clock.now())
        return stack

    def _failure_reason(self) -> str:
        match self._stopping.stop:
            case Stop.TIMEOUT:
                return "Timed out"
            case Stop.CANCEL | Stop.FORCE_CANCEL | Stop.CANCEL_ROLLBACK | Stop.ABORT:
                return f"Stack {self._stack.verb} cancelled"
            case _ if self._transitions.operations.tally.unknown:
                return self._transitions.operations.tally.reason()
            case _:
                return "; ".join(self._walker.failures)

    # -- commits -----------------------------------------------------------------------------------

    def _commit_progress(self) -> None:
        """Write what the tick has changed, if anything, and what the next attempt has to know of it."""
        stopped = replace(self._stopping.record(self.action.suspended), failures=self._first_failures())
        tally = self._transitions.operations.tally
        data = replace(
            self._kept_data(),
            stopping=None if stopped == StopRecord() else stopped,
            checked=None if tally == CheckTally() else tally.copy(),
        )
        is_news, self._data = data != self._data, data
        if self._journal.dirty or self._children.placed or is_news:
            self._commit()

    def _kept_data(self) -> ActionData:
        """Return the action's data without that of the running phase."""
        return replace(self._data, stopping=None, checked=None)

    def _first_failures(self) -> tuple[str, ...]:
        room, found = MOST_OF_FAILURES, list[str]()
        for text in self._walker.failures:
            room -= len(text)
            if room < 0:
                break
            found.append(text)
        return tuple(found)

    def _commit(
        self,
        stack: StackRecord | None = None,
        ends: Result | None = None,
        also: Callable[[], None] | None = None,
        reason: str = "",
    ) -> None:
        """One fenced transaction; a database that does not take it now is asked again until it does, and nothing is
        written twice.

        `also` writes what else belongs into it; `reason` is why the action ends so, where it has no `stack` to say it.
        """
        writes, orders, budget = self._journal.take(), self._children.take(), self._transitions.budget
        if ends is not None:
            budget.recount(self._rows())
            self._data = self._kept_data()
        try:
            patiently(self._parts.clock, partial(self._write, writes, orders, stack, ends, also, reason))
        except AlreadyCommitted as committed:
            self._control = committed.control
        self.action = replace(self.action, data=self._data, commits=self.action.commits + 1)
        self._suspected = 0
        self._walker.written()
        self._recorded = budget.to_record()
        budget.written()
        if stack is not None and self._control is not Control.ABORT:
            self._stack = stack
        self._stopping.control = self._control
        if orders:
            self._children.written(orders)
        self._result = ends

    def _park(self, children: int, held: Sequence[HookWait]) -> bool:
        """Let go of the action until one of its `children` has ended, or one of the works that are `held` may go on.

        False if that has happened already, or if something is asked of the action.
        """
        store, action = self._parts.store, self.action
        with store.transaction():
            now = self._parts.clock.now()
            self._control = store.claims.renew(action, now, self._parts.settings.lease_seconds)
            stays = self._control is None and not self._breakpoints.over(held, now)
            status, wake_at, reason = parked_as(held)
            parked = stays and store.moves.park(action, children, status, now, wake_at, reason)
        self._stopping.control = None if parked else self._control
        return parked

    def _set_aside(self) -> bool:
        """Let go of the action until it is resumed, and so with all that were derived from it.

        False if something else is asked of it by now.
        """
        store, action, now = self._parts.store, self.action, self._parts.clock.now()
        with store.transaction():
            # With its root, before which nobody may hold anything else of a tree: what is below is held so, too.
            store.stacks.lock(action.stack_id)
            self._control = store.claims.renew(action, now, self._parts.settings.lease_seconds)
            aside = store.moves.suspend_held(action, now)
            if aside:
                # What was ordered after it had been asked has not heard of it yet.
                suspend_derived(store, action, now)
        self._stopping.control = None if aside else self._control
        return aside

    def _write(
        self,
        writes: Writes,
        orders: list[Order],
        stack: StackRecord | None,
        ends: Result | None,
        also: Callable[[], None] | None,
        reason: str,
    ) -> None:
        store, action, now = self._parts.store, self.action, self._parts.clock.now()
        with store.transaction():
            lease = self._parts.settings.lease_seconds
            if ends is not None:
                store.claims.lock_parent(action)
            data = None if self._data == action.data else self._data
            self._control = store.claims.begin_commit(action, now, lease, data)
            store.resources.insert_many(writes.new)
            store.resources.save_many(writes.changed)
            store.resources.delete_many(writes.gone)
            self._children.write(orders)
            held = self._transitions.budget.to_record()
            if held is not None and held != self._recorded:
                store.stack_sizes.record_resources(action.stack_id, action.root_id, held)
            if also is not None:
                also()
            events = writes.events
            if stack is not None and self._control is Control.ABORT:
                # A delete has taken the stack's state over; only the resources' story is still ours to tell.
                events = [event for event in events if event.physical_id != stack.id]
                stack = None
                if ends is Result.CANCEL:
                    reason = "the stack is deleted"
            store.events.append_many(events)
            if stack is not None:
                store.stacks.save(stack)
                if stack.deleted_at is not None:
                    store.controls.cancel_queued([stack.id], "the stack is deleted", now)  # what waits for its time
                    store.snapshots.clear(stack.id)
                    store.credentials.delete(stack.id)
                    store.accounts.delete_all(stack.id)
                    store.suppressed.clear(stack.id)  # nobody can ask for them any more, and they may hold secrets
            if ends is not None:
                self._breakpoints.forget()
                reason = reason if stack is None else stack.status_reason
                checked = self._transitions.operations.tally if action.verb is Verb.CHECK else None
                ended = outputs(ends, reason, stack, checked)
                store.moves.finish(action, STATUS_AFTER[ends], reason, now, ended)
