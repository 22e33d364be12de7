"""Template functions, by version."""

import hashlib
import json
from collections.abc import Mapping, Sequence

import pytest

from heatlite.core.errors import HeatliteError, InvalidTemplateVersion, StackValidationFailed, UserParameterMissing
from heatlite.core.json import Json
from heatlite.template.dialects import ALIASES, CONDITIONS, FUNCTIONS, dialect_of, find_dialect, template_versions
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN, has_unknown, requires, resolve, select
from tests.tables import table

LATEST = "2021-04-16"

PARAMETERS: Json = {
    "text": {"type": "string", "default": "abc"},
    "number": {"type": "number", "default": "5"},
    "half": {"type": "number", "default": "2.5"},
    "flag": {"type": "boolean", "default": "on"},
    "off": {"type": "boolean", "default": False},
    "list": {"type": "comma_delimited_list", "default": "a, b,c"},
    "none": {"type": "comma_delimited_list", "default": ""},
    "map": {"type": "json", "default": {"k": [{"x": 1}, None], "1": "one"}},
}


class Stack:
    """A scope with two resources in it."""

    attributes = {"a": {"ip": ["10.0.0.1", "10.0.0.2"], "name": "n", "nothing": None}, "b": {"ip": UNKNOWN}}

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None, list[object]]] = []

    def reference(self, name: str) -> object:
        return f"id-of-{name}" if name == "a" else UNKNOWN

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        self.asked.append((name, attribute, list(path)))
        found = self.attributes[name]
        return found if attribute is None else select(found.get(attribute), path, None)


def bound(value: Json, version: str = LATEST, files: Mapping[str, str] | None = None) -> tuple[Definition, object]:
    document: dict[str, Json] = {
        "heat_template_version": version,
        "parameters": PARAMETERS,
        "resources": {
            "a": {"type": "T"},
            "b": {"type": "T"},
            "x": {"type": "T", "properties": {"value": value}},
        },
    }
    definition = Template(document, files).bind(Environment(), {"OS::stack_name": "s"})
    properties = resolve(definition.resources["x"].properties, Stack())
    assert isinstance(properties, dict)
    return definition, properties.get("value", "(absent)")


def evaluate(value: Json, version: str = LATEST, files: Mapping[str, str] | None = None) -> object:
    return bound(value, version, files)[1]


def fails(value: Json, version: str = LATEST) -> HeatliteError:
    with pytest.raises(HeatliteError) as caught:
        evaluate(value, version)
    return caught.value


def test_data_stays_the_object_that_it_is() -> None:
    value: Json = {"get_param": "text", "other": 1}
    definition, result = bound(value)
    assert result is value
    assert isinstance(definition.resources["x"].properties, dict)


# -- versions ----------------------------------------------------------------------------------------


def test_versions_and_aliases() -> None:
    assert list(FUNCTIONS) == [
        "2013-05-23", "2014-10-16", "2015-04-30", "2015-10-15", "2016-04-08", "2016-10-14", "2017-02-24", "2017-09-01",
        "2018-03-02", "2018-08-31", "2021-04-16",
    ]  # fmt: skip
    assert {alias: dialect_of({"heat_template_version": alias}).version for alias in ALIASES} == dict(ALIASES)
    listed = {str(entry["version"]): entry for entry in template_versions()}
    assert len(listed) == 13
    assert listed["heat_template_version.2018-08-31"]["aliases"] == ["heat_template_version.rocky"]
    assert listed["heat_template_version.2013-05-23"] == {
        "version": "heat_template_version.2013-05-23",
        "type": "hot",
        "aliases": [],
    }


def described(version: str, with_conditions: bool = False) -> list[dict[str, str]]:
    dialect = find_dialect(f"heat_template_version.{version}")
    assert dialect is not None
    return dialect.describe_functions(with_conditions)


@table("version", ["2999-01-01", "", None, 5, ["rocky"], "Rocky"])
def test_unknown_versions(version: object) -> None:
    with pytest.raises(InvalidTemplateVersion) as caught:
        dialect_of({"heat_template_version": version})
    assert caught.value.message.startswith(
        f'The template version is invalid: "heat_template_version: {version}". '
        '"heat_template_version" should be one of: 2013-05-23, '
    )
    assert caught.value.message.endswith("wallaby")


ALWAYS = {"get_param", "get_resource", "get_attr", "get_file", "list_join", "str_replace", "resource_facade"}
CFN_IN_HOT = {
    "Ref", "Fn::GetAZs", "Fn::Select", "Fn::Join", "Fn::Split", "Fn::Replace", "Fn::Base64", "Fn::MemberListToMap",
    "Fn::ResourceFacade",
}  # fmt: skip


