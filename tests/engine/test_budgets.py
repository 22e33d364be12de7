"""What values, rows and answers may come to: some kilobytes must not make gigabytes. Counted, not timed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.config import Settings
from heatlite.core.errors import RequestLimitExceeded
from heatlite.core.json import dump, size
from heatlite.core.status import Status
from heatlite.engine.state.requests import Request
from heatlite.resources import members
from heatlite.template import expression

from .conftest import Engine, attr, resource, template

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


def doubling(count: int, of: object = ["x"], end: str = "") -> Any:
    """Each resource holds the one before it twice."""
    resources = {"v0": value(of)}
    for number in range(1, count + 1):
        before = {"get_attr": [f"v{number - 1}", "value"]}
        resources[f"v{number}"] = value({"list_concat": [before, before]} if end else [before, before])
    return template(**resources)


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


def test_references_within_a_function_count(engine: Engine) -> None:
    """What a function is given is looked through: it must not be many times what a resource may hold."""
    many = [{"get_attr": ["a", "value"]}] * 5000
    digest = {"digest": ["md5", {"list_join": ["", many]}]}
    stack = engine.create(template(a=value(["x"] * (UNIT // 4)), b=value(digest)))
    (row,) = engine.store.resources.by_name(stack.id, ["b"])
    assert row.status_reason == (
        "StackValidationFailed: resources.b: The references bring more than 1048576 characters of JSON."
    )


def test_the_rows_of_a_stack_have_a_limit_together(engine: Engine) -> None:
    made = template(**{f"v{number}": value({"get_param": "p"}) for number in range(80)})
    made["parameters"] = {"p": {"type": "string"}}
    stack = engine.create(made, environment={"parameters": {"p": "z" * UNIT}})
    assert stack.status is Status.FAILED
    assert "RequestLimitExceeded: resources.v" in stack.status_reason
    assert "more than 2097152 (max_stack_data)" in stack.status_reason
    rows = engine.store.resources.of(stack.id)
    assert sum(len(dump(row.properties)) for row in rows) <= 64 * UNIT
    stack = engine.put(stack, template(v0=value("small")))
    assert stack.status is Status.COMPLETE, stack.status_reason


NESTED = template(**{f"v{number}": value({"get_param": "p"}) for number in range(6)})
NESTED["parameters"] = {"p": {"type": "string", "default": "z" * (UNIT // 2)}}


def held(engine: Engine) -> int:
    """What all rows of resources and of nested stacks hold."""
    rows = engine.store.database.read("SELECT properties, metadata, data FROM resource")
    stacks = engine.store.database.read("SELECT environment, inherited FROM stack WHERE root_id IS NOT NULL")
    return sum(len(part or "") for row in (*rows, *stacks) for part in row)


def tree_of(count: int, **more: Any) -> Any:
    return template(**{f"n{number}": resource("n.yaml", **more) for number in range(count)})


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


def test_a_tree_has_one_limit_however_deep(engine: Engine) -> None:
    middle = dump(tree_of(6))
    made = template(**{f"m{number}": resource("m.yaml") for number in range(6)})
    stack = engine.create(made, files={"m.yaml": middle, "n.yaml": dump(NESTED)})
    assert stack.status is Status.FAILED
    assert "(max_stack_data)" in stack.status_reason


def test_the_environments_of_nested_stacks_count(engine: Engine) -> None:
    """Each nested stack has a copy of the defaults, and next to no resources."""
    empty = dump({**template(v=value("x")), "parameters": {"p": {"type": "string"}}})
    environment: Any = {"parameter_defaults": {"p": "z" * UNIT}}
    stack = engine.create(tree_of(80), files={"n.yaml": empty}, environment=environment)
    assert stack.status is Status.FAILED
    assert "more than 2097152 (max_stack_data)" in stack.status_reason
    assert held(engine) <= 65 * UNIT


def test_the_templates_of_groups_count(engine: Engine) -> None:
    """Members with numbers make a template that repeats what they have."""
    member = {"type": "OS::Heat::None", "properties": {"a": "%index%" + "z" * 1000}}
    groups = {
        f"g{number}": resource("OS::Heat::ResourceGroup", count=100, resource_def=member) for number in range(30)
    }
    stack = engine.create(template(**groups))
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
    shown = engine.rooms.reading.outputs(stack)
    told = [output["output_value"] is not None for output in shown]
    assert told == [True] * 7 + [False] * 13
    assert shown[7]["output_error"] == "The values come to more than 262144 characters of JSON."
    assert sum(len(dump(output)) for output in shown) < 8 * UNIT


def test_a_preview_shows_so_much(engine: Engine) -> None:
    made = template(**{f"v{number}": value({"get_param": "p"}) for number in range(80)})
    made["parameters"] = {"p": {"type": "string"}}
    request = Request(name="s", template=made, environment={"parameters": {"p": "z" * UNIT}})
    with pytest.raises(RequestLimitExceeded, match="max_stack_data"):
        engine.stacks.preview_create(engine.who, request)


@pytest.mark.parametrize("text", ["z", "%index%"])
def test_the_members_of_a_group_have_a_limit_together(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Whether they share a definition, or each has a copy with its number."""
    monkeypatch.setattr(members, "MOST_MADE", 64 * UNIT)
    member = {"type": "OS::Heat::Value", "properties": {"value": [{"get_param": "p"}, text]}}
    made = template(g=resource("OS::Heat::ResourceGroup", count=1000, resource_def=member))
    made["parameters"] = {"p": {"type": "string"}}
    stack = engine.create(made, environment={"parameters": {"p": "z" * UNIT}})
    assert stack.status is Status.FAILED
    assert "the members come to more than 2097152 characters of JSON" in stack.status_reason
