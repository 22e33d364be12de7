"""Odd templates: each has the result of Heat 27, or its line in the reference.

The page is docs/reference/heat-differences.md.
"""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from tests.databases import sqlite
from tests.tables import table

from .conftest import Heat

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "heat-differences.md"
INVALID, REFERENCE, SCHEMA = "StackValidationFailed", "InvalidTemplateReference", "InvalidSchemaError"
INNER = """\
heat_template_version: 2021-04-16
parameters:
  s: {type: string, default: d}
  flag: {type: boolean, default: true}
resources: {v: {type: OS::Heat::Value, properties: {value: [x, y]}}}
outputs: {s: {value: {get_param: s}}}
"""


class Case(NamedTuple):
    text: str
    """The template, without its version; `o` is its output."""
    expected: object
    """Value of the output, ERROR for an output with an error, or the type of the refusal."""
    differs: str = ""
    """Topic of the line in heat-differences.md, where Heat has another result."""
    more: dict[str, Any] = {}
    """Further keys of the request."""


class Error(NamedTuple):
    """An output without a value."""

    text: str = ""


def value(text: str) -> str:
    """A template whose output is the value of an OS::Heat::Value."""
    properties = f"{{type: OS::Heat::Value, properties: {{value: {text}}}}}"
    return f"resources: {{a: {properties}}}\noutputs: {{o: {{value: {{get_attr: [a, value]}}}}}}"


def nested(path: str, more: str = "") -> str:
    """A template whose output is this attribute of a nested stack."""
    return f"resources: {{r: {{type: inner.yaml, {more}}}}}\noutputs: {{o: {{value: {{get_attr: {path}}}}}}}"


def keyed(text: str) -> str:
    """A template whose resource has these keys."""
    return f"resources: {{a: {{type: OS::Heat::None, {text}}}}}"


def cfn(text: str) -> str:
    """A CloudFormation template with these keys of the resource."""
    return f"Resources: {{a: {{Type: OS::Heat::None, {text}}}}}"


def given(kind: str, written: object) -> Case:
    """A parameter of this type with this value."""
    text = f"parameters: {{p: {{type: {kind}}}}}\noutputs: {{o: {{value: {{get_param: p}}}}}}"
    return Case(text, None, more={"parameters": {"p": written}})


GROUP = "{type: OS::Heat::ResourceGroup, properties: {count: 1, resource_def: {type: inner.yaml}}}"
GOOD_ANYWHERE = "yaql: {expression: $.data, data: null}"
NEVER = "conditions: {never: false}\nresources: {a: {type: OS::Heat::Value, condition: never, properties: "
URL = "{make_url: {scheme: http, host: %s}}"