@table(
    ("version", "more"),
    [
        ("2013-05-23", CFN_IN_HOT),
        ("2014-10-16", {"Fn::Select"}),
        ("2015-04-30", {"Fn::Select", "repeat", "digest"}),
        ("2015-10-15", {"repeat", "digest", "str_split"}),
        ("2016-04-08", {"repeat", "digest", "str_split", "map_merge"}),
        ("2016-10-14", {"repeat", "digest", "str_split", "map_merge", "map_replace", "if", "yaql"}),
    ],
)
def test_functions_listed_for_a_version(version: str, more: set[str]) -> None:
    listed = described(version)
    assert {entry["functions"] for entry in listed} == ALWAYS | more
    assert all(entry["description"] for entry in listed)


def test_condition_functions_are_listed_when_asked_for() -> None:
    conditions = {"equals", "not", "and", "or"}
    assert not conditions & {entry["functions"] for entry in described("rocky")}
    assert conditions <= {entry["functions"] for entry in described("rocky", with_conditions=True)}
    assert set(CONDITIONS["2016-10-14"]) == conditions | {"get_param"}
    assert set(CONDITIONS["2017-09-01"]) == conditions | {"get_param", "yaql", "contains"}
    assert not CONDITIONS["2016-04-08"]


@table(
    ("version", "value"),
    [
        ("2014-10-16", {"repeat": {"template": "x", "for_each": {"x": ["1"]}}}),
        ("2015-04-30", {"str_split": [",", "a,b"]}),
        ("2015-10-15", {"map_merge": [{"a": 1}]}),
        ("2016-04-08", {"if": ["c", 1, 2]}),
        ("2016-10-14", {"filter": [["a"], ["a"]]}),
        ("2017-02-24", {"list_concat": [["a"]]}),
        (LATEST, {"equals": [1, 1]}),
        (LATEST, {"get_zz": 1}),
    ],
)
def test_a_function_that_a_version_does_not_know_is_data(version: str, value: Json) -> None:
    assert evaluate(value, version) == value


def test_a_map_with_two_keys_is_data() -> None:
    value: Json = {"get_param": "text", "get_resource": "a"}
    assert evaluate(value) == value


@table("name", ["Ref", "Fn::Join", "Fn::GetAZs", "Fn::Base64"])
@table("version", ["2014-10-16", LATEST])
def test_removed_functions_are_errors(name: str, version: str) -> None:
    message = f'resources.x.properties.value.{name}: The function "{name}" is not supported in this version of HOT.'
    assert fails({name: "a"}, version).message == message


def test_select_is_removed_later() -> None:
    assert evaluate({"Fn::Select": ["1", ["a", "b"]]}, "2015-04-30") == "b"
    assert "not supported in this version" in fails({"Fn::Select": ["1", ["a", "b"]]}, "2015-10-15").message


# -- parameters --------------------------------------------------------------------------------------


@table(
    ("argument", "value"),
    [
        ("text", "abc"),
        ("number", 5),
        ("half", 2.5),
        ("flag", True),
        ("list", ["a", " b", "c"]),
        ("none", []),
        ("map", {"k": [{"x": 1}, None], "1": "one"}),
        ("OS::stack_name", "s"),
        (["text"], "abc"),
        (["map", "k", 0, "x"], 1),
        (["map", "k", "0", "x"], 1),
        (["map", "k", -2, "x"], 1),
        (["map", "k", "-2", "x"], 1),
        (["map", "1"], "one"),
        (["map", "k", 1], None),
        (["list", 1], " b"),
        (["text", 0], "a"),
        (["text", "-1"], "c"),
        (["map", "zz"], ""),
        (["map", "k", 7], ""),
        (["map", "k", 1, "x"], ""),
        (["map", "k", "zz"], ""),
        (["map", ["k"]], ""),
        (["number", 0], ""),
        ([{"get_param": ["map", "zz"]}, 1], "(fails)"),
        ([{"list_join": ["", ["te", "xt"]]}, 1], "b"),
    ],
)
def test_get_param(argument: Json, value: object) -> None:
    if value == "(fails)":
        assert isinstance(fails({"get_param": argument}), UserParameterMissing)
    else:
        assert evaluate({"get_param": argument}) == value


