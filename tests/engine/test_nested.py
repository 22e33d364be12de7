"""Stacks within stacks: made, changed, stopped and removed with their parents."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import RequestLimitExceeded, StackValidationFailed
from heatlite.core.status import ActionStatus, Control, Status, Verb, state
from heatlite.store.records import ActionRecord, StackRecord
from tests.engine.conftest import Engine, attr, param, ref, resource, template, thing
from tests.tables import few

pytestmark = pytest.mark.database


def text(document: Any) -> str:
    return json.dumps(document)


PAIR = text(
    template(
        parameters={"v": {"type": "string", "default": "v"}, "fail": {"type": "boolean", "default": False}},
        outputs={"value": attr("a", "output"), "both": [attr("a", "output"), ref("b")]},
        a=thing(param("v")),
        b=thing("b", depends_on="a", fail=param("fail")),
    )
)


def within(kind: str, **properties: object) -> str:
    """A template that does nothing but use another."""
    return text(
        template(
            parameters={name: {"type": "string"} for name in properties},
            outputs={"value": attr("inner", "value")},
            inner=resource(kind, **{name: param(name) for name in properties}),
        )
    )


def deep(depth: int, last: str = PAIR, **properties: object) -> dict[str, str]:
    """Files t1.yaml … within each other, `last` at the bottom."""
    files = {f"t{n}.yaml": within(f"t{n + 1}.yaml", **properties) for n in range(1, depth)}
    return {**files, f"t{depth}.yaml": last}


def children(engine: Engine, stack: StackRecord) -> dict[str, StackRecord]:
    """By the names of the resources that they are the objects of, from the top."""
    found = engine.store.stacks.descendants(engine.get(stack))
    return {str(child.parent_resource): child for child in found}


def child(engine: Engine, stack: StackRecord, name: str = "c") -> StackRecord:
    row = engine.row(stack, name)
    found = engine.store.stacks.get(row.physical_id or "")
    assert found is not None
    return found


def tree_states(engine: Engine, stack: StackRecord) -> set[str]:
    return {state(found.verb, found.status) for found in engine.store.stacks.descendants(engine.get(stack))}


def test_a_template_as_a_type_makes_a_stack(engine: Engine) -> None:
    stack = engine.create(
        template(
            outputs={"value": attr("after", "output"), "inside": attr("c", "resource.a.output"), "ref": ref("c")},
            c=resource("pair.yaml", v="one"),
            after=thing(attr("c", "value")),
        ),
        files={"pair.yaml": PAIR},
        timeout_mins=7,
        disable_rollback=False,
    )
    nested = child(engine, stack)
    row = engine.row(stack, "c")
    assert (nested.parent_id, nested.root_id, nested.parent_resource, nested.depth) == (stack.id, stack.id, "c", 1)
    assert nested.name == row.physical_name
    assert (nested.timeout_mins, nested.disable_rollback) == (7, True)
    assert state(nested.verb, nested.status) == "CREATE_COMPLETE"
    reference = f"arn:openstack:heat::demo:stacks/{nested.name}/{nested.id}"
    assert engine.outputs(stack) == {"value": "one", "inside": "one", "ref": reference}
    assert engine.told(nested) == [
        f"{nested.name} CREATE_IN_PROGRESS",
        "a CREATE_IN_PROGRESS",
        "a CREATE_COMPLETE",
        "b CREATE_IN_PROGRESS",
        "b CREATE_COMPLETE",
        f"{nested.name} CREATE_COMPLETE",
    ]
    assert engine.told(stack) == [
        "s CREATE_IN_PROGRESS",
        "c CREATE_IN_PROGRESS",
        "c CREATE_COMPLETE",
        "after CREATE_IN_PROGRESS",
        "after CREATE_COMPLETE",
        "s CREATE_COMPLETE",
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    few(
        [
            (("resource.a", "output"), "one"),
            (("resource.a.output",), "one"),
            (("resource.l", "value", "1"), "y"),
            (("resource.l.value", "1"), "y"),
            (("resource.i", "resource.a", "output"), "v"),
            (("resource.i.resource.a.output",), "v"),
            (("list", "1"), "y"),
        ]
    ),
)
def test_a_path_leads_into_it(engine: Engine, path: tuple[str, ...], expected: str) -> None:
    inner = template(
        outputs={"list": attr("l", "value")},
        a=thing("one"),
        l=resource("OS::Heat::Value", value=["x", "y"]),
        i=resource("pair.yaml"),
    )
    document = template(outputs={"o": attr("u", "output")}, c=resource("i.yaml"), u=thing(attr("c", *path)))
    stack = engine.create(document, files={"i.yaml": text(inner), "pair.yaml": PAIR})
    assert engine.outputs(stack) == {"o": expected}


def test_a_member_that_does_not_exist_is_an_error(engine: Engine) -> None:
    inner = template(outputs={"n": "zz"}, c=resource("pair.yaml"))
    outputs = {"o": attr("c", {"list_join": ["", ["resource.", attr("c", "value")]]})}  # type: ignore[dict-item]
    stack = engine.create(template(outputs=outputs, **inner["resources"]), files={"pair.yaml": PAIR})
    (shown,) = engine.components.reader.outputs(stack)
    assert shown["output_error"] == "Member 'v' not found in group resource 'c'."


FAULTY = text(template(outputs={"b": param("foo"), "OS::stack_id": param("foo")}, a=thing()))
"""Its outputs cannot be evaluated."""


def test_an_output_that_fails_fails_where_it_is_used(engine: Engine) -> None:
    document = template(outputs={"o": attr("parent", "b"), "ref": ref("parent")}, parent=resource("i.yaml"))
    stack = engine.create(document, files={"i.yaml": FAULTY})
    why = "Error in parent output b: The Parameter (foo) was not provided."
    failed, reference = engine.components.reader.outputs(stack)
    assert (failed["output_value"], failed["output_error"]) == (None, why)
    assert str(reference["output_value"]).endswith(str(engine.row(stack, "parent").physical_id))

    used = template(parent=resource("i.yaml"), use=thing(attr("parent", "b")))
    stack = engine.create(used, name="other", files={"i.yaml": FAULTY})
    assert state(stack.verb, stack.status) == "CREATE_FAILED"
    assert why in stack.status_reason


def test_its_output_may_be_its_reference(engine: Engine) -> None:
    inner = text(template(outputs={"OS::stack_id": attr("a", "output")}, a=thing("own")))
    stack = engine.create(template(outputs={"o": ref("c")}, c=resource("i.yaml")), files={"i.yaml": inner})
    assert engine.outputs(stack) == {"o": "own"}


def test_an_update_changes_within(engine: Engine) -> None:
    document = template(outputs={"o": attr("c", "both")}, c=resource("pair.yaml", v="one"))
    stack = engine.create(document, files={"pair.yaml": PAIR})
    nested, ids = child(engine, stack), engine.ids(child(engine, stack))
    b = engine.row(nested, "b").physical_id
    since, inside = engine.now_on(stack), engine.now_on(nested)
    document = template(outputs={"o": attr("c", "both")}, c=resource("pair.yaml", v="two"))
    stack = engine.put(stack, document, files={"pair.yaml": PAIR})
    assert child(engine, stack).id == nested.id
    assert engine.ids(nested) == ids
    assert engine.outputs(stack) == {"o": ["two", b]}
    assert engine.told(stack, since) == [
        "s UPDATE_IN_PROGRESS",
        "c UPDATE_IN_PROGRESS",
        "c UPDATE_COMPLETE",
        "s UPDATE_COMPLETE",
    ]
    assert engine.told(nested, inside) == [
        f"{nested.name} UPDATE_IN_PROGRESS",
        "a UPDATE_IN_PROGRESS",
        "a UPDATE_COMPLETE",
        f"{nested.name} UPDATE_COMPLETE",
    ]


def test_another_template_is_an_update_of_the_same_stack(engine: Engine) -> None:
    other = text(template(outputs={"value": "x"}, a=thing("v"), z=thing("z")))
    stack = engine.create(template(c=resource("pair.yaml")), files={"pair.yaml": PAIR})
    nested, a = child(engine, stack), engine.ids(child(engine, stack))["a"]
    stack = engine.put(stack, template(c=resource("other.yaml")), files={"other.yaml": other})
    assert child(engine, stack).id == nested.id
    assert engine.states(nested) == {"a": "CREATE_COMPLETE", "z": "CREATE_COMPLETE"}
    assert engine.ids(nested)["a"] == a


def test_an_empty_patch_heals_within(engine: Engine) -> None:
    stack = engine.create(template(c=resource("pair.yaml")), files={"pair.yaml": PAIR})
    nested, ids = child(engine, stack), engine.ids(child(engine, stack))
    engine.mark(nested, "a")
    stack = engine.patch(stack)
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
    after = engine.ids(nested)
    assert after["a"] != ids["a"] and child(engine, stack).id == nested.id


def test_a_marked_one_is_replaced_whole(engine: Engine) -> None:
    stack = engine.create(template(c=resource("pair.yaml")), files={"pair.yaml": PAIR})
    nested = child(engine, stack)
    engine.mark(stack, "c")
    stack = engine.patch(stack)
    assert child(engine, stack).id != nested.id
    assert engine.get(nested).deleted_at is not None


def test_one_that_is_gone_is_made_again(engine: Engine) -> None:
    stack = engine.create(template(c=resource("pair.yaml")), files={"pair.yaml": PAIR})
    nested = child(engine, stack)
    engine.delete(nested)
    stack = engine.patch(stack)
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
    assert child(engine, stack).id != nested.id


@pytest.mark.slow
def test_what_the_template_drops_goes_with_all_within(engine: Engine) -> None:
    files = deep(3)
    stack = engine.create(template(c=resource("t1.yaml"), stays=thing()), files=files)
    nested = engine.store.stacks.descendants(stack)
    assert len(nested) == 3
    stack = engine.put(stack, template(stays=thing()), files=files)
    assert engine.store.stacks.descendants(stack) == []
    assert all(engine.get(found).deleted_at is not None for found in nested)
    assert all(engine.rows(found) == [] for found in nested)


@pytest.mark.slow
def test_delete_takes_the_tree(engine: Engine) -> None:
    stack = engine.create(template(c=resource("t1.yaml"), d=resource("t2.yaml")), files=deep(4))
    assert len(engine.store.stacks.descendants(stack)) == 7
    stack = engine.delete(stack)
    assert stack.deleted_at is not None
    assert engine.store.stacks.descendants(stack) == []


@pytest.fixture
def one_slot(plugins: Path, place: Path) -> Iterator[Engine]:
    engine = Engine(place, engine_slots=1)
    yield engine
    engine.close()


@pytest.mark.slow
def test_one_worker_is_enough_for_any_depth(one_slot: Engine) -> None:
    engine = one_slot
    stack = engine.create(template(outputs={"o": attr("c", "value")}, c=resource("t1.yaml")), files=deep(5))
    assert engine.outputs(stack) == {"o": "v"}
    assert [found.depth for found in engine.store.stacks.descendants(stack)] == [1, 2, 3, 4, 5]
    assert state(*(lambda s: (s.verb, s.status))(engine.patch(stack))) == "UPDATE_COMPLETE"
    assert engine.delete(stack).deleted_at is not None


@pytest.mark.slow
def test_many_wait_without_a_thread(one_slot: Engine) -> None:
    engine = one_slot
    count = 64
    small = text(template(a=resource("OS::Heat::Value", value=param("OS::stack_id"))))
    many = template(**{f"c{n}": resource("small.yaml") for n in range(count)})
    stack = engine.create(many, files={"small.yaml": small})
    assert state(stack.verb, stack.status) == "CREATE_COMPLETE"
    nested = engine.store.stacks.descendants(stack)
    assert len(nested) == count and tree_states(engine, stack) == {"CREATE_COMPLETE"}
    engine.delete(stack)
    assert engine.store.stacks.descendants(stack) == []


@pytest.mark.slow
def test_what_only_waits_keeps_nobody_out(one_slot: Engine) -> None:
    engine = one_slot
    slow = template(a=thing(action_wait_secs={"create": 1000}))
    with engine.clock.held():
        waiting = [engine.create(slow, name=f"s{n}", wait=False) for n in range(20)]
        quick = engine.create(template(c=resource("pair.yaml")), name="quick", files={"pair.yaml": PAIR})
        assert state(quick.verb, quick.status) == "CREATE_COMPLETE"
        engine.wait_for(lambda: all(engine.states(stack) == {"a": "CREATE_IN_PROGRESS"} for stack in waiting))
        engine.delete(waiting[0])
    for stack in waiting[1:]:
        settled = engine.settle(stack)
        assert state(settled.verb, settled.status) == "CREATE_COMPLETE"


def test_a_failure_names_its_root_cause(engine: Engine) -> None:
    stack = engine.create(template(c=resource("t1.yaml", fail="true")), files=deep(3, fail="true"))
    cause = "resources.c.resources.inner.resources.inner.resources.b: Test Resource failed b"
    assert stack.status_reason == f"Resource CREATE failed: ValueError: {cause}"
    assert engine.row(stack, "c").status_reason == f"ValueError: {cause}"
    assert tree_states(engine, stack) == {"CREATE_FAILED"}


def test_what_had_begun_when_another_failed_may_finish(engine: Engine) -> None:
    slow = text(template(a=thing(wait_secs=5)))
    stack = engine.create(template(boom=thing(fail=True), c=resource("slow.yaml")), files={"slow.yaml": slow})
    assert stack.status_reason == "Resource CREATE failed: ValueError: resources.boom: Test Resource failed boom"
    assert engine.states(stack) == {"boom": "CREATE_FAILED", "c": "CREATE_COMPLETE"}
    assert tree_states(engine, stack) == {"CREATE_COMPLETE"}


def test_a_failed_one_is_updated_in_place(engine: Engine) -> None:
    stack = engine.create(template(c=resource("pair.yaml", fail=True)), files={"pair.yaml": PAIR})
    nested, ids = child(engine, stack), engine.ids(child(engine, stack))
    assert state(stack.verb, stack.status) == "CREATE_FAILED"
    stack = engine.put(stack, template(c=resource("pair.yaml", fail=False)), files={"pair.yaml": PAIR})
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
    assert child(engine, stack).id == nested.id
    after = engine.ids(nested)
    assert after["a"] == ids["a"] and after["b"] != ids["b"]


@pytest.mark.slow
def test_a_rollback_takes_them_back(engine: Engine) -> None:
    document = template(c=resource("pair.yaml", v="one"), d=thing("d", depends_on="c"))
    stack = engine.create(document, files={"pair.yaml": PAIR}, disable_rollback=False)
    nested = child(engine, stack)
    document = template(
        c=resource("pair.yaml", v="two"),
        d=thing("d", depends_on="c"),
        new=resource("pair.yaml", depends_on="c"),
        bad=thing(depends_on="new", fail=True),
    )
    stack = engine.put(stack, document, files={"pair.yaml": PAIR})
    assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE"
    assert [found.id for found in engine.store.stacks.descendants(stack)] == [nested.id]
    assert engine.value(nested, "a") == "one"
    assert set(engine.states(stack)) == {"c", "d"}


SLOW = text(
    template(
        parameters={"v": {"type": "string", "default": "v"}},
        outputs={"value": attr("a", "output")},
        a=thing(param("v"), action_wait_secs={"create": 1000, "update": 1000}),
        b=thing("b", depends_on="a"),
    )
)


def actions(engine: Engine, status: ActionStatus) -> int:
    ((count,),) = engine.store.database.read(f"SELECT COUNT(*) FROM action WHERE status = '{status}'")
    return int(count)


def waiting_at(engine: Engine, depth: int) -> bool:
    """True if the last of `depth` nested stacks works and all others are parked."""
    return (actions(engine, ActionStatus.WAITING), actions(engine, ActionStatus.RUNNING)) == (depth, 1)


@pytest.mark.parametrize("depth", few([1, 4]))
@pytest.mark.parametrize("rollback", few([False, True]))
def test_a_cancel_reaches_the_bottom(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, depth: int, rollback: bool
) -> None:
    heard: set[str] = set()
    asked = engine.server.store.claims.control_of

    def hear(action: ActionRecord) -> Control | None:
        found = asked(action)
        heard.add(action.stack_id)
        return found

    monkeypatch.setattr(engine.server.store.claims, "control_of", hear)
    files = deep(depth, SLOW, v="x")
    before = deep(depth, PAIR, v="x")
    stack = engine.create(template(c=resource("t1.yaml", v="one")), files=before)
    bottom = engine.store.stacks.descendants(stack)[-1]
    with engine.clock.held():
        stack = engine.put(stack, template(c=resource("t1.yaml", v="two")), wait=False, files=files)
        engine.begun(lambda: waiting_at(engine, depth))
        engine.stacks.cancel(engine.who, engine.get(stack), rollback)
        # What changes in place may finish, within bounds; nothing new begins. Time goes on when the last has heard.
        engine.wait_for(lambda: bottom.id in heard)
    stack = engine.settle(stack)
    if rollback:
        assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE"
        assert engine.value(bottom, "a") == "one"
    else:
        assert state(stack.verb, stack.status) == "UPDATE_FAILED"
        assert tree_states(engine, stack) == {"UPDATE_FAILED"}


@pytest.mark.slow
@pytest.mark.parametrize("rollback", few([False, True]))
@pytest.mark.parametrize("restarted", few([False, True]))
def test_one_worker_is_enough_for_a_cancel(one_slot: Engine, rollback: bool, restarted: bool) -> None:
    """A stopped parent needs no thread while its nested stacks stop; then none runs."""
    engine = one_slot
    stack = engine.create(template(c=resource("t1.yaml", v="one")), files=deep(3, PAIR, v="x"))
    with engine.clock.held():
        engine.put(stack, template(c=resource("t1.yaml", v="two")), wait=False, files=deep(3, SLOW, v="x"))
        engine.begun(lambda: waiting_at(engine, 3))
        engine.stacks.cancel(engine.who, engine.get(stack), rollback)
        if restarted:
            engine.close()
            engine.open()
    stack = engine.settle(stack)
    assert state(stack.verb, stack.status) == ("ROLLBACK_COMPLETE" if rollback else "UPDATE_FAILED")
    nested = engine.store.stacks.descendants(stack)
    assert engine.store.actions.live([found.id for found in nested]) == []
    if rollback:
        assert tree_states(engine, stack) == {"UPDATE_COMPLETE"}
        assert engine.value(nested[-1], "a") == "one"
    else:
        # What was under way may have ended before it heard of the cancel.
        assert tree_states(engine, stack) <= {"UPDATE_FAILED", "UPDATE_COMPLETE"}


def test_nested_stacks_get_on_beside_what_takes_long(one_slot: Engine) -> None:
    engine = one_slot
    with engine.clock.held():
        slow = thing(wait_secs=1000)
        stack = engine.create(template(c=resource("t1.yaml"), slow=slow), files=deep(3), wait=False)
        engine.begun(lambda: tree_states(engine, stack) == {"CREATE_COMPLETE"})
        assert engine.states(stack)["slow"] == "CREATE_IN_PROGRESS"
    stack = engine.settle(stack)
    assert state(stack.verb, stack.status) == "CREATE_COMPLETE"


@pytest.mark.parametrize("depth", few([1, 4]))
def test_a_delete_cuts_everything_short(engine: Engine, depth: int) -> None:
    with engine.clock.held():
        files = deep(depth, SLOW)
        stack = engine.create(template(c=resource("t1.yaml")), wait=False, files=files)
        engine.begun(lambda: waiting_at(engine, depth))
        stack = engine.delete(stack)
    assert stack.deleted_at is not None
    assert engine.store.stacks.descendants(stack) == []


@pytest.mark.parametrize("depth", few([1, 4]))
def test_the_timeout_of_the_root_counts(engine: Engine, depth: int) -> None:
    stack = engine.create(template(c=resource("t1.yaml")), files=deep(depth, SLOW), timeout_mins=1)
    assert state(stack.verb, stack.status) == "CREATE_FAILED"
    assert "Timed out" in stack.status_reason
    assert tree_states(engine, stack) == {"CREATE_FAILED"}


@pytest.mark.parametrize("depth", few([1, 4]))
def test_another_process_goes_on(engine: Engine, depth: int) -> None:
    with engine.clock.held():
        stack = engine.create(template(c=resource("t1.yaml")), wait=False, files=deep(depth, SLOW))
        engine.begun(lambda: waiting_at(engine, depth))
        ids = [found.id for found in engine.store.stacks.descendants(stack)]
        engine.close()
        engine.open()
        engine.begun(lambda: waiting_at(engine, depth))
    stack = engine.settle(stack)
    assert state(stack.verb, stack.status) == "CREATE_COMPLETE"
    assert [found.id for found in engine.store.stacks.descendants(stack)] == ids


@pytest.mark.slow
def test_check_goes_through_the_tree(engine: Engine) -> None:
    document = template(c=resource("t1.yaml", fail="false"))
    files = deep(3, fail="false")
    stack = engine.create(document, files=files)
    assert engine.check(stack).status is Status.COMPLETE
    assert tree_states(engine, stack) == {"CHECK_COMPLETE"}
    bottom = engine.store.stacks.descendants(stack)[-1]
    engine.put_row(bottom, "a", Verb.UPDATE, Status.FAILED, "broken")
    broken = dict(engine.row(bottom, "b").properties, fail=True)
    with engine.store.transaction():
        engine.store.resources.save_many([replace(engine.row(bottom, "b"), properties=broken)])
    stack = engine.check(stack)
    assert state(stack.verb, stack.status) == "CHECK_FAILED"
    assert "resources.c.resources.inner.resources.inner.resources.b: Test Resource failed b" in stack.status_reason
    assert tree_states(engine, stack) == {"CHECK_FAILED"}
    ids = engine.ids(bottom)
    stack = engine.patch(stack)
    assert engine.ids(bottom)["b"] != ids["b"], "its members decide"
    assert engine.store.stacks.descendants(stack)[-1].id == bottom.id


@pytest.mark.slow
def test_the_environment_goes_down_and_parameters_do_not(engine: Engine) -> None:
    given = {"p": {"type": "string"}}
    inner = text(template(parameters=given, outputs={"o": attr("x", "output")}, x=thing(param("p"))))
    outer = text(template(outputs={"o": attr("y", "o")}, y=resource("My::Inner")))
    document = template(
        parameters={"p": {"type": "string"}}, outputs={"o": attr("c", "o"), "p": param("p")}, c=resource("My::Outer")
    )
    environment = {
        "parameters": {"p": "root's"},
        "parameter_defaults": {"p": "default"},
        "resource_registry": {"My::Outer": "outer.yaml", "My::Inner": "inner.yaml"},
    }
    files = {"inner.yaml": inner, "outer.yaml": outer}
    stack = engine.create(document, environment=environment, files=files)
    assert engine.outputs(stack) == {"o": "default", "p": "root's"}
    engine.close()
    engine.open()  # nothing of it is only in memory
    assert state(*(lambda s: (s.verb, s.status))(engine.patch(stack))) == "UPDATE_COMPLETE"
    assert engine.outputs(stack) == {"o": "default", "p": "root's"}


def test_files_merge_the_defaults_of_nested_stacks(engine: Engine) -> None:
    given = {"names": {"type": "comma_delimited_list", "default": "none"}}
    joined = {"list_join": ["+", param("names")]}
    files = {
        "inner.yaml": text(template(parameters=given, outputs={"o": attr("x", "output")}, x=thing(joined))),
        "one.yaml": "parameter_defaults: {names: a}\nparameter_merge_strategies: {names: merge}",
        "two.yaml": "parameter_defaults: {names: 'b,c'}\nparameter_merge_strategies: {names: merge}",
    }
    document = template(outputs={"o": attr("c", "o")}, c=resource("inner.yaml"))
    stack = engine.create(document, files=files, environment_files=("one.yaml", "two.yaml"))
    assert engine.outputs(stack) == {"o": "a+b+c"}


def test_a_facade_is_what_it_stands_for(engine: Engine) -> None:
    inner = text(
        template(
            parameters={"value": {"type": "string"}},
            outputs={"output": {"resource_facade": "metadata"}, "policy": {"resource_facade": "deletion_policy"}},
            real=resource("OS::Heat::TestResource", value=param("value")),
        )
    )
    document = template(
        outputs={"o": attr("c", "output"), "policy": attr("c", "policy")},
        c=resource("OS::Heat::TestResource", value="v", keys={"metadata": {"a": 1}}),
    )
    environment = {"resource_registry": {"OS::Heat::TestResource": "facade.yaml"}}
    stack = engine.create(document, environment=environment, files={"facade.yaml": inner})
    assert engine.outputs(stack) == {"o": {"a": 1}, "policy": "Delete"}
    assert engine.row(child(engine, stack), "real").type == "OS::Heat::TestResource"


def test_a_template_that_includes_itself_is_refused(engine: Engine) -> None:
    with pytest.raises(StackValidationFailed, match="includes itself"):
        engine.create(template(c=resource("t.yaml")), files={"t.yaml": text(template(c=resource("t.yaml")))})
    assert engine.store.stacks.by_name("demo", "s") is None


ENDLESS = r"includes itself|depth exceeds|could not be found"
"""Within a template that a mapping puts in a type's place, the type is what it is without the mapping."""


