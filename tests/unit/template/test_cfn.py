"""CloudFormation's templates and functions, also in the first version of HOT."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import HeatliteError, InvalidSchemaError, InvalidTemplateReference
from heatlite.core.json import Json, JsonMap
from heatlite.plugin.registry import Registry
from heatlite.template.checks.check import check
from heatlite.template.dialects import find_dialect
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN, resolve
from heatlite.template.patterns import StepMeter
from heatlite.template.source.loader import load
from tests.resource_types import ALL_TYPES
from tests.tables import table

TYPES = Registry(ALL_TYPES)
AWS = {"AWSTemplateFormatVersion": "2010-09-09"}
HEAT = {"HeatTemplateFormatVersion": "2012-12-12"}
PSEUDO = {"OS::stack_id": "an-id", "OS::stack_name": "name", "OS::project_id": "project"}


class Stack:
    def reference(self, name: str) -> object:
        return f"id-of-{name}"

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        return [name, attribute, *path]


def bind(parameters: JsonMap | None = None, version: Mapping[str, Json] = AWS, /, **sections: Json) -> Definition:
    return Template({**version, **sections}).bind(Environment(parameters=parameters or {}), PSEUDO)


def evaluate(value: Json, version: Mapping[str, Json] = AWS, **sections: Json) -> object:
    """The value within a stack that has the resource `r` and the parameter `p`."""
    hot = "heat_template_version" in version
    kind, properties = ("type", "properties") if hot else ("Type", "Properties")
    resources: Json = {"r": {kind: "T"}, "x": {kind: "T", properties: {"v": value}}}
    if hot:
        parameters: Json = {"p": {"type": "string", "default": "text"}}
        definition = bind(None, version, parameters=parameters, resources=resources)
    else:
        parameters = {"p": {"Type": "String", "Default": "text"}}
        definition = bind(None, version, Parameters=parameters, Resources=resources, **sections)
    found = resolve(definition.resources["x"].properties, Stack())
    assert isinstance(found, dict)
    return found["v"]


def fails(value: Json, **sections: Json) -> str:
    with pytest.raises(HeatliteError) as caught:
        evaluate(value, **sections)
    return caught.value.message


MAPS: Json = {"m": {"k": {"v": "found", "l": [1]}}}


@table("version", [AWS, HEAT, {"heat_template_version": "2013-05-23"}])
@table(
    ("call", "result"),
    [
        ({"Ref": "r"}, "id-of-r"),
        ({"Ref": "p"}, "text"),
        ({"Fn::Select": ["1", ["a", "b"]]}, "b"),
        ({"Fn::Select": ["zz", {"a": 1}]}, ""),
        ({"Fn::Select": [5, ["a"]]}, ""),
        ({"Fn::Select": [1.5, ["a", "b"]]}, "b"),
        ({"Fn::Select": [None, None]}, ""),
        ({"Fn::Select": ["a", '{"a": "json"}']}, "json"),
        ({"Fn::Join": ["-", ["a", {"Ref": "p"}, None]]}, "a-text-"),
        ({"Fn::Split": [",", "a,b"]}, ["a", "b"]),
        ({"Fn::Replace": [{"$a": "1", "$ab": {"Ref": "p"}, "$n": None}, "$a $ab [$n]"]}, "1 text []"),
        ({"Fn::Base64": "as it is"}, "as it is"),
        ({"Fn::GetAZs": ""}, ["nova"]),
        ({"Fn::MemberListToMap": ["Name", "Value", [".member.1.Name=b", ".member.1.Value=2", ".member.0.Name=a",
                                                    ".member.0.Value=x=y"]]}, {"a": "x=y", "b": "2"}),
        ({"Fn::MemberListToMap": ["Name", "Value", [".member.0.Name=a", ".member.1.Name=b", ".member.1.Value=2",
                                                    ".member.2.Value=c"]]}, {"b": "2"}),
    ],
)  # fmt: skip
def test_functions_of_both_languages(version: Mapping[str, Json], call: Json, result: object) -> None:
    assert evaluate(call, version) == result


def test_functions_of_cloudformation_alone() -> None:
    assert evaluate({"Fn::GetAtt": ["r", "a"]}) == ["r", "a"]
    assert evaluate({"Fn::FindInMap": ["m", "k", "v"]}, Mappings=MAPS) == "found"
    assert evaluate({"Fn::FindInMap": ["m", {"Fn::Join": ["", ["k"]]}, "l"]}, HEAT, Mappings=MAPS) == [1]
    call: Json = {"Fn::GetAtt": ["r", "a"]}
    assert evaluate(call, {"heat_template_version": "2013-05-23"}) == call
    assert evaluate({"get_param": "p"}) == {"get_param": "p"}
    call = {"Fn::If": ["c", 1, 2]}
    assert evaluate(call, HEAT) == call


@table(
    ("call", "told"),
    [
        ({"Ref": "zz"}, 'The specified reference "zz" (in unknown) is incorrect.'),
        ({"Ref": ["r"]}, "Resources.x.Properties.v.Ref"),
        ({"Ref": ""}, "must have arguments"),
        ({"Fn::GetAtt": ["r"]}, "Resources.x.Properties.v.Fn::GetAtt: Arguments to"),
        ({"Fn::GetAtt": ["r", "a", "b"]}, "must be of the form [resource_name, attribute]"),
        ({"Fn::GetAtt": "r.a"}, "must be of the form [resource_name, attribute]"),
        ({"Fn::FindInMap": ["m", "k"]}, "must be of the form [map_name, key, value_name]"),
        ({"Fn::FindInMap": ["m", "zz", "v"]}, "'zz'"),
        ({"Fn::FindInMap": ["zz", "k", "v"]}, "'zz'"),
        ({"Fn::FindInMap": ["m", "k", ["v"]]}, "['v']"),
        ({"Fn::Join": "a"}, "Incorrect arguments"),
        ({"Fn::Join": [",", [1]]}, "Items to join must be strings"),
        ({"Fn::Join": [",", ["a"], ["b"]]}, "Incorrect arguments"),
        ({"Fn::Split": [",", "a", 0]}, "must be of the form [delimiter, string]"),
        ({"Fn::Split": [",", 5]}, "must operate on a string"),
        ({"Fn::Replace": [{"a": "b"}]}, "must be of the form"),
        ({"Fn::Replace": [{"a": ["b"]}, "a"]}, "is not valid"),
        ({"Fn::Base64": 5}, "must operate on a string"),
        ({"Fn::Select": [1]}, "must be of the form"),
        ({"Fn::Select": ["zz", ["a"]]}, 'Index to "Fn::Select" must be an integer'),
        ({"Fn::Select": [None, ["a"]]}, 'Index to "Fn::Select" must be an integer'),
        ({"Fn::Select": [None, {"a": 1}]}, 'Index to "Fn::Select" must be a string'),
        ({"Fn::Select": [1, {"1": "a"}]}, 'Index to "Fn::Select" must be a string'),
        ({"Fn::MemberListToMap": ["Name", "Value"]}, "must be of the form"),
        ({"Fn::MemberListToMap": ["Name", "Value", "a"]}, "must be a list"),
        ({"Fn::MemberListToMap": ["Name", "Value", ["a"]]}, "of the form name=value"),
        ({"Fn::ResourceFacade": "metadata"}, "one of: Metadata, DeletionPolicy, UpdatePolicy"),
        ({"Fn::ResourceFacade": "Metadata"}, "only possible in a template that a resource uses"),
        ({"Fn::If": ["zz", 1, 2]}, 'Invalid condition "zz"'),
        ({"Fn::If": [True, 1]}, "must be of the form"),
    ],
)
def test_bad_calls(call: Json, told: str) -> None:
    assert told in fails(call, Mappings=MAPS)


def test_a_reference_is_a_dependency() -> None:
    resources: Json = {
        "a": {"Type": "T"},
        "b": {"Type": "T", "Properties": {"v": {"Ref": "a"}}},
        "c": {"Type": "T", "Properties": {"v": {"Fn::GetAtt": ["b", "x"]}}, "DependsOn": ["a"]},
    }
    definition = bind(Resources=resources)
    assert {name: one.requires for name, one in definition.resources.items()} == {
        "a": set(),
        "b": {"a"},
        "c": {"a", "b"},
    }


def test_resource_keys() -> None:
    keys: JsonMap = {
        "Type": "T",
        "Metadata": {"m": {"Ref": "AWS::StackName"}},
        "DependsOn": "b",
        "DeletionPolicy": "Retain",
        "UpdatePolicy": {"u": 1},
        "Description": "words",
    }
    a = bind(Resources={"a": keys, "b": {"Type": "T"}}).resources["a"]
    assert (a.depends_on, a.deletion_policy, a.update_policy, a.description) == (("b",), "Retain", {"u": 1}, "words")
    assert resolve(a.metadata, Stack()) == {"m": "name"}
    for key in ("type", "external_id", "ExternalId", "CreationPolicy", "UpdateReplacePolicy"):
        (ignored,) = bind(Resources={"a": {"Type": "T", key: "x"}}).findings.ordered()
        assert (ignored.severity, ignored.path) == ("warning", ("Resources", "a", key))
        assert ignored.text == f'"{key}" is ignored: it is not a valid keyword inside a resource definition'
        assert ignored.hint == ('did you mean "Type"?' if key == "type" else "")
    (ignored,) = bind(None, HEAT, Resources={"a": {"Type": "T", "Condition": "x"}}).findings.ordered()
    assert ignored.severity == "warning"
    (ignored,) = bind(Mappings=["zz"], Resources={"a": {"Type": "T"}}).findings.ordered()
    assert (ignored.severity, ignored.text) == ("warning", 'Mappings: "Mappings" is ignored: it must contain a map.')
    with pytest.raises(HeatliteError, match='Invalid deletion policy "retain"'):
        bind(Resources={"a": {"Type": "T", "DeletionPolicy": "retain"}})
    with pytest.raises(HeatliteError, match="Each resource must contain a Type key"):
        bind(Resources={"a": {}})


def test_sections() -> None:
    definition = bind(
        Description="words",
        Resources={"a": {"Type": "T"}},
        Outputs={"o": {"Value": {"Ref": "a"}, "Description": "d", "Condition": "c"}, "p": {"Value": 1}},
        Conditions={"c": False},
    )
    assert definition.template.description == "words"
    assert [(one.name, one.value, one.description, one.condition) for one in definition.outputs.values()] == [
        ("o", None, "d", False),
        ("p", 1, "No description given", True),
    ]
    for version, section in ((AWS, "resources"), (AWS, "Metadata"), (HEAT, "Conditions"), (AWS, "ParameterGroups")):
        with pytest.raises(HeatliteError, match=f"The template section is invalid: {section}"):
            bind(None, version, **{section: {}})
    with pytest.raises(HeatliteError, match=r"Outputs\.o: Each output definition must contain a Value key"):
        bind(Outputs={"o": {"value": 1}})


# -- conditions ------------------------------------------------------------------------------------


@table(
    ("condition", "holds"),
    [
        ("yes", True),
        (True, True),
        ({"Fn::Equals": [{"Ref": "p"}, "prod"]}, True),
        ({"Fn::Equals": [{"Ref": "p"}, "test"]}, False),
        ({"Fn::Equals": [{"Fn::FindInMap": ["m", "k", "v"]}, "found"]}, True),
        ({"Fn::Not": ["yes"]}, False),
        ({"Fn::Not": [{"Fn::Equals": [1, 2]}]}, True),
        ({"Fn::And": ["yes", {"Fn::Not": ["yes"]}]}, False),
        ({"Fn::Or": ["yes", False]}, True),
        ({"Ref": "flag"}, True),
    ],
)
def test_conditions(condition: Json, holds: bool) -> None:
    definition = bind(
        {"p": "prod"},
        Parameters={"p": {"Type": "String"}, "flag": {"Type": "Boolean", "Default": "yes"}},
        Mappings=MAPS,
        Conditions={"yes": {"Fn::Equals": [1, 1]}},
        Resources={
            "a": {"Type": "T", "Condition": condition},
            "b": {"Type": "T", "Properties": {"v": {"Fn::If": [condition, "then", {"Ref": "b"}]}}},
        },
    )
    assert ("a" in definition.resources) is holds
    if holds:
        assert definition.resources["b"].properties == {"v": "then"}
    else:
        assert definition.resources["b"].requires == {"b"}


@table(
    "condition",
    [
        "zz",
        {"Fn::Not": True},
        {"Fn::Not": ["yes", "yes"]},
        {"Fn::And": ["yes"]},
        {"Ref": "p"},
        {"Fn::GetAtt": ["r", "a"]},
        {"Fn::Equals": [{"Fn::Join": ["", ["a"]]}, "a"]},
        {"Fn::If": ["yes", True, False]},
        {"equals": [1, 1]},
        {"Condition": "yes"},
    ],
)
def test_bad_conditions(condition: Json) -> None:
    with pytest.raises(HeatliteError, match=r"^Resources\.x\.Condition"):
        bind(
            {"p": "prod"},
            Parameters={"p": {"Type": "String"}},
            Conditions={"yes": True},
            Resources={"r": {"Type": "T"}, "x": {"Type": "T", "Condition": condition}},
        )


# -- parameters ------------------------------------------------------------------------------------


@table(
    ("kind", "given", "value"),
    [
        ("String", 5, "5"),
        ("Number", "5", 5),
        ("Number", "2.5", 2.5),
        ("CommaDelimitedList", "a, b", ["a", " b"]),
        ("Json", '{"a": 1}', {"a": 1}),
        ("Boolean", "on", True),
    ],
)
def test_types_of_parameters(kind: str, given: Json, value: Json) -> None:
    assert bind({"p": given}, Parameters={"p": {"Type": kind}}).parameters["p"] == value
    assert bind(Parameters={"p": {"Type": kind, "Default": given}}).parameters["p"] == value


@table(
    ("rules", "good", "bad", "told"),
    [
        ({"AllowedValues": ["a", "b"]}, "a", "c", "not an allowed value"),
        ({"AllowedPattern": "[a-z]+"}, "abc", "abc1", "does not match pattern"),
        ({"MinLength": "2"}, "ab", "a", "out of range"),
        ({"MaxLength": 2}, "ab", "abc", "out of range"),
        ({"Type": "Number", "MinValue": 2, "MaxValue": "4"}, "3", "5", "out of range"),
        ({"MaxLength": 2, "ConstraintDescription": "too long"}, "ab", "abc", "Parameter 'p' is invalid: too long"),
    ],
)
def test_constraints_of_parameters(rules: JsonMap, good: str, bad: str, told: str) -> None:
    parameters: Json = {"p": {"Type": "String", **rules}}
    bind({"p": good}, Parameters=parameters)
    with pytest.raises(HeatliteError, match=told):
        bind({"p": bad}, Parameters=parameters)


@table(
    "definition",
    [
        {},
        5,
        {"Type": "string"},
        {"Type": "AWS::EC2::KeyPair::KeyName"},
        {"type": "String"},
        {"Type": "String", "Hidden": True},
        {"Type": "String", "NoEcho": "perhaps"},
        {"Type": "String", "MinValue": 1},
        {"Type": "Number", "AllowedPattern": "a"},
        {"Type": "String", "AllowedPattern": "("},
        {"Type": "String", "MinLength": "x"},
        {"Type": "String", "AllowedValues": "a"},
        {"Type": "String", "AllowedValues": ["a"], "Default": "b"},
    ],
)
def test_bad_parameters(definition: Json) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        bind(Parameters={"p": definition})
    assert caught.value.problems[0].path[:2] == ("Parameters", "p")


def test_parameters_described() -> None:
    definition: Json = {
        "Type": "String",
        "NoEcho": "true",
        "Description": "d",
        "Label": "l",
        "Default": "abc",
        "MinLength": 1,
        "MaxLength": 9,
        "AllowedPattern": "[a-z]*",
        "ConstraintDescription": "only letters",
    }
    described = bind(Parameters={"p": definition}).describe()
    assert described["Parameters"] == {
        "p": {
            "Type": "String",
            "Description": "d",
            "NoEcho": "true",
            "Label": "l",
            "Default": "abc",
            "MinLength": 1,
            "MaxLength": 9,
            "AllowedPattern": "[a-z]*",
            "ConstraintDescription": "only letters",
        }
    }


def test_pseudo_parameters() -> None:
    arn = "arn:openstack:heat::project:stacks/name/an-id"
    found = {name: evaluate({"Ref": f"AWS::{name}"}) for name in ("StackId", "StackName", "Region")}
    assert found == {"StackId": arn, "StackName": "name", "Region": "ap-southeast-1"}
    assert dict(Template(AWS).bind(Environment(), {}).parameters) == {
        "AWS::StackId": UNKNOWN,
        "AWS::StackName": UNKNOWN,
        "AWS::Region": "ap-southeast-1",
    }
    assert "OS::stack_name" in fails({"Ref": "OS::stack_name"})


# -- all together ----------------------------------------------------------------------------------


def test_types_of_either_kind_and_places_of_problems() -> None:
    source = load(
        "AWSTemplateFormatVersion: '2010-09-09'\n"
        "Resources:\n"
        "  a:\n"
        "    Type: OS::Heat::RandomString\n"
        "    Properties: {length: 5000}\n"
        "  b:\n"
        "    Type: OS::Heat::Value\n"
        "    Properties: {value: {'Fn::GetAtt': [a, zz]}}\n"
    )
    first, second = check(source, Environment(), TYPES)
    assert first.text == "Property error: Resources.a.Properties.length: 5000 is out of range (min: 1, max: 512)"
    assert first.line == 5
    assert second.text == ("Resources.b.Properties.value.Fn::GetAtt: The Referenced Attribute (a zz) is incorrect.")
    assert second.line == 8


def test_a_disabled_resource_cannot_be_referred_to() -> None:
    with pytest.raises(InvalidTemplateReference, match=r'"a" \(in b\.Properties\.v\) is incorrect'):
        bind(
            Resources={
                "a": {"Type": "T", "Condition": {"Fn::Equals": [1, 2]}},
                "b": {"Type": "T", "Properties": {"v": {"Ref": "a"}}},
            }
        )


def test_functions_listed() -> None:
    def listed(name: str, with_conditions: bool = False) -> set[str]:
        dialect = find_dialect(name)
        assert dialect is not None
        assert all(one["description"] for one in dialect.describe_functions(with_conditions))
        return {one["functions"] for one in dialect.describe_functions(with_conditions)}

    heat = listed("HeatTemplateFormatVersion.2012-12-12")
    assert heat == {
        "Ref", "Fn::GetAtt", "Fn::FindInMap", "Fn::GetAZs", "Fn::Select", "Fn::Join", "Fn::Split", "Fn::Replace",
        "Fn::Base64", "Fn::MemberListToMap", "Fn::ResourceFacade",
    }  # fmt: skip
    aws = "AWSTemplateFormatVersion.2010-09-09"
    assert listed(aws) == heat | {"Fn::If"}
    assert listed(aws, True) == heat | {"Fn::If", "Fn::Equals", "Fn::Not", "Fn::And", "Fn::Or"}
    for name in ("AWSTemplateFormatVersion.rocky", "HeatTemplateFormatVersion.2010-09-09", "zz", "zz.rocky", ""):
        assert find_dialect(name) is None


WORDS = st.text(st.characters(categories=["L", "N"]), max_size=4)


@given(st.lists(WORDS, min_size=1, max_size=5))
def test_split_undoes_join(items: list[str]) -> None:
    assert evaluate({"Fn::Split": ["|", {"Fn::Join": ["|", list(items)]}]}) == items


@given(st.dictionaries(WORDS.filter(bool), WORDS, max_size=5))
def test_a_member_list_holds_a_map(data: dict[str, str]) -> None:
    members: list[Json] = []
    for i, (key, value) in enumerate(data.items()):
        members += [f".member.{i}.K={key}", f".member.{i}.V={value}"]
    assert evaluate({"Fn::MemberListToMap": ["K", "V", members]}) == data


def test_rules_that_share_a_description_are_told_once() -> None:
    parameter: Json = {
        "Type": "Number",
        "MinValue": 6,
        "AllowedValues": [7],
        "ConstraintDescription": "bad",
        "Default": 5,
    }
    with pytest.raises(InvalidSchemaError) as caught:
        dialect = find_dialect("AWSTemplateFormatVersion.2010-09-09")
        assert dialect is not None
        dialect.read_parameter("P", parameter, StepMeter().charge)
    assert [problem.text for problem in caught.value.problems] == ["Parameter 'P' is invalid: Invalid default 5 (bad)"]
