"""Warnings: YAML 1.1 readings, unused parameters, constant conditions."""

import time
from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heatlite.core.errors import Problem
from heatlite.core.json import Json
from heatlite.plugin.registry import Registry
from heatlite.template.checks.constant_conditions import ConstantConditions
from heatlite.template.checks.review import review
from heatlite.template.environment import Environment
from heatlite.template.parameters.parameters import ParameterSchema
from heatlite.template.patterns import StepMeter
from heatlite.template.source.loader import load
from tests.resource_types import ALL_TYPES
from tests.tables import table

TYPES = Registry(ALL_TYPES)
HEAD = "heat_template_version: 2021-04-16\n"


def warnings(text: str, environment: str = "") -> list[Problem]:
    sources = [load(environment, "e.yaml", "Environment")] if environment else []
    merged = Environment.parse(sources[0]) if sources else Environment()
    found = review(load(text, "t.yaml"), merged, TYPES, {}, sources)
    assert not [problem for problem in found if problem.severity == "error"]
    return found


def of(rule: str, text: str, environment: str = "") -> list[tuple[int, int, str]]:
    return [(one.line, one.column, one.text) for one in warnings(text, environment) if one.error == rule]


# -- YAML 1.1 --------------------------------------------------------------------------------------


@table(
    ("kind", "written", "reading"),
    [
        ("string", "0777", "the octal number 511"),
        ("number", "0777", "the octal number 511"),
        ("json", "{a: 010}", "the octal number 8"),
        ("string", "12:30:45", "the number 45045, in base 60"),
        ("json", "[22:22]", "the number 1342, in base 60"),
        ("string", "1_000", "the number 1000"),
        ("json", "{a: 1_000}", "the number 1000"),
        ("number", "1_000", ""),
        ("string", "yes", 'the boolean true, and arrives as the text "True"'),
        ("string", "Off", 'the boolean false, and arrives as the text "False"'),
        ("string", "true", 'the boolean true, and arrives as the text "True"'),
        ("string", "True", ""),
        ("comma_delimited_list", "[a, no]", 'the boolean false, and arrives as the text "False"'),
        ("json", "[no]", ""),
        ("boolean", "yes", ""),
        ("string", "1.10", 'a number, and arrives as the text "1.1"'),
        ("string", "0x1F", 'a number, and arrives as the text "31"'),
        ("string", "'0777'", ""),
        ("string", '"yes"', ""),
        ("string", "!!str yes", ""),
        ("string", "0", ""),
        ("string", "17", ""),
        ("string", "1.5", ""),
        ("string", "2018-08-31", ""),
        ("number", "-1", ""),
    ],
)
def test_what_yaml_reads_otherwise(kind: str, written: str, reading: str) -> None:
    parameter = f"parameters:\n  p:\n    type: {kind}\n    default: {written}\n"
    text = f"{HEAD}{parameter}outputs: {{o: {{value: {{get_param: p}}}}}}\n"
    found = of("YamlValue", text)
    assert len(found) == bool(reading)
    for line, column, message in found:
        assert line == 5
        assert text.splitlines()[4][column - 1 :].startswith(message.split('"')[1])
        assert f"is read as {reading} (YAML 1.1)" in message


def test_it_depends_on_what_the_property_is() -> None:
    text = (
        HEAD
        + "resources:\n"
        + "  a:\n    type: OS::Heat::RandomString\n    properties:\n      salt: on\n"
        + "      character_sequences: [{sequence: 010, min: 1_0}]\n"
        + "  b:\n    type: OS::Heat::Value\n    properties: {value: on}\n"
        + "  c:\n    type: OS::Heat::RandomString\n    properties: {salt: {if: [x, no, z]}}\n"
        + "conditions: {x: {equals: [{get_param: 'OS::stack_name'}, y]}}\n"
    )
    assert [(line, message.split('"')[1]) for line, _, message in of("YamlValue", text)] == [
        (6, "on"),
        (7, "010"),
        (13, "no"),
    ]


def test_keys_change_too() -> None:
    text = (
        HEAD
        + "resources:\n  on: {type: OS::Heat::None}\n  22:22: {type: OS::Heat::None}\n  8080: {type: OS::Heat::None}\n"
    )
    assert [message for _, _, message in of("YamlValue", text)] == [
        '"on" is read as the key "true" (YAML 1.1).',
        '"22:22" is read as the key "1342" (YAML 1.1).',
    ]


