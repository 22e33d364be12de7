"""Checks by structs and JSON Schemas, and messages for their faults."""

from enum import StrEnum
from typing import Annotated, Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta, Struct

from heatlite.core.errors import HTTPBadRequest
from heatlite.core.validation import NO_LINE_FEED, convert, explain, options
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


class Level(StrEnum):
    LOW = "low"
    HIGH = "high"


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=3)]


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    count: Annotated[int, Meta(ge=1, le=5)] | None = None
    share: float | None = None
    level: Level | None = None
    parts: Annotated[list[Part], Meta(max_length=2)] = []
    tags: str | list[str] | None = None
    files: dict[str, str] = {}


@table(
    ("value", "message"),
    [
        ([], "at: must be an object or null, not a list."),
        ({"count": 6}, "at.count: must be at most 5."),
        ({"count": 1e300}, "at.count: must be at most 5."),
        ({"count": 1.5}, "at.count: must be a whole number or null, not a number."),
        ({"count": True}, "at.count: must be a whole number or null, not true or false."),
        ({"share": "1"}, "at.share: must be a number or null, not text."),
        ({"level": "none"}, "at.level: must be one of: high, low."),
        ({"parts": [{"name": "a"}, {}]}, "at.parts[1]: needs name."),
        ({"parts": [{"name": ""}]}, "at.parts[0].name: may not be empty."),
        ({"parts": [{"name": "abcd"}]}, "at.parts[0].name: may have at most 3 characters."),
        ({"parts": [{"name": "a", "nmae": 1}]}, "at.parts[0]: unknown key nmae; there are: name."),
        ({"parts": [{"name": "a"}] * 3}, "at.parts: may have at most 2 entries."),
        ({"parts": None}, "at.parts: must be a list, not nothing."),
        ({"tags": 1}, "at.tags: must be text or a list or null, not a number."),
        ({"tags": ["a", None]}, "at.tags[1]: must be text, not nothing."),
        ({"files": {"a.sh": {}}}, "at.files.a.sh: must be text, not an object."),
        ({"cuont": 1}, "at: unknown key cuont; there are: count, share, level, parts, tags, files."),
    ],
)
def test_a_fault_names_its_place_and_what_is_expected(value: object, message: str) -> None:
    with pytest.raises(HTTPBadRequest) as refused:
        options(value, Options, "at")
    assert refused.value.message == message


def test_without_a_place_the_body_is_meant() -> None:
    for value, message in (({}, "The body: needs name."), ({"name": 1}, "name: must be text, not a number.")):
        with pytest.raises(HTTPBadRequest) as refused:
            convert(value, Part)
        assert refused.value.message == message


def test_values_of_structs() -> None:
    assert [options(value, Options, "at") for value in (None, "", {})] == [Options()] * 3
    assert convert({"count": 2.0, "share": 2, "parts": [{"name": "a"}]}, Options) == Options(
        count=2, share=2.0, parts=[Part("a")]
    )


def test_a_fault_that_no_schema_shows() -> None:
    class Even(Struct):
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError("the number is odd")

    assert convert({"number": 2.0}, Even).number == 2
    with pytest.raises(HTTPBadRequest, match=r"^The body: the number is odd\.$"):
        convert({"number": 3}, Even)


def test_a_pattern_ends_at_the_end() -> None:
    """Python's ``$`` accepts a line feed after it."""

    class Word(Struct):
        word: Annotated[str, Meta(pattern=rf"^[a-z]+${NO_LINE_FEED}")]

    assert convert({"word": "a"}, Word).word == "a"
    for word in ("a\n", "a b", ""):
        with pytest.raises(HTTPBadRequest, match=r"^word: must match \^\[a-z\]\+\$\.$"):
            convert({"word": word}, Word)
