"""Execute one claimed action: its walks, a rollback, and the end of the stack."""

import math
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Executor as Pool
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import ActionConflict, DatabaseUnavailable
from heatlite.core.redaction.masking import Mask
from heatlite.core.runtime.meter import Meter
from heatlite.core.status import Control, LockLevel, Result, Status, Verb
from heatlite.engine.calls.orphans import Orphans
from heatlite.engine.calls.pool import Calls
from heatlite.engine.calls.step_execution import StepExecution
from heatlite.engine.calls.stopping import Stop, Stopping
from heatlite.engine.execution import waits
from heatlite.engine.execution.commits import Commits
from heatlite.engine.execution.final_state import (
    ROLLED_BACK,
    completed_stack,
    failed_stack,
    in_rollback,
    kept,
    outcome,
    rollback_target,
    selected,
)
from heatlite.engine.execution.snapshot_contents import delete_snapshot, drop_parts, write_snapshot
from heatlite.engine.execution.termination import Termination
from heatlite.engine.planning import planner
from heatlite.engine.planning.collect import PlannedValues, converge
from heatlite.engine.planning.plan import Outcome, Plan, Step
from heatlite.engine.planning.put_back import put_back
from heatlite.engine.state.database_retry import retry_while_unavailable
from heatlite.engine.state.definitions import EMPTY_TEMPLATE, Definitions, secrets_of
from heatlite.engine.state.guarding import Guarding
from heatlite.engine.state.hooks import waits_at
from heatlite.engine.state.protected import declare
from heatlite.engine.state.unit_of_work import UnitOfWork, stack_event
from heatlite.engine.steps import absence
from heatlite.engine.steps.breakpoints import Breakpoints
from heatlite.engine.steps.children import Children
from heatlite.engine.steps.judging import judge
from heatlite.engine.steps.transitions import Transitions
from heatlite.engine.steps.walk import Walker
from heatlite.engine.types.resource_factory import EngineServices, ResourceFactory
from heatlite.plugin.nested import StackResource
from heatlite.store.errors import Fenced
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition
from heatlite.template.environment import Environment


class RunParts(Struct, frozen=True):
    """Objects that every execution uses."""

    store: Store
    engine_services: EngineServices
    clock: Clock
    settings: Settings
    definitions: Definitions
    pool: Pool
    """Thread pool for handlers that may block."""
    afterwards: Callable[[Callable[[], None]], None]
    """Runs a long call in a separate thread; the engine waits for it when it stops."""
    stopping: threading.Event
    """Set when the engine stops."""
    meter: Meter
    guarding: Callable[[], Guarding | None]
    """Returns the part of the feature that guards updates, if it is on."""


def phase_of(action: ActionRecord, stack: StackRecord) -> str:
    """Return the id of an action's phase: the operation itself or its rollback."""
    return f"{action.id}/rollback" if stack.verb is Verb.ROLLBACK else action.id


def _revoke_access(parts: RunParts, stack: StackRecord) -> None:
    """Revoke the credentials of a stack that is being deleted, and close its accounts."""
    services = parts.engine_services
    if stack.parent_id is None:
        services.services.clouds.revoke(parts.store.credentials.of(stack.id))
    if services.accounts is not None:
        services.accounts.close_all(stack)


def _unmet(store: Store, action_id: str) -> str:
    """Return why an action does not begin: one that it depends on has not succeeded."""
    needed = store.dependencies.of(action_id)
    failed = [one.depended for one in needed if one.dependent == action_id and one.state == "failed"]
    return f"Action {', '.join(failed)}, on which it depends, has not succeeded"


