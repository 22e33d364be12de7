"""Scaling groups and their policies."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.errors import InvalidTemplateAttribute, NotFound, RequestLimitExceeded
from heatlite.core.json import JsonMap
from heatlite.plugin import NoActionNeeded, Resize, Schema
from heatlite.resources.heat.groups.policies import CfnScalingPolicy, ScalingPolicy
from heatlite.resources.heat.groups.scaling import AutoScalingGroup
from heatlite.template.expression import UNKNOWN
from tests.types.nested_stack import Group

Build = Callable[..., Any]
OLD = {"type": "T", "properties": {"p": "old", "n": None}}
NEW = {"type": "T", "properties": {"p": "new", "n": None}}
SIZES = {"min_size": 1, "max_size": 10}


@pytest.fixture
def group(build: Build) -> Group:
    return Group(build, AutoScalingGroup)


def changed(rounds: list[Any]) -> list[int]:
    """Number of members with the new definition after each round."""
    return [sum(definition == NEW for definition in members.values()) for members in rounds]


# -- members ---------------------------------------------------------------------------------------


def test_members_have_names_drawn_by_chance_for_life(group: Group) -> None:
    (members,) = group.become(**SIZES, resource=OLD, desired_capacity=3)
    assert list(members.values()) == [OLD, OLD, OLD]  # nulls are kept
    assert all(len(name) == 12 and name.isalnum() and name == name.lower() for name in members)
    group.become(**SIZES, resource=OLD, desired_capacity=5)
    assert group.names[:3] == list(members)


@pytest.mark.parametrize(("desired", "size"), [(None, 1), (1, 1), (4, 4)])
def test_the_size_at_the_start(group: Group, desired: int | None, size: int) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=desired)
    assert len(group.names) == size


def test_a_scaling_group_may_be_empty(group: Group) -> None:
    assert group.become(min_size=0, max_size=3, resource=OLD) == [{}]
    assert len(group.become(min_size=0, max_size=3, resource=NEW, desired_capacity=2)[0]) == 2
    assert group.become(min_size=0, max_size=3, resource=NEW, desired_capacity=0) == [{}]


@pytest.mark.parametrize(
    ("sizes", "size"),
    [({"min_size": 1, "max_size": 10}, 4), ({"min_size": 6, "max_size": 10}, 6), ({"min_size": 1, "max_size": 2}, 2)],
)
def test_an_update_without_a_desired_size_keeps_it_within_the_limits(
    group: Group, sizes: dict[str, int], size: int
) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=4)
    assert group.nested is not None
    group.nested.rows[group.names[1]].status = "FAILED"
    group.become(**sizes, resource=OLD)
    assert len(group.names) == size


def test_the_failed_go_first_then_the_oldest(group: Group) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=1)
    (oldest,) = group.names
    group.become(**SIZES, resource=OLD, desired_capacity=3)
    youngest = group.names[-1]
    assert group.nested is not None
    group.nested.rows[youngest].status = "FAILED"
    group.become(**SIZES, resource=OLD, desired_capacity=2)
    assert youngest not in group.names
    assert oldest in group.names
    group.become(**SIZES, resource=OLD, desired_capacity=1)
    assert oldest not in group.names


def test_a_resize_leaves_definitions_as_they_are_to_the_byte(group: Group) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=3)
    assert group.nested is not None
    before = json.dumps(group.nested.definitions)
    group.become(**SIZES, resource=OLD, desired_capacity=4)
    assert json.dumps(group.nested.definitions).startswith(before[:-1])


def test_a_member_that_was_never_made_is_made(group: Group) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=3)
    assert group.nested is not None
    missing = group.names[1]
    del group.nested.rows[missing]
    group.become(**SIZES, resource=OLD, desired_capacity=2)
    assert missing not in group.names
    assert len(group.names) == 2


def test_more_than_a_stack_may_have(build: Build) -> None:
    resource = build(AutoScalingGroup, {"min_size": 10**9, "max_size": 10**9, "resource": OLD})
    with pytest.raises(RequestLimitExceeded):
        resource.child(0)


# -- rolling updates -------------------------------------------------------------------------------


def test_a_new_definition_comes_one_by_one(group: Group) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=3)
    names = group.names
    rounds = group.become(**SIZES, resource=NEW, desired_capacity=3)
    assert changed(rounds) == [1, 2, 3]
    assert group.names == names


def test_batches_pause_and_keep_members_in_service(group: Group) -> None:
    rolling = {"max_batch_size": 2, "min_in_service": 2, "pause_time": 5}
    group.become(**SIZES, resource=OLD, desired_capacity=3)
    rounds = group.become(**SIZES, resource=NEW, desired_capacity=4, rolling_updates=rolling)
    assert [len(members) for members in rounds] == [4, 4, 3, 4]
    assert changed(rounds) == [2, 4, 3, 4]
    assert group.nested is not None
    assert group.nested.pauses == [0, 5, 5, 0]


def test_an_update_that_stopped_half_way_goes_on(group: Group) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=3)
    assert group.nested is not None
    group.nested.definitions[group.names[0]] = NEW
    group.properties = {**SIZES, "resource": NEW, "desired_capacity": 3}
    assert changed(group.become(**group.properties))[-1] == 3


def test_pauses_that_outlast_the_operation(build: Build) -> None:
    group = Group(build, AutoScalingGroup, time_limit=20)
    rolling = {"pause_time": 10}
    group.become(**SIZES, resource=OLD, desired_capacity=3)
    with pytest.raises(ValueError, match="stack update timeout"):
        group.become(**SIZES, resource=NEW, desired_capacity=3, rolling_updates=rolling)


# -- previews --------------------------------------------------------------------------------------


def test_a_goal_keeps_the_names(group: Group) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=2)
    names = group.names
    group.properties = {**SIZES, "resource": NEW, "desired_capacity": 3}
    goal = group.now().goal().template["resources"]
    assert list(goal)[:2] == names
    assert list(goal.values()) == [NEW, NEW, NEW]


@pytest.mark.parametrize("unknown", ["resource", "desired_capacity", "min_size", "max_size"])
def test_a_goal_with_unknown_properties(group: Group, unknown: str) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=2)
    names = group.names
    resource = group.now()
    resource.facts.properties[unknown] = UNKNOWN
    assert list(resource.goal().template["resources"]) == names


def test_a_goal_with_an_unknown_rolling_update(group: Group) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=2)
    resource = group.now()
    resource.facts.properties |= {"resource": NEW, "rolling_updates": {"max_batch_size": UNKNOWN, "min_in_service": 2}}
    assert list(resource.goal().template["resources"].values()) == [NEW, NEW]


# -- signals ---------------------------------------------------------------------------------------


def asked(kind: str, adjustment: float, least: int | None = None, cooldown: float | None = None) -> JsonMap:
    return {"kind": kind, "adjustment": adjustment, "least": least, "cooldown": cooldown}


def signal(group: Group, wanted: JsonMap) -> int:
    """The size after a signal."""
    resource = group.now()
    child = resource.resized(wanted)
    group.data = dict(resource.data)
    assert group.nested is not None
    group.nested.become(child)
    return len(child.template["resources"])


def test_a_signal_resizes(group: Group) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=4)
    assert signal(group, asked("change_in_capacity", 2)) == 6
    assert signal(group, asked("percent_change_in_capacity", -10)) == 5
    assert signal(group, asked("percent_change_in_capacity", 10, least=3)) == 8
    assert signal(group, asked("exact_capacity", 100)) == 10
    assert signal(group, asked("exact_capacity", 0)) == 1


def test_a_signal_counts_those_that_are_well(group: Group) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=3)
    assert group.nested is not None
    failed = group.names[2]
    group.nested.rows[failed].status = "FAILED"
    assert signal(group, asked("change_in_capacity", -1)) == 1
    assert failed not in group.names


def test_a_signal_that_changes_no_size_is_ignored(group: Group) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=10)
    before = dict(group.data)
    with pytest.raises(NoActionNeeded):
        signal(group, asked("change_in_capacity", 5))
    assert group.data == before


@pytest.mark.parametrize(("own", "policys", "seconds"), [(30, None, 30), (30, 90, 90), (30, 0, 0), (None, None, 0)])
def test_a_cooldown(group: Group, clock: Any, own: int | None, policys: int | None, seconds: int) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=2, cooldown=own)
    one_more = asked("change_in_capacity", 1, cooldown=policys)
    clock.time += own or 0
    assert signal(group, one_more) == 3
    if seconds:
        clock.time += seconds - 1
        with pytest.raises(NoActionNeeded):
            signal(group, one_more)
        clock.time += 1
    assert signal(group, one_more) == 4


def test_the_end_of_a_cooldown_is_seen_in_the_metadata(group: Group, clock: Any) -> None:
    group.become(**SIZES, resource=OLD, desired_capacity=2, cooldown=60)
    assert group.now().live_metadata() == {"cooldown_end": {"1970-01-01T00:17:40": "ExactCapacity : 2"}}
    clock.time += 60
    signal(group, asked("change_in_capacity", 1))
    assert group.now().live_metadata() == {"cooldown_end": {"1970-01-01T00:18:40": "change_in_capacity : 1"}}


# -- attributes ------------------------------------------------------------------------------------


def test_attributes(group: Group) -> None:
    definition = {"type": "T", "properties": {"p": "v", "q": {"k": [1]}}}
    group.become(**SIZES, resource=definition, desired_capacity=3)
    assert group.nested is not None
    group.nested.rows[group.names[1]].status = "FAILED"
    first, last = (member.name for member in group.nested.members if member.status != "FAILED")
    resource = group.now()
    assert resource.attribute("current_size") == 2
    assert resource.attribute("refs") == [f"ref-{first}", f"ref-{last}"]
    assert resource.attribute("refs_map") == {first: f"ref-{first}", last: f"ref-{last}"}
    assert resource.attribute_at("outputs", ["q", "k", 0]) == {first: 1, last: 1}
    assert resource.attribute_at("outputs_list", ["p"]) == ["v", "v"]
    assert resource.attribute_at("outputs_list.q", ["k"]) == [[1], [1]]
    assert resource.attribute("resource.1") == f"ref-{last}"
    assert resource.attribute("resource.0.p") == "v"
    assert resource.attribute_at("resource.0", ["q", "k"]) == [1]
    for name in ("resource.2", "resource.-1", f"resource.{first}"):
        with pytest.raises(NotFound, match="not found in group resource 'a'"):
            resource.attribute(name)
    for name in ("outputs", "outputs_list", "zz"):
        with pytest.raises(InvalidTemplateAttribute):
            resource.attribute(name)
    assert resource.attributes().keys() == {"current_size", "refs", "refs_map"}


def test_the_reference_of_a_scaling_group_is_its_name(build: Build) -> None:
    properties = {**SIZES, "resource": OLD}
    assert build(AutoScalingGroup, properties).reference() == "a"
    assert build(AutoScalingGroup, properties, physical_id="id").reference() == "s-a-abcdefghijkl"


# -- policies --------------------------------------------------------------------------------------

POLICY = {"adjustment_type": "change_in_capacity", "auto_scaling_group_id": "g", "scaling_adjustment": 1}
CFN = {"AdjustmentType": "PercentChangeInCapacity", "AutoScalingGroupName": "g", "ScalingAdjustment": "-20"}


def test_a_signal_to_a_policy_asks_for_a_resize(build: Build) -> None:
    policy = build(ScalingPolicy, {**POLICY, "scaling_adjustment": "-1", "cooldown": 60})
    wanted = asked("change_in_capacity", -1, None, 60)
    assert policy.handle_signal(None) == Resize("g", wanted)
    assert policy.handle_signal({"current": "ALARM", "previous": "ok"}) == Resize("g", wanted)
    cfn = build(CfnScalingPolicy, {**CFN, "MinAdjustmentStep": 2})
    assert cfn.handle_signal({}) == Resize("g", asked("percent_change_in_capacity", -20, 2))


@pytest.mark.parametrize("details", [{"current": "ok"}, {"state": "insufficient data"}, {"current": 5}])
def test_an_alarm_that_is_none_asks_for_nothing(build: Build, details: JsonMap) -> None:
    with pytest.raises(NoActionNeeded):
        build(ScalingPolicy, POLICY).handle_signal(details)


def test_the_urls_of_a_policy(build: Build) -> None:
    policy = build(ScalingPolicy, POLICY)
    assert policy.attributes() == {"alarm_url": None, "signal_url": None}
    policy.handle_create()
    assert policy.attribute("alarm_url").startswith("http://127.0.0.1:8004/v1/signal/arn")
    assert "/resources/a/signal?" in policy.attribute("signal_url")
    cfn = build(CfnScalingPolicy, CFN)
    assert (cfn.reference(), cfn.attribute("AlarmUrl")) == ("a", None)
    cfn.handle_create()
    assert cfn.reference() == cfn.attribute("AlarmUrl")
    assert "Signature=" in cfn.reference()


@pytest.mark.parametrize(
    ("schema", "properties", "text"),
    [
        (
            ScalingPolicy.schema,
            {**POLICY, "min_adjustment_step": 1},
            "min_adjustment_step property should only be specified for adjustment_type with value "
            "percent_change_in_capacity.",
        ),
        (
            CfnScalingPolicy.schema,
            {**CFN, "AdjustmentType": "ExactCapacity", "MinAdjustmentStep": 1},
            "MinAdjustmentStep property should only be specified for AdjustmentType with value "
            "PercentChangeInCapacity.",
        ),
    ],
)
def test_faults(schema: type[Schema], properties: dict[str, Any], text: str) -> None:
    assert [fault.text for fault in schema.check(properties)] == [text]
