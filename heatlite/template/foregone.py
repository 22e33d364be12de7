"""Conditions whose answer is foregone: no value that the parameters may have makes them true.

What a condition depends on is tried out: each parameter in turn takes the values that the condition compares it with
and those that its constraints allow, and one more that stands for all others.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Final

from heatlite.core.json import Json
from heatlite.template.parameters import AllowedValues, ParameterSchema

_MOST_STEPS: Final = 200_000
"""How many parts of conditions are looked at for one template; then nothing more is found."""
_MOST_CONSTANTS: Final = 200
_MOST_DEPTH: Final = 60
_NOT_KNOWN: Final = object()

_NAMES: Final = {
    "get_param": "param",
    "Ref": "param",
    "equals": "equals",
    "Fn::Equals": "equals",
    "not": "not",
    "Fn::Not": "not",
    "and": "and",
    "Fn::And": "and",
    "or": "or",
    "Fn::Or": "or",
}


class _Other:
    """Some value that is none of those tried."""


class Foregone:
    """Judges the conditions of one template."""

    def __init__(self, definitions: Mapping[str, Json], schemas: Mapping[str, ParameterSchema]) -> None:
        self._definitions = definitions
        self._schemas = schemas
        self._steps = _MOST_STEPS

    def reason(self, condition: Json) -> str | None:
        """Why a condition can never hold; None if it can, or if nobody can tell."""
        parameters: dict[str, None] = {}
        constants: list[Json] = []
        for name, argument in self._calls(condition):
            operands = argument if name == "equals" and isinstance(argument, list) else [{"get_param": argument}]
            for operand in operands:
                parameter = _parameter(operand)
                if parameter is not None:
                    parameters[parameter] = None
                    constants += _allowed(self._schemas.get(parameter)) or ()
                elif not isinstance(operand, (dict, list)):
                    constants.append(operand)
        if len(constants) > _MOST_CONSTANTS or self._steps <= 0:
            return None
        names = list(parameters)
        domains = [self._domain(parameter, constants) for parameter in names]
        for values in itertools.product(*domains):
            if self._holds(condition, dict(zip(names, values, strict=True)), 0) is not False:
                return None
        return self._explain(condition)

    def _explain(self, condition: Json) -> str:
        for one, other in self._conjuncts(condition):
            for value, parameter in ((one, _parameter(other)), (other, _parameter(one))):
                allowed = None if parameter is None else _allowed(self._schemas.get(parameter))
                if allowed is not None and not isinstance(value, dict) and value not in allowed:
                    shown = ", ".join(map(str, allowed))
                    return f'"{value}" is not among the allowed values of "{parameter}": {shown}'
            if not isinstance(one, (dict, list)) and not isinstance(other, (dict, list)) and one != other:
                return f'it compares the constants "{one}" and "{other}"'
        return "it is false whatever the parameters are"

    def _conjuncts(self, condition: Json) -> Iterator[tuple[Json, Json]]:
        """The comparisons that all have to hold."""
        stack, named = [condition], set()
        while stack:
            part = stack.pop()
            if isinstance(part, str) and part in self._definitions and part not in named:
                named.add(part)
                stack.append(self._definitions[part])
            name, argument = _call(part)
            if name == "and" and isinstance(argument, list):
                stack.extend(reversed(argument))
            elif name == "equals" and isinstance(argument, list) and len(argument) == 2:
                yield argument[0], argument[1]

    def _calls(self, condition: Json) -> Iterator[tuple[str, Json]]:
        """Every equals and get_param in a condition, and in those that it names."""
        named: set[str] = set()
        stack = [condition]
        while stack and self._steps > 0:
            self._steps -= 1
            part = stack.pop()
            if isinstance(part, str) and part in self._definitions and part not in named:
                named.add(part)
                stack.append(self._definitions[part])
            elif isinstance(part, list):
                stack.extend(part)
            else:
                name, argument = _call(part)
                if name in ("equals", "param"):
                    yield name, argument
                elif name:
                    stack.append(argument)

    def _domain(self, parameter: str, constants: list[Json]) -> list[object]:
        """Values that stand for all that a parameter may have."""
        schema = self._schemas.get(parameter)
        if schema is None or schema.type == "json":
            return [_NOT_KNOWN]
        allowed = _allowed(schema)
        if allowed is not None and schema.type != "comma_delimited_list":
            return list(allowed)
        domain: list[object] = []
        for value in constants:
            if _fits(value, schema) and value not in domain:
                domain.append(value)
        return [*domain, _Other()]

    def _holds(self, condition: Json, values: Mapping[str, object], depth: int) -> bool | None:
        """None where it cannot be known."""
        self._steps -= 1
        if self._steps <= 0 or depth > _MOST_DEPTH:
            return None
        if isinstance(condition, bool):
            return condition
        if isinstance(condition, str):
            found = condition in self._definitions
            return self._holds(self._definitions[condition], values, depth + 1) if found else None
        name, argument = _call(condition)
        match name:
            case "param":
                value = values.get(argument) if isinstance(argument, str) else None
                return value if isinstance(value, bool) else None
            case "equals" if isinstance(argument, list) and len(argument) == 2:
                return _equal(_operand(argument[0], values), _operand(argument[1], values))
            case "not":
                operand = argument[0] if isinstance(argument, list) and len(argument) == 1 else argument
                holds = self._holds(operand, values, depth + 1)
                return None if holds is None else not holds
            case "and" | "or" as kind if isinstance(argument, list):
                answers = [self._holds(operand, values, depth + 1) for operand in argument]
                decisive = kind == "or"
                if decisive in answers:
                    return decisive
                return None if None in answers else not decisive
        return None


def _call(value: Json) -> tuple[str, Json]:
    """What a condition function is called in HOT, and its argument; "" for anything else."""
    if isinstance(value, dict) and len(value) == 1:
        ((name, argument),) = value.items()
        return _NAMES.get(name, ""), argument
    return "", None


def _parameter(value: Json) -> str | None:
    """The parameter that a value asks for as a whole."""
    name, argument = _call(value)
    return argument if name == "param" and isinstance(argument, str) else None


def _operand(value: Json, values: Mapping[str, object]) -> object:
    parameter = _parameter(value)
    if parameter is not None:
        return values.get(parameter, _NOT_KNOWN)
    return _NOT_KNOWN if isinstance(value, (dict, list)) else value


def _equal(one: object, other: object) -> bool | None:
    if one is other and one is not _NOT_KNOWN:
        return True
    if one is _NOT_KNOWN or other is _NOT_KNOWN or (isinstance(one, _Other) and isinstance(other, _Other)):
        return None
    return one == other


def _allowed(schema: ParameterSchema | None) -> tuple[Json, ...] | None:
    """The only values that a parameter may have, if its definition lists them or its type has no others."""
    if schema is None:
        return None
    found = [rule.typed for rule in schema.constraints if isinstance(rule, AllowedValues)]
    if not found and schema.type == "boolean":
        return True, False
    return found[0] if found else None


def _fits(value: Json, schema: ParameterSchema) -> bool:
    """Whether a parameter may have just this value."""
    typed, faults = schema.examine(value)
    return not faults and typed == value
