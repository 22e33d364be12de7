"""Definitions that the server writes for existing objects, of what these tell."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from msgspec import Struct

from heatlite.clients.cloud import CloudError
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json, JsonMap, as_map, pointer, same
from heatlite.core.redaction.masking import Mask
from heatlite.engine.types.observation import live_values
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.coercion import PropertyKind
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Field, Schema
from heatlite.template.definitions.references import NO_ID
from heatlite.template.types import Fault

_PROBES: Final[Mapping[PropertyKind, Json]] = {
    PropertyKind.STRING: NO_ID,
    PropertyKind.INTEGER: -987_654_321,
    PropertyKind.NUMBER: -987_654_321,
    PropertyKind.BOOLEAN: False,
    PropertyKind.MAP: {"heatlite": NO_ID},
    PropertyKind.LIST: [NO_ID],
    PropertyKind.ANY: NO_ID,
}
"""Values that no object has. `live_properties` compares what is given, so each property is given."""

Make = Callable[[JsonMap], Resource[Schema]]
"""Returns the resource of an object with other properties."""


class Omission(Struct, frozen=True):
    """A property that a generated definition leaves out."""

    path: str
    pointer: str
    why: str
    """secret, not_readable or default_unknown."""


class Generated(Struct, frozen=True):
    """The properties of an object, in the form of a template."""

    properties: JsonMap
    omitted: tuple[Omission, ...]


def generate(make: Make, known: Mapping[str, Json], mask: Mask) -> Generated:
    """Return the properties of an object that differ from the defaults of its type.

    `known` are properties that it need not tell. What `mask` hides is left out of the others. Raises HeatliteError.
    """
    resource = make({**known})
    with type_code():
        hints = resource.told()
    left_out = {name for name, value in hints.items() if value is None}
    fields = {
        name: field
        for name, field in resource.schema.fields.items()
        if not field.hidden and not field.means and name not in left_out
    }
    omitted = [Omission(resource.name, pointer([name]), "secret") for name, field in fields.items() if field.secret]
    readable = {name: field for name, field in fields.items() if not field.secret}
    hints = {name: value for name, value in hints.items() if name in readable}
    given: JsonMap = {**{name: _probe(field) for name, field in readable.items()}, **hints, **known}
    found = _live(make(given), readable)
    found = {
        name: value for name, value in found.items() if value in (False, {}, []) or value != _probe(readable[name])
    }
    found = {**found, **hints, **known}
    properties: JsonMap = {}
    for name, field in readable.items():
        why = _omitted(field, found, None if name in known else mask)
        lost = [] if why is not None else [*_secret_places(field, found[name], (name,))]
        value = _without_secrets(field, found[name]) if lost else found.get(name)
        if lost and _is_incomplete(field, value):
            why, lost = "secret", []
        omitted += [Omission(resource.name, pointer(place), "secret") for place in lost]
        if why is None:
            properties[name] = value
        elif why:
            omitted.append(Omission(resource.name, pointer([name]), why))
    left = _confirmed(make, properties)
    unsure = [name for name in properties if name not in left]
    omitted += [Omission(resource.name, pointer([name]), "not_readable") for name in unsure]
    missing = [name for name, field in fields.items() if field.required and name not in left]
    if missing:
        text = f"the object does not tell {', '.join(missing)}"
        raise HTTPBadRequest(f"resources.{resource.name}: {text}. Give that as filter, or send a template.")
    return Generated(left, tuple(omitted))


def _live(resource: Resource[Schema], fields: Mapping[str, Field]) -> JsonMap:
    """Return the properties that an object tells."""
    with type_code():
        live = resource.live_properties() or {}
    return {name: value for name, value in live.items() if name in fields and value is not None}


def _probe(field: Field) -> Json:
    """Return a value that the object does not have."""
    if field.schema is not None:
        return {}
    return [] if field.item is not None and field.item.kind is not PropertyKind.STRING else _PROBES[field.kind]


def _omitted(field: Field, found: Mapping[str, Json], mask: Mask | None) -> str | None:
    """Return why a property is left out: "" for its default, None if it is not.

    What `mask` hides is secret.
    """
    if field.name not in found:
        return "not_readable"
    value = found[field.name]
    if mask is not None and mask.json(value) != value:
        return "secret"
    if field.required:
        return None
    if field.default is None:
        return "default_unknown" if value in ("", [], {}) else None
    return None if field.differs({}, {field.name: value}) else ""


def _secret_places(field: Field, value: Json, place: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of secrets in a value, told or not."""
    if field.secret:
        yield place
    elif field.schema is not None and isinstance(value, dict):
        for name, one in field.schema.fields.items():
            yield from _secret_places(one, value.get(name), (*place, name))
    elif field.item is not None and isinstance(value, list):
        for index, each in enumerate(value):
            yield from _secret_places(field.item, each, (*place, index))


def _is_incomplete(field: Field, value: Json) -> bool:
    """Return whether a property cannot stand in a template without its secrets."""
    faults: list[Fault] = []
    field.take(value, (field.name,), faults)
    return bool(faults)


def _without_secrets(field: Field, value: Json) -> Json:
    """Return a value without the secrets in it."""
    if field.secret:
        return None
    if field.schema is not None and isinstance(value, dict):
        kept = {name: _without_secrets(one, value[name]) for name, one in field.schema.fields.items() if name in value}
        return {name: one for name, one in kept.items() if one is not None}
    if field.item is not None and isinstance(value, list):
        return [_without_secrets(field.item, one) for one in value]
    return value


def _confirmed(make: Make, properties: JsonMap) -> JsonMap:
    """Return those of the properties of which the object says that it has them."""
    resource = make(properties)
    with type_code():
        live = live_values(resource)
    coerced = resource.schema.examine(properties)[0]
    differing = resource.schema.diff(coerced, live or {})
    return {name: value for name, value in properties.items() if name not in differing}


# -- references --------------------------------------------------------------------------------------


def unique_name(resource: Resource[Schema], field: Field, value: Json) -> Json:
    """Return the name of an image in place of its id, if no other image has it."""
    if field.find != "glance.image" or not isinstance(value, str):
        return value
    cloud = resource.facts.services.clouds.of(resource.facts.project, resource.facts.stack_id)
    with suppress(CloudError):
        name = as_map(cloud.cloud.call("image.get_image", value)).get("name")
        if isinstance(name, str) and cloud.id_of("glance.image", name) == value:
            return name
    return value


def names_of(resources: Mapping[str, Resource[Schema]]) -> Iterator[tuple[str, str]]:
    """Yield what refers to resources, and their names.

    What refers to several is left out.
    """
    seen: dict[str, list[str]] = {}
    for name, resource in resources.items():
        reference = resource.reference()
        for key in {resource.physical_id, reference if isinstance(reference, str) else None}:
            if key:
                seen.setdefault(key, []).append(name)
    for key, names in seen.items():
        resource = resources[names[0]]
        if len(names) == 1 and same(resource.reference(), key):
            yield key, names[0]
