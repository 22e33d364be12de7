"""Text to data: what Heat reads, and hostile input."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import HTTPBadRequest
from heatlite.template.source.loader import (
    MAX_TEMPLATE_SIZE,
    SourceText,
    load,
    load_json_value,
    load_mapping,
    load_template,
)
from tests.tables import table

VERSION = "heat_template_version: 2018-08-31\n"


def refused(text: object) -> HTTPBadRequest:
    with pytest.raises(HTTPBadRequest) as caught:
        load_template(text)
    assert caught.value.message.startswith("Template not in valid format: ")
    assert caught.value.problems[0].error == "HTTPBadRequest"
    return caught.value


def test_json_and_yaml_give_the_same() -> None:
    data = {"heat_template_version": "2018-08-31", "resources": {"a": {"type": "T", "n": [1, 2.5, True, None, "x"]}}}
    assert load(json.dumps(data, indent="\t")).data == data
    assert load(VERSION + "resources:\n  a: {type: T, n: [1, 2.5, yes, ~, x]}\n").data == data


@table(
    ("text", "value"),
    [
        ("2018-08-31", "2018-08-31"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("yes", True),
        ("Off", False),
        ("y", "y"),
        ("0777", 511),
        ("0x1F", 31),
        ("12:30:45", 45045),
        ("1_000", 1000),
        ("0b11", 3),
        ("1e3", "1e3"),
        ("0o777", "0o777"),
        ("1.5e+3", 1500.0),
        ("~", None),
        ("", None),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int '12'", 12),
        ("[<<, a]", ["<<", "a"]),
        ("|\n  a\n   b\n", "a\n b\n"),
    ],
)
def test_scalars_are_read_as_heat_reads_them(text: str, value: object) -> None:
    assert load(f"a: {text}").data == {"a": value}


def test_keys_become_text_as_in_json() -> None:
    assert load("1: a\ntrue: b\n~: c\n1.5: d\n2018-08-31: e").data == {
        "1": "a",
        "true": "b",
        "null": "c",
        "1.5": "d",
        "2018-08-31": "e",
    }


def test_anchors_and_merge_keys() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\nmade: {<<: [*b, *m], z: 5, w: *b}\n"
    assert load(text).data["made"] == {"x": 1, "y": 2, "z": 5, "w": {"x": 1, "y": 2}}


def test_duplicate_keys_are_kept_in_mind() -> None:
    source = load("a:\n  b: 1\n  b: 2\nc: [{d: 1, d: 2}]")
    assert source.data == {"a": {"b": 2}, "c": [{"d": 2}]}
    assert source.duplicates == (("a", "b"), ("c", 0, "d"))


@table(
    ("text", "told"),
    [
        ("", "The template is not a JSON object or YAML mapping."),
        ("- a", "The template is not a JSON object or YAML mapping."),
        ("[1]", "The template is not a JSON object or YAML mapping."),
        (5, "The template is not a JSON object or YAML mapping."),
        ("resources: {}", "Template format version not found."),
        ('{"resources": {}}', "Template format version not found."),
        (VERSION + "a: !!python/object:os.system x", "tag"),
        (VERSION + "a: !mine x", "tag"),
        (VERSION + "a: !!binary aGk=", "tag"),
        (VERSION + "a: !!set {x}", "tag"),
        (VERSION + "a: .inf", "infinite"),
        (VERSION + "a: -.INF", "infinite"),
        (VERSION + "a: .NaN", "infinite"),
        ('{"heat_template_version": "2018-08-31", "a": NaN}', "infinite"),
        ('{"heat_template_version": "2018-08-31", "a": 1e999}', "infinite"),
        ('{"heat_template_version": "2018-08-31", "a": "\\u0000"}', "NUL"),
        ('{"heat_template_version": "2018-08-31", "\\u0000": 1}', "NUL"),
        ('{"heat_template_version": "2018-08-31", "a": "\\ud800"}', "surrogate"),
        (VERSION + 'a: "\\0"', "NUL"),
        (VERSION + "a: \x07", "control characters"),
        (VERSION + "a: \ud800", "surrogates"),
        (VERSION + "a: =", "tag"),
        (VERSION + "<<: 3", "merging"),
        (VERSION + "a: " + "9" * 5000, "tag"),
        (VERSION + "a: !!int 0x", "tag"),
        (VERSION + "[a]: b", "key"),
        (VERSION + "? {a: b}\n: c", "key"),
        (VERSION + "a: *nowhere", "not defined"),
        (VERSION + "a: &a [*a]", "contains itself"),
        (VERSION + "---\nb: 1", "single document"),
        ({"heat_template_version": "2018-08-31", "a": float("inf")}, "infinite"),
        ({"heat_template_version": "2018-08-31", "a": {1: 2}}, "not a string"),
        ({"heat_template_version": "2018-08-31", "a": object()}, "no data"),
    ],
)
def test_refused(text: object, told: str) -> None:
    assert told in refused(text).message


def test_an_object_may_lack_a_version_here() -> None:
    assert load_template({"resources": {}}).data == {"resources": {}}


def test_a_syntax_error_tells_where() -> None:
    error = refused("heat_template_version: 2018-08-31\nresources:\n  a: [1\n  b: 2\n")
    assert "line 4, column 4" in error.message
    assert (error.problems[0].line, error.problems[0].column) == (4, 4)


def test_the_kind_and_the_name_of_the_file_are_told() -> None:
    with pytest.raises(HTTPBadRequest, match=r"^Environment not in valid format: Error parsing env\.yaml "):
        load_mapping("a: [", "env.yaml", "Environment")
    with pytest.raises(HTTPBadRequest, match=r"^Environment not in valid format: The environment is not a JSON object"):
        load_mapping([], "env.yaml", "Environment")
    for empty in ("", " \n", "# a comment\n"):
        assert load_mapping(empty, "env.yaml", "Environment").data == {}


@table("opening", ["[", "{a: ", "- ", "? ", '{"a": ', "a: [", "!!map {a: ", "[{"])
@table("count", [101, 50_000])
def test_depth_is_bounded(opening: str, count: int) -> None:
    start = time.thread_time()
    refused(VERSION + "x: " + opening * count if opening != '{"a": ' else opening * count)
    assert time.thread_time() - start < 2


def test_depth_of_objects_is_bounded() -> None:
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"a": deep}
    assert "deep" in refused(deep).message


def test_a_hundred_levels_are_fine() -> None:
    text = '{"a": ' * 100 + "1" + "}" * 100
    assert load(text).data == load(text.replace('"', "")).data


def test_alias_bombs_are_refused_quickly() -> None:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    start = time.thread_time()
    assert "expand" in refused(VERSION + "\n".join(lines)).message
    long = "x: &x " + "y" * 10_000 + "\nz: [" + "*x, " * 1000 + "]"
    assert "expand" in refused(VERSION + long).message
    assert time.thread_time() - start < 1


def test_aliases_count_towards_the_depth() -> None:
    text = "a: &a " + "[" * 60 + "]" * 60 + "\nb: " + "[" * 60 + "*a" + "]" * 60
    assert "deep" in refused(VERSION + text).message


def test_locate() -> None:
    source = load(
        "heat_template_version: 2018-08-31\nresources:\n  a:\n    type: T\n    depends_on: [b,\n                 c]\n"
    )
    assert source.locate(("resources", "a")) == (3, 3)
    assert source.locate(("resources", "a", "depends_on", 1)) == (6, 18)
    assert source.locate(("resources", "a", "properties", "x")) == (3, 3)
    assert source.locate(("nothing",)) == (0, 0)
    assert source.locate(()) == (0, 0)


def test_locate_in_json_with_tabs_and_in_objects() -> None:
    source = load('{\n\t"heat_template_version": "2018-08-31",\n\t"resources": {"a": [1, {"b": 2}]}\n}')
    assert source.locate(("resources", "a", 1, "b")) == (3, 26)
    assert SourceText("template", {"a": 1}).locate(("a",)) == (0, 0)


def test_json_values() -> None:
    assert load_json_value('{"a": [1]}') == {"a": [1]}
    for bad in ("{", "[" * 5000, "NaN", '"\\u0000"', "9" * 5000):
        with pytest.raises(ValueError):
            load_json_value(bad)


FRAGMENTS = st.sampled_from(
    [
        "a", "heat_template_version: 2018-08-31", ": ", "\n", "  ", "- ", "[", "]", "{", "}", ",", "&a ", "*a", "<<: ",
        "? ", "|", ">", "'", '"', "!!int ", "!!python/name:x ", "!x ", "%YAML 1.1", "---", "...", "\t", "\0", "\\0",
        "\ud800", ".inf", "0x", "08", "1_", "2001-01-01", "=", "~", "#", "@", "`", '"\\ud800"', "é", "🙂", "\r", "\x85",
        "1e999",
    ]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(FRAGMENTS, max_size=40).map("".join)))
def test_text_gives_data_or_our_own_error(text: str) -> None:
    try:
        source = load(text)
    except HTTPBadRequest as error:
        assert error.message.startswith("Template not in valid format: ")
        return
    assert json.loads(json.dumps(source.data, allow_nan=False)) == source.data
    json.dumps(source.data, ensure_ascii=False).encode()
    for path in source.duplicates:
        assert source.locate(path) > (0, 0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(), JSON))
def test_what_json_can_carry_comes_back(data: dict[str, object]) -> None:
    text = json.dumps(data)
    try:
        assert load(text).data == data
    except HTTPBadRequest as error:
        assert "NaN" in text or "Infinity" in text or "\\u0000" in text, error.message


@table("number", ["9" * 302, "0x" + "f" * 251, "-0x" + "f" * 251, "1:" + "59:" * 5000 + "1"])
def test_numbers_that_nobody_can_write_out_again_are_refused(number: str) -> None:
    start = time.thread_time()
    refused(VERSION + f"a: {number}")
    refused({"heat_template_version": "2018-08-31", "a": 10**302})
    assert time.thread_time() - start < 1


def test_numbers_of_three_hundred_digits_are_fine() -> None:
    assert load("a: " + "9" * 300).data == {"a": 10**300 - 1}


def test_of_very_many_duplicate_keys_the_first_thousand_are_told() -> None:
    assert len(load("a: {" + "b: 1, " * 5000 + "}").duplicates) == 1000


def test_the_size_limit_is_heats() -> None:
    assert MAX_TEMPLATE_SIZE == 524288