def looping(kind: str = "a.yaml", **properties: object) -> str:
    """A template that uses a type, and passes its parameter on."""
    parameters = {"v": {"type": "string", "default": "v"}}
    return text(template(parameters=parameters, inner=resource(kind, **properties)))


@pytest.mark.parametrize(
    "files",
    few(
        [
            {"a.yaml": looping("b.yaml"), "b.yaml": looping("c.yaml"), "c.yaml": looping("a.yaml")},
            {"a.yaml": looping("OS::Heat::ResourceGroup", count=1, resource_def={"type": "a.yaml"})},
            {"a.yaml": looping("a.yaml", v={"str_replace": {"template": "vx", "params": {"v": param("v")}}})},
            {"a.yaml": looping("My::Type")},
            {"a.yaml": looping("My::Other"), "b.yaml": looping("My::Type")},
        ]
    ),
    ids=["in a circle", "through a group", "with another value each time", "through a mapping", "through mappings"],
)
def test_nothing_is_made_of_what_never_ends(engine: Engine, files: dict[str, str]) -> None:
    registry: Any = {"resource_registry": {"My::Type": "a.yaml", "My::Other": "b.yaml"}}
    files = {"b.yaml": PAIR, **files}
    with pytest.raises((StackValidationFailed, RequestLimitExceeded), match=ENDLESS):
        engine.create(template(c=resource("a.yaml")), files=files, environment=registry)
    assert not engine.store.database.read("SELECT id FROM stack")
    stack = engine.create(template(a=thing()))
    before = engine.get(stack)
    with pytest.raises((StackValidationFailed, RequestLimitExceeded), match=ENDLESS):
        engine.put(stack, template(a=thing(), c=resource("a.yaml")), files=files, environment=registry)
    assert engine.get(stack) == before


