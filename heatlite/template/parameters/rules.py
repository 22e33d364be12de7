"""Constraints on the values of parameters and properties.

Texts and wire forms are Heat's.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from heatlite.core.json import Json, JsonMap
from heatlite.template.expression import UNKNOWN
from heatlite.template.parameters.constraints import constraint_fault
from heatlite.template.patterns import Pattern, TooMuchWork

_PARTS: Final[Mapping[str, Mapping[str, str]]] = {
    "length": {"min": "MinLength", "max": "MaxLength"},
    "range": {"min": "MinValue", "max": "MaxValue"},
    "modulo": {"step": "Step", "offset": "Offset"},
}
"""Parts of a constraint in HOT and in CloudFormation's language."""


class Constraint(Struct, frozen=True):
    """One condition on a coerced value."""

    def fault(self, value: object) -> str | None:
        """Return an error text, or None for a valid value."""
        raise NotImplementedError

    def describe(self) -> JsonMap:
        """Return the form in answers about types and about parameters of a template."""
        raise NotImplementedError

    def describe_cfn(self) -> JsonMap:
        """Return the form in POST /validate and in CloudFormation's language."""
        ((kind, rule),) = self.describe().items()
        if isinstance(rule, dict):
            return {_PARTS[kind][part]: value for part, value in rule.items()}
        return {"".join(map(str.capitalize, kind.split("_"))): rule}


def _bounds(low: float | None, high: float | None) -> JsonMap:
    bounds: JsonMap = {}
    if low is not None:
        bounds["min"] = low
    if high is not None:
        bounds["max"] = high
    return bounds


class Range(Constraint, frozen=True):
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


class Length(Constraint, frozen=True):
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


class Modulo(Constraint, frozen=True):
    """A multiple of `step`, plus `offset`."""

    step: float
    offset: float

    def fault(self, value: object) -> str | None:
        if not isinstance(value, int | float) or value % self.step == self.offset:
            return None
        return f"{value} is not a multiple of {self.step} with an offset of {self.offset}"

    def describe(self) -> JsonMap:
        return {"modulo": {"step": self.step, "offset": self.offset}}


class AllowedValues(Constraint, frozen=True):
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


class AllowedPattern(Constraint, frozen=True):
    """A regular expression that the whole text matches."""

    pattern: Pattern

    def fault(self, value: object) -> str | None:
        try:
            if not isinstance(value, str) or self.pattern.matches(value):
                return None
        except TooMuchWork as error:
            return f'"{value}" cannot be held to the pattern "{self.pattern.text}": {error}'
        return f'"{value}" does not match pattern "{self.pattern.text}"'

    def describe(self) -> JsonMap:
        return {"allowed_pattern": self.pattern.text}


class Custom(Constraint, frozen=True):
    """A check that is known by name. Of a list, it holds for each element."""

    name: str

    def fault(self, value: object) -> str | None:
        items = value if isinstance(value, list) else (value,)
        return next((text for item in items if item is not UNKNOWN and (text := self._item_fault(item))), None)

    def _item_fault(self, value: object) -> str | None:
        return constraint_fault(self.name, value) or None

    def describe(self) -> JsonMap:
        return {"custom_constraint": self.name}
