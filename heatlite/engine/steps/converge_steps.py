"""Steps of a converge: evaluate values, decide, and create, update or replace."""

import logging
from collections.abc import Mapping
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.errors import DatabaseUnavailable, HeatliteError, RequestLimitExceeded
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.core.status import Status, Verb
from heatlite.engine.calls.handlers import failure_text
from heatlite.engine.calls.step_execution import HandlerCall, StepExecution
from heatlite.engine.planning import planner
from heatlite.engine.planning.collect import choose_row, keeping_ignored
from heatlite.engine.planning.decide import REFUSED
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.plan import IN_PLACE, NEW_OBJECT, Outcome, Plan, Reason, ResourceDecision, Step
from heatlite.engine.planning.stack_data_budget import StackDataBudget
from heatlite.engine.state.hooks import PRE_DELETE, waits_at
from heatlite.engine.steps.breakpoints import Breakpoints
from heatlite.engine.steps.operation_steps import OperationSteps
from heatlite.engine.steps.row_writer import STATE_CHANGED, RowWriter
from heatlite.engine.types.adopted_objects import AdoptedObjects
from heatlite.engine.types.resource_factory import TRIED, ResourceFactory, Values
from heatlite.plugin.nested import StackResource
from heatlite.plugin.ports import Change
from heatlite.store.records import ActionRecord, ResourceRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition

log = logging.getLogger(__name__)

CHANGES_ROW = IN_PLACE | {Outcome.CREATE, Outcome.CONTINUE, Outcome.REPLACE}
"""Decisions after which a row holds the wanted values."""
ONLY_REVERTS = "its drift has changed meanwhile: to put it back takes another object. Update the stack with converge"


class StepVerdict(Struct, frozen=True):
    """The decision of a converge step, or the error of its values."""

    wanted: Wanted | None = None
    decision: ResourceDecision | None = None
    failure: str | None = None


