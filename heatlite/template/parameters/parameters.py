"""Parameters: definitions, constraints and typed values."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from heatlite.core.errors import InvalidSchemaError, Problem
from heatlite.core.json import Json, JsonMap, heat_text
from heatlite.core.redaction.masking import MASK
from heatlite.template.expression import UNKNOWN
from heatlite.template.parameters.rules import AllowedPattern, AllowedValues, Constraint, Custom, Length, Modulo, Range
from heatlite.template.patterns import MAX_LENGTH, Charge, Pattern
from heatlite.template.source.loader import Path, load_json_value, verify_json_value
from heatlite.template.source.problems import MAX_HINTS, nearest

TYPES: Final[Mapping[str, str]] = {
    "string": "String",
    "number": "Number",
    "comma_delimited_list": "CommaDelimitedList",
    "json": "Json",
    "boolean": "Boolean",
}
"""HOT's name of a type → its name in the API."""

PSEUDO: Final = ("OS::stack_id", "OS::stack_name", "OS::project_id")

_TRUE: Final = frozenset({"1", "t", "true", "on", "y", "yes"})
_FALSE: Final = frozenset({"0", "f", "false", "off", "n", "no"})


def to_boolean(value: object) -> bool:
    """A boolean from what people write for one, in any case. Raises ValueError."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    allowed = ", ".join(f"'{word}'" for word in sorted(_TRUE | _FALSE))
    raise ValueError(f"Unrecognized value '{value}', acceptable values are: {allowed}")


def to_number(value: object) -> int | float:
    """An int or a float, from one or from its text. Raises ValueError."""
    if isinstance(value, (int, float)):
        number: int | float = int(value) if isinstance(value, bool) else value
    else:
        text = str(value)
        try:
            number = int(text)
        except ValueError:
            number = float(text)
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError(f"could not convert string to float: '{value}'")
    verify_json_value(number)
    return number


def to_text(value: object) -> str:
    """Text; maps and lists as JSON."""
    return heat_text(value) if isinstance(value, (list, Mapping)) else str(value)


def to_list(value: object) -> list[str]:
    """The texts between the commas, spaces kept; a list is taken as it is.

    Raises ValueError.
    """
    if isinstance(value, list):
        return [to_text(item) for item in value]
    if isinstance(value, str):
        return value.split(",") if value else []
    raise ValueError(f"Value must be a comma-delimited list string: {to_text(value)}")


def coerce(kind: str, value: Json) -> Json:
    """Return the value of get_param for a parameter of type `kind`.

    Raises ValueError.
    """
    match kind:
        case "string":
            return to_text(value)
        case "number":
            return to_number(value)
        case "boolean":
            return to_boolean(value)
        case "comma_delimited_list":
            return to_list(value)
    if not isinstance(value, str) or not value:
        return value
    try:
        return load_json_value(value)
    except ValueError as error:
        raise ValueError(f"Value must be valid JSON: {error}") from error


# -- constraints -----------------------------------------------------------------------------------


class TypedValues(AllowedValues, frozen=True):
    """The allowed values of a parameter; of a list, each element."""

    typed: tuple[Json, ...]
    """The same, as the parameter's type reads them."""

    def fault(self, value: object) -> str | None:
        if all(item in self.typed for item in (value if isinstance(value, list) else [value])):
            return None
        return f'"{to_text(value)}" is not an allowed value [{", ".join(map(to_text, self.allowed))}]'


class ParameterRule(Struct, frozen=True):
    """A constraint of a parameter."""

    constraint: Constraint
    description: str
    """Message for people in place of the constraint's own."""

    def fault(self, value: Json) -> str:
        """Return an error text for a typed value, or ""."""
        if isinstance(self.constraint, Custom | Length) and not isinstance(value, list | dict):
            value = to_text(value)
        text = self.constraint.fault(value)
        return self.description or text if text else ""


_ALLOWED_FOR: Final[Mapping[str, frozenset[str]]] = {
    "length": frozenset({"string", "comma_delimited_list", "json"}),
    "range": frozenset({"number"}),
    "modulo": frozenset({"number"}),
    "allowed_values": frozenset({"string", "number", "boolean", "comma_delimited_list"}),
    "allowed_pattern": frozenset({"string"}),
    "custom_constraint": frozenset({"string", "number", "boolean", "comma_delimited_list"}),
}

