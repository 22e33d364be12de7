"""Bakes: an update waits before its clean-up, and can be taken back until then."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from heatlite.core.actions.payloads import BakeEnd
from heatlite.core.clock import DAY
from heatlite.core.errors import Conflict, HTTPBadRequest, NothingBakes
from heatlite.core.status import ActionStatus, Signal, Verb, state
from heatlite.engine.operations.action_signals import ActionSignals
from heatlite.engine.state.requests import Reach
from heatlite.feature import installed
from heatlite.features.guards.store.store import GuardStore
from heatlite.features.revisions.undoing import Revisions, UndoRequest
from heatlite.store.records import ActionRecord, StackRecord
from tests.engine.conftest import Engine, ref, resource, template, thing

pytestmark = pytest.mark.database
BAKE = 600
GUARD = {"guard": {"bake": BAKE, "unknown": "pass"}}


def last(engine: Engine, stack: StackRecord) -> ActionRecord:
    running = engine.store.actions.live([stack.id])
    action = running[0] if running else engine.store.actions.last(stack.id, Verb.UPDATE)
    assert action is not None
    return action


def is_baking(engine: Engine, stack: StackRecord) -> bool:
    action = last(engine, stack)
    return action.status is ActionStatus.WAITING and action.is_baking


def bakes(engine: Engine, stack: StackRecord) -> None:
    engine.wait_for(lambda: is_baking(engine, stack))


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def file(name: str) -> object:
    """Another value needs another object."""
    return thing(name, update_replace=True)


def group(value: str) -> object:
    return resource("OS::Heat::ResourceGroup", count=2, resource_def=file(value))


def objects(engine: Engine, stack: StackRecord) -> dict[str, list[str]]:
    """Names with the ids of their rows, in the whole tree."""
    found: dict[str, list[str]] = {}
    for one in (engine.get(stack), *engine.store.stacks.descendants(engine.get(stack))):
        for row in engine.rows(one):
            found.setdefault(f"{one.parent_resource or ''}/{row.name}", []).append(row.id)
    return found


BEFORE = template(a=file("1"), b=thing("1"), g=group("1"), gone=thing(ref("a")))
AFTER = template(a=file("2"), b=thing("2"), g=group("2"), new=thing("1"))


@pytest.mark.slow
def test_old_objects_stay_until_the_bake_is_over(engine: Engine) -> None:
    """Acceptance 2, 7: both objects exist while the update bakes, also in groups."""
    stack = engine.create(BEFORE)
    before = objects(engine, stack)
    with engine.clock.held():
        engine.put(stack, AFTER, wait=False, further=GUARD)
        bakes(engine, stack)
        both = objects(engine, stack)
        assert [len(both[name]) for name in ("/a", "/b", "/gone", "/new", "g/0", "g/1")] == [2, 1, 1, 1, 2, 2]
        assert all(set(ids) <= set(both[name]) for name, ids in before.items())
        now = engine.get(stack)
        assert final(now) == "UPDATE_IN_PROGRESS" and now.status_reason.startswith("Baking until 2027-")
        engine.clock.pass_(BAKE - 1)
        assert engine.store.moves.wake_parked(engine.clock.now()) == 0
        engine.clock.pass_(1)
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
    after = objects(engine, stack)
    assert {name: len(ids) for name, ids in after.items()} == dict.fromkeys(["/a", "/b", "/g", "/new", "g/0", "g/1"], 1)
    assert after["/a"] != before["/a"] and after["g/0"] != before["g/0"] and after["/b"] == before["/b"]
    outputs = last(engine, stack).outputs
    assert outputs.guard is not None and outputs.guard.result is BakeEnd.UNKNOWN


@pytest.mark.slow
@pytest.mark.parametrize("disable_rollback", [True, False])
def test_a_rollback_in_the_bake_keeps_the_old_objects(engine: Engine, disable_rollback: bool) -> None:
    stack = engine.create(BEFORE, disable_rollback=disable_rollback)
    before = objects(engine, stack)
    with engine.clock.held():
        engine.put(stack, AFTER, wait=False, further=GUARD, disable_rollback=disable_rollback)
        bakes(engine, stack)
        engine.stacks.cancel(engine.who, engine.get(stack), rollback=True)
    assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"
    assert objects(engine, stack) == before
    assert last(engine, stack).outputs.guard is None


def deep(value: str) -> dict[str, Any]:
    """A tree of four levels, as the template and the files of a request."""
    low = template(g=group(value), l=file(value), u=thing("same"))
    middle = template(low=resource("low.yaml"), m=file(value))
    files = {"low.yaml": json.dumps(low), "middle.yaml": json.dumps(middle)}
    return {"template": template(top=resource("middle.yaml"), r=file(value)), "files": files}


def rolling(value: str) -> dict[str, Any]:
    """A group whose members are changed one after the other."""
    one: Any = resource("OS::Heat::ResourceGroup", count=3, resource_def=file(value))
    policy = {"rolling_update": {"max_batch_size": 1, "pause_time": 0}}
    return {"template": template(g={**one, "update_policy": policy})}


def replaced(value: str) -> dict[str, Any]:
    """A nested stack that comes, one that goes, and one that changes."""
    files = {f"{one}.yaml": json.dumps(template(h=group(one))) for one in ("1", "2")}
    return {"template": template(**{f"n{value}": resource(f"{value}.yaml"), "g": group(value)}), "files": files}


@pytest.mark.slow
@pytest.mark.parametrize("tree", [deep, rolling, replaced])
@pytest.mark.parametrize("back", [False, True])
def test_a_tree_bakes_with_its_root(engine: Engine, tree: Callable[[str], dict[str, Any]], back: bool) -> None:
    """Acceptance 7: at each depth old objects stay, are taken back, or go in the end."""
    first, second = tree("1"), tree("2")
    stack = engine.create(first.pop("template"), **first)
    before = objects(engine, stack)
    with engine.clock.held():
        engine.put(stack, wait=False, further=GUARD, **second)
        bakes(engine, stack)
        both = {name: {*ids} for name, ids in objects(engine, stack).items()}
        assert all({*ids} <= both[name] for name, ids in before.items())
        if back:
            engine.stacks.cancel(engine.who, engine.get(stack), rollback=True)
        else:
            engine.clock.pass_(BAKE)
        engine.settle(stack)
    assert final(engine.get(stack)) == ("ROLLBACK_COMPLETE" if back else "UPDATE_COMPLETE")
    after = objects(engine, stack)
    if back:
        assert after == before
    else:
        assert {len(ids) for ids in after.values()} == {1}
        assert any(after[name] != ids for name, ids in before.items() if name in after)


@pytest.mark.slow
def test_a_retry_deletes_what_nested_stacks_have_left(engine: Engine) -> None:
    stack = engine.create(BEFORE)
    with engine.clock.held():
        engine.put(stack, AFTER, wait=False, further=GUARD)
        bakes(engine, stack)
        engine.stacks.cancel(engine.who, engine.get(stack), rollback=False)
        engine.settle(stack)
        engine.stacks.retry(engine.who, engine.get(stack))
        bakes(engine, stack)
        engine.clock.pass_(BAKE)
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
    assert {len(ids) for ids in objects(engine, stack).values()} == {1}


def test_end_by_hand(engine: Engine) -> None:
    stack = engine.create(BEFORE)
    with engine.clock.held():
        began = engine.clock.now()
        with pytest.raises(NothingBakes):
            engine.components.controls.end_bake(engine.who, stack, "")
        engine.put(stack, AFTER, wait=False, further=GUARD)
        bakes(engine, stack)
        engine.components.controls.end_bake(engine.who, stack, "looks well")
        engine.settle(stack)
        assert engine.clock.now() == began
    assert final(engine.get(stack)) == "UPDATE_COMPLETE"
    assert "The bake was ended by mia: looks well" in [one.status_reason for one in engine.events(stack)]
    outputs = last(engine, stack).outputs
    assert outputs.guard is not None and outputs.guard.result is BakeEnd.ENDED
    assert len(objects(engine, stack)["g/0"]) == 1
    with pytest.raises(NothingBakes):
        engine.components.controls.end_bake(engine.who, stack, "")


@pytest.mark.slow
def test_a_cancel_in_the_bake_leaves_old_objects_to_the_next_update(engine: Engine) -> None:
    stack = engine.create(BEFORE)
    with engine.clock.held():
        engine.put(stack, AFTER, wait=False, further=GUARD)
        bakes(engine, stack)
        engine.stacks.cancel(engine.who, engine.get(stack), rollback=False)
    assert final(engine.settle(stack)) == "UPDATE_FAILED"
    assert len(objects(engine, stack)["g/0"]) == 2
    assert final(engine.put(stack, AFTER)) == "UPDATE_COMPLETE"
    assert {len(ids) for ids in objects(engine, stack).values()} == {1}


@pytest.mark.slow
@pytest.mark.parametrize("tree", [deep, rolling])
@pytest.mark.parametrize("end", ["passes", "rolled back", "cancelled"])
def test_what_is_taken_back_is_current_while_it_bakes(
    engine: Engine, tree: Callable[[str], dict[str, Any]], end: str
) -> None:
    """After a failed update, the objects that are taken back count at once."""
    first, second = tree("1"), tree("2")
    stack = engine.create(**first)
    before = objects(engine, stack)
    with engine.clock.held():
        engine.put(stack, wait=False, further=GUARD, **second)
        bakes(engine, stack)
        engine.stacks.cancel(engine.who, engine.get(stack), rollback=False)
        engine.settle(stack)
        assert any(len(ids) > 1 for ids in objects(engine, stack).values())
        engine.put(stack, wait=False, further=GUARD, **first)
        bakes(engine, stack)
        now = objects(engine, stack)
        assert {name: now[name] for name in before} == before
        if end == "passes":
            engine.clock.pass_(BAKE)
        else:
            engine.stacks.cancel(engine.who, engine.get(stack), rollback=end == "rolled back")
        engine.settle(stack)
    after = objects(engine, stack)
    assert {name: after[name] for name in before} == before
    assert end == "cancelled" or after == before


@pytest.mark.slow
def test_the_bake_counts_on_top_of_the_deadline(engine: Engine) -> None:
    """Acceptance 8: the time limit is that of the changes and the clean-up."""
    stack = engine.create(BEFORE, timeout_mins=5)
    with engine.clock.held():
        engine.put(stack, AFTER, wait=False, further=GUARD, timeout_mins=5)
        before = last(engine, stack).deadline
        bakes(engine, stack)
        after = last(engine, stack).deadline
        assert before is not None and after == before + BAKE
        engine.clock.pass_(BAKE)
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_clock_that_jumps(engine: Engine, seconds: float) -> None:
    """A clock that goes back ends no bake; one beyond the deadline rolls back."""
    stack = engine.create(BEFORE, timeout_mins=30)
    before = objects(engine, stack)
    with engine.clock.held():
        engine.put(stack, AFTER, wait=False, further=GUARD)
        bakes(engine, stack)
        until = engine.get(stack).status_reason
        engine.clock.pass_(seconds)
        if seconds < 0:
            assert engine.store.moves.wake_parked(engine.clock.now()) == 0
            assert (engine.get(stack).status_reason, len(objects(engine, stack)["/a"])) == (until, 2)
            engine.clock.pass_(BAKE - seconds)
        assert final(engine.settle(stack)) == ("UPDATE_COMPLETE" if seconds < 0 else "ROLLBACK_COMPLETE")
    assert (objects(engine, stack) == before) is (seconds > 0)
    assert engine.store.inconsistencies(engine.clock.now(), 0.0) == []


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_bake_that_ends_while_the_feature_is_off(engine: Engine, is_kept: bool) -> None:
    """Its ways out are those of the core. Its row is settled later.

    So it is if its action is gone by then.
    """
    stack = engine.create(BEFORE)
    with engine.clock.held():
        engine.put(stack, AFTER, wait=False, further=GUARD)
        bakes(engine, stack)
        assert _retention(engine) == [] and _commands(engine, stack)[0] == "heatlite end-bake s"
        _restart(engine, tuple(one.name for one in installed() if one.name != "guards"))
        bakes(engine, stack)
        assert _commands(engine, stack) == ["openstack stack cancel s", None]
        engine.clock.pass_(BAKE)
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
        action = last(engine, stack)
        if not is_kept:
            with engine.store.transaction():
                engine.store.actions.remove([action.id])
        _restart(engine, None)
    rows = engine.store.of(GuardStore)
    _retention(engine)  # that of the engine may be first
    assert rows.stack_facts([stack.id], [stack.id]) == {} and rows.open(stack.project) == []
    assert rows.get(action.id) is not None, "the action shows it"
    assert _retention(engine, after=engine.settings.action_days * DAY + 1) == [action.id]
    assert rows.get(action.id) is None


@pytest.mark.slow
def test_a_guard_while_the_feature_is_off(engine: Engine) -> None:
    """Requests that name a guard are refused; a retry goes on without one."""
    stack = engine.create(BEFORE)
    snapshot = engine.components.snapshots.take(engine.who, stack, None)
    engine.settle(stack)
    bad = template(**AFTER["resources"], bad=thing(fail=True))
    assert final(engine.put(stack, bad, further=GUARD)) == "UPDATE_FAILED"
    _restart(engine, tuple(one.name for one in installed() if one.name != "guards"))
    with pytest.raises(HTTPBadRequest, match="the feature for it is off"):
        engine.components.of(Revisions).undo(engine.who, engine.get(stack), convert(GUARD, UndoRequest), {})
    with pytest.raises(HTTPBadRequest, match="the feature for it is off"):
        engine.components.snapshots.restore(engine.who, engine.get(stack), snapshot.id, GUARD)
    engine.stacks.retry(engine.who, engine.get(stack))
    assert final(engine.settle(stack)) == "UPDATE_FAILED"
    assert last(engine, stack).inputs.guard is None


def _restart(engine: Engine, features: tuple[str, ...] | None) -> None:
    engine.end()
    engine.settings = replace(engine.settings, features=features)
    engine.open()


def _commands(engine: Engine, stack: StackRecord) -> list[str | None]:
    """Return the commands of the ways out of a bake."""
    (fact,) = engine.components.reasons.of_stack(engine.who, engine.get(stack)).facts
    return [one.command for one in fact.way_out]


def _retention(engine: Engine, after: float = 0) -> list[str]:
    """Do what retention does with the rows of guards. Returns their ids."""
    found: list[str] = []
    for remove, ids in engine.store.of(GuardStore).old_rows(engine.settings, engine.clock.now() + after, 10):
        with engine.store.transaction():
            remove(ids)
        found += ids
    return found


@pytest.mark.slow
def test_a_bake_holds_the_tree(engine: Engine) -> None:
    """As under any action: another update, a lock, a check and a mark are refused."""
    stack = engine.create(BEFORE)
    nested = next(one for one in engine.store.stacks.descendants(stack) if one.parent_resource == "g")
    with engine.clock.held():
        engine.put(stack, AFTER, wait=False, further=GUARD)
        bakes(engine, stack)
        tries: dict[str, Callable[[], object]] = {
            "update": lambda: engine.put(stack, BEFORE),
            "lock": lambda: engine.lock(stack),
            "lock of a nested stack": lambda: engine.lock(nested),
            "check": lambda: engine.check(stack),
            "suspend": lambda: engine.suspend(stack),
            "mark": lambda: engine.mark(stack, "a"),
        }
        passed = []
        for name, attempt in tries.items():
            with suppress(Conflict):
                attempt()
                passed.append(name)
        assert passed == []
        assert is_baking(engine, stack)
        engine.clock.pass_(BAKE)
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"


@pytest.mark.slow
def test_suspended_bake(engine: Engine) -> None:
    stack = engine.create(BEFORE)
    with engine.clock.held():
        engine.put(stack, AFTER, wait=False, further=GUARD)
        bakes(engine, stack)
        signals = ActionSignals(engine.store, engine.clock)
        signals.signal(engine.who, last(engine, stack), Signal.SUSPEND)
        engine.wait_for(lambda: last(engine, stack).status is ActionStatus.SUSPENDED)
        signals.signal(engine.who, last(engine, stack), Signal.RESUME)
        bakes(engine, stack)
        engine.clock.pass_(BAKE)
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"


@pytest.mark.slow
@pytest.mark.parametrize("force", [False, True])
def test_a_deletion_in_the_bake(engine: Engine, force: bool) -> None:
    """It ends the bake, and deletes old and new objects in the whole tree."""
    first, second = deep("1"), deep("2")
    stack = engine.create(first.pop("template"), **first)
    with engine.clock.held():
        engine.put(stack, wait=False, further=GUARD, **second)
        bakes(engine, stack)
        tree = [stack, *engine.store.stacks.descendants(engine.get(stack))]
        engine.stacks.delete(engine.who, engine.get(stack), force)
        assert final(engine.settle(stack)) == "DELETE_COMPLETE"
    assert [row for one in tree for row in engine.store.resources.of(one.id)] == []
    assert engine.store.actions.live([one.id for one in tree]) == []


@pytest.mark.parametrize("back", [False, True])
def test_a_part_of_a_stack_bakes(engine: Engine, back: bool) -> None:
    """An update of some resources bakes; taken back, the stack is not restricted."""
    stack = engine.create(template(a=file("1"), other=file("1")))
    before = objects(engine, stack)
    part = Reach(target=("a",))
    with engine.clock.held():
        engine.put(stack, template(a=file("2"), other=file("2")), wait=False, further=GUARD, reach=part)
        bakes(engine, stack)
        both = objects(engine, stack)
        assert (len(both["/a"]), both["/other"]) == (2, before["/other"])
        if back:
            engine.stacks.cancel(engine.who, engine.get(stack), rollback=True)
        else:
            engine.clock.pass_(BAKE)
        engine.settle(stack)
    after, restricted = objects(engine, stack), engine.get(stack).restricted
    assert (after == before, restricted is None) == (back, back)
    assert after["/other"] == before["/other"] and len(after["/a"]) == 1


@pytest.mark.slow
def test_guards_go_with_their_actions(engine: Engine) -> None:
    """Rows of guards do not grow with the updates of a stack."""
    stack = engine.create(BEFORE)
    with engine.clock.held():
        engine.put(stack, AFTER, wait=False, further=GUARD)
        bakes(engine, stack)
        rows, action = engine.store.of(GuardStore), last(engine, stack)
        later = engine.clock.now() + engine.settings.action_days * DAY + BAKE + 1
        assert [[*old] for _, old in rows.old_rows(engine.settings, later, 10)] == [[], [], []]
        engine.clock.pass_(BAKE)
        engine.settle(stack)
    assert _retention(engine) == []
    remove, old = [*rows.old_rows(engine.settings, later, 10)][1]
    assert old == [action.id]
    with engine.store.transaction():
        remove(old)
    assert rows.get(action.id) is None


BOUNDS: list[object] = [
    {}, {"bake": -1}, {"bake": 86401}, {"bake": 1, "bakes": 2}, True, {"bake": "x"}, {"bake": 1, "alerts": []},
    {"bake": 1, "alerts": [{}]}, {"bake": 1, "alerts": [{"severity": ["critical"]}]},
    {"bake": 1, "sources": ["nobody"]}, {"bake": 1, "sources": []}, {"bake": 1, "unknown": "hope"},
]  # fmt: skip


@pytest.mark.parametrize("given", BOUNDS)
def test_bounds(engine: Engine, given: object) -> None:
    stack = engine.create(BEFORE)
    with pytest.raises(HTTPBadRequest):
        engine.put(stack, AFTER, further={"guard": given})
    assert final(engine.get(stack)) == "CREATE_COMPLETE"
