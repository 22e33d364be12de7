"""Rollbacks of nested stacks that earlier updates have left out: laws D5 and D7."""

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from msgspec import Struct

from heatlite.core.status import Status, Verb
from heatlite.engine.state.group_requests import Leave, ScaleIn, ScaleOut
from heatlite.engine.state.requests import Reach
from heatlite.store.records import ResourceRecord, StackRecord
from tests.tables import sampled

from .conftest import Engine, attr, param, ref, resource, template, thing
from .test_nested import child

LEFT = {"exclude": Reach(exclude=("n",)), "target": Reach(target=("a",))}
"""Selections that leave out `n` as a whole."""


def inner(value: str, bad: object = None) -> dict[str, Any]:
    """Parts that each value changes in place, replaces, makes and removes."""
    parts = {
        "x": thing(value, **({"action_wait_secs": {"update": 6}} if value == "1" else {})),
        "y": thing(value, update_replace=True),
        "z": thing(ref("y")),
        f"only{value}": thing(value, depends_on=["x", "z"]),
        "given": thing(param("text")),
    }
    return {**parts, "bad": bad} if bad else parts


def group_of(kind: str, value: str, bad: object) -> Any:
    policy = {"rolling_update": {"max_batch_size": 1}}
    member = resource("c1.yaml", text=value) if kind == "group of nested" else thing(value, update_replace=value == "3")
    count = 2 if value == "1" else 3
    if bad and kind == "group":
        member["properties"]["fail"] = True
    return resource("OS::Heat::ResourceGroup", count=count, resource_def=member, keys={"update_policy": policy})


def shaped(shape: str, value: str, at_end: object = None, within: object = None) -> dict[str, Any]:
    """A request. `at_end` is after all else, `within` in the innermost stack."""
    texts = {"text": {"type": "string"}}
    c1 = template(parameters=texts, outputs={"o": ref("x")}, **inner(value, within))
    c2 = template(parameters=texts, n=resource("c1.yaml", text=param("text")), w=thing(attr("n", "o")))
    files = {"c1.yaml": json.dumps(c1), "c2.yaml": json.dumps(c2)}
    if shape.startswith("group"):
        n = group_of(shape, value, within)
    else:
        n = resource("c2.yaml" if shape == "nested in nested" else "c1.yaml", text=value)
    n["metadata"] = {"value": value}
    n["deletion_policy"] = "Delete" if value == "1" else "Retain"
    parts = {"a": thing(value), "n": n, "user": thing(ref("n"))}
    if at_end:
        parts["last"] = {**at_end, "depends_on": ["a", "n", "user"]}  # type: ignore[dict-item]
    return {"template": template(**parts), "files": files}


class Kept(Struct, frozen=True):
    """State that a rollback must bring back."""

    objects: dict[str, Any]
    """Those that the update can change in place only, or has not to delete before it is rolled back."""
    rows: dict[str, Any]
    definitions: dict[str, Any]
    restricted: object


def tree(engine: Engine, stack: StackRecord, path: str = "") -> dict[str, tuple[StackRecord, ResourceRecord]]:
    found: dict[str, tuple[StackRecord, ResourceRecord]] = {}
    for row in engine.rows(stack):
        assert path + row.name not in found, "an old object is left"
        found[path + row.name] = stack, row
        nested = engine.store.stacks.get(row.physical_id or "")
        if nested is not None:
            found |= tree(engine, nested, f"{path}{row.name}/")
    return found


def kept(engine: Engine, stack: StackRecord) -> Kept:
    found = tree(engine, stack)
    stacks = {one.id: one for one, _ in found.values() if one.parent_id is not None}
    names: dict[Any, str] = {row.physical_id: path for path, (_, row) in found.items() if row.physical_id}

    def named(properties: dict[str, Any]) -> dict[str, Any]:
        return {key: names.get(value, value) if isinstance(value, str) else value for key, value in properties.items()}

    return Kept(
        {path: row.id for path, (_, row) in found.items() if path.rpartition("/")[2][0] not in "yo0123"},
        {
            path: (named(row.properties), row.metadata, row.type, row.deletion_policy, row.requires)
            for path, (_, row) in found.items()
        },
        {key: (one.template_id, one.environment, one.inherited) for key, one in stacks.items()},
        engine.get(stack).restricted,
    )


FAILS = thing(fail=True)
WAITS = thing(action_wait_secs={"create": -1})


def _fails(engine: Engine, stack: StackRecord, shape: str, value: str, **more: Any) -> StackRecord:
    return engine.put(stack, **shaped(shape, value, at_end=FAILS), disable_rollback=False, **more)


