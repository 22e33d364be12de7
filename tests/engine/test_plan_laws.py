"""Random histories: the update does what the plan says, and the digest covers it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import PlanChanged
from heatlite.core.status import Status
from heatlite.engine.state.requests import PlannedResource, StackRequest
from heatlite.store.records import ResourceRecord, StackRecord
from tests.databases import dump
from tests.laws import FEW_EXAMPLES

from .conftest import Engine, attr, param, resource, template, thing
from .test_plan import actions, planned

NAMES = "abcd"
OUTPUTS = {"thing": "output", "value": "value", "random": "value", "k1.yaml": "out", "k2.yaml": "out"}
FILES = {
    "k1.yaml": json.dumps(
        template(
            parameters={"v": {"type": "string"}},
            outputs={"out": attr("m", "output")},
            m=thing(param("v")),
            n=thing("n", update_replace_value=attr("m", "output")),
        )
    ),
    "k2.yaml": json.dumps(
        template(
            parameters={"v": {"type": "string"}},
            outputs={"out": attr("o", "value")},
            m=thing("fixed", depends_on="o"),
            o=resource("OS::Heat::RandomString", salt="s"),
        )
    ),
}


@dataclass(frozen=True)
class Wish:
    """A resource with two texts: literals, a secret (#), or another's output (@)."""

    kind: str
    changes: str
    replaces: str


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, Wish]:
    """Each may use those before it."""
    found: dict[str, Wish] = {}
    for name in draw(st.permutations(NAMES))[: draw(st.integers(1, len(NAMES)))]:
        texts = st.sampled_from(["x", "y", "#", *(f"@{used}" for used in found)])
        found[name] = Wish(draw(st.sampled_from([*OUTPUTS, "thing"])), draw(texts), draw(texts))
    return found


def document(wanted: Mapping[str, Wish]) -> Any:
    def text(given: str) -> Any:
        if given == "#":
            return {"list_join": ["-", ["of", param("secret")]]}
        return attr(given[1:], OUTPUTS[wanted[given[1:]].kind]) if given[0] == "@" else given

    made = {}
    for name, wish in wanted.items():
        if wish.kind == "thing":
            made[name] = thing(text(wish.changes), update_replace_value=text(wish.replaces))
        elif wish.kind == "value":
            made[name] = resource("OS::Heat::Value", value=text(wish.changes))
        elif wish.kind == "random":
            made[name] = resource("OS::Heat::RandomString", salt=text(wish.replaces))
        else:
            made[name] = resource(wish.kind, v=text(wish.changes))
    return template(parameters={"secret": {"type": "string", "hidden": True}}, **made)


def tree(engine: Engine, stack: StackRecord, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every row of the tree with its path and its stack."""
    for row in engine.rows(stack):
        yield (*path, row.name), (row, stack)
        nested = engine.store.stacks.get(row.physical_id or "")
        if nested is not None:
            yield from tree(engine, nested, (*path, row.name))


def allowed(item: PlannedResource) -> set[str]:
    """Results that the plan allows: an open value may come out unchanged."""
    if item.action in ("update", "replace") and any(found.is_open for found in item.differences):
        closed = [found for found in item.differences if not found.is_open]
        if item.action == "replace":
            sure = item.cause.startswith(("unhealthy", "type")) or any(found.replaces for found in closed)
            return {"replace"} if sure else {"replace", "update" if closed else "keep", "update"}
        return {"update"} if closed else {"update", "keep"}
    if item.action == "update" and item.type in FILES:
        return {"update", "keep"}  # what changes may be within
    return {item.action}


def what_happened(before: ResourceRecord | None, after: ResourceRecord | None) -> str:
    if before is None or after is None:
        return "create" if before is None else "delete"
    if before.id != after.id:
        return "replace"
    return "keep" if before.properties == after.properties else "update"


@pytest.mark.slow
@pytest.mark.parametrize("marks", [False, True])
def test_the_plan_is_what_the_update_does(engine: Engine, marks: bool) -> None:
    numbers = count()

    @FEW_EXAMPLES
    @given(st.lists(wishes(), min_size=2, max_size=3), st.data())
    def law(history: list[dict[str, Wish]], data: st.DataObject) -> None:
        stack = engine.create(document(history[0]), f"s{next(numbers)}", files=FILES, parameters={"secret": "hunter"})
        for wanted in history[1:]:
            if marks:
                row, owner = data.draw(st.sampled_from([found for _, found in tree(engine, stack)]))
                engine.mark(owner, row.name)
            seen = dump(engine.store)
            given = {"secret": f"hunter{data.draw(st.integers(1, 2))}"}
            plan = planned(engine, stack, document(wanted), files=FILES, parameters=given)
            assert "hunter" not in repr(plan)
            assert dump(engine.store) == seen, "a preview writes nothing"
            others = [planned(engine, stack, document(other), files=FILES, parameters=given) for other in history]
            for other in others:
                assert (other.resources == plan.resources) == (other.digest == plan.digest)
                if other.digest != plan.digest:
                    with pytest.raises(PlanChanged):
                        engine.put(
                            stack, document(wanted), files=FILES, parameters=given, plan_digest=other.digest
                        )
            assert dump(engine.store) == seen, "a refused update writes nothing"
            before = {path: row for path, (row, _) in tree(engine, stack)}
            stack = engine.put(stack, document(wanted), files=FILES, parameters=given, plan_digest=plan.digest)
            assert stack.status is Status.COMPLETE
            after = {path: row for path, (row, _) in tree(engine, stack)}
            told = {item.path: allowed(item) for item in plan.resources}
            assert len(told) == len(plan.resources)
            assert told.keys() == before.keys() | after.keys()
            for path, possible in told.items():
                happened = what_happened(before.get(path), after.get(path))
                assert happened in possible, (path, actions(plan))
        engine.delete(stack)

    law()


def test_a_digest_is_of_what_happens_not_of_when(engine: Engine) -> None:
    stack = engine.create(template(a=thing("1")))
    request = StackRequest(template=template(a=thing("2"), b=thing(attr("a", "output"))))
    first = engine.stacks.preview_update(engine.who, stack, request, existing=False, plan=True).plan
    engine.clock.pass_(3600)
    engine.close()
    engine.open()
    second = engine.stacks.preview_update(engine.who, stack, request, existing=False, plan=True).plan
    assert first is not None and first == second
