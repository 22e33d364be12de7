"""Accepts drift: live values go into the definition, and no object changes."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct, UnsetType
from msgspec.structs import replace

from heatlite.api.components import Components
from heatlite.core.actions.payloads import ActionOutputs
from heatlite.core.context import Context
from heatlite.core.differences import Differences
from heatlite.core.errors import HeatliteError, HTTPBadRequest, InvalidStackState, ResourceNotFound, TemplateShared
from heatlite.core.json import JsonMap, pointer
from heatlite.core.redaction.masking import Mask, hiding
from heatlite.core.status import Status, state
from heatlite.core.wire.base import Paths
from heatlite.core.wire.why import words
from heatlite.engine.operations.redefining.changes import Redefining, Redefinition
from heatlite.engine.operations.redefining.planning import waiting
from heatlite.engine.operations.redefining.tree import DefinedStack, DefinedTree, Draft, Path, RowChanges
from heatlite.engine.planning.collect import evaluate
from heatlite.engine.planning.hidden_parts import HiddenParts
from heatlite.engine.preview.preview_views import detailed_plan, plan_entry
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import ShownPlan, StackRequest
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.differences import DifferentPart, compare, shown, with_hidden
from heatlite.engine.types.observation import is_compared, observe
from heatlite.engine.types.resource_factory import ResourceFactory, Values
from heatlite.features.drift.errors import DriftNotAcceptable
from heatlite.features.drift.origins import NoOrigin, Origin, edits_for
from heatlite.features.drift.reverting import drifted_paths
from heatlite.features.drift.states import DriftState
from heatlite.features.drift.store.store import DriftStore
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.document import Definition
from heatlite.template.edits import DefinitionPart, Edit
from heatlite.template.ignored import ignored

MAX_DIFFERENCES = 1000
ACCEPTED = "the definition takes over what the object has"
"""Cause in a plan."""
NOT_DRIFTED = "Nothing of {} is drifted in stack {}. List what is: heatlite drift {}."
NOT_WELL = "Resource {0} of stack {1} is {2}. Nothing was done. Repair it first: heatlite heal {1} {3}."
NOT_SEEN = "The object of {} in stack {} cannot be read: {}. Nothing was done. Try again later."


class AcceptedDifference(Struct, frozen=True, forbid_unknown_fields=True):
    """A difference to accept."""

    path: Annotated[str, Meta(min_length=1)]
    """Path of the resource."""
    pointer: Annotated[str, Meta(pattern="^/.")]
    """JSON Pointer into its properties, as in a list of drift."""


class AcceptRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The drift to accept; without either list all of the stack."""

    resources: Paths = ()
    """Paths from the stack on, such as ``data/vol``. That of a nested stack stands for what is drifted in it."""
    differences: Annotated[tuple[AcceptedDifference, ...], Meta(max_length=MAX_DIFFERENCES)] = ()
    """Single differences, in place of ``resources``."""
    plan_digest: str | None = None
    """Digest of the approved plan; required to accept."""

    def __post_init__(self) -> None:
        if self.resources and self.differences:
            raise ValueError("give resources or differences, not both")


class _Seen(Struct, frozen=True):
    """The drift of one resource."""

    level: DefinedStack
    row: ResourceRecord
    live: JsonMap
    hidden: HiddenParts | None
    parts: Sequence[DifferentPart]
    """Those to accept."""

    @property
    def path(self) -> str:
        """The path of the resource from the root on."""
        return self.level.full(self.row.name)

    def left(self, row: ResourceRecord, resources: ResourceFactory) -> Sequence[DifferentPart]:
        """Return the differences of the object from another row, as a check finds them."""
        return _compare(resources, row, self.live, self.level.definition, self.hidden)


