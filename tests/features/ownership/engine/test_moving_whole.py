"""Nested stacks and groups that move to other stacks as a whole."""

from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import HTTPBadRequest, InvalidStackState, RequestLimitExceeded, StackLocked
from heatlite.core.status import Status, Verb
from heatlite.engine.state.group_requests import AttachPolicy
from heatlite.features.ownership.errors import MoveReplaces, ReferencesCross
from heatlite.features.ownership.moving import ResourceMoves
from heatlite.store.records import ResourceRecord, StackRecord
from tests.engine.conftest import resource, template
from tests.features.ownership.engine.conftest import Imported
from tests.features.ownership.engine.test_moving_elsewhere import facts, same
from tests.features.ownership.engine.test_nested import (
    DATA,
    FILES,
    INNER,
    INNER_TEXT,
    NET,
    files,
    require_sound,
    stacks,
    tree,
)

MEMBER = resource(NET, name="lan")
GROUPS: dict[str, Any] = {
    "numbered": resource("OS::Heat::ResourceGroup", count=2, resource_def=MEMBER),
    "scaled": resource("OS::Heat::AutoScalingGroup", min_size=0, max_size=4, desired_capacity=2, resource=MEMBER),
}


def below(imported: Imported, root: StackRecord) -> dict[str, dict[str, ResourceRecord]]:
    """Return the rows of each nested stack, by the name of its resource."""
    found = stacks(imported, root)
    return {name: {row.name: row for row in imported.cloudy.rows(one)} for name, one in found.items()}


@pytest.mark.slow
def test_a_nested_stack_to_another_root_and_back(imported: Imported) -> None:
    """Law 2.7, at each depth: rows, objects, events and findings go along."""
    cloudy = imported.cloudy
    here, there = tree(imported), cloudy.made({"own": resource(NET, name="own")}, "b")
    cloudy.view().call("block_storage.update_volume", below(imported, here)["data"]["platte"].physical_id, name="x")
    cloudy.check(here)
    before, known = below(imported, here), stacks(imported, here)
    told = {name: [one.id for one in cloudy.events(one)] for name, one in known.items()}
    seen = {name: facts(imported, row) for rows in before.values() for name, row in rows.items()}
    plan = imported.move_plan(cloudy.get(here), {"data": "daten"}, "b")
    assert [("/".join(one.path), one.action) for one in plan.resources] == [("daten", "move")]
    assert plan.later == ()
    here = imported.moved(cloudy.get(here), {"data": "daten"}, "b")
    there = cloudy.get(there)
    assert cloudy.rows(here) == [] and stacks(imported, here) == {}
    after, now = below(imported, there), stacks(imported, there)
    assert {*now} == {"daten", "kern"}
    assert now["daten"].id == known["data"].id and now["kern"].id == known["kern"].id
    assert [now[name].depth for name in ("daten", "kern")] == [1, 2]
    assert {one.root_id for one in now.values()} == {there.id}
    for old, new in (("data", "daten"), ("kern", "kern")):
        assert {*after[new]} == {*before[old]}
        for name, row in after[new].items():
            assert same(row, before[old][name]) and row.stack_id == before[old][name].stack_id
            assert facts(imported, row) == seen[name]
        assert {*told[old]} <= {one.id for one in cloudy.events(now[new])}
    assert files(imported, there).items() >= FILES.items()
    for stack in (here, there):
        require_sound(imported, stack)
    cloudy.stacks.delete(cloudy.who, here)
    cloudy.settle(here)
    new = tree(imported, "c", more=resource(NET, name="more"))
    imported.moved(cloudy.get(there), {"daten": "zwei"}, new.id)
    assert {*stacks(imported, new)} == {"data", "kern", "zwei"}
    require_sound(imported, cloudy.get(new))
    cloudy.stacks.delete(cloudy.who, cloudy.get(new))
    assert cloudy.settle(new).verb is Verb.DELETE
    assert cloudy.store.inconsistencies(cloudy.components.clock.now(), 0.0) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*GROUPS])
def test_a_group_takes_its_members_along(imported: Imported, kind: str) -> None:
    cloudy = imported.cloudy
    here, there = cloudy.made({"web": GROUPS[kind], "rest": resource(NET, name="r")}, "a"), cloudy.made({}, "b")
    groups = cloudy.components.group_policies
    groups.change(cloudy.who, here, "web", AttachPolicy("leavers", "deletion", {"criteria": "YOUNGEST_FIRST"}))
    before = below(imported, here)["web"]
    here = imported.moved(cloudy.get(here), {"web": "api"}, "b")
    there = cloudy.get(there)
    after = below(imported, there)["api"]
    assert after == before
    assert "policies" in cloudy.row(there, "api").data
    for stack in (here, there):
        require_sound(imported, stack)
    size = "count" if kind == "numbered" else "desired_capacity"
    wanted = {**GROUPS[kind], "properties": {**GROUPS[kind]["properties"], size: 3}}
    there = cloudy.changed(there, {"api": wanted})
    grown = below(imported, there)["api"]
    assert len(grown) == 3 and {name: grown[name].physical_id for name in before} == {
        name: row.physical_id for name, row in before.items()
    }


