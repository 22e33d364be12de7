"""Moves of resources to other names. No object is touched."""

from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from heatlite.api.components import Components
from heatlite.core.actions.payloads import ActionOutputs
from heatlite.core.context import Context
from heatlite.core.errors import ActionConflict, HTTPBadRequest, InvalidStackState, ResourceNotFound
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.core.status import Status, Verb
from heatlite.engine.operations.redefining.changes import Redefinition, require_given
from heatlite.engine.operations.redefining.planning import Waiting, planned_before, waiting
from heatlite.engine.operations.redefining.tree import Rows
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.preview.preview_views import detailed_plan, plan_entry
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import Request, ShownPlan
from heatlite.engine.state.unit_of_work import MOVED_FROM, moved_text, operation_event, with_state
from heatlite.features.ownership.bodies import MoveRequest
from heatlite.features.ownership.errors import MoveReplaces, SnapshotNames
from heatlite.features.ownership.renames import renamed
from heatlite.plugin.signing import KEY
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.document import Definition

MOST_PLACES = 20


class Moves:
    """Plans and carries out moves."""

    def __init__(self, core: Components) -> None:
        self._core = core
        self._store = core.store
        self._redefining = core.redefining

    def plan(self, context: Context, stack: StackRecord, asked: MoveRequest) -> ShownPlan:
        """Return the plan of a move. Raises as `start`, but for locks and running actions."""
        return self._redefining.shown(context, stack, self._planned(context, stack, asked))

    def start(self, context: Context, stack: StackRecord, asked: MoveRequest, body: JsonMap) -> None:
        """Rename resources of a root stack, in one transaction.

        `body` is the request, for a replay after a lock. Raises PlanChanged, MoveReplaces, SnapshotNames,
        ResourceNotFound, InvalidStackState, and as `Admission.admitted`.
        """
        request = self._core.admission.precheck(context, Operation.MOVE, stack, "POST", "/actions", body)
        require_given("move", asked.plan_digest)
        change = self._planned(context, stack, asked)
        self._redefining.require_digest(change, stack, asked.plan_digest)
        moved: list[Json] = [{"from": old, "to": new} for old, new in change.moved.items()]
        options: JsonMap = {"moved": moved, "plan_digest": asked.plan_digest}
        self._redefining.carry_out(context, request, change, options)

    def _planned(self, context: Context, stack: StackRecord, asked: MoveRequest) -> Redefinition:
        """Plan a move. Reads the database only."""
        tree, now, names = self._redefining.tree(stack), self._core.clock.now(), asked.names
        before, rows = tree.level(()).definition, tree.level(()).rows
        _require_free(stack, before, rows, names)
        moving = {old: _row(stack, before, old, rows) for old in names}
        self._require_movable(stack, moving)
        environment = _environment(before, names)
        request = Request(template=renamed(before.template, names))
        if environment is not None:
            request = replace(request, files=before.template.files, environment=environment)
        prepared = self._core.preparation.changed(stack, request, existing=environment is None)
        after = {row.id: _moved(row, names) for row in rows}
        changes = Rows(rows, changed=[after[row.id] for row in rows if after[row.id] != row])
        services = self._core.engine_services
        draft = self._redefining.draft(context, tree, request, prepared, services)
        draft.set((), changes)
        left = waiting(draft.plan())
        unmoved = with_state(replace(stack, updated_at=now), Verb.UPDATE, Status.COMPLETE, "")
        _require_no_replacement(left, waiting(planned_before(services, unmoved, before, rows)), names)
        moved = {names[old]: after[row.id] for old, row in moving.items()}
        details: JsonMap = {**self._redefining.edits(stack, prepared), "breaks": self._breaks(stack, moving)}
        shown = [plan_entry((names[old],), after[row.id], "move", f"from {old}") for old, row in moving.items()]
        return Redefinition(
            shown=detailed_plan(shown, details, [*left.values()]),
            request=request,
            prepared=prepared,
            rows=changes,
            events=[
                operation_event(after[row.id], Operation.MOVE, moved_text(old), now) for old, row in moving.items()
            ],
            taken={},
            outputs=ActionOutputs(stack_status="UPDATE_COMPLETE", moved=names),
            written=[*moved.values()],
            moved=names,
        )

    def _require_movable(self, stack: StackRecord, moving: Mapping[str, ResourceRecord]) -> None:
        """Raise the error of what keeps resources in their places."""
        held = self._store.held_resources([row.id for row in moving.values()])
        for name, row in moving.items():
            if row.id in held:
                raise ActionConflict(f"Resource {name} of stack {stack.name} cannot move now: {held[row.id]}")
        for snapshot in self._store.snapshots.each(stack.id):
            known = moving.keys() & as_map(as_map(snapshot.data).get("resources"))
            if known or snapshot.status is Status.IN_PROGRESS:
                names = ", ".join(sorted(known or moving))
                raise SnapshotNames(stack_name=stack.name, snapshot=snapshot.id, names=names)

    def _breaks(self, stack: StackRecord, moving: Mapping[str, ResourceRecord]) -> list[Json]:
        """Return what outside the stack has an old name, in sentences."""
        found: list[Json] = []
        for name, row in moving.items():
            if KEY in row.data:
                found.append(f"{name}: URLs that were given to machines or people have the old name.")
            elif self._store.accounts.get(stack.id, row.physical_name) is not None:
                found.append(f"{name}: an agent that asks for its metadata by the old name.")
        return found


