"""Views of resource types and of the installation, for the checker.

The registry of types gives it.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from heatlite.core.json import Json, JsonMap


class Fault(Struct, frozen=True):
    """One fault in a resource's properties. `path` starts below ``properties``."""

    path: tuple[str | int, ...]
    text: str
    hint: str = ""


class PropertyType(Struct, frozen=True):
    """One property, as far as a template that stands for its type has to know it."""

    kind: str
    """``string``, ``integer``, ``number``, ``boolean``, ``map``, ``list`` or ``any``."""
    required: bool
    updatable: bool
    secret: bool = False
    """True if the value must not be shown again."""


class NestedTemplate(Struct, frozen=True):
    """Template of the stack that a resource makes, as far as it is known."""

    document: JsonMap
    """UNKNOWN may stand in it."""
    times: int = 1
    """Number of copies in the stack: of equal members, one is checked."""
    origin: tuple[str | int, ...] = ()
    """Place in the resource's properties where the definitions come from."""
    facades: bool = True
    """False: a template in place of a member's type need not offer the attributes and properties of the type."""


class ResourceTypeView(Protocol):
    """One resource type, as far as a template's author can go wrong with it."""

    @property
    def attribute_names(self) -> frozenset[str]:
        """Names that get_attr may ask for; ``show`` is always among the allowed ones."""

    @property
    def any_attribute(self) -> bool:
        """True if every attribute name is allowed."""

    @property
    def snapshot_on_delete(self) -> bool:
        """True if ``deletion_policy: Snapshot`` is possible."""

    @property
    def makes_stack(self) -> bool:
        """True if its object is a nested stack."""

    @property
    def after(self) -> frozenset[str]:
        """Types that a resource of this one may implicitly depend on."""

    def comes_after(self, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:
        """Test for an implicit dependency on a resource of type `kind` (of `after`).

        In both, a text of its own stands for each reference, and UNKNOWN for what is not known.
        """

    def kind_of(self, path: Sequence[str | int]) -> str:
        """Return the type of a property, or of the value at `path`.

        "string", "list" …; "" where it is open.
        """

    def property_types(self) -> Mapping[str, PropertyType]:
        """The properties by name."""

    def first_unknown(self, path: Sequence[str]) -> str:
        """Return the first step of a path into properties that no value has.

        "" if each may be there.
        """

    def check_properties(self, given: Mapping[str, object]) -> list[Fault]:
        """Faults of `given`: resolved values, in which UNKNOWN may stand anywhere."""

    def check_installation(self, given: Mapping[str, object], installation: "Installation") -> list[Fault]:
        """Return faults of valid properties that the installation does not offer."""

    def check_siblings(self, given: Mapping[str, object], names: Container[str]) -> list[Fault]:
        """Return faults of valid properties that name resources.

        `names` are the resources of the template.
        """

    def check_update_policy(self, given: Mapping[str, object]) -> list[Fault]:
        """The same for the update_policy section."""

    def nested_template(self, given: Mapping[str, object]) -> NestedTemplate | None:
        """Return the template of a type that makes a stack; None if unknown."""


class Installation(Struct, frozen=True):
    """Environment files of the operator, below the environment of every stack."""

    resource_registry: JsonMap = {}
    event_sinks: Sequence[Json] = ()
    files: Mapping[str, str] = {}
    """Templates that the registry names, by the names that it gives them."""
    regions: frozenset[str] | None = None
    """Regions for stacks; None: unknown, without a server."""
    cloud: str | None = None
    """Cloud of the resources, "" for none; None: unknown, without a server."""
    max_nested_stack_depth: int = 5
    """Levels of nested stacks below the first."""
    max_resources_per_stack: int = 20_000
    """Number of resources of a stack and those nested with it."""
    features_off: tuple[str, ...] = ()
    """Installed features that are off, whose types are unknown."""


class UnusableType(Struct, frozen=True):
    """Reason why an installed type cannot be used.

    The caller may not, or the cloud has no such service.
    """

    error: str
    """Name of the error."""
    text: str
    hint: str = ""
    """A way out for all types. A check reports it once."""


Availability: TypeAlias = Callable[[str], UnusableType | None]
"""Function from a type's name to the reason why it is unavailable, or None."""


class TypeCatalog(Protocol):
    """All resource types of the installation."""

    def find(self, type_name: str) -> ResourceTypeView | None:
        """The type called `type_name`, None if there is none."""

    @property
    def installation(self) -> Installation:
        """Settings of the operator for all stacks."""

    def unavailable(self, type_name: str) -> UnusableType | None:
        """Return why an installed type cannot be used, None if it can."""

    def names(self) -> Iterable[str]:
        """Names of all types (for suggestions)."""