@pytest.mark.slow
def test_within_a_tree(imported: Imported) -> None:
    """A nested stack goes one level up, and a group one down."""
    cloudy = imported.cloudy
    stack = tree(imported, web=GROUPS["numbered"])
    before, known = below(imported, stack), stacks(imported, stack)
    stack = imported.moved(cloudy.get(stack), {"data/kern": "kern", "web": "data/web"})
    now = stacks(imported, stack)
    assert {name: one.depth for name, one in now.items()} == {"data": 1, "kern": 1, "web": 2}
    assert {name: one.id for name, one in now.items()} == {name: one.id for name, one in known.items()}
    assert below(imported, stack)["kern"] == before["kern"] and below(imported, stack)["web"] == before["web"]
    require_sound(imported, cloudy.get(stack))


@pytest.mark.slow
def test_a_member_that_is_a_stack_leaves_into_a_stack(imported: Imported) -> None:
    cloudy = imported.cloudy
    member = {"type": INNER, "properties": {"größe": 1}}
    group = resource("OS::Heat::ResourceGroup", count=2, resource_def=member)
    here, there = cloudy.made({"web": group}, "a", files={INNER: INNER_TEXT}), cloudy.made({}, "b")
    before = below(imported, here)["1"]
    here = imported.moved(cloudy.get(here), {"web/1": "web_1"}, "b")
    there = cloudy.get(there)
    assert below(imported, there) == {"web_1": before}
    assert {*stacks(imported, here)} == {"web", "0"}
    for stack in (here, there):
        require_sound(imported, stack)


@pytest.mark.slow
def test_what_does_not_move_whole(imported: Imported) -> None:
    cloudy = imported.cloudy
    stack = tree(imported, top=resource(NET, name="top"), web=GROUPS["numbered"])
    there = cloudy.create(template(own=resource(NET)), "b", files={INNER: INNER_TEXT + "# other\n"})
    registry = {"resource_registry": {DATA: "OS::Heat::None"}}
    mapped = cloudy.create(template(), "m", environment=registry)
    assert mapped.status is Status.COMPLETE
    for names, to, error, text in (
        ({"data": "d", "data/platte": "p"}, "c", HTTPBadRequest, "moves with all that is in it"),
        ({"data": "d"}, "m", ReferencesCross, "resource_registry, which maps"),
        ({"web": "own"}, "b", HTTPBadRequest, "already: own"),
        ({"top": "web/2", "web": "data/web"}, None, HTTPBadRequest, "moves with all that is in it"),
        ({"data": "web/2"}, None, MoveReplaces, "delete web/2: .* another type"),
    ):
        cloudy.store.stacks.by_name(stack.project, "c") or cloudy.made({}, "c")
        with pytest.raises(error, match=text):
            imported.move_plan(cloudy.get(stack), names, to)
    assert cloudy.get(there).status is Status.COMPLETE
    kern = stacks(imported, stack)["kern"]
    cloudy.put_stack(kern, Verb.UPDATE, Status.FAILED)
    with pytest.raises(InvalidStackState, match="data/kern is UPDATE_FAILED"):
        imported.move_plan(cloudy.get(stack), {"data": "d"}, "c")


@pytest.mark.slow
def test_other_files_of_the_same_name(imported: Imported) -> None:
    cloudy = imported.cloudy
    stack = tree(imported)
    other = {INNER: INNER_TEXT.replace("inner}", "outer}")}
    cloudy.made({"left": {"type": INNER, "properties": {"größe": 1}}}, "b", files=other)
    with pytest.raises(HTTPBadRequest, match=f"other files of these names: {INNER}"):
        imported.move_plan(stack, {"data": "d"}, "b")


@pytest.mark.slow
def test_a_lock_below(imported: Imported) -> None:
    cloudy = imported.cloudy
    stack = tree(imported)
    cloudy.made({}, "b")
    cloudy.lock(stacks(imported, stack)["kern"])
    before = below(imported, stack)
    with pytest.raises(StackLocked):
        imported.moved(cloudy.get(stack), {"data": "d"}, "b")
    assert below(imported, stack) == before


def test_too_many_resources(imported: Imported) -> None:
    cloudy = imported.cloudy
    stack = tree(imported)
    cloudy.made({"a": resource(NET), "b": resource(NET)}, "b")
    core = cloudy.components
    imported.moves = ResourceMoves(replace(core, settings=replace(core.settings, max_resources_per_stack=6)))
    with pytest.raises(RequestLimitExceeded):
        imported.move_plan(stack, {"data": "d"}, "b")
    imported.moves = ResourceMoves(replace(core, settings=replace(core.settings, max_resources_per_stack=7)))
    assert imported.move_plan(stack, {"data": "d"}, "b").resources


