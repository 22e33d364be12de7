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
from heatlite.core.redaction.masking import Mask, hiding
from heatlite.engine.admission.admission import ExaminedRefusal
from heatlite.engine.admission.offered_types import check_types
from heatlite.engine.operations.redefining.changes import Redefinition
from heatlite.engine.operations.redefining.planning import planned_before, waiting
from heatlite.engine.operations.redefining.tree import DefinedStack, DefinedTree, Path, RowChanges
from heatlite.engine.preview.preview_views import detailed_plan
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import PlannedResource, ShownPlan, StackRequest
from heatlite.engine.state.unit_of_work import resource_event
from heatlite.engine.types.adopted_objects import AdoptedObjects, LiveObject
from heatlite.engine.types.existing_objects import read
from heatlite.engine.types.resource_factory import EngineServices, ResourceFactory
from heatlite.features.ownership import only_import
from heatlite.features.ownership.bodies import ImportedObject, ImportRequest
from heatlite.features.ownership.errors import NotOnlyImport
from heatlite.features.ownership.generating import (
    Generated,
    Omission,
    generate,
    names_of,
    unique_name,
)
from heatlite.features.ownership.imported import Import, Reader, require_importable
from heatlite.features.ownership.reading import ReadingCloud
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.records import StackRecord
from heatlite.template.definitions.definitions import ResourceDefinition
from heatlite.template.definitions.references import References, function_in
from heatlite.template.dialects import TemplateVersion
from heatlite.template.document import Definition
from heatlite.template.edits import DefinitionPart, Edit
from heatlite.template.ignored import Ignored

DIFFERS = (
    "The objects differ from their definitions: {}. Nothing was done. Change the template, or keep the differences as"
    " work of the next update: --changes list (changes: list in the body)."
)


class _Written(Struct, frozen=True):
    """Definitions that the server has written, and the objects by path."""

    request: StackRequest
    objects: Mapping[str, ImportedObject]
    omitted: tuple[Omission, ...]


class _Made(Struct, frozen=True):
    """An object with the properties that the server has written for it."""

    type: str
    resource: Resource[Schema]
    generated: Generated


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
        self._core.admission.require_cloud(stack)
        return self._redefining.shown(context, stack, self._planned(context, stack, asked))

    def start(self, context: Context, stack: StackRecord, asked: ImportRequest, body: JsonMap) -> None:
        """Import objects into a root stack, in one transaction after all have been read.

        `body` is the request, for a replay after a lock. Raises PlanChanged, ObjectOwned, NoMatch, AmbiguousMatch,
        EntityNotFound, ObjectNotReady, ImportDiffers, NotOnlyImport, and as `Admission.admitted`.
        """
        examine = partial(ExaminedRefusal, frozenset(_types(asked)), {"resources": [*asked.resources]})
        admission = self._core.admission
        request = admission.precheck(context, Operation.IMPORT, stack, "POST", "/actions", body, examine=examine)
        change = self._planned(context, stack, asked)
        self._redefining.require_digest(context, change, stack, asked.plan_digest)
        objects: JsonMap = {name: to_builtins(one) for name, one in asked.objects.items()}
        options: JsonMap = {"resources": objects, "changes": asked.changes, "plan_digest": asked.plan_digest}
        self._redefining.carry_out(context, request, change, options)

    # -- reading -----------------------------------------------------------------------------------

    def _planned(self, context: Context, stack: StackRecord, asked: ImportRequest) -> Redefinition:
        """Read the objects of an import, and plan it."""
        core, services, tree = self._core, _reading(self._core.engine_services, stack), self._redefining.tree(stack)
        now, omitted = core.clock.now(), tuple[Omission, ...]()
        objects: Mapping[str, ImportedObject] = asked.objects
        placed = tree.placed(objects)
        request = asked.definition
        if request is None:
            written = self._written(services, tree, placed, objects)
            objects, request, omitted = written.objects, written.request, written.omitted
        prepared = core.preparation.changed(stack, request, existing=True)
        only_import.require(tree, prepared.definition, placed)
        check_types(context, prepared.types)
        draft = self._redefining.draft(context, tree, request, prepared, services)
        imports = dict[str, Import]()
        for path, names in placed.items():
            level, definition = tree.level(path), draft.definition(path)
            only_import.require_defined(level, definition, names)
            reader = Reader(draft.resources(path), level, now)
            wanted = {name: objects[level.full(name)] for name in names}
            for name, one in wanted.items():
                require_importable(level.full(name), reader.resources.kind(definition, name))
                if one.type is not None and one.type != definition.resources[name].type:
                    text = f"the template says {definition.resources[name].type}, not {one.type}"
                    raise HTTPBadRequest(f"resources.{level.full(name)}: {text}.")
            with hiding(self._redefining.mask(stack, prepared)):
                found = {level.full(one.row.name): one for one in reader.read(definition, wanted)}
            imports |= found
            new = [one.row for one in found.values() if one.is_new]
            draft.set(path, RowChanges(level.rows, new, [one.row for one in found.values() if not one.is_new]))
        _require_different(imports)
        taken = {
            path: LiveObject(one.kind, one.row.physical_id or "", one.called) for path, one in imports.items()
        }
        AdoptedObjects(self._store, draft.resources(())).require_unowned(taken)
        plan = draft.plan()
        self._require_only(tree, plan, imports, asked.changes)
        details: JsonMap = {
            **self._redefining.edits(stack, prepared),
            "unverified": [
                {"path": path, "pointer": each} for path, one in imports.items() for each in one.unverified
            ],
            "omitted": [as_map(to_builtins(one)) for one in omitted],
        }
        shown = [replace(one, action="import", cause="") for one in plan if "/".join(one.path) in imports]
        outputs = ActionOutputs(
            stack_status="UPDATE_COMPLETE",
            imported={path: ObjectOutput(one.row.type, one.row.physical_id or "") for path, one in imports.items()},
        )
        rows = [one.row for one in imports.values()]
        return Redefinition(
            before=stack,
            shown=detailed_plan(shown, details, [*waiting(plan).values()]),
            request=request,
            prepared=prepared,
            rows=draft.rows(()),
            events=[resource_event(row, now) for row in rows],
            taken=taken,
            outputs=outputs,
            written=rows if asked.definition is None else [],
            nested=draft.nested,
        )

    def _require_only(
        self, tree: DefinedTree, plan: Sequence[PlannedResource], imports: Mapping[str, Import], changes: str
    ) -> None:
        """Raise the error of what an import leaves to the next update without consent."""
        left = waiting(plan)
        above = {tuple(path.split("/")[:depth]) for path in imports for depth in range(1, path.count("/") + 2)}
        others = {path: one for path, one in left.items() if path not in above}
        if others:
            before = tree.level(())
            engine = self._core.engine_services
            known = waiting(planned_before(engine, tree.root, before.definition, before.rows))
            new = ["/".join(path) for path, one in others.items() if path not in known or known[path] != one]
            if new:
                raise NotOnlyImport(places=", ".join(new))
        if changes == "refuse" and len(others) < len(left):
            texts = [f"{path}{text}" for path, one in imports.items() for text in one.differences]
            texts = texts or [f"{'/'.join(path)} would be changed ({one.action})" for path, one in left.items()]
            raise ImportDiffers(DIFFERS.format("; ".join(texts)))

    def _written(
        self,
        services: EngineServices,
        tree: DefinedTree,
        placed: Mapping[Path, Sequence[str]],
        objects: Mapping[str, ImportedObject],
    ) -> _Written:
        """Write the definitions of objects, of what they tell."""
        found, omitted, mask = dict[str, ImportedObject](), list[Omission](), self._core.reader.mask(tree.root)
        edits = dict[Path, list[Edit]]()
        for path, names in placed.items():
            level, made = tree.level(path), dict[str, _Made]()
            reader = Reader(ResourceFactory(level.stack, services), level, self._core.clock.now())
            for name in names:
                made[name] = _made(level, reader, name, objects[level.full(name)], mask)
                found[level.full(name)] = ImportedObject(id=made[name].resource.physical_id, type=made[name].type)
                omitted += [replace(one, path=level.full(name)) for one in made[name].generated.omitted]
            edits[path] = [*_edits(level, reader, made)]
        return _Written(tree.edited(edits), found, tuple(omitted))


