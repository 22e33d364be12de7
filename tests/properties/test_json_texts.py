"""JSON texts by msgspec: those that Python's json writes, and reads."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.json import Json, canonical, dump, parse, parse_finite, pretty
from tests.tables import table


def values(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    """Make JSON values with these floats."""
    texts = st.text(st.characters(exclude_categories=["Cs"]))
    plain = st.none() | st.booleans() | st.integers() | st.integers(-(2**80), 2**80) | numbers | texts
    return st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)


ANY = values(st.floats(allow_nan=False, allow_infinity=False))
SHORT = values(st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: "e" not in repr(number)))
"""Values whose floats have no exponent."""


def compact(value: object, sort_keys: bool = False) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=sort_keys)


@pytest.mark.slow
@given(SHORT)
def test_texts_are_those_of_json(value: Any) -> None:
    assert dump(value) == compact(value)
    assert canonical(value) == compact(value, sort_keys=True)
    assert pretty(value) == json.dumps(value, indent=2, ensure_ascii=False)
    assert pretty(value, 0) == json.dumps(value, ensure_ascii=False)


@given(ANY)
def test_a_text_keeps_the_value(value: Any) -> None:
    for text in (dump(value), canonical(value)):
        assert repr(parse(text)) == repr(json.loads(text))
        assert parse(text) == value
    assert repr(parse(dump(value))) == repr(value)


@pytest.mark.slow
@given(ANY, st.booleans(), st.sampled_from([None, 1]))
def test_texts_of_others_are_read_as_json_reads_them(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert repr(parse(text)) == repr(parse(text.encode())) == repr(parse_finite(text)) == repr(json.loads(text))


@table(
    "value, text",
    [
        (1e16, "1e16"),  # Python writes 1e+16
        (1.5e-07, "1.5e-7"),
        (1e-05, "0.00001"),
        (math.nan, "null"),
        (-math.inf, "null"),
        (-0.0, "-0.0"),
        ({True: 1, None: 2, 3: 4}, '{"true":1,"null":2,"3":4}'),
        ("\ud800", '"\ud800"'),
        (type("Name", (str,), {})("n"), '"n"'),
    ],
)
def test_written(value: Any, text: str) -> None:
    assert dump(value) == text


@table("text", ["NaN", "[-Infinity]", "1e999", '"\\ud800"', '{"a": 1, "a": 2}', "\ud800 1", "[1,]", "", "01", '"\x01"'])
def test_read_as_by_json(text: str) -> None:
    """Also what 0.1.0 has stored."""
    assert result(parse, text) == result(json.loads, text)


@table("text", ["NaN", "[-Infinity]", "1e999", '{"a": [-1e400]}'])
def test_no_json_can_repeat_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not JSON|is too large a number"):
        parse_finite(text)


def result(read: Any, text: str) -> Json:
    try:
        return repr(read(text))
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
