"""Messages for JSON Schema errors.

Those of jsonschema repeat the whole value, which may be megabytes.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema import ValidationError

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
        case _:
            message = error.message
            return f"is not valid: {message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + '…'}"