def _require_free(
    stack: StackRecord, definition: Definition, rows: Sequence[ResourceRecord], names: Mapping[str, str]
) -> None:
    """Raise HTTPBadRequest for a path below the root, and for a name in use."""
    for name in (*names, *names.values()):
        if "/" in name:
            text = "only resources of the root template move in this version, not members of groups or nested stacks"
            raise HTTPBadRequest(f"{name}: {text}.")
    used = {*definition.template.resources, *(row.name for row in rows)} - names.keys()
    taken = sorted(used.intersection(names.values()))
    if taken:
        raise HTTPBadRequest(f"Stack {stack.name} has resources of these names already: {', '.join(taken)}.")


def _row(stack: StackRecord, definition: Definition, name: str, rows: Sequence[ResourceRecord]) -> ResourceRecord:
    """Return the row of a resource that can move."""
    found = [row for row in rows if row.name == name]
    if not found:
        raise ResourceNotFound(resource_name=name, stack_name=stack.name)
    row = found[-1]
    is_whole = len(found) == 1 and name in definition.resources
    if not is_whole or row.status is Status.IN_PROGRESS or row.verb is Verb.DELETE:
        text = f"Resource {name} of stack {stack.name} is between two states: update the stack first (heatlite up)."
        raise InvalidStackState(text)
    if row.is_locked:
        raise InvalidStackState(f"Resource {name} of stack {stack.name} is locked: heatlite unlock {stack.name}.")
    return row


def _environment(definition: Definition, names: Mapping[str, str]) -> JsonMap | None:
    """Return the environment with the resources' blocks under their new names.

    None: it has no such block.
    """
    environment = definition.environment.to_dict()
    registry = as_map(environment["resource_registry"])
    blocks = as_map(registry.get("resources"))
    if names.keys().isdisjoint(blocks):
        return None
    kept = {name: block for name, block in blocks.items() if name in names or name not in names.values()}
    moved = {names.get(name, name): block for name, block in kept.items()}
    return {**environment, "resource_registry": {**registry, "resources": moved}}


def _moved(row: ResourceRecord, names: Mapping[str, str]) -> ResourceRecord:
    """Return a row with the new names: its own, and those that it requires."""
    requires = row.requires
    if not names.keys().isdisjoint(requires):
        requires = tuple(sorted(names.get(name, name) for name in requires))
    if row.name not in names:
        return replace(row, requires=requires)
    return replace(row, name=names[row.name], requires=requires, data={**row.data, MOVED_FROM: row.name})


def _require_no_replacement(after: Waiting, before: Waiting, names: Mapping[str, str]) -> None:
    """Raise MoveReplaces if the new names lead to more than changes in place."""
    known = {(names.get(path[0], path[0]), *path[1:]): one.action for path, one in before.items()}
    new = ("/".join(path) for path, one in after.items() if one.action not in (known.get(path), Outcome.UPDATE))
    places = [*islice(new, MOST_PLACES)]
    if places:
        raise MoveReplaces(places=", ".join(places))
