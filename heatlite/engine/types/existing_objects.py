"""Find, read and compare existing objects that are to come under a stack's care.

Nothing here changes an object.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from heatlite.clients.finders import identity
from heatlite.core.clock import from_text
from heatlite.core.errors import (
    AmbiguousMatch,
    EntityNotFound,
    HTTPBadRequest,
    NoMatch,
    NotSupported,
    ObjectNotReady,
    abbreviated,
)
from heatlite.core.json import Json, JsonMap
from heatlite.engine.types.differences import ignored_parts, with_stored
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.cloud import CloudResource, Unsettled
from heatlite.plugin.handlers import Absent, Unhealthy
from heatlite.plugin.resource import Resource, ResourceType
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord
from heatlite.template.ignored import Ignored


class Object(Struct, frozen=True):
    """An existing object, and what a row of it stores."""

    physical_id: str
    physical_name: str | None
    """Its name, if it has one."""
    properties: JsonMap
    """Those of the definition, with the object's values in place of those that differ."""
    data: JsonMap
    created_at: float | None
    """The time that the service tells."""
    differing: tuple[str, ...]
    """Properties that the next update changes, by name."""
    unverified: tuple[str, ...]
    """Given properties that the object does not tell."""


def find(
    resources: ResourceFactory, row: ResourceRecord, kind: ResourceType, name: str | None, filter_: JsonMap | None
) -> str:
    """Return the id of the only object with a name, or the properties of a filter.

    `row` is that of the resource which is to have it. Raises NoMatch, AmbiguousMatch, HTTPBadRequest, CloudError.
    """
    asked = f"the name {name!r}" if name is not None else "the filter"
    if not issubclass(kind, CloudResource) or kind.shares_object:
        raise HTTPBadRequest(f"resources.{row.name}: objects of type {row.type} are found by their id only.")
    wanted = kind.schema.coerce(filter_ or {}, False)
    if name is None and isinstance(wanted.get("name"), str):
        name = cast(str, wanted["name"])
    if name is None and all(value is None for value in wanted.values()):
        raise HTTPBadRequest(f"resources.{row.name}: the filter has no value. Give one, or an id or a name.")
    resource = resources.make(row, kind=kind)
    assert isinstance(resource, CloudResource)
    with type_code():
        given: JsonMap = {} if name is None else {"name": name}
        listed = cast(list[JsonMap], resource.service(resource.plural or f"{resource.noun}s", *resource.whole, **given))
        found = [identity(one) for one in listed if name is None or one.get("name") == name]
        if filter_ is not None:
            found = [key for key in found if _has(resources.make(replace(row, physical_id=key), kind=kind), wanted)]
    if not found:
        raise NoMatch(f"resources.{row.name}: no object of type {row.type} has {asked}.")
    if len(found) > 1:
        some = abbreviated(sorted(found))
        raise AmbiguousMatch(f"resources.{row.name}: {len(found)} objects of type {row.type} have {asked}: {some}.")
    return found[0]


def _has(resource: Resource[Schema], wanted: JsonMap) -> bool:
    """Return whether the object of a resource tells all of some properties."""
    resource.facts.properties = wanted
    live = resource.live_properties()
    return live is not None and wanted.keys() <= live.keys() and not resource.schema.diff(wanted, {**wanted, **live})


def read(resource: Resource[Schema], ignored: Ignored) -> Object:
    """Read the object of a resource, which has the properties of its definition.

    Raises EntityNotFound, NotSupported, ObjectNotReady, CloudError, TypeFailed.
    """
    given, kind = resource.facts.properties, type(resource)
    if kind.has("adopt") and not kind.cloud_service:
        raise NotSupported(f"resources.{resource.name}: objects of type {kind.type_name} have no life of their own.")
    with type_code():
        with _refused(resource):
            if isinstance(resource, CloudResource):
                resource.hold()
            if kind.has("check"):
                resource.handle_check()
            if kind.cloud_service:
                resource.handle_adopt()
        told = resource.live_properties() if kind.has("live_properties") else {}
        if told is None:
            raise EntityNotFound(entity=kind.type_name, name=resource.physical_id or "")
        live = cast(JsonMap, resource.schema.examine({**given, **told})[0])
        thing = resource.fetch() if isinstance(resource, CloudResource) else {}
    kept = with_stored(given, live, ignored_parts(resource.schema, given, live, ignored))
    differing = resource.schema.diff(given, kept)
    stored = {key: value for key, value in given.items() if key not in differing}
    stored |= {key: kept[key] for key in differing if kept.get(key) is not None}
    unverified = (key for key, value in given.items() if value is not None and key not in told)
    name = thing.get("name")
    return Object(
        physical_id=resource.physical_id or "",
        physical_name=name if isinstance(name, str) and name else None,
        properties=stored,
        data=dict(resource.data),
        created_at=_born(thing),
        differing=tuple(sorted(differing)),
        unverified=tuple(sorted(unverified)),
    )


@contextmanager
def _refused(resource: Resource[Schema]) -> Iterator[None]:
    """Convert the findings of a check to errors of a request."""
    try:
        yield
    except Absent as error:
        raise EntityNotFound(entity=resource.type_name, name=resource.physical_id or "") from error
    except (Unhealthy, Unsettled) as error:
        raise ObjectNotReady(f"resources.{resource.name}: {resource.physical_id}: {error}") from error


def _born(thing: JsonMap) -> float | None:
    told: Json = thing.get("created_at") or thing.get("created")
    try:
        return from_text(str(told))
    except ValueError:
        return None
