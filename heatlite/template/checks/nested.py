"""Templates of nested stacks, as a check finds them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from heatlite.core.json import JsonMap
from heatlite.template.document import Definition
from heatlite.template.expression import UNKNOWN, Unknown

T = TypeVar("T")


class Nested(Struct, frozen=True):
    """Templates of nested stacks by resource, at every depth."""

    type: str
    definition: Definition
    children: "Mapping[str, Nested]"
    times: int = 1
    """Number of nested stacks with this definition."""
    given: Sequence[object] = ()
    """Values of properties that are secret by type; UNKNOWN if not known yet."""
    held: int = 0
    """Characters of JSON of properties and metadata, as far as they are known."""
    own: int = 0
    """Characters of JSON of the nested parameters and of a generated template."""

    @property
    def hides(self) -> bool:
        """True if any part must not be shown."""
        return any(one.definition.template.hidden or one.given for one in self._distinct())

    @property
    def resources(self) -> int:
        """Number of resources of the stack, with nested ones."""

        def within(one: Nested) -> int:
            return len(one.definition.resources) + sum(child.times * known(child) for child in one.children.values())

        known = _once(within)
        return self.times * known(self)

    @property
    def size(self) -> int:
        """Return the minimum size of the stack, with nested ones, in JSON characters."""

        def within(one: Nested) -> int:
            return one.held + sum(child.own + child.times * known(child) for child in one.children.values())

        known = _once(within)
        return self.own + self.times * known(self)

    @property
    def types(self) -> frozenset[str]:
        """The types of all resources in it, as the registries map them."""
        return frozenset(
            resource.mapped_type for one in self._distinct() for resource in one.definition.resources.values()
        )

    @property
    def hidden(self) -> frozenset[str]:
        """The names of hidden parameters, those of the templates within too."""
        return self._hidden_in(self)

    @property
    def secrets(self) -> list[object]:
        """Known values of hidden parameters and secret properties, with nested ones."""
        hidden_in, found = self._hidden_in, []
        for one in self._distinct():
            found += one.definition.secrets(hidden_in(one))
            found += [value for value in one.given if value is not UNKNOWN]
        return found

    @property
    def _hidden_in(self) -> "Callable[[Nested], frozenset[str]]":
        def within(one: Nested) -> frozenset[str]:
            return one.definition.template.hidden.union(*map(known, one.children.values()))

        known = _once(within)
        return known

    def _distinct(self) -> "list[Nested]":
        """Return the stack and those within, one for each definition.

        Many resources may share a definition.
        """
        found = {id(self.definition): self}
        todo = [self]
        while todo:
            for child in todo.pop().children.values():
                if id(child.definition) not in found:
                    found[id(child.definition)] = child
                    todo.append(child)
        return [*found.values()]

    def describe(self) -> JsonMap:
        """Return `NestedParameters` of POST /validate?show_nested=true; {} if none."""
        described: JsonMap = {}
        for name, child in self.children.items():
            environment = child.definition.environment
            known = {key: value for key, value in environment.parameters.items() if not isinstance(value, Unknown)}
            described_one = child.definition.template.describe(known, environment.parameter_defaults)
            one: JsonMap = {"Type": child.type, **described_one}
            within = child.describe()
            if within:
                one["NestedParameters"] = within
            described[name] = one
        return described


def _once(compute: Callable[[Nested], T]) -> Callable[[Nested], T]:
    """Return the function with one call for each definition.

    A few short templates in each other have more nested stacks than can be visited.
    """
    known: dict[int, T] = {}

    def remembered(one: Nested) -> T:
        key = id(one.definition)
        if key not in known:
            known[key] = compute(one)
        return known[key]

    return remembered
