"""Detachment of objects: their rows and definitions go, and they stay alive."""

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from heatlite.api.components import Components
from heatlite.core.actions.payloads import ActionOutputs, ObjectOutput
from heatlite.core.context import Context
from heatlite.core.errors import ActionConflict, DeletionProtected, HTTPBadRequest, InvalidStackState, ResourceNotFound
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb
from heatlite.engine.operations.redefining import (
    Redefinition,
    Rows,
    planned,
    redefined,
    require_given,
    require_root,
    waiting,
)
from heatlite.engine.preview.preview_views import detailed_plan, plan_entry
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import Request, ShownPlan
from heatlite.engine.state.unit_of_work import operation_event
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.features.ownership.bodies import DetachRequest
from heatlite.features.ownership.errors import StillReferenced
from heatlite.plugin.cloud import CloudResource
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.document import Definition
from heatlite.template.edits import Edit, Part, edited
from heatlite.template.expression import requires

DETACHED = "Detached"
"""Reason of the event."""
MOST_PLACES = 20


class Detachments:
    """Plans and carries out detachments."""

    def __init__(self, core: Components) -> None:
        self._core = core
        self._store = core.store
        self._redefining = core.redefining

    def plan(self, stack: StackRecord, asked: DetachRequest) -> ShownPlan:
        """Return the plan of a detachment.

        Raises as `start`, but for locks and running actions.
        """
        require_root(stack)
        return self._planned(stack, asked).shown

    def start(self, context: Context, stack: StackRecord, asked: DetachRequest, body: JsonMap) -> JsonMap:
        """Detach objects of a root stack, in one transaction. Returns them by path.

        `body` is the request, for a replay after a lock. Raises PlanChanged, StillReferenced, DeletionProtected,
        ResourceNotFound, InvalidStackState, and as `Admission.admitted`.
        """
        request = self._core.admission.precheck(context, Operation.DETACH, stack, "POST", "/actions", body)
        require_root(stack)
        require_given("detach", asked.plan_digest)
        change = self._planned(stack, asked)
        self._redefining.require_digest(change, stack, asked.plan_digest)
        options: JsonMap = {
            "resources": [*asked.resources],
            "as_external": asked.as_external,
            "plan_digest": asked.plan_digest,
        }
        self._redefining.carry_out(context, request, change, options)
        return {"detached": _shown(change.outputs.detached or {})}

    def _planned(self, stack: StackRecord, asked: DetachRequest) -> Redefinition:
        """Plan a detachment. Reads the database only."""
        rows, now = self._store.resources.of(stack.id), self._core.clock.now()
        before = self._core.definitions.of(stack)
        gone = {name: self._row(stack, name, rows) for name in dict.fromkeys(asked.resources)}
        held = self._store.held_resources([row.id for row in gone.values()])
        for name, row in gone.items():
            if row.id in held:
                raise ActionConflict(f"Resource {name} of stack {stack.name} cannot leave now: {held[row.id]}")
        places = [] if asked.as_external else [*_readers(before, gone)]
        if places:
            more = [f"{len(places) - MOST_PLACES} more"] if len(places) > MOST_PLACES else []
            raise StillReferenced(stack_name=stack.name, places=", ".join([*places[:MOST_PLACES], *more]))
        wholes = {name: self._whole(stack, row) for name, row in gone.items()}
        request = _without(before, gone, asked.as_external, wholes)
        prepared = self._core.preparation.changed(stack, request, existing=True)
        if asked.as_external:
            external = [
                replace(
                    row,
                    external_id=row.physical_id,
                    properties={key: value for key, value in row.properties.items() if key == wholes[name]},
                    metadata={},
                    requires=tuple(sorted(prepared.definition.resources[name].requires)),
                    uses=(),
                    deletion_policy=prepared.definition.resources[name].deletion_policy,
                )
                for name, row in gone.items()
            ]
            changes = Rows(rows, changed=external)
        else:
            changes = Rows(rows, gone=[*gone.values()])
        after = redefined(stack, request, prepared, now)
        left = waiting(planned(self._core.engine_services, after, prepared.definition, changes.after))
        cause = "a reference to the object stays" if asked.as_external else "the object stays"
        shown = [plan_entry((name,), row, "detach", cause) for name, row in gone.items()]
        outputs = ActionOutputs(
            stack_status="UPDATE_COMPLETE",
            detached={name: ObjectOutput(row.type, row.physical_id or "") for name, row in gone.items()},
        )
        plan = detailed_plan(shown, self._redefining.edits(stack, prepared), [*left.values()])
        events = [operation_event(row, Operation.DETACH, DETACHED, now) for row in gone.values()]
        return Redefinition(plan, request, prepared, changes, events, {}, outputs)

    def _whole(self, stack: StackRecord, row: ResourceRecord) -> str:
        """Return the property by which a part of another object is found; "" for others."""
        kind = ResourceFactory(stack, self._core.engine_services).type_of(row)
        return kind.within if issubclass(kind, CloudResource) else ""

    def _row(self, stack: StackRecord, name: str, rows: Collection[ResourceRecord]) -> ResourceRecord:
        """Return the row of a resource that can be detached."""
        if "/" in name:
            text = f"{name}: only resources of the root template are detached. A member leaves its group."
            raise HTTPBadRequest(text)
        found = [row for row in rows if row.name == name]
        if not found:
            raise ResourceNotFound(resource_name=name, stack_name=stack.name)
        row = found[-1]
        if len(found) > 1 or row.physical_id is None or row.status is Status.IN_PROGRESS or row.verb is Verb.DELETE:
            text = f"Resource {name} of stack {stack.name} is between two states: update the stack first (heatlite up)."
            raise InvalidStackState(text)
        if row.external_id is not None:
            raise InvalidStackState(f"Resource {name} of stack {stack.name} is external: the stack does not own it.")
        if issubclass(ResourceFactory(stack, self._core.engine_services).type_of(row), StackResource):
            nested = self._store.stacks.get(row.physical_id)
            called = row.physical_id if nested is None else nested.name
            text = f"Resource {name} of stack {stack.name} is a nested stack. Abandon that: DELETE …/{called}/abandon."
            raise InvalidStackState(text)
        if row.is_locked:
            raise InvalidStackState(f"Resource {name} of stack {stack.name} is locked: heatlite unlock {stack.name}.")
        if row.protection is not None:
            way_on = f"heatlite unprotect {stack.name} {name}"
            raise DeletionProtected(f"Resource {name} of stack {stack.name} is protected. Nothing was done. {way_on}.")
        return row


