"""Definitions that the server writes, of types with secrets at any depth."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec import Struct

from heatlite.core.json import Json, JsonMap, dump, pointer
from heatlite.core.redaction.masking import NOTHING
from heatlite.features.ownership.generating import generate
from heatlite.plugin import Schema, prop
from heatlite.plugin.registry import Registry
from heatlite.plugin.schema import Field
from tests.resource_types import ALL_TYPES
from tests.types.sample_values import values

SECRET = "hunter2hunter2"
TYPES = Registry(ALL_TYPES)


def secret_fields(field: Field) -> Iterator[Field]:
    """Yield the secret properties below one."""
    parts = [] if field.item is None else [field.item]
    parts += [] if field.schema is None else field.schema.fields.values()
    for one in parts:
        if one.secret:
            yield one
        yield from secret_fields(one)


class Optional(Schema):
    """A login whose password may be left out."""

    name: str = prop()
    password: str | None = prop(secret=True)


class Deep(Schema):
    """Logins at some depth."""

    logins: list[Optional] = prop()


class OwnProps(Schema):
    """Properties that no installed type has in this form."""

    one: Optional | None = prop()
    many: list[Optional] | None = prop()
    deep: Deep | None = prop()
    deeper: list[Deep] | None = prop()


SCHEMAS: dict[str, type[Schema]] = {name: TYPES.get(name).schema for name in TYPES.names()} | {"own": OwnProps}
CASES = [
    pytest.param(schema, field, id=f"{name} {field.name}")
    for name, schema in SCHEMAS.items()
    for field in schema.fields.values()
    if not field.secret and [*secret_fields(field)]
]


class Told(Struct):
    """A resource whose object tells given properties."""

    schema: type[Schema]
    facts: Any
    live: JsonMap
    name: str = "thing"

    def told(self) -> JsonMap:
        return {}

    def live_properties(self) -> JsonMap:
        return self.live


class Facts(Struct):
    properties: JsonMap


def places(value: Json, place: tuple[str | int, ...]) -> Iterator[str]:
    """Yield the pointers of the secrets in a value."""
    inner: Sequence[tuple[str | int, Json]] = []
    if isinstance(value, dict):
        inner = [*value.items()]
    elif isinstance(value, list):
        inner = [*enumerate(value)]
    for key, one in inner:
        yield from places(one, (*place, key))
    if value == SECRET:
        yield pointer(place)


def without(field: Field, value: Json) -> Json:
    """Return a value as a service tells it, which keeps secrets to itself."""
    if field.schema is not None and isinstance(value, dict):
        inner = field.schema.fields
        return {name: without(inner[name], one) for name, one in value.items() if not inner[name].secret}
    if field.item is not None and isinstance(value, list):
        return [without(field.item, one) for one in value]
    return value


@pytest.mark.parametrize("given", ["known", "told", "kept"])
@pytest.mark.parametrize(("schema", "field"), CASES)
def test_law_each_secret_is_left_out_and_has_a_line(schema: type[Schema], field: Field, given: str) -> None:
    """One for the whole property stands for those in it."""
    samples = samples_of(field)
    assert samples
    for sample in samples:
        live = {"known": {}, "told": {field.name: sample}, "kept": {field.name: without(field, sample)}}[given]
        known = {field.name: sample} if given == "known" else {}

        def make(properties: JsonMap, live: JsonMap = live) -> Any:
            return Told(schema, Facts(properties), live)

        required = {name for name, one in schema.fields.items() if one.required and name != field.name}
        others: JsonMap = {name: next(iter(values(schema.fields[name], lambda _: ["id"]))) for name in required}
        generated = generate(make, {**others, **known}, NOTHING)
        assert SECRET not in dump(generated.properties)
        lines = {one.pointer: one.why for one in generated.omitted}
        inside = {*places(sample, (field.name,))}
        assert inside
        if field.name in generated.properties:
            assert {lines.get(one) for one in inside} == {"secret"}
            assert schema.examine({**others, **generated.properties})[1] == []
        else:
            assert pointer([field.name]) in lines


def samples_of(field: Field) -> list[Json]:
    """Return values of a property, with a text where it has a secret."""
    if field.secret:
        return [SECRET]
    if field.item is not None:
        items = samples_of(field.item)
        return [[items[0]], items]
    if field.schema is None:
        return values(field, lambda _: ["id"])[:2]
    fields = field.schema.fields
    found = {name: samples_of(one) for name, one in fields.items()}
    return [
        {name: found[name][0] for name, one in fields.items() if one.required or one.secret},
        {name: found[name][-1] for name in fields},
    ]
