"""Sizes in templates that change: policies of groups decide on them as on actions."""

from collections import Counter
from itertools import product
from typing import Any

import pytest

from heatlite.core.errors import DeletionProtected
from heatlite.core.status import ActionStatus, Verb
from heatlite.engine.state.group_requests import Adjustment, AttachPolicy, ResizeRequest, UpdatePolicy
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import ActionRecord, StackRecord
from tests.engine.conftest import Engine, resource, template
from tests.engine.test_group_policies import SERVER, YOUNGEST, ZONES, asked, changed, names, zones_of
from tests.engine.test_groups import nested, outcome, thing
from tests.tables import few, sampled
from tests.types.conftest import Cloudy, cloudy, troubled  # noqa: F401

pytestmark = pytest.mark.database

KINDS = ("OS::Heat::ResourceGroup", "OS::Heat::AutoScalingGroup")


def sized(kind: str, size: int, member: object, rolls: bool = False) -> dict[str, Any]:
    """Return a group of a size."""
    if kind == KINDS[0]:
        policy = {"update_policy": {"rolling_update": {"max_batch_size": 1, "min_in_service": 1}}} if rolls else {}
        return resource(kind, count=size, resource_def=member, keys=policy)  # type: ignore[no-any-return]
    return resource(kind, min_size=0, max_size=20, desired_capacity=size, resource=member)  # type: ignore[no-any-return]


def grown(engine: Engine, kind: str, size: int, name: str = "s") -> StackRecord:
    """Return the stack of a group whose members have different ages."""
    stack = engine.create(template(g=sized(kind, 0, thing("v"))), name)
    for number in range(size):
        engine.clock.pass_(60)
        stack = engine.put(stack, template(g=sized(kind, number + 1, thing("v"))))
    return stack


def ages(engine: Engine, stack: StackRecord) -> dict[float, str]:
    """Return the members by their ages, the oldest first."""
    rows = engine.rows(nested(engine, stack))
    return dict(sorted((row.created_at, row.name) for row in rows))


def derived(engine: Engine, stack: StackRecord) -> list[ActionRecord]:
    """Return the actions of the group's stack by its last update, oldest first."""
    last = engine.store.actions.last(stack.id, Verb.UPDATE)
    assert last is not None
    found = engine.store.action_list.relations([last])[last.id].depends_on
    return [one for one in map(engine.store.actions.get, found) if one is not None]


def leaving(engine: Engine, stack: StackRecord, wanted: dict[str, Any]) -> list[str]:
    """Return the members that the plan of an update deletes."""
    request = StackRequest(template=template(g=wanted))
    plan = engine.stacks.preview_update(engine.who, engine.get(stack), request, existing=False, plan=True).plan
    assert plan is not None
    return sorted(one.path[-1] for one in plan.resources if one.action == "delete")


def require_quiet(engine: Engine, stack: StackRecord) -> None:
    """Require that an update with the same template has nothing to do."""
    plan = engine.stacks.preview_update(engine.who, engine.get(stack), StackRequest(), existing=True, plan=True).plan
    assert plan is not None
    assert [one.path for one in plan.resources if one.action != "keep"] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("criteria", few(["YOUNGEST_FIRST", "OLDEST_FIRST", "RANDOM"]))