MAX_WRONG_VALUES: Final = 1000
"""Maximum number of wrong allowed values that are reported for a parameter."""
MODULO_SINCE: Final = "2017-02-24"
TAGS_SINCE: Final = "2018-03-02"
"""Versions of HOT."""

_KEYS: Final = (
    "type", "description", "default", "hidden", "label", "constraints", "immutable", "tags", "schema",
)  # fmt: skip


def invalid(path: Path, text: str, hint: str = "") -> InvalidSchemaError:
    return InvalidSchemaError(text, problems=(Problem(path, text, hint=hint, error="InvalidSchemaError"),))


def raise_all(problems: list[Problem]) -> None:
    """Raise InvalidSchemaError, if there are any."""
    if problems:
        raise InvalidSchemaError(problems[0].text, problems=tuple(problems))


@contextmanager
def noted(problems: list[Problem]) -> Iterator[None]:
    """Collect the errors of the block in `problems`, and go on."""
    try:
        yield
    except InvalidSchemaError as error:
        problems += error.problems


# -- definitions -----------------------------------------------------------------------------------


class ParameterSchema(Struct, frozen=True):
    """A parameter as the template defines it."""

    name: str
    type: str
    default: Json = None
    """As written; None = there is none."""
    description: str = ""
    label: str = ""
    hidden: bool = False
    immutable: bool = False
    constraints: tuple[ParameterRule, ...] = ()
    tags: tuple[str, ...] = ()

    @classmethod
    def parse(cls, name: str, definition: object, version: str, charge: Charge) -> "ParameterSchema":
        """Read a definition and check its default, except for custom constraints.

        `charge` counts the work of patterns. Raises InvalidSchemaError with every fault.
        """
        path: Path = ("parameters", name)
        if not isinstance(definition, Mapping):
            raise invalid(path, f"Invalid parameter definition for {name}: a map is needed")
        problems: list[Problem] = []
        _check_keys(name, definition, version, problems)
        kind = _type_of(name, definition.get("type"), problems)
        flags = {}
        for key in ("hidden", "immutable"):
            try:
                flags[key] = to_boolean(definition.get(key) or False)
            except ValueError as error:
                problems += invalid((*path, key), f"Invalid {key} of parameter {name}: {error}").problems
        constraints: list[ParameterRule] = []
        written = definition.get("constraints") or []
        if not isinstance(written, list):
            text = f"Invalid parameter constraints for parameter {name}, expected a list"
            problems += invalid((*path, "constraints"), text).problems
        elif kind:
            parse = ConstraintParser(name, kind, version, charge)
            for i, item in enumerate(written):
                with noted(problems):
                    constraints.append(parse(item, (*path, "constraints", i)))
        tags = definition.get("tags") or []
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            text = f"The tags property of parameter {name} should be a list of strings"
            problems += invalid((*path, "tags"), text).problems
        raise_all(problems)
        schema = cls(
            name=name,
            type=kind,
            default=definition.get("default"),
            description=to_text(definition.get("description") or ""),
            label=to_text(definition.get("label") or ""),
            constraints=tuple(constraints),
            tags=tuple(tags),
            **flags,
        )
        schema.check_default((*path, "default"))
        return schema

    def check_default(self, path: Path) -> None:
        """Raise InvalidSchemaError if the default breaks a constraint.

        Custom constraints are left out.
        """
        if self.default is None:
            return
        try:
            value = coerce(self.type, self.default)
        except ValueError as error:
            if self.type == "comma_delimited_list":
                text = f"Parameter '{self.name}' is invalid: {error}"
                raise invalid(path, self.masked(text, self.default)) from error
            return  # Heat tells only when the default is used.
        problems: list[Problem] = []
        for fault in _faults(value, [rule for rule in self.constraints if not isinstance(rule.constraint, Custom)]):
            text = f"Parameter '{self.name}' is invalid: Invalid default {to_text(self.default)} ({fault})"
            problems += invalid(path, self.masked(text, self.default)).problems
        raise_all(problems)

    def examine(self, given: Json, constrained: bool = True) -> tuple[Json, list[str]]:
        """Return the typed value and its faults.

        Without `constrained`, only those of the type.
        """
        try:
            verify_json_value(given)
            value = coerce(self.type, given)
        except ValueError as error:
            return given, [str(error)]
        return value, _faults(value, self.constraints if constrained else ())

    def masked(self, text: str, given: Json) -> str:
        """A message about a value, in which the value of a hidden parameter does not show.

        Neither as given nor as its type reads it: a message may be about a number or one item of a list.
        """
        if not self.hidden:
            return text
        typed = self.examine(given, constrained=False)[0]
        for whole in (to_text(given), to_text(typed)):
            text = text.replace(whole, MASK) if whole else text
        for item in typed if isinstance(typed, list) and self.type == "comma_delimited_list" else ():
            if item and str(item) in text:  # as a word: short items occur in all messages
                text = re.sub(rf"(?<!\w){re.escape(str(item))}(?!\w)", MASK, text)
        return text

    def as_text(self, value: object) -> str:
        """A typed value as the API writes it."""
        if self.hidden:
            return MASK
        if isinstance(value, list) and self.type == "comma_delimited_list":
            return ",".join(map(str, value))
        if self.type == "json":
            return heat_text(value)
        return str(value)

    def describe(self, given: Json = None, default: Json = None) -> JsonMap:
        """Return the parameter's entry in the answer of POST /validate.

        `given` is the value in the request, `default` that of its parameter_defaults, if there are any.
        """
        shown: JsonMap = {
            "Type": TYPES[self.type],
            "Description": self.description,
            "NoEcho": "true" if self.hidden else "false",
            "Label": self.label or self.name,
        }
        if default is not None:
            shown["Default"] = MASK if self.hidden else default
        elif self.default is not None:
            shown["Default"] = self.default
        if given is not None:
            shown["Value"] = MASK if self.hidden else given
        for rule in self.constraints:
            shown.update(rule.constraint.describe_cfn())
        described = dict.fromkeys(rule.description for rule in self.constraints if rule.description)
        if described:
            shown["ConstraintDescription"] = " ".join(described)
        if self.tags:
            shown["Tags"] = list(self.tags)
        return shown