class Accepting:
    """Plans and carries out acceptances."""

    def __init__(self, core: Components) -> None:
        self._core = core
        self._store = core.store
        self._redefining: Redefining = core.redefining

    def plan(self, context: Context, stack: StackRecord, asked: AcceptRequest) -> ShownPlan:
        """Return the plan of an acceptance. Reads the objects.

        Raises as `start`, but for locks and running actions.
        """
        self._core.admission.require_cloud(stack)
        return self._redefining.shown(context, stack, self._planned(context, stack, asked))

    def start(self, context: Context, stack: StackRecord, asked: AcceptRequest, body: JsonMap) -> None:
        """Accept drift of a tree, in one transaction after the objects were read.

        `body` is the request, for a replay after a lock. Raises PlanChanged, DriftNotAcceptable, InvalidStackState if
        nothing differs or an object cannot be read, and as `Admission.admitted`.
        """
        request = self._core.admission.precheck(context, Operation.ACCEPT, stack, "POST", "/actions", body)
        change = self._planned(context, stack, asked)
        self._redefining.require_digest(context, change, stack, asked.plan_digest)
        options = body[Operation.ACCEPT]
        self._redefining.carry_out(context, request, change, options if isinstance(options, dict) else {})

    def _planned(self, context: Context, stack: StackRecord, asked: AcceptRequest) -> Redefinition:
        """Read the objects, and plan the acceptance."""
        core, tree = self._core, self._redefining.tree(stack)
        with hiding(core.reader.mask(stack)):
            found = [self._seen(stack, level, row, asked) for level, row in self._rows(tree, asked)]
        seen = [one for one in found if one.parts]
        if not seen:
            raise InvalidStackState(NOT_DRIFTED.format("that", stack.name, stack.name))
        origins = _origins(tree, seen)
        request = _request(tree, origins)
        prepared = core.preparation.changed(stack, request, existing=True)
        draft = self._redefining.draft(context, tree, request, prepared, core.engine_services)
        compared = _set_rows(draft, tree, seen, origins, core.reader.mask(stack))
        accepted = {one.path: tuple(pointer(part.path) for part in one.parts) for one in seen}
        details: JsonMap = {
            **self._redefining.edits(stack, prepared),
            "accepted": [{"path": name, "pointer": each} for name, paths in accepted.items() for each in paths],
        }
        entries = [plan_entry((*one.level.path, one.row.name), one.row, "accept", ACCEPTED) for one in seen]
        return Redefinition(
            before=stack,
            shown=detailed_plan(entries, details, [*waiting(draft.plan()).values()]),
            request=request,
            prepared=prepared,
            rows=draft.rows(()),
            events=[],
            taken={},
            outputs=ActionOutputs(stack_status="UPDATE_COMPLETE", accepted=accepted),
            compared=compared,
            nested=draft.nested,
        )

    def _rows(self, tree: DefinedTree, asked: AcceptRequest) -> list[tuple[DefinedStack, ResourceRecord]]:
        """Return the drifted rows to accept, with their stacks."""
        stack, drift = tree.root, self._store.of(DriftStore)
        paths = [one.path for one in asked.differences] or drifted_paths(drift, stack, asked.resources)
        placed, places = list[tuple[DefinedStack, ResourceRecord]](), list[str]()
        for path in dict.fromkeys(paths):
            *above, name = path.split("/")
            try:
                level = tree.level(tuple(above))
            except (HTTPBadRequest, TemplateShared) as error:
                places.append(f"{path} ({error.message})")
                continue
            found = [row for row in current_rows(level.rows) if row.name == name]
            if not found:
                raise ResourceNotFound(resource_name=name, stack_name=level.stack.name)
            placed.append((level, found[0]))
        if places:
            raise DriftNotAcceptable(stack, "; ".join(places))
        known = drift.of([row.id for _, row in placed])
        for level, row in placed:
            is_drifted = row.id in known and known[row.id].state is DriftState.DRIFTED
            path = level.full(row.name)
            if not is_drifted:
                raise InvalidStackState(NOT_DRIFTED.format(path, stack.name, stack.name))
            if row.status is not Status.COMPLETE:
                raise InvalidStackState(NOT_WELL.format(path, stack.name, state(row.verb, row.status), words(path)))
        return placed

    def _seen(self, root: StackRecord, level: DefinedStack, row: ResourceRecord, asked: AcceptRequest) -> _Seen:
        resources, path = self._core.reader.resources_of(level.stack), level.full(row.name)
        view = resources.nested(level.stack.id) if root.sealed else None
        hidden = None if view is None else HiddenParts(view, resources)
        live = observe(resources.make(row)) if is_compared(row, resources.type_of(row)) else row.properties
        if live is None or isinstance(live, HeatliteError):
            why = "it is gone" if live is None else live.message
            raise InvalidStackState(NOT_SEEN.format(path, root.name, why))
        counted = [one for one in _compare(resources, row, live, level.definition, hidden) if not one.ignored]
        wanted = [one.pointer for one in asked.differences if one.path == path]
        parts = [part for part in counted if not wanted or _is_in(pointer(part.path), wanted)]
        return _Seen(level, row, live, hidden, parts)


