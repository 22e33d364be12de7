"""Objects as rows: what an import reads of them, before anything is written."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec import UNSET, Struct
from msgspec.structs import replace

from heatlite.core.errors import Conflict, EntityNotFound, HTTPBadRequest
from heatlite.core.ids import new_id
from heatlite.core.json import JsonMap, dump, pointer
from heatlite.core.status import Status, Verb
from heatlite.engine.operations.redefining.tree import DefinedStack
from heatlite.engine.planning.collect import evaluate
from heatlite.engine.planning.planner import ordered, used_by
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.differences import compare, shown
from heatlite.engine.types.existing_objects import find, read
from heatlite.engine.types.resource_factory import ResourceFactory, Values
from heatlite.features.ownership.bodies import ImportedObject
from heatlite.plugin.nested import StackResource
from heatlite.plugin.resource import Resource, ResourceType
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord
from heatlite.template.definitions.definitions import ResourceDefinition
from heatlite.template.document import Definition
from heatlite.template.ignored import Ignored, ignored

IMPORTED = "Imported"
"""Reason of a row and its event."""


class Import(Struct, frozen=True):
    """An object that becomes a row."""

    kind: ResourceType
    row: ResourceRecord
    is_new: bool
    """False: the row referred to the object before."""
    differences: tuple[str, ...]
    """Parts that differ from the definition: their pointers, and both sides."""
    unverified: tuple[str, ...]
    """Pointers to properties that cannot be read; "" for all."""
    called: str | None
    """The name that the object tells."""


def require_importable(name: str, kind: ResourceType) -> None:
    """Raise HTTPBadRequest for a type without an object of its own in a cloud."""
    if not kind.cloud_service or issubclass(kind, StackResource):
        raise HTTPBadRequest(f"resources.{name}: {kind.type_name} has no object in a cloud that could be imported.")


class Reader:
    """Reads the objects of one import, and makes their rows."""

    def __init__(self, resources: ResourceFactory, level: DefinedStack, now: float) -> None:
        """Begin. `resources` see a cloud for reading, `level` is their stack as it is."""
        self.resources = resources
        self._level = level
        self._now = now
        self.rows = {row.name: row for row in current_rows(level.rows)}
        """Rows by name, with those of the import."""
        resources.chosen = self.rows

    def read(self, definition: Definition, objects: Mapping[str, ImportedObject]) -> list[Import]:
        """Read the objects in the order of their dependencies. Raises HeatliteError."""
        values = Values(self.resources, self.rows)
        found = []
        for name in ordered(definition.resources):
            if name in objects:
                one = self._read(definition, name, objects[name], values)
                self.rows[name] = one.row
                found.append(one)
        return found

    def _read(self, definition: Definition, name: str, asked: ImportedObject, values: Values) -> Import:
        wanted, defined = evaluate(definition, name, self.resources, values), definition.resources[name]
        row = self.new_row(defined, wanted.properties)
        with self.naming(name):
            physical_id = self.found(row, wanted.kind, asked)
            known = self._referring(name, physical_id)
            seen = read(self.made(row, physical_id), ignored(definition, name))
        is_told = wanted.kind.has("live_properties")
        parts = compare(wanted.kind.schema, wanted.properties, seen.properties, Ignored()) if is_told else []
        texts = [f"{one.path} is {_side(one.live)}, not {_side(one.stored)}" for one in shown(parts).found]
        row = replace(
            row if known is None else replace(known, external_id=None),
            type=defined.type,
            mapped_type=defined.mapped_type,
            verb=Verb.ADOPT,
            status=Status.COMPLETE,
            status_reason=IMPORTED,
            updated_at=self._now,
            physical_id=physical_id,
            properties=seen.properties,
            metadata=wanted.metadata,
            data=seen.data,
            requires=tuple(sorted(defined.requires)),
            uses=used_by(defined, self.rows),
            deletion_policy=defined.deletion_policy,
            description=defined.description,
        )
        unverified = tuple(pointer([one]) for one in seen.unverified) if is_told else ("",)
        return Import(wanted.kind, row, known is None, tuple(texts), unverified, seen.physical_name)

    def found(self, row: ResourceRecord, kind: ResourceType, asked: ImportedObject) -> str:
        """Return the id of an object; `row` has the properties that are known.

        Raises NoMatch, AmbiguousMatch, HTTPBadRequest, CloudError.
        """
        return asked.id or find(self.resources, row, kind, asked.name, asked.filter)

    @contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """Let the errors about an object tell the path of its resource."""
        try:
            yield
        except (EntityNotFound, Conflict) as error:
            text = error.message.removeprefix(f"resources.{name}: ")
            error.message = f"resources.{self._level.full(name)}: {text}"
            raise

    def new_row(self, defined: ResourceDefinition, properties: JsonMap) -> ResourceRecord:
        """Return a row without an object."""
        identifier = new_id()
        return ResourceRecord(
            id=identifier,
            stack_id=self.resources.stack.id,
            name=defined.name,
            type=defined.type,
            mapped_type=defined.mapped_type,
            verb=Verb.ADOPT,
            status=Status.COMPLETE,
            status_reason=IMPORTED,
            created_at=self._now,
            physical_name=self.resources.physical_name(defined, identifier),
            properties=properties,
        )

    def made(self, row: ResourceRecord, physical_id: str | None) -> Resource[Schema]:
        """Return the resource of a row with an object."""
        return self.resources.make(replace(row, physical_id=physical_id))

    def _referring(self, name: str, physical_id: str) -> ResourceRecord | None:
        """Return the row that refers to the object already.

        Raises HTTPBadRequest for a row with its own.
        """
        known = [row for row in self._level.rows if row.name == name]
        if not known:
            return None
        if len(known) > 1 or known[0].external_id != physical_id:
            raise HTTPBadRequest(f"resources.{name}: the stack has a resource of that name. Choose another name.")
        return known[0]


def _side(value: object) -> str:
    return "absent" if value is UNSET else dump(value)