def _readers(definition: Definition, gone: Collection[str]) -> Iterator[str]:
    """Yield the places that read one of the resources."""
    for name, resource in definition.resources.items():
        if name not in gone and not resource.requires.isdisjoint(gone):
            yield f"resources.{name}"
    for name, output in definition.outputs.items():
        if not {*requires(output.value)}.isdisjoint(gone):
            yield f"outputs.{name}"


def _without(
    before: Definition, gone: Mapping[str, ResourceRecord], as_external: bool, wholes: Mapping[str, str]
) -> Request:
    """Return the definition without the resources.

    `as_external`: with references to their objects.
    """
    section, keys = before.sections["resources"], before.keys
    if as_external and "external_id" not in keys:
        raise HTTPBadRequest("A template of this version has no external_id: detach without as_external.")
    edits = []
    for name, row in gone.items():
        edit = Edit(Part.TEMPLATE, (section, name))
        if as_external:
            given = {key: value for key, value in row.properties.items() if key == wholes[name]}
            value: JsonMap = {keys["type"]: row.type, keys["external_id"]: row.physical_id}
            edit = replace(edit, value={**value, **({keys["properties"]: given} if given else {})})
        edits.append(edit)
    return Request(template=edited(before.template.document, {}, edits).document)


def _shown(objects: Mapping[str, ObjectOutput]) -> JsonMap:
    return {name: {"type": one.type, "id": one.id} for name, one in objects.items()}