@pytest.mark.parametrize("size", few([3, 1, 0]))
def test_law_an_update_takes_out_what_the_action_would(engine: Engine, kind: str, criteria: str, size: int) -> None:
    stacks = [grown(engine, kind, 5, name) for name in ("s", "t")]
    for stack in stacks:
        asked(engine, stack, AttachPolicy("leavers", "deletion", {"criteria": criteria}))
    before = [[*ages(engine, stack).values()] for stack in stacks]
    wanted = sized(kind, size, thing("v"))
    planned = leaving(engine, stacks[0], wanted)
    engine.put(stacks[0], template(g=wanted))
    changed(engine, stacks[1], ResizeRequest(Adjustment.EXACT_CAPACITY, size))
    gone = [[name for name in old if name not in names(engine, one)] for old, one in zip(before, stacks, strict=True)]
    assert planned == sorted(gone[0])
    (action,) = derived(engine, stacks[0])
    deletion = action.data.deletion
    assert deletion is not None
    assert (deletion.count, sorted(deletion.names), deletion.criteria) == (5 - size, planned, criteria)
    if criteria != "RANDOM":
        places = [[old.index(name) for name in one] for old, one in zip(before, gone, strict=True)]
        assert places[0] == places[1]
    require_quiet(engine, stacks[0])
    engine.put(stacks[0], template(g=sized(kind, 5, thing("v"))))
    require_quiet(engine, stacks[0])
    assert len(names(engine, stacks[0])) == 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_with_a_new_definition_in_batches(engine: Engine, kind: str) -> None:
    stack = grown(engine, kind, 4)
    asked(engine, stack, AttachPolicy("leavers", "deletion", {"criteria": "OLDEST_FIRST"}))
    oldest = [*ages(engine, stack).values()][:2]
    wanted = sized(kind, 2, thing("w"), rolls=True)
    assert set(oldest) <= {*leaving(engine, stack, wanted)}
    stack = engine.put(stack, template(g=wanted))
    assert outcome(stack) == "UPDATE_COMPLETE", stack.status_reason
    rows = engine.rows(nested(engine, stack))
    assert {row.name for row in rows}.isdisjoint(oldest) and len(rows) == 2
    assert {row.properties["value"] for row in rows} == {"w"}
    require_quiet(engine, stack)


@pytest.mark.slow
def test_what_the_template_names_goes_first(engine: Engine) -> None:
    stack = grown(engine, KINDS[0], 4)
    asked(engine, stack, YOUNGEST)
    wanted = sized(KINDS[0], 2, thing("v"))
    wanted["properties"]["removal_policies"] = [{"resource_list": ["1"]}]
    assert leaving(engine, stack, wanted) == ["1", "3"]
    stack = engine.put(stack, template(g=wanted))
    assert names(engine, stack) == ["0", "2"]
    require_quiet(engine, stack)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_protected_member_is_refused(engine: Engine, kind: str) -> None:
    stack = grown(engine, kind, 3)
    asked(engine, stack, AttachPolicy("leavers", "deletion", {"criteria": "OLDEST_FIRST"}))
    (oldest, *_) = ages(engine, stack).values()
    below = nested(engine, stack)
    engine.components.protection.protect(engine.who, below, oldest, None)
    with pytest.raises(DeletionProtected):
        engine.put(stack, template(g=sized(kind, 2, thing("v"))))
    assert len(names(engine, stack)) == 3


@pytest.mark.slow
def test_a_rollback_brings_back_the_names(engine: Engine) -> None:
    """Numbers that the update has taken out are members again, and no others are made."""
    stack = grown(engine, KINDS[0], 4)
    asked(engine, stack, AttachPolicy("leavers", "deletion", {"criteria": "OLDEST_FIRST"}))
    bad = resource("OS::Heat::TestResource", fail=True, keys={"depends_on": ["g"]})
    wanted = template(g=sized(KINDS[0], 2, thing("v")), bad=bad)
    stack = engine.put(stack, wanted, disable_rollback=False)
    assert outcome(stack) == "ROLLBACK_COMPLETE"
    assert names(engine, stack) == ["0", "1", "2", "3"]
    require_quiet(engine, stack)
    stack = engine.put(stack, template(g=sized(KINDS[0], 2, thing("v"))))
    left = names(engine, stack)
    assert len(left) == 2 and left != ["0", "1"]
    engine.clock.pass_(60)
    stack = engine.put(stack, template(g=sized(KINDS[0], 2, thing("v")), bad=bad), disable_rollback=False)
    assert (outcome(stack), names(engine, stack)) == ("ROLLBACK_COMPLETE", left), "another update has taken those out"


FAILS = resource("OS::Heat::TestResource", fail=True, keys={"depends_on": ["g"]})
TRIES = {
    "smaller": template(g=sized(KINDS[0], 2, thing("v")), bad=FAILS),
    "smallest": template(g=sized(KINDS[0], 1, thing("v")), bad=FAILS),
    "breaks": template(g=sized(KINDS[0], 2, resource("OS::Heat::TestResource", fail=True))),
}


