"""Templates used as types, and the registries that name them."""

import time
from collections.abc import Mapping

import pytest

from heatlite.core.errors import HTTPBadRequest, Problem
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Resource, Schema, prop
from heatlite.plugin.registry import Registry
from heatlite.template.checks.check import check, examine
from heatlite.template.document import Template
from heatlite.template.environment import Environment, MappedType, TypeMapping, merged_registry
from heatlite.template.expression import UNKNOWN
from heatlite.template.parameters.merging import merge
from heatlite.template.provider import Provider
from heatlite.template.source.loader import SourceText, load
from heatlite.template.types import Installation
from tests.resource_types import ALL_TYPES
from tests.tables import table


class PolicyProps(Schema):
    batch: int = prop(1, between=(1, 9))


class ServerProps(Schema):
    flavor: str = prop()
    count: int | None = prop()
    tags: list[str] | None = prop()
    description: str | None = prop(update=True)


class Server(Resource[ServerProps], type="Test::Server"):
    update_policy = PolicyProps

    def attr_ip(self) -> str:
        return ""


def types(installation: Installation | None = None) -> Registry:
    registry = Registry(ALL_TYPES, installation)
    registry.register(Server)
    return registry


TYPES = types()


def problems(
    text: str, files: Mapping[str, str] | None = None, registry: JsonMap | None = None, catalog: Registry = TYPES
) -> list[Problem]:
    environment = Environment.parse(SourceText("environment", {"resource_registry": registry or {}}))
    found = {name: f"heat_template_version: rocky\n{content}" for name, content in (files or {}).items()}
    return check(load("heat_template_version: rocky\n" + text), environment, catalog, found)


def texts(*arguments: object, **others: object) -> list[str]:
    return [problem.text for problem in problems(*arguments, **others)]  # type: ignore[arg-type]


CHILD = """
parameters:
  name: {type: string, constraints: [{length: {max: 5}}]}
  size: {type: number, default: 1}
  list: {type: comma_delimited_list, default: ""}
  map: {type: json, default: {}}
  flag: {type: boolean, default: false}
resources:
  inner: {type: OS::Heat::RandomString, properties: {length: {get_param: size}}}
outputs:
  value: {value: {get_attr: [inner, value]}}
"""
FILES = {"child.yaml": CHILD}


def use(properties: str, more: str = "") -> str:
    return f"resources:\n  a: {{type: child.yaml, properties: {properties}}}\n{more}"


# -- properties and attributes ---------------------------------------------------------------------


@table(
    "properties",
    [
        "{name: abc}",
        "{name: 5, size: '2', list: [a, b], map: {a: 1}, flag: 'True'}",
        "{name: abc, list: 'a,b', map: '{\"a\": 1}'}",
        "{name: abc, list: [{a: 1}, b]}",
        "{name: {get_attr: [b, value]}, size: {get_attr: [b, value]}}",
    ],
)
def test_properties_are_the_parameters(properties: str) -> None:
    assert texts(use(properties, "  b: {type: OS::Heat::Value, properties: {value: 1}}\n"), FILES) == []


@table(
    ("properties", "told"),
    [
        ("{}", "Property error: resources.a.properties: Property name not assigned"),
        ("{name: abc, nam: 1}", "Property error: resources.a.properties: Unknown Property nam"),
        ("{name: abcdef}", "Property error: resources.a.properties.name: length (6) is out of range"),
        ("{name: [a]}", "Property error: resources.a.properties.name: Value must be a string"),
        ("{name: a, size: big}", "Property error: resources.a.properties.size: could not convert"),
        ("{name: a, map: '{'}", "Property error: resources.a.properties.map: Value must be valid JSON"),
        ("{name: a, flag: 'yes'}", 'Property error: resources.a.properties.flag: "yes" is not a valid boolean'),
        ("{name: a, flag: 1}", 'Property error: resources.a.properties.flag: "1" is not a valid boolean'),
    ],
)
def test_bad_properties(properties: str, told: str) -> None:
    (text,) = texts(use(properties), FILES)
    assert text.startswith(told)


