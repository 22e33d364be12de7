"""Detachment of objects: their rows and definitions go, and they stay alive."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from heatlite.api.components import Components
from heatlite.core.actions.payloads import ActionOutputs, ObjectOutput
from heatlite.core.clock import to_text
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionConflict,
    DeletionProtected,
    HTTPBadRequest,
    InvalidStackState,
    ResourceNotFound,
    abbreviated,
)
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb
from heatlite.core.wire.why import Holder, words
from heatlite.engine.operations.redefining.changes import Redefinition
from heatlite.engine.operations.redefining.planning import waiting
from heatlite.engine.operations.redefining.tree import DefinedStack, DefinedTree, Draft, RowChanges
from heatlite.engine.preview.preview_views import detailed_plan, plan_entry
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import ShownPlan
from heatlite.engine.state.unit_of_work import operation_event
from heatlite.engine.state.ways_out import unprotect
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.features.ownership.bodies import DetachRequest
from heatlite.features.ownership.errors import StillReferenced
from heatlite.plugin.cloud import CloudResource
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.edits import DefinitionPart, Edit
from heatlite.template.expression import requires

DETACHED = "Detached"
"""Reason of the event."""


class _Leaving(Struct, frozen=True):
    """Resources of one stack that leave it."""

    level: DefinedStack
    rows: Mapping[str, ResourceRecord]


class Detachments:
    """Plans and carries out detachments."""

    def __init__(self, core: Components) -> None:
        self._core = core
        self._store = core.store
        self._redefining = core.redefining

    def plan(self, context: Context, stack: StackRecord, asked: DetachRequest) -> ShownPlan:
        """Return the plan of a detachment.

        Raises as `start`, but for locks and running actions.
        """
        return self._redefining.shown(context, stack, self._planned(context, stack, asked))

    def start(self, context: Context, stack: StackRecord, asked: DetachRequest, body: JsonMap) -> JsonMap:
        """Detach objects of a tree, in one transaction. Returns them by path.

        `body` is the request, for a replay after a lock. Raises PlanChanged, StillReferenced, DeletionProtected,
        ResourceNotFound, InvalidStackState, TemplateShared, and as `Admission.admitted`.
        """
        request = self._core.admission.precheck(context, Operation.DETACH, stack, "POST", "/actions", body)
        change = self._planned(context, stack, asked, binds=True)
        self._redefining.require_digest(context, change, stack, asked.plan_digest)
        options: JsonMap = {
            "resources": [*asked.resources],
            "as_external": asked.as_external,
            "plan_digest": asked.plan_digest,
        }
        self._redefining.carry_out(context, request, change, options)
        return {"detached": _shown(change.outputs.detached or {})}

    def _planned(self, context: Context, stack: StackRecord, asked: DetachRequest, binds: bool = False) -> Redefinition:
        """Plan a detachment. Reads the database only.

        `binds`: it is to be carried out. Other plans pass a lock.
        """
        tree, now = self._redefining.tree(stack), self._core.clock.now()
        leaving = self._leaving(tree, asked)
        if asked.as_external:
            _require_defined(leaving)
        gone = {one.level.full(name): row for one in leaving for name, row in one.rows.items()}
        self._require_free(stack, gone, binds)
        _require_unread(stack, leaving, asked)
        wholes = {row.id: self._whole(one.level.stack, row) for one in leaving for row in one.rows.values()}
        request = tree.edited({one.level.path: _edits(one, wholes if asked.as_external else None) for one in leaving})
        prepared = self._core.preparation.changed(stack, request, existing=True)
        draft = self._redefining.draft(context, tree, request, prepared, self._core.engine_services)
        for one in leaving:
            draft.set(one.level.path, _rows(one, draft, wholes if asked.as_external else None))
        cause = "a reference to the object stays" if asked.as_external else "the object stays"
        shown = [plan_entry(tuple(path.split("/")), row, "detach", cause) for path, row in gone.items()]
        detached = {path: ObjectOutput(row.type, row.physical_id or "") for path, row in gone.items()}
        return Redefinition(
            before=stack,
            shown=detailed_plan(shown, self._redefining.edits(stack, prepared), [*waiting(draft.plan()).values()]),
            request=request,
            prepared=prepared,
            rows=draft.rows(()),
            events=[operation_event(row, Operation.DETACH, DETACHED, now) for row in gone.values()],
            taken={},
            outputs=ActionOutputs(stack_status="UPDATE_COMPLETE", detached=detached),
            nested=draft.nested,
        )

    def _leaving(self, tree: DefinedTree, asked: DetachRequest) -> list[_Leaving]:
        levels = ((tree.level(path), names) for path, names in tree.placed(asked.resources).items())
        return [_Leaving(level, {name: self._row(level, name) for name in names}) for level, names in levels]

    def _require_free(self, stack: StackRecord, gone: Mapping[str, ResourceRecord], binds: bool) -> None:
        """Raise the error of what keeps resources in the stack."""
        held = self._store.held_resources([row.id for row in gone.values()])
        for path, row in gone.items():
            if row.is_locked and binds:
                text = f"Resource {path} of stack {stack.name} is locked: heatlite unlock {words(stack.name)}."
                raise InvalidStackState(text)
            if row.id in held:
                raise ActionConflict(f"Resource {path} of stack {stack.name} cannot leave now: {held[row.id]}")

    def _whole(self, stack: StackRecord, row: ResourceRecord) -> str:
        """Return the property by which a part of another object is found; "" for others."""
        kind = ResourceFactory(stack, self._core.engine_services).type_of(row)
        return kind.within if issubclass(kind, CloudResource) else ""

    def _row(self, level: DefinedStack, name: str) -> ResourceRecord:
        """Return the row of a resource that can be detached."""
        stack, found = level.stack, [row for row in level.rows if row.name == name]
        if not found:
            raise ResourceNotFound(resource_name=name, stack_name=stack.name)
        row = found[-1]
        if len(found) > 1 or row.physical_id is None or row.status is Status.IN_PROGRESS or row.verb is Verb.DELETE:
            text = f"Resource {name} of stack {stack.name} is between two states: update the stack first."
            raise InvalidStackState(text)
        if row.external_id is not None:
            raise InvalidStackState(f"Resource {name} of stack {stack.name} is external: the stack does not own it.")
        if issubclass(ResourceFactory(stack, self._core.engine_services).type_of(row), StackResource):
            nested = self._store.stacks.get(row.physical_id)
            called = row.physical_id if nested is None else nested.name
            text = f"Resource {name} of stack {stack.name} is a nested stack. Abandon that: DELETE …/{called}/abandon."
            raise InvalidStackState(text)
        if row.protection is not None:
            by, since = row.protection.by, to_text(row.protection.at)
            held = Holder(kind="resource", id=row.id, by=by, since=since)
            step = unprotect(stack, name)
            text = f"Resource {name} of stack {stack.name} is protected. Nothing was done. Lift it: {step.command}."
            raise DeletionProtected(text, holder=held, way_out=[step])
        return row


def _require_defined(leaving: Sequence[_Leaving]) -> None:
    """Raise InvalidStackState for resources that no definition can refer to."""
    for one in leaving:
        for name in one.rows.keys() - one.level.definition.resources.keys():
            text = f"Resource {one.level.full(name)} is in the definition no more: detach it without as_external."
            raise InvalidStackState(text)


def _require_unread(stack: StackRecord, leaving: Sequence[_Leaving], asked: DetachRequest) -> None:
    """Raise StillReferenced if something reads a resource that leaves no reference."""
    places = [] if asked.as_external else [place for one in leaving for place in _readers(one)]
    if places:
        raise StillReferenced(stack_name=stack.name, places=abbreviated(places), detached=tuple(asked.resources))


def _rows(leaving: _Leaving, draft: Draft, wholes: Mapping[str, str] | None) -> RowChanges:
    """Return the rows of a stack without the objects.

    With `wholes`, see `_edits`, rows of references stay.
    """
    level = leaving.level
    if wholes is None:
        return RowChanges(level.rows, gone=[*leaving.rows.values()])
    defined = draft.definition(level.path).resources
    external = [
        replace(
            row,
            external_id=row.physical_id,
            properties={key: value for key, value in row.properties.items() if key == wholes[row.id]},
            metadata={},
            requires=tuple(sorted(defined[name].requires)),
            uses=(),
            deletion_policy=defined[name].deletion_policy,
        )
        for name, row in leaving.rows.items()
    ]
    return RowChanges(level.rows, changed=external)


def _readers(leaving: _Leaving) -> Iterator[str]:
    """Yield the places that read one of the resources."""
    level, gone = leaving.level, leaving.rows.keys()
    for name, resource in level.definition.resources.items():
        if name not in gone and not resource.requires.isdisjoint(gone):
            yield f"resources.{level.full(name)}"
    for name, output in level.definition.outputs.items():
        if not {*requires(output.value)}.isdisjoint(gone):
            yield f"outputs.{level.full(name)}"


def _edits(leaving: _Leaving, wholes: Mapping[str, str] | None) -> list[Edit]:
    """Return the edits of a template that take the resources out of it.

    With `wholes`, by row, references to their objects stay.
    """
    definition = leaving.level.definition
    section, keys = definition.sections["resources"], definition.keys
    if wholes is not None and "external_id" not in keys:
        raise HTTPBadRequest("A template of this version has no external_id: detach without as_external.")
    edits, defined = [], definition.template.resources.keys()
    for name, row in leaving.rows.items():
        if name not in defined:  # an update has left it out
            continue
        edit = Edit(DefinitionPart.TEMPLATE, (section, name))
        if wholes is not None:
            given = {key: value for key, value in row.properties.items() if key == wholes[row.id]}
            value: JsonMap = {keys["type"]: row.type, keys["external_id"]: row.physical_id}
            edit = replace(edit, value={**value, **({keys["properties"]: given} if given else {})})
        edits.append(edit)
    return edits


def _shown(objects: Mapping[str, ObjectOutput]) -> JsonMap:
    return {name: {"type": one.type, "id": one.id} for name, one in objects.items()}
