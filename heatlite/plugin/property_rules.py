"""The rules of a property, as an author writes them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack, overload

from msgspec import Struct

from heatlite.core.json import Json
from heatlite.template.parameters.rules import AllowedPattern, AllowedValues, Constraint, Custom, Length, Modulo, Range
from heatlite.template.patterns import Pattern


class Rules(TypedDict, total=False):
    """Keywords of `prop`."""

    doc: str
    between: tuple[float | None, float | None]
    """Bounds of a number, both included; None is no bound."""
    length: tuple[int | None, int | None]
    """Bounds of the number of characters, items or keys."""
    one_of: Sequence[Json]
    """Allowed values; for a list, of each element."""
    pattern: str
    """Regular expression that the whole text matches."""
    step: float
    offset: float
    """A number must be a multiple of `step`, plus `offset` (0)."""
    custom: str
    """Name of a check registered with `custom_constraint`."""
    items: object
    """A `prop(…)` with the rules of each element of a list."""
    update: bool
    """A change is made in place; without it, by replacement."""
    immutable: bool
    """A change is refused."""
    hidden: bool
    """Accepted, but not shown by the resource-type routes."""
    secret: bool
    """Hide the value from everybody: it seals a stack, as a hidden parameter does."""
    alias: str
    """The property's name in templates, where it cannot be a Python name."""
    find: str
    """Look up a name or an id in the cloud.
    The name of the custom constraint that tests it (``neutron.network``). Handlers of a `CloudResource` see the id."""
    resolve: str
    """As `find`, but that the thing is there is no condition of a valid template."""
    means: str
    """Old name of a property that is given the value.
    In place of a list, it becomes its one element."""
    blank: bool
    """Treat an empty text as not given.
    Without it: true for a property that names a thing of the cloud. Templates make such things optional by a parameter
    that is empty by default."""
    null: bool
    """Treat an explicit null as the kind's empty value."""
    api: str
    """Name of the property in the service's API; "": not sent.
    Without it: the property's name."""


class Prop(Struct, frozen=True):
    """The arguments of `prop`."""

    default: object
    given: bool
    rules: Rules


_Scalar = TypeVar("_Scalar", bound=str | int | float)
_NO_DEFAULT = object()


@overload
def prop(default: _Scalar, **rules: Unpack[Rules]) -> _Scalar: ...
# Any: the result stands for a value of the annotated type, which only the class body knows.
@overload
def prop(default: Sequence[Json] | Mapping[str, Json] | None = ..., **rules: Unpack[Rules]) -> Any: ...
def prop(default: object = _NO_DEFAULT, **rules: Unpack[Rules]) -> Any:
    """The rules of one property; see `Rules`.

    `default` is written as in a template; None means optional without a value. A property with no
    default is required unless its annotation says ``| None``.
    """
    return Prop(None if default is _NO_DEFAULT else default, default is not _NO_DEFAULT, rules)


def constraints_of(rules: Rules) -> tuple[Constraint, ...]:
    """Return the constraints that the rules make."""
    found: list[Constraint] = []
    if "between" in rules:
        found.append(Range(*rules["between"]))
    if "length" in rules:
        found.append(Length(*rules["length"]))
    if "step" in rules:
        found.append(Modulo(rules["step"], rules.get("offset", 0)))
    if "one_of" in rules:
        found.append(AllowedValues(tuple(rules["one_of"])))
    if "pattern" in rules:
        found.append(AllowedPattern(Pattern(rules["pattern"], _uncharged)))
    if "custom" in rules:
        found.append(Custom(rules["custom"]))
    if "find" in rules:
        found.append(Custom(rules["find"]))
    return tuple(found)


def _uncharged(steps: int) -> None:
    """Count no work. The patterns of types are their author's."""