def test_outputs_are_the_attributes() -> None:
    for attribute in ("value", "show", "resource.inner", "resource.inner.value"):
        assert texts(use("{name: a}", f"outputs: {{o: {{value: {{get_attr: [a, {attribute}]}}}}}}"), FILES) == []
    for attribute in ("valeu", "resource.zz", "resource"):
        (problem,) = problems(use("{name: a}", f"outputs: {{o: {{value: {{get_attr: [a, {attribute}]}}}}}}"), FILES)
        assert problem.text == f"outputs.o.value.get_attr: The Referenced Attribute (a {attribute}) is incorrect."
        assert (problem.severity, problem.error) == ("warning", "OutputError")


@table(
    ("kind", "value"),
    [("string", ""), ("number", 0), ("boolean", False), ("json", {}), ("comma_delimited_list", "")],
)
@table("default", [{}, {"default": "1"}])
def test_a_null_is_a_value_even_with_a_default(kind: str, value: Json, default: JsonMap) -> None:
    document: JsonMap = {"heat_template_version": "2018-08-31", "parameters": {"p": {"type": kind, **default}}}
    provider = Provider("child.yaml", Template(document), {})
    assert provider.check_properties({"p": None}) == []
    assert provider.parameters({"p": None}) == {"p": value}
    assert provider.parameters({}) == ({} if default else {"p": UNKNOWN})


def test_a_null_within_a_list_is_an_empty_item() -> None:
    document: JsonMap = {"heat_template_version": "2018-08-31", "parameters": {"p": {"type": "comma_delimited_list"}}}
    provider = Provider("child.yaml", Template(document), {})
    assert provider.parameters({"p": [None, "a", 1]}) == {"p": ["", "a", 1]}


# -- faults within ---------------------------------------------------------------------------------


def test_a_fault_within_is_told_with_the_way_to_it() -> None:
    files = {
        "child.yaml": "resources:\n  b: {type: grand.yaml}\n",
        "grand.yaml": "resources:\n  c: {type: OS::Heat::RandomString, properties: {lenght: 1}}\n",
    }
    (problem,) = problems("resources: {a: {type: child.yaml}}", files)
    assert problem.text == (
        "resources.a<child.yaml>: resources.b<grand.yaml>: "
        "Property error: resources.c.properties: Unknown Property lenght"
    )
    assert (problem.source, problem.error) == ("grand.yaml", "StackValidationFailed")
    assert problem.path == ("resources", "c", "properties", "lenght")


@table(
    ("content", "told", "error"),
    [
        ("resources: [\n", "Template not in valid format", "StackValidationFailed"),
        ("zz", "Template not in valid format", "StackValidationFailed"),
        ("zz: 1\n", "The template section is invalid: zz", "StackValidationFailed"),
        ("parameters: {p: {type: zz}}\n", "Invalid type (zz)", "InvalidSchemaError"),
        ("resources: {b: {type: No::Such}}\n", "The Resource Type (No::Such) could", "StackValidationFailed"),
        ("resources: {b: {type: gone.yaml}}\n", 'Could not fetch remote template "gone.yaml"', "StackValidationFailed"),
    ],
)  # fmt: skip
def test_broken_templates(content: str, told: str, error: str) -> None:
    (problem,) = problems("resources: {a: {type: child.yaml}, b: {type: child.yaml}}", {"child.yaml": content})
    assert problem.text.startswith(f"resources.a<child.yaml>: {told}")
    assert problem.error == error
    assert problem.source == "child.yaml"


def test_a_template_that_did_not_come_along() -> None:
    (problem,) = problems("resources: {a: {type: child.yaml}}")
    assert problem.text.startswith('Could not fetch remote template "child.yaml"')
    assert (problem.path, problem.line) == (("resources", "a", "type"), 2)


