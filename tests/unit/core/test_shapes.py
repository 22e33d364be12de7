"""JSON Schemas, and messages for their errors: one for each keyword."""

from typing import Any

from jsonschema import Draft202012Validator

from heatlite.core.shapes import Shape, explain
from tests.tables import table


@table(
    ("schema", "value", "message"),
    [
        ({"type": "string"}, 5, "must be text, not a number."),
        ({"type": ["string", "null"]}, [], "must be text or nothing, not a list."),
        ({"maxLength": 2}, "abc", "may have at most 2 characters."),
        ({"minLength": 1}, "", "may not be empty."),
        ({"pattern": "^a"}, "b", "must match ^a."),
        ({"minimum": 3}, 2, "must be at least 3."),
        ({"maximum": 3}, 4, "must be at most 3."),
        ({"minItems": 1}, [], "needs at least 1 entry."),
        ({"maxProperties": 0}, {"a": 1}, "may have at most 0 entries."),
        ({"uniqueItems": True}, [1, 1], "names something twice."),
        ({"enum": ["a", 5, None]}, "b", "must be one of: a, 5."),
        ({"const": "4"}, 4, "must be '4'."),
        ({"required": ["a"]}, {}, "needs a."),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, "unknown key b; there are: a."),
        ({"multipleOf": 2}, 3, "is not valid: 3 is not a multiple of 2"),
    ],
)
def test_each_keyword(schema: dict[str, Any], value: object, message: str) -> None:
    (error,) = Draft202012Validator(schema).iter_errors(value)
    assert explain(error).replace("null", "nothing") == message


def test_a_large_value_is_not_repeated() -> None:
    (error,) = Draft202012Validator({"not": {}}).iter_errors("x" * 10_000)
    assert len(explain(error)) < 250


VALUES = [None, True, 1, 1.0, "xy", [], [1], [True], {}, {"a": 1}, {"a": True, "b": True}, {"b": 1}, ("a",), {1: 2}]


@table(
    "schema",
    [
        {},
        True,
        {"type": "object"},
        {"type": ["array", "null"], "items": {"type": "integer"}},
        {"properties": {"a": {"type": "number"}}, "additionalProperties": {"type": "boolean"}},
        {"properties": {"a": {}}, "additionalProperties": False},
        {"items": False},
        {"maxLength": 1},
    ],
)
def test_the_simple_check_agrees_with_jsonschema(schema: Any) -> None:
    expected = [Draft202012Validator(schema).is_valid(value) for value in VALUES]
    assert [Shape(schema).is_valid(value) for value in VALUES] == expected


@table(
    ("pattern", "accepted", "refused"),
    [("^a$", "a", "a\n"), ("^a", "a\n", "b"), (r"^a\$", "a$", "a"), ("^(a|b$)", "b", "c")],
)
def test_a_pattern_ends_at_the_end(pattern: str, accepted: str, refused: str) -> None:
    shape = Shape({"type": "string", "pattern": pattern})
    assert [shape.is_valid(value) for value in (accepted, refused)] == [True, False]
    assert Shape({"pattern": pattern}).is_valid(5), "it concerns texts only"
