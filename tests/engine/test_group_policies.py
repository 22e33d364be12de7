"""Policies of groups on a whole engine: attached, changed, obeyed, detached."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.errors import EntityNotFound, HTTPBadRequest, InvalidValue, StackLocked
from heatlite.core.status import ActionStatus, LockLevel
from heatlite.engine.state.group_requests import (
    Adjustment,
    AttachPolicy,
    Criteria,
    DetachPolicy,
    ResizeRequest,
    ScaleIn,
    ScaleOut,
    SizeRequest,
    UpdatePolicy,
)
from heatlite.plugin.groups import PLACEMENT
from heatlite.store.records import ActionRecord, StackRecord
from tests.engine.conftest import Engine, resource, template
from tests.engine.test_groups import group, nested, policy, scaling, signal, thing
from tests.killed import killed_at_each_write
from tests.tables import few
from tests.types.conftest import Cloudy, cloudy, troubled  # noqa: F401

pytestmark = pytest.mark.database

ZONES: dict[str, Any] = {"zones": [{"name": "nova"}, {"name": "east"}]}
YOUNGEST = AttachPolicy("leavers", "deletion", {"criteria": "YOUNGEST_FIRST"})


def asked(engine: Engine, stack: StackRecord, request: Any) -> ActionRecord:
    return engine.components.group_policies.change(engine.who, engine.get(stack), "g", request)


def changed(engine: Engine, stack: StackRecord, request: SizeRequest) -> ActionRecord:
    action = engine.components.groups.change(engine.who, engine.get(stack), "g", request)
    engine.settle(nested(engine, stack, "g"))
    ended = engine.store.actions.get(action.id)
    assert ended is not None and ended.status is ActionStatus.SUCCEEDED, ended.status_reason
    return ended


def names(engine: Engine, stack: StackRecord) -> list[str]:
    return sorted(row.name for row in engine.rows(nested(engine, stack, "g")))


def test_attach_update_and_detach_are_actions(engine: Engine) -> None:
    stack = engine.create(template(g=group(3, thing("v"))))
    told = engine.now_on(stack)
    for request, word in (
        (YOUNGEST, "GROUP_ATTACH_POLICY"),
        (UpdatePolicy("leavers", enabled=False), "GROUP_UPDATE_POLICY"),
        (DetachPolicy("leavers"), "GROUP_DETACH_POLICY"),
    ):
        action = asked(engine, stack, request)
        kept = engine.store.actions.get(action.id)
        assert kept is not None
        assert (kept.word, kept.status, kept.requested_by) == (word, ActionStatus.SUCCEEDED, engine.who.user)
        assert kept.inputs.asked is not None and kept.inputs.asked.options["name"] == "leavers"
    assert [one for one in engine.told(stack, told) if "POLICY" in one] == [
        "g ATTACH_POLICY_COMPLETE", "g UPDATE_POLICY_COMPLETE", "g DETACH_POLICY_COMPLETE",
    ]  # fmt: skip
    assert engine.states(stack) == {"g": "CREATE_COMPLETE"}


@pytest.mark.slow
def test_a_policy_decides_who_leaves_until_it_is_detached(engine: Engine) -> None:
    stack = engine.create(template(g=group(0, thing("v"))))
    for _ in range(5):
        engine.clock.pass_(60)
        changed(engine, stack, ScaleOut())
    asked(engine, stack, YOUNGEST)
    action = changed(engine, stack, ScaleIn())
    assert action.data.deletion is not None and action.data.deletion.names == ("4",)
    action = changed(engine, stack, ScaleIn(criteria=Criteria.OLDEST_FIRST))
    assert action.data.deletion is not None and action.data.deletion.criteria == "OLDEST_FIRST"
    assert names(engine, stack) == ["1", "2", "3"]
    asked(engine, stack, UpdatePolicy("leavers", enabled=False))
    changed(engine, stack, ScaleIn())
    asked(engine, stack, DetachPolicy("leavers"))
    changed(engine, stack, ScaleIn())
    assert names(engine, stack) == ["3"]


def test_a_signal_obeys_too(engine: Engine) -> None:
    stack = engine.create(template(g=scaling(thing("v"), low=1, high=6, desired_capacity=2), p=policy(-1)))
    engine.clock.pass_(60)
    changed(engine, stack, ScaleOut())
    asked(engine, stack, YOUNGEST)
    before = {row.name: row.created_at for row in engine.rows(nested(engine, stack, "g"))}
    signal(engine, stack, "p")
    engine.settle(nested(engine, stack, "g"))
    (gone,) = before.keys() - {*names(engine, stack)}
    assert before[gone] == max(before.values())


def test_a_policy_of_another_package(engine: Engine) -> None:
    """The outputs have what its `post_op` says, or why it fails."""
    stack = engine.create(template(g=group(3, thing("v"))))
    asked(engine, stack, AttachPolicy("keep", "spare", {"member": "2"}))
    action = changed(engine, stack, ResizeRequest(Adjustment.EXACT_CAPACITY, 2))
    assert names(engine, stack) == ["0", "2"]
    assert action.data.policies == {"spare": {"member": "2"}}
    assert action.outputs.policies == {"keep": {"spared": "2", "result": "OK"}}
    asked(engine, stack, UpdatePolicy("keep", {"member": "nobody"}))
    action = changed(engine, stack, ResizeRequest(Adjustment.EXACT_CAPACITY, 1))
    assert action.outputs.policies is not None
    assert "there is no such member" in str(action.outputs.policies["keep"]["error"])
    assert names(engine, stack) == ["0"]


FAULTS: list[tuple[Any, type[Exception], str]] = [
    (AttachPolicy("p", "best", {}), InvalidValue, "there are: deletion, load_balancing, spare, zone_"),
    (AttachPolicy("leavers", "zone_placement", ZONES), InvalidValue, "has a policy leavers already"),
    (AttachPolicy("p", "deletion", {}), InvalidValue, "has a policy of type deletion already"),
    (AttachPolicy("p", "zone_placement", ZONES), InvalidValue, "which is made in no zone"),
    (UpdatePolicy("leavers", {"criteria": "BEST"}), HTTPBadRequest, "options.criteria"),
    (UpdatePolicy("p"), EntityNotFound, "p"),
    (DetachPolicy("p"), EntityNotFound, "p"),
]


def test_what_cannot_be(engine: Engine) -> None:
    stack = engine.create(template(g=group(1, thing("v"))))
    asked(engine, stack, YOUNGEST)
    before = engine.row(stack, "g")
    for request, error, text in FAULTS:
        with pytest.raises(error, match=text):
            asked(engine, stack, request)
    assert engine.row(stack, "g") == before


@pytest.mark.parametrize("level", [LockLevel.STACKS, LockLevel.ALL])
def test_a_locked_group_keeps_its_policies(engine: Engine, level: LockLevel) -> None:
    stack = engine.create(template(g=group(1, thing("v"))))
    engine.lock(stack, level)
    with pytest.raises(StackLocked):
        asked(engine, stack, YOUNGEST)
    (entry,) = engine.store.suppressed.list(stack.id)
    assert entry.request == "attach_policy"


def test_killed_at_each_write(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = engine.create(template(g=group(1, thing("v"))))
    kills = [*killed_at_each_write(monkeypatch, lambda: asked(engine, stack, YOUNGEST))]
    assert kills
    kept = engine.row(stack, "g").data["policies"]
    assert isinstance(kept, dict) and [*kept] == ["leavers"]
    told = [one for one in engine.told(stack) if "POLICY" in one]
    assert told == ["g ATTACH_POLICY_COMPLETE"]


# -- zones -------------------------------------------------------------------------------------------

SERVER = {"type": "OS::Nova::Server", "properties": {"image": "cirros", "flavor": "m1.nano"}}


def zones_of(cloud: Cloudy, stack: StackRecord) -> dict[str, str]:
    """The zones of the servers in the cloud, by member."""
    below = nested(cloud, stack, "g")
    found = {row.name: cloud.view().call("compute.get_server", row.physical_id) for row in cloud.rows(below)}
    return {name: str(one["OS-EXT-AZ:availability_zone"]) for name, one in found.items()}

GROUP = {"g": resource("OS::Heat::AutoScalingGroup", min_size=0, max_size=9, desired_capacity=0, resource=SERVER)}

def spread(cloud: Cloudy) -> StackRecord:
    """Return the stack of an empty group with two zones."""
    cloud.admin.call("compute.create_aggregate", name="east", availability_zone="east")
    stack = cloud.made(GROUP)
    asked(cloud, stack, AttachPolicy("zones", "zone_placement", ZONES))
    return stack

@pytest.mark.slow
def test_members_are_made_and_given_up_by_zone(cloudy: Cloudy) -> None:  # noqa: F811
    stack = spread(cloudy)
    action = changed(cloudy, stack, ScaleOut(4))
    assert action.data.creation is not None and action.data.placement is not None
    assert action.data.creation.zones == {"nova": 2, "east": 2}
    placed = {one.name: one.zone for one in action.data.placement.placements}
    assert zones_of(cloudy, stack) == placed and Counter(placed.values()) == {"nova": 2, "east": 2}
    action = changed(cloudy, stack, ScaleIn(2, ignore_cooldown=True))
    assert action.data.deletion is not None and action.data.deletion.zones == {"nova": 1, "east": 1}
    left = zones_of(cloudy, stack)
    assert Counter(left.values()) == {"nova": 1, "east": 1}
    cloudy.changed(stack, GROUP)
    assert zones_of(cloudy, stack) == left
    (first, _) = left
    below = nested(cloudy, stack, "g")
    cloudy.mark(below, first)
    cloudy.patch(stack)
    assert zones_of(cloudy, stack) == left, "a replaced member stays in its zone"
    assert {row.data[PLACEMENT]["zone"] for row in cloudy.rows(below)} == {"nova", "east"}  # type: ignore[index,call-overload]

@pytest.mark.slow
def test_members_that_were_there_count_as_elsewhere(cloudy: Cloudy) -> None:  # noqa: F811
    """They leave first."""
    cloudy.admin.call("compute.create_aggregate", name="east", availability_zone="east")
    made = {"g": resource("OS::Heat::ResourceGroup", count=2, resource_def=SERVER)}
    stack = cloudy.made(made)
    asked(cloudy, stack, AttachPolicy("zones", "zone_placement", ZONES))
    changed(cloudy, stack, ScaleOut(2))
    changed(cloudy, stack, ScaleIn(2))
    assert names(cloudy, stack) == ["2", "3"]
    assert Counter(zones_of(cloudy, stack).values()) == {"nova": 1, "east": 1}


@pytest.mark.parametrize("fault", few([
    {"verb": "compute.create_server", "number": 1, "raises": "lost"},
    {"verb": "compute.create_server", "number": 2, "raises": "unavailable"},
    {"verb": "compute.create_server", "number": 1, "goes": "ERROR", "message": "no room"},
]))  # fmt: skip
def test_a_member_is_made_again_in_its_zone(troubled: Callable[..., Cloudy], fault: dict[str, Any]) -> None:  # noqa: F811
    cloud = troubled(faults=[fault])
    stack = spread(cloud)
    action = changed(cloud, stack, ScaleOut(4))
    assert action.data.placement is not None
    assert zones_of(cloud, stack) == {one.name: one.zone for one in action.data.placement.placements}

@pytest.mark.slow
def test_an_engine_that_takes_over_obeys(cloudy: Cloudy) -> None:  # noqa: F811
    stack = spread(cloudy)
    with cloudy.clock.held():
        action = cloudy.components.groups.change(cloudy.who, cloudy.get(stack), "g", ScaleOut(4))
        cloudy.close()
        cloudy.open()
    cloudy.settle(nested(cloudy, stack, "g"))
    assert action.data.placement is not None
    assert zones_of(cloudy, stack) == {one.name: one.zone for one in action.data.placement.placements}
