"""Missing types: refused with their successor; stacks with them still work."""

import pytest

from heatlite.core.errors import ResourceTypeUnavailable
from heatlite.features.rare_types.gone import GONE
from heatlite.plugin.registry import Registry
from tests.engine.conftest import resource, template
from tests.resource_types import ALL_TYPES
from tests.tables import table
from tests.types.conftest import Cloudy


@table("name", GONE)
def test_it_names_a_successor_that_there_is(name: str) -> None:
    types = Registry(ALL_TYPES)
    refusal = types.unavailable(name)
    assert refusal is not None
    assert refusal.error == "ResourceTypeUnavailable"
    successor = GONE[name].successor
    if successor:
        assert f"Use {successor} instead." in refusal.text
        assert types.get(successor).support_status.status == "SUPPORTED"


def test_it_is_refused_in_a_template(cloudy: Cloudy) -> None:
    with pytest.raises(ResourceTypeUnavailable, match=r"the service Senlin is gone\. Use OS::Heat::AutoScalingGroup"):
        cloudy.create(template(a=resource("OS::Senlin::Cluster", profile="p", desired_capacity=1)))


def test_a_stack_that_has_it_can_be_deleted(cloudy: Cloudy) -> None:
    stack = cloudy.create(template(a=resource("OS::Heat::None"), b=resource("OS::Heat::None")))
    with cloudy.store.transaction():
        cloudy.store.database.write("UPDATE resource SET type = 'OS::Senlin::Cluster' WHERE name = 'a'", ())
    stack = cloudy.put(stack, template(b=resource("OS::Heat::None")))
    assert (stack.verb.value, stack.status.value, [row.name for row in cloudy.rows(stack)]) == (
        "UPDATE", "COMPLETE", ["b"],
    )  # fmt: skip
    assert cloudy.delete(stack).status == "COMPLETE"
