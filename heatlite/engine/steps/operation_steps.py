"""Begin steps on existing objects: delete, check, snapshot, suspend, resume, lock.

Steps that a crash interrupted continue here, too.
"""

from functools import cached_property, partial

from msgspec import convert
from msgspec.structs import replace

from heatlite.core.actions.check_tally import CheckTally
from heatlite.core.actions.payloads import RETAINED
from heatlite.core.status import Status, Verb
from heatlite.engine.calls import check_verdicts
from heatlite.engine.calls.backoff import Retry
from heatlite.engine.calls.step_execution import HandlerCall, HookWait, NestedOperation, StepExecution, StepPhase
from heatlite.engine.planning import planner
from heatlite.engine.planning.decide import REFUSED, is_marked
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.hidden_parts import HiddenParts
from heatlite.engine.planning.plan import Outcome, Step
from heatlite.engine.planning.snapshot_parts import saved_name
from heatlite.engine.state.hooks import PRE_DELETE, reached_text, verb_of, waits_at
from heatlite.engine.steps.breakpoints import Breakpoints
from heatlite.engine.steps.children import keeps_objects
from heatlite.engine.steps.pools import PoolSteps
from heatlite.engine.steps.row_writer import STATE_CHANGED, RowWriter
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.plugin.groups import LOADBALANCERS
from heatlite.plugin.nested import StackResource
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.records import ActionRecord, ResourceRecord
from heatlite.template.document import Definition
from heatlite.template.ignored import ignored