@table("argument", ["", [], {}, None, 5, {"a": 1, "b": 2}])
def test_get_param_syntax(argument: Json) -> None:
    assert fails({"get_param": argument}).message.startswith("resources.x.properties.value.get_param: ")


def test_get_param_of_an_undefined_parameter() -> None:
    error = fails({"get_param": "zz"})
    assert isinstance(error, UserParameterMissing)
    assert error.message == "The Parameter (zz) was not provided."


# -- resources ---------------------------------------------------------------------------------------


def test_get_resource() -> None:
    definition, value = bound([{"get_resource": "a"}, "x"])
    assert value == ["id-of-a", "x"]
    assert definition.resources["x"].requires == {"a"}
    assert evaluate({"get_resource": "b"}) is UNKNOWN
    assert evaluate({"get_resource": {"str_replace": {"template": "Z", "params": {"Z": "a"}}}}) == "id-of-a"


@table("argument", ["", None, 5, ["a"], {"get_attr": ["a", "name"]}, {"get_param": "zz"}])
def test_get_resource_syntax(argument: Json) -> None:
    assert fails({"get_resource": argument}).message.startswith("resources.x.properties.value.get_resource: ")


@table("version", FUNCTIONS)
def test_get_attr(version: str) -> None:
    definition, value = bound({"get_attr": ["a", "ip", 1]}, version)
    assert value == "10.0.0.2"
    assert definition.resources["x"].requires == {"a"}
    assert evaluate({"get_attr": ["a", "name"]}, version) == "n"
    assert evaluate({"get_attr": ["a", "nothing"]}, version) is None
    assert evaluate({"get_attr": ["a", "nothing", "x"]}, version) is None
    assert evaluate({"get_attr": ["a", "ip", 7]}, version) is None
    assert evaluate({"get_attr": ["b", "ip", 7]}, version) is UNKNOWN


@pytest.mark.parametrize(("version", "asked"), [("2013-05-23", []), ("2014-10-16", [1]), ("2015-10-15", [1])])
def test_who_follows_the_path_of_get_attr(version: str, asked: list[object]) -> None:
    document: dict[str, Json] = {
        "heat_template_version": version,
        "resources": {"a": {"type": "T"}},
        "outputs": {"o": {"value": {"get_attr": ["a", "ip", 1]}}},
    }
    stack = Stack()
    value = Template(document).bind(Environment(), {}).outputs["o"].value
    assert resolve(value, stack) == "10.0.0.2"
    assert stack.asked == [("a", "ip", asked)]
    assert list(requires(value)) == ["a"]


def test_get_attr_without_an_attribute_gives_all() -> None:
    assert evaluate({"get_attr": ["a"]}, "2015-10-15") == Stack.attributes["a"]
    assert "must be of the form" in fails({"get_attr": ["a"]}, "2015-04-30").message


def test_the_name_of_an_attribute_may_be_a_function() -> None:
    definition, value = bound({"get_attr": ["a", {"list_join": ["", [{"get_attr": ["a", "name"]}, "ame"]]}]})
    assert value == "n"
    assert evaluate({"get_attr": ["a", {"get_attr": ["b", "ip"]}]}) is UNKNOWN
    assert definition.resources["x"].requires == {"a"}
    assert "must be a string" in fails({"get_attr": ["a", {"get_param": "number"}]}).message


@table("argument", ["a", [], None, {"x": 1}, ["", "ip"], [5, "ip"], ["a", 5], ["a", None]])
def test_get_attr_syntax(argument: Json) -> None:
    assert fails({"get_attr": argument}).message.startswith("resources.x.properties.value.get_attr: ")


def test_get_file() -> None:
    assert evaluate({"get_file": "f"}, files={"f": "text", "g": ""}) == "text"
    assert evaluate({"get_file": "g"}, files={"f": "text", "g": ""}) == ""
    assert 'No content found in the "files" section for get_file path: f' in fails({"get_file": "f"}).message
    assert "must be a string" in fails({"get_file": ["f"]}).message


# -- text --------------------------------------------------------------------------------------------


@table(
    ("arguments", "value"),
    [
        ([",", ["a", "b"]], "a,b"),
        (["", ["a", None, "b"]], "ab"),
        ([",", [None, None]], ","),
        ([",", ["a"], None, ["b", "c"]], "a,b,c"),
        ([",", []], ""),
        ([",", [{"b": 1, "a": [1]}, [1, "x"]]], '{"a": [1], "b": 1},[1, "x"]'),
        ([",", {"get_param": "list"}], "a, b,c"),
        (["-", [{"get_attr": ["a", "name"]}, {"get_resource": "a"}]], "n-id-of-a"),
    ],
)
def test_list_join(arguments: Json, value: object) -> None:
    assert evaluate({"list_join": arguments}) == value


