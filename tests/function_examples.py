"""Calls of every template function, with places for references in them.

A function without a row fails the tests that use the table.
"""

import json
from collections.abc import Iterator, Mapping

from heatlite.core.json import Json
from heatlite.template.dialects import Dialect

HERE = "@"
"""The place of a reference in a row."""

CALLS: Mapping[str, list[Json]] = {
    "get_param": [[HERE], ["map", HERE], "text"],
    "get_resource": [HERE, "known"],
    "get_attr": [["known", HERE], ["known", "a", HERE], ["known", "a"]],
    "get_file": [HERE, "file"],
    "resource_facade": ["metadata", HERE],
    "list_join": [
        [",", ["a", HERE]], [",", HERE], [HERE, ["a", "b"]], ["", ["a", HERE], ["b"]], [",", ["a"], HERE],
    ],
    "str_replace": [
        {"template": "x-N", "params": {"N": HERE}}, {"template": HERE, "params": {"N": "a"}},
        {"template": "x-N", "params": HERE}, HERE,
    ],
    "str_replace_strict": [{"template": "x-N", "params": {"N": HERE}}, {"template": HERE, "params": {"N": "a"}}],
    "str_replace_vstrict": [{"template": "x-N", "params": {"N": HERE}}, {"template": HERE, "params": {"N": "a"}}],
    "repeat": [
        {"template": {"k": "N"}, "for_each": {"N": ["a", HERE]}}, {"template": {"k": HERE}, "for_each": {"N": ["a"]}},
        {"template": {"N": HERE}, "for_each": {"N": ["a", "b"]}}, {"template": {"N": 1}, "for_each": {"N": [HERE]}},
        {"template": "N", "for_each": {"N": HERE}}, {"template": "N", "for_each": HERE}, HERE,
        {"template": ["N", "M"], "for_each": {"N": ["a"], "M": [HERE]}, "permutations": False},
        {"template": "N", "for_each": {"N": ["a"]}, "permutations": HERE},
    ],
    "digest": [["sha512", HERE], [HERE, "a"]],
    "str_split": [[",", HERE], [",", HERE, 0], [HERE, "a,b"], [",", "a,b", HERE]],
    "map_merge": [[{"a": 1}, {"b": HERE}], [{"a": 1}, HERE], HERE],
    "yaql": [
        {"expression": "$.data", "data": HERE}, {"expression": "$.data.a", "data": {"a": [HERE]}},
        {"expression": "$.data.len()", "data": HERE}, {"expression": "dict(a => $.data)", "data": HERE},
        {"expression": HERE, "data": {}},
    ],
    "map_replace": [
        [{"a": HERE}, {"keys": {"a": "b"}}], [{"a": HERE}, {"values": {"x": "y"}}], [HERE, {"keys": {"k": "b"}}],
        [{"a": "b"}, {"values": {"b": HERE}}], [{"a": "b"}, {"keys": {"a": HERE}}], [{"a": "b"}, {"keys": HERE}],
        [{"a": "b"}, HERE],
    ],
    "if": [["yes", HERE, "b"], ["no", "a", HERE], [{"equals": [HERE, "a"]}, "a", "b"]],
    "filter": [[["a"], ["a", HERE]], [[HERE], ["a", "b"]], [["a"], HERE], [HERE, ["a"]]],
    "make_url": [
        {"host": HERE}, {"scheme": "http", "host": "a", "query": {"q": HERE}}, {"host": "a", "port": HERE},
        {"host": "a", "query": HERE}, {"scheme": HERE, "host": "a", "path": HERE, "fragment": HERE}, HERE,
    ],
    "list_concat": [[["a"], [HERE]], [["a"], HERE], HERE],
    "list_concat_unique": [[["a"], [HERE, HERE]], [["a"], HERE], HERE],
    "contains": [[HERE, ["a", HERE]], ["a", [HERE]], ["a", HERE], [HERE, "abc"]],
    "equals": [[HERE, "a"], [HERE, HERE]],
    "not": [HERE, {"equals": [HERE, "a"]}],
    "and": [["yes", {"equals": [HERE, "a"]}], [HERE, "no"]],
    "or": [["no", {"equals": [HERE, "a"]}], [HERE, "yes"]],
    "Ref": [HERE, "known", "text"],
    "Fn::GetAZs": ["", HERE],
    "Fn::GetAtt": [["known", HERE], ["known", "a"]],
    "Fn::Select": [[0, [HERE, "a"]], [1, [HERE, "a"]], ["k", {"k": HERE}], ["k", HERE], [0, HERE], [HERE, ["a"]]],
    "Fn::Join": [[",", ["a", HERE]], [",", HERE], [HERE, ["a", "b"]]],
    "Fn::Split": [[",", HERE], [HERE, "a,b"]],
    "Fn::Replace": [[{"N": HERE}, "x-N"], [{"N": "a"}, HERE], [HERE, "x-N"]],
    "Fn::Base64": [HERE],
    "Fn::MemberListToMap": [
        ["Name", "Value", [".member.0.Name=a", {"Fn::Join": ["", [".member.0.Value=", HERE]]}]],
        ["Name", "Value", [".member.0.Name=a", HERE]], ["Name", "Value", HERE], [HERE, "Value", []],
    ],
    "Fn::ResourceFacade": ["Metadata", HERE],
    "Fn::FindInMap": [["M", "k", "n"], ["M", "k", HERE], ["M", HERE, "n"], [HERE, "k", "n"]],
    "Fn::If": [["yes", HERE, "b"], ["no", "a", HERE], [HERE, "a", "b"]],
    "Fn::Equals": [[HERE, "a"], [HERE, HERE]],
    "Fn::Not": [[HERE], [{"Fn::Equals": [HERE, "a"]}]],
    "Fn::And": [["yes", {"Fn::Equals": [HERE, "a"]}], [HERE, "no"]],
    "Fn::Or": [["no", {"Fn::Equals": [HERE, "a"]}], [HERE, "yes"]],
}  # fmt: skip
"""Function → arguments. Resources: known, later; parameters: text, map, secret; conditions: yes, no."""

