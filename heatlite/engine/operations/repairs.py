"""Repairs: restricted updates of selected resources of a tree.

They give these new objects or put back what differs in them, and change nothing else.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData, ActionInputs, MemberChange
from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.context import Context
from heatlite.core.errors import (
    DeletionProtected,
    HeatliteError,
    InvalidStackState,
    NotSupported,
    PlanChanged,
    Problem,
    RepairSpreads,
    ResourceNotFound,
    StackValidationFailed,
)
from heatlite.core.json import JsonMap
from heatlite.core.status import Cause, Status, Verb
from heatlite.engine.admission.base import StackOperations
from heatlite.engine.admission.claims import NO_CLAIMS, ChangeKind, Claims, PreparedRequest, tries_again
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.preview import preview_views
from heatlite.engine.preview.preview import PreviewItem, StackPreview
from heatlite.engine.state.conflict_rules import Operation, locked_error
from heatlite.engine.state.requests import ShownPlan
from heatlite.engine.state.unit_of_work import stack_event, with_state
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.store.records import ActionRecord, StackRecord

ALIVE = frozenset({Verb.CHECK, Verb.UPDATE})
"""Verbs whose failure leaves an object that can be rebooted."""
SPREADS = frozenset({Outcome.CREATE, Outcome.REPLACE, Outcome.DELETE})
REFUSES = frozenset({Outcome.REFUSE, Outcome.RESTRICT})
NOT_IN_PLACE = (
    "What differs in stack {} cannot be put back in place: {}. Nothing was done. Name other resources, or look at the"
    " plan of an update with converge."
)
NOT_SEEN = "Differences in stack {} cannot be put back, because the objects could not be read: {}. Try again later."
NOTHING_DIFFERS = "Nothing that can be put back differs in stack {}. What is unhealthy or failed needs an update."


class RepairPlan(Struct, frozen=True):
    """The plan of a repair."""

    shown: ShownPlan
    spreads: tuple[str, ...]
    """Paths of resources that would be made, replaced or deleted, and that no step repairs."""
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
    reverted: tuple[str, ...]
    """Paths of resources that are selected without a step, and that would be changed in place."""
    unseen: Mapping[str, str]
    """Reasons why objects could not be read, by the paths of resources that are selected without a step."""


class ObservedRepairs:
    """Plans and begins reverts of objects of a root stack that were read."""

    def __init__(self, repairs: "Repairs", stack: StackRecord, resources: ResourceFactory) -> None:
        self._repairs = repairs
        self._stack = stack
        self._resources = resources

    def plan(self, paths: Iterable[str]) -> RepairPlan:
        """Plan to put back the differences of the objects at some of the paths."""
        return self._repairs.plan_of(self._stack, self._resources, Selection(dict.fromkeys(paths)))

    def revert(self, context: Context, selection: Selection, plan_digest: str | None = None) -> ActionRecord:
        """Enqueue an update that only puts back what differs in the selected.

        Returns the action. A caller may have opened the transaction. Raises as `Repairs.revert`.
        """
        return self._repairs.revert_observed(context, self._stack, self._resources, selection, plan_digest)


class Repairs(StackOperations):
    """Plans and begins repairs."""

    def plan(self, stack: StackRecord, selection: Selection) -> RepairPlan:
        """Plan the repair of selected resources in a tree. Reads the database only.

        Each resource that reads something of a repaired one is updated in place, if it can be. Raises ResourceNotFound
        for a path that leads nowhere.
        """
        return self._plan(self._begun(stack), self._selecting(stack, selection))

    def plan_revert(self, stack: StackRecord, paths: Iterable[str], named: Container[str] = ()) -> RepairPlan:
        """Plan an update that only puts back the differences of the objects at `paths`.

        Reads these objects of a root stack. Leaves out those that cannot be read, apart from `named` paths. Raises as
        `plan`, OtherCloud, and InvalidStackState for a nested stack, if nothing differs, or if a named object cannot be
        read.
        """
        _require_root(stack)
        self._admission.require_cloud(stack)
        plan = self._plan(self._begun(stack), self._observing(stack, paths, named))
        _require_differences(stack, plan)
        return plan

    def revert(
        self,
        context: Context,
        stack: StackRecord,
        paths: Iterable[str],
        plan_digest: str | None,
        body: JsonMap,
        named: Container[str] = (),
    ) -> ActionRecord:
        """Enqueue an update that only puts back the differences of the objects at `paths`.

        Reads the objects before its transaction. `body` is the request, for a replay after a lock, and the inputs of
        the action. Returns the action. Raises as `plan_revert`, PlanChanged, RepairSpreads if anything would be made,
        replaced or deleted, and as `Admission.admitted`.
        """
        request = self._admission.precheck(context, Operation.REVERT, stack, "POST", "/actions", body)
        resources, claims = self.reader.resources_of(stack), NO_CLAIMS
        if stack.root_id is None:
            resources = self._observing(stack, paths, named)
            claims = self._admission.examine(self._asked(context, stack, resources))
        with self._admission.admitted(request) as stack:
            _require_root(stack)
            inputs, cause = ActionInputs(heal=resources.selection, request=body), Cause.REQUEST
            return self._enqueue(
                context, stack, resources, Operation.REVERT, cause, plan_digest, False, inputs, claims
            )

    def observed(self, stack: StackRecord, paths: Iterable[str]) -> ObservedRepairs:
        """Read the objects at the paths of a root stack.

        Raises as `plan`, InvalidStackState for a nested stack, and OtherCloud.
        """
        _require_root(stack)
        self._admission.require_cloud(stack)
        resources = self._selecting(stack, Selection(dict.fromkeys(paths)))
        self._plan(self._begun(stack), resources, observes=True)
        return ObservedRepairs(self, stack, resources)

    def plan_of(self, stack: StackRecord, resources: ResourceFactory, selection: Selection) -> RepairPlan:
        """Plan a selection of resources, some of whose objects were read."""
        resources.selection = selection
        return self._plan(self._begun(stack), resources)

    def revert_observed(
        self,
        context: Context,
        stack: StackRecord,
        resources: ResourceFactory,
        selection: Selection,
        plan_digest: str | None,
    ) -> ActionRecord:
        """Enqueue a revert as a repair. See `ObservedRepairs`."""
        body: JsonMap = {Operation.REVERT.value: {"resources": [*selection.steps]}}
        request = self._admission.precheck(context, Operation.REVERT, stack, "POST", "/actions", body)
        resources.selection = selection
        with self._admission.admitted(request) as stack:
            _require_root(stack)
            return self._enqueue(context, stack, resources, Operation.REVERT, Cause.REPAIR, plan_digest, False)

    def _observing(self, stack: StackRecord, paths: Iterable[str], named: Container[str]) -> ResourceFactory:
        """Return the resources of a stack with the observations of what a revert selects."""
        resources = self._selecting(stack, Selection(dict.fromkeys(paths)))
        assert resources.selection is not None
        unseen = self._plan(self._begun(stack), resources, observes=True).unseen
        seen = [path for path in resources.selection.steps if path not in unseen]
        if unseen and (not seen or any(path in named for path in unseen)):
            told = "; ".join(f"{path}: {why}" for path, why in unseen.items())
            raise InvalidStackState(NOT_SEEN.format(stack.name, self.reader.mask(stack).text(told)))
        resources.selection = Selection(dict.fromkeys(seen))
        return resources

    def begin(
        self,
        context: Context,
        stack: StackRecord,
        selection: Selection,
        plan_digest: str | None = None,
        claims: Claims = NO_CLAIMS,
    ) -> ActionRecord:
        """Enqueue a repair of a root stack in one transaction. Returns the action.

        A caller may have opened the transaction. `plan_digest` approves a plan that touches more than the selected
        resources. `claims` are of `examine`.
        """
        body: JsonMap = {Operation.HEAL.value: {"resources": [*selection.steps]}}
        with self.admitted(context, stack, "/actions", body) as stack:
            return self.enqueue(context, stack, selection, plan_digest=plan_digest, claims=claims)

    @tries_again
    def request(
        self,
        context: Context,
        stack: StackRecord,
        selection: Selection,
        path: str,
        body: JsonMap,
        asked: PreparedRequest | None = None,
    ) -> ActionRecord:
        """Enqueue a repair of a root stack that a caller asks for. Returns the action.

        `path` (below the stack) and `body` are the request, for a replay after a lock. Features examine `asked`; None:
        a repair.
        """
        request = self._admission.precheck(context, Operation.HEAL, stack, "POST", path, body)
        claims = self._admission.examine(asked or self.asked(context, stack, selection))
        with self._admission.admitted(request) as stack:
            _require_root(stack)
            return self.enqueue(context, stack, selection, Cause.REQUEST, claims=claims)

    def is_examined(self, stack: StackRecord) -> bool:
        """Return whether features examine repairs of a root stack."""
        return self._admission.is_examined(self._store.resources.types(stack.id))

    def examine(
        self, context: Context, stack: StackRecord, selection: Selection, insists: bool = False
    ) -> Claims:
        """Let features examine a repair, before its transaction.

        Raises what refuses it, unless the caller `insists`.
        """
        return self._admission.examine(self.asked(context, stack, selection, insists))

    def asked(
        self, context: Context, stack: StackRecord, selection: Selection, insists: bool = False
    ) -> PreparedRequest:
        """Return the request for a repair, as features examine it."""
        return self._asked(context, stack, self._selecting(stack, selection), insists)

    def shown(self, stack: StackRecord, selection: Selection) -> ShownPlan:
        """Return the plan of a repair, with what features add. Raises as `plan`."""
        shown = self.plan(stack, selection).shown
        added = self._admission.shown(self.asked(Context(stack.project), stack, selection))
        return replace(shown, details={**shown.details, **added})

    def _asked(
        self, context: Context, stack: StackRecord, resources: ResourceFactory, insists: bool = False
    ) -> PreparedRequest:
        after = self._begun(stack)
        preview = cache(lambda: self._preview(after, resources))
        types = self._store.resources.types(stack.id)
        return PreparedRequest(context, after, types, preview, insists, change=ChangeKind.REPAIR)

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

        `path` and `body` as in `request`. Raises InvalidStackState for a nested stack, and as `Admission.admitted`.
        """
        request = self._admission.precheck(context, Operation.HEAL, stack, "POST", path, body)
        with self._admission.admitted(request) as stack:
            _require_root(stack)
            yield stack

    def enqueue(
        self,
        context: Context,
        stack: StackRecord,
        selection: Selection,
        cause: Cause = Cause.REPAIR,
        plan_digest: str | None = None,
        may_spread: bool = False,
        claims: Claims = NO_CLAIMS,
    ) -> ActionRecord:
        """Enqueue a repair within the transaction of `admitted`. Returns the action.

        `may_spread` allows a plan that touches more than the selected resources, whatever it is.
        """
        resources, allows = self._selecting(stack, selection), may_spread or plan_digest is not None
        return self._enqueue(
            context, stack, resources, Operation.HEAL, cause, plan_digest, allows, claims=claims
        )

    def _enqueue(
        self,
        context: Context,
        stack: StackRecord,
        resources: ResourceFactory,
        operation: Operation,
        cause: Cause,
        plan_digest: str | None,
        may_spread: bool,
        inputs: ActionInputs | None = None,
        claims: Claims = NO_CLAIMS,
    ) -> ActionRecord:
        """Enqueue the repair of what a stack's resources select, with their observations."""
        after, selection = self._begun(stack), resources.selection
        assert selection is not None
        plan = self._plan(after, resources)
        self._spare_locked(context, stack, plan, operation)
        if plan.unable:
            steps = ", ".join(f"{path} ({selection.steps[path]})" for path in plan.unable)
            raise NotSupported(f"The type has no such step: {steps}. Replace the resource instead.")
        if plan.protected:
            raise DeletionProtected(f"Stack {stack.name} is left as it is: {' '.join(plan.protected)}")
        if plan.refused:
            text = "; ".join(problem.text for problem in plan.refused)
            if operation is Operation.REVERT:
                raise RepairSpreads(NOT_IN_PLACE.format(stack.name, text))
            raise StackValidationFailed(text, problems=plan.refused)
        if plan_digest is not None and plan.shown.digest != plan_digest:
            raise PlanChanged(stack_name=stack.name)
        if plan.spreads and not may_spread:
            paths = ", ".join(plan.spreads)
            if operation is Operation.REVERT:
                raise RepairSpreads(NOT_IN_PLACE.format(stack.name, f"{paths} would be made, replaced or deleted"))
            raise RepairSpreads(stack_name=stack.name, paths=paths)
        if operation is Operation.REVERT:
            _require_differences(stack, plan)
        claims.look(lambda: self._preview(after, resources))
        self._store.stacks.save(after)
        self._store.events.append_many([stack_event(after, self._clock.now())])
        inputs = inputs or ActionInputs(heal=selection)
        data = ActionData()
        if operation is not Operation.REVERT:
            data = ActionData(replacement=MemberChange.of(tuple(selection.steps), objects=plan.objects))
        action = replace(self._admission.new_action(context, after, Verb.UPDATE, inputs), cause=cause, data=data)
        self._admission.enqueue_action(context, action)
        claims.take(action, after)
        return action

    def _begun(self, stack: StackRecord) -> StackRecord:
        """Return the stack row at the start of a repair. Its definition stays."""
        stack = with_state(stack, Verb.UPDATE, Status.IN_PROGRESS, "Stack UPDATE started")
        return replace(stack, updated_at=self._clock.now())

    def _selecting(self, stack: StackRecord, selection: Selection) -> ResourceFactory:
        resources = self.reader.resources_of(stack)
        resources.selection = selection
        return resources

    def _plan(self, after: StackRecord, resources: ResourceFactory, observes: bool = False) -> RepairPlan:
        """Plan what the `resources` of a stack select.

        `observes`: read the objects of what is reverted. They are kept in `resources`.
        """
        selection = resources.selection
        assert selection is not None
        preview = self._preview(after, resources, observes)
        every = [*preview.items(nested=True)]
        items = [item for item in every if not _is_kept(item)]
        found = {"/".join(item.path): item for item in [*every, *items]}
        for path in selection.steps:
            if path not in found:
                raise ResourceNotFound(resource_name=path, stack_name=after.name)
        changed = {"/".join(item.path) for item in items if item.outcome not in SPREADS}
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
            reverted=tuple(path for path, step in selection.steps.items() if step is None and path in changed),
            unseen={
                path: error.message
                for path, step in selection.steps.items()
                if step is None and isinstance(error := preview.resources.observed(found[path].row), HeatliteError)
            },
        )

    def _preview(self, after: StackRecord, resources: ResourceFactory, observes: bool = False) -> StackPreview:
        """Return the preview of what the `resources` of a stack select."""
        within = resources.within(after)
        within.selection = resources.selection
        return StackPreview(self._definitions.of(after), within, resources.nested(after.id), observes)

    def _spare_locked(self, context: Context, stack: StackRecord, plan: RepairPlan, operation: Operation) -> None:
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
                raise locked_error(operation, nested, context)


def _require_differences(stack: StackRecord, plan: RepairPlan) -> None:
    if not plan.reverted and not plan.spreads:
        raise InvalidStackState(NOTHING_DIFFERS.format(stack.name))


def _require_root(stack: StackRecord) -> None:
    if stack.root_id is not None:
        raise InvalidStackState(f"Stack {stack.name} is nested: repair it from its root, {stack.root_id}.")


def _is_kept(item: PreviewItem) -> bool:
    """Return True if the resource stays as it is."""
    if item.outcome is Outcome.UPDATE and item.level is not None:
        return item.level.is_unchanged(item.name)
    return item.outcome is Outcome.KEEP


def _explained(path: tuple[str, ...], why: str) -> str:
    return f"resources.{'.'.join(path)}: {why}"


def _can(item: PreviewItem, step: RepairStep | None) -> bool:
    """Return True if the type of a resource can do the step.

    A reboot repairs nothing that is half made.
    """
    row = item.row
    if step in (None, RepairStep.REPLACE) or item.level is None:
        return True
    if step is RepairStep.REBOOT and (row.physical_id is None or row.status is Status.FAILED and row.verb not in ALIVE):
        return False
    return item.level.resources.type_of(row).has(step.value)