@pytest.mark.parametrize("item", [1, 1.5, True])
def test_list_join_takes_no_numbers(item: Json) -> None:
    assert "Items to join must be" in fails({"list_join": [",", ["a", item]]}).message


def test_list_join_of_early_versions() -> None:
    assert evaluate({"list_join": [",", ["a", None]]}, "2015-04-30") == "a,"
    assert "must be strings" in fails({"list_join": [",", [{"a": 1}]]}, "2015-04-30").message
    assert "Incorrect arguments" in fails({"list_join": [",", ["a"], ["b"]]}, "2015-04-30").message


@table("arguments", ["a", [","], [], None, {"a": ["b"], "c": 1}, [5, ["a"]], [None, ["a"]]])
def test_list_join_syntax(arguments: Json) -> None:
    assert fails({"list_join": arguments}).message.startswith("resources.x.properties.value.list_join: ")


@table("empty", ["", {}, False, {"get_param": ["map", "nothing"]}])
def test_list_join_passes_over_what_is_empty(empty: Json) -> None:
    """A path of get_param that leads nowhere gives an empty text."""
    assert evaluate({"list_join": [",", ["a"], empty, ["b"]]}) == "a,b"
    assert "must operate on a list" in fails({"list_join": [",", empty]}, "2015-04-30").message


def test_list_join_needs_lists() -> None:
    assert "must operate on a list" in fails({"list_join": [",", "ab"]}).message
    assert "must operate on a list" in fails({"list_join": [",", {"get_param": "text"}]}).message


@table(
    ("template", "params", "value"),
    [
        ("$a and $b", {"$a": "1", "$b": "2"}, "1 and 2"),
        ("x", {}, "x"),
        ("", {"x": "y"}, ""),
        ("a b", {"a": "b", "b": "a"}, "b a"),
        ("aab", {"a": "1", "aa": "2"}, "2b"),
        ("abcd", {"ab": "1", "bcd": "2"}, "a2"),
        ("abc", {"ab": "1", "bc": "2"}, "1c"),
        ("v", {"v": 5}, "5"),
        ("v", {"v": 2.5}, "2.5"),
        ("v", {"v": True}, "True"),
        ("[v]", {"v": None}, "[]"),
        ("v", {"v": {"b": 1, "a": [None]}}, '{"a": [null], "b": 1}'),
        ("v", {"v": {"get_attr": ["a", "ip"]}}, '["10.0.0.1", "10.0.0.2"]'),
        ({"get_file": "f"}, {"v": {"get_param": "number"}}, "5 files"),
        ("a.c", {".": "x"}, "axc"),
    ],
)
def test_str_replace(template: Json, params: Json, value: object) -> None:
    assert evaluate({"str_replace": {"template": template, "params": params}}, files={"f": "v files"}) == value


def test_str_replace_of_early_versions_takes_no_containers() -> None:
    value: Json = {"str_replace": {"template": "v", "params": {"v": [1]}}}
    assert "params must be strings or numbers" in fails(value, "2015-04-30").message
    assert evaluate({"str_replace": {"template": "v", "params": {"v": False}}}, "2013-05-23") == "False"


@table(
    "arguments", ["a", ["a"], {"template": "a"}, {"params": {}}, {"template": "a", "zz": {}}, None]
)
def test_str_replace_syntax(arguments: Json) -> None:
    assert fails({"str_replace": arguments}).message.startswith("resources.x.properties.value.str_replace: ")


@table(
    "arguments",
    [
        {"template": 5, "params": {}},
        {"template": None, "params": {}},
        {"template": "a", "params": [1]},
        {"template": "a", "params": None},
        {"template": "a", "params": {"": "x"}},
    ],
)
def test_str_replace_values(arguments: Json) -> None:
    assert "str_replace" in fails({"str_replace": arguments}).message