FLAG = "`hidden`, `immutable`, `NoEcho` that is no boolean"
TAGS = "`tags` of a parameter that are no text; `clear_parameters` that is no list"
ODD_NUMBER = "`5.5` or `true` for an integer property, `true` for a number"
ODD_ARGUMENT = "fourth argument of `str_split`; number as a key in `map_replace`; port `80.5` in `make_url`"
UNUSED_CONDITION = (
    "faulty, circular or unknown condition that nothing uses, or behind a false operand of `and` or a true one of `or`"
)
AS_JSON = "map or list for a string parameter"
NO_TEXT = "description or label that is no text"
CASES: dict[str, list[Case]] = {
    "attributes of nested stacks": [
        Case(nested("[r, resource.v, value]"), ["x", "y"]),
        Case(nested("[r, resource.v.value]"), ["x", "y"]),
        Case(
            f"resources: {{g: {GROUP}}}\noutputs: {{o: {{value: {{get_attr: [g, resource.0, resource.v, value]}}}}}}",
            ["x", "y"],
        ),
    ],
    "null as a value": [
        Case(value("null"), None),
        Case(value('{str_split: [",", null]}'), None),
        Case(value(f"{{{GOOD_ANYWHERE}}}"), None),
        Case(nested("[r, s]", "properties: {s: null}"), ""),
        Case(
            "resources: {a: {type: OS::Heat::RandomString, properties: {length: 4, character_classes: null}}}\n"
            "outputs: {o: {value: {digest: [md5, x]}}}",
            "9dd4e461268c8034f5c8564e155c67a6",
        ),
    ],
    "unknown keys of CloudFormation": [
        Case(cfn("CreationPolicy: {}"), None),
        Case(cfn("UpdateReplacePolicy: Delete"), None),
        Case(cfn("Whatever: 1"), None),
        Case("Mappings: [zz]\nResources: {}", None),
    ],
    "keys of a resource that are null": [
        *(
            Case(keyed(f"{name}: null"), INVALID)
            for name in (
                "properties", "metadata", "depends_on", "deletion_policy", "update_policy", "description",
                "external_id",
            )
        ),
        Case("conditions: null\nresources: {}", INVALID),
        Case("conditions: []\nresources: {}", INVALID),
        Case("conditions: ''\nresources: {}", INVALID),
        Case("conditions: false\nresources: {}", INVALID),
        Case("resources: {a: {type: OS::Heat::Value, properties: {value: 1, type: null}}}", INVALID),
    ],
    "faults of disabled resources": [Case(f"{NEVER}{{value: {{list_join: zz}}}}}}}}", INVALID)],
    "values as they were given": [
        Case('resources: {a: {type: OS::Heat::Value, properties: {type: number, value: "7"}}}\n'
             "outputs: {o: {value: {get_attr: [a, value]}}}", "7"),
        Case("resources: {a: {type: OS::Heat::Value, properties: {type: string, value: 5}}}\n"
             "outputs: {o: {value: {get_attr: [a, value]}}}", 5),
    ],
    "null as an argument": [
        Case(value("{map_replace: [null, {keys: {a: b}}]}"), {}),
        Case(value("{map_replace: [{a: 1}, null]}"), {"a": 1}),
        Case(value("{filter: [null, [a]]}"), ["a"]),
        Case(value('{str_split: [null, "a b"]}'), ["a", "b"]),
        Case(value("{make_url: {scheme: http, host: a, port: null}}"), INVALID),
        Case(
            "Resources: {a: {Type: OS::Heat::Value, Properties: {value: {'Fn::Select': [null, [x]]}}}}", INVALID
        ),
    ],
    "parameters": [
        given("string", ["a", 1])._replace(expected='["a", 1]', differs=AS_JSON),
        given("string", {"a": 1})._replace(expected='{"a": 1}', differs=AS_JSON),
        given("number", True)._replace(expected=1, differs="`true` for a number parameter"),
        given("json", '"zz"')._replace(expected="zz"),
        Case("parameters: {p: {type: comma_delimited_list, default: 5}}\nresources: {}", SCHEMA),
        Case("parameters: {p: {type: comma_delimited_list, default: {a: 1}}}\nresources: {}", SCHEMA),
        Case("parameter_groups: [{parameters: ['OS::stack_name']}]\nresources: {}", INVALID),
        Case(
            "outputs: {o: {value: {get_param: 'OS::stack_name'}}}\nresources: {}", "s",
            "`parameter_defaults` for `OS::stack_name` and the like",
            {"stack_name": "s", "environment": {"parameter_defaults": {"OS::stack_name": "zz"}}},
        ),
        Case("parameters: {p: {type: string, hidden: zz}}\nresources: {}", SCHEMA, FLAG),
        Case("parameters: {p: {type: string, immutable: zz}}\nresources: {}", SCHEMA, FLAG),
        Case("Parameters: {p: {Type: String, NoEcho: zz}}\nResources: {}", SCHEMA, FLAG),
        Case(
            "parameters: {p: {type: string, default: a, constraints: [{length: {min: 1}, allowed_values: [a]}]}}",
            SCHEMA, "two constraints in one item",
        ),
        Case("parameters: {p: {type: string, default: a, tags: [1]}}\nresources: {}", SCHEMA, TAGS),
        Case("resources: {}", "HTTPBadRequest", TAGS, {"clear_parameters": "a"}),
    ],
    "numbers": [
        Case("resources: {a: {type: OS::Heat::RandomString, properties: {length: 5.5}}}", INVALID, ODD_NUMBER),
        Case("resources: {a: {type: OS::Heat::RandomString, properties: {length: true}}}", INVALID, ODD_NUMBER),
    ],
    "types of errors": [
        Case(value("{get_attr: [zz_missing, value]}"), REFERENCE),
        Case(value("{get_resource: null}"), REFERENCE),
        Case("Resources: {a: {Type: OS::Heat::Value, Properties: {value: {'Fn::GetAtt': [zz, value]}}}}", REFERENCE),
        Case(f"conditions: {{c: {{equals: [{{get_param: zz}}, 1]}}}}\n{keyed('condition: c')}", "UserParameterMissing"),
        Case("resources: {a: {type: broken.yaml}}", INVALID),
    ],
    "descriptions": [
        Case("outputs: {o: {value: x, description: ''}}\nresources: {}", "x"),
        Case("description: [zz]\nresources: {}", None, NO_TEXT),
        Case("parameters: {p: {type: string, default: a, label: 5}}\nresources: {}", None, NO_TEXT),
    ],
    "registries": [
        Case(
            "resources: {a: {type: 'My::Type'}}", None, "registry pattern mapped to a template",
            {"environment": {"resource_registry": {"My::*": "inner.yaml"}}},
        ),
        Case(
            "resources: {a: {type: 'My::Type', properties: {value: 1}}}", None, "registry with `My::*` and `My::Type`",
            {"environment": {"resource_registry": {"My::*": "OS::Nova::Server", "My::Type": "OS::Heat::Value"}}},
        ),
        Case("resources: {a: {type: inner.yaml, properties: {flag: 'yes'}}}", INVALID),
    ],
    "environments": [
        Case("resources: {}", None, more={"environment": ""}),
        Case("resources: {}", None, more={"files": {"e.yaml": ""}, "environment_files": ["e.yaml"]}),
        Case(
            "resources: {}", "HTTPBadRequest", "unknown merge strategy",
            {"files": {"e.yaml": "parameter_merge_strategies: {default: zz}"}, "environment_files": ["e.yaml"]},
        ),
    ],
    "texts": [
        Case(value("{str_replace_vstrict: {template: X, params: {X: []}}}"), INVALID),
        Case(value("{str_replace_vstrict: {template: X, params: {X: {}}}}"), INVALID),
        Case(value(URL % '"a/b"'), "http://a%2Fb"),
        Case(value(URL % '"bücher.example"'), "http://b%C3%BCcher.example"),
        Case(
            value("{make_url: {scheme: http, host: a, query: {k: null}}}"), "http://a?k=",
            "null in the query of `make_url`",
        ),
        Case(value("{make_url: {scheme: http, host: a, port: 80.5}}"), INVALID, ODD_ARGUMENT),
        Case(value('{str_split: [",", "a,b", 0, 1]}'), INVALID, ODD_ARGUMENT),
        Case(value("{map_replace: [{a: 1}, {keys: {a: 1}}]}"), INVALID, ODD_ARGUMENT),
    ],
    "other calls": [
        Case("Resources: {a: {Type: OS::Heat::Value, Properties: {value: {'Fn::Select': [zz, [a]]}}}}", INVALID),
        Case(
            "HeatTemplateFormatVersion: '2012-12-12'\nResources: {}\n"
            "Outputs: {o: {Value: {'Fn::MemberListToMap': [Name, Value, ['.member.0.Name=a']]}}}", {},
        ),
        Case(
            "resources: {l: {type: OS::Heat::Value, properties: {value: [[a], [b]]}}}\n"
            "outputs: {o: {value: {get_attr: [l, value, '1', '0']}}}", "b", "index as text in the path of `get_attr`",
        ),
        Case(
            "resources: {a: {type: OS::Heat::RandomString, properties: "
            "{sequence: digits, character_classes: [{class: digits}]}}}",
            INVALID,
        ),
    ],
    "faults of outputs": [
        Case("resources: {}\noutputs: {o: {value: {get_param: []}}}", Error()),
        Case("resources: {}\noutputs: {o: {value: {get_resource: zz_missing}}}", Error()),
        Case("resources: {}\noutputs: {o: {value: {get_resource: null}}}", Error()),
        Case(nested("[r, zz_missing]"), Error()),
        Case("resources: {}\noutputs: {o: {value: {repeat: {template: x, for_each: {}}}}}", Error()),
        Case("resources: {}\noutputs: {o: {value: {get_param: zz_missing}}}", Error()),
    ],
    "conditions": [
        Case("conditions: {c: {equals: [1]}}\nresources: {}", INVALID, UNUSED_CONDITION),
        Case("conditions: {c: d, d: c}\nresources: {}", INVALID, UNUSED_CONDITION),
        Case(
            "conditions: {no: false, c: {and: [no, zz]}}\nresources: {}", INVALID,
            UNUSED_CONDITION,
        ),
        Case("conditions: {c: {or: [true, zz]}}\nresources: {}", INVALID, UNUSED_CONDITION),
        Case(keyed("condition: null"), INVALID, "null as a condition"),
    ],
    "attributes": [
        Case(value("x") .replace("[a, value]", "[a, null]"), INVALID, "null as the attribute's name in `get_attr`"),
        Case(
            "resources:\n"
            "  a: {type: OS::Heat::Value, properties: {value: x}}\n"
            "  b:\n    type: OS::Heat::Value\n"
            "    properties: {value: {yaql: {expression: $.data.len(), data: {get_attr: [a, value]}}}}\n"
            "outputs: {o: {value: {get_attr: [b, value]}}}",
            1, "`yaql`, `str_replace_vstrict` over an attribute that is not known yet",
        ),
        Case(
            "resources: {r: {type: inner.yaml}, b: {type: OS::Heat::Value, properties: {value: {get_attr: [r, zz]}}}}",
            INVALID, "attribute that a nested template does not have, in a property",
        ),
    ],
    "YAML": [
        Case("resources: {}\noutputs: {o: {value: !!binary eA==}}", "HTTPBadRequest", "`!!binary`, `!!omap`"),
        Case("resources: {}\noutputs: {o: {value: <<}}", "<<", "a lone `<<` as a value"),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def heat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
    server = wiring.embedded(Settings(database=sqlite(tmp_path_factory.mktemp("odd"))))
    yield Heat(server.app)
    server.close()


NUMBERS = itertools.count()


@pytest.mark.slow
@table("case", [case for cases in CASES.values() for case in cases])
def test_the_result(heat: Heat, case: Case) -> None:
    assert result(heat, case) == case.expected


def result(heat: Heat, case: Case) -> object:
    """The output's value, or the type of the refusal."""
    version = "" if "FormatVersion" in case.text else "heat_template_version: 2021-04-16\n"
    if not version or case.text.startswith(("Resources", "Mappings", "Parameters")):
        version = "" if "FormatVersion" in case.text else "AWSTemplateFormatVersion: '2010-09-09'\n"
    files = {"inner.yaml": INNER, "broken.yaml": "just text"}
    body = {"stack_name": f"s{next(NUMBERS)}", "template": version + case.text, **case.more}
    used = {name: text for name, text in files.items() if name in json.dumps(body)}
    answer = heat.call("POST", "/stacks", {**body, "files": {**used, **case.more.get("files", {})}})
    if answer.status_int != 201:
        assert answer.status_int == 400, answer.text
        return answer.json["error"]["type"]
    stack = heat.settle(f"/stacks/{body['stack_name']}/{answer.json['stack']['id']}", "CREATE_COMPLETE")
    found = {one["output_key"]: one for one in stack.get("outputs", [])}.get("o", {})
    return Error() if "output_error" in found else found.get("output_value")


def test_each_difference_has_its_line() -> None:
    topics = {line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if line.startswith("|")}
    stated = {case.differs for cases in CASES.values() for case in cases}
    assert sorted(stated - topics - {""}) == []