def _faults(value: Json, rules: Iterable[ParameterRule]) -> list[str]:
    """Return the faults of a typed value, those with the same text once."""
    return list(dict.fromkeys(fault for rule in rules if (fault := rule.fault(value))))


class ConstraintParser(Struct, frozen=True):
    parameter: str
    type: str
    version: str
    charge: Charge

    def __call__(self, given: object, path: Path) -> ParameterRule:
        if not isinstance(given, Mapping):
            raise invalid(path, f"Invalid parameter constraints for parameter {self.parameter}, expected a mapping")
        kinds = [kind for kind in _ALLOWED_FOR if kind != "modulo" or self.version >= MODULO_SINCE]
        found = [key for key in given if key != "description"]
        problems: list[Problem] = []
        for key in found:
            if key not in kinds:
                text = f"Invalid key '{key}' for parameter constraints ({self.parameter})"
                hint = nearest(key, kinds) if len(problems) < MAX_HINTS else ""
                problems += invalid((*path, key), text, hint).problems
        raise_all(problems)
        if len(found) != 1:
            text = "No constraint expressed" if not found else f"Only one constraint per item: {', '.join(found)}"
            raise invalid(path, f"{text} ({self.parameter})")
        (kind,) = found
        description = to_text(given.get("description") or "")
        return ParameterRule(self.build(kind, given[kind], (*path, kind)), description)

    def build(self, kind: str, rule: object, path: Path) -> Constraint:
        """The constraint `kind` from what is written for it. Raises InvalidSchemaError."""
        if self.type not in _ALLOWED_FOR[kind]:
            text = f"Parameter '{self.parameter}' is invalid: {kind} constraint invalid for {self.type}"
            raise invalid(path, text)
        match kind:
            case "length":
                low, high = self._integers(rule, ("min", "max"), path)
                return Length(low, high)
            case "range":
                minimum, maximum = self._numbers(rule, ("min", "max"), path)
                return Range(minimum, maximum)
            case "modulo":
                step, offset = self._integers(rule, ("step", "offset"), path)
                if step is None or offset is None:
                    raise invalid(path, "A modulo constraint must have a step value and an offset value specified.")
                if step == 0:
                    raise invalid(path, "step cannot be 0.")
                if abs(offset) >= abs(step):
                    raise invalid(path, "offset must be smaller (by absolute value) than step.")
                if step * offset < 0:
                    raise invalid(path, "step and offset must be both positive or both negative.")
                return Modulo(step, offset)
            case "allowed_values":
                return self._allowed_values(rule, path)
            case "allowed_pattern":
                if not isinstance(rule, str):
                    raise invalid(path, "AllowedPattern must be a string")
                try:
                    return AllowedPattern(Pattern(rule, self.charge))
                except ValueError as error:
                    raise invalid(path, f'Invalid pattern "{rule[:MAX_LENGTH]}": {error}') from error
        if not isinstance(rule, str):
            raise invalid(path, "A custom constraint must be the name of one")
        return Custom(rule)

    def _allowed_values(self, rule: object, path: Path) -> AllowedValues:
        if not isinstance(rule, list):
            raise invalid(path, "AllowedValues must be a list")
        kind = "string" if self.type == "comma_delimited_list" else self.type
        typed = []
        problems: list[Problem] = []
        for i, item in enumerate(rule):
            try:
                typed.append(coerce(kind, item))
            except ValueError as error:
                text = f"AllowedValues must be of the parameter's type: {error}"
                problems += invalid((*path, i), text).problems
                if len(problems) == MAX_WRONG_VALUES:
                    break
        raise_all(problems)
        return TypedValues(tuple(rule), tuple(typed))

    def _numbers(self, rule: object, keys: tuple[str, str], path: Path) -> list[int | float | None]:
        if not isinstance(rule, Mapping):
            raise invalid(path, f"Invalid constraint of parameter {self.parameter}, expected a mapping")
        problems: list[Problem] = []
        for key in rule:
            if key not in keys:
                text = f"Invalid key '{key}' for a constraint ({self.parameter})"
                problems += invalid((*path, key), text, f"there are: {', '.join(keys)}").problems
        raise_all(problems)
        if all(rule.get(key) is None for key in keys):
            raise invalid(path, f"A constraint needs {' or '.join(keys)} ({self.parameter})")
        numbers: list[int | float | None] = []
        for key in keys:
            try:
                numbers.append(None if rule.get(key) is None else to_number(rule[key]))
            except ValueError:
                problems += invalid((*path, key), f"{key} must be a number").problems
        raise_all(problems)
        return numbers

    def _integers(self, rule: object, keys: tuple[str, str], path: Path) -> list[int | None]:
        integers: list[int | None] = []
        problems: list[Problem] = []
        for key, number in zip(keys, self._numbers(rule, keys, path), strict=True):
            if isinstance(number, float):
                problems += invalid((*path, key), f"{key} must be an integer").problems
            else:
                integers.append(number)
        raise_all(problems)
        return integers


