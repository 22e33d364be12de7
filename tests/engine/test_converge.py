"""Updates that look at the real objects first (converge, observe_on_update)."""

import json
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.status import state
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import StackRecord

from .conftest import Engine, resource, template, thing


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


@pytest.fixture
def cloud(plugins: Path) -> "Cloud":
    return Cloud(plugins)


class Cloud:
    """The objects of Test::Seen, which any client may change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def resource(self, name: str, **properties: object) -> Any:
        return resource("Test::Seen", place=str(self.folder / name), **properties)

    def put(self, name: str, **properties: object) -> None:
        (self.folder / name).write_text(json.dumps(properties))

    def get(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())


def test_what_differs_is_mended_in_place(engine: Engine, cloud: Cloud) -> None:
    stack = engine.create(template(a=cloud.resource("a", value="1"), b=cloud.resource("b", value="1"), c=thing()))
    before = engine.ids(stack)
    cloud.put("a", value="2")
    mark = engine.now_on(stack)
    stack = engine.patch(stack, converge=True)
    assert (final(stack), engine.ids(stack), cloud.get("a")["value"]) == ("UPDATE_COMPLETE", before, "1")
    assert engine.told(stack, mark) == [
        "s UPDATE_IN_PROGRESS", "a UPDATE_IN_PROGRESS", "a UPDATE_COMPLETE", "s UPDATE_COMPLETE",
    ]  # fmt: skip


def test_without_it_nobody_looks(engine: Engine, cloud: Cloud) -> None:
    stack = engine.create(template(a=cloud.resource("a", value="1")))
    cloud.put("a", value="2")
    engine.patch(stack)
    assert cloud.get("a")["value"] == "2"


def test_an_object_that_is_gone_is_made_anew(engine: Engine, cloud: Cloud) -> None:
    stack = engine.create(template(a=cloud.resource("a"), b=cloud.resource("b")))
    before = engine.ids(stack)
    (cloud.folder / "a").unlink()
    stack = engine.patch(stack, converge=True)
    after = engine.ids(stack)
    assert (final(stack), after["a"] != before["a"], after["b"] == before["b"]) == ("UPDATE_COMPLETE", True, True)


def test_what_cannot_be_changed_in_place_is_replaced(engine: Engine, cloud: Cloud) -> None:
    stack = engine.create(template(a=cloud.resource("a", kind="x")))
    before = engine.ids(stack)
    cloud.put("a", kind="y")
    stack = engine.patch(stack, converge=True)
    assert (final(stack), cloud.get("a")["kind"]) == ("UPDATE_COMPLETE", "x")
    assert engine.ids(stack) != before


def test_what_is_already_as_the_new_template_wants_it(engine: Engine, cloud: Cloud) -> None:
    """The change was made by hand, even one with a new object: only the row changes."""
    stack = engine.create(template(a=cloud.resource("a", kind="x", value="1")))
    before = engine.ids(stack)
    cloud.put("a", kind="y", value="2")
    wanted = template(a=cloud.resource("a", kind="y", value="2"))
    stack = engine.put(stack, wanted, converge=True)
    assert (final(stack), engine.ids(stack)) == ("UPDATE_COMPLETE", before)
    assert engine.row(stack, "a").properties["kind"] == "y"
    mark = engine.now_on(stack)
    engine.put(stack, wanted)
    assert engine.told(stack, mark) == ["s UPDATE_IN_PROGRESS", "s UPDATE_COMPLETE"]


def test_a_look_that_fails_fails_its_resource(engine: Engine, cloud: Cloud) -> None:
    stack = engine.create(template(a=cloud.resource("a"), b=cloud.resource("b")))
    (cloud.folder / "a").write_text("{")
    stack = engine.patch(stack, converge=True)
    assert final(stack) == "UPDATE_FAILED"
    assert "resources.a: JSONDecodeError" in stack.status_reason


def test_a_rollback_starts_from_what_is_stored(engine: Engine, cloud: Cloud) -> None:
    stack = engine.create(template(a=cloud.resource("a", value="1")))
    before = engine.ids(stack)
    cloud.put("a", value="2")
    failing = template(a=cloud.resource("a", value="3"), boom=thing(fail=True, depends_on="a"))
    stack = engine.put(stack, failing, converge=True, disable_rollback=False)
    assert (final(stack), engine.ids(stack), cloud.get("a")["value"]) == ("ROLLBACK_COMPLETE", before, "1")


def test_the_preview_looks_as_well(engine: Engine, cloud: Cloud) -> None:
    stack = engine.create(template(a=cloud.resource("a"), b=cloud.resource("b"), c=cloud.resource("c")))
    cloud.put("a", value="2")
    (cloud.folder / "b").unlink()
    changes = engine.stacks.preview_update(engine.who, stack, StackRequest(converge=True), existing=True)
    found = [[one.record.name for one in kind] for kind in (changes.updated, changes.replaced, changes.unchanged)]
    assert found == [["a"], ["b"], ["c"]]
    changes = engine.stacks.preview_update(engine.who, stack, StackRequest(), existing=True)
    assert len(changes.unchanged) == 3


@pytest.mark.slow
def test_a_tree(engine: Engine, cloud: Cloud) -> None:
    """A check reports drift at any depth, and an update with converge mends it."""
    child = json.dumps(template(x=cloud.resource("x", value="1"), y=cloud.resource("y", value="1")))
    stack = engine.create(template(n=resource("child.yaml"), m=thing()), files={"child.yaml": child})
    cloud.put("x", value="2")
    stack = engine.check(stack)
    assert stack.status_reason == "Stack CHECK completed successfully. Not as stored: n (see resources)"
    assert engine.row(stack, "n").status_reason == "The object differs from what is stored: x (see resources)"
    engine.patch(stack)
    assert cloud.get("x")["value"] == "2"
    engine.patch(stack, converge=True)
    assert cloud.get("x")["value"] == "1"
    assert engine.check(stack).status_reason == "Stack CHECK completed successfully"


def test_the_setting_makes_every_update_look(place: Path, cloud: Cloud) -> None:
    engine = Engine(place, observe_on_update=True)
    stack = engine.create(template(a=cloud.resource("a", value="1")))
    cloud.put("a", value="2")
    engine.patch(stack)
    assert cloud.get("a")["value"] == "1"
    engine.close()


def test_a_resource_that_drifts_as_told(engine: Engine) -> None:
    """OS::Heat::TestResource shows it on every installation."""
    stack = engine.create(template(a=thing("v", live_value="w")))
    assert "value is" in engine.row(engine.check(stack), "a").status_reason
    stack = engine.patch(stack, converge=True)
    assert engine.row(engine.check(stack), "a").status_reason == "state changed"


def test_what_is_hidden_is_hidden_on_both_sides(engine: Engine, cloud: Cloud) -> None:
    """The live value of a hidden parameter is as secret as the stored one."""
    hidden = {"p": {"type": "string", "hidden": True, "default": "hunter2"}}
    stack = engine.create(template(parameters=hidden, a=cloud.resource("a", value={"get_param": "p"})))
    cloud.put("a", value="swordfish")
    stack = engine.check(stack)
    reason = engine.row(stack, "a").status_reason
    assert reason == 'The object differs from what is stored: value is "******", not "******"'
    assert not any("swordfish" in event.status_reason for event in engine.events(stack))
