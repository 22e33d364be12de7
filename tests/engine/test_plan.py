"""The update does what the plan says for each resource of a tree, or is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.errors import PlanChanged
from heatlite.engine.state.requests import PlannedResource, ShownPlan, StackRequest
from heatlite.store.records import StackRecord
from tests.databases import PLACES, dump
from tests.tables import few

from .conftest import ADMIN, Engine, attr, param, ref, resource, template, thing
from .test_nested import child

PAIR = json.dumps(
    template(
        parameters={"v": {"type": "string", "default": "v"}},
        outputs={"value": attr("a", "output"), "unchanged": attr("b", "output")},
        a=thing(param("v")),
        b=thing("b", depends_on="a"),
    )
)


def value(of: object, **more: Any) -> Any:
    return resource("OS::Heat::Value", value=of, **more)


def planned(engine: Engine, stack: StackRecord, document: object = None, **more: Any) -> ShownPlan:
    """The plan of a PUT, or of a PATCH where there is no template."""
    request = StackRequest(template=document, **more)  # type: ignore[arg-type]
    changes = engine.stacks.preview_update(engine.who, engine.get(stack), request, document is None, plan=True)
    assert changes.plan is not None
    return changes.plan


def entry(plan: ShownPlan, *path: str) -> PlannedResource:
    (found,) = [item for item in plan.resources if item.path == path]
    return found


def actions(plan: ShownPlan) -> dict[str, str]:
    """Path → action; what is kept is left out."""
    return {"/".join(item.path): item.action for item in plan.resources if item.action != "keep"}


def differences(item: PlannedResource) -> dict[str, tuple[object, object]]:
    return {found.name: (found.old, found.new) for found in item.differences}


# -- what is in it -------------------------------------------------------------------------------------


def test_each_resource_says_what_and_why(engine: Engine) -> None:
    before = template(
        same=thing(),
        changes=thing("1"),
        other=thing(update_replace_value="1"),
        uses=thing("u", update_replace_value=ref("other")),
        sick=thing(),
        goes=thing(depends_on="also_goes"),
        also_goes=thing(),
    )
    stack = engine.create(before)
    engine.mark(stack, "sick", reason="disk errors")
    after = template(
        same=thing(),
        changes=thing("2"),
        other=thing(update_replace_value="2"),
        uses=thing("u", update_replace_value=ref("other")),
        sick=thing(),
        comes=thing("new", keys={"metadata": {"m": 1}}),
    )
    plan = planned(engine, stack, after)
    assert actions(plan) == {
        "changes": "update",
        "other": "replace",
        "uses": "replace",
        "sick": "replace",
        "comes": "create",
        "goes": "delete",
        "also_goes": "delete",
    }
    assert differences(entry(plan, "changes")) == {"value": ("1", "2")}
    assert differences(entry(plan, "comes")) == {"value": (None, "new")}
    (found,) = entry(plan, "other").differences
    assert (found.old, found.new, found.replaces, found.because_of) == ("1", "2", True, ())
    (found,) = entry(plan, "uses").differences
    assert (found.new, found.is_open, found.replaces) == ("(known after the update)", True, True)
    assert found.because_of == ("other",)
    assert entry(plan, "uses").after == ("other",)
    assert entry(plan, "sick").cause == "unhealthy: disk errors"
    assert entry(plan, "sick").order == "create_first"
    names = [item.path[0] for item in plan.resources]
    assert names.index("other") < names.index("uses") < names.index("goes") < names.index("also_goes")
    assert entry(plan, "also_goes").after == ("goes",)


def test_a_failed_one_says_how_it_failed(engine: Engine) -> None:
    stack = engine.create(template(boom=thing(fail=True)))
    plan = planned(engine, stack, template(boom=thing()))
    assert entry(plan, "boom").cause == "CREATE failed: ValueError: resources.boom: Test Resource failed boom"


def test_the_order_of_a_replacement_is_told(engine: Engine) -> None:
    policy = {"update_policy": {"replacement": {"order": "delete_first"}}}
    stack = engine.create(template(a=thing(update_replace_value="1", keys=policy)))
    plan = planned(engine, stack, template(a=thing(update_replace_value="2", keys=policy)))
    assert entry(plan, "a").order == "delete_first"


def test_what_would_fail_says_so(engine: Engine) -> None:
    stack = engine.create(template(a=thing(update_replace_value="1")))
    block = {"resources": {"a": {"restricted_actions": "replace"}}}
    after = template(a=thing(update_replace_value="2"))
    plan = planned(engine, stack, after, environment={"resource_registry": block})
    assert actions(plan) == {"a": "restrict"}


def test_it_is_free_while_something_runs(engine: Engine) -> None:
    files = {"slow.yaml": json.dumps(template(a=thing(wait_secs=5), b=thing(depends_on="a")))}
    document = template(c=resource("slow.yaml"), d=thing(depends_on="c"))
    with engine.clock.held():
        stack = engine.create(document, wait=False, files=files)
        engine.begun(lambda: any(row.name == "c" and row.physical_id for row in engine.rows(stack)))
        plan = planned(engine, stack, document, files=files)
    assert actions(plan).keys() >= {"c", "c/b", "d"}
    engine.settle(stack)
    assert actions(planned(engine, stack, document, files=files)) == {}


def test_it_starts_from_what_is_there_where_the_update_does(engine: Engine) -> None:
    files = {"drifts.yaml": json.dumps(template(a=thing("v", live_value="w")))}
    document = template(c=resource("drifts.yaml"), b=thing("v", live_value="w"))
    stack = engine.create(document, files=files)
    assert actions(planned(engine, stack, document, files=files)) == {}
    plan = planned(engine, stack, document, files=files, converge=True)
    assert actions(plan) == {"c": "update", "c/a": "update", "b": "update"}
    assert differences(entry(plan, "c", "a")) == {"value": ("w", "v")}
    with pytest.raises(PlanChanged):
        engine.put(stack, document, files=files, plan_digest=plan.digest)
    engine.put(stack, document, files=files, converge=True, plan_digest=plan.digest)
    assert actions(planned(engine, stack, document, files=files, converge=True)) == {}


# -- nested stacks -------------------------------------------------------------------------------------


def test_the_members_of_a_nested_stack_are_in_it(engine: Engine) -> None:
    files = {"pair.yaml": PAIR}

    def document(text: str) -> Any:
        nested = resource("pair.yaml", v=text)
        return template(c=nested, d=value(attr("c", "value")), e=value(attr("c", "unchanged")))

    stack = engine.create(document("one"), files=files)
    assert actions(planned(engine, stack, document("one"), files=files)) == {}
    plan = planned(engine, stack, document("two"), files=files)
    assert actions(plan) == {"c": "update", "c/a": "update", "d": "update"}
    assert differences(entry(plan, "c", "a")) == {"value": ("one", "two")}
    assert entry(plan, "c", "a").physical_id == engine.row(child(engine, stack), "a").physical_id
    bare = template(c=resource("other.yaml"))
    other = {"other.yaml": json.dumps(template(b=thing("b", update_replace_value="x"), z=thing()))}
    plan = planned(engine, stack, bare, files=other)
    assert actions(plan) == {
        "c": "update", "c/b": "replace", "c/z": "create", "c/a": "delete", "d": "delete", "e": "delete",
    }  # fmt: skip


def test_one_that_is_new_replaced_or_gone_is_so_with_all_in_it(engine: Engine) -> None:
    files = {"t1.yaml": json.dumps(template(inner=resource("t2.yaml"))), "t2.yaml": PAIR}
    stack = engine.create(template(c=resource("t1.yaml"), g=resource("t2.yaml")), files=files)
    engine.mark(stack, "c", reason="why")
    document = template(c=resource("t1.yaml"), n=resource("t2.yaml"))
    plan = planned(engine, stack, document, files=files)
    assert actions(plan) == {
        "c": "replace", "c/inner": "replace", "c/inner/a": "replace", "c/inner/b": "replace",
        "n": "create", "n/a": "create", "n/b": "create",
        "g": "delete", "g/a": "delete", "g/b": "delete",
    }  # fmt: skip


def test_what_is_retained_stays_with_all_in_it(engine: Engine) -> None:
    files = {"pair.yaml": PAIR}
    retained = {"keys": {"deletion_policy": "Retain"}}
    stack = engine.create(
        template(c=resource("pair.yaml", **retained), d=resource("pair.yaml", **retained)), files=files
    )
    nested = [child(engine, stack, name) for name in ("c", "d")]
    engine.mark(stack, "d")
    document = template(d=resource("pair.yaml", **retained))
    plan = planned(engine, stack, document, files=files)
    assert actions(plan) == {"c": "delete", "d": "replace", "d/a": "create", "d/b": "create"}
    assert entry(plan, "c").cause == "the template does not have it; its object is retained"
    engine.put(stack, document, files=files, plan_digest=plan.digest)
    assert [engine.get(found).deleted_at for found in nested] == [None, None]
    assert [len(engine.rows(found)) for found in nested] == [2, 2]


def test_a_group_is_planned_as_it_will_be(engine: Engine) -> None:
    def group(count: int, text: str) -> Any:
        definition = {"type": "OS::Heat::TestResource", "properties": {"value": text}}
        return template(g=resource("OS::Heat::ResourceGroup", count=count, resource_def=definition))

    stack = engine.create(group(2, "%index%"))
    assert actions(planned(engine, stack, group(3, "%index%"))) == {"g": "update", "g/2": "create"}
    plan = planned(engine, stack, group(1, "x%index%"))
    assert actions(plan) == {"g": "update", "g/0": "update", "g/1": "delete"}


def test_what_is_open_in_a_group_is_open_in_its_members(engine: Engine) -> None:
    def group(text: str, size: object = 2) -> Any:
        given = {"value": attr("a", "output"), "client_name": text}
        definition = {"type": "OS::Heat::TestResource", "properties": given}
        return template(a=thing(text), g=resource("OS::Heat::ResourceGroup", count=size, resource_def=definition))

    stack = engine.create(group("1"))
    plan = planned(engine, stack, group("2"))
    assert actions(plan) == {"a": "update", "g": "update", "g/0": "update", "g/1": "update"}
    found = {"client_name": ("1", "2"), "value": ("1", "(known after the update)")}
    assert differences(entry(plan, "g", "1")) == found
    plan = planned(engine, stack, group("2", attr("a", "output")))
    assert entry(plan, "g").after == ("a",)
    assert entry(plan, "g", "1").action == "update", "how many there will be is open: those that are there are shown"


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after", "most", "in_service"), few([
    (3, 3, 2, 2), (2, 2, 2, 2), (4, 2, 2, 3), (2, 5, 1, 2), (3, 3, 1, 0), (1, 0, 1, 1),
]))  # fmt: skip
def test_a_rolling_update_makes_and_deletes_the_members_that_its_plan_says(
    engine: Engine, before: int, after: int, most: int, in_service: int
) -> None:
    def group(text: str, size: int) -> Any:
        rolling = {"max_batch_size": most, "min_in_service": in_service}
        given = {"resource": {"type": "OS::Heat::TestResource", "properties": {"value": text}}}
        sizes = {"min_size": 0, "max_size": 9, "desired_capacity": size}
        return template(g=resource("OS::Heat::AutoScalingGroup", **given, **sizes, rolling_updates=rolling))

    stack = engine.create(group("old", before))
    inner = engine.store.stacks.get(engine.row(stack, "g").physical_id or "")
    assert inner is not None
    old = engine.ids(inner)
    found = actions(planned(engine, stack, group("new", after)))
    engine.clock.pass_(1)
    engine.put(stack, group("new", after))
    new = engine.ids(inner)
    assert {name for name in old if found.get(f"g/{name}") == "delete"} == old.keys() - new.keys()
    assert {name for name in old if found.get(f"g/{name}") == "update"} == old.keys() & new.keys()
    assert list(found.values()).count("create") == len(new.keys() - old.keys())


def test_the_plan_of_a_scaling_group_is_the_same_each_time(engine: Engine) -> None:
    def group(size: int) -> Any:
        member = {"type": "OS::Heat::TestResource"}
        limits = {"min_size": size, "max_size": 5}
        return template(g=resource("OS::Heat::AutoScalingGroup", resource=member, **limits))

    stack = engine.create(group(1))
    plan = planned(engine, stack, group(3))
    assert sorted(actions(plan).values()) == ["create", "create", "update"]
    assert planned(engine, stack, group(3)) == plan


def test_heats_lists_take_the_tree_if_asked(engine: Engine) -> None:
    files = {"pair.yaml": PAIR}
    stack = engine.create(template(c=resource("pair.yaml")), files=files)
    request = StackRequest(template=template(c=resource("pair.yaml", v="2")), files=files)
    changes = engine.stacks.preview_update(engine.who, stack, request, existing=False)
    assert ([item.record.name for item in changes.updated], changes.unchanged) == (["c"], ())
    changes = engine.stacks.preview_update(engine.who, stack, request, existing=False, show_nested=True)
    assert [item.record.name for item in changes.updated] == ["c", "a"]
    (kept,) = changes.unchanged
    assert (kept.record.name, kept.stack.id, kept.stack.parent_resource) == ("b", child(engine, stack).id, "c")


# -- secrets --------------------------------------------------------------------------------------------

SECRET = {"type": "string", "hidden": True}


@pytest.mark.slow
def test_a_secret_never_shows_whatever_is_made_of_it(engine: Engine) -> None:
    inner = json.dumps(
        template(
            parameters={"p": {"type": "string"}, "own": {**SECRET, "default": "hunter-own"}},
            outputs={"o": param("p"), "own": param("own"), "facade": {"resource_facade": "metadata"}},
            a=thing(param("p")),
            b=value({"deep": [{"list_join": ["-", ["x", param("own")]]}, "clear"]}),
            f=value({"resource_facade": "metadata"}),
        )
    )
    member = {"type": "OS::Heat::TestResource", "properties": {"value": param("p")}}

    def document(clear: str) -> Any:
        return template(
            parameters={"p": SECRET, "q": {"type": "string", "default": "q"}},
            a=thing({"str_replace": {"template": "p=$p", "params": {"$p": param("p")}}}),
            b=value(attr("a", "output")),
            c=resource("inner.yaml", p=param("p"), keys={"metadata": {"m": param("p")}}),
            d=value([attr("c", "o"), attr("c", "own"), attr("c", "facade"), clear]),
            g=resource("OS::Heat::ResourceGroup", count=2, resource_def=member),
            h=value(attr("g", "output")),
            i=value({"digest": ["md5", param("p")]}),
            z=thing(clear, client_name=param("q")),
        )

    files = {"inner.yaml": inner}
    stack = engine.create(document("clear-1"), files=files, parameters={"p": "hunter-1"})
    for parameters in ({"p": "hunter-2"}, {"p": "hunter-1"}):
        plan = planned(engine, stack, document("clear-2"), files=files, parameters=parameters)
        text = repr(plan)
        assert "hunter" not in text
        assert "3fc0a7acf087f549ac2b266baf94b8b1" not in text
        assert differences(entry(plan, "z")) == {"value": ("clear-1", "clear-2")}
    assert differences(entry(plan, "d"))["value"] == (["******"] * 3 + ["clear-1"], ["******"] * 3 + ["clear-2"])
    plan = planned(engine, stack, document("clear-1"), files=files, parameters={"p": "hunter-2"})
    for path in (("a",), ("c", "a"), ("g", "0")):
        assert differences(entry(plan, *path)) == {"value": ("******", "******")}
    assert "hunter" not in repr(planned(engine, stack, template(), files=files))
    created = StackRequest(name="t", template=document("x"), files=files, parameters={"p": "hunter-3"})
    shown = engine.stacks.preview_create(engine.who, created, plan=True).plan
    assert shown is not None and "hunter" not in repr(shown)
    b = entry(shown, "c", "b").differences[0].new
    assert b == {"deep": ["******", "clear"]}


@pytest.mark.slow
@pytest.mark.skipif(not PLACES.are_files, reason="the simulated cloud lies beside a SQLite database")
def test_what_types_hold_secret_never_shows(plugins: Path, place: Path) -> None:
    def user(password: object) -> Any:
        return resource("OS::Keystone::User", password=password)

    files = {"inner.yaml": json.dumps(template(parameters={"p": {"type": "string"}}, a=user(param("p"))))}

    def document(number: int) -> Any:
        return template(
            origin=value(["from-far"]),
            literal=user(f"hunter-a{number}"),
            derived=user({"list_join": ["-", attr("origin", "value"), [f"{number}"]]}),
            inner=resource("inner.yaml", p=f"hunter-b{number}"),
            one=resource("OS::Heat::ResourceGroup", count=1, resource_def=user(f"hunter-c{number}")),
            none=resource("OS::Heat::ResourceGroup", count=0, resource_def=user(f"hunter-d{number}")),
        )

    engine = Engine(place, cloud="simulated")
    try:
        engine.who = ADMIN
        created = StackRequest(name="t", template=document(1), files=files)
        shown = engine.stacks.preview_create(engine.who, created, plan=True)
        assert "hunter" not in repr(shown)
        stack = engine.create(document(1), files=files)
        plan = planned(engine, stack, document(2), files=files)
        assert "hunter" not in repr(plan)
        for path in (("literal",), ("derived",), ("inner", "a"), ("one", "0")):
            assert differences(entry(plan, *path)) == {"password": ("******", "******")}
        assert "from-far" not in repr(plan)
        wrong = template(origin=value(["from-far"]), literal=user(attr("origin", "value")))
        cause = entry(planned(engine, stack, wrong), "literal").cause
        assert "must be a string" in cause and "from-far" not in cause
    finally:
        engine.close()


def test_a_nested_stack_keeps_its_own_secrets(engine: Engine) -> None:
    own = template(parameters={"own": {**SECRET, "default": "hunter"}}, outputs={"o": param("own"), "p": "clear"})
    files = {"own.yaml": json.dumps(own)}

    def document(text: str) -> Any:
        return template(c=resource("own.yaml"), d=value([attr("c", "o"), text]), e=thing(text))

    stack = engine.create(document("1"), files=files)
    assert engine.value(stack, "d") == ["hunter", "1"]
    plan = planned(engine, stack, document("2"), files=files)
    assert differences(entry(plan, "d")) == {"value": (["******", "1"], ["******", "2"])}
    assert differences(entry(plan, "e")) == {"value": ("1", "2")}


def test_a_default_that_is_hidden_at_the_top_is_hidden_below(engine: Engine) -> None:
    inner = json.dumps(template(parameters={"p": {"type": "string"}}, a=thing(param("p"))))
    files = {"outer.yaml": json.dumps(template(i=resource("inner.yaml"))), "inner.yaml": inner}
    document = template(parameters={"p": SECRET}, c=resource("outer.yaml"))
    stack = engine.create(document, files=files, environment={"parameter_defaults": {"p": "hunter-1"}})
    plan = planned(engine, stack, document, files=files, environment={"parameter_defaults": {"p": "hunter-2"}})
    assert differences(entry(plan, "c", "i", "a")) == {"value": ("******", "******")}


@pytest.mark.parametrize("hidden", [False, True])
def test_what_is_wrong_is_said_without_the_secret(engine: Engine, hidden: bool) -> None:
    parameters = {"p": {"type": "string", "default": "hunter", "hidden": hidden}}
    stack = engine.create(template(parameters=parameters, v=value(param("p"))))
    wrong = resource("OS::Heat::RandomString", length=attr("v", "value"))
    plan = planned(engine, stack, template(parameters=parameters, v=value(param("p")), r=wrong))
    assert ("hunter" in entry(plan, "r").cause) != hidden
    assert ("hidden parameters" in entry(plan, "r").cause) == hidden


def test_a_secret_that_decides_shows_neither_way(engine: Engine) -> None:
    def document(text: str) -> Any:
        made = template(
            parameters={"p": SECRET},
            a=thing({"if": ["yes", "hunter-a", "hunter-b"]}, client_name=text),
            only=thing("hunter-c", keys={"condition": "no"}),
        )
        made["conditions"] = {"yes": {"equals": [param("p"), "x"]}, "no": {"not": "yes"}}
        return made

    stack = engine.create(document("1"), parameters={"p": "x"})
    plan = planned(engine, stack, document("2"), parameters={"p": "y"})
    assert differences(entry(plan, "a")) == {"client_name": ("1", "2"), "value": ("******", "******")}
    assert "hunter-a" not in repr(plan) and "hunter-b" not in repr(plan)


# -- the digest -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_update_that_carries_the_digest_does_just_that(engine: Engine) -> None:
    files = {"pair.yaml": PAIR}
    stack = engine.create(template(c=resource("pair.yaml"), a=thing("1")), files=files)
    document = template(c=resource("pair.yaml"), a=thing("2"))
    plan = planned(engine, stack, document, files=files)
    assert planned(engine, stack, document, files=files).digest == plan.digest
    nested = child(engine, stack)
    engine.mark(nested, "b")
    seen = dump(engine.store)
    with pytest.raises(PlanChanged, match="is out of date"):
        engine.put(stack, document, files=files, plan_digest=plan.digest)
    assert dump(engine.store) == seen
    plan = planned(engine, stack, document, files=files)
    assert actions(plan) == {"c": "update", "c/b": "replace", "a": "update"}
    ids = engine.ids(nested)
    engine.put(stack, document, files=files, plan_digest=plan.digest)
    assert engine.value(stack, "a") == "2"
    assert {name for name, row in engine.ids(nested).items() if row != ids[name]} == {"b"}