def test_too_deep_is_refused(engine: Engine) -> None:
    with pytest.raises(RequestLimitExceeded, match="Recursion depth exceeds 5"):
        engine.create(template(c=resource("t1.yaml")), files=deep(6))


def test_a_retained_stack_does_not_count_in_the_limit_of_its_former_tree(plugins: Path, place: Path) -> None:
    engine = Engine(place, max_resources_per_stack=4)
    try:
        kept = resource("pair.yaml", v="1", keys={"deletion_policy": "Retain"})
        stack = engine.create(template(c=kept), files={"pair.yaml": PAIR})
        stack = engine.put(stack, template(w=thing()))
        assert len(engine.store.stacks.descendants(stack)) == 1
        anew = template(w=thing(), d=resource("pair.yaml", v="2"))
        stack = engine.put(stack, anew, files={"pair.yaml": PAIR})
        assert (stack.verb, stack.status) == (Verb.UPDATE, Status.COMPLETE), stack.status_reason
    finally:
        engine.close()


def test_the_limit_of_resources_holds_for_the_tree(plugins: Path, place: Path) -> None:
    engine = Engine(place, max_resources_per_stack=12)
    try:
        many = template(**{f"c{n}": resource("pair.yaml", v=f"{n}") for n in range(6)})
        with pytest.raises(RequestLimitExceeded, match="Maximum resources per stack exceeded: 12"):
            engine.create(many, files={"pair.yaml": PAIR})
    finally:
        engine.close()
