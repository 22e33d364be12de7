"""Laws of the mapping of types."""

from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.json import Json, JsonMap
from heatlite.plugin.registry import Registry
from heatlite.template.environment import Environment, TypeMapping, merged_registry
from heatlite.template.source.loader import SourceText
from heatlite.template.types import Installation
from tests.resource_types import ALL_TYPES

TYPES = Registry(ALL_TYPES)
NAMES = st.sampled_from(["A", "A::B", "A::B::C", "B", "OS::Heat::None", "OS::Heat::Value", "t.yaml"])
KEYS = NAMES | st.sampled_from(["A*", "A::*", "*", "OS::Heat::*", "A::B*"])
ENTRIES: st.SearchStrategy[JsonMap] = st.dictionaries(KEYS, NAMES | st.none(), max_size=6)


def parse(entries: JsonMap, block: JsonMap) -> Environment:
    registry: Json = {**entries, "resources": {"r": block}}
    return Environment.parse(SourceText("environment", {"resource_registry": registry}))


@given(ENTRIES, ENTRIES, ENTRIES, NAMES)
def test_a_type_becomes_something_that_is_there_or_stays(
    entries: JsonMap, block: JsonMap, system: JsonMap, name: str
) -> None:
    TYPES.installation = Installation(merged_registry(system))
    mapping = TypeMapping(parse(entries, block), TYPES)
    for resource in ("r", "s"):
        target = mapping.target(resource, name)
        assert target.name == name or target.is_template or TYPES.find(target.name) is not None
        assert mapping.target(resource, name) == target
        assert bool(target.entry) <= target.is_template


@given(ENTRIES, ENTRIES)
def test_merging_is_reading_one_after_the_other(one: JsonMap, two: JsonMap) -> None:
    once = merged_registry(one, two)
    assert merged_registry(merged_registry(one), two) == once
    assert merged_registry(once) == once
    assert None not in once.values()


@given(ENTRIES, ENTRIES, NAMES)
def test_within_its_template_a_mapping_is_gone(entries: JsonMap, block: JsonMap, name: str) -> None:
    environment = parse(entries, block)
    seen = set()
    target = TypeMapping(environment, None).target("r", name)
    while target.entry:
        assert target.entry not in seen
        seen.add(target.entry)
        environment = environment.for_child("r", target, {})
        target = TypeMapping(environment, None).target("r", name)