def test_values_reach_the_bottom() -> None:
    child = "parameters: {n: {type: number}}\nresources: {b: {type: grand.yaml, properties: {n: {get_param: n}}}}\n"
    grand = (
        "parameters: {n: {type: number}}\n"
        "conditions: {many: {equals: [{get_param: n}, 7]}}\n"
        "resources: {c: {type: OS::Heat::RandomString, condition: many, properties: {length: 9999}}}\n"
    )
    files = {"child.yaml": child, "grand.yaml": grand}
    assert texts("resources: {a: {type: child.yaml, properties: {n: 1}}}", files) == []
    (text,) = texts("resources: {a: {type: child.yaml, properties: {n: 7}}}", files)
    assert text.endswith("resources.c.properties.length: 9999 is out of range (min: 1, max: 512)")


def test_parameter_defaults_hold_within() -> None:
    environment = Environment(parameter_defaults={"n": 9999})
    child = "parameters: {n: {type: number}}\n"
    child += "resources: {b: {type: OS::Heat::RandomString, properties: {length: {get_param: n}}}}"
    files = {"child.yaml": f"heat_template_version: rocky\n{child}"}
    (problem,) = check(
        load("heat_template_version: rocky\nresources: {a: {type: child.yaml}}"), environment, TYPES, files
    )
    assert "9999 is out of range" in problem.text


def test_a_template_of_the_other_language() -> None:
    files = {"child.template": '{"HeatTemplateFormatVersion": "2012-12-12", "Parameters": {"P": {"Type": "Number"}}, '
             '"Resources": {"b": {"Type": "OS::Heat::RandomString", "Properties": {"length": {"Ref": "P"}}}}, '
             '"Outputs": {"O": {"Value": {"Ref": "b"}}}}'}  # fmt: skip
    source = load(
        "heat_template_version: rocky\nresources: {a: {type: child.template, properties: {P: 8}}}\n"
        "outputs: {o: {value: {get_attr: [a, O]}}}\n"
    )
    assert check(source, Environment(), TYPES, files) == []


# -- depth -----------------------------------------------------------------------------------------


def test_a_template_cannot_include_itself() -> None:
    (text,) = texts("resources: {a: {type: x.yaml}}", {"x.yaml": "resources: {a: {type: x.yaml}}"})
    assert text == "resources.a<x.yaml>: resources.a<x.yaml>: the template includes itself"
    ring = {"x.yaml": "resources: {a: {type: y.yaml}}", "y.yaml": "resources: {b: {type: x.yaml}}"}
    (text,) = texts("resources: {a: {type: x.yaml}}", ring)
    assert text.endswith("resources.b<x.yaml>: the template includes itself")


def test_a_recursion_that_ends_is_fine() -> None:
    child = (
        "parameters: {n: {type: string}}\n"
        "conditions: {more: {not: {equals: [{get_param: n}, xxx]}}}\n"
        "resources: {a: {type: x.yaml, condition: more, properties: {n: {list_join: ['', [x, {get_param: n}]]}}}}\n"
    )
    assert texts("resources: {a: {type: x.yaml, properties: {n: ''}}}", {"x.yaml": child}) == []
    (problem,) = problems("resources: {a: {type: x.yaml, properties: {n: y}}}", {"x.yaml": child})
    assert problem.error == "RequestLimitExceeded"
    assert problem.text.endswith("Recursion depth exceeds 5.")


def test_five_levels_are_allowed() -> None:
    files = {f"{i}.yaml": f"resources: {{a: {{type: {i + 1}.yaml}}}}" for i in range(5)} | {"5.yaml": ""}
    assert texts("resources: {a: {type: 1.yaml}}", files) == []
    (text,) = texts("resources: {a: {type: 0.yaml}}", files)
    assert text.endswith("Recursion depth exceeds 5.")