class Execution:
    """One attempt at one action."""

    def __init__(self, parts: RunParts, action: ActionRecord, stack: StackRecord, rows: list[ResourceRecord]) -> None:
        self.mask = Mask(partial(secrets_of, parts.store, parts.definitions, stack)) if stack.sealed else None
        """Mask for secrets in reasons."""
        self._parts, self._stack = parts, stack
        self._unit_of_work = UnitOfWork(rows)
        self._resources = ResourceFactory(stack, parts.engine_services)
        self._breakpoints = Breakpoints(parts.store.messages, action)
        self._resources.suspended = action.suspended
        self._resources.phase = phase_of(action, stack)
        self._resources.retries = action.inputs.retry
        self._resources.selection, self._resources.kept = selected(stack, action), kept(stack, action)
        self._forced = action.inputs.force
        deadline = action.deadline
        if self._forced:
            deadline = min(deadline or math.inf, parts.clock.now() + parts.settings.error_wait_time)
        self._transitions = Transitions(
            self._unit_of_work, self._resources, self._breakpoints, parts.clock.now, parts.settings.action_retry_limit
        )
        self._transitions.operations.spare(action)
        most = parts.settings.max_resources_per_stack
        children = Children(
            parts.store, parts.clock, parts.definitions, self._resources, action, most, self._transitions.budget
        )
        self._stopping = Stopping(
            parts.clock,
            self._read_control,
            patience=parts.settings.error_wait_time,
            rolls_back=not stack.disable_rollback and stack.verb in ROLLED_BACK,
            is_repair=action.inputs.heal is not None,
            deadline=deadline,
        )
        lease, ask = parts.settings.lease_seconds, partial(retry_while_unavailable, parts.clock, self._read_control)
        self._calls = Calls(
            parts.pool, parts.meter, parts.clock, lease, ask, parts.store.transaction, parts.settings.handler_threads
        )
        self._commits = Commits(
            parts.store, parts.clock, lease, action, self._unit_of_work, self._transitions, self._breakpoints, children,
            self._calls, self._stopping,
        )  # fmt: skip
        self.walker = Walker(
            parts.clock, self._calls, self._transitions, children, self._commits.write_progress,
            lambda actions, held: retry_while_unavailable(parts.clock, self._commits.park, actions, held),
            lambda: retry_while_unavailable(parts.clock, self._commits.set_aside), self._stopping,
        )  # fmt: skip
        """The walk; other threads notify it."""
        self._aftermath = waits.Aftermath(
            parts.store, parts.clock, parts.definitions, parts.guarding, self._commits, self._transitions, self.walker,
            self._stopping,
        )  # fmt: skip
        self._transitions.resume(action.data)
        if action.data.stopping is not None:
            # An earlier attempt has failed or was stopped: this one only brings it to its end.
            self._stopping.restore(action.data.stopping, action.suspended)
        self.reason = ""
        """The reason of the result RETRY."""
        self.steps = self._execute()
        """The started execution, see `_execute`."""

    def _read_control(self) -> Control | None:
        """Read the control from the action's row. Raises Fenced."""
        return self._parts.store.claims.control_of(self.action)

    @property
    def action(self) -> ActionRecord:
        """Return the action as last written."""
        return self._commits.action

    @property
    def control(self) -> Control | None:
        """Return the control of the action as last read."""
        return self._stopping.control

    def resume(self, action: ActionRecord) -> None:
        """Continue with the reclaimed action. Call before its `steps` go on."""
        self._stopping.extend(action.suspended - self.action.suspended)
        self._stopping.control = action.control
        self._resources.suspended = action.suspended
        self._commits.action = action

    def fail(self, reason: str) -> ActionData | None:
        """Stop after an internal error, and wait for running handlers.

        Returns the data for an attempt that only rolls back. None: there is no rollback, or this is such an attempt.
        """
        is_second = reason in self._stopping.failures
        self._stopping.fail(reason)
        if is_second or not self._stopping.turns_back:
            return None
        self._calls.wait()
        return self._commits.stopped_data()

    def _execute(self) -> Generator[float | None, None, Result | None]:
        """Execute the action. Yields as `Walker.walk`.

        After it yields None, call `resume` when the action is claimed again. Returns the result, or None if another
        engine is to continue. All results but RETRY are written. Raises `Fenced` if another worker has taken the action
        over.
        """
        self._stopping.control = self.action.control
        try:
            for part in (self.walker.rest, self._course):
                for until in part():
                    # No handler is running now, so this action is not the cause if the engine ends.
                    self._count_takeovers(0)
                    yield until
                    self._count_takeovers(self._commits.suspected)
        except Fenced:
            # In another thread: a handler call may hang forever, and the slot is needed.
            self._parts.afterwards(self._clear_up)
            raise
        except (DatabaseUnavailable, ActionConflict) as error:
            self._calls.wait()
            self.reason = error.message
            return Result.RETRY
        return self._commits.result

    def _count_takeovers(self, number: int) -> None:
        """Store the number of takeovers without progress, in case the engine ends now."""
        if self._commits.suspected:
            set_takeovers = self._parts.store.claims.set_takeovers
            retry_while_unavailable(self._parts.clock, set_takeovers, self.action, number)

    def _clear_up(self) -> None:
        """Remove objects that no row knows, after all handlers have ended."""
        self._calls.wait()
        orphans = Orphans(self._parts.store, self._parts.clock, self._parts.meter, self._stack.project)
        orphans.remove(self._calls.unwritten(), self._parts.stopping)

    def _course(self) -> Iterator[float | None]:
        """Return the course of the operation. Yields as `Walker.walk`."""
        if self.action.failed_dependencies:
            self._end_refused(_unmet(self._parts.store, self.action.id))
            return iter(())
        objection = "" if self._needs_no_cloud else self._parts.engine_services.stack_clouds.objection(self._stack)
        if objection:
            self._end_refused(objection)
            return iter(())
        operations = self._transitions.operations
        match self.action.verb:
            case Verb.CREATE | Verb.UPDATE | Verb.ADOPT | Verb.RESTORE:
                return self._converge() if self.action.data.state_before is None else self._drain()
            case Verb.DELETE:
                return self._delete()
            case Verb.CHECK:
                names = self.action.inputs.checked
                rows = [row for row in self._remaining() if not names or row.name in names]
                return self._walk(planner.plan_check(rows), operations.begin_check)
            case Verb.SNAPSHOT if self.action.inputs.deleted_snapshot is not None:
                self._delete_snapshot(self.action.inputs.deleted_snapshot)
                return iter(())
            case Verb.SNAPSHOT:
                operations.snapshot = self.action.inputs.snapshot or ""
                return self._walk(planner.plan_snapshot(self._remaining()), operations.begin_snapshot)
            case Verb.SUSPEND:
                return self._walk(planner.plan_suspend(self._remaining()), operations.begin_suspend)
            case Verb.RESUME:
                return self._walk(planner.plan_resume(self._remaining()), operations.begin_resume)
            case Verb.LOCK if self.action.inputs.level is LockLevel.ALL:
                return self._walk(planner.plan_lock(self._remaining()), operations.begin_lock)
            case Verb.LOCK | Verb.UNLOCK:
                return self._unlock()
            case _:
                raise NotImplementedError(f"no such operation: {self.action.verb}")

    def _walk(self, plan: Plan, begin: Callable[[Step], StepExecution]) -> Iterator[float | None]:
        """Walk the only plan of an operation, and end it."""
        yield from self.walker.walk(plan, begin)
        yield from self._end()

    def _unlock(self) -> Iterator[float | None]:
        """Unlock the objects, and lock or unlock the nested stacks."""
        operations = self._transitions.operations
        nested_outcome = Outcome.LOCK if self.action.verb is Verb.LOCK else Outcome.UNLOCK
        nested = planner.plan_nested(filter(self._is_nested, self._remaining()), nested_outcome)
        yield from self.walker.walk(planner.plan_unlock(self._remaining()), operations.begin_unlock)
        yield from self._walk(nested, operations.begin_nested)

    def _rows(self) -> list[ResourceRecord]:
        return list(self._unit_of_work.rows.values())

    def _remaining(self) -> list[ResourceRecord]:
        """Return the rows that no earlier attempt has completed or failed.

        A convergence does not ask: it decides on each row again.
        """
        phase = self._resources.phase
        return [row for row in self._rows() if row.moved_in != phase or row.status is Status.IN_PROGRESS]

    def _is_nested(self, row: ResourceRecord) -> bool:
        return issubclass(self._resources.type_of(row), StackResource)

    # -- operations of several walks ---------------------------------------------------------------

    def _converge(self) -> Iterator[float | None]:
        """Converge the stack to its definition, after a failure to that of its rollback."""
        is_rollback = self._stack.verb is Verb.ROLLBACK
        if not is_rollback:
            self._prepare()
        while True:
            goal = rollback_target(self._stack) if is_rollback else self._stack
            has_steps = is_rollback or not self._stopping.gives_up or self._has_begun()
            if self._aftermath.has_begun and not is_rollback:
                yield from self._aftermath.finish(self._stack)
            elif has_steps and (plan := self._plan(self._parts.definitions.of(goal))) is not None:
                yield from self.walker.walk(plan, self._transitions.converging.begin)
                yield from self._after_changes(plan, is_rollback)
            if is_rollback:
                break
            yield from self.walker.wait_out()
            if not self._stopping.turns_back:
                break
            self._start_rollback()
            is_rollback = True
        yield from self._end()

    def _after_changes(self, plan: Plan, is_rollback: bool) -> Iterator[float | None]:
        """Delete the old objects, or leave them for later. Yields as `Walker.walk`."""
        self._transitions.rows.pass_over()
        keep = [row.id for row in self._transitions.rows.chosen.values()]
        surplus = planner.plan_deletions(self._removable(plan, self._transitions.rows.chosen), keep)
        if self._stopping.stop is None and not is_rollback and self.action.inputs.leaves_old:
            yield from self._aftermath.keep(surplus)
            if self._stopping.stop is None and self.action.inputs.guard is not None:
                yield from self._aftermath.finish(self._stack)
            return
        if self._stopping.stop is None:
            self._stopping.finish_making()
        if self._stopping.is_made:
            yield from self._aftermath.delete(surplus, self._transitions.converging.unclean)

    def _drain(self) -> Iterator[float | None]:
        """Wait for members that leave, and end the action: with its end they do."""
        yield from waits.drain(self.action, self._parts.definitions.of(self._stack), self.walker, self._transitions)
        if self._stopping.stop is not Stop.DRAIN:  # else the worker releases the action
            self._commit(*waits.end_drain(self.action, self._stack, self._transitions, self._stopping))

    def _prepare(self) -> None:
        """Take the objects and values that the action itself gives, and observe."""
        entries = self.action.inputs.resources
        if entries is not None and self.action.verb is Verb.ADOPT:
            self._transitions.converging.adopt(self._parts.store, self._parts.definitions.of(self._stack), entries)
        elif entries is not None:
            self._resources.restore(entries)
        if self.action.inputs.converge or self.action.inputs.heal is not None:
            self._resources.observe(self._rows(), self._parts.pool.map)

    def _has_begun(self) -> bool:
        """Return whether an earlier attempt has begun a step and not ended it."""
        return any(row.status is Status.IN_PROGRESS for row in self._rows())

    def _plan(self, definition: Definition) -> Plan | None:
        """Plan to converge the stack. None: it is refused, and the operation stops."""
        definition = put_back(definition, self._rows(), self._resources)
        self._breakpoints.start(self._stack.verb, definition.environment)
        plan = converge(definition, self._rows(), PlannedValues(self._resources))
        protected = planner.protected(plan, self._removable(plan, plan.kept), self._resources.protected)
        refused = [f"DeletionProtected: {text}" for text in protected]
        refused += [f"NotSupported: resources.{name}: {why}" for name, why in plan.refused.items()]
        if refused and not self._has_begun():
            # Begin nothing. Steps of an earlier attempt continue; the steps themselves refuse the rest.
            self._stopping.fail(*refused)
            return None
        self._transitions.converging.start(definition, plan)
        return plan

    def _removable(self, plan: Plan, chosen: Mapping[str, ResourceRecord]) -> list[ResourceRecord]:
        """Return the rows that the clean-up may delete."""
        return planner.removable(self._rows(), self._resources.selection, plan, chosen, self._resources.phase)

    def _start_rollback(self) -> None:
        """Record the failure and switch to the previous definition, in one commit."""
        now = self._parts.clock.now()
        self._resources.forget()
        self._transitions.settle_leftovers(self._stopping.stop)
        after_failure = self._aftermath.told(failed_stack(self._stack, self._stopping, self._transitions))
        self._unit_of_work.record_event(stack_event(after_failure, now))
        undoes_create = self.action.verb in (Verb.CREATE, Verb.ADOPT)
        nothing = self._parts.store.templates.address(EMPTY_TEMPLATE, {})
        stack = in_rollback(self._stack, nothing if undoes_create else None)
        deadline = now + self._parts.settings.time_limit(stack.timeout)
        self._unit_of_work.record_event(stack_event(stack, now))
        # The failure's stop and waits must not apply to the rollback, nor after a crash.
        data, after = self._commits.kept_data(), outcome(self._stopping, self._forced)
        self._commits.data = replace(data, rolled_back_after=after)

        def turn_back() -> None:
            if undoes_create:
                # In the transaction of the reference, so that retention keeps it.
                self._parts.store.templates.put(EMPTY_TEMPLATE, {})
            self._aftermath.close()
            self._parts.store.moves.start_rollback(self.action.id, deadline)

        self._commit(stack, also=turn_back)
        self._resources.stack, self._resources.phase = stack, phase_of(self.action, stack)
        self._resources.selection, self._resources.kept = selected(stack, self.action), kept(stack, self.action)
        self._transitions.rows.interrupted.clear()
        self._stopping.restart(deadline)
        if self._commits.control is not Control.CANCEL_ROLLBACK:
            self._stopping.control = self._commits.control

    def _delete(self) -> Iterator[float | None]:
        if not self._forced:
            self._breakpoints.start(Verb.DELETE, Environment.stored(self._stack.environment))
        # A locked object may refuse its deletion. Deletions of nested stacks unlock their own.
        own = [row for row in self._remaining() if not self._is_nested(row) and not self._deletes(row)]
        yield from self.walker.walk(planner.plan_unlock(own, optional=True), self._transitions.operations.begin_unlock)
        yield from self.walker.rest()
        if self._stopping.stop is None and not self._transitions.operations.keeps_objects:
            kept = drop_parts(self._parts.store.snapshots.of(self._stack.id), self._resources, self._parts.pool)
            self._stopping.failures += [text for text in kept if text not in self._stopping.failures]
            self._transitions.left += [text for text in kept if text not in self._transitions.left]
        gone = [row.id for row in self._rows() if row.verb is Verb.DELETE and row.status is Status.COMPLETE]
        failed = [row.id for row in self._rows() if row.status is Status.FAILED and self._deletes(row)]
        waiting = [row.id for row in self._rows() if waits_at(row) is not None]
        plan = planner.plan_deletions(self._rows(), {*gone, *failed}.difference(waiting), goes_on=self._forced)
        yield from self.walker.walk(plan, self._transitions.operations.begin_delete)
        if outcome(self._stopping, self._forced) is Result.OK:
            # Before the stack's end is written: afterwards no action would revoke them.
            _revoke_access(self._parts, self._stack)
        yield from self._end()

    def _deletes(self, row: ResourceRecord) -> bool:
        """True if this deletion has begun with the row, perhaps in an earlier attempt."""
        return row.verb is Verb.DELETE and row.moved_in == self._resources.phase

    def _delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot and its parts. The stack's state stays as it is."""
        self._stopping.check()
        if self._stopping.stop is not Stop.DRAIN:
            snapshots, pool = self._parts.store.snapshots, self._parts.pool
            self._commit(None, *delete_snapshot(snapshots, snapshot_id, self._resources, pool, self._stopping))

    # -- the end -----------------------------------------------------------------------------------

    def _end(self) -> Iterator[float | None]:
        """Write the final states of stack and action, and release it, in one transaction."""
        yield from self.walker.wait_out()
        if self._stopping.stop is Stop.DRAIN:
            return  # The worker releases the action.
        result = outcome(self._stopping, self._forced)
        self._transitions.settle_leftovers(self._stopping.stop)
        succeeded, also, parts = result is Result.OK, None, self._parts
        if self.action.verb is Verb.CHECK and self.action.parent_id is None:
            operations = self._transitions.operations
            also = absence.end_check(parts.store, self.action, self._transitions.rows, self._resources, operations)
        stack = self._completed() if succeeded else failed_stack(self._stack, self._stopping, self._transitions)
        stack = self._aftermath.end(stack)
        self._unit_of_work.record_event(stack_event(stack, parts.clock.now()))
        if self.action.verb is Verb.SNAPSHOT:
            also = partial(write_snapshot, parts.store, stack, self._rows(), self.action.inputs.snapshot or "")
        if succeeded and self.action.parent_id is None and self._stack.verb in ROLLED_BACK:  # for nested stacks, too
            entries = self.action.inputs.resources if self.action.verb is Verb.ADOPT else None
            also = partial(declare, parts.store, stack, self.action.requested_by, parts.clock.now(), entries=entries)
        if self.action.verb is Verb.UPDATE:
            definition_of = parts.definitions.of
            also = partial(judge, parts.store, parts.clock, definition_of, stack, self.action, self._rows(), also)
        if succeeded:
            result = self._commits.data.rolled_back_after or result  # a rollback still reports the failure
        self._commit(stack, result, also)

    @property
    def _needs_no_cloud(self) -> bool:
        """True if the action calls no cloud, or leaves behind unreachable objects."""
        if self.action.verb in (Verb.LOCK, Verb.UNLOCK):
            return not any(row.is_locked for row in self._rows()) and self.action.inputs.level is not LockLevel.ALL
        return self._forced or self._transitions.operations.keeps_objects

    def _end_refused(self, reason: str) -> None:
        """End the action without a step, and what an earlier attempt has begun."""
        end, lease = Termination(self._parts.store, self._parts.clock), self._parts.settings.lease_seconds
        retry_while_unavailable(self._parts.clock, end.give_up, self.action, reason, lease)
        self._commits.result = Result.ERROR

    def _completed(self) -> StackRecord:
        """Return the stack after a success. A deleted stack loses its rows."""
        left = self._transitions.left
        if self._stack.verb is Verb.DELETE:
            left = left + [text for row in self._rows() for text in self._transitions.left_behind(row)]
        stack = completed_stack(
            self._stack, self.action.inputs, self._rows(), self._resources, left, self._parts.clock.now()
        )
        if stack.deleted_at is not None:
            for row in self._rows():
                self._transitions.rows.delete(row)
        return stack

    def _commit(
        self,
        stack: StackRecord | None = None,
        ends: Result | None = None,
        also: Callable[[], None] | None = None,
        reason: str = "",
    ) -> None:
        """Commit by `Commits.commit`; keep the new stack state unless a delete owns it."""
        self._commits.commit(stack, ends, also, reason)
        if stack is not None and self._commits.control is not Control.ABORT:
            self._stack = stack
