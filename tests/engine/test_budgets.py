"""Budgets of values, rows and answers: small inputs make no large outputs.

Counted, not timed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.config import Settings
from heatlite.core.errors import RequestLimitExceeded
from heatlite.core.json import dump, size
from heatlite.core.status import Status, Verb
from heatlite.engine.state.requests import StackRequest
from heatlite.resources.heat.groups import members
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.store.writes.large_values import LARGE_VALUE_GRACE
from heatlite.template import expression

from .conftest import Engine, attr, ref, resource, template

UNIT = 32 * 1024
"""The limits here are as many of these as they are MiB by default: 8 for a resource, 64 for a stack."""


@pytest.fixture
def engine(plugins: Path, place: Path) -> Iterator[Engine]:
    engine = Engine(place, max_resource_data=8 * UNIT, max_stack_data=64 * UNIT)
    yield engine
    engine.close()


def test_the_limits_unless_chosen_otherwise() -> None:
    settings = Settings("")
    assert (settings.max_resource_data, settings.max_stack_data) == (8 << 20, 64 << 20)


def value(of: object) -> Any:
    return resource("OS::Heat::Value", value=of)


def later(name: str) -> Any:
    """A parameter's value unknown to every check: the resource `tiny` is part of it."""
    return {"list_join": ["", [{"get_param": name}, {"get_attr": ["tiny", "value"]}]]}


def with_parameter(**resources: Any) -> Any:
    made = template(**resources)
    made["parameters"] = {"p": {"type": "string"}}
    return made


def copies(count: int, of: object) -> Any:
    return {f"v{number}": value(of) for number in range(count)}


P = {"get_param": "p"}
MUCH: Any = {"parameters": {"p": "z" * UNIT}}


@pytest.mark.slow
def test_values_that_are_known_are_refused_before_anything_is_made(engine: Engine) -> None:
    made = with_parameter(**copies(80, P))
    for name in ("create", "preview_create"):
        with pytest.raises(RequestLimitExceeded, match=r"more than 2097152 (characters of JSON )?.*max_stack_data"):
            getattr(engine.stacks, name)(engine.who, StackRequest(name="s", template=made, environment=MUCH))
    assert not engine.store.stacks.list("demo", StackQuery())
    stack = engine.create(with_parameter(**copies(60, P)), environment=MUCH)
    assert stack.status is Status.COMPLETE, stack.status_reason
    with pytest.raises(RequestLimitExceeded, match="max_stack_data"):
        engine.put(stack, made, environment=MUCH)
    assert engine.get(stack).verb is Verb.CREATE


def test_metadata_that_is_known_counts(engine: Engine) -> None:
    made = with_parameter(**{f"v{number}": {**value("x"), "metadata": {"m": P}} for number in range(80)})
    with pytest.raises(RequestLimitExceeded, match="max_stack_data"):
        engine.create(made, environment=MUCH)


