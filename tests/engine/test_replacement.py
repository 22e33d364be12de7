"""Replacement: order and name of the new object, Heat's way, reversed, in place."""

import json
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.errors import HTTPBadRequest, StackValidationFailed
from heatlite.core.status import state
from tests.engine.conftest import Engine, attr, resource, template, thing
from tests.tables import few


def file(content: str = "x", directory: str | None = None, keys: Any = None, **more: Any) -> Any:
    """A file; another directory needs another file."""
    return resource("Example::Local::File", content=content, directory=directory, keys=keys or {}, **more)


def policy(**replacement: object) -> dict[str, object]:
    return {"update_policy": {"replacement": replacement}}


def block(pattern: str, **replacement: object) -> dict[str, object]:
    return {"resource_registry": {"resources": {pattern: {"replacement": replacement}}}}


@pytest.fixture
def other(tmp_path: Path) -> str:
    folder = tmp_path / "other"
    folder.mkdir()
    return str(folder)


CREATE_FIRST = [
    "s UPDATE_IN_PROGRESS",
    "f CREATE_IN_PROGRESS",
    "f CREATE_COMPLETE",
    "user UPDATE_IN_PROGRESS",
    "user UPDATE_COMPLETE",
    "f DELETE_IN_PROGRESS",
    "f DELETE_COMPLETE",
    "s UPDATE_COMPLETE",
]
DELETE_FIRST = [
    "s UPDATE_IN_PROGRESS",
    "f DELETE_IN_PROGRESS",
    "f DELETE_COMPLETE",
    "f CREATE_IN_PROGRESS",
    "f CREATE_COMPLETE",
    "user UPDATE_IN_PROGRESS",
    "user UPDATE_COMPLETE",
    "s UPDATE_COMPLETE",
]


@pytest.mark.parametrize(
    ("keys", "environment", "expected"),
    few(
        [
            ({}, None, CREATE_FIRST),
            (policy(order="create_first"), block("*", order="delete_first"), CREATE_FIRST),
            (policy(order="rebuild"), None, CREATE_FIRST),
            (policy(order="delete_first"), None, DELETE_FIRST),
            ({}, block("*", order="delete_first"), DELETE_FIRST),
            ({}, block("f", order="delete_first"), DELETE_FIRST),
            ({}, block("other", order="delete_first"), CREATE_FIRST),
        ]
    ),
)
def test_which_goes_first(engine: Engine, other: str, keys: Any, environment: Any, expected: list[str]) -> None:
    user = thing(attr("f", "path"))
    given = {} if environment is None else {"environment": environment}
    stack = engine.create(template(f=file(keys=keys), user=user), **given)
    since = engine.now_on(stack)
    stack = engine.put(stack, template(f=file(directory=other, keys=keys), user=user), **given)
    assert engine.told(stack, since) == expected
    assert Path(str(engine.value(stack, "user"))).parent == Path(other)


@pytest.mark.parametrize("keep", [True, False])
def test_the_new_one_may_have_the_old_name(engine: Engine, other: str, keep: bool) -> None:
    keys = policy(order="delete_first", **({"name": "keep"} if keep else {}))
    stack = engine.create(template(f=file(keys=keys)))
    before = engine.row(stack, "f")
    stack = engine.put(stack, template(f=file(directory=other, keys=keys)))
    after = engine.row(stack, "f")
    assert after.id != before.id
    assert (after.physical_name == before.physical_name) is keep
    assert Path(str(after.physical_id)).exists() and not Path(str(before.physical_id)).exists()


def test_an_old_one_that_does_not_go_stops_it(engine: Engine, other: str) -> None:
    keys = policy(order="delete_first", name="keep")
    stack = engine.create(template(f=file(keys=keys)))
    path = Path(str(engine.row(stack, "f").physical_id))
    path.unlink()
    path.mkdir()
    stack = engine.put(stack, template(f=file(directory=other, keys=keys)))
    assert state(stack.verb, stack.status) == "UPDATE_FAILED"
    assert "Resource DELETE failed" in stack.status_reason
    assert list(Path(other).iterdir()) == []
    path.rmdir()
    stack = engine.patch(stack)
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
    assert Path(str(engine.row(stack, "f").physical_id)).parent == Path(other)


def test_one_that_is_retained_keeps_its_name_for_itself(engine: Engine, other: str) -> None:
    keys = {**policy(order="delete_first", name="keep"), "deletion_policy": "Retain"}
    stack = engine.create(template(f=file(keys=keys)))
    before = engine.row(stack, "f")
    stack = engine.put(stack, template(f=file(directory=other, keys=keys)))
    assert Path(str(before.physical_id)).exists()
    assert engine.row(stack, "f").physical_name != before.physical_name
    left = f"f (Example::Local::File, {before.physical_id})"
    assert stack.status_reason == f"Stack UPDATE completed successfully. Left behind: {left}"


