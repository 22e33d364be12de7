"""Ends of step executions: their rows, events, and the executions that follow."""

from collections.abc import Callable

from msgspec import to_builtins
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData
from heatlite.core.errors import HeatliteError, ResourceActionRestricted
from heatlite.core.status import Status, Verb
from heatlite.engine.calls import check_verdicts
from heatlite.engine.calls.backoff import Retry, back_off
from heatlite.engine.calls.handlers import LEFT, failure_text
from heatlite.engine.calls.step_execution import (
    HandlerCall,
    HookWait,
    NestedOperation,
    PoolCall,
    StepExecution,
    StepPhase,
)
from heatlite.engine.calls.stopping import Stop, aborted_text
from heatlite.engine.planning.collect import collect
from heatlite.engine.planning.decide import deletes_first
from heatlite.engine.planning.group_members import to_verify
from heatlite.engine.planning.plan import Outcome, Step
from heatlite.engine.planning.stack_data_budget import StackDataBudget
from heatlite.engine.state.hooks import PRE_DELETE, expired_text, verb_of, waits_at
from heatlite.engine.state.unit_of_work import UnitOfWork
from heatlite.engine.steps.absence import provisional
from heatlite.engine.steps.breakpoints import Breakpoints
from heatlite.engine.steps.converge_steps import ONLY_REVERTS, ConvergeSteps
from heatlite.engine.steps.operation_steps import OperationSteps
from heatlite.engine.steps.row_writer import STATE_CHANGED, RowWriter, placed, without_attempts
from heatlite.engine.types.observation import is_compared
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.plugin.groups import PLACEMENT
from heatlite.plugin.naming import UUID
from heatlite.store.records import ResourceRecord
from heatlite.template.document import Definition
from heatlite.template.replacement import KEEP

CONVERGING = frozenset(
    {
        Outcome.CREATE,
        Outcome.CONTINUE,
        Outcome.KEEP,
        Outcome.UPDATE,
        Outcome.REPLACE,
        Outcome.REBUILD,
        Outcome.REBOOT,
        Outcome.REFUSE,
        Outcome.RESTRICT,
    }
)
"""Outcomes of the steps of a converge."""

CLEARING = "; what it has left is being deleted"
"""Ends the status reason of a row while the remains of a failed attempt are deleted."""