ROWS = [(one,) for one in product(TRIES, [*TRIES, "retry"], ["smaller", "breaks"])]


@pytest.mark.slow
@pytest.mark.parametrize("tries", sampled(ROWS, 8))
def test_a_rollback_after_failed_updates_brings_back_the_names(engine: Engine, tries: tuple[str, ...]) -> None:
    """It goes to the definition before all of them."""
    stack = grown(engine, KINDS[0], 5)
    asked(engine, stack, AttachPolicy("leavers", "deletion", {"criteria": "OLDEST_FIRST"}))
    stack = engine.put(stack, template(g=sized(KINDS[0], 4, thing("v"))))
    before = names(engine, stack)
    assert before == ["1", "2", "3", "4"]
    for one in tries[:-1]:
        engine.clock.pass_(60)
        if one == "retry":
            engine.stacks.retry(engine.who, engine.get(stack))
            stack = engine.settle(stack)
        else:
            stack = engine.put(stack, TRIES[one], disable_rollback=True)
        assert outcome(stack) == "UPDATE_FAILED"
    engine.clock.pass_(60)
    stack = engine.put(stack, TRIES[tries[-1]], disable_rollback=False)
    assert outcome(stack) == "ROLLBACK_COMPLETE"
    assert names(engine, stack) == before
    require_quiet(engine, stack)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_of_another_package_decides_and_is_told(engine: Engine, kind: str) -> None:
    stack = grown(engine, kind, 3)
    first, _, last = ages(engine, stack).values()
    oldest = first if kind == KINDS[1] else last  # it would leave without the policy
    asked(engine, stack, AttachPolicy("keep", "spare", {"member": oldest}))
    stack = engine.put(stack, template(g=sized(kind, 2, thing("v"))))
    assert oldest in names(engine, stack)
    (action,) = derived(engine, stack)
    assert action.data.policies == {"spare": {"member": oldest}}
    assert action.outputs.policies == {"keep": {"spared": oldest, "result": "OK"}}


@pytest.mark.slow
def test_a_grace_period_is_waited_for(engine: Engine) -> None:
    stack = grown(engine, KINDS[1], 2)
    asked(engine, stack, AttachPolicy("leavers", "deletion", {"grace_period": 300}))
    before = engine.clock.now()
    stack = engine.put(stack, template(g=sized(KINDS[1], 1, thing("v"))))
    (action,) = derived(engine, stack)
    assert outcome(stack) == "UPDATE_COMPLETE" and action.created_at is not None
    assert action.data.deletion is not None and action.data.deletion.grace_period == 300
    assert (action.started_at or 0.0) - before >= 300


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_zones(cloudy: Cloudy, kind: str) -> None:  # noqa: F811
    cloudy.admin.call("compute.create_aggregate", name="east", availability_zone="east")
    stack = cloudy.made({"g": sized(kind, 1, SERVER)})
    asked(cloudy, stack, AttachPolicy("zones", "zone_placement", ZONES))
    stack = cloudy.changed(stack, {"g": sized(kind, 5, SERVER)})
    (action,) = derived(cloudy, stack)
    assert action.status is ActionStatus.SUCCEEDED
    assert action.data.creation is not None and action.data.creation.zones == {"east": 2, "nova": 2}
    assert action.data.placement is not None
    placed = {one.name: one.zone for one in action.data.placement.placements}
    assert placed.items() <= zones_of(cloudy, stack).items()
    stack = cloudy.changed(stack, {"g": sized(kind, 2, SERVER)})
    (action,) = derived(cloudy, stack)
    assert action.data.deletion is not None and action.data.deletion.zones == {"": 1, "east": 1, "nova": 1}
    assert Counter(zones_of(cloudy, stack).values()) == {"nova": 1, "east": 1}
    require_quiet(cloudy, stack)
    asked(cloudy, stack, UpdatePolicy("zones", enabled=False))
    stack = cloudy.changed(stack, {"g": sized(kind, 3, SERVER)})
    (action,) = derived(cloudy, stack)
    assert action.data.placement is None
