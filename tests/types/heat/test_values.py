"""OS::Heat::RandomString, OS::Heat::Value, OS::Heat::None."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.plugin import Change
from heatlite.resources.heat.values import CHARACTER_CLASSES, NoneResource, RandomString, Value, draw
from heatlite.template.expression import UNKNOWN
from tests.tables import table

Build = Callable[..., Any]


# -- OS::Heat::RandomString --------------------------------------------------------------------------


def test_a_random_string_is_drawn_once(build: Build) -> None:
    resource = build(RandomString)
    assert resource.reference() == "a"
    assert resource.handle_create() is None
    value = resource.attribute("value")
    assert len(value) == 32
    assert value.isascii()
    assert value.isalnum()
    assert resource.attribute("value") == value == resource.reference()
    assert resource.physical_id == resource.physical_name


def test_a_random_string_only_has_a_create(build: Build) -> None:
    assert RandomString.quick
    assert [verb for verb in ("create", "update", "delete", "check", "suspend", "lock") if RandomString.has(verb)] == [
        "create"
    ]
    assert not RandomString.polls("create")
    assert RandomString.schema.updatable == frozenset()


sources = st.lists(
    st.tuples(st.sampled_from(sorted(CHARACTER_CLASSES)).map(CHARACTER_CLASSES.__getitem__), st.integers(1, 20))
    | st.tuples(st.text(min_size=1, max_size=5), st.integers(1, 20)),
    min_size=1,
    max_size=4,
)


@given(sources, st.integers(0, 100))
def test_a_draw_has_its_length_its_minimums_and_nothing_else(sources: list[tuple[str, int]], more: int) -> None:
    length = sum(minimum for _, minimum in sources) + more
    drawn = draw(length, sources)
    assert len(drawn) == length
    for characters, minimum in sources:
        assert sum(character in characters for character in drawn) >= minimum
    assert set(drawn) <= {character for characters, _ in sources for character in characters}


def test_each_character_is_equally_likely() -> None:
    characters = "".join(map(chr, range(0x400, 0x400 + 200)))  # a size that no power of two is a multiple of
    drawn = "".join(draw(512, [(characters, 1)]) for _ in range(40))
    first = sum(character in characters[:56] for character in drawn)
    # Of 20480 draws 5734 is a fair share; 640 is ten standard deviations. Bytes taken modulo 200 would give 8960.
    assert abs(first - 5734) < 640


def test_the_minimums_do_not_stand_in_front() -> None:
    firsts = Counter(draw(2, [("a", 1), ("b", 1)])[0] for _ in range(200))
    assert firsts.keys() == {"a", "b"}


def test_more_than_256_characters_are_all_drawn_from() -> None:
    characters = "".join(map(chr, range(0x400, 0x400 + 300)))
    assert len(set("".join(draw(512, [(characters, 1)]) for _ in range(40)))) > 256


def test_classes_and_sequences_decide_the_characters(build: Build) -> None:
    resource = build(
        RandomString,
        {
            "length": "12",
            "character_classes": [{"class": "digits", "min": 5}],
            "character_sequences": [{"sequence": "$_", "min": "6"}],
        },
    )
    resource.handle_create()
    value = resource.attribute("value")
    assert len(value) == 12
    assert sum(character.isdigit() for character in value) in (5, 6)
    assert set(value) <= set("0123456789$_")


def test_the_old_property_sequence_excludes_the_new_one() -> None:
    given = {"sequence": "octdigits", "character_classes": [{"class": "digits"}]}
    (fault,) = RandomString.check_properties(given)
    assert fault.text == "Cannot use character_classes and sequence at the same time"


def test_the_old_property_sequence_still_names_the_one_class(build: Build) -> None:
    resource = build(RandomString, {"sequence": "octdigits", "length": 100})
    resource.handle_create()
    assert set(resource.attribute("value")) <= set("01234567")


@table(
    ("properties", "path", "text"),
    [
        ({"length": "abc"}, ("length",), "Value 'abc' is not an integer"),
        ({"length": 9999}, ("length",), "9999 is out of range (min: 1, max: 512)"),
        ({"zz": 1}, (), "Unknown Property zz"),
        (
            {"length": 3, "character_classes": [{"min": 2}, {"class": "digits", "min": 2}]},
            (),
            "Length property cannot be smaller than combined character class and character sequence minimums",
        ),
        (
            {"character_classes": [{"class": "vowels"}]},
            ("character_classes", 0, "class"),
            '"vowels" is not an allowed value '
            "[lettersdigits, letters, lowercase, uppercase, digits, hexdigits, octdigits]",
        ),
        ({"character_sequences": [{}]}, ("character_sequences", 0), "Property sequence not assigned"),
        ({"character_sequences": [{"sequence": ""}]}, (), "There are no characters to draw from"),
        ({"character_classes": []}, (), "There are no characters to draw from"),
    ],
)
def test_faults_of_a_random_string(properties: Any, path: tuple[str | int, ...], text: str) -> None:
    assert [(fault.path, fault.text) for fault in RandomString.check_properties(properties)] == [(path, text)]


# -- OS::Heat::Value ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["x", 1, 1.5, True, [1, {"a": None}], {"a": []}])
def test_a_value_gives_out_what_it_was_given(build: Build, value: Any) -> None:
    resource = build(Value, {"value": value})
    resource.handle_create()
    assert resource.attributes() == {"value": value}
    assert type(resource.attribute("value")) is type(value)
    assert resource.reference() == resource.physical_name


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", 1),
        ("number", "1"),
        ("number", "1.5"),
        ("boolean", "True"),
        ("json", {"a": 1}),
        ("comma_delimited_list", ["a"]),
        ("string", None),
        ("number", None),
        ("json", None),
    ],
)
def test_a_values_type_only_checks(build: Build, kind: str, value: Any) -> None:
    assert Value.check_properties({"type": kind, "value": value}) == []
    result = build(Value, {"type": kind, "value": value}).attribute("value")
    assert (type(result), result) == (type(value), value)


@table(
    ("properties", "path", "text"),
    [
        ({}, (), "Property value not assigned"),
        (
            {"value": 1, "type": None},
            ("type",),
            '"" is not an allowed value [string, number, comma_delimited_list, json, boolean]',
        ),
        ({"value": "abc", "type": "number"}, ("value",), "could not convert string to float: 'abc'"),
        ({"value": "abc", "type": "json"}, ("value",), '"abc" is not a map'),
        ({"value": "a,b", "type": "comma_delimited_list"}, ("value",), "\"'a,b'\" is not a list"),
        ({"value": "abc", "type": "boolean"}, ("value",), '"abc" is not a valid boolean'),
        (
            {"value": "abc", "type": "zz"},
            ("type",),
            '"zz" is not an allowed value [string, number, comma_delimited_list, json, boolean]',
        ),
    ],
)
def test_faults_of_a_value(properties: Any, path: tuple[str | int, ...], text: str) -> None:
    assert [(fault.path, fault.text) for fault in Value.check_properties(properties)] == [(path, text)]


def test_a_value_that_is_not_known_yet_has_no_faults() -> None:
    assert Value.check_properties({"value": UNKNOWN, "type": "number"}) == []
    assert Value.check_properties({"value": "x", "type": UNKNOWN}) == []


def test_a_value_is_updated_in_place(build: Build) -> None:
    assert Value.schema.updatable == {"value", "type"}
    resource = build(Value, {"value": "new"})
    assert resource.handle_update(Change(frozenset({"value"}), {"value": "old"}, {"value": "new"})) is None
    assert resource.attribute("value") == "new"


# -- OS::Heat::None ----------------------------------------------------------------------------------


def test_none_takes_everything_and_gives_nothing(build: Build) -> None:
    properties = {"anything": {"at": ["all"]}, "null": None}
    assert NoneResource.check_properties(properties | {"later": UNKNOWN}) == []
    resource = build(NoneResource, properties)
    resource.handle_create()
    assert resource.attribute("whatever") is None
    assert resource.attributes() == {}
    assert resource.reference() == resource.physical_name


def test_no_change_touches_none() -> None:
    assert NoneResource.schema.diff({"a": 1}, {"b": 2}) == frozenset()
    assert not NoneResource.has("update")
    assert not NoneResource.has("delete")
