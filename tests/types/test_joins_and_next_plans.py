"""Law 2.4 of joins and leaves: their plans list what the next plan does."""

import json
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.status import Cause, Status, Verb
from heatlite.engine.state.group_requests import DifferenceMode, Joining, JoinRequest, Leave
from heatlite.engine.state.requests import PlannedResource, StackRequest
from heatlite.store.records import StackRecord
from tests.engine.conftest import attr, ref, resource, template
from tests.tables import sampled
from tests.types.conftest import Cloudy

GROUPS = ("OS::Heat::ResourceGroup", "OS::Heat::AutoScalingGroup")
VOLUME, NET, VALUE = "OS::Cinder::Volume", "OS::Neutron::Net", "OS::Heat::Value"


def volume(**more: Any) -> Any:
    return resource(VOLUME, size=1, name="wanted", availability_zone="nova", metadata={"tier": "gold"}, **more)


MEMBERS: dict[str, dict[str, Any]] = {
    "an object": {},
    "a template": {"vol": volume()},
    "a template of two": {"vol": volume(), "net": resource(NET, name="lan")},
    "a template with a value": {"vol": volume(), "told": resource(VALUE, value=ref("vol"))},
}
"""Members: an object, or the resources of a template."""
OBJECTS = {
    "as wanted": {"size": 1, "name": "wanted", "metadata": {"tier": "gold"}},
    "to be updated": {"size": 1, "name": "other", "metadata": {"tier": "lead"}},
    "to be replaced": {"size": 1, "name": "wanted", "metadata": {"tier": "gold"}, "availability_zone": "other"},
}
"""Volumes made by hand, by what the next update does to them."""
CASES = [*product(GROUPS, MEMBERS, OBJECTS, (1, 2), (False, True))]


def grouped(group: str, member: Any, size: int) -> Any:
    if group == "OS::Heat::ResourceGroup":
        return resource(group, count=size, resource_def=member)
    return resource(group, min_size=0, max_size=5, desired_capacity=size, resource=member)


def made(
    cloudy: Cloudy, group: str, member: str, below: bool, reads: bool = False
) -> tuple[StackRecord, StackRecord]:
    """Return a stack, and the one that has the group: itself, or one nested in it.

    `reads`: resources read the members of the group, also in another stack.
    """
    files, parts = dict[str, str](), MEMBERS[member]
    if parts:
        files["m.yaml"] = json.dumps(template(**parts))
    one = {"g": grouped(group, {"type": "m.yaml"} if parts else volume(), 1)}
    if reads:
        one |= {"told": resource(VALUE, value=attr("g", "refs")), "again": resource(VALUE, value=attr("told", "value"))}
    if not below:
        stack = cloudy.made(one, files=files)
        return stack, stack
    inner = template(**one)
    if reads:
        inner["outputs"] = {"all": {"value": attr("g", "refs")}}
    around = {"in": {"type": "n.yaml"}, **({"far": resource(VALUE, value=attr("in", "all"))} if reads else {})}
    stack = cloudy.made(around, files={**files, "n.yaml": json.dumps(inner)})
    owner = cloudy.store.stacks.get(cloudy.row(stack, "in").physical_id or "")
    assert owner is not None
    return stack, owner


def joining(cloudy: Cloudy, member: str, objects: str) -> Joining:
    """Return a request for a member that was made by hand."""
    view = cloudy.view()
    found: Any = view.call("block_storage.create_volume", **OBJECTS[objects])
    ids = {"vol": str(found["id"])}
    if "net" in MEMBERS[member]:
        net: Any = view.call("network.create_network", name="lan")
        ids["net"] = str(net["id"])
    cloudy.clock.pass_(100)
    return Joining(ids=ids) if MEMBERS[member] else Joining(id=ids["vol"])


def next_plan(cloudy: Cloudy, stack: StackRecord) -> list[PlannedResource]:
    found = cloudy.stacks.preview_update(cloudy.who, cloudy.get(stack), StackRequest(), existing=True, plan=True).plan
    assert found is not None
    return [replace(one, health=None) for one in found.resources if one.action != "keep"]


