"""Constraints on the values of properties.

Texts and wire forms are Heat's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import EntryPoint

from heatlite.core.json import Json, JsonMap
from heatlite.core.records import record
from heatlite.template.expression import UNKNOWN
from heatlite.template.parameters.constraints import Check, add_constraint, constraint_fault
from heatlite.template.patterns import TooMuchWork, read_pattern

GROUP = "heatlite.constraints"


def custom_constraint(name: str) -> Callable[[Check], Check]:
    """Register a check for ``prop(custom=name)`` and ``custom_constraint: name``.

    The check gets a value and returns an error text, or None. It is known once its module is imported. An entry point
    of the group `heatlite.constraints` makes it known from the start. The names of
    `heatlite.template.parameters.constraints` (ip_addr, net_cidr …) are built in.
    """

    def register(check: Check) -> Check:
        add_constraint(name, check)
        return check

    return register


def announce_constraints(entries: Iterable[EntryPoint]) -> None:
    """Register the checks of entry points. Each is loaded at its first use."""
    for entry in entries:
        add_constraint(entry.name, _Announced(entry))


class _Announced:
    """A check that is yet to be loaded."""

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry

    def __call__(self, value: object) -> str | None:
        try:
            check: Check = self._entry.load()
        except Exception as error:  # noqa: BLE001  # foreign code: anything may be raised, and none of it may pass
            return f"the constraint cannot be loaded: {type(error).__name__}: {error}"
        add_constraint(self._entry.name, check)
        return check(value)


class Constraint(ABC):
    """One condition on a coerced value."""

    @abstractmethod
    def fault(self, value: object) -> str | None:
        """Return an error text, or None for a valid value."""

    @abstractmethod
    def describe(self) -> JsonMap:
        """The form in GET /resource_types/{type} and in the parameters of a template."""


def _bounds(low: float | None, high: float | None) -> JsonMap:
    bounds: JsonMap = {}
    if low is not None:
        bounds["min"] = low
    if high is not None:
        bounds["max"] = high
    return bounds


@record(frozen=True, slots=True)
class Range(Constraint):
    """A number between two bounds, both included; None is no bound."""

    low: float | None
    high: float | None

    def fault(self, value: object) -> str | None:
        if not isinstance(value, int | float):
            return None
        if (self.low is None or value >= self.low) and (self.high is None or value <= self.high):
            return None
        return f"{value} is out of range (min: {self.low}, max: {self.high})"

    def describe(self) -> JsonMap:
        return {"range": _bounds(self.low, self.high)}


@record(frozen=True, slots=True)
class Length(Constraint):
    """Number of characters, items or keys; both bounds inclusive, None: no bound."""

    low: int | None
    high: int | None

    def fault(self, value: object) -> str | None:
        if not isinstance(value, str | list | dict):
            return None
        size = len(value)
        if (self.low is None or size >= self.low) and (self.high is None or size <= self.high):
            return None
        return f"length ({size}) is out of range (min: {self.low}, max: {self.high})"

    def describe(self) -> JsonMap:
        return {"length": _bounds(self.low, self.high)}


@record(frozen=True, slots=True)
class Modulo(Constraint):
    """A multiple of `step`, plus `offset`."""

    step: float
    offset: float

    def fault(self, value: object) -> str | None:
        if not isinstance(value, int | float) or value % self.step == self.offset:
            return None
        return f"{value} is not a multiple of {self.step} with an offset of {self.offset}"

    def describe(self) -> JsonMap:
        return {"modulo": {"step": self.step, "offset": self.offset}}


@record(frozen=True, slots=True)
class AllowedValues(Constraint):
    """One of these; of a list, each element."""

    allowed: Sequence[Json]

    def fault(self, value: object) -> str | None:
        found = value if isinstance(value, list) else (value,)
        if all(map(self._allows, found)):
            return None
        return f'"{value}" is not an allowed value [{", ".join(map(str, self.allowed))}]'

    def _allows(self, item: object) -> bool:
        if item in self.allowed or item is UNKNOWN:
            return True
        return isinstance(item, str) and item in map(str, self.allowed)  # numbers among the texts of a text (Heat)

    def describe(self) -> JsonMap:
        return {"allowed_values": list(self.allowed)}


class AllowedPattern(Constraint):
    """A regular expression that the whole text matches."""

    def __init__(self, pattern: str) -> None:
        self.pattern = read_pattern(pattern)

    def fault(self, value: object) -> str | None:
        try:
            if not isinstance(value, str) or self.pattern.matches(value):
                return None
        except TooMuchWork as error:
            return f'"{value}" cannot be held to the pattern "{self.pattern.text}": {error}'
        return f'"{value}" does not match pattern "{self.pattern.text}"'

    def describe(self) -> JsonMap:
        return {"allowed_pattern": self.pattern.text}


@record(frozen=True, slots=True)
class Custom(Constraint):
    """A check that is known by name. Of a list, it holds for each element."""

    name: str

    def fault(self, value: object) -> str | None:
        items = value if isinstance(value, list) else (value,)
        return next((text for item in items if item is not UNKNOWN and (text := self._item_fault(item))), None)

    def _item_fault(self, value: object) -> str | None:
        return constraint_fault(self.name, value) or None

    def describe(self) -> JsonMap:
        return {"custom_constraint": self.name}
