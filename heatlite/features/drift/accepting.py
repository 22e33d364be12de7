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
from heatlite.core.errors import HeatliteError, InvalidStackState, ResourceNotFound
from heatlite.core.json import JsonMap, pointer
from heatlite.core.redaction.masking import hiding
from heatlite.core.status import Status
from heatlite.engine.operations.redefining import (
    Redefining,
    Redefinition,
    Rows,
    planned,
    redefined,
    require_given,
    require_root,
    waiting,
)
from heatlite.engine.planning.collect import evaluate
from heatlite.engine.planning.hidden_parts import HiddenParts
from heatlite.engine.preview.preview_views import detailed_plan, plan_entry
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import Request, ShownPlan
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.differences import Part, compare, shown, with_hidden
from heatlite.engine.types.observation import is_compared, observe
from heatlite.engine.types.resource_factory import ResourceFactory, Values
from heatlite.features.drift.errors import DriftNotAcceptable
from heatlite.features.drift.origins import NoOrigin, edits_for
from heatlite.features.drift.reverting import Paths
from heatlite.features.drift.states import DriftState
from heatlite.features.drift.store.store import DriftStore
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.document import Definition
from heatlite.template.edits import Edit, edited
from heatlite.template.edits import Part as DefinitionPart
from heatlite.template.ignored import ignored

MAX_DIFFERENCES = 1000
ACCEPTED = "the definition takes over what the object has"
"""Cause in a plan."""
NOT_DRIFTED = "Nothing of {} is drifted in stack {}. List what is: heatlite drift {}."
NOT_SEEN = "The object of {} in stack {} cannot be read: {}. Nothing was done. Try again later."


class AcceptedDifference(Struct, frozen=True, forbid_unknown_fields=True):
    """A difference to accept."""

    path: Annotated[str, Meta(min_length=1)]
    """Name of the resource."""
    pointer: Annotated[str, Meta(pattern="^/.")]
    """JSON Pointer into its properties, as in a list of drift."""


class AcceptRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The drift to accept; without either list all of the root template's resources."""

    resources: Paths = ()
    """Names of resources."""
    differences: Annotated[tuple[AcceptedDifference, ...], Meta(max_length=MAX_DIFFERENCES)] = ()
    """Single differences, in place of ``resources``."""
    plan_digest: str | None = None
    """Digest of the approved plan; required to accept."""

    def __post_init__(self) -> None:
        if self.resources and self.differences:
            raise ValueError("give resources or differences, not both")


class _Seen(Struct, frozen=True):
    """The drift of one resource."""

    row: ResourceRecord
    live: JsonMap
    parts: Sequence[Part]
    """Those to accept."""


