"""Every function of every dialect over every kind of reference, in operations."""

import pytest

from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.json import Json, JsonMap
from heatlite.core.status import state
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import StackRecord
from heatlite.template.checks.check import check
from heatlite.template.dialects import DIALECTS, TemplateVersion
from heatlite.template.environment import Environment
from tests.engine.conftest import MEMBER, Engine
from tests.engine.test_groups import nested
from tests.function_examples import FILES, Call, document, right_calls
from tests.tables import few

PLAIN = {"get_resource", "get_attr", "hidden", "nested", "chosen"}
"""References that are texts; the others are one of these within a list or a map."""
TESTED = "OS::Heat::TestResource"


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def using(dialect: TemplateVersion) -> dict[str, tuple[str, JsonMap]]:
    """Return a resource for a call of each function with each reference.

    A text is of a type that replaces its object. A group has all calls.
    """
    found: dict[str, Call] = {}
    for one in right_calls(dialect):
        if one.value is not None and (one.kind in PLAIN or one.kind.endswith(("in a list", "in a map"))):
            found.setdefault(f"{one.function} of {one.kind}".replace(":", "").replace(" ", "_"), one)
    made: dict[str, tuple[str, JsonMap]] = {}
    for name, one in found.items():
        is_text = isinstance(one.value, str) and one.value != ""
        made[name] = ("OS::Heat::SoftwareConfig", {"config": one.call}) if is_text else value_of(one.call)
    kind, properties = value_of({name: one.call for name, one in found.items()})
    return {**made, "g": ("OS::Heat::ResourceGroup", {"resource_def": {"type": kind, "properties": properties}})}


def value_of(value: Json) -> tuple[str, JsonMap]:
    return "OS::Heat::Value", {"value": value}


def made(dialect: TemplateVersion, version: str, fails: bool = False) -> JsonMap:
    """Return a template whose resource "later" has another object in each version."""
    later: JsonMap = {"value": "a", "update_replace_value": version}
    last = (TESTED, {"value": version, "fail": fails})
    return document(dialect, known=(TESTED, {"value": "b"}), later=(TESTED, later), **using(dialect), last=last)


@pytest.mark.slow
@pytest.mark.parametrize("key", few(sorted(DIALECTS, reverse=True)))
def test_functions_over_references_in_every_operation(engine: Engine, key: str) -> None:
    dialect = DIALECTS[key]
    one, two = made(dialect, "1"), made(dialect, "2")
    given = {"parameters": {"secret": "s3cret"}}
    more = {"files": FILES, "environment": given, "disable_rollback": False}
    request = StackRequest(name="s", template=one, **more)
    environment = Environment(parameters={"secret": "s3cret"})
    assert [one for one in check(one, environment, engine.components.types, FILES) if one.severity == "error"] == []
    engine.stacks.validate(MEMBER, request)
    engine.stacks.preview_create(MEMBER, request, plan=True)
    stack = engine.create(one, **more)
    assert final(stack) == "CREATE_COMPLETE", stack.status_reason
    ids = engine.ids(stack)

    def again() -> StackRecord:
        """Update to the same: nothing is left to do."""
        members = nested(engine, stack)
        before, since, within = engine.ids(stack), engine.now_on(stack), engine.now_on(members)
        found = engine.put(stack, one, **more)
        assert (final(found), engine.ids(stack)) == ("UPDATE_COMPLETE", before)
        # Its members decide whether there is something to do.
        assert {line.split()[0] for line in engine.told(stack, since)} == {"s", "g"}
        assert [line for line in engine.told(members, within) if line.startswith("0 ")] == []
        return found

    again()
    engine.mark(stack, "later")
    engine.stacks.preview_update(MEMBER, stack, StackRequest(), existing=True, plan=True)
    stack = engine.patch(stack)
    assert final(stack) == "UPDATE_COMPLETE", stack.status_reason
    assert engine.ids(stack)["later"] != ids["later"]
    again()
    repair = engine.components.repairs.plan(stack, Selection({"later": RepairStep.REPLACE, "g/0": RepairStep.REPLACE}))
    assert repair.refused == ()
    engine.mark(nested(engine, stack), "0")
    stack = engine.patch(stack)
    assert final(stack) == "UPDATE_COMPLETE", stack.status_reason
    again()
    stack = engine.put(stack, made(dialect, "2", fails=True), **more)
    assert final(stack) == "ROLLBACK_COMPLETE", stack.status_reason
    again()
    engine.stacks.preview_update(MEMBER, stack, StackRequest(template=two, **more), existing=False, plan=True)
    stack = engine.put(stack, two, **more)
    assert final(stack) == "UPDATE_COMPLETE", stack.status_reason
    engine.components.exports.export(stack)
