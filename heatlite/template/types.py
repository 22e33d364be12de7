"""What the checker has to know of a resource type. The registry of types gives it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in a resource's properties. `path` starts below ``properties``."""

    path: tuple[str | int, ...]
    text: str
    hint: str = ""


class ResourceTypeView(Protocol):
    """One resource type, as far as a template's author can go wrong with it."""

    @property
    def attribute_names(self) -> frozenset[str]:
        """Names that get_attr may ask for; ``show`` is always among the allowed ones."""

    @property
    def any_attribute(self) -> bool:
        """Whether every attribute name is allowed."""

    @property
    def snapshot_on_delete(self) -> bool:
        """Whether ``deletion_policy: Snapshot`` is possible."""

    def kind_of(self, path: Sequence[str | int]) -> str:
        """The type of a property, or of what `path` leads to within it: "string", "list" …; "" where it is open."""

    def check_properties(self, given: Mapping[str, object]) -> list[Fault]:
        """Faults of `given`: resolved values, in which UNKNOWN may stand anywhere."""


class TypeCatalog(Protocol):
    """All resource types of the installation."""

    def find(self, type_name: str) -> ResourceTypeView | None:
        """The type called `type_name`, None if there is none."""

    def names(self) -> Iterable[str]:
        """Names of all types (for suggestions)."""