def test_environments_are_looked_at_with_the_templates_types() -> None:
    text = HEAD + "parameters: {p: {type: string}, q: {type: boolean}}\n"
    found = warnings(text, "parameters:\n  p: yes\n  q: yes\nparameter_defaults:\n  p: no\n  p: 0644\n")
    assert [(one.source, one.line, one.error) for one in found if one.source == "e.yaml"] == [
        ("e.yaml", 2, "YamlValue"),
        ("e.yaml", 5, "YamlValue"),
        ("e.yaml", 6, "DuplicateKey"),
        ("e.yaml", 6, "YamlValue"),
    ]


def test_sinks_that_nobody_is_told_by() -> None:
    sinks = "event_sinks:\n- {type: webhook, target: 'https://example.org/'}\n- {type: zaqar-queue, target: q}\n"
    found = [one for one in warnings(HEAD, sinks) if one.error == "EventSinkIgnored"]
    assert [(one.source, one.line, one.severity) for one in found] == [("e.yaml", 3, "warning")]


@pytest.mark.parametrize(
    "form", ['{{"heat_template_version": "2018-08-31", {}}}', "{{heat_template_version: 2018-08-31, {}}}"]
)
def test_duplicate_keys_in_json_as_in_yaml(form: str) -> None:
    resources = '"resources": {"a": {"type": "OS::Heat::None"},\n "a": {"type": "OS::Heat::None"}}'
    assert of("DuplicateKey", form.format(resources)) == [
        (2, 2, 'The key "a" is written more than once; the last one counts.')
    ]


def test_json_has_its_own_numbers() -> None:
    text = '{"heat_template_version": "2018-08-31", "outputs": {"o": {"value": [true, 1.10, 100]}}}'
    assert warnings(text) == []


# -- unused parameters -----------------------------------------------------------------------------


@table(
    ("use", "unused"),
    [
        ("outputs: {o: {value: {get_param: p}}}", ["q"]),
        ("outputs: {o: {value: {get_param: [q, a, 0]}}}", ["p"]),
        ("conditions: {c: {equals: [{get_param: p}, x]}}\noutputs: {o: {value: {if: [c, 1, {get_param: q}]}}}", []),
        ("outputs: {o: {value: {get_param: p, more: 1}}}", ["p", "q"]),
        ("outputs: {o: {value: {get_param: [{get_param: p}]}}}", []),
        ("parameter_groups: [{label: l, parameters: [p, q]}]", ["p", "q"]),
        ("resources: {r: {type: OS::Heat::None, deletion_policy: {get_param: p}, metadata: {get_param: q}}}", []),
    ],
)
def test_parameters_that_nothing_uses(use: str, unused: list[str]) -> None:
    text = f"{HEAD}parameters:\n  p: {{type: string, default: Delete}}\n  q: {{type: json, default: {{}}}}\n{use}\n"
    found = [message for _, _, message in of("UnusedParameter", text)]
    assert found == [f'The parameter "{name}" is never used.' for name in unused]


# -- conditions ------------------------------------------------------------------------------------

PARAMETERS = """
parameters:
  free: {type: string, default: x}
  other: {type: string, default: x}
  stage: {type: string, default: dev, constraints: [{allowed_values: [dev, prod]}]}
  size: {type: number, default: 1, constraints: [{range: {min: 1, max: 5}}]}
  flag: {type: boolean, default: true}
  data: {type: json, default: {}}
outputs: {o: {value: [{get_param: free}, {get_param: other}, {get_param: stage}, {get_param: size},
  {get_param: flag}, {get_param: data}]}}
conditions:
  yes_: true
"""

FREE, OTHER, STAGE, SIZE, FLAG = ({"get_param": name} for name in ("free", "other", "stage", "size", "flag"))


def eq(one: object, other: object) -> dict[str, object]:
    return {"equals": [one, other]}


