"""Templates of nested stacks, as a check finds them."""

from collections.abc import Mapping, Sequence

from heatlite.core.json import JsonMap
from heatlite.core.records import record
from heatlite.template.document import Definition
from heatlite.template.expression import UNKNOWN, Unknown


@record(frozen=True, slots=True)
class Nested:
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
        own = bool(self.definition.template.hidden) or bool(self.given)
        return own or any(child.hides for child in self.children.values())

    @property
    def resources(self) -> int:
        """Number of resources of the stack, with nested ones."""
        return self.times * (len(self.definition.resources) + sum(child.resources for child in self.children.values()))

    @property
    def size(self) -> int:
        """Return the minimum size of the stack, with nested ones, in JSON characters."""
        return self.own + self.times * (self.held + sum(child.size for child in self.children.values()))

    @property
    def types(self) -> frozenset[str]:
        """The types of all resources in it, as the registries map them."""
        own = frozenset(resource.mapped_type for resource in self.definition.resources.values())
        return own.union(*(child.types for child in self.children.values()))

    @property
    def hidden(self) -> frozenset[str]:
        """The names of hidden parameters, those of the templates within too."""
        own = self.definition.template.hidden
        return own.union(*(child.hidden for child in self.children.values()))

    @property
    def secrets(self) -> list[object]:
        """Known values of hidden parameters and secret properties, with nested ones."""
        within = (value for child in self.children.values() for value in child.secrets)
        given = (value for value in self.given if value is not UNKNOWN)
        return [*self.definition.secrets(self.hidden), *given, *within]

    def describe(self) -> JsonMap:
        """Return `NestedParameters` of POST /validate?show_nested=true; {} if none."""
        described: JsonMap = {}
        for name, child in self.children.items():
            given = child.definition.environment.parameters
            known = {key: value for key, value in given.items() if not isinstance(value, Unknown)}
            one: JsonMap = {"Type": child.type, **child.definition.template.describe(known)}
            within = child.describe()
            if within:
                one["NestedParameters"] = within
            described[name] = one
        return described
