"""Laws of the template functions."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from heatlite.core.json import Json
from heatlite.template.document import Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN, Expression, has_unknown, requires, resolve

FUNCTION_NAMES = frozenset(Template({"heat_template_version": "2021-04-16"}).dialect.functions)

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
"""Values that can be stored."""
SCALARS = st.none() | st.booleans() | st.integers() | TEXT
KEYS = TEXT.filter(lambda key: key not in FUNCTION_NAMES)
DATA: st.SearchStrategy[Json] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=10
)
MAPS = st.dictionaries(KEYS, DATA, max_size=4)


class Scope:
    """Two resources: `known` has the values given, `later` is yet to be made."""

    def __init__(self, values: object = None) -> None:
        self.values = values

    def reference(self, name: str) -> object:
        return UNKNOWN if name == "later" else name

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        return UNKNOWN if name == "later" else self.values


def parsed(value: Json) -> object:
    document: dict[str, Json] = {
        "heat_template_version": "2021-04-16",
        "resources": {"known": {"type": "T"}, "later": {"type": "T"}},
        "outputs": {"o": {"value": value}},
    }
    return Template(document).bind(Environment(), {}).outputs["o"].value


def evaluate(value: Json, values: object = None) -> object:
    return resolve(parsed(value), Scope(values))


@given(DATA)
def test_plain_data_is_not_even_copied(data: Json) -> None:
    assert parsed(data) is data
    assert resolve(data, Scope()) is data
    assert list(requires(data)) == []


@given(DATA, DATA)
def test_data_around_a_function_stays_as_it_is(before: Json, after: Json) -> None:
    value: Json = [before, {"get_resource": "known"}, after]
    assert isinstance(parsed(value), Expression)
    assert evaluate(value) == [before, "known", after]


@given(DATA)
def test_the_value_of_an_attribute_is_never_parsed(data: Json) -> None:
    hidden: Json = {"get_param": data}
    assert evaluate({"get_attr": ["known", "a"]}, hidden) is hidden


@given(st.text(min_size=1, max_size=3), st.lists(st.text(max_size=6), min_size=1))
def test_split_undoes_join(delimiter: str, items: list[str]) -> None:
    assume(not any(delimiter in item for item in items))
    # A delimiter may also arise where an item and a delimiter meet.
    assume(delimiter.join(items).count(delimiter) == len(items) - 1)
    assume(delimiter.join(items).split(delimiter) == items)
    assert evaluate({"str_split": [delimiter, {"list_join": [delimiter, list(items)]}]}) == items


@given(st.text(min_size=1, max_size=3), st.text(max_size=20))
def test_join_undoes_split(delimiter: str, text: str) -> None:
    assert evaluate({"list_join": [delimiter, {"str_split": [delimiter, text]}]}) == text


@given(st.text(max_size=2), st.lists(st.lists(st.text(max_size=3)), min_size=1, max_size=4))
def test_joining_several_lists_is_joining_their_concatenation(delimiter: str, lists: list[list[str]]) -> None:
    together = evaluate({"list_join": [delimiter, {"list_concat": list(lists)}]})
    assert evaluate({"list_join": [delimiter, *lists]}) == together


@given(st.lists(MAPS | st.none(), max_size=4))
def test_map_merge_lets_the_last_one_win(maps: list[dict[str, Json] | None]) -> None:
    expected: dict[str, Json] = {}
    for one in maps:
        expected.update(one or {})
    assert evaluate({"map_merge": list(maps)}) == expected


@pytest.mark.slow
@given(MAPS, MAPS, MAPS)
def test_map_merge_is_associative(a: Json, b: Json, c: Json) -> None:
    left = evaluate({"map_merge": [{"map_merge": [a, b]}, c]})
    assert left == evaluate({"map_merge": [a, {"map_merge": [b, c]}]}) == evaluate({"map_merge": [a, b, c]})


ITEMS = st.lists(st.text(alphabet="0123456789", max_size=3), max_size=4)


@given(ITEMS, ITEMS, ITEMS)
def test_repeat_is_the_cartesian_product(a: list[str], b: list[str], c: list[str]) -> None:
    call: Json = {"repeat": {"template": {"k": ["A", "B", "C"]}, "for_each": {"A": a, "B": b, "C": c}}}
    assert evaluate(call) == [{"k": list(row)} for row in itertools.product(a, b, c)]


@given(st.lists(st.tuples(st.text(alphabet="01"), st.text(alphabet="01")), max_size=5))
def test_repeat_without_permutations_is_zip(pairs: list[tuple[str, str]]) -> None:
    for_each: Json = {"A": [a for a, _ in pairs], "B": [b for _, b in pairs]}
    call: Json = {"repeat": {"template": "A-B", "for_each": for_each, "permutations": False}}
    assert evaluate(call) == [f"{a}-{b}" for a, b in pairs]


@given(
    st.text(alphabet="abcx", max_size=12),
    st.dictionaries(st.text(alphabet="abc", min_size=1, max_size=3), st.text(alphabet="abc", max_size=3), max_size=4),
)
def test_str_replace_is_a_single_pass(template: str, params: dict[str, str]) -> None:
    """The longest names first, each over the text that no other has put in."""
    pieces: list[tuple[str, bool]] = [(template, False)]
    for name in sorted(params, key=lambda name: (-len(name), name)):
        following: list[tuple[str, bool]] = []
        for text, done in pieces:
            while not done and name in text:
                before, _, text = text.partition(name)
                following += [(before, False), (params[name], True)]
            following.append((text, done))
        pieces = following
    assert evaluate({"str_replace": {"template": template, "params": dict(params)}}) == "".join(t for t, _ in pieces)


@given(st.text(max_size=20), st.dictionaries(KEYS.filter(bool), st.text(max_size=3), max_size=4))
def test_replacing_names_by_themselves_changes_nothing(template: str, params: dict[str, str]) -> None:
    same: Json = {name: name for name in params}
    assert evaluate({"str_replace": {"template": template, "params": same}}) == template


@given(st.lists(st.lists(st.integers() | st.text(max_size=2)), max_size=4))
def test_concat_unique_keeps_first_occurrences(lists: list[list[int | str]]) -> None:
    joined = evaluate({"list_concat": list(lists)})
    assert joined == list(itertools.chain(*lists))
    assert evaluate({"list_concat_unique": list(lists)}) == list(dict.fromkeys(itertools.chain(*lists)))


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_filter_leaves_what_is_not_named(values: list[int], items: list[int]) -> None:
    assert evaluate({"filter": [list(values), list(items)]}) == [item for item in items if item not in values]


@given(DATA, st.lists(st.integers(-3, 3) | st.text(max_size=3), max_size=3))
def test_a_path_never_fails(data: Json, path: list[int | str]) -> None:
    document: dict[str, Json] = {
        "heat_template_version": "2021-04-16",
        "parameters": {"p": {"type": "json"}},
        "outputs": {"o": {"value": {"get_param": ["p", *path]}}},
    }
    assume(data is not None and not isinstance(data, str))
    value = resolve(Template(document).bind(Environment(parameters={"p": data}), {}).outputs["o"].value, Scope())
    if not path:
        assert value == data


LATER: Json = {"get_attr": ["later", "a"]}
CALLS: st.SearchStrategy[Json] = st.recursive(
    st.just(LATER),
    lambda inner: st.one_of(
        inner.map(lambda x: {"list_join": [",", ["a", x]]}),
        inner.map(lambda x: {"str_replace": {"template": "a", "params": {"a": x}}}),
        inner.map(lambda x: {"str_split": [",", x]}),
        inner.map(lambda x: {"digest": ["md5", x]}),
        inner.map(lambda x: {"map_merge": [{"a": 1}, {"b": x}]}),
        inner.map(lambda x: {"list_concat": [["a"], [x]]}),
        inner.map(lambda x: {"contains": ["a", [x]]}),
        inner.map(lambda x: {"filter": [["a"], [x, "a"]]}),
        inner.map(lambda x: {"repeat": {"template": "v", "for_each": {"v": [{"list_join": ["", [x]]}]}}}),
        inner.map(lambda x: {"make_url": {"host": x}}),
        inner.map(lambda x: {"map_replace": [{"a": x}, {"keys": {"a": "b"}}]}),
        inner.map(lambda x: {"get_attr": ["known", {"list_join": ["", [x]]}]}),
        inner.map(lambda x: ["a", {"b": x}]),
    ),
    max_leaves=5,
)


@pytest.mark.slow
@given(CALLS)
def test_unknown_flows_through_whatever_is_built_on_it(call: Json) -> None:
    assert has_unknown(evaluate(call))
    assert "later" in set(requires(parsed(call)))
