"""restricted_actions: what an environment forbids to do to a resource."""

import json
from typing import Any

import pytest

from heatlite.core.status import Verb, state
from heatlite.engine.state.requests import StackRequest
from tests.tables import few

from .conftest import Engine, param, ref, resource, template, thing

CAUSE = "{} is restricted for resource."


def restricting(**actions: object) -> dict[str, Any]:
    """An environment with the restricted actions of each resource or pattern."""
    blocks = {name: {"restricted_actions": restricted} for name, restricted in actions.items()}
    return {"resource_registry": {"resources": blocks}}


def replaced(value: str) -> dict[str, object]:
    return thing(update_replace_value=value)


@pytest.mark.parametrize(
    ("action", "before", "after"),
    few(
        [
            ("update", thing("old"), thing("new")),
            ("replace", replaced("old"), replaced("new")),
            ("replace", thing("old"), resource("OS::Heat::Value", value="other type")),
        ]
    ),
)
def test_what_is_restricted_fails_and_leaves_the_resource_as_it_is(
    engine: Engine, action: str, before: dict[str, object], after: dict[str, object]
) -> None:
    stack = engine.create(template(a=before))
    row, since = engine.row(stack, "a"), engine.now_on(stack)
    engine.put(stack, template(a=after, b=thing(ref("a"))), environment=restricting(a=action))
    stack = engine.get(stack)
    reason = f"ResourceActionRestricted: resources.a: {CAUSE.format(action)}"
    assert state(stack.verb, stack.status) == "UPDATE_FAILED"
    assert stack.status_reason == f"Resource UPDATE failed: {reason}"
    assert engine.row(stack, "a") == row
    assert engine.states(stack)["b"] == "INIT_COMPLETE"
    assert engine.told(stack, since) == ["s UPDATE_IN_PROGRESS", "a UPDATE_FAILED", "s UPDATE_FAILED"]
    assert [event.status_reason for event in engine.events(stack)[since:] if event.resource_name == "a"] == [
        CAUSE.format(action)
    ]


def test_without_the_restriction_the_same_update_goes_on(engine: Engine) -> None:
    stack = engine.create(template(a=thing("old")))
    engine.put(stack, template(a=thing("new")), environment=restricting(a=["update", "replace"]))
    stack = engine.put(stack, template(a=thing("new")))
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
    assert engine.value(stack, "a") == "new"


@pytest.mark.parametrize(
    ("environment", "after"),
    few(
        [
            (restricting(a="replace"), thing("new")),
            (restricting(a="update"), replaced("new")),
            (restricting(b=["update", "replace"]), thing("new")),
            (restricting(a=["update", "replace"]), thing("old")),
        ]
    ),
    ids=["the other action", "the other action, too", "another resource", "nothing to do"],
)
def test_what_is_not_restricted_goes_on(engine: Engine, environment: Any, after: dict[str, object]) -> None:
    stack = engine.create(template(a=thing("old")))
    stack = engine.put(stack, template(a=after), environment=environment)
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"


def test_patterns(engine: Engine) -> None:
    stack = engine.create(template(db_1=thing("old"), web=thing("old")))
    changed = template(db_1=thing("new", depends_on="web"), web=thing("new"))
    stack = engine.put(stack, changed, environment=restricting(**{"db_*": "update"}))
    assert state(stack.verb, stack.status) == "UPDATE_FAILED"
    assert (engine.value(stack, "db_1"), engine.value(stack, "web")) == ("old", "new")


def test_a_replacement_that_only_the_handler_asks_for_is_restricted_too(engine: Engine) -> None:
    """Its object stays, and the next unrestricted update finds the difference."""
    stack = engine.create(template(a=resource("Test::Choosy", value="old")))
    before, wanted = engine.row(stack, "a"), template(a=resource("Test::Choosy", value="new"))
    stack = engine.put(stack, wanted, environment=restricting(a="replace"))
    after = engine.row(stack, "a")
    assert stack.status_reason.endswith(CAUSE.format("replace"))
    assert (after.id, after.properties, state(after.verb, after.status)) == (
        before.id, before.properties, "UPDATE_COMPLETE",
    )  # fmt: skip
    assert engine.told(stack)[-2:] == ["a UPDATE_FAILED", "s UPDATE_FAILED"]
    stack = engine.put(stack, wanted)
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
    assert engine.row(stack, "a").id != before.id


def test_an_unhealthy_resource_is_not_replaced_either(engine: Engine) -> None:
    stack = engine.create(template(a=thing()), environment=restricting(a="replace"))
    engine.mark(stack, "a")
    stack = engine.patch(stack)
    assert state(stack.verb, stack.status) == "UPDATE_FAILED"
    row = engine.row(stack, "a")
    assert state(row.verb, row.status) == "CHECK_FAILED"


def test_a_deletion_is_not_restricted(engine: Engine) -> None:
    environment = restricting(**{"*": ["update", "replace"]})
    stack = engine.create(template(a=thing(), b=thing()), environment=environment)
    stack = engine.put(stack, template(a=thing()), environment=environment)
    assert engine.states(stack) == {"a": "CREATE_COMPLETE"}
    stack = engine.delete(stack)
    assert state(stack.verb, stack.status) == state(Verb.DELETE, "COMPLETE")


def test_a_rollback_after_it(engine: Engine) -> None:
    stack = engine.create(template(a=thing("old"), b=thing("old")))
    changed = template(a=thing("new", depends_on="b"), b=thing("new"))
    stack = engine.put(stack, changed, environment=restricting(a="update"), disable_rollback=False)
    assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE"
    assert (engine.value(stack, "a"), engine.value(stack, "b")) == ("old", "old")


@pytest.mark.parametrize(("action", "after"), [("update", thing("new")), ("replace", replaced("new"))])
def test_a_preview_tells_of_it(engine: Engine, action: str, after: dict[str, object]) -> None:
    stack = engine.create(template(a=thing("old")))
    request = StackRequest(template=template(a=after), environment=restricting(a=action))
    planned = engine.stacks.preview_update(engine.who, engine.get(stack), request, existing=False)
    assert [(item.record.name, item.record.status_reason) for item in planned.updated] == [("a", CAUSE.format(action))]
    assert not (planned.replaced or planned.unchanged or planned.added or planned.deleted)


@pytest.mark.slow
def test_within_a_nested_stack(engine: Engine) -> None:
    """Only the resource that the path leads to is kept as it is; the failure names it."""
    environment: Any = {"resource_registry": {"resources": {"c": {"inner": {"restricted_actions": "update"}}}}}
    files = {"t.yaml": json.dumps(template(parameters={"v": {"type": "string"}}, inner=thing(param("v"))))}

    def wanted(value: str) -> Any:
        return template(c=resource("t.yaml", v=value), d=resource("t.yaml", v=value))

    stack = engine.create(wanted("a"), files=files)
    nested = {found.parent_resource: found for found in engine.store.stacks.descendants(stack)}
    row = engine.row(nested["c"], "inner")
    stack = engine.put(stack, wanted("b"), files=files, environment=environment)
    assert state(stack.verb, stack.status) == "UPDATE_FAILED"
    told = f"ResourceActionRestricted: resources.c.resources.inner: {CAUSE.format('update')}"
    assert told in stack.status_reason
    assert engine.row(nested["c"], "inner") == row
    stack = engine.put(stack, wanted("b"), files=files)
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
    assert [engine.value(nested[name], "inner") for name in ("c", "d")] == ["b", "b"]
