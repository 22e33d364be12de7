"""Nested templates: one look at each definition, for any number of stacks."""

from collections.abc import ValuesView

import pytest
from msgspec.structs import replace

from heatlite.template.checks.nested import Nested
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment

WIDTH, DEPTH = 6, 5


class Counted(dict[str, Nested]):
    """Nested stacks by resource, with the number of looks at them."""

    looks = 0

    def values(self) -> ValuesView[str, Nested]:  # type: ignore[override]
        Counted.looks += 1
        return super().values()


def level(number: int) -> Definition:
    """A template with two resources and a hidden parameter of its own."""
    parameters = {f"secret_{number}": {"type": "string", "hidden": True}}
    resources = {name: {"type": f"OS::Heat::Type{number}"} for name in "ab"}
    template = Template(
        {"heat_template_version": "2021-04-16", "parameters": parameters, "resources": resources}, {}
    )
    return template.definition(Environment(parameters={f"secret_{number}": f"hidden-{number}"}), {})


@pytest.fixture
def tree() -> Nested:
    """Six nested stacks in each, twice by groups, down to the fifth level."""
    found = Nested("", level(DEPTH), Counted(), held=1, own=10)
    for number in reversed(range(DEPTH)):
        within = Counted({str(one): replace(found, times=2) for one in range(WIDTH)})
        found = Nested("", level(number), within, given=[f"given-{number}"], held=1, own=10)
    Counted.looks = 0
    return found


@pytest.mark.parametrize("asked", ["hides", "hidden", "resources", "secrets", "size", "types"])
def test_a_definition_is_looked_at_once(tree: Nested, asked: str) -> None:
    assert getattr(tree, asked)
    assert Counted.looks <= 2 * (DEPTH + 1)


def test_all_stacks_count(tree: Nested) -> None:
    stacks = sum((2 * WIDTH) ** depth for depth in range(DEPTH + 1))
    assert tree.resources == 2 * stacks
    assert tree.size == stacks + 10 + 10 * sum(WIDTH * (2 * WIDTH) ** depth for depth in range(DEPTH))
    assert tree.types == {f"OS::Heat::Type{number}" for number in range(DEPTH + 1)}
    assert tree.hidden == {f"secret_{number}" for number in range(DEPTH + 1)}
    secrets = {f"hidden-{number}" for number in range(DEPTH + 1)} | {f"given-{number}" for number in range(DEPTH)}
    assert {str(one) for one in tree.secrets} == secrets