@pytest.mark.slow
def test_many_templates_within_each_other_take_no_time() -> None:
    def level(i: int) -> str:
        name = "{list_join: ['', [{get_param: n}, '%s']]}"
        inner = "".join(f"  r{k}: {{type: {i}.yaml, properties: {{n: {name % k}}}}}\n" for k in range(30))
        return f"parameters: {{n: {{type: string, default: ''}}}}\nresources:\n{inner}"

    files = {f"{i}.yaml": level(i + 1) for i in range(4)} | {"4.yaml": "parameters: {n: {type: string}}"}
    started = time.thread_time()
    (problem,) = problems(level(0), files)
    assert problem.error == "RequestLimitExceeded"
    assert str(Installation().max_resources_per_stack) in problem.text
    assert time.thread_time() - started < 4


def test_a_thousand_resources_of_one_template_take_no_time() -> None:
    resources = "".join(f"  r{i}: {{type: child.yaml, properties: {{name: a}}}}\n" for i in range(1000))
    started = time.thread_time()
    assert texts(f"resources:\n{resources}", FILES) == []
    assert time.thread_time() - started < 2


# -- the type that a template stands for -----------------------------------------------------------

FITTING = """
parameters: {flavor: {type: string}, count: {type: number, default: 1}, tags: {type: comma_delimited_list, default: ""}}
outputs: {ip: {value: x}}
"""


def test_a_template_for_a_known_type() -> None:
    registry: JsonMap = {"Test::Server": "s.yaml"}
    template = "resources: {a: {type: Test::Server, properties: {flavor: small}}}"
    assert texts(template, {"s.yaml": FITTING}, registry) == []


@table(
    ("content", "told"),
    [
        ("outputs: {ip: {value: x}}", 'Required property flavor for facade Test::Server missing in provider'),
        ("parameters: {flavor: {type: string}}", 'Attribute ip for facade Test::Server missing in provider'),
        (
            "parameters: {flavor: {type: json}}\noutputs: {ip: {value: x}}",
            'Property flavor type mismatch between facade Test::Server (String) and provider (Map)',
        ),
        (
            "parameters: {flavor: {type: string}, zz: {type: string}}\noutputs: {ip: {value: x}}",
            'Provider requires property zz unknown in facade Test::Server',
        ),
    ],
)
def test_what_keeps_a_template_from_standing_for_a_type(content: str, told: str) -> None:
    template = "resources: {a: {type: Test::Server, properties: {flavor: {get_attr: [v, value]}, zz: a}}, v: {type: V}}"
    registry: JsonMap = {"Test::Server": "s.yaml", "V": "OS::Heat::Value"}
    found = texts(template.replace(", zz: a", ", zz: a" if "zz" in content else ""), {"s.yaml": content}, registry)
    assert f"resources.a<s.yaml>: {told}" in found


FACADE = "parameters: {one: {type: string}, two: {type: string}}\noutputs: {o: {value: x}}"


@table(
    ("content", "told"),
    [
        ("parameters: {one: {type: string}}\noutputs: {o: {value: x}}", "Required property two for facade OS::Thingy"),
        ("parameters: {one: {type: string}, two: {type: string}}", "Attribute o for facade OS::Thingy missing"),
        (FACADE, None),
    ],
)
@table("key", ["OS::Thingy", "OS::*"])
def test_a_template_may_stand_for_a_template(content: str, told: str | None, key: str) -> None:
    registry: JsonMap = {"OS::Thingy": "facade.yaml", "resources": {"a": {key: "concrete.yaml"}}}
    two = ", two: b" if "two" in content else ""
    template = f"resources: {{a: {{type: OS::Thingy, properties: {{one: a{two}}}}}}}"
    found = texts(template, {"facade.yaml": FACADE, "concrete.yaml": content}, registry)
    assert [text for text in found if "facade" in text] == found
    assert told is None if not found else f"resources.a<concrete.yaml>: {told}" in found[0]


