"""The cloud of a stack that gets its first object, whatever brings that."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from heatlite.engine.state.group_requests import Joining, JoinRequest, ScaleOut
from heatlite.store.records import StackRecord
from tests.engine.conftest import ref, resource, template
from tests.features.ownership.engine.conftest import Imported, given
from tests.features.ownership.engine.test_importing import NET, outside

Way: TypeAlias = Callable[[Imported, StackRecord], object]


def imports(imported: Imported, stack: StackRecord) -> None:
    imported.done(stack, given("n", NET, id=outside(imported, {"net": resource(NET)})["net"]))


def moves(imported: Imported, stack: StackRecord) -> None:
    imported.moved(imported.cloudy.made({"net": resource(NET)}, "a"), {"net": "n"}, stack.name)


def moves_whole(imported: Imported, stack: StackRecord) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": resource(NET)}}
    imported.moved(imported.cloudy.made({"nets": group}, "a"), {"nets": "n"}, stack.name)


def joins(imported: Imported, stack: StackRecord) -> None:
    cloudy, key = imported.cloudy, outside(imported, {"net": resource(NET)})["net"]
    asked = JoinRequest((Joining(id=key),))
    digest = cloudy.components.joins.plan(cloudy.who, stack, "g", asked).digest
    cloudy.components.joins.join(cloudy.who, stack, "g", JoinRequest(asked.members, plan_digest=digest))


def scales(imported: Imported, stack: StackRecord) -> None:
    imported.cloudy.components.groups.change(imported.cloudy.who, stack, "g", ScaleOut())


def updates(imported: Imported, stack: StackRecord) -> None:
    imported.cloudy.put(stack, template(n=resource(NET)))


@pytest.mark.parametrize("way", [imports, moves, moves_whole, joins, scales, updates])
def test_it_is_recorded(imported: Imported, way: Way) -> None:
    cloudy = imported.cloudy
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 0, "resource_def": resource(NET)}}
    stack = cloudy.create(template(g=group, v=resource("OS::Heat::Value", value=ref("g"))), "b")
    assert stack.cloud is None
    way(imported, stack)
    for one in (stack, *cloudy.store.stacks.descendants(stack)):
        cloudy.settle(one)
    assert cloudy.get(stack).cloud == cloudy.view().identity


@pytest.mark.slow
def test_what_needs_no_cloud_brings_none(imported: Imported) -> None:
    cloudy = imported.cloudy
    made = cloudy.made({"net": resource(NET), "v": resource("OS::Heat::Value", value="x")}, "a")
    stack = imported.empty()
    imported.moved(made, {"v": "v"}, stack.name)
    assert cloudy.get(stack).cloud is None