@table(
    ("condition", "reason"),
    [
        (eq("a", "b"), 'it compares the constants "a" and "b"'),
        (eq(1, "1"), 'it compares the constants "1" and "1"'),
        (eq("a", "a"), None),
        (eq(STAGE, "test"), '"test" is not among the allowed values of "stage": dev, prod'),
        (eq("test", STAGE), '"test" is not among the allowed values of "stage": dev, prod'),
        (eq(STAGE, "prod"), None),
        (eq(FREE, "a"), None),
        (eq(FREE, 1), "it is false whatever the parameters are"),
        (eq(FREE, FREE), None),
        (eq(FREE, OTHER), None),
        (eq(STAGE, OTHER), None),
        (eq(SIZE, 7), "it is false whatever the parameters are"),
        (eq(SIZE, 5), None),
        (eq(SIZE, "5"), "it is false whatever the parameters are"),
        (eq(FLAG, "true"), '"true" is not among the allowed values of "flag": True, False'),
        (eq(FLAG, False), None),
        (eq(FLAG, {"get_param": "free"}), "it is false whatever the parameters are"),
        (eq(SIZE, FLAG), None),
        (eq({"get_param": ["data", "a"]}, "a"), None),
        (eq({"get_param": "data"}, "a"), None),
        ({"and": [eq(FREE, "a"), eq(FREE, "b")]}, "it is false whatever the parameters are"),
        ({"and": [eq(FREE, "a"), eq(OTHER, "b")]}, None),
        ({"and": [FLAG, {"not": FLAG}]}, "it is false whatever the parameters are"),
        ({"and": ["yes_", eq(STAGE, "x")]}, '"x" is not among the allowed values of "stage": dev, prod'),
        ({"or": [eq(STAGE, "x"), eq("a", "b")]}, "it is false whatever the parameters are"),
        ({"or": [eq(STAGE, "x"), eq(FREE, "b")]}, None),
        ({"not": {"or": [eq(STAGE, "dev"), eq(STAGE, "prod")]}}, "it is false whatever the parameters are"),
        ({"not": eq(FREE, "a")}, None),
        ({"not": []}, None),
        ({"not": "yes_"}, "it is false whatever the parameters are"),
        ({"contains": [FREE, ["a"]]}, None),
        (False, "it is false whatever the parameters are"),
    ],
)
def test_conditions_that_never_hold(condition: Json, reason: str | None) -> None:
    template = load(HEAD + PARAMETERS)
    conditions = template.data["conditions"]
    assert isinstance(conditions, dict)
    conditions["c"] = condition
    found = [one for one in review(template, Environment(), TYPES, {}) if one.error == "ConditionNeverHolds"]
    expected = [] if reason is None else [(("conditions", "c"), reason)]
    assert [(one.path, one.hint) for one in found] == expected


def test_conditions_where_they_are_used() -> None:
    never = "{equals: [a, b]}"
    text = (
        f"{HEAD}resources:\n  r: {{type: OS::Heat::None, condition: {never}}}\n"
        f"outputs:\n  o:\n    condition: {never}\n    value:\n      x: {{if: [{never}, 1, 2]}}\n"
    )
    assert [line for line, _, _ in of("ConditionNeverHolds", text)] == [3, 6, 8]


CHARGE = StepMeter().charge
SCHEMAS: Mapping[str, ParameterSchema] = {
    "s": ParameterSchema.parse(
        "s", {"type": "string", "constraints": [{"allowed_values": ["a", "b"]}]}, "2021-04-16", CHARGE
    ),
    "n": ParameterSchema.parse("n", {"type": "number"}, "2021-04-16", CHARGE),
    "b": ParameterSchema.parse("b", {"type": "boolean"}, "2021-04-16", CHARGE),
}
operands = st.one_of(
    st.sampled_from(["a", "b", "c", 1, 2, True]),
    st.sampled_from([{"get_param": name} for name in SCHEMAS]),
)


def combined(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    some = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        inner.map(lambda one: {"not": one}),
        some.map(lambda all_of: {"and": all_of}),
        some.map(lambda any_of: {"or": any_of}),
    )


simple = st.one_of(st.booleans(), st.builds(eq, operands, operands), st.just({"get_param": "b"}))
conditions = st.recursive(simple, combined, max_leaves=6)


def truth(condition: object, values: Mapping[str, object]) -> bool:
    if isinstance(condition, bool):
        return condition
    assert isinstance(condition, dict)
    ((name, argument),) = condition.items()
    if name == "get_param":
        return bool(values[argument])
    if name == "equals":
        one, other = (values[item["get_param"]] if isinstance(item, dict) else item for item in argument)
        return bool(one == other)
    if name == "not":
        return not truth(argument, values)
    return (all if name == "and" else any)(truth(item, values) for item in argument)