def test_a_rollback_makes_the_old_one_again(engine: Engine, other: str) -> None:
    keys = policy(order="delete_first", name="keep")
    stack = engine.create(template(f=file("old", keys=keys)))
    before = engine.row(stack, "f")
    bad = template(f=file("new", directory=other, keys=keys), bad=thing(fail=True, depends_on="f"))
    stack = engine.put(stack, bad, disable_rollback=False)
    assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE"
    after = engine.row(stack, "f")
    assert after.physical_id == before.physical_id
    assert Path(str(after.physical_id)).read_text() == "old"


def phoenix(value: str = "v", **more: object) -> Any:
    return resource("Test::Phoenix", value=value, keys=policy(order="rebuild"), **more)


def test_a_change_is_made_in_place_where_the_type_can(engine: Engine) -> None:
    stack = engine.create(template(p=phoenix(), outputs={"n": attr("p", "rebuilt")}))
    ids, since = engine.ids(stack), engine.now_on(stack)
    stack = engine.put(stack, template(p=phoenix("w"), outputs={"n": attr("p", "rebuilt")}))
    assert engine.ids(stack) == ids
    assert engine.outputs(stack) == {"n": 1}
    assert engine.value(stack, "p") == "w"
    assert engine.told(stack, since) == [
        "s UPDATE_IN_PROGRESS",
        "p UPDATE_IN_PROGRESS",
        "p UPDATE_COMPLETE",
        "s UPDATE_COMPLETE",
    ]


def test_an_unhealthy_one_is_made_anew_in_place(engine: Engine) -> None:
    stack = engine.create(template(p=phoenix(), outputs={"n": attr("p", "rebuilt")}))
    ids = engine.ids(stack)
    engine.mark(stack, "p")
    engine.patch(stack)
    assert engine.ids(stack) == ids and engine.outputs(stack) == {"n": 1}
    engine.patch(stack)
    assert engine.outputs(stack) == {"n": 1}, "it is well now"


def test_one_that_failed_is_tried_again(engine: Engine) -> None:
    stack = engine.create(template(p=phoenix()))
    ids = engine.ids(stack)
    stack = engine.put(stack, template(p=phoenix("w", fail=True)))
    assert state(stack.verb, stack.status) == "UPDATE_FAILED"
    stack = engine.put(stack, template(p=phoenix("w"), outputs={"n": attr("p", "rebuilt")}))
    assert engine.ids(stack) == ids and engine.outputs(stack) == {"n": 1}


@pytest.mark.slow
def test_a_rebuild_that_was_cut_off_goes_on(engine: Engine) -> None:
    stack = engine.create(template(p=phoenix(seconds=100)))
    ids = engine.ids(stack)
    engine.mark(stack, "p")
    with engine.clock.held():
        engine.patch(stack, wait=False)
        engine.begun(lambda: engine.states(stack)["p"] == "UPDATE_IN_PROGRESS")
        engine.close()
        engine.open()
    stack = engine.settle(stack)
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
    assert engine.ids(stack) == ids
    assert engine.row(stack, "p").data == {"rebuilt": 1}


@pytest.mark.slow
def test_it_holds_for_stacks_within(engine: Engine, other: str) -> None:
    def inner(directory: str | None) -> dict[str, str]:
        return {"inner.yaml": json.dumps(template(f=file(directory=directory)))}

    environment = block("*", order="delete_first", name="keep")
    stack = engine.create(template(c=resource("inner.yaml")), files=inner(None), environment=environment)
    (nested,) = engine.store.stacks.descendants(stack)
    before = engine.row(nested, "f")
    stack = engine.put(stack, template(c=resource("inner.yaml")), files=inner(other), environment=environment)
    after = engine.row(nested, "f")
    assert after.id != before.id and after.physical_name == before.physical_name


def test_a_nested_stack_may_go_first_too(engine: Engine) -> None:
    inner = json.dumps(template(a=thing()))
    document = template(c=resource("inner.yaml", keys=policy(order="delete_first")))
    stack = engine.create(document, files={"inner.yaml": inner})
    (nested,) = engine.store.stacks.descendants(stack)
    engine.mark(stack, "c")
    since = engine.now_on(stack)
    stack = engine.patch(stack)
    assert engine.told(stack, since)[1:5] == [
        "c DELETE_IN_PROGRESS",
        "c DELETE_COMPLETE",
        "c CREATE_IN_PROGRESS",
        "c CREATE_COMPLETE",
    ]
    (new,) = engine.store.stacks.descendants(stack)
    assert new.id != nested.id


@pytest.mark.parametrize(
    ("replacement", "text"),
    few(
        [
            ({"order": "sideways"}, '"sideways" is no order of a replacement'),
            ({"oder": "rebuild"}, 'replacement has no key "oder"'),
            ({"name": "keep"}, "name: keep needs order: delete_first"),
            ({"order": 1}, '"1" is no order of a replacement'),
            ("delete_first", "replacement must be a map"),
        ]
    ),
)
def test_nonsense_is_refused(engine: Engine, replacement: Any, text: str) -> None:
    with pytest.raises(StackValidationFailed, match=text):
        engine.create(template(a=thing(keys={"update_policy": {"replacement": replacement}})))
    with pytest.raises(HTTPBadRequest, match=text):
        environment = {"resource_registry": {"resources": {"*": {"replacement": replacement}}}}
        engine.create(template(a=thing()), environment=environment)