_PLAIN: Mapping[str, Mapping[str, Json]] = {
    "hot": {
        "get_resource": {"get_resource": "later"},
        "get_attr": {"get_attr": ["later", "a"]},
        "get_attr of a map": {"get_attr": ["later", "map"]},
        "hidden": {"get_param": "secret"},
        "nested": {"list_join": ["", ["x", {"get_resource": "later"}]]},
    },
    "cfn": {
        "get_resource": {"Ref": "later"},
        "get_attr": {"Fn::GetAtt": ["later", "a"]},
        "get_attr of a map": {"Fn::GetAtt": ["later", "map"]},
        "hidden": {"Ref": "secret"},
        "nested": {"Fn::Join": ["", ["x", {"Ref": "later"}]]},
    },
}


def references(dialect: Dialect) -> dict[str, Json]:
    """Return values that refer to something, by what they are called."""
    plain = _PLAIN[dialect.kind]
    found: dict[str, Json] = {**plain}
    for name in ("get_resource", "get_attr", "hidden"):
        found[f"{name} in a list"] = [plain[name], "b"]
        found[f"{name} in a map"] = {"k": plain[name], "l": {"m": [plain[name]]}}
    for choice in {"if", "Fn::If"} & dialect.functions.keys():
        found["chosen"] = {choice: ["yes", plain["get_resource"], "x"]}
    return found


def calls(dialect: Dialect) -> Iterator[tuple[str, str, Json]]:
    """Yield every function of a dialect over every reference.

    Both names, and the value.
    """
    for name, function in dialect.functions.items():
        if function.summary:  # not of an earlier version only
            for kind, reference in references(dialect).items():
                for row in CALLS[name]:
                    yield name, kind, {name: put_in(row, reference)}


def put_in(row: Json, reference: Json) -> Json:
    """Return a row with a reference at its place."""
    return json.loads(json.dumps(row).replace(f'"{HERE}"', json.dumps(reference)))  # type: ignore[no-any-return]
