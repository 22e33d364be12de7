"""A preview says what the operation then does."""

from typing import Any

import pytest

from heatlite.core.errors import HeatliteError, StackExists
from heatlite.engine.state.requests import ResourceChanges, StackRequest
from heatlite.store.records import StackRecord
from tests.tables import sampled

from .conftest import Engine, attr, param, ref, resource, template, thing


def value(of: object, **more: Any) -> Any:
    return resource("OS::Heat::Value", value=of, **more)


def names(changes: ResourceChanges) -> dict[str, set[str]]:
    """The five lists by name, the empty ones left out."""
    lists = {
        kind: {item.record.name for item in getattr(changes, kind)}
        for kind in ("unchanged", "updated", "replaced", "added", "deleted")
    }
    return {kind: found for kind, found in lists.items() if found}


def what_happens(engine: Engine, stack: StackRecord, template: object, **more: Any) -> dict[str, set[str]]:
    """The five lists as the update really makes them."""
    before = {row.name: row for row in engine.rows(stack)}
    mark = engine.now_on(stack)
    engine.put(stack, template, **more)
    told = {text.partition(" ")[::2] for text in engine.told(stack, mark)}
    found: dict[str, set[str]] = {}
    for row in engine.rows(stack):
        if row.name not in before:
            kind = "added"
        elif row.id != before[row.name].id:
            kind = "replaced"
        elif (row.name, "UPDATE_COMPLETE") in told:
            kind = "updated"
        else:
            kind = "unchanged"
        found.setdefault(kind, set()).add(row.name)
    for name in before.keys() - {row.name for row in engine.rows(stack)}:
        found.setdefault("deleted", set()).add(name)
    return found


CASES: dict[str, tuple[Any, Any, dict[str, set[str]]]] = {
    "nothing": (template(a=thing()), template(a=thing()), {"unchanged": {"a"}}),
    "one of each": (
        template(same=thing(), changes=thing("1"), other=thing(update_replace_value="1"), goes=thing()),
        template(same=thing(), changes=thing("2"), other=thing(update_replace_value="2"), comes=thing()),
        {"unchanged": {"same"}, "updated": {"changes"}, "replaced": {"other"}, "added": {"comes"}, "deleted": {"goes"}},
    ),
    "a replacement reaches those who refer to it": (
        template(
            a=thing(update_replace_value="1"), b=thing(ref("a")), c=thing(depends_on="a"), d=value(attr("b", "output"))
        ),
        template(
            a=thing(update_replace_value="2"), b=thing(ref("a")), c=thing(depends_on="a"), d=value(attr("b", "output"))
        ),
        {"replaced": {"a"}, "updated": {"b", "d"}, "unchanged": {"c"}},
    ),
    "a change in place reaches those who read it": (
        template(a=thing("1"), b=value(attr("a", "output")), c=value(ref("a"))),
        template(a=thing("2"), b=value(attr("a", "output")), c=value(ref("a"))),
        {"updated": {"a", "b"}, "unchanged": {"c"}},
    ),
    "a replacement in a property that replaces": (
        template(a=thing(update_replace_value="1"), b=thing(update_replace_value=ref("a"))),
        template(a=thing(update_replace_value="2"), b=thing(update_replace_value=ref("a"))),
        {"replaced": {"a", "b"}},
    ),
    "another type": (template(a=thing("1")), template(a=value("1")), {"replaced": {"a"}}),
    "the type asks for it": (template(a=thing("1")), template(a=thing("2", update_replace=True)), {"replaced": {"a"}}),
    "metadata": (template(a=thing()), template(a=thing(keys={"metadata": {"m": 1}})), {"updated": {"a"}}),
    "order only": (
        template(a=thing(), b=thing()),
        template(a=thing(depends_on="b"), b=thing()),
        {"unchanged": {"a", "b"}},
    ),
    "an explicit default": (template(a=thing()), template(a=thing(fail=False)), {"unchanged": {"a"}}),
}


@pytest.mark.parametrize("case", sampled(CASES, 3, pytest.mark.thorough))
def test_it_foresees_the_update(engine: Engine, case: str) -> None:
    before, after, expected = CASES[case]
    stack = engine.create(before)
    rows, mark = engine.rows(stack), engine.now_on(stack)
    changes = engine.stacks.preview_update(engine.who, stack, StackRequest(template=after), existing=False)
    assert names(changes) == expected
    assert (engine.get(stack), engine.rows(stack), engine.told(stack, mark)) == (stack, rows, [])
    assert what_happens(engine, stack, after) == expected


def test_what_is_unhealthy_or_failed_is_replaced(engine: Engine) -> None:
    made = template(a=thing(), b=thing(ref("a")), boom=thing(fail=True, depends_on="b"), never=thing(depends_on="boom"))
    stack = engine.create(made)
    engine.mark(stack, "a")
    changes = engine.stacks.preview_update(engine.who, engine.get(stack), StackRequest(), existing=True)
    assert names(changes) == {"replaced": {"a", "boom"}, "updated": {"b"}, "added": {"never"}}


def test_parameters_of_a_patch(engine: Engine) -> None:
    made = template(a=thing(param("p")), parameters={"p": {"type": "string", "default": "d"}})
    stack = engine.create(made)
    preview = engine.stacks.preview_update
    assert names(preview(engine.who, stack, StackRequest(parameters={"p": "x"}), existing=True)) == {"updated": {"a"}}
    assert names(preview(engine.who, stack, StackRequest(), existing=True)) == {"unchanged": {"a"}}


def test_it_refuses_what_the_update_refuses(engine: Engine) -> None:
    stack = engine.create(template(a=thing()))
    for request in (
        StackRequest(template=template(a=thing(zz=1))),
        StackRequest(),
        StackRequest(template=template(), parameters={"z": 1}),
    ):
        with pytest.raises(HeatliteError) as foreseen:
            engine.stacks.preview_update(engine.who, stack, request, existing=False)
        with pytest.raises(HeatliteError) as met:
            engine.stacks.update(engine.who, stack, request, existing=False)
        assert (type(foreseen.value), foreseen.value.message) == (type(met.value), met.value.message)


def test_it_is_free_in_every_state(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(template(a=thing(wait_secs=5), b=thing(depends_on="a")), wait=False)
        engine.begun(lambda: engine.rows(stack))
        engine.stacks.preview_update(engine.who, engine.get(stack), StackRequest(), existing=True)
    stack = engine.lock(engine.settle(stack))
    changes = engine.stacks.preview_update(engine.who, stack, StackRequest(template=template()), existing=False)
    assert names(changes) == {"deleted": {"a", "b"}}


class TestCreate:
    def test_everything_is_shown_and_nothing_is_made(self, engine: Engine) -> None:
        made = template(b=value({"r": ref("a"), "k": 1}), a=thing(param("p")), parameters={"p": {"type": "string"}})
        preview = engine.stacks.preview_create(engine.who, StackRequest(name="s", template=made, parameters={"p": "x"}))
        found = {item.record.name: item for item in preview.resources}
        assert found["a"].record.properties == {"value": "x"}
        # What is known only afterwards is null.
        assert found["b"].record.properties == {"value": {"r": None, "k": 1}}
        assert found["a"].required_by == ("b",)
        assert engine.store.stacks.by_name("demo", "s") is None

    def test_it_refuses_what_the_create_refuses(self, engine: Engine) -> None:
        engine.create(template())
        with pytest.raises(StackExists):
            engine.stacks.preview_create(engine.who, StackRequest(name="s", template=template()))