def test_a_template_may_use_the_type_that_it_stands_for() -> None:
    child = FITTING + "resources: {s: {type: Test::Server, properties: {flavor: {get_param: flavor}}}}\n"
    template = "resources: {a: {type: Test::Server, properties: {flavor: small}}}"
    for registry in (
        {"Test::Server": "s.yaml"},
        {"resources": {"a": {"Test::Server": "s.yaml"}}},
        {"Test::*": "s.yaml"},
    ):
        assert texts(template, {"s.yaml": child}, registry) == []
    chain: JsonMap = {"My::A": "Test::Server", "Test::Server": "s.yaml"}
    assert texts(template.replace("Test::Server", "My::A"), {"s.yaml": child}, chain) == []


def test_what_the_facade_says_is_seen_within() -> None:
    child = (
        "resources: {r: {type: OS::Heat::RandomString, properties: {length: {get_param: [m, n]}}}}\n"
        "parameters: {m: {type: json, default: {n: 8}}}\n"
        "outputs: {m: {value: {resource_facade: metadata}}, d: {value: {resource_facade: deletion_policy}},"
        " u: {value: {resource_facade: update_policy}}}\n"
    )
    assert texts("resources: {a: {type: x.yaml, metadata: {n: 1}, deletion_policy: retain}}", {"x.yaml": child}) == []
    for problem in problems(child):
        assert problem.severity == "warning"
        assert "only possible in a template that a resource uses" in problem.text
    length = "{str_split: [x, {resource_facade: deletion_policy}, 0]}"
    child = f"resources: {{r: {{type: OS::Heat::RandomString, properties: {{length: {length}}}}}}}"
    (text,) = texts("resources: {a: {type: x.yaml, deletion_policy: retain}}", {"x.yaml": child})
    assert text.endswith("Value 'Retain' is not an integer")


# -- keys of a resource ----------------------------------------------------------------------------


def test_update_policy() -> None:
    def policy(text: str) -> list[str]:
        return texts(f"resources: {{a: {{type: Test::Server, properties: {{flavor: f}}, update_policy: {text}}}}}")

    assert policy("{batch: 3}") == policy("{}") == policy("{batch: {str_split: [x, '3', 0]}}") == []
    assert policy("{zz: 3}") == ["Property error: resources.a.update_policy: Unknown Property zz"]
    assert policy("{batch: 99}") == [
        "Property error: resources.a.update_policy.batch: 99 is out of range (min: 1, max: 9)"
    ]
    other = "resources: {a: {type: OS::Heat::RandomString, update_policy: {batch: 3}}}"
    assert texts(other) == ["Property error: resources.a.update_policy: Unknown Property batch"]


def test_the_description_is_a_property_where_the_type_has_one() -> None:
    def properties(text: str, registry: Registry | None = TYPES) -> object:
        template = Template(load(f"heat_template_version: rocky\nresources: {{a: {text}}}").data)
        return template.bind(Environment(), {}, types=registry).resources["a"].properties

    assert properties("{type: Test::Server, description: d}") == {"description": "d"}
    assert properties("{type: Test::Server, description: d, properties: {description: own}}") == {"description": "own"}
    assert properties("{type: OS::Heat::RandomString, description: d}") == {}
    assert properties("{type: Test::Server, description: d}", None) == {}


# -- show_nested -----------------------------------------------------------------------------------


def test_nested_parameters() -> None:
    files = {
        "child.yaml": "heat_template_version: rocky\ndescription: c\nparameters: {n: {type: number, default: 1}}\n"
        "parameter_groups: [{label: g, parameters: [n]}]\nresources: {b: {type: grand.yaml}}\n",
        "grand.yaml": "heat_template_version: rocky\nparameters: {s: {type: string, hidden: true, default: x}}\n",
    }
    source = load(
        "heat_template_version: rocky\n"
        "resources: {a: {type: child.yaml, properties: {n: 5}}, z: {type: OS::Heat::None}}"
    )
    environment = Environment(parameter_defaults={"s": "y"})
    definition = Template(source.data, files).definition(environment, {}, strict=False, types=TYPES)
    found, nested = examine(definition, TYPES)
    assert found == []
    assert nested.describe() == {
        "a": {
            "Type": "child.yaml",
            "Description": "c",
            "Parameters": {
                "n": {"Type": "Number", "Description": "", "NoEcho": "false", "Label": "n", "Default": 1, "Value": 5}
            },
            "ParameterGroups": [{"label": "g", "parameters": ["n"]}],
            "NestedParameters": {
                "b": {
                    "Type": "grand.yaml",
                    "Description": "No description",
                    "Parameters": {
                        "s": {"Type": "String", "Description": "", "NoEcho": "true", "Label": "s", "Default": "******"}
                    },
                }
            },
        }
    }