def _fails_within(engine: Engine, stack: StackRecord, shape: str, value: str, **more: Any) -> StackRecord:
    bad = {**FAILS, "depends_on": ["x", "y"]}
    return engine.put(stack, **shaped(shape, value, FAILS, bad), disable_rollback=False, **more)


def _cancelled(engine: Engine, stack: StackRecord, shape: str, value: str, **more: Any) -> StackRecord:
    with engine.clock.held():
        engine.put(stack, **shaped(shape, value, at_end=WAITS), wait=False, **more)
        engine.begun(lambda: engine.states(stack).get("last") == "CREATE_IN_PROGRESS")
        engine.cancel(stack, rollback=True, wait=False)
    return engine.settle(stack)


WAYS: dict[str, Callable[..., StackRecord]] = {
    "fails": _fails, "fails within": _fails_within, "is cancelled": _cancelled,
}  # fmt: skip
SHAPES = ("nested", "group", "group of nested", "nested in nested")


def left_out(engine: Engine, shape: str, key: str) -> tuple[StackRecord, Kept]:
    """A stack of which an update has left out `n` as a whole."""
    stack = engine.create(**shaped(shape, "1"))
    stack = engine.put(stack, **shaped(shape, "2"), reach=LEFT[key])
    assert stack.status is Status.COMPLETE, stack.status_reason
    assert stack.restricted is not None and "n" in stack.restricted.left_out
    return stack, kept(engine, stack)


def goes_back(engine: Engine, stack: StackRecord, before: Kept) -> None:
    """All is as before, and the next update of all does what was left out."""
    assert (stack.verb, stack.status) == ("ROLLBACK", Status.COMPLETE), stack.status_reason
    now = kept(engine, stack)
    assert now.rows == before.rows
    assert now.objects == before.objects
    assert now.definitions == before.definitions
    assert now.restricted == before.restricted


@pytest.mark.slow
@pytest.mark.parametrize("again", sampled([False, True], 1))
@pytest.mark.parametrize(("key", "shape", "way"), sampled(product(LEFT, SHAPES, WAYS), 5))
def test_a_rollback_puts_nested_stacks_back_to_their_own_definition(
    engine: Engine, key: str, shape: str, way: str, again: bool
) -> None:
    """`again`: the update that is rolled back leaves them out, too."""
    stack, before = left_out(engine, shape, key)
    more = {"reach": Reach(exclude=("n",))} if again else {}
    stack = WAYS[way](engine, stack, shape, "3", **more)
    goes_back(engine, stack, before)
    stack = engine.put(stack, **shaped(shape, "2"))
    assert (stack.status, stack.restricted) == (Status.COMPLETE, None), stack.status_reason
    assert kept(engine, stack).rows == kept(engine, engine.put(stack, **shaped(shape, "2"))).rows


@pytest.mark.slow
def test_what_was_left_out_twice_keeps_its_own_state(engine: Engine) -> None:
    """First a resource, then the nested stack with it: of two definitions."""
    stack = engine.create(**shaped("nested in nested", "1"))
    stack = engine.put(stack, **shaped("nested in nested", "2"), reach=Reach(exclude=("n/n/x", "n/n/given")))
    stack = engine.put(stack, **shaped("nested in nested", "3"), reach=Reach(exclude=("n",)))
    before = kept(engine, stack)
    assert {before.rows[path][0]["value"] for path in ("n/n/x", "n/n/given")} == {"1"}
    assert before.rows["n/n/y"][0]["value"] == "2"
    goes_back(engine, _fails(engine, stack, "nested in nested", "4"), before)


@pytest.mark.slow
def test_the_size_of_a_group_comes_back_with_it(engine: Engine) -> None:
    """An operation has set another size than the template's; the update forgets it."""
    stack = engine.create(**shaped("group", "1"))
    engine.components.groups.change(engine.who, engine.get(stack), "n", ScaleOut(2))
    engine.settle(child(engine, stack, "n"))
    assert len(engine.rows(child(engine, stack, "n"))) == 4
    stack = engine.put(stack, **shaped("group", "2"), reach=LEFT["exclude"])
    before = kept(engine, stack)
    stack = _fails(engine, stack, "group", "3")
    goes_back(engine, stack, before)
    stack = engine.put(stack, **shaped("group", "1"))
    assert len(engine.rows(child(engine, stack, "n"))) == 4


@pytest.mark.slow
@pytest.mark.parametrize("old", [True, False])
def test_what_was_neither_removed_nor_made_is_so_again(engine: Engine, old: bool) -> None:
    """`old`: `n` is there and not defined; else it is defined and not there."""
    with_n, without = shaped("nested in nested", "1" if old else "2"), {"template": template(a=thing("2"))}
    first, second = (with_n, without) if old else (without, with_n)
    stack = engine.create(**first)
    stack = engine.put(stack, **second, reach=Reach(exclude=("n",)))
    before = kept(engine, stack)
    assert ("n" in before.rows) is old and stack.restricted is not None
    goes_back(engine, _fails(engine, stack, "nested in nested", "3"), before)