@example(eq({"get_param": "n"}, {"get_param": "b"}), "a", 0, False)
@given(conditions, st.sampled_from("ab"), st.sampled_from([0, 1, 2, 3.5]), st.booleans())
def test_no_value_makes_it_true_then(condition: Json, s: str, n: float, b: bool) -> None:
    if ConstantConditions({}, SCHEMAS).reason(condition) is not None:
        assert not truth(condition, {"s": s, "n": n, "b": b})


@pytest.mark.slow
def test_many_conditions_take_little_time() -> None:
    many: dict[str, Json] = {"c0": eq({"get_param": "n"}, 1)}
    for i in range(1, 3000):
        many[f"c{i}"] = {"and": [f"c{i - 1}", f"c{i - 1}"]}
    wide: Json = {"or": [eq({"get_param": f"p{i}"}, i) for i in range(300)]}
    many["wide"] = wide
    charge = StepMeter().charge
    schemas = {f"p{i}": ParameterSchema.parse(f"p{i}", {"type": "number"}, "2021-04-16", charge) for i in range(300)}
    constant = ConstantConditions(many, {**SCHEMAS, **schemas})
    start = time.thread_time()
    assert [name for name, condition in many.items() if constant.reason(condition)] == []
    assert time.thread_time() - start < 2


# -- misspelt functions ----------------------------------------------------------------------------


@table(
    ("written", "expected"),
    [
        ("{get_resorce: b}", ['"get_resorce" is no function, so the map is taken as data.']),
        ("[{str_repalce: {template: a, params: {}}}]", ['"str_repalce" is no function, so the map is taken as data.']),
        ("{get_resource: b}", []),
        ("{user_data: b}", []),
        ("{get_resorce: b, other: c}", []),
    ],
)
def test_a_map_that_is_nearly_a_function(written: str, expected: list[str]) -> None:
    a, b = f"{{type: OS::Heat::Value, properties: {{value: {written}}}}}", "{type: OS::Heat::None}"
    text = f"resources:\n  a: {a}\n  b: {b}\n"
    assert [found for _, _, found in of("MisspeltFunction", HEAD + text)] == expected


def foreign(document: str) -> list[str]:
    """Return the hints for functions that the template's version does not have."""
    return [one.hint for one in warnings(document) if one.error == "UnknownFunction"]


@table(
    ("version", "written", "hint"),
    [
        ("2013-05-23", "{map_merge: [{}, {}]}", "it needs heat_template_version: 2016-04-08"),
        ("2015-10-15", "{if: [c, 1, 2]}", "it needs heat_template_version: 2016-10-14"),
        ("2016-04-08", "{yaql: {expression: $.data, data: {}}}", "it needs heat_template_version: 2016-10-14"),
        ("2013-05-23", "{repeat: {template: x, for_each: {}}}", "it needs heat_template_version: 2015-04-30"),
        ("2021-04-16", "{'Fn::Sub': 'a ${b}'}", "HOT has str_replace"),
        ("2021-04-16", "{a: [{'Fn::GetAtt': [b, show]}]}", "HOT has get_attr"),
        ("2013-05-23", "{filter: all}", None),  # a word
        ("2016-10-14", "{map_merge: [{}, {}]}", None),
        ("2021-04-16", "{'AWS::CloudFormation::Init': {}}", None),
    ],
)
def test_a_function_of_another_version_or_language(version: str, written: str, hint: str | None) -> None:
    document = f"heat_template_version: '{version}'\nresources:\n" + (
        f"  a: {{type: OS::Heat::Value, properties: {{value: {written}}}}}\n  map_merge: {{type: OS::Heat::None}}\n"
    )
    assert foreign(document) == ([] if hint is None else [hint])


@table(
    ("written", "hint"),
    [
        ("{'Fn::Sub': 'a ${b}'}", "there is Fn::Replace"),
        ("{str_replace: {template: a, params: {}}}", "it needs heat_template_version"),
        ("{'Fn::Join': ['', [a]]}", None),
    ],
)
def test_a_function_that_cloudformation_templates_do_not_have(written: str, hint: str | None) -> None:
    document = "AWSTemplateFormatVersion: '2010-09-09'\nResources:\n" + (
        f"  a: {{Type: 'OS::Heat::Value', Properties: {{value: {written}}}}}\n"
    )
    assert foreign(document) == ([] if hint is None else [hint])