def test_nested_stacks_that_are_known_to_hold_too_much_are_refused(engine: Engine) -> None:
    with_default = template(**copies(6, P))
    with_default["parameters"] = {"p": {"type": "string", "default": "z" * (UNIT // 2)}}
    empty = with_parameter(v=value("x"))
    member = {"type": "OS::Heat::Value", "properties": {"value": [P, "%index%"]}}
    plain = {"type": "OS::Heat::Value", "properties": {"value": P}}
    defaults: Any = {"parameter_defaults": {"p": "z" * UNIT}}
    for made, environment in (
        (tree_of(60), None),
        (template(**{f"m{number}": resource("m.yaml") for number in range(6)}), None),
        (template(**{f"e{number}": resource("e.yaml") for number in range(80)}), defaults),
        (with_parameter(g=resource("OS::Heat::ResourceGroup", count=80, resource_def=member)), MUCH),
        (with_parameter(g=resource("OS::Heat::ResourceGroup", count=80, resource_def=plain)), MUCH),
    ):
        files = {"n.yaml": dump(with_default), "m.yaml": dump(tree_of(10)), "e.yaml": dump(empty)}
        with pytest.raises(RequestLimitExceeded, match="and of those nested with it would come to more than"):
            engine.create(made, environment=environment, files=files)


@pytest.mark.slow
def test_a_stack_beyond_the_limit_is_not_refused_to_shrink(engine: Engine, place: Path) -> None:
    stack = engine.create(with_parameter(**copies(60, P)), environment=MUCH)
    engine.close()
    engine.settings = replace(engine.settings, max_stack_data=32 * UNIT)
    engine.open()
    stack = engine.put(stack, with_parameter(**copies(50, P)), environment=MUCH)
    assert stack.status is Status.COMPLETE, stack.status_reason


def doubling(count: int, of: object = ["x"], end: str = "") -> Any:
    """Each resource holds the one before it twice."""
    resources = {"v0": value(of)}
    for number in range(1, count + 1):
        before = {"get_attr": [f"v{number - 1}", "value"]}
        resources[f"v{number}"] = value({"list_concat": [before, before]} if end else [before, before])
    return template(**resources)


@pytest.mark.slow
def test_values_that_double_stop_at_the_limit(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def counting(value: object, most: int) -> int:
        counted.append(size(value, most))
        return counted[-1]

    monkeypatch.setattr(expression, "json_size", counting)
    stack = engine.create(doubling(40))
    assert stack.status is Status.FAILED
    assert "The references bring more than" in stack.status_reason or "The values come to more than" in (
        stack.status_reason
    )
    assert "262144 characters of JSON" in stack.status_reason
    # Some powers of two, and of the last one no more than it takes to see that it is too large.
    assert sum(counted) < 12 * 8 * UNIT
    rows = engine.store.resources.of(stack.id)
    assert sum(len(dump(row.properties)) for row in rows) < 17 * UNIT
    assert sum(row.status is Status.FAILED for row in rows) == 1


def test_a_resource_of_too_much_says_so(engine: Engine) -> None:
    many = [{"get_attr": ["a", "value"]}] * 9
    for number, much in enumerate((value(many), {**value("y"), "metadata": {"m": many}})):
        stack = engine.create(template(a=value("x" * UNIT), b=much), f"s{number}")
        assert engine.states(stack) == {"a": "CREATE_COMPLETE", "b": "CREATE_FAILED"}
        (row,) = engine.store.resources.by_name(stack.id, ["b"])
        assert row.status_reason == (
            "StackValidationFailed: resources.b: The values come to more than 262144 characters of JSON."
        )


@pytest.mark.slow
def test_references_within_a_function_count(engine: Engine) -> None:
    """Arguments of functions are searched: no more than a resource may hold."""
    many = [{"get_attr": ["a", "value"]}] * 5000
    digest = {"digest": ["md5", {"list_join": ["", many]}]}
    stack = engine.create(template(a=value(["x"] * (UNIT // 4)), b=value(digest)))
    (row,) = engine.store.resources.by_name(stack.id, ["b"])
    assert row.status_reason == (
        "StackValidationFailed: resources.b: The references bring more than 1048576 characters of JSON."
    )


@pytest.mark.slow
def test_the_rows_of_a_stack_have_a_limit_together(engine: Engine) -> None:
    made = with_parameter(tiny=value("x"), **copies(80, later("p")))
    stack = engine.create(made, environment=MUCH)
    assert stack.status is Status.FAILED
    assert "RequestLimitExceeded: resources.v" in stack.status_reason
    assert "more than 2097152 (max_stack_data)" in stack.status_reason
    rows = engine.store.resources.of(stack.id)
    assert sum(len(dump(row.properties)) for row in rows) <= 64 * UNIT
    stack = engine.put(stack, template(v0=value("small")))
    assert stack.status is Status.COMPLETE, stack.status_reason


NESTED = template(tiny=value("x"), **copies(6, later("p")))
NESTED["parameters"] = {"p": {"type": "string", "default": "z" * (UNIT // 2)}}


@pytest.mark.slow
def test_a_stack_commits_its_values_in_parts(engine: Engine) -> None:
    """One transaction for all would keep other writers waiting."""
    commits = {}
    for name, of in (("small", "x"), ("large", "x" * (UNIT + 1))):
        made = with_parameter(tiny=value("t"), **copies(8, later("p")))
        stack = engine.create(made, name=name, parameters={"p": of})
        assert stack.status is Status.COMPLETE
        ((commits[name],),) = engine.store.database.read("SELECT commits FROM action WHERE stack_id = ?", (stack.id,))
    assert commits["large"] >= commits["small"] + 7


def held(engine: Engine) -> int:
    """Sizes of all rows of resources and nested stacks."""
    found = [engine.store.stacks.get(one) for (one,) in engine.store.database.read("SELECT id FROM stack")]
    stacks = [one for one in found if one is not None]
    rows = [row for one in stacks for row in engine.store.resources.of(one.id)]
    nested = [(one.environment, one.inherited) for one in stacks if one.root_id is not None]
    return sum(len(dump(part)) for parts in (*((row.properties, row.metadata, row.data) for row in rows), *nested)
               for part in parts)  # fmt: skip


def stored(engine: Engine) -> int:
    """The characters of all rows but those of templates and actions."""
    read, quote = engine.store.database.read, engine.store.database.quote
    tables = {"resource": ("properties", "metadata", "data"), "large_value": ("content",), "event": ("properties",),
              "stack": ("environment", "previous_environment", "inherited"), "project_value": ("content",),
              "software_config": ("content",), "software_deployment": ("input_values",)}  # fmt: skip
    rows = [row for table, columns in tables.items() for row in read(f"SELECT {quote(*columns)} FROM {quote(table)}")]
    return sum(len(part or "") for row in rows for part in row)


@pytest.mark.slow
@pytest.mark.parametrize("given", ["z" * UNIT, [{"a": "z" * 100}] * (UNIT // 100)])
def test_the_value_of_a_parameter_is_stored_once_in_a_tree(engine: Engine, given: Any) -> None:
    kind = "string" if isinstance(given, str) else "json"
    inner = template(v=value(["inner", P]))
    made = template(**copies(20, [P, "x"]), **{f"n{n}": resource("n.yaml", p=P) for n in range(10)})
    for one in (inner, made):
        one["parameters"] = {"p": {"type": kind}}
    files = {"n.yaml": dump(inner)}
    stack = engine.create(made, files=files, environment={"parameters": {"p": given}})
    assert stack.status is Status.COMPLETE, stack.status_reason
    assert held(engine) > 39 * UNIT
    assert stored(engine) < 1.5 * UNIT
    rows = engine.store.resources.by_name(stack.id, ["v7"])
    assert [row.properties for row in rows] == [{"value": [given, "x"]}]
    # The values of before go once no row refers to them, and no event. Revisions are rows, too.
    stack = engine.put(stack, made, files=files, environment={"parameters": {"p": given[:9]}})
    assert stack.status is Status.COMPLETE, stack.status_reason
    read = engine.store.database.read
    with engine.store.transaction():
        engine.store.database.write("DELETE FROM revision WHERE number = 1")
    engine.clock.pass_(engine.settings.event_days * 86_400.0 + 60)
    engine.wait_for(lambda: read("SELECT 1 FROM large_value WHERE unused"))
    engine.clock.pass_(LARGE_VALUE_GRACE + 61)
    engine.wait_for(lambda: not read("SELECT 1 FROM large_value"))


def deployment(**more: Any) -> Any:
    given = {"config": ref("c"), "server": "web", "signal_transport": "NO_SIGNAL", "input_values": {"x": P}}
    return resource("OS::Heat::StructuredDeployment", **(given | more))


def structured(config: object) -> Any:
    inputs = [{"name": "x"}]
    return resource("OS::Heat::StructuredConfig", config=config, inputs=inputs)


@pytest.mark.slow
def test_the_input_of_deployments_is_stored_once_in_a_project(engine: Engine) -> None:
    """Each has it in its values, the server's config as an input, and in its content."""
    each = {f"d{number}": deployment(server=f"web{number}") for number in range(20)}
    stack = engine.create(with_parameter(c=structured({"a": {"get_input": "x"}}), **each), environment=MUCH)
    assert stack.status is Status.COMPLETE, stack.status_reason
    deployed = engine.components.software.deployed("demo", "web7")
    assert len(dump(deployed)) > 2 * UNIT
    # The tree has one copy, the project the other, with a third more for encryption. The rest is small rows.
    assert stored(engine) < 4 * UNIT


@pytest.mark.slow
def test_the_config_of_a_server_has_a_limit(engine: Engine) -> None:
    """The content has an input many times, and a server has many configs."""
    stack = engine.create(with_parameter(c=structured({"a": [{"get_input": "x"}] * 1000}), d=deployment()), "a",
                          environment=MUCH)  # fmt: skip
    assert "a software config of more than 262144 characters of JSON (max_resource_data)" in stack.status_reason
    each = {f"d{number}": deployment() for number in range(9)}
    stack = engine.create(with_parameter(c=structured({}), **each), "b", environment=MUCH)
    assert "more than 262144 characters of JSON (max_resource_data) for the server web" in stack.status_reason
    assert len(dump(engine.components.software.deployed("demo", "web"))) < 8 * UNIT


@pytest.mark.slow
def test_one_row_with_a_value_many_times_stores_it_once(engine: Engine) -> None:
    """The generated template of a group whose members have numbers, and a snapshot."""
    member = {"type": "OS::Heat::Value", "properties": {"value": [P, "%index%"]}}
    made = with_parameter(g=resource("OS::Heat::ResourceGroup", count=15, resource_def=member), **copies(9, P))
    stack = engine.create(made, environment=MUCH)
    assert stack.status is Status.COMPLETE, stack.status_reason
    snapshot = engine.components.snapshots.take(engine.who, engine.get(stack), "a")
    engine.settle(stack)
    read = engine.store.database.read
    for table, columns in (("template", "document"), ("snapshot", "data")):
        assert sum(len(text) for (text,) in read(f"SELECT {columns} FROM {table}")) < 3 * UNIT, table
    found = engine.store.snapshots.get(stack.id, snapshot.id)
    assert found is not None
    assert len(dump(found.data)) > 10 * UNIT


@pytest.mark.slow
def test_the_document_of_a_tree_has_a_limit(plugins: Path, place: Path) -> None:
    """Each nested stack repeats its template, and none repeats the root's files."""
    engine = Engine(place, max_stack_data=64 * UNIT, enable_stack_abandon=True)
    nested = {**template(v=value("")), "description": "d" * 3 * UNIT}
    files = {"n.yaml": dump(nested)}
    parts = engine.components
    stack = engine.create(tree_of(22), files=files)
    for ask in (
        lambda: parts.snapshots.take(engine.who, engine.get(stack), "a"),
        lambda: parts.exports.export(engine.get(stack)),
        lambda: parts.exports.abandon(engine.who, engine.get(stack)),
    ):
        with pytest.raises(RequestLimitExceeded, match=r"more than 2097152 characters of JSON \(max_stack_data\)"):
            ask()
    assert (engine.get(stack).verb, engine.store.snapshots.count(stack.id)) == (Verb.CREATE, 0)
    stack = engine.put(stack, tree_of(15), files=files)
    parts.snapshots.take(engine.who, stack, "a")
    assert engine.settle(stack).status is Status.COMPLETE
    exported: Any = parts.exports.abandon(engine.who, engine.get(stack))
    assert exported["files"] == files
    assert [entry["files"] for entry in exported["resources"].values()] == [{}] * 15
    engine.close()


@pytest.mark.slow
def test_a_retained_stack_does_not_count_in_the_limits_of_its_former_tree(engine: Engine) -> None:
    files = {"n.yaml": dump({**template(v=value("x" * 5 * UNIT)), "description": "d" * 40 * UNIT})}
    kept = {f"n{number}": resource("n.yaml", keys={"deletion_policy": "Retain"}) for number in range(10)}
    stack = engine.create(template(**kept), files=files)
    assert stack.status is Status.COMPLETE, stack.status_reason
    with pytest.raises(RequestLimitExceeded, match="max_stack_data"):
        engine.components.exports.export(engine.get(stack))
    stack = engine.put(stack, template(m=value("")))
    assert len(engine.store.stacks.descendants(stack)) == 10
    assert engine.components.exports.export(engine.get(stack))
    stack = engine.put(stack, tree_of(10), files=files)
    assert stack.status is Status.COMPLETE, stack.status_reason


def tree_of(count: int, **more: Any) -> Any:
    return template(**{f"n{number}": resource("n.yaml", **more) for number in range(count)})


@pytest.mark.slow
def test_the_rows_of_a_tree_have_a_limit_together(engine: Engine) -> None:
    """Each nested stack is far below the limit."""
    files = {"n.yaml": dump(NESTED)}
    stack = engine.create(tree_of(60), files=files)
    assert stack.status is Status.FAILED
    assert "RequestLimitExceeded: resources.n" in stack.status_reason
    assert "and of those nested with it would come to" in stack.status_reason
    assert "more than 2097152 (max_stack_data)" in stack.status_reason
    # Each walk beside another may take a 64th of the limit unseen, and one resource: of half a unit here.
    slack = (engine.settings.engine_slots - 1) * (UNIT + UNIT // 2)
    assert 32 * UNIT < held(engine) <= 64 * UNIT + slack
    engine.delete(stack)
    assert engine.store.stack_sizes.of_tree(stack.id) == 0
    stack = engine.create(tree_of(15), "t", files=files)
    assert stack.status is Status.COMPLETE, stack.status_reason
    # What the database is told is what its rows hold.
    assert 45 * UNIT < engine.store.stack_sizes.of_tree(stack.id) < 46 * UNIT


@pytest.mark.slow
def test_a_tree_counts_what_it_holds_already(engine: Engine) -> None:
    files = {"n.yaml": dump(NESTED)}
    stack = engine.create(tree_of(15), files=files)
    assert stack.status is Status.COMPLETE, stack.status_reason
    for _ in range(2):
        stack = engine.put(stack, tree_of(30), files=files)
        assert "(max_stack_data)" in stack.status_reason
    stack = engine.put(stack, tree_of(15), files=files)
    assert stack.status is Status.COMPLETE, stack.status_reason
    assert engine.store.stack_sizes.of_tree(stack.id) < 48 * UNIT
    stack = engine.put(stack, tree_of(1), files=files)
    assert stack.status is Status.COMPLETE, stack.status_reason
    assert engine.store.stack_sizes.of_tree(stack.id) < 5 * UNIT


@pytest.mark.slow
def test_a_tree_has_one_limit_however_deep(engine: Engine) -> None:
    middle = dump(tree_of(6))
    made = template(**{f"m{number}": resource("m.yaml") for number in range(6)})
    stack = engine.create(made, files={"m.yaml": middle, "n.yaml": dump(NESTED)})
    assert stack.status is Status.FAILED
    assert "(max_stack_data)" in stack.status_reason


@pytest.mark.slow
def test_the_environments_of_nested_stacks_count(engine: Engine) -> None:
    """Each nested stack has a parameter, and next to no resources."""
    made = with_parameter(tiny=value("x"), **tree_of(80, p=later("p"))["resources"])
    stack = engine.create(made, files={"n.yaml": dump(with_parameter(v=value("x")))}, environment=MUCH)
    assert stack.status is Status.FAILED
    assert "more than 2097152 (max_stack_data)" in stack.status_reason
    assert held(engine) <= 65 * UNIT


@pytest.mark.slow
def test_the_templates_of_groups_count(engine: Engine) -> None:
    """Members with numbers make a template that repeats what they have."""
    text = {"list_join": ["", ["%index%" + "z" * 1000, attr("tiny", "value")]]}
    member = {"type": "OS::Heat::None", "properties": {"a": text}}
    groups = {
        f"g{number}": resource("OS::Heat::ResourceGroup", count=100, resource_def=member) for number in range(30)
    }
    stack = engine.create(template(tiny=value("x"), **groups))
    assert stack.status is Status.FAILED
    assert "(max_stack_data)" in stack.status_reason
    assert engine.store.stack_sizes.of_tree(stack.id) < 80 * UNIT


def test_events_do_not_repeat_what_is_large(engine: Engine) -> None:
    stack = engine.create(template(a=value("z" * 70_000), b=value("z" * 60_000)))
    events = engine.store.events.after(stack.id, 0, 100)
    assert {event.resource_name for event in events if event.properties} == {"b"}


def test_an_update_counts_what_stays(engine: Engine) -> None:
    stack = engine.create(template(v0=value("z" * UNIT)))
    made = template(v0=value("z" * UNIT))
    for number in range(1, 12):
        made["resources"][f"v{number}"] = value([{"get_attr": ["v0", "value"]}] * 7)
    stack = engine.put(stack, made)
    assert "(max_stack_data)" in stack.status_reason
    rows = engine.store.resources.of(stack.id)
    assert sum(len(dump(row.properties)) for row in rows) <= 64 * UNIT


def test_outputs_share_one_budget(engine: Engine) -> None:
    outputs = {f"o{number}": attr("v", "value") for number in range(20)}
    stack = engine.create(template(outputs=outputs, v=value("y" * UNIT)))
    shown = engine.components.reader.outputs(stack)
    told = [output["output_value"] is not None for output in shown]
    assert told == [True] * 7 + [False] * 13
    assert shown[7]["output_error"] == "The values come to more than 262144 characters of JSON."
    assert sum(len(dump(output)) for output in shown) < 8 * UNIT


@pytest.mark.parametrize("text", ["z", "%index%"])
def test_the_members_of_a_group_have_a_limit_together(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """True if they share a definition, or each has a copy with its number."""
    monkeypatch.setattr(members, "MAX_GENERATED", 64 * UNIT)
    member = {"type": "OS::Heat::Value", "properties": {"value": [later("p"), text]}}
    group = resource("OS::Heat::ResourceGroup", count=1000, resource_def=member)
    stack = engine.create(with_parameter(tiny=value("x"), g=group), environment=MUCH)
    assert stack.status is Status.FAILED
    assert "the members come to more than 2097152 characters of JSON" in stack.status_reason
