"""Updates that name what they touch (laws D1–D8, D11)."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import UNSET

from heatlite.core.errors import (
    DeletionProtected,
    HTTPBadRequest,
    PlanChanged,
    StackLocked,
    StackValidationFailed,
)
from heatlite.core.status import Status
from heatlite.engine.state.requests import Reach, ShownPlan

from .conftest import Engine, attr, ref, resource, template, thing
from .test_nested import child
from .test_plan import actions, entry, planned


def parts(plan: ShownPlan) -> dict[str, str]:
    """Path → selection, of those that have one."""
    return {"/".join(one.path): str(one.selection) for one in plan.resources if one.selection is not UNSET}


def three(value: str, net: str = "1", **more: Any) -> Any:
    """A server that uses a port on a network, and a volume of its own."""
    return template(
        net=thing(net),
        port=thing(ref("net")),
        web=thing(value, depends_on="port"),
        db=thing(value),
        **more,
    )


def group(count: int, value: str) -> Any:
    return template(
        web=resource("OS::Heat::ResourceGroup", count=count, resource_def=thing(value)), other=thing(value)
    )


def group_of_two(value: str, **more: Any) -> Any:
    return template(web=resource("OS::Heat::ResourceGroup", count=2, resource_def=thing(value)), **more)


@pytest.mark.parametrize("key", ["target", "exclude", "replace"])
def test_paths_that_lead_nowhere_are_named_together(engine: Engine, key: str) -> None:
    stack = engine.create(three("1"))
    reach = Reach(**{key: ("web", "no", "web/0", "db")})
    with pytest.raises(HTTPBadRequest, match="no resource no, web/0, neither"):
        planned(engine, stack, three("2"), reach=reach)
    with pytest.raises(HTTPBadRequest, match="no resource no, web/0, neither"):
        engine.put(stack, three("2"), reach=reach)
    assert engine.get(stack).status is Status.COMPLETE and engine.get(stack).updated_at is None


def test_a_target_takes_what_it_requires_if_that_would_change(engine: Engine) -> None:
    stack = engine.create(three("1"))
    plan = planned(engine, stack, three("2", net="2"), reach=Reach(target=("web",)))
    assert parts(plan) == {"net": "pulled_in", "web": "named", "db": "left_out"}
    assert actions(plan) == {"net": "update", "web": "update"}
    assert entry(plan, "db").cause == "left out; it would be updated: the definition changed"
    before, mark = engine.rows(stack), engine.now_on(stack)
    stack = engine.put(stack, three("2", net="2"), reach=Reach(target=("web",)), plan_digest=plan.digest)
    assert stack.status is Status.COMPLETE
    assert {told.split()[0] for told in engine.told(stack, mark)} == {"s", "net", "web"}
    after = {row.id: row for row in engine.rows(stack)}
    assert [after[row.id] == row for row in before if row.name in ("db", "port")] == [True, True]


def test_a_target_knows_new_and_removed_resources(engine: Engine) -> None:
    stack = engine.create(template(a=thing("1"), b=thing(attr("a", "output")), c=thing("1")))
    after = template(a=thing("1"), x=thing("1"), y=thing(attr("x", "output")), z=thing("1"))
    plan = planned(engine, stack, after, reach=Reach(target=("y", "b")))
    assert parts(plan) == {"y": "named", "x": "pulled_in", "b": "named", "z": "left_out", "c": "left_out"}
    assert actions(plan) == {"x": "create", "y": "create", "b": "delete"}
    stack = engine.put(stack, after, reach=Reach(target=("y", "b")))
    assert {*engine.states(stack)} == {"a", "c", "x", "y"}
    assert stack.restricted is not None and {*stack.restricted.left_out} == {"c", "z"}
    assert "Restricted: the update has left out z, c" in stack.status_reason
    stack = engine.put(stack, after)
    assert {*engine.states(stack)} == {"a", "x", "y", "z"} and stack.restricted is None


def test_what_an_object_needs_to_go_goes_with_it(engine: Engine) -> None:
    stack = engine.create(template(net=thing("1"), port=thing(ref("net")), db=thing("1")))
    plan = planned(engine, stack, template(db=thing("2")), reach=Reach(target=("net",)))
    assert parts(plan) == {"net": "named", "port": "pulled_in", "db": "left_out"}
    assert {*engine.states(engine.put(stack, template(db=thing("2")), reach=Reach(target=("net",))))} == {"db"}


def test_a_replaced_object_stays_while_one_that_is_left_out_uses_it(engine: Engine) -> None:
    before = template(net=thing(update_replace_value="1"), port=thing(ref("net")))
    after = template(net=thing(update_replace_value="2"), port=thing(ref("net")))
    stack = engine.create(before)
    (old,) = [row.id for row in engine.rows(stack) if row.name == "net"]
    stack = engine.put(stack, after, reach=Reach(target=("net",)))
    assert stack.status is Status.COMPLETE and stack.restricted is not None
    assert [row.id == old for row in engine.rows(stack) if row.name == "net"] == [True, False]
    assert engine.row(stack, "port").uses == (old,)
    stack = engine.put(stack, after)
    (new,) = [row.id for row in engine.rows(stack) if row.name == "net"]
    assert new != old and engine.row(stack, "port").uses == (new,) and stack.restricted is None


def test_exclude_also_leaves_out_what_needs_a_new_value(engine: Engine) -> None:
    stack = engine.create(template(a=thing("1"), b=thing(attr("a", "output")), c=thing("1")))
    after = template(
        a=thing("2"), b=thing(attr("a", "output")), c=thing("2"), x=thing("1"), y=thing("1", depends_on="x")
    )
    plan = planned(engine, stack, after, reach=Reach(exclude=("a", "x")))
    assert parts(plan) == dict.fromkeys("abxy", "left_out") and actions(plan) == {"c": "update"}
    stack = engine.put(stack, after, reach=Reach(exclude=("a", "x")))
    assert [engine.value(stack, name) for name in "abc"] == ["1", "1", "2"] and {*engine.states(stack)} == {*"abc"}


@pytest.mark.slow
def test_groups_and_members(engine: Engine) -> None:
    stack = engine.create(group(3, "1"))
    plan = planned(engine, stack, group(4, "2"), reach=Reach(target=("web/1",)))
    assert parts(plan) == {
        "web": "pulled_in", "web/1": "named", "other": "left_out",
        **dict.fromkeys(("web/0", "web/2", "web/3"), "left_out"),
    }  # fmt: skip
    stack = engine.put(stack, group(4, "2"), reach=Reach(target=("web/1",)), plan_digest=plan.digest)
    members = child(engine, stack, "web")
    assert {row.name: row.properties["value"] for row in engine.rows(members)} == {"0": "1", "1": "2", "2": "1"}
    assert stack.restricted is not None and {*stack.restricted.left_out} == {"web/0", "web/2", "web/3", "other"}
    rest = planned(engine, stack, group(4, "2"))
    assert {path for path in actions(rest) if path != "web"} == {"web/0", "web/2", "web/3", "other"}
    stack = engine.put(stack, group(4, "2"), reach=Reach(exclude=("web/0", "other")))
    now = {row.name: row.properties["value"] for row in engine.rows(members)}
    assert now == {**dict.fromkeys("123", "2"), "0": "1"}
    stack = engine.put(stack, group(4, "2"), reach=Reach(target=("web",)))
    assert {row.properties["value"] for row in engine.rows(members)} == {"2"} and len(engine.rows(members)) == 4
    assert stack.restricted is not None and stack.restricted.left_out == ("other",)


def test_scaling_does_not_do_what_is_left_out(engine: Engine) -> None:
    from heatlite.engine.state.group_requests import ScaleOut

    stack = engine.create(group(2, "1"))
    stack = engine.put(stack, group(2, "2"), reach=Reach(target=("web/1",)))
    engine.components.groups.change(engine.who, stack, "web", ScaleOut(1))
    members = child(engine, stack, "web")
    engine.settle(members)
    assert {row.name: row.properties["value"] for row in engine.rows(members)} == {"0": "1", "1": "2", "2": "2"}
    restricted = engine.get(stack).restricted
    assert restricted is not None and {*restricted.left_out} == {"web/0", "other"}


def test_the_restriction_ends_with_a_whole_update_that_succeeds_only(engine: Engine) -> None:
    stack = engine.create(three("1"))
    stack = engine.put(stack, three("2"), reach=Reach(target=("web",)))
    first = stack.restricted
    assert first is not None and first.left_out == ("db",)
    assert engine.check(stack).restricted == first and "Restricted: " in engine.get(stack).status_reason
    bad = three("3", worse=thing(fail=True))
    stack = engine.put(stack, bad)
    assert (stack.status, stack.restricted) == (Status.FAILED, first)
    stack = engine.put(stack, three("3"), reach=Reach(target=("web",)))
    assert stack.restricted is not None and {*stack.restricted.left_out} >= {"worse"}
    stack = engine.put(stack, three("3"))
    assert (stack.status, stack.restricted) == (Status.COMPLETE, None) and "Restricted" not in stack.status_reason


@pytest.mark.parametrize("before", [False, True])
def test_a_rollback_puts_back_what_was_touched(engine: Engine, before: bool) -> None:
    stack = engine.create(three("1"))
    if before:
        stack = engine.put(stack, three("2"), reach=Reach(target=("db",)))
    was, values = stack.restricted, {row.name: row.properties["value"] for row in engine.rows(stack)}
    mark = engine.now_on(stack)
    bad = three("3", bad=thing(fail=True, depends_on="web"))
    stack = engine.put(stack, bad, reach=Reach(target=("bad",)), disable_rollback=False)
    assert (stack.verb, stack.status) == ("ROLLBACK", Status.COMPLETE)
    assert stack.restricted == was
    told = {one.split()[0] for one in engine.told(stack, mark)}
    assert told == {"s", "web", "bad"}
    assert {row.name: row.properties["value"] for row in engine.rows(stack)} == values


@pytest.mark.slow
@pytest.mark.parametrize("nested", [False, True])
def test_a_rollback_of_all_does_not_do_what_is_left_out(engine: Engine, nested: bool) -> None:
    make = group_of_two if nested else three
    stack = engine.create(make("1"))
    path = "web/0" if nested else "db"
    stack = engine.put(stack, make("2"), reach=Reach(exclude=(path,)))
    was = stack.restricted
    assert was is not None and was.left_out == (path,)
    owner = child(engine, stack, "web") if nested else stack
    ids = engine.row(owner, path[-1] if nested else path)
    bad = make("3", aa=thing(fail=True))
    for resource_definition in bad["resources"].values():
        if resource_definition is not bad["resources"]["aa"]:
            resource_definition["depends_on"] = "aa"
    stack = engine.put(stack, bad, disable_rollback=False)
    assert (stack.verb, stack.status) == ("ROLLBACK", Status.COMPLETE) and stack.restricted == was
    assert engine.row(owner, ids.name) == ids


def test_the_digest_covers_the_selection(engine: Engine) -> None:
    stack = engine.create(three("1"))
    whole = planned(engine, stack, three("2"))
    every = Reach(target=("web", "db", "net", "port"))
    assert actions(planned(engine, stack, three("2"), reach=every)) == actions(whole)
    for reach in (every, Reach(exclude=("net",)), Reach(replace=("net",))):
        with pytest.raises(PlanChanged):
            engine.put(stack, three("2"), reach=reach, plan_digest=whole.digest)


def test_an_output_of_what_was_never_made_is_an_error(engine: Engine) -> None:
    stack = engine.create(template(a=thing("1")))
    after = template(outputs={"new": attr("b", "output"), "old": attr("a", "output")}, a=thing("2"), b=thing("b"))
    stack = engine.put(stack, after, reach=Reach(target=("a",)))
    new, old = engine.components.reader.outputs(stack)
    assert new["output_value"] is None and "left out b, which does not exist" in str(new["output_error"])
    assert "output_error" not in old
    assert "output_error" not in engine.components.reader.outputs(engine.put(stack, after))[0]


def test_health_of_what_is_left_out_stays(engine: Engine) -> None:
    stack = engine.create(three("1"))
    engine.mark(stack, "db", reason="disk errors")
    plan = planned(engine, stack, three("1"), reach=Reach(exclude=("db",)))
    assert entry(plan, "db").cause == "left out; it would be replaced: unhealthy: disk errors"
    stack = engine.put(stack, three("1"), reach=Reach(exclude=("db",)))
    assert engine.states(stack)["db"] == "CHECK_FAILED"


@pytest.mark.slow
@pytest.mark.parametrize("path", ["db", "web/1", "web"])
def test_replacements_that_are_asked_for(engine: Engine, path: str) -> None:
    before = template(
        db=thing("1"), user=thing(ref("db")), web=resource("OS::Heat::ResourceGroup", count=2, resource_def=thing("1"))
    )
    stack = engine.create(before)
    members = child(engine, stack, "web")
    plan = planned(engine, stack, before, reach=Reach(replace=(path,)))
    assert entry(plan, *path.split("/")).action == "replace"
    assert entry(plan, *path.split("/")).cause == "its replacement was asked for"
    was, inner = engine.ids(stack), engine.ids(members)
    stack = engine.put(stack, before, reach=Reach(replace=(path,)), plan_digest=plan.digest)
    assert stack.status is Status.COMPLETE and stack.restricted is None
    now = engine.ids(stack)
    assert {name for name in was if was[name] != now[name]} == ({path} & was.keys())
    if path == "web/1":
        assert {name for name, key in engine.ids(members).items() if inner[name] != key} == {"1"}
    assert not any("CHECK" in told for told in engine.told(stack))
    mark = engine.now_on(stack)
    engine.put(stack, before)
    assert not any("db" in told for told in engine.told(stack, mark)), "it is asked for once"


def test_what_must_not_be_replaced_leaves_nothing(engine: Engine) -> None:
    stack = engine.create(template(db=thing("1"), web=thing("1")))
    engine.components.protection.protect(engine.who, stack, "db", None)
    mark, rows = engine.now_on(stack), engine.rows(stack)
    with pytest.raises(DeletionProtected):
        engine.put(stack, template(db=thing("1"), web=thing("2")), reach=Reach(replace=("db",)))
    registry: Mapping[str, Any] = {"resource_registry": {"resources": {"web": {"restricted_actions": "replace"}}}}
    for ask in (planned, engine.put):
        with pytest.raises(StackValidationFailed, match="web: replace is restricted"):
            args = (engine, stack) if ask is planned else (stack,)
            ask(*args, template(db=thing("1"), web=thing("1")), environment=registry, reach=Reach(replace=("web",)))
    assert engine.now_on(stack) == mark and engine.rows(stack) == rows and engine.get(stack).updated_at is None


def test_a_replacement_of_what_is_left_out_is_refused(engine: Engine) -> None:
    stack = engine.create(three("1"))
    for reach in (Reach(target=("web",), replace=("db",)), Reach(exclude=("db",), replace=("db",))):
        with pytest.raises(HTTPBadRequest, match="db: to be replaced, but left out"):
            engine.put(stack, three("2"), reach=reach)


def test_a_retry_has_the_selection(engine: Engine) -> None:
    stack = engine.create(three("1"))
    after = three("2", flaky=thing(fail=True))
    stack = engine.put(stack, after, reach=Reach(target=("flaky",)))
    assert stack.status is Status.FAILED
    engine.stacks.retry(engine.who, stack)
    stack = engine.settle(stack)
    assert [engine.value(stack, name) for name in ("web", "db")] == ["1", "1"]
    assert stack.restricted is not None and not stack.restricted.reached


@pytest.mark.slow
def test_a_lock_counts_where_the_update_touches(engine: Engine) -> None:
    stack = engine.create(group(2, "1"))
    members = child(engine, stack, "web")
    engine.lock(members)
    touching = {"target": "web/1", "exclude": "other", "replace": "web/1"}
    for reach in (*(Reach(**{key: (path,)}) for key, path in touching.items()), Reach(replace=("web",))):
        with pytest.raises(StackLocked):
            engine.put(stack, group(2, "2"), reach=reach)
    stack = engine.put(stack, group(2, "2"), reach=Reach(target=("other",)))
    assert stack.status is Status.COMPLETE and {row.properties["value"] for row in engine.rows(members)} == {"1"}
    assert engine.get(members).lock is not None
    engine.unlock(members)
    assert engine.put(stack, group(2, "2")).restricted is None


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("is_reached", [False, True])
def test_a_rollback_leaves_untouched_members_of_a_touched_nested_stack(
    engine: Engine, depth: int, is_reached: bool
) -> None:
    """Parts of it left out earlier stay, or get their values back."""

    def made(value: str, **more: Any) -> Any:
        x, bad = thing(value, depends_on=None if is_reached else [*more]), {}
        if more:
            bad["bad"] = thing(fail=True, depends_on="x" if is_reached else None)
        inner = template(x=x, y=thing(value), **bad)
        files = {"c1.yaml": json.dumps(inner), "c2.yaml": json.dumps(template(n=resource("c1.yaml")))}
        return {"template": template(n=resource(f"c{depth}.yaml")), "files": files}

    stack = inner = engine.create(**made("1"))
    for _ in range(depth):
        inner = child(engine, inner, "n")
    path = "/".join(["n"] * depth + ["x"])
    stack = engine.put(stack, **made("2"), reach=Reach(exclude=(path,)))
    was, x = stack.restricted, engine.row(inner, "x")
    assert was is not None and was.left_out == (path,)
    stack = engine.put(stack, **made("3", bad=True), disable_rollback=False)
    assert (stack.verb, stack.status) == ("ROLLBACK", Status.COMPLETE) and stack.restricted == was
    assert (engine.value(inner, "x"), engine.value(inner, "y")) == ("1", "2")
    assert is_reached or engine.row(inner, "x") == x


def test_a_rollback_makes_and_deletes_nothing_that_was_left_out(engine: Engine) -> None:
    """A new resource goes, an old one stays, whatever the restored definition says."""
    stack = engine.create(template(old=thing("1"), a=thing("1")))
    stack = engine.put(stack, template(new=thing("1"), a=thing("2")), reach=Reach(target=("a",)))
    was, old = stack.restricted, engine.row(stack, "old")
    assert was is not None and {*was.left_out} == {"new", "old"}
    bad = template(old=thing("3"), new=thing("3"), bad=thing(fail=True, depends_on=["old", "new"]))
    stack = engine.put(stack, bad, disable_rollback=False)
    assert (stack.verb, stack.status) == ("ROLLBACK", Status.COMPLETE) and stack.restricted == was
    assert {*engine.states(stack)} == {"old", "a"}
    assert engine.ids(stack)["old"] == old.id