class Accepting:
    """Plans and carries out acceptances."""

    def __init__(self, core: Components) -> None:
        self._core = core
        self._store = core.store
        self._redefining: Redefining = core.redefining

    def plan(self, stack: StackRecord, asked: AcceptRequest) -> ShownPlan:
        """Return the plan of an acceptance. Reads the objects.

        Raises as `start`, but for locks and running actions.
        """
        require_root(stack)
        self._core.admission.require_cloud(stack)
        return self._planned(stack, asked).shown

    def start(self, context: Context, stack: StackRecord, asked: AcceptRequest, body: JsonMap) -> None:
        """Accept drift of a root stack, in one transaction after the objects were read.

        `body` is the request, for a replay after a lock. Raises PlanChanged, DriftNotAcceptable, InvalidStackState if
        nothing differs or an object cannot be read, and as `Admission.admitted`.
        """
        request = self._core.admission.precheck(context, Operation.ACCEPT, stack, "POST", "/actions", body)
        require_root(stack)
        require_given("accept_drift", asked.plan_digest)
        change = self._planned(stack, asked)
        self._redefining.require_digest(change, stack, asked.plan_digest)
        options = body[Operation.ACCEPT]
        self._redefining.carry_out(context, request, change, options if isinstance(options, dict) else {})

    def _planned(self, stack: StackRecord, asked: AcceptRequest) -> Redefinition:
        """Read the objects, and plan the acceptance."""
        core, rows, now = self._core, self._store.resources.of(stack.id), self._core.clock.now()
        before, resources = core.definitions.of(stack), core.reader.resources_of(stack)
        view = resources.nested(stack.id) if stack.sealed else None
        hidden = None if view is None else HiddenParts(view, resources)
        with hiding(core.reader.mask(stack)):
            found = [self._seen(stack, row, resources, hidden, asked) for row in self._rows(stack, rows, asked)]
        seen = [one for one in found if one.parts]
        if not seen:
            raise InvalidStackState(NOT_DRIFTED.format("that", stack.name, stack.name))
        request = _request(stack, before, seen)
        prepared = core.preparation.changed(stack, request, existing=True)
        values = Values(resources, {row.name: row for row in current_rows(rows)})
        changed, compared = [], dict[str, tuple[ResourceRecord, Differences]]()
        for one in seen:
            row = replace(one.row, properties=evaluate(prepared.definition, one.row.name, resources, values).properties)
            with hiding(core.reader.mask(stack)):
                parts = _compare(resources, row, one.live, before, hidden)
            left = {part.path for part in parts}
            if stays := [pointer(part.path) for part in one.parts if part.path in left and not part.is_item]:
                raise DriftNotAcceptable(stack_name=stack.name, places=", ".join(row.name + path for path in stays))
            changed.append(row)
            compared[row.id] = row, shown(parts)
        changes = Rows(rows, changed=changed)
        after = redefined(stack, request, prepared, now)
        left_over = waiting(planned(core.engine_services, after, prepared.definition, changes.after))
        accepted = {one.row.name: tuple(pointer(part.path) for part in one.parts) for one in seen}
        details: JsonMap = {
            **self._redefining.edits(stack, prepared),
            "accepted": [{"path": name, "pointer": each} for name, paths in accepted.items() for each in paths],
        }
        outputs = ActionOutputs(stack_status="UPDATE_COMPLETE", accepted=accepted)
        entries = [plan_entry((one.row.name,), one.row, "accept", ACCEPTED) for one in seen]
        plan = detailed_plan(entries, details, [*left_over.values()])
        return Redefinition(plan, request, prepared, changes, [], {}, outputs, compared)

    def _rows(self, stack: StackRecord, rows: Sequence[ResourceRecord], asked: AcceptRequest) -> list[ResourceRecord]:
        """Return the drifted rows to accept."""
        current = {row.name: row for row in current_rows([*rows])}
        known = self._store.of(DriftStore).of([row.id for row in current.values()])
        drifted = {
            name: row
            for name, row in current.items()
            if row.id in known and known[row.id].state is DriftState.DRIFTED and row.status is Status.COMPLETE
        }
        names = asked.resources or tuple(dict.fromkeys(one.path for one in asked.differences))
        for name in names:
            if "/" in name:
                place = f"{name} (of a nested stack or a group: its template is not the stack's own)"
                raise DriftNotAcceptable(stack_name=stack.name, places=place)
            if name not in current:
                raise ResourceNotFound(resource_name=name, stack_name=stack.name)
            if name not in drifted:
                raise InvalidStackState(NOT_DRIFTED.format(name, stack.name, stack.name))
        return [drifted[name] for name in names or drifted]

    def _seen(
        self,
        stack: StackRecord,
        row: ResourceRecord,
        resources: ResourceFactory,
        hidden: HiddenParts | None,
        asked: AcceptRequest,
    ) -> _Seen:
        kind, definition = resources.type_of(row), self._core.definitions.of(stack)
        live = observe(resources.make(row)) if is_compared(row, kind) else row.properties
        if live is None or isinstance(live, HeatliteError):
            why = "it is gone" if live is None else live.message
            raise InvalidStackState(NOT_SEEN.format(row.name, stack.name, why))
        counted = [part for part in _compare(resources, row, live, definition, hidden) if not part.ignored]
        wanted = [one.pointer for one in asked.differences if one.path == row.name]
        return _Seen(row, live, [part for part in counted if not wanted or _is_in(pointer(part.path), wanted)])


def _compare(
    resources: ResourceFactory, row: ResourceRecord, live: JsonMap, definition: Definition, hidden: HiddenParts | None
) -> Sequence[Part]:
    """Return the differences of an object, as a check finds them."""
    parts = compare(resources.type_of(row).schema, row.properties, live, ignored(definition, row.name))
    return with_hidden(parts, None if hidden is None else partial(hidden.of, row.name))


def _request(stack: StackRecord, before: Definition, seen: Sequence[_Seen]) -> Request:
    """Return the definition with the live values. Raises DriftNotAcceptable."""
    edits, places = list[Edit](), list[str]()
    for one in seen:
        secret = [part for part in one.parts if part.hidden]
        places += [f"{one.row.name}{pointer(part.path)} (a hidden value)" for part in secret]
        try:
            edits += edits_for(before, one.row.name, [part for part in one.parts if not part.hidden])
        except NoOrigin as error:
            places.append(f"{one.row.name} ({error})")
    if places:
        raise DriftNotAcceptable(stack_name=stack.name, places="; ".join(places))
    given = [edit for edit in edits if edit.part is DefinitionPart.PARAMETERS]
    of_template = [edit for edit in edits if edit.part is DefinitionPart.TEMPLATE]
    return Request(
        template=edited(before.template.document, {}, of_template).document,
        parameters={str(edit.path[0]): edit.value for edit in given if not isinstance(edit.value, UnsetType)},
    )


def _is_in(path: str, wanted: Sequence[str]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in wanted)
