"""Members that leave a group with their objects, and objects that become members."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace

from heatlite.core.errors import (
    DeletionProtected,
    HeatliteError,
    HTTPBadRequest,
    InvalidStackState,
    InvalidValue,
    NestedMember,
    NotSupported,
    ObjectOwned,
    PlanChanged,
    StackLocked,
    StackNotFound,
)
from heatlite.core.json import JsonMap, dump, parse
from heatlite.core.status import ActionStatus, Cause, Signal, Status, Verb, state
from heatlite.engine.state.group_requests import DifferenceMode, Joining, JoinRequest, Leave, NewLimits
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import ActionRecord, StackRecord
from tests.engine.conftest import Engine, resource, template
from tests.engine.test_group_operations import KINDS, SERVERS, automatic, names, numbered
from tests.engine.test_groups import group, nested, thing
from tests.engine.test_lifecycle import complete, reach, waiting
from tests.engine.test_lifecycle import hooked as waits_for_hooks
from tests.tables import few

kinds = pytest.mark.parametrize("kind", few(KINDS))


def leave(engine: Engine, stack: StackRecord, *members: str, **more: Any) -> ActionRecord:
    return engine.components.leaving.leave(engine.who, engine.get(stack), "g", Leave(members, **more))


def join(engine: Engine, stack: StackRecord, *members: Joining, **more: Any) -> ActionRecord:
    """Join as the plan says."""
    asked, joins = JoinRequest(members, **more), engine.components.joins
    plan = joins.plan(engine.who, engine.get(stack), "g", asked)
    return joins.join(engine.who, engine.get(stack), "g", replace(asked, plan_digest=plan.digest))


def plan_of(engine: Engine, stack: StackRecord) -> list[str]:
    """Return the changes of the next update with the stored definition."""
    plan = engine.stacks.preview_update(engine.who, engine.get(stack), StackRequest(), existing=True, plan=True).plan
    assert plan is not None
    return [f"{'/'.join(one.path)} {one.action}" for one in plan.resources if one.action != "keep"]


def content(engine: Engine) -> dict[str, list[Any]]:
    """All rows of the database, but for those that tell of refusals."""
    names = sorted({*engine.store.database.tables()} - {"suppressed"})
    return {name: engine.store.database.read(f'SELECT * FROM "{name}"') for name in names}


@pytest.mark.slow
@kinds
def test_leave_and_join_again(engine: Engine, kind: str) -> None:
    """Acceptance 8: the same object, size down and up; the next plan is empty."""
    stack = engine.create(template(**KINDS[kind](3)), **SERVERS)
    inner = nested(engine, stack)
    before, old = {row.name: row for row in engine.rows(inner)}, names(engine, stack)
    one, mark = before[old[1]], engine.now_on(inner)
    action = leave(engine, stack, old[1])
    assert (action.word, action.status, action.cause) == ("GROUP_LEAVE", ActionStatus.SUCCEEDED, Cause.REQUEST)
    assert parse(dump(action.inputs)) == {"leave": {"members": [old[1]], "reduce": True}}
    outputs = parse(dump(action.outputs))
    assert (outputs["size"], outputs["removed"]) == ({"before": 3, "after": 2}, {old[1]: one.physical_id})
    assert names(engine, stack) == [old[0], old[2]]
    told = [one.partition(" ")[2] for one in engine.told(inner, mark)]
    assert told == ["UPDATE_IN_PROGRESS", "LEAVE_COMPLETE", "UPDATE_COMPLETE"]
    assert plan_of(engine, stack) == []
    stack = engine.patch(stack)
    assert names(engine, stack) == [old[0], old[2]]
    named = Joining(id=one.physical_id, member=old[1])
    action = join(engine, stack, named)
    assert (action.word, action.status) == ("GROUP_JOIN", ActionStatus.SUCCEEDED)
    outputs = parse(dump(action.outputs))
    assert (outputs["size"], outputs["added"]) == ({"before": 2, "after": 3}, {old[1]: one.physical_id})
    row = engine.row(inner, old[1])
    assert (state(row.verb, row.status), row.physical_id) == ("ADOPT_COMPLETE", one.physical_id)
    assert row.properties == one.properties
    assert plan_of(engine, stack) == []
    ids = engine.ids(inner)
    assert engine.ids(nested(engine, engine.patch(stack))) == ids
    assert {name: ids[name] for name in (old[0], old[2])} == {name: before[name].id for name in (old[0], old[2])}


@kinds
def test_refilled_places(engine: Engine, kind: str) -> None:
    """A member leaves, and an action of its own makes another one."""
    stack = engine.create(template(**KINDS[kind](2)), **SERVERS)
    inner, old = nested(engine, stack), names(engine, stack)
    kept = engine.row(inner, old[0])
    asked = Leave((old[1],), reduce=False)
    plan = engine.components.leaving.plan(engine.who, stack, "g", asked)
    assert [one.action for one in plan.resources] == ["leave", "create"]
    running = leave(engine, stack, old[1], reduce=False, plan_digest=plan.digest)
    engine.settle(inner)
    done = engine.store.actions.older_than(engine.clock.now() + 1, 100)
    ended = [one for one in map(engine.store.actions.get, done) if one is not None and one.stack_id == inner.id]
    words = {one.word: (one.status, one.cause) for one in ended if one.word != "STACK_CREATE"}
    assert words == {
        "GROUP_LEAVE": (ActionStatus.SUCCEEDED, Cause.REQUEST), running.word: (ActionStatus.SUCCEEDED, Cause.DERIVED),
    }  # fmt: skip
    new = names(engine, stack)
    assert (len(new), old[0] in new, old[1] in new) == (2, True, False)
    assert engine.row(inner, old[0]) == kept
    assert plan_of(engine, stack) == []


@pytest.mark.slow
def test_who_joins_gets_the_next_name(engine: Engine) -> None:
    stack = engine.create(template(**numbered(3), h=group(2, thing("v"))))
    free = [row.physical_id for row in engine.rows(nested(engine, stack, "h"))]
    engine.components.leaving.leave(engine.who, stack, "h", Leave(("0", "1")))
    leave(engine, stack, "1")
    join(engine, stack, Joining(id=free[0]), Joining(id=free[1]))
    assert names(engine, stack) == ["0", "2", "3", "4"]
    assert plan_of(engine, stack) == []
    left = leave(engine, stack, "4", "3").outputs.removed
    assert left == {"3": free[0], "4": free[1]}
    join(engine, stack, Joining(id=free[1], member="1"))
    assert sorted(names(engine, stack)) == ["0", "1", "2"]
    assert plan_of(engine, stack) == []


def test_what_is_known_of_others_stays(engine: Engine) -> None:
    """A failed check of another member is not forgotten, and a marked one may leave."""
    stack = engine.create(template(**numbered(4)))
    inner = nested(engine, stack)
    engine.mark(inner, "1")
    engine.mark(inner, "2")
    before = engine.row(inner, "1")
    left = leave(engine, stack, "2").outputs.removed
    assert engine.row(inner, "1") == before
    assert left is not None
    join(engine, stack, Joining(id=left["2"]))
    assert engine.row(inner, "1") == before
    assert engine.states(inner) == {
        "0": "CREATE_COMPLETE", "1": "CHECK_FAILED", "3": "CREATE_COMPLETE", "4": "ADOPT_COMPLETE",
    }  # fmt: skip
    assert plan_of(engine, stack) == ["g update", "g/1 replace"]


def test_a_failed_check_of_the_group_stays(engine: Engine) -> None:
    stack = engine.create(template(g=group(2, thing("v"))))
    inner = nested(engine, stack)
    engine.put_stack(inner, Verb.CHECK, Status.FAILED)
    leave(engine, stack, "1")
    assert (engine.get(inner).verb, engine.get(inner).status) == (Verb.CHECK, Status.FAILED)
    engine.put_stack(inner, Verb.UPDATE, Status.FAILED)
    with pytest.raises(InvalidStackState, match="Update stack s, then try again"):
        leave(engine, stack, "0")


SMALL = template(g=group(1, thing("v")), h=group(1, thing("v")), t=thing("v"))
NESTED: Any = template(g=group(1, {"type": "member.yaml"}))
FILES = {"member.yaml": dump(template(x=thing("v")))}
DEEP = {**FILES, "outer.yaml": dump(template(z={"type": "member.yaml"}))}


def _protected(engine: Engine, stack: StackRecord) -> None:
    engine.components.protection.protect(engine.who, nested(engine, stack), "0", None)


Prepare: TypeAlias = Callable[[Engine, StackRecord], object] | None
REFUSED: dict[str, tuple[Any, JsonMap, Prepare, Any, type[HeatliteError], str]] = {
    "leave: nobody": (SMALL, {}, None, Leave(("9",)), InvalidValue, "no member 9"),
    "leave: twice": (SMALL, {}, None, Leave(("0", "0")), InvalidValue, "named twice"),
    "leave: too few": (template(**automatic(1)), {}, None, Leave(("",)), InvalidValue, "limits are 1 and 6"),
    "leave: protected": (SMALL, {}, _protected, Leave(("0",)), DeletionProtected, "protected by mia. Unprotect"),
    "leave: nested": (NESTED, {"files": FILES}, None, Leave(("0",)), NestedMember, "a stack by into"),
    "leave: locked": (SMALL, {}, lambda engine, stack: engine.lock(stack), Leave(("0",)), StackLocked, "unlock s"),
    "leave: another plan": (SMALL, {}, None, Leave(("0",), plan_digest="x"), PlanChanged, "out of date"),
    "join: no digest": (SMALL, {}, None, JoinRequest((Joining(id="x"),)), PlanChanged, "out of date"),
    "join: two ways": (
        SMALL, {}, None, JoinRequest((Joining(id="x", name="y"),), plan_digest="x"), HTTPBadRequest, "one of"
    ),
    "join: no way": (SMALL, {}, None, JoinRequest((Joining(),), plan_digest="x"), HTTPBadRequest, "one of"),
    "join: by name": (SMALL, {}, None, JoinRequest((Joining(name="x"),), plan_digest="x"), HTTPBadRequest, "id only"),
    "join: twice": (
        SMALL, {}, None, JoinRequest((Joining(id="x"),) * 2, plan_digest="x"), InvalidValue, "the same object"
    ),
    "join: a wrong name": (
        SMALL, {}, None, JoinRequest((Joining(id="x", member="7"),), plan_digest="x"), InvalidValue, "the names 1",
    ),
    "join: a present name": (
        template(**automatic(1)), {}, None, JoinRequest(
            (Joining(id="x", member="a b"),), plan_digest="x"
        ), InvalidValue,
        "other characters",
    ),
    "join: too many": (
        template(**automatic(6)), {}, None, JoinRequest((Joining(id="x"),), plan_digest="x"), InvalidValue, "1 and 6",
    ),
    "join: a template by id": (
        NESTED, {"files": FILES}, None, JoinRequest((Joining(id="x"),), plan_digest="x"), HTTPBadRequest, "1 needs ids",
    ),
    "join: an object by ids": (
        SMALL, {}, None, JoinRequest((Joining(ids={"x": "x"}),), plan_digest="x"), HTTPBadRequest,
        "1 needs id, name or filter",
    ),
    "join: wrong ids": (
        NESTED, {"files": FILES}, None, JoinRequest((Joining(ids={"z": "z"}),), plan_digest="x"), HTTPBadRequest,
        "no resource z",
    ),
    "join: deeper": (
        template(g=group(1, {"type": "outer.yaml"})), {"files": DEEP}, None,
        JoinRequest((Joining(ids={"z": "z"}),), plan_digest="x"), NestedMember, "nested stacks itself",
    ),
    "join: what is no object": (
        template(g=group(1, resource("OS::Heat::WaitConditionHandle"))), {}, None,
        JoinRequest((Joining(id="x"),), plan_digest="x"), NotSupported, "no life of their own",
    ),
    "join: locked": (
        SMALL, {}, lambda engine, stack: engine.lock(stack), JoinRequest(
            (Joining(id="x"),), plan_digest="x"
        ), StackLocked,
        "unlock s",
    ),
    "join: another plan": (
        SMALL, {}, None, JoinRequest((Joining(id="x"),), plan_digest="x"), PlanChanged, "out of date"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", few(REFUSED))
def test_refusals_change_nothing(engine: Engine, name: str) -> None:
    """Law 2.5: the database is as before, byte for byte."""
    made, options, prepare, asked, kind, text = REFUSED[name]
    stack = engine.create(made, **options)
    if prepare is not None:
        prepare(engine, stack)
    if isinstance(asked, Leave) and asked.members == ("",):
        asked = Leave((names(engine, stack)[0],))
    before, locked = content(engine), kind is StackLocked
    run = engine.components.leaving.leave if isinstance(asked, Leave) else engine.components.joins.join
    with pytest.raises(kind, match=text):
        run(engine.who, engine.get(stack), "g", asked)  # type: ignore[arg-type]
    assert content(engine) == before
    expected = [name.partition(":")[0]] if locked else []
    assert [entry.request for entry in engine.store.suppressed.list(stack.id)] == expected


@pytest.mark.parametrize("is_seen", [True, False], ids=["before", "meanwhile"])
def test_a_group_whose_stack_is_deleted(engine: Engine, monkeypatch: pytest.MonkeyPatch, is_seen: bool) -> None:
    """A deletion has not come to the group itself. Nothing enters or leaves it."""
    stack, parts = engine.create(SMALL), engine.components
    inner, engine.by_hand = nested(engine, stack), True
    joining = JoinRequest((Joining(id="x"),))
    with engine.store.transaction():
        engine.store.stacks.save(replace(inner, deleted_at=engine.clock.now()))
    if not is_seen:
        monkeypatch.setattr(parts.groups, "members_of", lambda _: inner)
    with pytest.raises(HTTPBadRequest if is_seen else InvalidStackState, match="deleted"):
        parts.joins.plan(engine.who, stack, "g", joining)
    with pytest.raises(HTTPBadRequest if is_seen else StackNotFound):
        parts.groups.change(engine.who, stack, "g", NewLimits(max_size=2))
    with pytest.raises(HTTPBadRequest if is_seen else InvalidValue, match="deleted" if is_seen else "no member 0"):
        parts.leaving.plan(engine.who, stack, "g", Leave(("0",)))


@pytest.mark.slow
def test_an_object_has_one_owner(engine: Engine) -> None:
    """Law 2.3: the text has owner and way out, and nothing of another project."""
    stack = engine.create(SMALL)
    other = engine.create(SMALL, "other")
    own = engine.row(stack, "t").physical_id
    theirs = engine.row(nested(engine, other), "0").physical_id
    mine = r"^resources\.g/\d: .* is owned by t of stack s"
    for key, text in ((own, mine), (theirs, "is owned by g/0 of stack other")):
        with pytest.raises(ObjectOwned, match=text):
            join(engine, stack, Joining(id=key))
    engine.who = replace(engine.who, project="foreign")
    stack = engine.create(SMALL)
    with pytest.raises(ObjectOwned, match=r"is owned by a stack of another project\.$"):
        join(engine, stack, Joining(id=own))


def test_a_change_between_plan_and_join(engine: Engine) -> None:
    """The group changes after the objects are read, before the transaction."""
    stack = engine.create(template(**numbered(2)))
    key = (leave(engine, stack, "1").outputs.removed or {})["1"]
    asked, joins = JoinRequest((Joining(id=key),)), engine.components.joins
    asked = replace(asked, plan_digest=joins.plan(engine.who, stack, "g", asked).digest)
    draft = joins._draft

    def later(*given: Any) -> Any:
        found = draft(*given)
        engine.components.leaving.leave(engine.who, engine.get(stack), "g", Leave(("0",)))
        return found

    joins._draft = later  # type: ignore[method-assign]
    with pytest.raises(PlanChanged):
        joins.join(engine.who, engine.get(stack), "g", asked)
    del joins._draft
    assert names(engine, stack) == []


@pytest.mark.slow
def test_a_member_of_several_objects(engine: Engine) -> None:
    """A template joins with the id of each object; what has none is made by an action."""
    inner = template(x=thing("v"), y=thing({"get_resource": "x"}), z=thing("z"))
    stack = engine.create(template(g=group(1, {"type": "m.yaml"}), x=thing("v")), files={"m.yaml": dump(inner)})
    ids = {"x": "an-x", "y": "a-y"}
    plan = engine.components.joins.plan(
        engine.who, stack, "g", JoinRequest((Joining(ids=ids),), changes=DifferenceMode.LIST)
    )
    assert [("/".join(one.path), one.action) for one in plan.resources] == [
        ("g/1/x", "join"), ("g/1/y", "join"), ("g/1", "join"), ("g/1/z", "create"),
    ]  # fmt: skip
    running = join(engine, stack, Joining(ids=ids))
    group_stack = engine.settle(nested(engine, stack))
    assert (running.cause, engine.states(group_stack)["1"]) == (Cause.DERIVED, "UPDATE_COMPLETE")
    member = nested(engine, group_stack, "1")
    rows = {row.name: row for row in engine.rows(member)}
    assert {name: rows[name].physical_id for name in ids} == ids
    assert rows["y"].properties["value"] == "an-x"
    assert state(rows["z"].verb, rows["z"].status) == "CREATE_COMPLETE"
    assert plan_of(engine, stack) == []
    engine.delete(stack)


def hooked(engine: Engine) -> tuple[StackRecord, StackRecord]:
    """A group of three whose members wait before they go, and its nested stack."""
    stack = engine.create(template(**automatic(3)), environment=waits_for_hooks(300))
    return stack, nested(engine, stack)


@pytest.mark.slow
@pytest.mark.parametrize("reduce", few([True, False]))
def test_a_leave_waits_for_lifecycle_hooks(engine: Engine, reduce: bool) -> None:
    """Two members are drained; one is told so, the time of the other is over."""
    stack, inner = hooked(engine)
    old = names(engine, stack)
    with engine.clock.held():
        plan = engine.components.leaving.plan(engine.who, stack, "g", Leave((old[0],)))
        assert plan.resources[0].cause == "its object stays; it waits for its lifecycle hook"
        action = leave(engine, stack, *old[:2], reduce=reduce)
        tokens = reach(engine, inner, 2)
        assert (names(engine, stack), engine.get(inner).verb) == (old, Verb.UPDATE)
        with pytest.raises(HeatliteError):
            leave(engine, stack, old[2])
        complete(engine, stack, tokens[0])
        engine.wait_for(lambda: len(waiting(engine, inner)) == 1)
        assert names(engine, stack) == old
        engine.clock.pass_(301)
    engine.wait_for(lambda: old[0] not in names(engine, stack))
    inner = engine.settle(inner)
    left = names(engine, stack)
    assert (len(left), old[2] in left, {*old[:2]} & {*left}) == (1 if reduce else 3, True, set())
    assert state(inner.verb, inner.status) == "UPDATE_COMPLETE"
    ended = engine.store.actions.get(action.id)
    assert ended is not None
    assert (ended.word, ended.status) == ("GROUP_LEAVE", ActionStatus.SUCCEEDED)
    assert parse(dump(ended.outputs))["removed"].keys() == {*old[:2]}
    told = [one for one in engine.told(inner) if one.endswith("LEAVE_COMPLETE")]
    assert sorted(told) == sorted(f"{name} LEAVE_COMPLETE" for name in old[:2])
    assert not any("DELETE" in one for one in engine.told(inner))
    assert plan_of(engine, stack) == []


@pytest.mark.parametrize("force", few([False, True]))
def test_a_cancelled_leave_leaves_everything_as_it_was(engine: Engine, force: bool) -> None:
    """Law 2.5."""
    stack, inner = hooked(engine)
    old, rows, template_id = names(engine, stack), engine.rows(inner), engine.get(inner).template_id
    before = engine.get(inner)
    with engine.clock.held():
        action = leave(engine, stack, old[0])
        reach(engine, inner)
        engine.components.controls.signal(engine.who, action, Signal.CANCEL, force)
        engine.wait_for(lambda: not engine.store.actions.live([inner.id]))
    after = engine.get(inner)
    assert (after.verb, after.status, after.status_reason) == (before.verb, before.status, before.status_reason)
    assert (engine.rows(inner), after.template_id) == (rows, template_id)
    assert "size" not in engine.row(stack, "g").data
    assert plan_of(engine, stack) == []
    ended = engine.store.actions.get(action.id)
    assert ended is not None
    assert ended.status is ActionStatus.CANCELLED


@pytest.mark.slow
def test_a_leave_that_waits_goes_on_after_a_takeover(engine: Engine) -> None:
    stack, inner = hooked(engine)
    old = names(engine, stack)
    with engine.clock.held():
        leave(engine, stack, *old[:2])
        (first, second) = reach(engine, inner, 2)
        complete(engine, stack, first)
        engine.wait_for(lambda: len(waiting(engine, inner)) == 1)
        engine.end()
        engine.open()
        engine.wait_for(lambda: waiting(engine, inner).values())
        complete(engine, stack, second)
    engine.settle(inner)
    assert names(engine, stack) == [old[2]]


@pytest.mark.slow
def test_a_delete_during_the_wait_deletes_all(engine: Engine) -> None:
    stack, inner = hooked(engine)
    with engine.clock.held():
        leave(engine, stack, names(engine, stack)[0])
        reach(engine, inner)
        engine.stacks.delete(engine.who, engine.get(stack))
    engine.wait_for(lambda: engine.get(stack).deleted_at is not None)
    assert engine.rows(inner) == []


@pytest.mark.slow
def test_of_many_joins_one_gets_the_object(engine: Engine) -> None:
    """Law 2.2: clients let one object join several groups at once; it has one owner."""
    stack = engine.create(template(**{f"g{number}": group(1, thing("v")) for number in range(6)}))
    (row,) = engine.rows(nested(engine, stack, "g0"))
    engine.components.leaving.leave(engine.who, stack, "g0", Leave(("0",)))
    joins, asked = engine.components.joins, JoinRequest((Joining(id=row.physical_id),))

    def one(number: int) -> str:
        try:
            plan = joins.plan(engine.who, stack, f"g{number}", asked)
            joins.join(engine.who, stack, f"g{number}", replace(asked, plan_digest=plan.digest))
        except HeatliteError as error:
            return type(error).__name__
        return "joined"

    with ThreadPoolExecutor(6) as pool:
        results = Counter(pool.map(one, range(6)))
    assert results == {"joined": 1, "ObjectOwned": 5}
    rows = [one for group_stack in engine.store.stacks.descendants(stack) for one in engine.rows(group_stack)]
    assert [one.physical_id for one in rows].count(row.physical_id) == 1