def _made(level: DefinedStack, reader: Reader, name: str, asked: ImportedObject, mask: Mask) -> _Made:
    """Find and read an object, and write its properties."""
    path = level.full(name)
    if asked.type is None:
        raise HTTPBadRequest(f"resources.{path} needs a type, or send a template that defines it.")
    kind = reader.resources.types.get(asked.type)
    require_importable(path, kind)
    known = kind.schema.coerce({} if asked.id is None else asked.filter or {}, whole=False)
    row = reader.new_row(_bare(name, asked.type), known)
    with reader.naming(name):
        row = replace(row, physical_id=reader.found(row, kind, asked))
        read(reader.made(row, row.physical_id), Ignored())

    def make(given: JsonMap) -> Resource[Schema]:
        return reader.made(replace(row, properties=given), row.physical_id)

    generated = generate(make, known, mask)
    _require_literal(path, generated.properties, level.definition.template.dialect)
    return _Made(asked.type, make(generated.properties), generated)


def _edits(level: DefinedStack, reader: Reader, made: Mapping[str, _Made]) -> Iterator[Edit]:
    """Yield the edits that add the written definitions to a template.

    Ids of resources of its stack become references.
    """
    before = level.definition
    standing = {row.name: reader.made(row, row.physical_id) for row in reader.rows.values() if row.physical_id}
    needs = {name: one.requires for name, one in before.resources.items()}
    resources = {name: one.resource for name, one in made.items()}
    references = References(dict(names_of({**standing, **resources})), needs)
    keys, section = before.keys, before.sections["resources"]
    for name, one in made.items():
        fields = one.resource.schema.fields
        value = {
            key: references.put(name, unique_name(one.resource, fields[key], given))
            for key, given in one.generated.properties.items()
        }
        entry = _kept(before, name)
        entry |= {keys["type"]: one.type, **({keys["properties"]: value} if value else {})}
        yield Edit(DefinitionPart.TEMPLATE, (section, name), entry)


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


def _require_literal(name: str, properties: JsonMap, dialect: TemplateVersion) -> None:
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


def _require_different(imports: Mapping[str, Import]) -> None:
    """Raise HTTPBadRequest if two resources are to have one object."""
    seen: dict[tuple[str, str], str] = {}
    for path, one in imports.items():
        key = (one.kind.object_kind, one.row.physical_id or "")
        if one.kind.shares_object:
            continue
        if key in seen:
            raise HTTPBadRequest(f"resources: {seen[key]} and {path} are the same object.")
        seen[key] = path