class OperationSteps:
    """Begins steps on existing objects, and the handler calls of all steps."""

    def __init__(self, rows: RowWriter, resources: ResourceFactory, breakpoints: Breakpoints) -> None:
        self.keeps_objects = False
        self.retained: frozenset[str] = frozenset()
        """Of a deletion: physical ids of objects that stay on request."""
        """Forget objects instead of deleting them, whatever their policies."""
        self.only_waits = False
        """Wait at the hook before a deletion, and delete nothing: members leave with their objects."""
        self.snapshot = ""
        """The id of the snapshot to take."""
        self.tally = CheckTally()
        """The verdicts of this action's checks."""
        self.pools = PoolSteps(rows, resources)
        self._rows = rows
        self._resources = resources
        self._breakpoints = breakpoints

    def spare(self, action: ActionRecord) -> None:
        """Take what a deletion leaves behind from its action."""
        self.keeps_objects = keeps_objects(action)
        self.retained = frozenset(one.physical_id for one in action.data.retained)
        self.pools.goes_on = action.inputs.force

    # -- operations --------------------------------------------------------------------------------

    def begin_delete(self, step: Step) -> StepExecution:
        """Delete the object unless its policy retains it, then the row."""
        row = self._rows.of(step)
        if row.verb is Verb.INIT:
            return self.ended(step, row, Verb.DELETE)
        keeps = None if self.keeps_objects else self._resources.protected(row)
        if keeps is not None:
            return self.refuse_protected(step, row, Verb.DELETE, planner.unremovable(keeps))
        return self.begin_removal(step, row)

    def begin_wait(self, step: Step) -> StepExecution:
        """Do what comes before a deletion. `only_waits`: nothing is deleted."""
        return self.begin_removal(step, self._rows.of(step))

    def begin_removal(self, step: Step, row: ResourceRecord, replaced_by: Wanted | None = None) -> StepExecution:
        """Take the object out of its pools, wait at the hook, and delete it.

        `replaced_by` has the values of the object that is made afterwards.
        """
        if LOADBALANCERS in row.data and not self.keeps_objects:
            return self.pools.leave(step, row, lambda now: self.begin_removal(step, now, replaced_by))
        wait = self.wait_at_hook(step, row, waits_at(row) or PRE_DELETE, replaced_by)
        return wait or self.remove(step, row, replaced_by)

    def remove(self, step: Step, row: ResourceRecord, replaced_by: Wanted | None) -> StepExecution:
        """Delete an object that waits at no hook, unless the operation only waits."""
        if self.only_waits:
            return self.ended(step, row, Verb.UPDATE)
        return self.delete(step, row) if replaced_by is None else self.delete_first(step, row, replaced_by)

    def delete(self, step: Step, row: ResourceRecord) -> StepExecution:
        """Delete an object, or leave it as its policy says."""
        if self.keeps_objects:
            # Deletes a nested stack itself: its members are kept.
            retained = not issubclass(self._resources.type_of(row), StackResource)
        else:
            retained = row.deletion_policy.lower() == "retain" or row.physical_id in self.retained
        half_made = row.verb is Verb.CREATE and row.status is not Status.COMPLETE
        execution = self.begin(step, row, Verb.DELETE, skip=retained)
        if row.physical_id in self.retained:
            execution.note = RETAINED
        if self._rows.is_replaced_later(row):
            execution.resource.facts.users = partial(self._rows.users, row.id)
        if isinstance(execution, HandlerCall):
            execution.snapshot_first = row.deletion_policy.lower() == "snapshot" and not half_made
            # The row of an interrupted create has no id of its object.
            execution.find_first = True
        return execution

    def delete_first(self, step: Step, row: ResourceRecord, replaced_by: Wanted) -> StepExecution:
        """Delete an object before its replacement is made."""
        execution = self.begin(step, row, Verb.DELETE)
        execution.replaced_by = replaced_by
        execution.resource.facts.users = partial(self._rows.users, row.id)
        if isinstance(execution, HandlerCall):
            execution.find_first = True
        return execution

    def begin_check(self, step: Step) -> StepExecution:
        """Check the object, if its type can.

        A check whose result is that of the last one makes no event.
        """
        row = self._rows.of(step)
        unmade = row.before_check is not None and row.before_check.verb is Verb.INIT  # and marked nevertheless
        if self._resources.type_of(row).has("check") and not unmade:
            if row.verb is not Verb.CHECK or row.status is not Status.IN_PROGRESS:
                row = check_verdicts.begun(row, self._is_marked(row))
            check = self.begin(step, row, Verb.CHECK, has_event=False)
            if isinstance(check, HandlerCall) and check.resource.has("live_properties"):
                check.ignored = ignored(self._definition, row.name)
                check.hidden = None if self._hidden is None else partial(self._hidden.of, row.name)
            return check
        self.tally.unsupported += 1
        if row.status is not Status.FAILED:
            execution = self.ended(step, row, Verb.CHECK)
            result = Verb.CHECK, Status.COMPLETE, f"CHECK not supported for {row.type}"
            if result != (row.verb, row.status, row.status_reason):
                self._rows.with_state(row, *result)
            return execution
        # Without a check the failure stands.
        self._rows.save(replace(row, moved_in=self._resources.phase))
        self.tally.stale.append(row.name)
        return self.ended(step, row, Verb.CHECK, f"{row.name}: {row.status_reason}")

    @cached_property
    def _definition(self) -> Definition:
        """The definition of the stack that is checked."""
        return self._resources.definition(self._resources.stack)

    @cached_property
    def _hidden(self) -> HiddenParts | None:
        """The hidden parts of the checked stack; None: nothing is hidden in its tree."""
        view = self._resources.nested(self._resources.stack.id) if self._resources.stack.sealed else None
        return None if view is None else HiddenParts(view, self._resources)

    def _is_marked(self, row: ResourceRecord) -> bool:
        """Return True if a nested stack's resource is CHECK_FAILED by its own mark."""
        if row.status is not Status.FAILED or not issubclass(self._resources.type_of(row), StackResource):
            return False
        nested = self._resources.nested(row.physical_id)
        return nested is not None and is_marked(row, nested.stack.state_without_lock)

    def begin_snapshot(self, step: Step) -> StepExecution:
        """Take a snapshot of the object, if its type can.

        A broken object cannot be restored, so it is refused.
        """
        row = self._rows.of(step)
        if row.verb is Verb.SNAPSHOT or row.status is Status.COMPLETE and row.verb is not Verb.DELETE:
            execution = self.begin(step, row, Verb.SNAPSHOT)
            if isinstance(execution, HandlerCall):
                execution.snapshot_name = saved_name(row.physical_name, self.snapshot)
            return execution
        return self._refuse_state(step, row, Verb.SNAPSHOT)

    def begin_suspend(self, step: Step) -> StepExecution:
        """Suspend the object, if its type can."""
        row = self._rows.of(step)
        if row.verb is Verb.SUSPEND or row.status is Status.COMPLETE and row.verb is not Verb.DELETE:
            return self.begin(step, row, Verb.SUSPEND)
        return self._refuse_state(step, row, Verb.SUSPEND)

    def begin_resume(self, step: Step) -> StepExecution:
        """Resume the object, if its type can."""
        row = self._rows.of(step)
        if row.verb is Verb.RESUME or row.verb is Verb.SUSPEND and row.status is Status.COMPLETE:
            return self.begin(step, row, Verb.RESUME)
        hidden = row.state_without_lock.verb in (Verb.CHECK, Verb.SNAPSHOT) and row.status is Status.COMPLETE
        hint = ". Suspend the stack once more, then resume it" if hidden else ""
        return self._refuse_state(step, row, Verb.RESUME, hint)

    def begin_lock(self, step: Step) -> StepExecution:
        """Lock the object, if its type can, and keep the present state for the unlock."""
        row = self._rows.of(step)
        if row.before_lock is None:
            row = replace(row, before_lock=row.state_without_lock)
        return self.begin(step, row, Verb.LOCK)

    def begin_unlock(self, step: Step) -> StepExecution:
        """Restore the state of the object's lock from before the lock."""
        return self.begin(step, self._rows.of(step), Verb.UNLOCK)

    def begin_nested(self, step: Step) -> StepExecution:
        """Pass a lock or an unlock on to a nested stack; the resource stays as it is."""
        row = self._rows.of(step)
        verb = Verb.LOCK if step.outcome is Outcome.LOCK else Verb.UNLOCK
        return NestedOperation(step, row, self._resources.make(row), verb, is_recorded=True)

    def begin_cleaning(self, step: Step, left_by: str) -> StepExecution:
        """Have a nested stack delete the old objects that an action has left.

        The resource stays as it is.
        """
        row = self._rows.of(step)
        resource = self._resources.make(row)
        return NestedOperation(step, row, resource, Verb.UPDATE, is_recorded=True, cleans_after=left_by)

    # -- executions --------------------------------------------------------------------------------

    def begin(
        self, step: Step, row: ResourceRecord, verb: Verb, skip: bool = False, has_event: bool = True
    ) -> HandlerCall | NestedOperation:
        """Write the intent of a call, or resume an interrupted one.

        The execution is done at once if there is nothing to call.
        """
        interrupted = row.verb is verb and row.status is Status.IN_PROGRESS
        if not interrupted:
            is_first = verb is Verb.DELETE and row.verb is not Verb.DELETE and self._resources.stack.verb is not verb
            if is_first and row.state_without_lock.status is Status.COMPLETE:
                row = replace(row, data={**row.data, REFUSED: False})
            row = self._rows.with_state(row, verb, Status.IN_PROGRESS, STATE_CHANGED, has_event)
        resource = self._resources.make(row)
        is_foreign = row.external_id is not None and verb is not Verb.CHECK  # it is only looked at
        execution = self.execution(step, row, resource, verb, done=skip or is_foreign or not resource.has(verb.lower()))
        if interrupted:
            self.continue_interrupted(execution)
        return execution

    def execution(
        self,
        step: Step,
        row: ResourceRecord,
        resource: Resource[Schema],
        verb: Verb,
        wanted: Wanted | None = None,
        done: bool = False,
    ) -> HandlerCall | NestedOperation:
        """Return the execution of a step: a nested operation or a handler call."""
        phase = StepPhase.DONE if done else StepPhase.READY
        if isinstance(resource, StackResource):
            return NestedOperation(step, row, resource, verb, wanted, phase)
        return HandlerCall(step, row, resource, verb, wanted, phase)

    def continue_interrupted(self, execution: HandlerCall | NestedOperation) -> None:
        """Continue a step of an interrupted attempt from its row's token.

        Without a token look for the object first.
        """
        self._rows.interrupted.discard(execution.row.id)
        if isinstance(execution, HandlerCall):
            execution.find_first = True
        token = execution.row.token
        if token is None:
            return
        if isinstance(execution, HandlerCall):
            execution.retry = convert(token, Retry)
        if "token" not in token:
            return
        if isinstance(execution, HandlerCall):
            execution.token = token["token"]
        else:
            execution.resume(token["token"])
        if not execution.has_ended:
            execution.phase = StepPhase.CHECKING

    def ended(self, step: Step, row: ResourceRecord, verb: Verb, failure: str | None = None) -> StepExecution:
        """Return an execution that has ended before any call, and whose row is complete."""
        execution = StepExecution(step, row, self._resources.make(row), verb, phase=StepPhase.DONE, is_recorded=True)
        if failure is not None:
            execution.fail(failure)
        return execution

    def failed(self, step: Step, row: ResourceRecord, verb: Verb, reason: str) -> StepExecution:
        """Begin an execution that fails before its handler is called."""
        row = self._rows.with_state(row, verb, Status.IN_PROGRESS, STATE_CHANGED)
        execution = StepExecution(step, row, self._resources.make(row), verb)
        execution.fail(reason)
        return execution

    # -- refusals ----------------------------------------------------------------------------------

    def _refuse_state(self, step: Step, row: ResourceRecord, verb: Verb, hint: str = "") -> StepExecution:
        """Fail because the operation cannot begin in the row's state. The row stays in it."""
        text = f"Error: resources.{row.name}: State ('{row.verb}', '{row.status}') invalid for {verb.lower()}{hint}"
        return self.ended(step, row, verb, text)

    def refuse(self, step: Step, row: ResourceRecord, verb: Verb, reason: str) -> StepExecution:
        """Fail with an event. The row and the object stay as they are.

        A failed row would have its object replaced by a rollback, or by the next update.
        """
        self._rows.record_state(row, verb, Status.FAILED, reason)
        return self.ended(step, row, verb, reason)

    def refuse_restricted(self, step: Step, row: ResourceRecord, cause: str) -> StepExecution:
        """Fail because of a restricted action. The row and the object stay as they are."""
        self._rows.record_state(row, Verb.UPDATE, Status.FAILED, cause)
        return self.ended(step, row, Verb.UPDATE, f"ResourceActionRestricted: resources.{row.name}: {cause}")

    def refuse_protected(self, step: Step, row: ResourceRecord, verb: Verb, cause: str) -> StepExecution:
        """Fail because of deletion protection."""
        return self.refuse(step, row, verb, f"DeletionProtected: resources.{row.name}: {cause}")

    # -- hooks -------------------------------------------------------------------------------------

    def wait_at_hook(
        self, step: Step, row: ResourceRecord, hook: str, replaced_by: Wanted | None = None
    ) -> HookWait | None:
        """Return a wait at the hook; None if the resource does not wait there."""
        if waits_at(row) != hook:
            token = self._breakpoints.reached(hook, row, self._rows.now)
            if token is None:
                return None
            row = replace(row, token=token)
            self._rows.save(row)
            self._rows.record_event(replace(row, status_reason=reached_text(hook)))
        wait = HookWait(step, row, self._resources.make(row), verb_of(hook), hook=hook)
        wait.replaced_by = replaced_by
        return wait
