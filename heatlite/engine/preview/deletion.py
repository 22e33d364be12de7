"""The plan of a deletion: objects of a tree that go, and those that stay."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from heatlite.core.actions.payloads import RetainedObject
from heatlite.core.actions.repairs import RepairPart
from heatlite.core.context import Context
from heatlite.core.errors import HTTPBadRequest, PlanChanged, StackNotFound
from heatlite.core.status import Verb
from heatlite.engine.planning.decide import is_retained
from heatlite.engine.planning.plan import in_order
from heatlite.engine.planning.planner import plan_deletions
from heatlite.engine.preview.preview_views import detailed_plan, plan_entry
from heatlite.engine.state.conflict_rules import Operation, refusal
from heatlite.engine.state.protected import against_deletion
from heatlite.engine.state.requests import PlannedResource, ShownPlan
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.outputs import StackReader
from heatlite.engine.types.resource_factory import NestedView, ResourceFactory
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.source.problems import nearest


class DeletionPlan(Struct, frozen=True):
    """The plan of a deletion."""

    shown: ShownPlan
    retained: tuple[RetainedObject, ...]
    """Objects that stay on request, with those that they require."""


class _Stay(Struct, frozen=True):
    """The reason why an object stays."""

    cause: str
    part: RepairPart | UnsetType = UNSET


_ASKED = _Stay("on request", RepairPart.NAMED)
_EXTERNAL = _Stay("the stack does not own it")
_POLICY = _Stay("its deletion policy retains it")
_ABOVE = _Stay("the stack that has it stays")


class Deletions:
    """Plans deletions of stacks, and refuses them."""

    def __init__(self, store: Store, reader: StackReader) -> None:
        self._store = store
        self._reader = reader

    def plan(self, stack: StackRecord, retain: Sequence[str]) -> DeletionPlan:
        """Plan the deletion of a stack, with its tree.

        `retain` are paths of resources whose objects stay, with those of an earlier deletion. Raises HTTPBadRequest for
        paths that cannot be retained.
        """
        standing = self._reader.resources_of(stack).nested(stack.id)
        if standing is None:
            raise StackNotFound(name=stack.name)
        kept = self._retained_before(stack)[1]
        known = {one.path for one in kept}
        return _plan(standing, [name for name in retain if name not in known], kept)

    def standing(self, stack: StackRecord, retain: Sequence[str]) -> NestedView | None:
        """Return the tree of a stack. What stays on request has the policy to retain.

        Raises as `plan`.
        """
        found = self._reader.resources_of(stack).nested(stack.id)
        if found is not None and (retain or stack.verb is Verb.DELETE):
            stay = {one.physical_id for one in self.plan(stack, retain).retained}
            rows = [replace(row, deletion_policy="retain") if row.physical_id in stay else row for row in found.rows]
            found.rows = rows
        return found

    def retained(
        self, stack: StackRecord, retain: Sequence[str], digest: str | None
    ) -> tuple[tuple[str, ...], tuple[RetainedObject, ...]]:
        """Return names whose objects a deletion leaves, and all objects that stay.

        Those of an earlier deletion stay so. Raises as `plan`, and PlanChanged for another digest.
        """
        names, kept = self._retained_before(stack)
        if not retain and digest is None:
            return names, kept
        plan = self.plan(stack, retain)
        if digest is not None and digest != plan.shown.digest:
            raise PlanChanged(stack_name=stack.name)
        return tuple(dict.fromkeys([*names, *retain])), plan.retained

    def _retained_before(self, stack: StackRecord) -> tuple[tuple[str, ...], tuple[RetainedObject, ...]]:
        """Return the same of an earlier deletion, which has failed."""
        last = self._store.actions.last(stack.id, Verb.DELETE) if stack.verb is Verb.DELETE else None
        return ((), ()) if last is None else (last.inputs.retain, last.data.retained)

    def require(self, context: Context, stack: StackRecord) -> None:
        """Raise StackLocked or DeletionProtected if a deletion would be refused."""
        above, below = self._store.stacks.ancestors(stack), self._store.stacks.descendants(stack)
        error = refusal(Operation.DELETE, stack, above, below, (), context)
        if error is not None:
            raise error
        self.require_unprotected(stack)

    def require_unprotected(self, stack: StackRecord) -> None:
        """Raise DeletionProtected if something of the tree is protected."""
        protected = against_deletion(self._store, stack)
        if protected is not None:
            raise protected.refusal(stack)


def _plan(standing: NestedView, retain: Sequence[str], kept: Sequence[RetainedObject]) -> DeletionPlan:
    current = {row.name: row for row in current_rows(standing.rows)}
    stays = _required(standing.stack.name, retain, current, standing.values.resources)
    retained = {one.physical_id: one for one in kept}
    for name in stays:
        row = current[name]
        assert row.physical_id is not None
        retained[row.physical_id] = RetainedObject(name, row.type, row.physical_id)
    by_row = {current[name].id: one for name, one in stays.items()}
    by_row = {**{row.id: _ASKED for row in standing.rows if row.physical_id in retained}, **by_row}
    return DeletionPlan(detailed_plan([*_entries(standing, (), by_row)], {}), tuple(retained.values()))


def _required(
    stack: str, retain: Sequence[str], current: Mapping[str, ResourceRecord], resources: ResourceFactory
) -> dict[str, _Stay]:
    """Return why objects stay, by name: the named ones, and what they require.

    Raises HTTPBadRequest.
    """
    if unknown := [path for path in retain if path.partition("/")[0] not in current]:
        hint = nearest(unknown[0], current)
        _refuse(unknown, f"there is no such resource in {stack}{f' ({hint})' if hint else ''}")
    _refuse([path for path in retain if "/" in path], "what is nested cannot be retained")
    _refuse([name for name in retain if not _is_own(current[name])], "the stack has made no object that could stay")
    by_id = {row.id: name for name, row in current.items()}
    stays, todo = dict.fromkeys(retain, _ASKED), [*retain]
    while todo:
        row = current[todo.pop()]
        for name in dict.fromkeys([*row.requires, *(by_id[key] for key in row.uses if key in by_id)]):
            if name in current and name not in stays and _is_own(current[name]):
                stays[name] = _Stay(f"{row.name} requires it", RepairPart.PULLED_IN)
                todo.append(name)
    nested = [name for name in stays if issubclass(resources.type_of(current[name]), StackResource)]
    _refuse(nested, "a nested stack can only be retained by its deletion policy")
    return stays


def _refuse(paths: Sequence[str], why: str) -> None:
    if paths:
        raise HTTPBadRequest(f"retain: {', '.join(paths)}: {why}. Nothing was done.")


def _is_own(row: ResourceRecord) -> bool:
    """Return True if the stack has made the row's object, which exists."""
    return row.physical_id is not None and row.external_id is None and row.verb is not Verb.DELETE


