"""Calls of every template function, with places for references in them.

A function without a row fails the tests that use the table.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.errors import HeatliteError, InvalidTemplateAttribute
from heatlite.core.json import Json, JsonMap
from heatlite.template.dialects import TemplateVersion
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from heatlite.template.expression import fields, resolve

HERE = "@"
"""The place of a reference in a row."""

CALLS: Mapping[str, list[Json]] = {
    "get_param": [[HERE], ["map", HERE], "text"],
    "get_resource": [HERE, "known"],
    "get_attr": [["known", HERE], ["known", "output", HERE], ["known", "output"]],
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
    "Fn::GetAtt": [["known", HERE], ["known", "output"]],
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
        "get_attr": {"get_attr": ["later", "output"]},
        "get_attr of a map": {"get_attr": ["later", "show"]},
        "hidden": {"get_param": "secret"},
        "nested": {"list_join": ["", ["x", {"get_resource": "later"}]]},
    },
    "cfn": {
        "get_resource": {"Ref": "later"},
        "get_attr": {"Fn::GetAtt": ["later", "output"]},
        "get_attr of a map": {"Fn::GetAtt": ["later", "show"]},
        "hidden": {"Ref": "secret"},
        "nested": {"Fn::Join": ["", ["x", {"Ref": "later"}]]},
    },
}


def references(dialect: TemplateVersion) -> dict[str, Json]:
    """Return values that refer to something, by what they are called."""
    plain = _PLAIN[dialect.kind]
    found: dict[str, Json] = {**plain}
    for name in ("get_resource", "get_attr", "hidden"):
        found[f"{name} in a list"] = [plain[name], "b"]
        found[f"{name} in a map"] = {"k": plain[name], "l": {"m": [plain[name]]}}
    for choice in {"if", "Fn::If"} & dialect.functions.keys():
        found["chosen"] = {choice: ["yes", plain["get_resource"], "x"]}
    return found


class Call(Struct, frozen=True):
    """A function over a reference."""

    function: str
    kind: str
    """Name of the reference."""
    row: Json
    call: Json
    value: object = None
    """Its value once all is known."""


def calls(dialect: TemplateVersion) -> Iterator[Call]:
    """Yield every function of a dialect over every reference, wrong calls too."""
    for name, function in dialect.functions.items():
        if function.summary:  # not of an earlier version only
            for kind, reference in references(dialect).items():
                for row in CALLS[name]:
                    yield Call(name, kind, row, {name: put_in(row, reference)})


def put_in(row: Json, reference: Json) -> Json:
    """Return a row with a reference at its place."""
    return json.loads(json.dumps(row).replace(f'"{HERE}"', json.dumps(reference)))  # type: ignore[no-any-return]


def document(dialect: TemplateVersion, **resources: tuple[str, JsonMap]) -> JsonMap:
    """Return a template with what the calls refer to.

    `resources`: type and properties by name.
    """
    found: JsonMap = {dialect.key: dialect.version}
    parameters: JsonMap = {
        "text": {"type": "string", "default": "abc"},
        "map": {"type": "json", "default": {"k": "v"}},
        "secret": {"type": "string", "hidden": True},
    }
    yes: Json = {"equals": ["a", "a"]}
    no: Json = {"not": yes}
    if dialect.kind == "cfn":
        parameters = {
            "text": {"Type": "String", "Default": "abc"},
            "map": {"Type": "Json", "Default": {"k": "v"}},
            "secret": {"Type": "String", "NoEcho": True},
        }
        yes = {"Fn::Equals": ["a", "a"]}
        no = {"Fn::Not": [yes]}
        found["Mappings"] = {"M": {"k": {"n": "found"}}}
    found[dialect.sections["parameters"]] = parameters
    if dialect.conditions:
        found[dialect.sections["conditions"]] = {"yes": yes, "no": no}
    words = dialect.resource_keys
    found[dialect.sections["resources"]] = {
        name: {words["type"]: kind, words["properties"]: properties} for name, (kind, properties) in resources.items()
    }
    return found


FILES = {"file": "text"}


def bound(dialect: TemplateVersion, values: JsonMap, secret: object, facade: JsonMap | None = None) -> Definition:
    """Return a definition with the values as properties of the resource x."""
    made = document(dialect, known=("T", {}), later=("T", {}), x=("T", values))
    environment = Environment(parameters={"secret": secret})  # type: ignore[dict-item]  # UNKNOWN is allowed there
    return Template(made, FILES).definition(environment, {}, facade=facade)


class Known:
    """A scope in which all resources are there."""

    def reference(self, name: str) -> object:
        return f"s-{name}-abcdefghijkl"

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        if attribute not in (None, "output", "show"):
            raise InvalidTemplateAttribute(resource=name, key=attribute)
        return {"k": "v", "l": ["w"]} if attribute == "show" else f"{attribute}-of-{name}"


def right_calls(dialect: TemplateVersion, facade: JsonMap | None = None) -> Iterator[Call]:
    """Yield the calls that have a value once all is known."""
    made = list(calls(dialect))
    values = known_values(dialect, [one.call for one in made], facade)
    yield from (replace(one, value=values[number]) for number, one in enumerate(made) if number in values)


def known_values(dialect: TemplateVersion, given: Sequence[Json], facade: JsonMap | None = None) -> dict[int, object]:
    """Return the values of calls once all is known, by number. Wrong calls have none."""
    definition = bound(dialect, {str(number): one for number, one in enumerate(given)}, "s3cret", facade)
    parsed = fields(definition.resources["x"].properties)
    assert parsed is not None
    wrong = {problem.path[3] for problem in definition.findings.ordered() if len(problem.path) > 3}
    found: dict[int, object] = {}
    for number in range(len(given)):
        definition.refill()
        with suppress(HeatliteError):
            value = resolve(parsed[str(number)], Known())
            if str(number) not in wrong:
                found[number] = value
    return found