def test_str_replace_strict() -> None:
    def call(name: str, params: Json) -> Json:
        return {name: {"template": "a b", "params": params}}

    assert evaluate(call("str_replace_strict", {"a": "1", "b": ""})) == "1 "
    assert evaluate(call("str_replace_vstrict", {"a": "1", "b": 0})) == "1 0"
    assert "not found in the template: c" in fails(call("str_replace_strict", {"c": "1"})).message
    assert "not found in the template: c" in fails(call("str_replace_vstrict", {"c": "1"})).message
    assert "not found in the template: c, d" in fails(call("str_replace_strict", {"c": "1", "a": "", "d": "2"})).message
    assert evaluate(call("str_replace_strict", {"a": [], "b": {}})) == "[] {}"
    within_longer_ones: Json = {"a b": "1", "a": "2", "c": "3"}
    assert "not found in the template: a, c" in fails(call("str_replace_strict", within_longer_ones)).message
    assert evaluate(call("str_replace_vstrict", {"a": False, "b": " "})) == "False  "
    for empty in (None, "", [], {}):
        assert (
            "undefined or empty value for param b" in fails(call("str_replace_vstrict", {"a": 1, "b": empty})).message
        )


@table(
    ("arguments", "value"),
    [
        ([",", "a,b"], ["a", "b"]),
        ([",", ""], [""]),
        ([",", "a,b", 1], "b"),
        ([",", "a,b", "1"], "b"),
        ([",", "a,b", -1], "b"),
        ([", ", "a, b"], ["a", "b"]),
        ([",", None], None),
        ([",", None, 3], None),
        ([None, "a  b"], ["a", "b"]),
        ([None, "a b", 1], "b"),
        ([None, None], None),
        ([",", {"get_param": "text"}], ["abc"]),
    ],
)
def test_str_split(arguments: Json, value: object) -> None:
    assert evaluate({"str_split": arguments}) == value


@table(
    "arguments",
    ["a", [","], ["", "a"], [",", 5], [",", "a", 1], [",", "a", -2], [",", "a", "x"], [5, "a"], [1, 2, 3, 4]],
)
def test_str_split_faults(arguments: Json) -> None:
    assert "str_split" in fails({"str_split": arguments}).message


def test_digest() -> None:
    assert evaluate({"digest": ["SHA256", "é"]}) == hashlib.sha256(b"\xe9").hexdigest()
    assert evaluate({"digest": ["md5", {"get_param": "text"}]}) == "900150983cd24fb0d6963f7d28e17f72"
    for arguments in ("md5", ["md5"], ["zz", "a"], ["md5", 5], [5, "a"], ["md5", "\u20ac"], ["shake_128", "a"]):
        assert isinstance(fails({"digest": arguments}), StackValidationFailed)


@table(
    ("arguments", "value"),
    [
        ({"scheme": "https", "host": "h", "port": 80, "path": "/a b"}, "https://h:80/a%20b"),
        ({"scheme": "http", "host": "::1", "port": "8080"}, "http://[::1]:8080"),
        ({"scheme": "http", "host": "[::1]"}, "http://[::1]"),
        ({"scheme": "http", "host": "[fe80::1%eth0]"}, "http://[fe80::1%25eth0]"),
        ({"scheme": "http", "host": "a/b"}, "http://a%2Fb"),
        ({"scheme": "http", "host": "u@h?x y"}, "http://u%40h%3Fx%20y"),
        ({"scheme": "http", "host": "b\u00fccher.example"}, "http://b%C3%BCcher.example"),
        ({"scheme": "", "host": "h", "path": "", "username": "", "password": ""}, "//h"),
        ({"scheme": "http", "host": "h", "port": "080"}, "http://h:080"),
        ({"host": "h", "path": "p"}, "//h/p"),
        ({"path": "/p", "query": {"a": None}}, "/p?a="),
        ({}, ""),
        ({"scheme": "http", "username": "u@x", "password": "p/:", "host": "h"}, "http://u%40x:p%2F%3A@h"),
        ({"scheme": "http", "host": "h", "query": {"a": "b/c d", "e": 1}}, "http://h?a=b/c+d&e=1"),
        ({"scheme": "http", "host": "h", "fragment": "f g"}, "http://h#f%20g"),
        ({"scheme": "http", "host": {"get_attr": ["a", "name"]}}, "http://n"),
    ],
)
def test_make_url(arguments: Json, value: str) -> None:
    assert evaluate({"make_url": arguments}) == value


@table(
    "arguments",
    [
        "http://h",
        {"zz": "a"},
        {"port": 0},
        {"port": 65536},
        {"port": "x"},
        {"port": "9" * 5000},
        {"port": True},
        {"port": ""},
        {"port": None},
        {"port": {"str_split": [",", None]}},
        {"scheme": None, "host": "h"},
        {"host": None},
        {"username": None},
        {"password": None},
        {"path": None},
        {"query": None},
        {"fragment": None},
        {"query": "a=b"},
        {"host": 5},
        {"scheme": ["http"]},
        {"scheme": "http:"},
    ],
)
def test_make_url_faults(arguments: Json) -> None:
    assert "make_url" in fails({"make_url": arguments}).message