def known(cloudy: Cloudy, stack: StackRecord, line: PlannedResource) -> PlannedResource:
    """Return a line of a plan with the id that a new stack has got."""
    line, found = replace(line, health=None), stack
    if line.physical_id is None and line.action != "create":
        for name in line.path:
            nested = cloudy.store.stacks.get(cloudy.row(found, name).physical_id or "")
            assert nested is not None
            found = nested
        line = replace(line, physical_id=found.id)
    return line


@pytest.mark.slow
@pytest.mark.parametrize(("group", "member", "objects", "count", "below"), sampled(CASES, 12))
def test_law_after_is_the_next_plan(
    cloudy: Cloudy, group: str, member: str, objects: str, count: int, below: bool
) -> None:
    stack, owner = made(cloudy, group, member, below)
    members = [joining(cloudy, member, objects) for _ in range(count)]
    asked = JoinRequest(tuple(members), changes=DifferenceMode.LIST)
    shown = cloudy.components.joins.plan(cloudy.who, owner, "g", asked)
    action = cloudy.components.joins.join(cloudy.who, owner, "g", replace(asked, plan_digest=shown.digest))
    has_more = action.verb is Verb.UPDATE and action.cause is Cause.DERIVED
    nested = cloudy.store.stacks.get(action.stack_id)
    assert nested is not None
    cloudy.settle(nested)
    assert next_plan(cloudy, stack) == [known(cloudy, stack, one) for one in shown.later]
    at_once = {one.action for one in shown.resources} - {"join"}
    expected = {"as wanted": set(), "to be updated": {"update"}, "to be replaced": {"replace"}}[objects]
    if has_more:
        assert (shown.later, at_once) == ((), {"create", *expected})
    else:
        assert {one.action for one in shown.later} - {"update"} == expected - {"update"}
        assert at_once == set() and bool(shown.later) == bool(expected)
    stack = cloudy.patch(stack)
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    assert next_plan(cloudy, stack) == []


def but_open(line: PlannedResource, before: PlannedResource) -> PlannedResource:
    """Return a line whose values are open where they were so before the join.

    They were because of what an action of its own has made since.
    """
    pairs = zip(line.differences, before.differences, strict=True)
    differences = [was if was.is_open and one.old == was.old else one for one, was in pairs]
    return replace(line, differences=tuple(differences), after=before.after)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "member", "below", "leaves"), sampled([*product(GROUPS, MEMBERS, (False, True), (False, True))], 12)
)
def test_law_readers_of_a_group_are_listed(
    cloudy: Cloudy, group: str, member: str, below: bool, leaves: bool
) -> None:
    """A leave has no object of a template's members that could stay."""
    stack, owner = made(cloudy, group, member, below, reads=True)
    components = cloudy.components
    if leaves and not MEMBERS[member]:
        (row,) = cloudy.rows(components.groups.members_of(components.groups.group(owner, "g")))
        gone = Leave((row.name,))
        shown = components.leaving.plan(cloudy.who, owner, "g", gone)
        action = components.leaving.leave(cloudy.who, owner, "g", replace(gone, plan_digest=shown.digest))
    else:
        asked = JoinRequest((joining(cloudy, member, "as wanted"),))
        shown = components.joins.plan(cloudy.who, owner, "g", asked)
        action = components.joins.join(cloudy.who, owner, "g", replace(asked, plan_digest=shown.digest))
    nested = cloudy.store.stacks.get(action.stack_id)
    assert nested is not None
    cloudy.settle(nested)
    later = [known(cloudy, stack, one) for one in shown.later]
    expected = [but_open(one, other) for one, other in zip(next_plan(cloudy, stack), later, strict=True)]
    assert later == expected
    assert {one.path[-1] for one in shown.later} == ({"in", "told", "again", "far"} if below else {"told", "again"})
