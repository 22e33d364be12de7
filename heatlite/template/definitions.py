"""Resources and outputs of a template, with the environment and the parameters applied."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from heatlite.template.expression import UNKNOWN, Expression, sift
from heatlite.template.types import Referred


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """One resource that shall be there. Values with functions in them are `Expression`s, to be resolved."""

    name: str
    type: str
    """As the template writes it."""
    mapped_type: str
    """As the registries map it; the name of a file where a template stands for the type."""
    properties: Mapping[str, object] | Expression
    metadata: Mapping[str, object] | Expression
    depends_on: tuple[str, ...]
    """Enabled resources only."""
    deletion_policy: str
    update_policy: Mapping[str, object] | Expression
    description: str
    external_id: str | None
    """The existing object that is to be adopted."""
    requires: frozenset[str]
    """Enabled resources named by depends_on, or referred to in properties and metadata."""
    refill: Callable[[], None] = field(repr=False, compare=False)
    """As `Definition.refill`: to be called by whoever evaluates the resource by itself."""


@dataclass(frozen=True, slots=True)
class OutputDefinition:
    """One output. Where `condition` is false, its value is null."""

    name: str
    value: object
    description: str
    condition: bool


class _References:
    """The scope in which references stand for themselves, and nothing else of resources is known."""

    def reference(self, name: str) -> object:
        return Referred(name)

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:  # noqa: ARG002
        return UNKNOWN


def referring(properties: Mapping[str, object] | Expression) -> Mapping[str, object]:
    """Properties as `ResourceTypeView.comes_after` sees them; what is wrong in them is told elsewhere."""
    found = sift(properties, _References(), [])
    return found if isinstance(found, Mapping) else {}
