"""Optional texts that are empty, as templates leave them by ``default: ''``.

Each is refused before anything is done, or the object is made.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from heatlite.core.errors import StackValidationFailed
from heatlite.plugin import Schema
from heatlite.plugin.coercion import PropertyKind
from heatlite.template.document import Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN
from tests.engine.conftest import resource, template
from tests.tables import few
from tests.types.conftest import Cloudy
from tests.types.marking import EXAMPLES, ROOT, TYPES, read

Place = tuple[str | int, ...]
FILES = sorted(str(path.relative_to(ROOT)) for path in EXAMPLES if path.stem != "waiting")  # nothing answers these
NOT_MADE = ("OS::Heat::", "AWS::CloudFormation::")
"""Begins of types that make nothing in a cloud, or stacks."""


def needed(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a resource of a template, and those that it needs."""
    definitions = Template(document).definition(Environment(), {}, True, TYPES).resources
    found, todo = set(), {name}
    while todo:
        found |= todo
        todo = {other for one in todo for other in definitions[one].requires} - found
    return {one: definition for one, definition in document["resources"].items() if one in found}


def known(value: Any) -> Any:
    """Return a value with UNKNOWN for references."""
    if isinstance(value, Mapping):
        return (
            UNKNOWN if {"get_resource", "get_attr"} & value.keys() else {key: known(one) for key, one in value.items()}
        )
    return [known(one) for one in value] if isinstance(value, list) else value


def texts(schema: type[Schema], values: Mapping[str, Any]) -> Iterator[Place]:
    """Yield the places of optional texts."""
    for name, field in schema.fields.items():
        value = values.get(name)
        if field.kind is PropertyKind.STRING and not field.required:
            yield (name,)
        elif field.schema is not None and isinstance(value, Mapping):
            yield from ((name, *place) for place in texts(field.schema, value))
        elif field.item is not None and field.item.schema is not None and isinstance(value, list):
            for index, one in enumerate(value):
                yield from ((name, index, *place) for place in texts(field.item.schema, one))


def emptied(values: Any, places: Sequence[Place]) -> Any:
    """Return properties with empty texts at the places."""
    found = values.copy()
    for step, *rest in places:
        found[step] = emptied(found[step], [tuple(rest)]) if rest else ""
    return found


def is_accepted(kind: str, values: Any, place: Place) -> bool:
    """Test whether the property at a place has no fault of its own."""
    found = TYPES.get(kind).check_properties(known(emptied(values, [place])))
    return all(fault.path != place for fault in found)


@pytest.mark.slow
@pytest.mark.parametrize("file", few(FILES))
def test_an_empty_text_is_refused_or_does_no_harm(cloudy: Cloudy, file: str) -> None:
    document = read(file)
    seen = set()
    for name, one in document["resources"].items():
        kind, given = one["type"], one.get("properties", {})
        if kind.startswith(NOT_MADE) or kind in seen:
            continue
        seen.add(kind)
        places = [place for place in texts(TYPES.get(kind).schema, given) if is_accepted(kind, given, place)]
        todo = [places] if places else []
        while todo:
            several = todo.pop()
            changed = {**one, "properties": emptied(given, several)}
            try:
                stack = cloudy.create(template(**needed(document, name) | {name: changed}), f"s-{name}")
            except StackValidationFailed:
                todo += [[place] for place in several] if len(several) > 1 else []
                continue
            assert stack.status == "COMPLETE", (kind, several, cloudy.why(stack))
            assert cloudy.delete(stack).status == "COMPLETE"


@pytest.mark.slow
def test_a_server_with_an_empty_name_of_its_key_is_one_without_it(cloudy: Cloudy) -> None:
    without = {"flavor": "m1.nano", "image": "cirros"}
    stack = cloudy.made({"s": resource("OS::Nova::Server", **without, key_name="", availability_zone="")})
    assert cloudy.thing(stack, "s")["key_name"] is None
    before = cloudy.ids(stack)
    stack = cloudy.changed(stack, {"s": resource("OS::Nova::Server", **without)})
    stack = cloudy.changed(stack, {"s": resource("OS::Nova::Server", **without, key_name="")})
    assert cloudy.ids(stack) == before
    with pytest.raises(StackValidationFailed, match="Property flavor not assigned"):
        cloudy.create(template(s=resource("OS::Nova::Server", image="cirros", flavor="")), "t")