class Transitions:
    """Ends the executions of one stack's steps. Its parts begin them."""

    def __init__(
        self,
        unit_of_work: UnitOfWork,
        resources: ResourceFactory,
        breakpoints: Breakpoints,
        now: Callable[[], float],
        retry_limit: int,
    ) -> None:
        self.rows = RowWriter(unit_of_work, resources, now)
        self.budget = StackDataBudget(resources)
        self.breakpoints = breakpoints
        self.operations = OperationSteps(self.rows, resources, breakpoints)
        self.converging = ConvergeSteps(self.rows, resources, breakpoints, self.operations, self.budget)
        self.left: list[str] = []
        """Objects that this operation has left behind, apart from those of rows that stay."""
        self._resources = resources
        self._now = now
        self._retry_limit = retry_limit

    def resume(self, data: ActionData) -> None:
        """Take over what earlier attempts at the operation have noted."""
        if data.checked is not None:
            self.operations.tally = data.checked.copy()
        self.left += data.left
        if data.placement is not None:
            for one in data.placement.placements:
                self.rows.places.setdefault(one.name, {PLACEMENT: {"zone": one.zone}})
        self.converging.reverted.update(dict.fromkeys(data.reverted))
        self.converging.unclean.update(data.unclean)

    @property
    def definition(self) -> Definition:
        """Return the definition to converge to."""
        return self.rows.definition

    def continues(self, step: Step) -> bool:
        """Return True to begin a step in a stopped walk: an earlier attempt has begun it."""
        if step.outcome in CONVERGING:
            return self.converging.continues(step)
        row = self.rows.of(step)
        return row.id in self.rows.interrupted and row.verb.lower() == step.outcome

    # -- progress ----------------------------------------------------------------------------------

    def note_order(self, operation: NestedOperation, stack_id: str) -> None:
        """Write the id of the nested stack and of the action that the operation waits for."""
        resource = operation.resource
        resource.physical_id = stack_id
        if not operation.is_recorded:
            token, data = {"token": operation.token}, dict(resource.data)
            operation.row = replace(operation.row, token=token, physical_id=stack_id, data=data)
            self.rows.save(operation.row)

    def note_progress(self, call: HandlerCall) -> bool:
        """Write the handler's new token and data.

        Returns True if the next call must wait for the commit.
        """
        if isinstance(call, PoolCall):
            return self.operations.pools.note_progress(call)
        row, resource = call.row, call.resource
        if call.phase is StepPhase.READY:
            # A survey, or an unreachable service: the handler is called again, also after a crash.
            if row.data == resource.data:
                return False
            call.row = replace(row, data=dict(resource.data))
            self.rows.save(call.row)
            return True
        first = row.token is None or "token" not in row.token
        if first or row.data != resource.data or row.physical_id != resource.physical_id:
            call.row = replace(
                row,
                token={**(row.token or {}), "token": call.token},
                data=dict(resource.data),
                physical_id=resource.physical_id,
            )
            self.rows.save(call.row)
        return first

    # -- end ---------------------------------------------------------------------------------------

    def finish(self, execution: StepExecution) -> StepExecution | None:
        """Write the end of an execution. Returns the one that follows for the same step."""
        if isinstance(execution, HookWait):
            return self._leave_hook(execution)
        if isinstance(execution, PoolCall):
            return self.operations.pools.finish(execution)
        if execution.is_recorded:
            if execution.verb is Verb.DELETE and execution.failure is None:
                self.rows.delete(execution.row)
            return None
        again = self._retry(execution) if isinstance(execution, HandlerCall) else None
        if again is not None:
            return again
        if execution.wanted is not None and execution.phase is StepPhase.DONE:
            return self._finish_converged(execution)
        physical_id, data = execution.resource.physical_id, dict(execution.resource.data)
        row = replace(execution.row, physical_id=physical_id, data=data, token=None)
        if execution.wanted is not None and execution.phase is StepPhase.REPLACED:
            # The object is as before; so is its row, apart from the attempt.
            row = replace(row, data=without_attempts(data))
            row = self.rows.with_state(row, Verb.UPDATE, Status.COMPLETE, "replacement asked for by the type")
            following = self._replace(execution, row)
            if following is not None or execution.is_recorded:
                return following
        return self._finish_handled(execution, row)

    def _finish_handled(self, execution: StepExecution, row: ResourceRecord) -> StepExecution | None:
        """Write the end of an execution that has failed, or has changed no properties."""
        if execution.verb is Verb.CHECK and row.health is not None and row.health.before is not None:
            self._finish_check(execution, row)
        elif execution.failure is not None:
            if execution.verb is Verb.DELETE:
                execution.failure = replace(execution.failure, text=self._with_owners(row, execution.failure.text))
            self.rows.with_state(row, execution.verb, Status.FAILED, execution.failure.text)
        elif execution.verb is Verb.DELETE:
            return self._finish_delete(execution, row)
        elif execution.verb is Verb.UNLOCK:
            self._finish_unlock(row, execution.note)
        else:
            self.rows.with_state(row, execution.verb, Status.COMPLETE, execution.note or STATE_CHANGED)
        return None

    def _with_owners(self, row: ResourceRecord, text: str) -> str:
        """Return the reason of a failed deletion, with the owners of named objects."""
        named = set(UUID.findall(text)) - {row.physical_id}
        owners = self.rows.owners(named) if named else {}
        told = "; ".join(f"{key} belongs to {name}" for key, name in sorted(owners.items()))
        return f"{text}. {told}" if told else text

    def _finish_converged(self, execution: StepExecution) -> StepExecution | None:
        """Write the wanted values to the row, and check an adopted object."""
        assert execution.wanted is not None
        physical_id, data, verb = execution.resource.physical_id, dict(execution.resource.data), execution.verb
        data = to_verify(data) if verb is Verb.UPDATE else data
        row = self.rows.converged(execution.row, execution.wanted, verb, Status.COMPLETE, physical_id, data)
        if verb is Verb.ADOPT and row.external_id is not None:
            if execution.resource.has("check"):
                check = self.operations.begin(execution.step, row, Verb.CHECK)
                check.wanted = execution.wanted
                return check
            reason = f"CHECK not supported for {row.type}"
            self.rows.chosen[row.name] = self.rows.with_state(row, Verb.CHECK, Status.COMPLETE, reason)
            return None
        if verb is Verb.ADOPT and self.converging.adopted is None:
            return self.converging.begin(execution.step)  # the adoption was repeated
        self.rows.chosen[row.name] = row
        if isinstance(execution, HandlerCall) and execution.change is not None:
            self.rows.unit_of_work.note_updated(row, execution.change.changed, execution.is_observed)
        step, hook = execution.step, f"post-{verb.lower()}"
        return self.operations.pools.settle(step, row, lambda now: self.operations.wait_at_hook(step, now, hook))

    def _replace(self, execution: StepExecution, row: ResourceRecord) -> StepExecution | None:
        """Begin the replacement that a type asks for; None if the execution fails instead."""
        wanted = execution.wanted
        assert wanted is not None
        refusal = None
        if Outcome.REPLACE in self.definition.environment.restricted_actions(row.name):
            cause = ResourceActionRestricted(action=Outcome.REPLACE.value).message
            refusal = self.operations.refuse_restricted(execution.step, row, cause)
        elif (keeps := self._resources.protected(row)) is not None:
            cause = f"its type asks to replace it, but {keeps.text}"
            refusal = self.operations.refuse_protected(execution.step, row, Verb.UPDATE, cause)
        elif self.converging.only_reverts(row.name):
            reason = f"NotSupported: resources.{row.name}: {ONLY_REVERTS}"
            refusal = self.operations.refuse(execution.step, row, Verb.UPDATE, reason)
        if refusal is not None and refusal.failure is not None:
            execution.fail(refusal.failure.text)
            execution.is_recorded = True
            return None
        try:
            first = deletes_first(collect(row, wanted, self._resources, self.rows.chosen))
        except HeatliteError as error:
            execution.fail(failure_text(row.name, error))
            return None
        return self.converging.replace(execution.step, row, wanted, first)

    def _finish_delete(self, execution: StepExecution, row: ResourceRecord) -> StepExecution | None:
        row = self.rows.with_state(row, Verb.DELETE, Status.COMPLETE, execution.note or STATE_CHANGED)
        wait = self.operations.wait_at_hook(execution.step, row, "post-delete")
        if wait is not None:
            return wait
        self._remove(row)
        self.rows.hand_on_uses(row)
        if execution.replaced_by is not None:
            keeps_name = execution.replaced_by.replacement.name == KEEP
            successor = self.rows.successor(row, keeps_name)
            return self.converging.create(execution.step, successor, execution.replaced_by)
        if self.rows.is_replaced_later(row):
            self.rows.successor(row, execution.step.keeps_name)
        return None

    def _finish_unlock(self, row: ResourceRecord, note: str) -> None:
        """Restore the failure or the suspension from before the lock.

        Any other state becomes UNLOCK_COMPLETE.
        """
        before = row.before_lock
        if before is not None and (before.status is not Status.COMPLETE or before.verb is Verb.SUSPEND):
            row = replace(row, before_lock=None)
            if note:
                self.rows.record_state(row, Verb.UNLOCK, Status.COMPLETE, note)
            self.rows.with_state(row, before.verb, before.status, before.status_reason)
        else:
            self.rows.with_state(row, Verb.UNLOCK, Status.COMPLETE, note or STATE_CHANGED)

    def fail(self, row: ResourceRecord, reason: str) -> None:
        """Fail the operation that a row is in. A check that is cut short has no verdict."""
        if row.verb is Verb.CHECK and self._write_unknown(row, reason):
            return
        self.rows.with_state(replace(row, token=None), row.verb, Status.FAILED, reason)

    # -- checks ------------------------------------------------------------------------------------

    def _finish_check(self, execution: StepExecution, row: ResourceRecord) -> None:
        """Write the verdict of a check, with an event if it is another than before.

        Without a verdict the row stays as before.
        """
        tally, failure = self.operations.tally, execution.failure
        below = execution.tally if isinstance(execution, NestedOperation) else None
        unknown = "" if failure is None else failure.unknown
        if below is not None:
            tally.add_nested(row.name, below)
        elif unknown:
            tally.add_unknown(unknown)
        elif failure is not None:
            tally.unhealthy += 1
            tally.names.append(row.name)
        else:
            tally.healthy += 1
        if failure is not None and unknown:
            self._write_unknown(row, failure.text)
        elif failure is not None:
            ended = provisional(row) if failure.is_absent or below is not None else replace(row, health=None)
            self._write_verdict(row, ended, Status.FAILED, failure.text)
        else:
            self._write_verdict(row, replace(row, health=None), Status.COMPLETE, execution.note or STATE_CHANGED)
            if isinstance(execution, HandlerCall) and execution.differences is not None:
                self.rows.unit_of_work.note_compared(row, execution.differences)
                tally.drifted += bool(execution.differences.counted)

    def _write_verdict(self, row: ResourceRecord, ended: ResourceRecord, status: Status, reason: str) -> None:
        before = None if row.health is None else row.health.before
        known = None if before is None else (before.verb, before.status, before.status_reason)
        verdict = Verb.CHECK, status, reason
        self.rows.with_state(ended, *verdict, has_event=verdict != known)

    def _write_unknown(self, row: ResourceRecord, reason: str) -> bool:
        """Write the end of a check without a verdict; False if the row is in no check."""
        before = check_verdicts.unseen(row, reason, self._now())
        if before is None:
            return False
        self.rows.save(replace(before, moved_in=self._resources.phase))
        if is_compared(row, self._resources.type_of(row)):
            self.rows.unit_of_work.note_unseen(before)
        if row.health is None or row.health.since is None or row.health.reason != reason:
            self.rows.record_event(check_verdicts.event_row(row, reason))
        return True

    # -- hooks -------------------------------------------------------------------------------------

    def _leave_hook(self, wait: HookWait) -> StepExecution | None:
        """Continue after a hook, unless the wait was cut short."""
        hook = wait.hook
        if wait.failure is not None:
            self.end_wait(wait.row, wait.failure.text)
            return None
        row = replace(wait.row, token=None)
        self.rows.save(row)
        if not self.breakpoints.is_cleared(hook, row):
            self.rows.record_event(replace(row, status_reason=expired_text(hook)))
        if hook == "post-delete":
            self._remove(row)
        elif hook == PRE_DELETE:
            return self.operations.remove(wait.step, row, wait.replaced_by)
        elif hook in ("pre-create", "pre-update"):
            return self.converging.begin(wait.step)
        else:
            self.rows.chosen[row.name] = row
        return None

    def end_wait(self, row: ResourceRecord, reason: str) -> None:
        """End the wait of a row at a hook; nothing follows."""
        row = replace(row, token=None)
        self.rows.save(row)
        self.rows.record_event(replace(row, status_reason=reason))
        if row.verb is Verb.DELETE and row.status is Status.COMPLETE:
            self._remove(row)

    def settle_leftovers(self, stop: Stop | None) -> None:
        """Fail steps of an earlier attempt that this one was stopped too soon to resume."""
        if stop is None:
            return
        for row in [*self.rows.unit_of_work.rows.values()]:
            hook = waits_at(row)
            if row.status is Status.IN_PROGRESS:
                self.fail(row, aborted_text(row.verb, stop))
            elif hook is not None:
                self.end_wait(row, aborted_text(verb_of(hook), stop))

    # -- deleted objects ---------------------------------------------------------------------------

    def _remove(self, row: ResourceRecord) -> None:
        """Delete the row, unless the end of the stack's deletion reports on it."""
        left = self.left_behind(row)
        if self._resources.stack.verb is not Verb.DELETE:
            self.left += left if row.physical_id is not None else []
        elif left:
            return
        self.rows.delete(row)

    def left_behind(self, row: ResourceRecord) -> list[str]:
        """Return the row's objects that stay when its stack is deleted.

        The form is ``db (OS::Trove::Instance, id)``.
        """
        if row.status_reason.startswith(LEFT):
            return [f"{row.name}.{left}" for left in row.status_reason[len(LEFT) :].split("; ")]
        stays = row.deletion_policy.lower() == "retain" or row.physical_id in self.operations.retained
        gone = row.verb is Verb.DELETE and row.status is Status.COMPLETE and not stays
        if gone or row.verb is Verb.INIT or self.operations.keeps_objects:
            return []
        return [f"{row.name} ({row.type}, {row.physical_id or row.physical_name})"]

    # -- retries -----------------------------------------------------------------------------------

    def _retry(self, call: HandlerCall) -> HandlerCall | None:
        """Return the next attempt or its clean-up; None if there is none."""
        retry, failure = call.retry, call.failure
        if failure is None and not retry.cleanup_before_retry:
            return None
        row = replace(call.row, physical_id=call.resource.physical_id, data=dict(call.resource.data))
        earlier = row.status_reason.removesuffix(CLEARING)
        if failure is None:
            self.rows.record_state(row, Verb.DELETE, Status.COMPLETE, STATE_CHANGED)
            return self._delay(call, replace(row, physical_id=None, data=placed(row), status_reason=earlier))
        if not failure.is_transient or retry.attempts >= self._retry_limit:
            if retry.cleanup_before_retry:
                call.fail(f"{earlier}; and what it has left cannot be removed: {failure.text}")
            return None
        retry.attempts += 1
        if call.verb is Verb.DELETE or retry.cleanup_before_retry:
            return self._delay(call, row)
        self.rows.record_state(row, Verb.CREATE, Status.FAILED, failure.text)
        row = replace(row, status_reason=failure.text)
        if not call.resource.has("delete"):
            return self._delay(call, replace(row, physical_id=None, data=placed(row)))
        self.rows.record_state(row, Verb.DELETE, Status.IN_PROGRESS, STATE_CHANGED)
        return self._next(call, replace(row, status_reason=failure.text + CLEARING), cleanup=True)

    def _delay(self, call: HandlerCall, row: ResourceRecord) -> HandlerCall:
        """Return the next attempt, which begins after a back-off."""
        retry = call.retry
        starts_at = self._now() + back_off(retry.attempts)
        cleanup = retry.cleanup_before_retry and call.failure is not None
        numbers = f"Attempt {retry.attempts + 1} of {self._retry_limit + 1}"
        if call.verb is Verb.DELETE and call.failure is not None:
            row = replace(row, status_reason=f"{numbers}, after: {call.failure.text}")
        if call.verb is Verb.CREATE and not cleanup:
            text = f"{numbers}, after: {row.status_reason}"
            self.rows.record_state(row, Verb.CREATE, Status.IN_PROGRESS, text)
            row = replace(row, status_reason=text)
        return self._next(call, row, cleanup, starts_at)

    def _next(
        self, call: HandlerCall, row: ResourceRecord, cleanup: bool, starts_at: float | None = None
    ) -> HandlerCall:
        retry = Retry(call.retry.attempts, cleanup, starts_at)
        resource = self._resources.make(row, kind=None if call.wanted is None else call.wanted.kind)
        row = replace(row, token=to_builtins(retry))
        resource.facts.users = call.resource.facts.users
        again = HandlerCall(
            call.step, row, resource, call.verb, call.wanted, replaced_by=call.replaced_by, find_first=True, retry=retry
        )
        self.rows.save(row)
        return again