# -- lists and maps ------------------------------------------------------------------------------------


def test_repeat() -> None:
    two: Json = {
        "repeat": {"template": {"%a%": "%a%-%b%", "n": [1, "%b%"]}, "for_each": {"%a%": ["x", "y"], "%b%": ["1"]}}
    }
    assert evaluate(two, "2015-04-30") == [{"x": "x-1", "n": [1, "1"]}, {"y": "y-1", "n": [1, "1"]}]
    assert evaluate({"repeat": {"template": "a", "for_each": {"a": None}}}) == []
    assert evaluate({"repeat": {"template": "a", "for_each": {"a": {"get_param": "list"}}}}) == ["a", " b", "c"]
    assert evaluate({"repeat": {"template": "a-b", "for_each": {"a": ["1", "2"], "b": ["x", "y"]}}}) == [
        "1-x", "1-y", "2-x", "2-y",
    ]  # fmt: skip
    assert evaluate({"repeat": {"template": "a", "for_each": {"a": ["1"]}, "zz": 1}}) == ["1"]


def test_repeat_over_maps_takes_their_keys() -> None:
    call: Json = {"repeat": {"template": "<a>", "for_each": {"a": {"get_param": "map"}}}}
    assert evaluate(call, "2016-10-14") == ["<k>", "<1>"]
    assert "must be lists" in fails(call, "2016-04-08").message


def test_repeat_side_by_side() -> None:
    def call(a: Json, permutations: Json = False) -> Json:
        for_each: Json = {"A": a, "B": ["x", "y"]}
        return {"repeat": {"template": "A-B", "for_each": for_each, "permutations": permutations}}

    assert evaluate(call(["1", "2"])) == ["1-x", "2-y"]
    assert evaluate(call(["1", "2"], True)) == ["1-x", "1-y", "2-x", "2-y"]
    assert evaluate(call(["1"]), "2017-02-24") == ["1-x", "1-y"]
    assert evaluate(call(None)) == []
    assert "should be equal" in fails(call(["1"])).message
    assert "must be lists" in fails(call({"a": 1, "b": 2})).message
    assert "boolean" in fails(call(["1"], "zz")).message
    assert "boolean" in fails(call(["1"], {"get_param": "text"})).message
    assert evaluate(call(["1", "2"], {"get_param": "off"})) == ["1-x", "2-y"]


@table(
    "arguments",
    [
        "a",
        {"template": "a"},
        {"for_each": {"a": []}},
        {"template": "a", "for_each": []},
        {"template": "a", "for_each": {}},
        {"template": "a", "for_each": {"a": "b"}},
        {"template": "a", "for_each": {"a": [1]}},
        {"template": "a", "for_each": {"a": [None]}},
        {"template": "a", "for_each": {"get_param": "text"}},
    ],
)
def test_repeat_faults(arguments: Json) -> None:
    assert "repeat" in fails({"repeat": arguments}).message


def test_map_merge() -> None:
    merged = evaluate({"map_merge": [{"a": 1, "b": {"x": 1}}, None, {"b": {"y": 2}}, {"get_param": "map"}]})
    assert merged == {"a": 1, "b": {"y": 2}, "k": [{"x": 1}, None], "1": "one"}
    assert list(merged) == ["a", "b", "k", "1"]  # type: ignore[call-overload]
    assert evaluate({"map_merge": []}) == {}
    assert evaluate({"map_merge": {"get_param": ["map", "nothing"]}}) == {}
    for arguments in ("a", [["a"]], ["a"], [1], {"a": 1}):
        assert "map_merge" in fails({"map_merge": arguments}).message


def test_map_replace() -> None:
    def call(given: Json, **changes: Json) -> Json:
        return {"map_replace": [given, changes]}

    assert evaluate(call({"a": 1, "b": "x"}, keys={"a": "c"}, values={"x": "y", "1": 2})) == {"c": 1, "b": "y"}
    assert evaluate(call({"a": [1], "b": {"x": 1}}, values={"x": "y"})) == {"a": [1], "b": {"x": 1}}
    assert evaluate(call({"a": 1})) == evaluate(call({"a": 1}, keys={"a": None})) == {"a": 1}
    assert evaluate({"map_replace": [None, {"keys": {"a": "b"}}]}) == {}
    assert evaluate({"map_replace": [{"a": 1}, None]}) == {"a": 1}
    assert "key replacement b collides" in fails(call({"a": 1, "b": 2}, keys={"a": "b"})).message
    assert "collides" in fails(call({"a": 1, "b": 2}, keys={"a": "c", "b": "c"})).message
    for arguments in ("a", [{}], [{}, {"zz": {}}], ["a", {}], [{}, {"keys": "a"}], [{"a": 1}, {"keys": {"a": [1]}}]):
        assert "map_replace" in fails({"map_replace": arguments}).message


