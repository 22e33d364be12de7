"""More laws of the functions: HOT's and CloudFormation's."""

import hashlib
from urllib import parse as urls

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import Json, JsonMap
from heatlite.template.document import Template
from heatlite.template.environment import Environment
from heatlite.template.expression import NoResources, resolve

WORDS = st.text(alphabet="abcxyz019 ._-", max_size=6)
MAPS = st.dictionaries(WORDS, WORDS, max_size=5)


def evaluate(value: Json) -> object:
    document: JsonMap = {"heat_template_version": "2021-04-16", "outputs": {"o": {"value": value}}}
    return resolve(Template(document).bind(Environment(), {}).outputs["o"].value, NoResources())


def evaluate_cfn(value: Json) -> object:
    document: JsonMap = {
        "HeatTemplateFormatVersion": "2012-12-12",
        "Outputs": {"o": {"Value": value}},
        "Mappings": {"M": {"k": {"n": "found"}}},
    }
    return resolve(Template(document).bind(Environment(), {}).outputs["o"].value, NoResources())


# -- HOT -------------------------------------------------------------------------------------------


ALGORITHMS = st.sampled_from(["md5", "sha1", "sha256", "SHA512", "blake2b"])


@given(ALGORITHMS, st.text(alphabet=st.characters(max_codepoint=255)))
def test_digest_is_hashlibs(algorithm: str, text: str) -> None:
    assume("\0" not in text)
    assert evaluate({"digest": [algorithm, text]}) == hashlib.new(algorithm.lower(), text.encode("latin-1")).hexdigest()


@given(MAPS, MAPS)
def test_map_replace_replaces_every_value_and_only_those(given_map: dict[str, str], values: dict[str, str]) -> None:
    replaced = evaluate({"map_replace": [dict(given_map), {"values": dict(values)}]})
    assert replaced == {key: values.get(value, value) for key, value in given_map.items()}


@given(MAPS, MAPS)
def test_map_replace_renames_or_collides(given_map: dict[str, str], keys: dict[str, str]) -> None:
    call: Json = {"map_replace": [dict(given_map), {"keys": dict(keys)}]}
    renamed = [keys.get(key, key) for key in given_map]
    onto_others = any(keys.get(key, key) != key and keys[key] in given_map for key in given_map)
    if onto_others or len(set(renamed)) < len(renamed):
        with pytest.raises(StackValidationFailed, match="collides"):
            evaluate(call)
    else:
        assert evaluate(call) == dict(zip(renamed, given_map.values(), strict=True))


NESTED: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "1", 0.0, 1.0]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
LISTS = st.lists(NESTED, max_size=6)


@given(LISTS, LISTS)
def test_filter_goes_by_equality(values: list[Json], items: list[Json]) -> None:
    assert evaluate({"filter": [list(values), list(items)]}) == [item for item in items if item not in values]


@given(LISTS)
def test_concat_unique_is_idempotent_and_goes_by_equality(items: list[Json]) -> None:
    first: list[Json] = []
    for item in items:
        if item not in first:
            first.append(item)
    once = evaluate({"list_concat_unique": [list(items)]})
    assert once == first
    assert evaluate({"list_concat_unique": [list(first), list(items)]}) == once


@given(NESTED, LISTS)
def test_contains_is_membership(value: Json, items: list[Json]) -> None:
    assert evaluate({"contains": [value, items]}) is (value in items)


@given(WORDS, WORDS)
def test_contains_looks_for_texts_in_texts(part: str, text: str) -> None:
    assert evaluate({"contains": [part, text]}) is (part in text)


URLS = st.fixed_dictionaries(
    {
        "scheme": st.sampled_from(["http", "https", "ftp"]),
        "host": st.sampled_from(["h.example.org", "10.0.0.1", "fe80::1"]),
    },
    optional={
        "username": st.text(min_size=1, max_size=5),
        "password": st.text(min_size=1, max_size=5),
        "port": st.integers(1, 65535),
        "path": st.text(max_size=8).map(lambda text: "/" + text),
        "query": st.dictionaries(st.text(min_size=1, max_size=4), st.text(max_size=4), max_size=3),
        "fragment": st.text(max_size=5),
    },
)


