"""JSON Schemas, and messages for their errors.

Those of jsonschema repeat the whole value, which may be megabytes.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from heatlite.core.json import JsonMap

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

MAX_MESSAGE = 200
"""Characters of a message of jsonschema, which may repeat the value."""

NAMES: dict[str, str] = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "null",
}


_IS_KIND: Mapping[str, Callable[[object], bool]] = {
    "object": lambda value: type(value) is dict,
    "array": lambda value: type(value) is list,
    "string": lambda value: type(value) is str,
    "boolean": lambda value: type(value) is bool,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "null": lambda value: value is None,
}
_SIMPLE = frozenset({"type", "properties", "items", "additionalProperties", "format"})
"""Keywords that `_fits` knows; `format` is for clients alone."""


def closed(*required: str, **properties: JsonMap) -> JsonMap:
    """Return the schema of an object that has no other keys."""
    return {
        "type": "object", "additionalProperties": False, "required": [*required], "properties": {**properties},
    }  # fmt: skip


class Shape:
    """A JSON Schema, draft 2020-12.

    jsonschema takes a tenth of the start of a command to import. It is loaded for the first value that a simple check
    does not accept.
    """

    def __init__(self, schema: JsonMap) -> None:
        self.schema = schema

    def iter_errors(self, value: object) -> "Iterator[ValidationError]":
        """Return the errors of a value."""
        return iter(()) if _fits(self.schema, value) else self._validator.iter_errors(value)

    def is_valid(self, value: object) -> bool:
        """Return True if the value matches."""
        return next(self.iter_errors(value), None) is None

    @cached_property
    def _validator(self) -> "Draft202012Validator":
        from jsonschema import Draft202012Validator
        from jsonschema.validators import extend

        validators: Any = extend(Draft202012Validator, {"pattern": _check_pattern})  # type: ignore[no-untyped-call]
        return cast("Draft202012Validator", validators(self.schema))


def _check_pattern(_validator: object, pattern: str, value: object, _schema: object) -> "Iterator[ValidationError]":
    """Yield an error if a text does not match.

    ``$`` means the end, as in ECMA 262, whose patterns JSON Schema has. Python accepts a line feed after it.
    """
    from jsonschema import ValidationError

    to_end = re.sub(r"(?<!\\)\$$", r"\\Z", pattern)
    if isinstance(value, str) and not re.search(to_end, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _fits(schema: Any, value: object) -> bool:
    """Return True if a value certainly matches; False leaves it to jsonschema."""
    if isinstance(schema, bool):
        return schema
    if not schema.keys() <= _SIMPLE:
        return False
    kinds = schema.get("type", ())
    if kinds and not any(_IS_KIND[kind](value) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    if type(value) is dict:
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        return all(_fits(properties.get(name, others), one) for name, one in value.items())
    if type(value) is list:
        items = schema.get("items", True)
        return items is True or all(_fits(items, one) for one in value)
    return value is None or type(value) in (bool, int, float, str)


def kind_of(value: object) -> str:
    """Return the name of a value's kind for messages."""
    for kind, checker in (("object", Mapping), ("array", list), ("string", str), ("boolean", bool)):
        if isinstance(value, checker):
            return NAMES[kind]
    return "nothing" if value is None else "a number"


def explain(error: "ValidationError") -> str:
    """Return the expectation that a value fails, for a message about its place."""
    expected: Any = error.validator_value
    match error.validator:
        case "type":
            wanted = [expected] if isinstance(expected, str) else expected
            return f"must be {' or '.join(NAMES[kind] for kind in wanted)}, not {kind_of(error.instance)}."
        case "maxLength":
            return f"may have at most {expected} characters."
        case "minLength":
            return "may not be empty." if expected == 1 else f"must have at least {expected} characters."
        case "pattern":
            return f"must match {expected}."
        case "minimum":
            return f"must be at least {expected}."
        case "maximum":
            return f"must be at most {expected}."
        case "minItems" | "minProperties":
            return f"needs at least {expected} {'entry' if expected == 1 else 'entries'}."
        case "maxItems" | "maxProperties":
            return f"may have at most {expected} {'entry' if expected == 1 else 'entries'}."
        case "uniqueItems":
            return "names something twice."
        case "enum":
            return f"must be one of: {', '.join(str(one) for one in expected if one is not None)}."
        case "const":
            return f"must be {expected!r}."
        case "required":
            missing: Any = error.instance
            return f"needs {', '.join(name for name in expected if name not in missing)}."
        case "additionalProperties" if expected is False:
            schema: Any = error.schema
            instance: Any = error.instance
            unknown = sorted(instance.keys() - schema["properties"].keys())
            return f"unknown key {', '.join(unknown)}; there are: {', '.join(schema['properties'])}."
        case "anyOf" if error.context:
            return f"{', or '.join(explain(one).removesuffix('.') for one in error.context)}."
        case _:
            message = error.message
            return f"is not valid: {message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + '…'}"
