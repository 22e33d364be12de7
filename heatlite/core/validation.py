"""Checks of JSON values by structs or JSON Schemas, and messages for their faults.

Messages of jsonschema repeat the whole value, which may be megabytes. Its import takes a tenth of the start of a
command: it is loaded for documents of features, and for the first value that is no struct of its kind.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from heatlite.core.clock import from_text
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json, JsonMap, whole_numbers

if TYPE_CHECKING:
    from jsonschema import ValidationError

Kind = TypeVar("Kind")

MOST_FAULTS = 50
"""Faults of a value that a refusal names."""
MAX_MESSAGE = 200
"""Characters of a message of jsonschema, which may repeat the value."""

NEEDS_DIGEST: Final = (
    "{}: needs plan_digest, the digest of its plan: PATCH …/preview?plan=true with the same body shows it."
)
NO_LINE_FEED = r"(?!\n)"
"""End of the patterns of structs: Python's ``$`` accepts a line feed after it, that of ECMA 262 does not."""

NAMES: dict[str, str] = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "null",
}


def convert(value: object, kind: type[Kind], where: str = "") -> Kind:
    """Return a JSON value as a struct. `where` is its place.

    A whole number may be written as 2.0. Raises HTTPBadRequest with the places of all faults.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as refusal:
        found = all_faults(value, kind, where)
        if found:
            raise HTTPBadRequest(" ".join(found)) from None
        try:
            return msgspec.convert(whole_numbers(cast(Json, value)), kind)
        except msgspec.ValidationError:
            raise HTTPBadRequest(f"{where or 'The body'}: {refusal}.") from None


def options(value: object, kind: type[Kind], where: str) -> Kind:
    """Return the options of an action; null, "" and {} mean the defaults.

    Raises as `convert`.
    """
    asked: Kind | None = convert(None if value == "" else value, kind | None, where)  # type: ignore[arg-type]
    return kind() if asked is None else asked


def approved(value: object, kind: type[Kind], where: str) -> Kind:
    """Return the options of an action that needs the digest of its plan.

    Raises as `convert`.
    """
    has_digest = isinstance(value, Mapping) and value.get("plan_digest") is not None
    missing = "" if has_digest else NEEDS_DIGEST.format(where)
    try:
        asked = convert(value, kind, where)
    except HTTPBadRequest as refusal:
        raise HTTPBadRequest(f"{refusal.message} {missing}".rstrip()) from None
    if missing:
        raise HTTPBadRequest(missing)
    return asked


def all_faults(value: object, kind: object, where: str = "") -> list[str]:
    """Return a sentence with the place of each fault of a value for a struct.

    Texts that are no times are faults. There are 50 sentences at most.
    """
    found = (f"{place(error, where)}: {explain(error)}" for error in faults(schema_of(kind), value))
    return list(dict.fromkeys(islice(found, MOST_FAULTS)))


@cache
def schema_of(kind: object) -> JsonMap:
    """Return the JSON Schema of a struct, without references."""
    schema = msgspec.json.schema(kind)
    parts = schema.pop("$defs", {})
    found: JsonMap = _inlined(schema, parts)
    return found


def _inlined(schema: Any, parts: Mapping[str, Any]) -> Any:
    """Return a schema with its parts in place of references.

    One list of types takes the place of alternatives.
    """
    if isinstance(schema, list):
        return [_inlined(one, parts) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _inlined(one, parts) for key, one in schema.items() if key not in ("$ref", "anyOf")}
    if "$ref" in schema:
        found = _inlined(parts[schema["$ref"].rpartition("/")[2]], parts) | found
    for one in _inlined(schema.get("anyOf", []), parts):
        if "enum" in found and one == {"type": "null"}:
            found["enum"] = [*found["enum"], None]
        elif "type" in found and "type" in one:
            kinds = [*_listed(found["type"]), *_listed(one["type"])]
            found = one | found | {"type": sorted(kinds, key="null".__eq__)}  # as messages name them
        else:
            assert not found.keys() & {"type", "enum"}, f"{schema} has alternatives that one schema cannot say"
            found = one | found
    return found


def _listed(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


def faults(schema: JsonMap, value: object) -> "Iterator[ValidationError]":
    """Return the faults of a value by a JSON Schema, draft 2020-12."""
    from jsonschema import Draft202012Validator, FormatChecker

    checker = FormatChecker(formats=())
    checker.checks("date-time", raises=(ValueError, OverflowError))(_is_time)
    return Draft202012Validator(schema, format_checker=checker).iter_errors(value)


def _is_time(value: object) -> bool:
    """Raise ValueError or OverflowError for a text that is no time."""
    if isinstance(value, str):
        from_text(value)
    return True


def kind_of(value: object) -> str:
    """Return the name of a value's kind for messages."""
    for kind, checker in (("object", Mapping), ("array", list), ("string", str), ("boolean", bool)):
        if isinstance(value, checker):
            return NAMES[kind]
    return "nothing" if value is None else "a number"


def place(error: "ValidationError", start: str = "") -> str:
    """Return the place of a fault below `start`: ``a.list[2]``."""
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    return (start + where).lstrip(".") or "The body"


EXPECTATIONS: Final[Mapping[object, str]] = {
    "const": "must be {!r}.",
    "maxLength": "may have at most {} characters.",
    "maximum": "must be at most {}.",
    "minimum": "must be at least {}.",
    "uniqueItems": "names something twice.",
}
"""Rules of a schema, and what they expect of a value."""


def explain(error: "ValidationError") -> str:
    """Return the expectation that a value fails, for a message about its place."""
    expected: Any = error.validator_value
    if error.validator in EXPECTATIONS:
        return EXPECTATIONS[error.validator].format(expected)
    match error.validator:
        case "type":
            wanted = [expected] if isinstance(expected, str) else expected
            return f"must be {' or '.join(NAMES[kind] for kind in wanted)}, not {kind_of(error.instance)}."
        case "minLength":
            return "may not be empty." if expected == 1 else f"must have at least {expected} characters."
        case "format":
            return f'"{str(error.instance)[:MAX_MESSAGE]}" is not a time in ISO 8601, such as 2026-11-22T12:00:00Z.'
        case "pattern":
            return f"must match {expected.removesuffix(NO_LINE_FEED)}."
        case "minItems" | "minProperties":
            return f"needs at least {expected} {'entry' if expected == 1 else 'entries'}."
        case "maxItems" | "maxProperties":
            return f"may have at most {expected} {'entry' if expected == 1 else 'entries'}."
        case "enum":
            return f"must be one of: {', '.join(str(one) for one in expected if one is not None)}."
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
