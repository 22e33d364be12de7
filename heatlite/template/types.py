"""What the checker has to know of a resource type and of the installation. The registry of types gives it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from heatlite.core.json import Json, JsonMap


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in a resource's properties. `path` starts below ``properties``."""

    path: tuple[str | int, ...]
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Referred:
    """Where get_resource stands in the properties that `ResourceTypeView.comes_after` sees."""

    name: str


@dataclass(frozen=True, slots=True)
class PropertyType:
    """One property, as far as a template that stands for its type has to know it."""

    kind: str
    """``string``, ``integer``, ``number``, ``boolean``, ``map``, ``list`` or ``any``."""
    required: bool
    updatable: bool
    secret: bool = False
    """Whether whoever gives it does not want to see it again."""


@dataclass(frozen=True, slots=True)
class NestedTemplate:
    """The template of the stack that a resource makes, as far as it is known before anything is there."""

    document: JsonMap
    """UNKNOWN may stand in it."""
    times: int = 1
    """How often the stack holds what the template holds: of members that are all alike, one is looked at."""
    origin: tuple[str | int, ...] = ()
    """Where in the resource's properties the definitions of the stack's resources come from."""


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

    @property
    def after(self) -> frozenset[str]:
        """Types of the same template that a resource of this one may have to wait for though nothing refers to them."""

    def comes_after(self, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:
        """Whether a resource with the properties `own` waits for one of type `kind` (of `after`) with those of `other`.

        References stand in both as `Referred`, and what is not known as UNKNOWN.
        """

    def kind_of(self, path: Sequence[str | int]) -> str:
        """The type of a property, or of what `path` leads to within it: "string", "list" …; "" where it is open."""

    def property_types(self) -> Mapping[str, PropertyType]:
        """The properties by name."""

    def check_properties(self, given: Mapping[str, object]) -> list[Fault]:
        """Faults of `given`: resolved values, in which UNKNOWN may stand anywhere."""

    def check_installation(self, given: Mapping[str, object], installation: "Installation") -> list[Fault]:
        """What `given`, which has no fault, asks for and the operator does not offer."""

    def check_update_policy(self, given: Mapping[str, object]) -> list[Fault]:
        """The same for the update_policy section."""

    def nested_template(self, given: Mapping[str, object]) -> NestedTemplate | None:
        """For a type that makes a stack of a template of its own; None where nothing can be said of it."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What the operator's own environment files say; it lies under the environment of every stack."""

    resource_registry: JsonMap = field(default_factory=dict)
    event_sinks: Sequence[Json] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Templates that the registry names, by the names that it gives them."""
    regions: frozenset[str] | None = None
    """Where else stacks can be made; None where that is not known, without a server."""
    cloud: str | None = None
    """The cloud in which resources are made, "" where there is none; None where that is not known, without a server."""
    max_nested_stack_depth: int = 5
    """How deep stacks may lie within each other below the first."""


class Unavailable(NamedTuple):
    """Reason why an installed type cannot be used: the caller may not, or the cloud has no such service."""

    error: str
    """Name of the error."""
    text: str


Availability: TypeAlias = Callable[[str], Unavailable | None]
"""Function from the name of a type to the reason why it cannot be used, None if it can."""


class TypeCatalog(Protocol):
    """All resource types of the installation."""

    def find(self, type_name: str) -> ResourceTypeView | None:
        """The type called `type_name`, None if there is none."""

    @property
    def installation(self) -> Installation:
        """What the operator has set up for all stacks."""

    def unavailable(self, type_name: str) -> Unavailable | None:
        """Return why an installed type cannot be used, None if it can."""

    def names(self) -> Iterable[str]:
        """Names of all types (for suggestions)."""