def test_filter() -> None:
    assert evaluate({"filter": [["a", None], ["b", "a", None, "a", {"x": 1}]]}) == ["b", {"x": 1}]
    assert evaluate({"filter": [[], []]}) == []
    assert evaluate({"filter": [["a"], None]}) is None
    assert evaluate({"filter": [None, ["a"]]}) == ["a"]
    nowhere: Json = {"get_param": ["map", "nothing"]}
    assert evaluate({"filter": [nowhere, ["a"]]}) == ["a"]
    assert evaluate({"filter": [["a"], nowhere]}) == ""
    for arguments in ("a", [["a"]], ["a", ["a"]], [["a"], "a"]):
        assert "filter" in fails({"filter": arguments}).message


def test_list_concat() -> None:
    assert evaluate({"list_concat": [["a", 1], None, ["a"], {"get_param": "none"}]}) == ["a", 1, "a"]
    assert evaluate({"list_concat_unique": [["a", 1, {"x": [1]}], ["1", "a", {"x": [1]}, 1]]}) == [
        "a", 1, {"x": [1]}, "1",
    ]  # fmt: skip
    for name in ("list_concat", "list_concat_unique"):
        for arguments in ("a", ["a"], [{"a": 1}], [1]):
            assert name in fails({name: arguments}).message


def test_contains() -> None:
    assert evaluate({"contains": ["a", ["a", "b"]]}) is True
    assert evaluate({"contains": [{"x": 1}, [{"x": 1}]]}) is True
    assert evaluate({"contains": ["1", [1]]}) is False
    assert evaluate({"contains": ["bc", {"get_param": "text"}]}) is True
    for arguments in ("a", ["a"], ["a", 5], ["a", None]):
        assert "contains" in fails({"contains": arguments}).message


def test_select() -> None:
    version = "2013-05-23"
    for arguments, value in (
        (["k", {"k": 1}], 1),
        ([0, ["a"]], "a"),
        (["0", ["a"]], "a"),
        (["1", '["a", "b"]'], "b"),
        (["zz", {"k": 1}], ""),
        (["7", ["a"]], ""),
        (["7", None], ""),
        (["k", ""], ""),
        (["k", {"get_param": ["map", "missing"]}], ""),
        ([1, {"get_attr": ["a", "ip"]}], "10.0.0.2"),
    ):
        assert evaluate({"Fn::Select": arguments}, version) == value
    for arguments in ("a", ["a"], ["a", 5], ["a", "{"]):
        assert "Fn::Select" in fails({"Fn::Select": arguments}, version).message


@pytest.mark.slow
@table(
    "function",
    [
        {"map_merge": ["secret" * 20]},
        {"list_concat": ["secret" * 20]},
        {"list_join": ["", [{"get_param": "number"}, "secret" * 20]]},
        {"repeat": {"for_each": {"x": [{"k": "secret" * 20}]}, "template": "x"}},
        {"map_replace": [{}, {"secret" * 20: {}}]},
        {"make_url": {"host": "h", "port": "secret" * 20}},
        {"yaql": {"expression": "int($.data)", "data": "secret" * 200}},
        {"yaql": {"expression": "secret " * 200}},
        {"yaql": {"expression": "$.data.get(secret)", "data": "secret" * 200}},
    ],
)
def test_no_message_shows_a_part_of_a_long_value(function: Json) -> None:
    message = fails(function).message
    assert "secret" not in message and len(message) < 300


# -- if ------------------------------------------------------------------------------------------------


def test_if_looks_at_the_chosen_branch_only() -> None:
    definition, value = bound({"if": [True, {"get_resource": "a"}, {"get_resource": "nowhere"}]}, "2016-10-14")
    assert value == "id-of-a"
    assert definition.resources["x"].requires == {"a"}
    definition, value = bound({"if": [{"get_param": "off"}, {"list_join": 5}, [1, {"get_param": "text"}]]})
    assert value == [1, "abc"]
    assert not definition.resources["x"].requires