def _set_rows(
    draft: Draft, tree: DefinedTree, seen: Sequence[_Seen], origins: Sequence[Origin], mask: Mask
) -> dict[str, tuple[ResourceRecord, Differences]]:
    """Give rows the values of the new definition, where something is accepted.

    Returns what is left to differ there, by row. Raises DriftNotAcceptable.
    """
    compared = dict[str, tuple[ResourceRecord, Differences]]()
    accepted = {one.row.id: one for one in seen}
    changed = {*((one.level.path, one.row.name) for one in seen), *((level.path, name) for level, name, _ in origins)}
    changed |= {(path[:depth], path[depth]) for path, _ in changed for depth in range(len(path))}  # values pass through
    for path in sorted({path for path, _ in changed}):
        rows, resources, definition = tree.level(path).rows, draft.resources(path), draft.definition(path)
        values, after = Values(resources, {row.name: row for row in current_rows(rows)}), list[ResourceRecord]()
        for before in values.rows.values():
            if (path, before.name) in changed and before.name in definition.resources:
                wanted = evaluate(definition, before.name, resources, values)
                after.append(replace(before, properties=wanted.properties))
        draft.set(path, RowChanges(rows, changed=after))
        for row in after:
            one = accepted.get(row.id)
            if one is None:
                continue
            with hiding(mask):
                parts = one.left(row, resources)
            left = {part.path for part in parts}
            if stays := [pointer(part.path) for part in one.parts if part.path in left and not part.is_item]:
                places = ", ".join(one.path + place for place in stays)
                raise DriftNotAcceptable(tree.root, places)
            compared[row.id] = row, shown(parts)
    return compared


def _compare(
    resources: ResourceFactory, row: ResourceRecord, live: JsonMap, definition: Definition, hidden: HiddenParts | None
) -> Sequence[DifferentPart]:
    """Return the differences of an object, as a check finds them."""
    parts = compare(resources.type_of(row).schema, row.properties, live, ignored(definition, row.name))
    return with_hidden(parts, None if hidden is None else partial(hidden.of, row.name))


def _origins(tree: DefinedTree, seen: Sequence[_Seen]) -> list[Origin]:
    """Return the edits that bring the live values into the definition.

    Raises DriftNotAcceptable.
    """
    origins, places = list[Origin](), list[str]()
    for one in seen:
        path = one.level.path
        levels = [tree.level(path[:depth]) for depth in range(len(path) + 1)]
        places += [f"{one.path}{pointer(part.path)} (a hidden value)" for part in one.parts if part.hidden]
        try:
            origins += edits_for(levels, one.row.name, [part for part in one.parts if not part.hidden])
        except NoOrigin as error:
            places.append(f"{one.path} ({error})")
    if places:
        raise DriftNotAcceptable(tree.root, "; ".join(places))
    return origins


def _request(tree: DefinedTree, origins: Sequence[Origin]) -> StackRequest:
    """Return the definition with the live values."""
    of_templates, parameters = dict[Path, list[Edit]](), JsonMap()
    for level, _, edit in origins:
        if edit.part is DefinitionPart.TEMPLATE:
            of_templates.setdefault(level.path, []).append(edit)
        elif not isinstance(edit.value, UnsetType):
            parameters[str(edit.path[0])] = edit.value
    return replace(tree.edited(of_templates), parameters=parameters)


def _is_in(path: str, wanted: Sequence[str]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in wanted)