@pytest.mark.slow
def test_an_unhealthy_member_keeps_its_object_and_its_mark(engine: Engine) -> None:
    stack = engine.create(**shaped("group of nested", "1"))
    group = child(engine, stack, "n")
    engine.mark(child(engine, group, "0"), "y", reason="disk errors")
    stack = engine.put(stack, **shaped("group of nested", "2"), reach=LEFT["exclude"])
    before, mark = kept(engine, stack), tree(engine, stack)["n/0/y"][1]
    request = shaped("group of nested", "3")
    request["template"]["resources"]["first"] = thing(fail=True)
    request["template"]["resources"]["n"]["depends_on"] = "first"
    stack = engine.put(stack, **request, disable_rollback=False)
    goes_back(engine, stack, before)
    assert tree(engine, stack)["n/0/y"][1] == mark


@pytest.mark.parametrize("kind", ["group", "group of nested"])
def test_a_group_that_is_defined_no_more_changes_its_size(engine: Engine, kind: str) -> None:
    """An update has left out its deletion."""
    stack, parts = engine.create(**shaped(kind, "1")), engine.components
    stack = engine.put(stack, template(a=thing("2")), reach=Reach(exclude=("n",)))
    group, sizes = child(engine, stack, "n"), [2]
    for change in (ScaleOut(1), ScaleIn(2)):
        parts.groups.change(engine.who, engine.get(stack), "n", change)
        engine.settle(group)
        assert engine.get(group).status is Status.COMPLETE
        sizes.append(len(engine.rows(group)))
    assert sizes == [2, 3, 1]
    if kind == "group":
        assert parts.leaving.plan(engine.who, engine.get(stack), "n", Leave((engine.rows(group)[0].name,))).resources
    assert {*engine.ids(engine.put(stack, template(a=thing("2"))))} == {"a"}


def test_an_object_that_was_deleted_first_is_made_again_as_it_was(engine: Engine) -> None:
    def made(value: str, **more: Any) -> Any:
        policy = {"update_policy": {"replacement": {"order": "delete_first"}}}
        return template(
            db=resource("OS::Heat::TestResource", value=value, update_replace=True, keys=policy),
            user=thing(ref("db")), a=thing(value), **more,
        )  # fmt: skip

    stack = engine.create(made("1"))
    stack = engine.put(stack, made("2"), reach=Reach(exclude=("db",)))
    was = stack.restricted
    stack = engine.put(stack, made("3", bad=thing(fail=True, depends_on="user")), disable_rollback=False)
    assert (stack.verb, stack.status, stack.restricted) == ("ROLLBACK", Status.COMPLETE, was)
    assert [engine.value(stack, name) for name in ("db", "a")] == ["1", "2"]
    assert engine.value(stack, "user") == engine.row(stack, "db").physical_id


def test_what_a_failed_create_has_not_made_is_not_there(engine: Engine) -> None:
    """Its row is older than the update that makes it."""
    first = template(bad=thing(fail=True), x=thing("1", depends_on="bad"))
    stack = engine.create(first)
    assert engine.states(stack)["x"] == "INIT_COMPLETE"
    stack = engine.put(stack, template(x=thing("2"), a=thing("2")), reach=Reach(target=("a",)))
    assert stack.status is Status.COMPLETE and stack.restricted is not None
    last = thing(fail=True, depends_on=["x", "a"])
    stack = engine.put(stack, template(x=thing("3"), a=thing("3"), last=last), disable_rollback=False)
    assert (stack.verb, stack.status) == ("ROLLBACK", Status.COMPLETE), stack.status_reason
    assert {row.name for row in engine.rows(stack) if row.physical_id is not None} == {"a"}


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("shape", ["nested", "nested in nested"])
def test_a_takeover_puts_back_the_same(engine: Engine, shape: str, restarts: int) -> None:
    stack, before = left_out(engine, shape, "exclude")
    inner = child(engine, stack, "n")
    inner = inner if shape == "nested" else child(engine, inner, "n")

    def goes() -> bool:
        return engine.get(stack).verb is Verb.ROLLBACK and engine.row(inner, "x").status is Status.IN_PROGRESS

    with engine.clock.held():
        engine.put(stack, **shaped(shape, "3", at_end=FAILS), disable_rollback=False, wait=False)
        for _ in range(restarts):
            engine.begun(goes)
            engine.close()
            engine.open()
    goes_back(engine, engine.settle(stack), before)