def test_if_may_leave_nothing_behind() -> None:
    nothing: Json = {"if": [False, "x"]}
    assert evaluate(nothing) == "(absent)"
    assert evaluate(["a", nothing, "b"]) == ["a", "b"]
    assert evaluate({"a": 1, "b": nothing}) == {"a": 1}
    assert evaluate({"list_join": [",", ["a", nothing]]}) == "a"
    assert evaluate({"a": {"if": [True, nothing, 1]}}) == {}
    assert evaluate({"if": [True, "x"]}) == "x"
    assert "if" in fails(nothing, "2018-08-31").message


def test_if_without_a_second_value_is_null_where_nothing_can_be_left_out() -> None:
    document: dict[str, Json] = {"heat_template_version": LATEST, "outputs": {"o": {"value": {"if": [False, "x"]}}}}
    assert Template(document).bind(Environment(), {}).outputs["o"].value is None


@table("arguments", ["c", [True], [True, 1, 2, 3], {"a": 1}, ["zz", 1, 2], [5, 1, 2], [None, 1, 2]])
def test_if_syntax(arguments: Json) -> None:
    assert fails({"if": arguments}).message.startswith("resources.x.properties.value.if")


# -- what is not known yet -----------------------------------------------------------------------------


@table(
    "call",
    [
        {"list_join": [",", ["a", {"get_attr": ["b", "ip"]}]]},
        {"str_replace": {"template": "a", "params": {"a": {"x": {"get_resource": "b"}}}}},
        {"str_split": [",", {"get_resource": "b"}]},
        {"digest": ["md5", {"get_resource": "b"}]},
        {"make_url": {"host": {"get_resource": "b"}}},
        {"map_merge": [{"a": 1}, {"get_attr": ["b", "ip"]}]},
        {"map_replace": [{"a": {"get_resource": "b"}}, {}]},
        {"filter": [["a"], [{"get_resource": "b"}]]},
        {"list_concat": [["a"], {"get_attr": ["b", "ip"]}]},
        {"list_concat_unique": [["a"], [{"get_resource": "b"}]]},
        {"contains": ["a", [{"get_resource": "b"}]]},
        {"repeat": {"template": "a", "for_each": {"a": {"get_attr": ["b", "ip"]}}}},
    ],
)
def test_unknown_flows_through(call: Json) -> None:
    assert evaluate(call) is UNKNOWN


def test_unknown_stays_where_it_stands() -> None:
    b: Json = {"get_resource": "b"}
    assert evaluate([1, {"x": b}]) == [1, {"x": UNKNOWN}]
    assert evaluate({"map_merge": [{"a": b}, {"c": 1}]}) == {"a": UNKNOWN, "c": 1}
    assert evaluate({"list_concat": [[b], ["c"]]}) == [UNKNOWN, "c"]
    assert evaluate({"repeat": {"template": {"n": "v", "k": 1}, "for_each": {"v": ["a", b]}}}) == [
        {"n": "a", "k": 1},
        {"n": UNKNOWN, "k": 1},
    ]
    assert has_unknown({"a": [UNKNOWN]}) and not has_unknown({"a": [1]})


# -- bounds --------------------------------------------------------------------------------------------


def test_nested_calls_cannot_grow_without_end() -> None:
    grown: Json = "a"
    for _ in range(20):
        grown = {"str_replace": {"template": grown, "params": {"a": "a" * 1000}}}
    assert "more than" in fails(grown).message
    many = {str(i): ["a", "b"] for i in range(40)}
    assert "more than" in fails({"repeat": {"template": "x", "for_each": many}}).message
    assert "more than" in fails({"list_join": [",", ["a" * 100_000] * 100]}).message
    assert "more than" in fails({"list_concat": [["a"] * 1000] * 101}).message
    long = {"repeat": {"template": "v" * 1000, "for_each": {"v": ["x" * 10_000]}}}
    assert "more than" in fails(long).message


@pytest.mark.slow
@table("name", FUNCTIONS[LATEST])
def test_every_function_bears_the_deepest_nesting(name: str) -> None:
    for innermost in ("a", ["a"], {"a": "b"}):
        value: Json = innermost
        for _ in range(90):
            value = {name: value}
        listed: Json = innermost
        for _ in range(45):
            listed = {name: [True, listed]}
        for nested in (value, listed):
            try:
                evaluate(nested)
            except HeatliteError as error:
                assert json.dumps(error.message)
