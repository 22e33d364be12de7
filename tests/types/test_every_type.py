"""Rules for each built-in resource type, and for the example of another package."""

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.json import JsonMap
from heatlite.plugin import Schema
from heatlite.plugin.coercion import PropertyKind
from heatlite.plugin.registry import Registry
from heatlite.plugin.schema import Field
from heatlite.template.checks.check import check
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN
from tests.laws import FEW_EXAMPLES
from tests.resource_types import ALL_TYPES
from tests.tables import sampled, table

EXAMPLE = Path(__file__).parents[1] / "example_plugin"
NAMES = [*sorted(ALL_TYPES), "Example::Local::File"]
TYPES = Registry(ALL_TYPES)
HIDDEN = {name for name in ALL_TYPES if TYPES.get(name).support_status.status == "HIDDEN"}
SHOWN = [name for name in NAMES if name not in HIDDEN]
"""Types that the resource-type routes show."""


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    sys.path.insert(0, str(EXAMPLE))
    yield Registry(ALL_TYPES)
    sys.path.remove(str(EXAMPLE))
    sys.modules.pop("example_heatlite_plugin", None)


def all_fields(schema: type[Schema]) -> Iterator[Field]:
    for field in schema.fields.values():
        yield field
        if field.schema is not None:
            yield from all_fields(field.schema)
        if field.item is not None and field.item.schema is not None:
            yield from all_fields(field.item.schema)


@table("name", NAMES)
def test_everything_is_documented(registry: Registry, name: str) -> None:
    cls = registry.get(name)
    assert re.search(r"\w\.$", cls.description(), re.MULTILINE), "the class needs a sentence"
    undocumented = [field.name for field in all_fields(cls.schema) if not field.doc.endswith(".")]
    undocumented += [name for name, attribute in cls.attributes_schema.items() if not attribute.doc.endswith(".")]
    assert undocumented == []


@table("name", NAMES)
def test_what_is_shown_is_meant_for_users(registry: Registry, name: str) -> None:
    """Notes on types are comments: docstrings go out with `types show`."""
    cls = registry.get(name)
    texts = [cls.description(), *(one.doc for one in cls.attributes_schema.values())]
    texts += [field.doc for field in all_fields(cls.schema)]
    inner = re.compile(r"[Hh]andler|`data`|\btodo\b|\bself\b|\b_\w+|`[A-Z]\w+`")
    assert [text for text in texts if inner.search(text)] == []


@table("name", SHOWN)
def test_the_description_of_the_type_is_json(registry: Registry, name: str) -> None:
    shown = registry.get(name)
    body = registry.describe(shown.type_name, with_description=True)
    assert json.loads(json.dumps(body)) == body
    assert body.keys() == {"resource_type", "properties", "attributes", "support_status", "description"}
    types = {kind.value for kind in PropertyKind}
    for described in shown.schema.describe().values():
        assert isinstance(described, dict)
        assert described["type"] in types
        assert {"required", "update_allowed", "immutable"} <= described.keys()
        assert not (described["required"] and "default" in described)


@table("name", SHOWN)
def test_skeletons_mirror_the_type(registry: Registry, name: str) -> None:
    shown = registry.get(name)
    names = set(shown.schema.describe())
    outputs = shown.attribute_names | {"OS::stack_id"}
    hot = registry.skeleton(shown.type_name, "hot")
    cfn = registry.skeleton(shown.type_name, "cfn")
    assert json.loads(json.dumps([hot, cfn])) == [hot, cfn]
    assert set(section(hot, "parameters")) == set(section(cfn, "Parameters")) == names
    assert set(section(hot, "outputs")) == set(section(cfn, "Outputs")) == outputs


@pytest.mark.slow
@table("language", ["hot", "cfn"])
@table("name", SHOWN)
def test_a_skeleton_is_a_valid_template(registry: Registry, name: str, language: str) -> None:
    shown = registry.get(name)
    found = check(registry.skeleton(shown.type_name, language), Environment(), registry, strict=False)
    assert [problem.text for problem in found] == []


def section(template: JsonMap, name: str) -> JsonMap:
    found = template[name]
    assert isinstance(found, dict)
    return found


@table("name", NAMES)
def test_unknown_values_have_no_faults(registry: Registry, name: str) -> None:
    cls = registry.get(name)
    assert cls.check_properties(dict.fromkeys(cls.schema.fields, UNKNOWN)) == []


@table("name", NAMES)
def test_a_property_cannot_be_both_updatable_and_immutable(registry: Registry, name: str) -> None:
    cls = registry.get(name)
    assert not cls.schema.updatable & cls.schema.immutable


def values_of(field: Field) -> st.SearchStrategy[object]:
    """Values that a template might give, most of them fine."""
    for constraint in field.constraints:
        allowed = constraint.describe().get("allowed_values")
        if isinstance(allowed, list):
            one = st.sampled_from(allowed)
            return st.lists(one) if field.kind is PropertyKind.LIST else one
    if field.schema is not None:
        return values_for(field.schema)
    if field.item is not None:
        return st.lists(values_of(field.item), max_size=3)
    return {
        PropertyKind.STRING: st.text(min_size=1, max_size=5) | st.integers() | st.booleans(),
        PropertyKind.INTEGER: st.integers(1, 600) | st.integers(1, 600).map(str),
        PropertyKind.NUMBER: st.integers(0, 9) | st.floats(0, 9) | st.floats(0, 9).map(str),
        PropertyKind.BOOLEAN: st.booleans() | st.sampled_from(["True", "false"]),
        PropertyKind.MAP: st.dictionaries(st.text(), st.integers()),
        PropertyKind.LIST: st.lists(st.text() | st.integers(), max_size=3),
        PropertyKind.ANY: st.none() | st.text() | st.integers() | st.lists(st.booleans(), max_size=3),
    }[field.kind]


@cache
def values_for(schema: type[Schema]) -> st.SearchStrategy[dict[str, object]]:
    required = {name: values_of(field) for name, field in schema.fields.items() if field.required}
    optional = {name: st.none() | values_of(field) for name, field in schema.fields.items() if not field.required}
    return st.fixed_dictionaries(required, optional=optional)


@pytest.mark.parametrize("name", sampled(NAMES, 8, pytest.mark.thorough))
@FEW_EXAMPLES
@given(data=st.data())
def test_coercion_is_idempotent_and_equal_to_itself(registry: Registry, name: str, data: st.DataObject) -> None:
    schema = registry.get(name).schema
    coerced, faults = schema.examine(data.draw(values_for(schema)))
    if faults:
        return
    assert schema.coerce(coerced) == coerced
    assert schema.diff(coerced, coerced) == frozenset()
    assert json.loads(json.dumps(coerced)) == coerced
    schema(coerced)
