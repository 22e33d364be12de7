"""Repairs: restricted updates that give selected resources of a tree new objects.

They change nothing else.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.action_payloads import ActionData, ActionInputs, MemberChange
from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import (
    DeletionProtected,
    InvalidStackState,
    NotSupported,
    PlanChanged,
    Problem,
    RepairSpreads,
    ResourceNotFound,
    StackValidationFailed,
)
from heatlite.core.json import JsonMap
from heatlite.core.repairs import RepairStep, Selection
from heatlite.core.status import Cause, Status, Verb
from heatlite.engine.admission.admission import Admission
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.preview import preview_views
from heatlite.engine.preview.preview import PreviewItem, StackPreview
from heatlite.engine.state.conflict_rules import Operation, locked_error
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.requests import ShownPlan
from heatlite.engine.state.unit_of_work import stack_event, with_state
from heatlite.engine.types.outputs import StackReader
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store

ALIVE = frozenset({Verb.CHECK, Verb.UPDATE})
"""Verbs whose failure leaves an object that can be rebooted."""
SPREADS = frozenset({Outcome.CREATE, Outcome.REPLACE, Outcome.DELETE})
REFUSES = frozenset({Outcome.REFUSE, Outcome.RESTRICT})


class RepairPlan(Struct, frozen=True):
    """The plan of a repair."""

    shown: ShownPlan
    spreads: tuple[str, ...]
    """Paths of other resources that would be made, replaced or deleted."""
    refused: tuple[Problem, ...]
    """Reasons why a step must fail: the environment restricts it, or it is impossible."""
    protected: tuple[str, ...]
    """Explanations of protected objects that would go."""
    touched: frozenset[str]
    """Ids of the stacks in which anything changes."""
    replaced: frozenset[str]
    """Physical ids of the objects that go; a nested stack takes along those within it."""
    unable: tuple[str, ...]
    """Paths of selected resources whose type cannot do the step."""
    objects: Mapping[str, str | None]
    """Physical ids of the selected resources, by path."""


class Repairs:
    """Plans and begins repairs."""

    def __init__(
        self, store: Store, clock: Clock, definitions: Definitions, admission: Admission, reader: StackReader
    ) -> None:
        self._store = store
        self._clock = clock
        self._definitions = definitions
        self._admission = admission
        self._reader = reader

    def plan(self, stack: StackRecord, selection: Selection) -> RepairPlan:
        """Plan the repair of selected resources in a tree. Reads the database only.

        Each resource that reads something of a repaired one is updated in place, if it can be. Raises ResourceNotFound
        for a path that leads nowhere.
        """
        return self._plan(self._begun(stack), selection)

    def begin(
        self,
        context: Context,
        stack: StackRecord,
        selection: Selection,
        cause: Cause = Cause.HEALING,
        plan_digest: str | None = None,
        path: str = "/actions",
        body: JsonMap | None = None,
    ) -> ActionRecord:
        """Enqueue a repair of a root stack in one transaction. Returns the action.

        A caller may have opened the transaction. `path` (below the stack) and `body` are the request, for a replay
        after a lock. The default is a repair by hand. `plan_digest` approves a plan that touches more than the selected
        resources.
        """
        body = body or {Operation.HEAL.value: {"resources": [*selection.steps]}}
        with self.admitted(context, stack, path, body) as stack:
            return self.enqueue(context, stack, selection, cause, plan_digest)

    def check(
        self,
        context: Context,
        stack: StackRecord,
        name: str,
        members: StackRecord | None = None,
        believes_absence: bool = False,
    ) -> ActionRecord:
        """Enqueue a check of a resource, or of all in `members`, its nested stack.

        Returns the action. A caller may have opened the transaction. `believes_absence`: mark what is not found,
        however much. Raises as `Admission.admitted`.
        """
        inputs = ActionInputs(checked=(name,) if members is None else (), believes_absence=believes_absence)
        body: JsonMap = {"check": {"believe_absent": True} if believes_absence else {}}
        path = f"/resources/{name}/actions"
        prechecked = self._admission.precheck(context, Operation.CHECK, stack, "POST", path, body, target=name)
        with self._admission.admitted(prechecked, on=members or stack) as held:
            held = self._admission.set_in_progress(held, Verb.CHECK)
            action = self._admission.new_action(context, held, Verb.CHECK, inputs)
            self._admission.enqueue_action(context, action)
        return action

    @contextmanager
    def admitted(self, context: Context, stack: StackRecord, path: str, body: JsonMap) -> Iterator[StackRecord]:
        """Open the transaction of a repair, with the root's row locked.

        `path` and `body` as in `begin`. Raises InvalidStackState for a nested stack, and as `Admission.admitted`.
        """
        request = self._admission.precheck(context, Operation.HEAL, stack, "POST", path, body)
        with self._admission.admitted(request) as stack:
            if stack.root_id is not None:
                raise InvalidStackState(f"Stack {stack.name} is nested: repair it from its root, {stack.root_id}.")
            yield stack

    def enqueue(
        self,
        context: Context,
        stack: StackRecord,
        selection: Selection,
        cause: Cause = Cause.HEALING,
        plan_digest: str | None = None,
        may_spread: bool = False,
    ) -> ActionRecord:
        """Enqueue a repair within the transaction of `admitted`. Returns the action.

        `may_spread` allows a plan that touches more than the selected resources, whatever it is.
        """
        after = self._begun(stack)
        plan = self._plan(after, selection)
        self._spare_locked(context, stack, plan)
        if plan.unable:
            steps = ", ".join(f"{path} ({selection.steps[path]})" for path in plan.unable)
            raise NotSupported(f"The type has no such step: {steps}. Replace the resource instead.")
        if plan.protected:
            raise DeletionProtected(f"Stack {stack.name} is left as it is: {' '.join(plan.protected)}")
        if plan.refused:
            text = "; ".join(problem.text for problem in plan.refused)
            raise StackValidationFailed(text, problems=plan.refused)
        if plan_digest is not None and plan.shown.digest != plan_digest:
            raise PlanChanged(stack_name=stack.name)
        if plan.spreads and plan_digest is None and not may_spread:
            raise RepairSpreads(stack_name=stack.name, paths=", ".join(plan.spreads))
        self._store.stacks.save(after)
        self._store.events.append_many([stack_event(after, self._clock.now())])
        inputs = ActionInputs(heal=selection)
        data = ActionData(replacement=MemberChange.of(tuple(selection.steps), objects=plan.objects))
        action = replace(self._admission.new_action(context, after, Verb.UPDATE, inputs), cause=cause, data=data)
        self._admission.enqueue_action(context, action)
        return action

    def _begun(self, stack: StackRecord) -> StackRecord:
        """Return the stack row at the start of a repair. Its definition stays."""
        stack = with_state(stack, Verb.UPDATE, Status.IN_PROGRESS, "Stack UPDATE started")
        return replace(stack, updated_at=self._clock.now())

    def _plan(self, after: StackRecord, selection: Selection) -> RepairPlan:
        resources = self._reader.resources_of(after)
        standing = resources.nested(after.id)
        resources.selection = selection
        preview = StackPreview(self._definitions.of(after), resources, standing)
        items = [item for item in preview.items(nested=True) if not _is_kept(item)]
        found = {"/".join(item.path): item for item in items}
        for path in selection.steps:
            if path not in found:
                raise ResourceNotFound(resource_name=path, stack_name=after.name)
        outside = [item for item in items if not selection.selects(item.path)]
        refused = [Problem(("resources", *path), _explained(path, why)) for path, why in preview.refused()]
        refused += [
            Problem(("resources", *item.path), _explained(item.path, item.cause))
            for item in items
            if item.outcome in REFUSES and ("resources", *item.path) not in {one.path for one in refused}
        ]
        return RepairPlan(
            shown=preview_views.shown_plan(preview),
            spreads=tuple("/".join(item.path) for item in outside if item.outcome in SPREADS),
            refused=tuple(refused),
            protected=tuple(preview.protected()),
            touched=frozenset(item.stack.id for item in items),
            replaced=frozenset(item.row.physical_id or "" for item in items if item.outcome in SPREADS),
            unable=tuple(path for path, step in selection.steps.items() if not _can(found[path], step)),
            objects={path: found[path].row.physical_id for path in selection.steps},
        )

    def _spare_locked(self, context: Context, stack: StackRecord, plan: RepairPlan) -> None:
        """Raise StackLocked if the repair would touch a locked nested stack."""
        below = {nested.id: nested for nested in self._store.stacks.descendants(stack)}
        for nested in below.values():
            if nested.lock is None:
                continue
            lineage, at = [nested.id], nested
            while at.parent_id in below:
                at = below[at.parent_id]
                lineage.append(at.id)
            if nested.id in plan.touched or not plan.replaced.isdisjoint(lineage):
                raise locked_error(Operation.HEAL, nested, context)


def _is_kept(item: PreviewItem) -> bool:
    """Return True if the resource stays as it is."""
    if item.outcome is Outcome.UPDATE and item.level is not None:
        return item.level.is_unchanged(item.name)
    return item.outcome is Outcome.KEEP


def _explained(path: tuple[str, ...], why: str) -> str:
    return f"resources.{'.'.join(path)}: {why}"


def _can(item: PreviewItem, step: RepairStep) -> bool:
    """Return True if the type of a resource can do the step.

    A reboot repairs nothing that is half made.
    """
    row = item.row
    if step is RepairStep.REPLACE or item.level is None:
        return True
    if step is RepairStep.REBOOT and (row.physical_id is None or row.status is Status.FAILED and row.verb not in ALIVE):
        return False
    return item.level.resources.type_of(row).has(step.value)
