"""Laws F1 to F3 over random histories of definitions.

F2: the plan of an undo equals that of a PUT of its content. F3: an undo of an undo gives the definition before.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import StackRecord
from tests.engine.conftest import Engine
from tests.features.revisions.engine.conftest import Kept

pytestmark = pytest.mark.database
NAMES = ("a", "b", "c", "d")
VALUES = st.sampled_from(["one", "two", "x" * 5000])
CHILD = '{"heat_template_version": "2021-04-16", "resources": {}}'


class Asked(Struct, frozen=True):
    """A definition that a stack is given."""

    resources: dict[str, str]
    parameters: dict[str, str]
    defaults: dict[str, str]
    tags: tuple[str, ...]
    timeout_mins: int
    disable_rollback: bool
    has_file: bool

    @property
    def request(self) -> StackRequest:
        resources: dict[str, Any] = {
            name: {"type": "OS::Heat::Value", "properties": {"value": [of, {"get_param": "p"}]}}
            for name, of in self.resources.items()
        }
        if self.has_file:
            resources["child"] = {"type": "child.yaml"}
        text = {"type": "string", "default": "d"}
        parameters = {"p": text, "secret": {**text, "hidden": True}}
        return StackRequest(
            name="s",
            template={"heat_template_version": "2021-04-16", "parameters": parameters, "resources": resources},
            files={"child.yaml": CHILD} if self.has_file else {},
            environment={"parameter_defaults": self.defaults},
            parameters={**self.parameters},
            tags=self.tags,
            timeout_mins=self.timeout_mins,
            disable_rollback=self.disable_rollback,
        )


DEFINITIONS = st.builds(
    Asked,
    resources=st.dictionaries(st.sampled_from(NAMES), VALUES),
    parameters=st.dictionaries(st.sampled_from(["p", "secret"]), VALUES),
    defaults=st.dictionaries(st.sampled_from(["x", "y"]), VALUES),
    tags=st.lists(st.sampled_from(["t", "u"]), unique=True).map(tuple),
    timeout_mins=st.integers(0, 99),
    disable_rollback=st.booleans(),
    has_file=st.booleans(),
)


def defined(stack: StackRecord) -> tuple[object, ...]:
    """Return what a request gives a stack."""
    return stack.template_id, stack.environment, stack.tags, stack.timeout_mins, stack.disable_rollback


@pytest.mark.slow
@given(first=DEFINITIONS, later=st.lists(DEFINITIONS, min_size=1, max_size=3), to=st.integers(0, 9))
def test_undo(engine: Engine, first: Asked, later: list[Asked], to: int) -> None:
    kept = Kept(engine)
    stack = engine.settle(engine.stacks.create(engine.who, first.request))
    history = [defined(stack)]
    for one in later:
        engine.stacks.update(engine.who, engine.get(stack), one.request, existing=False)
        history.append(defined(engine.settle(stack)))
    asked = [first, *later]
    target = to % len(asked) + 1
    plan = kept.plan(stack, target)
    by_put = engine.stacks.preview_update(
        engine.who, engine.get(stack), asked[target - 1].request, existing=False, plan=True
    ).plan
    assert by_put is not None
    assert (plan.digest, plan.resources) == (by_put.digest, by_put.resources)
    assert defined(kept.undo(stack, target)) == history[target - 1]
    assert defined(kept.undo(stack)) == history[-1]
    assert kept.numbers(stack) == [*range(1, len(asked) + 3)]
    for number, content in enumerate(history, 1):
        one = kept.operations.get(engine.get(stack), number)
        found = (one.template_id, one.environment, one.tags, one.timeout_mins, one.disable_rollback)
        assert found == content
    engine.delete(stack)
