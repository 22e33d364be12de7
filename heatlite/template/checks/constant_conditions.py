"""Conditions that are false for all parameter values.

Evaluates a condition for every combination of candidate values. Candidates of a parameter are its allowed values, or
the constants of the condition and one value that stands for all others.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from heatlite.core.json import Json
from heatlite.template.expression import UNKNOWN
from heatlite.template.parameters.parameters import ParameterSchema, TypedValues

_MAX_STEPS: Final = 200_000
"""Parts of conditions that are evaluated for one template.
Conditions after that get no warning."""
_MAX_CONSTANTS: Final = 200
_MAX_DEPTH: Final = 60
_NAMES: Final = {"get_param": "param", "Ref": "param"} | {
    name: kind for kind in ("equals", "not", "and", "or") for name in (kind, f"Fn::{kind.capitalize()}")
}


class _Other:
    """Stands for all values that are no candidates."""


class ConstantConditions:
    """Finds the conditions of one template that never hold."""

    def __init__(self, definitions: Mapping[str, Json], schemas: Mapping[str, ParameterSchema]) -> None:
        self._definitions = definitions
        self._schemas = schemas
        self._steps = _MAX_STEPS

    def reason(self, condition: Json) -> str | None:
        """Return why a condition never holds.

        None: it can hold, or the limits are exceeded.
        """
        operands = [operand for pair in self._comparisons(condition, ("and", "or", "not")) for operand in pair]
        names = list(dict.fromkeys(name for operand in operands if (name := _parameter(operand)) is not None))
        constants = [operand for operand in operands if not isinstance(operand, (dict, list))]
        constants += [value for name in names for value in self._allowed(name) or ()]
        if len(constants) > _MAX_CONSTANTS or self._steps <= 0:
            return None
        for values in itertools.product(*(self._candidates(name, constants) for name in names)):
            if self._holds(condition, dict(zip(names, values, strict=True)), 0) is not False:
                return None
        for pair in self._comparisons(condition, ("and",)):
            for value, name in (pair[0], _parameter(pair[1])), (pair[1], _parameter(pair[0])):
                allowed = None if name is None else self._allowed(name)
                if allowed is not None and not isinstance(value, dict) and value not in allowed:
                    return f'"{value}" is not among the allowed values of "{name}": {", ".join(map(str, allowed))}'
            if not any(isinstance(operand, (dict, list)) for operand in pair) and pair[0] != pair[1]:
                return f'it compares the constants "{pair[0]}" and "{pair[1]}"'
        return "it is false whatever the parameters are"

    def _comparisons(self, condition: Json, within: Collection[str]) -> Iterator[tuple[Json, Json]]:
        """Yield the operands of every equals.

        Looks into the functions `within` and into named conditions.
        """
        named: set[str] = set()
        stack = [condition]
        while stack and self._steps > 0:
            self._steps -= 1
            part = stack.pop()
            name, argument = _call(part)
            if isinstance(part, str) and part in self._definitions and part not in named:
                named.add(part)
                stack.append(self._definitions[part])
            elif name == "equals" and isinstance(argument, list) and len(argument) == 2:
                yield argument[0], argument[1]
            elif name == "param":
                yield part, True
            elif name in within:
                stack.extend(reversed(argument) if isinstance(argument, list) else [argument])

    def _candidates(self, parameter: str, constants: list[Json]) -> list[object]:
        schema = self._schemas.get(parameter)
        if schema is None or schema.type == "json":
            return [UNKNOWN]
        allowed = self._allowed(parameter)
        if allowed is not None and schema.type != "comma_delimited_list":
            return list(allowed)
        return [
            *(value for i, value in enumerate(constants) if value not in constants[:i] and _fits(value, schema)),
            _Other(),
        ]

    def _allowed(self, parameter: str) -> tuple[Json, ...] | None:
        """Return all values that a parameter may have.

        None: its definition does not list them.
        """
        schema = self._schemas.get(parameter)
        rules = schema.constraints if schema is not None else ()
        lists = [one.typed for rule in rules if isinstance(one := rule.constraint, TypedValues)]
        booleans = (True, False) if schema is not None and schema.type == "boolean" else None
        return lists[0] if lists else booleans

    def _holds(self, condition: Json, values: Mapping[str, object], depth: int) -> bool | None:
        """Evaluate a condition; None if the result is unknown."""
        self._steps -= 1
        if self._steps <= 0 or depth > _MAX_DEPTH or isinstance(condition, bool):
            return condition if isinstance(condition, bool) else None
        if isinstance(condition, str):
            known = condition in self._definitions
            return self._holds(self._definitions[condition], values, depth + 1) if known else None
        name, argument = _call(condition)
        if name == "param":
            value = _value(condition, values)
            return value if isinstance(value, bool) else None
        operands = argument if isinstance(argument, list) else [argument]
        if name == "equals":
            return _equal(*(_value(operand, values) for operand in operands)) if len(operands) == 2 else None
        answers = [self._holds(operand, values, depth + 1) for operand in operands] if name else [None]
        if name == "not":
            return None if answers[1:] or None in answers or not answers else not answers[0]
        decisive = name == "or"
        return decisive if decisive in answers else None if None in answers else not decisive


def _call(value: Json) -> tuple[str, Json]:
    """Return the kind of a function call and its argument; "" for anything else."""
    if isinstance(value, dict) and len(value) == 1:
        ((name, argument),) = value.items()
        return _NAMES.get(name, ""), argument
    return "", None


def _parameter(value: Json) -> str | None:
    """Return the name of the parameter that a value is a reference to."""
    name, argument = _call(value)
    return argument if name == "param" and isinstance(argument, str) else None


def _value(operand: Json, values: Mapping[str, object]) -> object:
    parameter = _parameter(operand)
    if parameter is not None:
        return values.get(parameter, UNKNOWN)
    return UNKNOWN if isinstance(operand, (dict, list)) else operand


def _equal(one: object, other: object) -> bool | None:
    if one is UNKNOWN or other is UNKNOWN:
        return None
    both_other = isinstance(one, _Other) and isinstance(other, _Other) and one is not other
    return None if both_other else one == other


def _fits(value: Json, schema: ParameterSchema) -> bool:
    """True if a parameter may have exactly this value."""
    typed, faults = schema.examine(value)
    return not faults and typed == value