def _entries(
    view: NestedView, above: tuple[str, ...], stays: Mapping[str, _Stay], all_stay: bool = False
) -> Iterator[PlannedResource]:
    """Yield the entries of a stack in the order of its deletion.

    Each is followed by those nested in it.
    """
    steps = plan_deletions(view.rows, ()).steps
    for step in in_order(steps.values()):
        row = step.row
        assert row is not None
        stay = stays.get(row.id) or _by_itself(row) or (_ABOVE if all_stay else None)
        if row.physical_id is not None:
            after = tuple(sorted({steps[key].name for key in step.requires}))
            yield _entry(row, above, stay, after)
        nested = view.values.resources.nested_of(row)
        if nested is not None:
            yield from _entries(nested, (*above, row.name), {}, stay is not None)


def _by_itself(row: ResourceRecord) -> _Stay | None:
    if row.external_id is not None:
        return _EXTERNAL
    return _POLICY if is_retained(row) else None


def _entry(
    row: ResourceRecord, above: tuple[str, ...], stay: _Stay | None, after: tuple[str, ...]
) -> PlannedResource:
    path = (*above, row.name)
    if stay is not None:
        return replace(plan_entry(path, row, "keep", stay.cause), selection=stay.part)
    snapshot = "a snapshot stays" if row.deletion_policy.lower() == "snapshot" else ""
    return replace(plan_entry(path, row, "delete", snapshot), after=after)