@given(URLS)
def test_a_url_can_be_taken_apart_again(parts: JsonMap) -> None:
    assume(not any("\0" in str(value) for value in parts.values()))
    made = urls.urlsplit(str(evaluate({"make_url": parts})))
    assert (made.scheme, made.hostname, made.port) == (parts["scheme"], parts["host"], parts.get("port"))
    assert urls.unquote(made.path) == parts.get("path", "")
    assert urls.unquote(made.fragment) == parts.get("fragment", "")
    assert dict(urls.parse_qsl(made.query, keep_blank_values=True)) == parts.get("query", {})
    assert urls.unquote(made.username or "") == parts.get("username", "")
    assert urls.unquote(made.password or "") == parts.get("password", "")


@given(WORDS, st.dictionaries(WORDS.filter(bool), WORDS, max_size=4))
def test_the_strictnesses_of_str_replace(text: str, params: dict[str, str]) -> None:
    arguments: Json = {"template": text, "params": dict(params)}
    plain = evaluate({"str_replace": arguments})
    left, missing = text, False
    for name in sorted(sorted(params), key=len, reverse=True):
        missing |= name not in left
        left = left.replace(name, "\1")
    for function, refused in (
        ("str_replace_strict", missing),
        ("str_replace_vstrict", missing or not all(params.values())),
    ):
        if refused:
            with pytest.raises(StackValidationFailed):
                evaluate({function: arguments})
        else:
            assert evaluate({function: arguments}) == plain


@given(st.lists(WORDS, min_size=1, max_size=5), st.integers(-7, 7))
def test_an_index_of_str_split_is_pythons(items: list[str], index: int) -> None:
    call: Json = {"str_split": ["|", "|".join(items), index]}
    if -len(items) <= index < len(items):
        assert evaluate(call) == items[index]
    else:
        with pytest.raises(StackValidationFailed, match="between 0 and"):
            evaluate(call)


@given(st.booleans(), st.booleans(), NESTED, NESTED)
def test_conditions_are_logic(one: bool, other: bool, yes: Json, no: Json) -> None:
    for condition, holds in (
        ({"and": [one, other]}, one and other),
        ({"or": [one, other]}, one or other),
        ({"not": one}, not one),
        ({"not": {"and": [{"not": one}, {"not": other}]}}, one or other),
        ({"equals": [yes, no]}, yes == no),
    ):
        assert evaluate({"if": [condition, {"a": 1}, {"b": 2}]}) == ({"a": 1} if holds else {"b": 2})


# -- CloudFormation's ------------------------------------------------------------------------------


@given(st.lists(WORDS, min_size=1, max_size=5))
def test_fn_split_undoes_fn_join(items: list[str]) -> None:
    assert evaluate_cfn({"Fn::Split": ["|", {"Fn::Join": ["|", list(items)]}]}) == items


@given(st.lists(WORDS, max_size=4), st.integers(-2, 6))
def test_fn_select_of_a_list_gives_the_item_or_nothing(items: list[str], index: int) -> None:
    found = items[index] if -len(items) <= index < len(items) else ""
    assert evaluate_cfn({"Fn::Select": [index, list(items)]}) == found


@given(MAPS, WORDS)
def test_fn_select_of_a_map_gives_the_value_or_nothing(items: dict[str, str], key: str) -> None:
    assert evaluate_cfn({"Fn::Select": [key, dict(items)]}) == items.get(key, "")


@given(WORDS, st.dictionaries(WORDS.filter(bool), WORDS, max_size=4))
def test_fn_replace_is_str_replace(text: str, params: dict[str, str]) -> None:
    expected = evaluate({"str_replace": {"template": text, "params": dict(params)}})
    assert evaluate_cfn({"Fn::Replace": [dict(params), text]}) == expected


@given(WORDS)
def test_fn_base64_leaves_the_text(text: str) -> None:
    assert evaluate_cfn({"Fn::Base64": text}) == text


@given(st.dictionaries(WORDS, WORDS, max_size=4))
def test_fn_member_list_to_map_reads_what_is_written(items: dict[str, str]) -> None:
    members: list[Json] = []
    for number, (key, value) in enumerate(items.items()):
        members += [f".member.{number}.Name={key}", f".member.{number}.Value={value}"]
    assert evaluate_cfn({"Fn::MemberListToMap": ["Name", "Value", members]}) == items


@given(st.sampled_from(["M", "x"]), st.sampled_from(["k", "x"]), st.sampled_from(["n", "x"]))
def test_fn_find_in_map_finds_what_is_there_only(name: str, key: str, value: str) -> None:
    call: Json = {"Fn::FindInMap": [name, key, value]}
    if (name, key, value) == ("M", "k", "n"):
        assert evaluate_cfn(call) == "found"
    else:
        with pytest.raises(StackValidationFailed, match="no such key"):
            evaluate_cfn(call)
