"""Values that a property may have, by its rules and the objects of the cloud."""

from collections.abc import Callable, Iterator, Sequence

from heatlite.core.json import Json, JsonMap
from heatlite.plugin.coercion import PropertyKind
from heatlite.plugin.schema import Field, Schema
from heatlite.template.parameters.rules import AllowedValues
from heatlite.template.types import Fault

TEXTS: Sequence[Json] = (
    "one", "two", "10.0.0.9", "10.0.0.8", "10.1.0.0/24", "10.2.0.0/24", "aa:bb:cc:00:11:22", "a@b.org",
    "http://e.org/x", "http://e.org/y", "2030-01-01T00:00:00Z", "1", "2", "00:00", "e.org.", "f.org.",
)  # fmt: skip
NUMBERS: Sequence[Json] = (1, 2, 3, 5, 8, 10, 16, 64, 100, 300, 1000)
OPEN: Sequence[Json] = ({"a": "1"}, {"a": "2", "b": "3"})
Ids = Callable[[str], list[Json]]
"""Returns the ids of objects that a finder finds."""


def values(field: Field, ids: Ids) -> list[Json]:
    """Return values that follow the rules of a property."""
    return [value for value in _values(field, ids) if not _faults(field, value)]


def _faults(field: Field, value: Json) -> list[Fault]:
    faults: list[Fault] = []
    taken = field.take(value, (field.name,), faults)
    if not faults:
        field.judge(taken, (field.name,), faults)
    return faults


def _values(field: Field, ids: Ids) -> list[Json]:
    allowed = [value for rule in field.constraints if isinstance(rule, AllowedValues) for value in rule.allowed]
    if field.kind is PropertyKind.LIST:
        items = ids(field.find) if field.find else allowed or (values(field.item, ids) if field.item else ["a", "b"])
        return [*([one] for one in items), items[:2]]
    if field.find:
        return ids(field.find)
    if field.schema is not None:
        return [*_maps(field.schema, ids)]
    known = {PropertyKind.BOOLEAN: (True, False), PropertyKind.STRING: TEXTS, PropertyKind.MAP: OPEN}
    return [*allowed, *known.get(field.kind, NUMBERS)]


def _maps(schema: type[Schema], ids: Ids) -> Iterator[Json]:
    """Yield maps with what is required, and with each other key, too."""
    known = {field.name: values(field, ids) for field in schema.fields.values() if not (field.secret or field.hidden)}
    needed = [name for name in known if schema.fields[name].required]
    if all(known[name] for name in needed):
        for at in range(2):
            required: JsonMap = {name: known[name][min(at, len(known[name]) - 1)] for name in needed}
            yield required
            yield from ({**required, name: found[min(at, len(found) - 1)]} for name, found in known.items() if found)
