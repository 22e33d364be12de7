"""The values that template functions see: what the resources of one stack are and have."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias, cast

from heatlite.core.errors import EntityNotFound, HeatliteError, ResourceTypeUnavailable
from heatlite.core.ids import physical_name
from heatlite.core.json import Json, JsonMap
from heatlite.core.status import Status, Verb
from heatlite.engine.gone import gone
from heatlite.plugin.ports import Facts, Services
from heatlite.plugin.registry import Registry
from heatlite.plugin.resource import Resource, ResourceType
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.document import ResourceDefinition
from heatlite.template.expression import UNKNOWN

READABLE = frozenset(
    {
        Verb.CREATE, Verb.ADOPT, Verb.SUSPEND, Verb.RESUME, Verb.UPDATE, Verb.ROLLBACK, Verb.SNAPSHOT, Verb.CHECK,
        Verb.LOCK, Verb.UNLOCK,
    }
)  # fmt: skip
"""Verbs after which a resource's attributes can be read; after others they are null (hot-language §5)."""


class TypeFailed(HeatliteError):
    """A type's own code has raised something while it was asked for a value."""

    text = "{error}: {reason}"


@contextmanager
def type_code() -> Iterator[None]:
    """Around a question to a type: whatever it raises comes out as one of our errors."""
    try:
        yield
    except HeatliteError:
        raise
    except Exception as error:
        raise TypeFailed(error=type(error).__name__, reason=error) from error


Observed: TypeAlias = JsonMap | HeatliteError | None
"""What a look at an object has given: properties, the reason why there are none, or None: the object is gone."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all resources of an engine are made with."""

    types: Registry
    now: Callable[[], float]
    services: Services


def live_values(resource: Resource[Schema]) -> JsonMap | None:
    """The resource's properties, and in their place what its object says of itself; None: there is no object."""
    live = resource.live_properties()
    if live is None:
        return None
    return cast(JsonMap, resource.schema.examine({**resource.facts.properties, **live})[0])


class Resources:
    """Makes resources of a stack's rows: the place where the engine meets the types."""

    def __init__(self, stack: StackRecord, surroundings: Surroundings) -> None:
        self.stack = stack
        self.types = surroundings.types
        self._surroundings = surroundings
        self._observed: dict[str, Observed] = {}

    def observe(
        self,
        rows: Iterable[ResourceRecord],
        call: Callable[[Callable[[ResourceRecord], Observed], Iterable[ResourceRecord]], Iterable[Observed]] = map,
    ) -> None:
        """Look at the real objects: until `forget`, `before` tells of them. `call`: `map`, or that of a pool."""
        made = [row for row in rows if row.status is Status.COMPLETE and row.verb not in (Verb.INIT, Verb.DELETE)]
        todo = [row for row in made if self.type_of(row).has("live_properties")]
        for row, found in zip(todo, call(self._look, todo), strict=True):
            self._observed[row.id] = found

    def forget(self) -> None:
        """What was seen is so no more."""
        self._observed.clear()

    def _look(self, row: ResourceRecord) -> Observed:
        try:
            with type_code():
                return live_values(self.make(row))
        except HeatliteError as error:
            return error

    def before(self, row: ResourceRecord) -> JsonMap | None:
        """The properties that an update starts from: as stored, or as seen; None where the object was found gone.

        Raises why it could not be looked at.
        """
        found = self._observed.get(row.id, row.properties)
        if isinstance(found, HeatliteError):
            raise found
        return found

    def type_of(self, row: ResourceRecord) -> ResourceType:
        """The class that owns the row; a stand-in (`Gone`) if its plugin is not there any more."""
        return self._type(row.mapped_type)

    def _type(self, name: str) -> ResourceType:
        try:
            return self.types.get(name)
        except (EntityNotFound, ResourceTypeUnavailable) as error:
            return gone(error)

    def make(self, row: ResourceRecord, properties: JsonMap | None = None) -> Resource[Schema]:
        """The resource of a row; with `properties`, as it is to become."""
        stack = self.stack
        return self.type_of(row)(
            Facts(
                name=row.name,
                stack_id=stack.id,
                stack_name=stack.name,
                project=stack.project,
                physical_name=row.physical_name,
                physical_id=row.physical_id,
                properties=row.properties if properties is None else properties,
                metadata=row.metadata,
                data=dict(row.data),
                now=self._surroundings.now,
                services=self._surroundings.services,
                before=None if properties is None else row.properties,
            )
        )

    def physical_name(self, definition: ResourceDefinition, identifier: str) -> str:
        """What the real object of a new row will be called, within what its type allows."""
        limit = self._type(definition.mapped_type).name_limit
        return physical_name(self.stack.name, definition.name, identifier, limit)


class Values:
    """What functions see (`template.expression.Scope`), over the row that stands for each name."""

    def __init__(self, resources: Resources, rows: Mapping[str, ResourceRecord]) -> None:
        self.resources = resources
        self.rows = rows
        self._made: dict[str, tuple[ResourceRecord, Resource[Schema]]] = {}

    def reference(self, name: str) -> object:
        """What get_resource gives: the type's reference, or the name before there is a resource."""
        row = self.rows.get(name)
        if row is None or row.verb is Verb.INIT:
            return name
        with type_code():
            return self._resource(row).reference()

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        """What get_attr gives; null while the resource cannot be read. Without a name: all attributes."""
        row = self.rows.get(name)
        if row is None or row.verb not in READABLE:
            return None
        resource = self._resource(row)
        with type_code():
            if attribute is None:
                return resource.attributes() if row.status is not Status.FAILED else None
            return resource.attribute_at(attribute, path)

    def _resource(self, row: ResourceRecord) -> Resource[Schema]:
        made = self._made.get(row.name)
        if made is None or made[0] is not row:
            made = self._made[row.name] = (row, self.resources.make(row))
        return made[1]


class PlannedValues(Values):
    """The same while planning: what a step has still to make is unknown."""

    def __init__(self, resources: Resources, rows: Mapping[str, ResourceRecord]) -> None:
        super().__init__(resources, rows)
        self.to_make: set[str] = set()
        self.to_change: set[str] = set()

    def reference(self, name: str) -> object:
        """Unknown for a resource that is to be made; the old one for a resource that changes in place."""
        return UNKNOWN if name in self.to_make else super().reference(name)

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        """Unknown for whatever is to be made or changed."""
        if name in self.to_make or name in self.to_change:
            return UNKNOWN
        return super().attribute(name, attribute, path)


def current_rows(rows: Iterable[ResourceRecord]) -> list[ResourceRecord]:
    """One row a name, for reading: the newest, while an older one waits for its clean-up."""
    return list({row.name: row for row in sorted(rows, key=lambda row: row.id)}.values())


def without_unknown(value: object) -> Json:
    """The value with null wherever it is not known yet, for a preview."""
    if value is UNKNOWN:
        return None
    if isinstance(value, Mapping):
        return {str(key): without_unknown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_unknown(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{type(value).__name__} is not a template value")