# -- registries ------------------------------------------------------------------------------------


def target(registry: JsonMap, kind: str, resource: str = "r", system: JsonMap | None = None) -> MappedType:
    environment = Environment.parse(SourceText("environment", {"resource_registry": registry}))
    return TypeMapping(environment, types(Installation(system or {}))).target(resource, kind)


@table(
    ("registry", "system", "mapped"),
    [
        ({"My::A": "Test::Server"}, {}, "Test::Server"),
        ({"My::A": "No::Such"}, {}, "My::A"),
        ({"My::A": "No::Such", "My::*": "Test::*"}, {}, "My::A"),
        ({"My::A": "No::Such", "My::*": "Test::Server"}, {}, "Test::Server"),
        ({"My::*": "Test::Server", "*": "OS::Heat::None"}, {}, "OS::Heat::None"),
        ({"*": "OS::Heat::None", "My::A": "a.yaml"}, {}, "a.yaml"),
        ({"resources": {"r": {"My::A": "Test::Server"}}, "My::A": "OS::Heat::None"}, {}, "Test::Server"),
        ({"resources": {"r*": {"My::A": "Test::Server"}}, "My::A": "OS::Heat::None"}, {}, "OS::Heat::None"),
        ({"resources": {"r": {"My::A": "No::Such"}}, "My::A": "OS::Heat::None"}, {}, "OS::Heat::None"),
        ({"My::A": "Test::Server", "My::A*": None}, {}, "My::A"),
        ({"My::A": None}, {"My::A": "Test::Server"}, "Test::Server"),
        ({"My::*": "OS::Heat::None"}, {"My::A": "Test::Server"}, "OS::Heat::None"),
        ({"My::A": "No::Such"}, {"My::A": "Test::Server"}, "Test::Server"),
        ({"My::A": "My::B"}, {"My::B": "Test::Server"}, "Test::Server"),
        ({"My::A": "My::B", "My::B": "My::A"}, {}, "My::A"),
        ({}, {"My::A": "file:///s.yaml"}, "file:///s.yaml"),
    ],
)
def test_lookup(registry: JsonMap, system: JsonMap, mapped: str) -> None:
    assert target(registry, "My::A", system=system).name == mapped


def test_no_registry_is_too_long() -> None:
    chain: JsonMap = {f"My::{i}": f"My::{i + 1}" for i in range(5000)}
    started = time.thread_time()
    assert target(chain, "My::0").name == "My::0"
    assert time.thread_time() - started < 1


def test_what_a_nested_stack_is_given() -> None:
    registry: JsonMap = {
        "My::A": "a.yaml",
        "My::B": "Test::Server",
        "resources": {
            "r": {"hooks": "pre-create", "inner": {"hooks": ["pre-update"], "deep": {"My::A": "x.yaml"}}},
            "r*": {"inner": {"restricted_actions": "replace"}, "*_b": {"hooks": "pre-delete"}},
            "other": {"inner": {"hooks": "post-create"}},
        },
    }
    environment = Environment.parse(
        SourceText(
            "environment", {"resource_registry": registry, "parameters": {"p": 1}, "parameter_defaults": {"d": 2}}
        )
    )
    child = environment.for_child("r", MappedType("a.yaml", ("My::A",)), {"q": 3})
    assert child.resource_registry == {
        "My::B": "Test::Server",
        "resources": {
            "inner": {"hooks": ["pre-update"], "deep": {"My::A": "x.yaml"}, "restricted_actions": "replace"},
            "*_b": {"hooks": "pre-delete"},
        },
    }
    assert (child.parameters, child.parameter_defaults) == ({"q": 3}, {"d": 2})