# -- values ----------------------------------------------------------------------------------------


class Parameters(Mapping[str, object]):
    """Typed values by name: pseudo parameters first, then those of the template.

    A value may be UNKNOWN while a template is only validated.
    """

    def __init__(self, schemas: Mapping[str, ParameterSchema], values: Mapping[str, object]) -> None:
        self.schemas = schemas
        self._values = values

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def as_text(self, name: str) -> str:
        """The value as the API writes it; hidden ones masked."""
        schema = self.schemas.get(name)
        value = self._values[name]
        return str(value) if schema is None or value is UNKNOWN else schema.as_text(value)

    def immutable_changes(self, before: Mapping[str, object]) -> list[str]:
        """Return the names of immutable parameters whose value has changed.

        An unknown value may be the same.
        """
        return [
            name
            for name, schema in self.schemas.items()
            if schema.immutable and name in before and self._values.get(name) not in (before[name], UNKNOWN)
        ]


def _check_keys(name: str, definition: Mapping[str, object], version: str, problems: list[Problem]) -> None:
    keys = [key for key in _KEYS if key != "tags" or version >= TAGS_SINCE]
    for key in definition:
        if key not in keys:
            hint = nearest(key, keys) if len(problems) < MAX_HINTS else ""
            text = f"Invalid key '{key}' for parameter ({name})"
            problems += invalid(("parameters", name, key), text, hint).problems


def _type_of(name: str, kind: object, problems: list[Problem]) -> str:
    """Return the type of a parameter; "" for a wrong one, which goes to `problems`."""
    path: Path = ("parameters", name)
    if isinstance(kind, str) and kind in TYPES:
        return kind
    if kind is None:
        text = f"Missing parameter type for parameter: {name}"
        problems += invalid(path, text, f"one of {', '.join(TYPES)}").problems
    else:
        hint = nearest(str(kind), TYPES) or f"one of {', '.join(TYPES)}"
        problems += invalid((*path, "type"), f"Invalid type ({kind})", hint).problems
    return ""
