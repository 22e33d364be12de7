"""Import of existing objects: their rows and their definition."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from heatlite.api.components import Components
from heatlite.core.actions.payloads import ActionOutputs, ObjectOutput
from heatlite.core.context import Context
from heatlite.core.errors import HTTPBadRequest, ImportDiffers
from heatlite.core.json import JsonMap, as_map
from heatlite.core.redaction.masking import hiding
from heatlite.engine.admission.admission import Examined
from heatlite.engine.admission.offered_types import check_types
from heatlite.engine.operations.redefining import (
    Redefinition,
    Rows,
    planned,
    redefined,
    require_given,
    require_root,
    waiting,
)
from heatlite.engine.preview.preview_views import detailed_plan
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import Request, ShownPlan
from heatlite.engine.state.unit_of_work import resource_event
from heatlite.engine.types.adopted_objects import AdoptedObjects, LiveObject
from heatlite.engine.types.existing_objects import read
from heatlite.engine.types.resource_factory import EngineServices, ResourceFactory
from heatlite.features.ownership import only_import
from heatlite.features.ownership.bodies import ImportedObject, ImportRequest
from heatlite.features.ownership.errors import NotOnlyImport
from heatlite.features.ownership.generating import Omission, References, function_in, generate, names_of, unique_name
from heatlite.features.ownership.imported import Import, Reader, require_importable
from heatlite.features.ownership.reading import ReadingCloud
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.definitions.definitions import ResourceDefinition
from heatlite.template.dialects import Dialect
from heatlite.template.document import Definition
from heatlite.template.edits import Edit, Part, edited
from heatlite.template.ignored import Ignored

DIFFERS = (
    "The objects differ from their definitions: {}. Nothing was done. Change the template, or keep the differences as"
    " work of the next update: --changes list (changes: list in the body)."
)


class _Written(Struct, frozen=True):
    """A definition that the server has written."""

    request: Request
    objects: Mapping[str, ImportedObject]
    omitted: tuple[Omission, ...]


class Imports:
    """Plans and carries out imports."""

    def __init__(self, core: Components) -> None:
        self._core = core
        self._store = core.store
        self._redefining = core.redefining

    def plan(self, context: Context, stack: StackRecord, asked: ImportRequest) -> ShownPlan:
        """Return the plan of an import. Reads the objects.

        Raises as `start`, but for locks and running actions.
        """
        require_root(stack)
        self._core.admission.require_cloud(stack)
        return self._planned(context, stack, asked).shown

    def start(self, context: Context, stack: StackRecord, asked: ImportRequest, body: JsonMap) -> None:
        """Import objects into a root stack, in one transaction after all have been read.

        `body` is the request, for a replay after a lock. Raises PlanChanged, ObjectOwned, NoMatch, AmbiguousMatch,
        EntityNotFound, ObjectNotReady, ImportDiffers, NotOnlyImport, and as `Admission.admitted`.
        """
        examine = partial(Examined, frozenset(_types(asked)), {"resources": [*asked.resources]})
        admission = self._core.admission
        request = admission.precheck(context, Operation.IMPORT, stack, "POST", "/actions", body, examine=examine)
        require_root(stack)
        require_given("import", asked.plan_digest)
        change = self._planned(context, stack, asked)
        self._redefining.require_digest(change, stack, asked.plan_digest)
        objects: JsonMap = {name: to_builtins(one) for name, one in asked.objects.items()}
        options: JsonMap = {"resources": objects, "changes": asked.changes, "plan_digest": asked.plan_digest}
        self._redefining.carry_out(context, request, change, options)

    # -- reading -----------------------------------------------------------------------------------

    def _planned(self, context: Context, stack: StackRecord, asked: ImportRequest) -> Redefinition:
        """Read the objects of an import, and plan it."""
        services, rows = _reading(self._core.engine_services, stack), self._store.resources.of(stack.id)
        now = self._core.clock.now()
        reader = Reader(ResourceFactory(stack, services), rows, now)
        before, omitted = self._core.definitions.of(stack), tuple[Omission, ...]()
        objects: Mapping[str, ImportedObject] = asked.objects
        request = asked.definition
        if request is None:
            written = self._written(services, before, reader, objects)
            objects, request, omitted = written.objects, written.request, written.omitted
        prepared = self._core.preparation.changed(stack, request, existing=True)
        definition = prepared.definition
        only_import.require(before, definition, objects)
        check_types(context, prepared.types)
        for name, one in objects.items():
            require_importable(name, reader.resources.kind(definition, name))
            if one.type is not None and one.type != definition.resources[name].type:
                text = f"the template says {definition.resources[name].type}, not {one.type}"
                raise HTTPBadRequest(f"resources.{name}: {text}.")
        with hiding(self._redefining.mask(stack, prepared)):
            imports = reader.read(definition, objects)
        _require_different(imports)
        taken = {one.row.name: LiveObject(one.kind, one.row.physical_id or "", one.called) for one in imports}
        AdoptedObjects(self._store, reader.resources).require_unowned(taken)
        changes = Rows(
            rows, [one.row for one in imports if one.is_new], [one.row for one in imports if not one.is_new]
        )
        plan = planned(services, redefined(stack, request, prepared, now), definition, changes.after)
        left = waiting(plan)
        others = {path: one for path, one in left.items() if path[0] not in objects}
        if others:
            known = waiting(planned(services, stack, before, rows))
            new = ["/".join(path) for path, one in others.items() if path not in known or known[path] != one]
            if new:
                raise NotOnlyImport(places=", ".join(new))
        if asked.changes == "refuse" and len(others) < len(left):
            texts = [text for one in imports for text in one.differences]
            texts = texts or [f"{'/'.join(path)} would be changed ({one.action})" for path, one in left.items()]
            raise ImportDiffers(DIFFERS.format("; ".join(texts)))
        details: JsonMap = {
            **self._redefining.edits(stack, prepared),
            "unverified": [{"path": one.row.name, "pointer": each} for one in imports for each in one.unverified],
            "omitted": [as_map(to_builtins(one)) for one in omitted],
        }
        shown = [replace(one, action="import", cause="") for one in plan if one.path[0] in objects]
        outputs = ActionOutputs(
            stack_status="UPDATE_COMPLETE",
            imported={one.row.name: ObjectOutput(one.row.type, one.row.physical_id or "") for one in imports},
        )
        events = [resource_event(one.row, now) for one in imports]
        shown_plan = detailed_plan(shown, details, [*left.values()])
        by_server = [one.row for one in imports] if asked.definition is None else []
        return Redefinition(shown_plan, request, prepared, changes, events, taken, outputs, written=by_server)

    def _written(
        self,
        services: EngineServices,
        before: Definition,
        reader: Reader,
        objects: Mapping[str, ImportedObject],
    ) -> _Written:
        """Write the definition of objects, of what they tell."""
        made: dict[str, Resource[Schema]] = {}
        ids, omitted, properties = dict[str, ImportedObject](), list[Omission](), dict[str, JsonMap]()
        for name, one in objects.items():
            if one.type is None:
                raise HTTPBadRequest(f"resources.{name} needs a type, or send a template that defines it.")
            kind = services.types.get(one.type)
            require_importable(name, kind)
            defined = _bare(name, one.type)
            known = kind.schema.coerce({} if one.id is None else one.filter or {}, whole=False)
            row = reader.new_row(defined, known)
            physical_id = reader.found(row, kind, one)
            row = replace(row, physical_id=physical_id)
            read(reader.made(row, physical_id), Ignored())

            def make(given: JsonMap, row: ResourceRecord = row) -> Resource[Schema]:
                return reader.made(replace(row, properties=given), row.physical_id)

            generated = generate(make, known)
            _require_literal(name, generated.properties, before.template.dialect)
            omitted += generated.omitted
            made[name], properties[name] = make(generated.properties), generated.properties
            ids[name] = ImportedObject(id=physical_id, type=one.type)
        standing = {row.name: reader.made(row, row.physical_id) for row in reader.rows.values() if row.physical_id}
        needs = {name: one.requires for name, one in before.resources.items()}
        references = References(dict(names_of({**standing, **made})), needs)
        edits, keys, section = [], before.keys, before.sections["resources"]
        for name, given in properties.items():
            fields = made[name].schema.fields
            value = {key: references.put(name, unique_name(made[name], fields[key], one)) for key, one in given.items()}
            entry = _kept(before, name)
            entry |= {keys["type"]: ids[name].type, **({keys["properties"]: value} if value else {})}
            edits.append(Edit(Part.TEMPLATE, (section, name), entry))
        document = edited(before.template.document, {}, edits).document
        return _Written(Request(template=document), ids, tuple(omitted))


def _reading(services: EngineServices, stack: StackRecord) -> EngineServices:
    """Return the services of types, with clouds that are only read."""
    clouds = services.services.clouds.through(ReadingCloud, stack.id)
    return replace(services, services=replace(services.services, clouds=clouds))


def _types(asked: ImportRequest) -> Iterator[str]:
    yield from (one.type for one in asked.objects.values() if one.type is not None)


def _kept(before: Definition, name: str) -> JsonMap:
    """Return what stays of the definition that a reference to an object has.

    Raises HTTPBadRequest for another definition of the name, such as one that a condition disables.
    """
    entry, keys = as_map(as_map(before.template.document.get(before.sections["resources"])).get(name)), before.keys
    reference = keys.get("external_id", "")
    if entry and reference not in entry:
        raise HTTPBadRequest(f"resources.{name}: the template has a resource of that name. Choose another name.")
    return {key: value for key, value in entry.items() if key not in (reference, keys["properties"])}


def _require_literal(name: str, properties: JsonMap, dialect: Dialect) -> None:
    """Raise HTTPBadRequest for a value that a template would take for a function."""
    for key, value in properties.items():
        function = function_in(value, dialect.functions)
        if function is not None:
            text = f'its {key} has {{"{function}": …}}, which a template would take for a function'
            way_on = f"Send a template in which {key} is a parameter of the type json with that value."
            raise HTTPBadRequest(f"resources.{name}: {text}. {way_on}")


def _bare(name: str, kind: str) -> ResourceDefinition:
    """Return the definition of a resource of which only the type is known."""
    return ResourceDefinition(
        name=name,
        type=kind,
        mapped_type=kind,
        properties={},
        metadata={},
        depends_on=(),
        deletion_policy="Delete",
        update_policy={},
        description="",
        external_id=None,
        requires=frozenset(),
        refill=lambda: None,
    )


def _require_different(imports: Sequence[Import]) -> None:
    """Raise HTTPBadRequest if two resources are to have one object."""
    seen: dict[tuple[str, str], str] = {}
    for one in imports:
        key = (one.kind.object_kind, one.row.physical_id or "")
        if one.kind.shares_object:
            continue
        if key in seen:
            raise HTTPBadRequest(f"resources: {seen[key]} and {one.row.name} are the same object.")
        seen[key] = one.row.name