def test_the_installations_own_templates() -> None:
    child = "heat_template_version: rocky\n" + FITTING
    child += "resources: {s: {type: Test::Server, properties: {flavor: {get_param: flavor}}}}\n"
    name = "file:///etc/s.yaml"
    catalog = types(Installation({"Test::Server": name}, files={name: child}))
    template = "resources: {a: {type: Test::Server, properties: {flavor: small}}}"
    assert texts(template, catalog=catalog) == []
    assert texts(template.replace("flavor: small", "zz: 1"), catalog=catalog) != []
    (text, *_) = texts(template, {}, {"Test::Server": "file:///etc/s.yaml"}, catalog)
    assert text.startswith('Could not fetch remote template "file:///etc/s.yaml"')
    assert texts("resources: {a: {type: 'file:///etc/s.yaml'}}", catalog=catalog)[0].startswith("Could not fetch")


def test_registries_merged() -> None:
    one: JsonMap = {"A": "x", "A::B": "x", "C": "x", "resources": {"r": {"A": "y"}}}
    two: JsonMap = {"A*": None, "C": "z", "resources": {"s": {}}}
    assert merged_registry(one, two) == {"C": "z", "resources": {"r": {"A": "y"}, "s": {}}}
    files = [Environment(resource_registry=one), Environment(resource_registry={"C": None})]
    assert merge(files, {}).resource_registry == {"A": "x", "A::B": "x", "resources": {"r": {"A": "y"}}}


@pytest.mark.parametrize("sinks", [[5], [{}], [{"type": 5}]])
def test_bad_event_sinks(sinks: Json) -> None:
    with pytest.raises(Exception, match="an event sink must be a map with a type"):
        Environment.parse(SourceText("environment", {"event_sinks": sinks}))


@table(
    ("sink", "reason"),
    [
        ({"type": "email"}, 'no type "email"'),
        ({}, "must be an address"),
        ({"target": 5}, "must be an address"),
        ({"target": "ftp://example.org/"}, "must be an address"),
        ({"target": "https:///x"}, "must be an address"),
        ({"target": "https://[::1/"}, "must be an address"),
        ({"target": "https://example.org:99999/"}, "must be an address"),
        ({"target": "https://example.org/a b"}, "must be an address"),
        ({"target": "https://example.org/\n"}, "must be an address"),
        ({"target": "https://exämple.org/"}, "must be an address"),
        ({"target": "https://example.org/", "key": "x"}, 'no "key"'),
        ({"target": "https://example.org/", "secret": ""}, "secret .* must be text"),
        ({"target": "https://example.org/", "secret": 5}, "secret .* must be text"),
        ({"target": "https://example.org/", "ttl": 0}, "number of seconds"),
        ({"target": "https://example.org/", "ttl": True}, "number of seconds"),
        ({"target": "https://example.org/", "ttl": "9"}, "number of seconds"),
    ],
)
def test_bad_webhooks(sink: JsonMap, reason: str) -> None:
    with pytest.raises(HTTPBadRequest, match=reason) as error:
        Environment.parse(SourceText("environment", {"event_sinks": [{"type": "webhook", **sink}]}))
    assert error.value.problems[0].path == ("event_sinks", 0)


def test_good_webhooks() -> None:
    for more in ({}, {"secret": "s"}, {"ttl": 60}):
        sink: JsonMap = {"type": "webhook", "target": "http://example.org:8080/x?y=z", **more}
        assert Environment.parse(SourceText("environment", {"event_sinks": [sink]})).event_sinks == (sink,)