class ConvergeSteps:
    """Begins the steps that make a stack what its definition says."""

    def __init__(
        self,
        rows: RowWriter,
        resources: ResourceFactory,
        breakpoints: Breakpoints,
        operations: OperationSteps,
        budget: StackDataBudget,
    ) -> None:
        self.adopted: JsonMap | None = None
        """Of an adoption: the recorded resources, by name."""
        self._taken: Mapping[str, str] = {}
        """Of an adoption: why objects cannot be taken over, by name."""
        self.unclean: dict[str, str] = {}
        """Ids of rows of nested stacks with old objects → the actions that have left these."""
        self.reverted: dict[str, None] = {}
        """Paths of resources whose drift the operation puts back; of the stack itself, also before it has ended."""
        self._rows = rows
        self._resources = resources
        self._breakpoints = breakpoints
        self._operations = operations
        self._budget = budget
        self._values = Values(resources, rows.chosen)

    def adopt(self, store: Store, definition: Definition, entries: JsonMap) -> None:
        """Adopt the objects of recorded resources, except those that another stack has."""
        self.adopted, self._taken = entries, AdoptedObjects(store, self._resources).claim(definition, entries)

    def start(self, definition: Definition, plan: Plan) -> None:
        """Adopt the rows that the plan keeps, and insert rows for new objects.

        A resource whose step never begins stays INIT_COMPLETE, as in Heat.
        """
        self._rows.definition = definition
        self._rows.chosen.clear()
        self._rows.chosen.update(plan.kept)
        for step in plan.steps.values():
            if step.outcome is Outcome.CREATE and step.row is None:
                self._rows.new(definition.resources[step.name])
        rows = self._rows.unit_of_work.rows.values()
        types = {one.mapped_type for one in definition.resources.values()} | {row.mapped_type for row in rows}
        in_tree = self._resources.stack.root_id is not None or self._resources.may_nest(types)
        if plan.steps or in_tree:  # else nothing grows, and no other walk asks for the size
            self._budget.start(rows, in_tree)

    def continues(self, step: Step) -> bool:
        """Return whether to begin a step although the walk stops.

        True for a step that an earlier attempt has begun, and for one that only keeps its row: others need its values.
        """
        rows = self._rows.unit_of_work.named(step.name)
        verdict = self._judge(step.name, rows)
        if verdict.decision is None or any(waits_at(row) is not None for row in rows):
            return False
        row, outcome = verdict.decision.row, verdict.decision.outcome
        if row.id in self._rows.interrupted:
            return outcome is not Outcome.REPLACE or row.verb is Verb.DELETE and verdict.decision.deletes_first
        is_free = self._breakpoints.reached("pre-update", row, self._rows.now) is None
        return outcome is Outcome.KEEP and row.status is Status.COMPLETE and is_free

    def begin(self, step: Step) -> StepExecution:
        """Evaluate the values, decide, and begin the step that was decided.

        It may be the deletion of an object that must go first.
        """
        if step.outcome is Outcome.DELETE:
            return self._operations.begin_delete(step)
        rows = self._rows.unit_of_work.named(step.name)
        wait = self._wait_before(step, rows)
        if wait is not None:
            return wait
        verdict = self._judge(step.name, rows)
        if verdict.wanted is None or verdict.decision is None:
            return self._fail_unjudged(step, rows[-1], verdict.failure or "")
        wanted, decision = verdict.wanted, verdict.decision
        if step.outcome is Outcome.REFUSE and decision.outcome is Outcome.REPLACE:
            # Another object is in its way.
            decision = replace(decision, outcome=Outcome.REFUSE, reason=Reason.BLOCKED, cause=step.cause)
        if decision.outcome in NEW_OBJECT | {Outcome.REBUILD} and self.only_reverts(step.name):
            decision = replace(decision, outcome=Outcome.REFUSE, reason=Reason.BLOCKED, cause=ONLY_REVERTS)
        if decision.outcome in CHANGES_ROW:
            # A replaced object counts until it is deleted.
            key = f"{decision.row.id} anew" if decision.outcome is Outcome.REPLACE else decision.row.id
            try:
                self._budget.take(key, wanted)
            except RequestLimitExceeded as error:
                return self._fail_unjudged(step, rows[-1], failure_text(step.name, error))
        return self._begin_decided(step, wanted, decision)

    def only_reverts(self, name: str) -> bool:
        """Return True for a resource of a revert, which must keep its object.

        A replacement needs a plan that a person has seen.
        """
        selection = self._resources.selection
        return selection is not None and selection.reverts(name)

    def _wait_before(self, step: Step, rows: list[ResourceRecord]) -> StepExecution | None:
        for row in rows:
            hook = waits_at(row)
            if hook is not None and hook != PRE_DELETE:
                return self._operations.wait_at_hook(step, row, hook)
        # No row waits. A deletion has a step of its own, or follows from the decision.
        hook = "pre-create" if rows[-1].verb is Verb.INIT else "pre-update"
        return self._operations.wait_at_hook(step, rows[-1], hook)

    def _begin_decided(self, step: Step, wanted: Wanted, decision: ResourceDecision) -> StepExecution:
        row, operations = decision.row, self._operations
        match decision.outcome:
            case Outcome.KEEP:
                return self._keep(step, row)
            case Outcome.CREATE:
                return self.create(step, row, wanted)
            case Outcome.CONTINUE:
                execution = operations.execution(step, row, self._rows.made(row, wanted), row.verb, wanted)
                operations.continue_interrupted(execution)
                return execution
            case Outcome.REPLACE:
                log.info("%s is replaced: %s", step.name, decision.cause)
                return self.replace(step, row, wanted, decision.deletes_first)
            case Outcome.REBOOT:
                as_is = replace(wanted, properties=row.properties, metadata=row.metadata)
                change = Change(frozenset(), row.properties, row.properties)
                return self._update(step, row, as_is, change, decision.outcome)
            case Outcome.UPDATE if decision.reason is Reason.ADOPTION_FAILED:
                return self._adopt_again(step, row, wanted)
            case Outcome.UPDATE | Outcome.REBUILD:
                start, goal = decision.before, wanted.properties
                if decision.is_observed:
                    self._note_reverted(row, wanted, decision)
                    start, goal = keeping_ignored(row, wanted, self._resources, start)
                change = Change(decision.changed, start, goal, row.metadata != wanted.metadata)
                return self._update(step, row, wanted, change, decision.outcome, decision.is_observed)
            case Outcome.REFUSE:
                reason = f"NotSupported: resources.{row.name}: {decision.cause}"
                return operations.refuse(step, row, Verb.UPDATE, reason)
            case Outcome.RESTRICT:
                return operations.refuse_restricted(step, row, decision.cause)
            case Outcome.PROTECT:
                return operations.refuse_protected(step, row, Verb.UPDATE, decision.cause)
            case _:
                raise AssertionError(f"converging never decides to {decision.outcome}")

    def note_old(self, row_id: str, action: ActionRecord) -> None:
        """Note whether an action on the nested stack of a row has left old objects."""
        if action.data.old or action.data.unclean:
            self.unclean[row_id] = action.id
        else:
            self.unclean.pop(row_id, None)

    def _note_reverted(self, row: ResourceRecord, wanted: Wanted, decision: ResourceDecision) -> None:
        """Note a resource whose object differs in what is wanted as it is stored."""
        schema = wanted.kind.schema
        drifted = schema.diff(row.properties, decision.before)
        if drifted & decision.changed - schema.diff(row.properties, wanted.properties):
            self.reverted[row.name] = None

    def _judge(self, name: str, rows: list[ResourceRecord]) -> StepVerdict:
        """Evaluate a resource's values and decide about its rows (one at least).

        Raises DatabaseUnavailable.
        """
        try:
            choice = choose_row(self._rows.definition, name, rows, self._values)
            return StepVerdict(choice.wanted, choice.decision)
        except DatabaseUnavailable:
            raise
        except Exception as error:  # an error of a type or a function fails this resource only
            log.info("resource %s: its values failed", name, exc_info=not isinstance(error, HeatliteError))
            return StepVerdict(failure=failure_text(name, error))

    def _fail_unjudged(self, step: Step, row: ResourceRecord, reason: str) -> StepExecution:
        if row.verb is Verb.INIT:
            return self._operations.failed(step, row, Verb.CREATE, reason)
        return self._operations.refuse(step, row, Verb.UPDATE, reason)

    # -- decisions ---------------------------------------------------------------------------------

    def _keep(self, step: Step, row: ResourceRecord) -> StepExecution:
        if row.status is Status.FAILED:
            # The type has found the real object healthy.
            row = self._rows.with_state(row, row.verb, Status.COMPLETE, STATE_CHANGED)
        if planner.bookkeeping_differs(row, self._rows.definition.resources[row.name], self._rows.chosen):
            row = self._rows.described(self._rows.noted(row))
            self._rows.save(row)
        self._rows.chosen[row.name] = row
        return self._operations.pools.settle(step, row, lambda now: self._operations.ended(step, now, now.verb))

    def create(self, step: Step, row: ResourceRecord, wanted: Wanted) -> StepExecution:
        """Create the object of a row, or adopt it."""
        row, external_id = self._rows.noted(row), self._rows.definition.resources[row.name].external_id
        if external_id is not None:
            return self._adopt(step, replace(row, external_id=external_id), wanted, {"resource_id": external_id})
        if self.adopted is not None:
            return self._adopt(step, row, wanted, self.adopted.get(row.name))
        row = self._rows.converged(row, wanted, Verb.CREATE, Status.IN_PROGRESS, row.physical_id, row.data)
        resource, done = self._rows.made(row, wanted), not wanted.kind.has("create")
        return self._operations.execution(step, row, resource, Verb.CREATE, wanted, done)

    def _adopt(self, step: Step, row: ResourceRecord, wanted: Wanted, found: Json) -> StepExecution:
        """Adopt the object that `found` records; nothing is made."""
        nested = issubclass(wanted.kind, StackResource)
        # A nested stack gets a new id; the ids that matter are those of its resources.
        taken = None if row.external_id is not None else self._taken.get(row.name)
        found = as_map(found) if taken is None else {}
        if not found.get("resource_id") and not (nested and "resources" in found):
            found = {}
        name = str(found.get("physical_name") or row.physical_name)
        if not (nested and self._resources.is_stack_name(name)):  # The stack of the record may still be there.
            row = replace(row, physical_name=name)
        data = as_map(found.get("resource_data"))
        row = self._rows.converged(row, wanted, Verb.ADOPT, Status.IN_PROGRESS, None, data)
        resource = self._rows.made(row, wanted)
        # An external object is only looked at.
        done = not nested and (row.external_id is not None or not (found and wanted.kind.has("adopt")))
        execution = self._operations.execution(step, row, resource, Verb.ADOPT, wanted, done)
        if nested and row.external_id is not None:
            execution.fail(f"NotSupported: resources.{row.name}: A nested stack with external_id is not supported.")
        elif taken is not None:
            execution.fail(f"ObjectOwned: {taken}")
        elif not found:
            execution.fail(f"Exception: resources.{row.name}: Resource ID was not provided.")
        elif not nested:
            resource.physical_id = str(found["resource_id"])
        return execution

    def _adopt_again(self, step: Step, row: ResourceRecord, wanted: Wanted) -> StepExecution:
        """Repeat an adoption with the values that it had.

        After a success the step begins again, to update the object.
        """
        self._rows.interrupted.discard(row.id)
        as_is = replace(wanted, properties=row.properties, metadata=row.metadata)
        row = self._rows.with_state(row, Verb.ADOPT, Status.IN_PROGRESS, STATE_CHANGED)
        done = not wanted.kind.has("adopt")
        return self._operations.execution(step, row, self._rows.made(row, as_is), Verb.ADOPT, as_is, done)

    def replace(self, step: Step, row: ResourceRecord, wanted: Wanted, deletes_first: bool) -> StepExecution:
        """Create a new object, or delete the old one first.

        Then the step consists of the new object only.
        """
        if deletes_first:
            return self._operations.begin_removal(step, self._rows.noted(row), wanted)

        def create(_: ResourceRecord) -> StepExecution:
            return self.create(step, self._rows.new(self._rows.definition.resources[row.name]), wanted)

        # One that gives its address away is out of its pool before.
        return self._operations.pools.leave(step, row, create) if wanted.kind.gives_way else create(row)

    def _update(
        self,
        step: Step,
        row: ResourceRecord,
        wanted: Wanted,
        change: Change,
        outcome: Outcome,
        is_observed: bool = False,
    ) -> StepExecution:
        interrupted = row.verb is Verb.UPDATE and row.status is Status.IN_PROGRESS
        if not interrupted:
            # Until it succeeds the object may use the old ones, the new ones, or both.
            new = planner.used_by(self._rows.definition.resources[row.name], self._rows.chosen)
            data = _with_tried(row, wanted, change)
            row = replace(self._rows.noted(replace(row, data=data)), uses=tuple(sorted({*row.uses, *new})))
            if row.verb is Verb.DELETE:
                self._rows.part_users(row)
            if outcome is Outcome.REBUILD:
                # After an interruption nothing else tells that the object was to be rebuilt.
                row = replace(row, token={"rebuild": True})
            row = self._rows.with_state(row, Verb.UPDATE, Status.IN_PROGRESS, STATE_CHANGED)
        goal = cast(JsonMap, change.after)
        resource = self._resources.make(row, goal, wanted.kind, wanted.update_policy, wanted.definition)
        # If only metadata differs, a type that cannot update has nothing to do.
        done = outcome is Outcome.UPDATE and not wanted.kind.has("update")
        execution = self._operations.execution(step, row, resource, Verb.UPDATE, wanted, done)
        if isinstance(execution, HandlerCall):
            execution.change, execution.in_place, execution.is_observed = change, outcome, is_observed
        if interrupted:
            self._operations.continue_interrupted(execution)
        return execution


def _with_tried(row: ResourceRecord, wanted: Wanted, change: Change) -> JsonMap:
    """Return the row's data with the values that an update tries, until it succeeds.

    A value that an earlier attempt has tried stays where the row's own is wanted again.
    """
    if issubclass(wanted.kind, StackResource):
        return row.data
    kept = {key: value for key, value in row.data.items() if key != REFUSED}
    differs = wanted.kind.schema.diff(row.properties, wanted.properties)
    before = {name: value for name, value in as_map(row.data.get(TRIED)).items() if name not in differs}
    tried = {**{name: wanted.properties.get(name) for name in sorted(change.changed)}, **before}
    return {**kept, TRIED: tried} if tried else kept
