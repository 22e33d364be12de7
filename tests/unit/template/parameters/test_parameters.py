"""Parameters: definitions, types, constraints, values."""

import pytest

from heatlite.core.errors import HeatliteError, Invalid, InvalidSchemaError, StackValidationFailed, UserParameterMissing
from heatlite.core.json import Json, JsonMap
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN
from heatlite.template.parameters.constraints import NAMED
from heatlite.template.parameters.parameters import ParameterSchema
from heatlite.template.patterns import StepMeter
from tests.tables import table

LATEST = "2021-04-16"


def bind(
    definition: JsonMap, given: Json = None, version: str = LATEST, strict: bool = True, **env: JsonMap
) -> Definition:
    template = Template({"heat_template_version": version, "parameters": {"p": definition}})
    parameters = {} if given is None else {"p": given}
    return template.bind(Environment(parameters=parameters, **env), {}, strict)


def value(kind: str, given: Json, **more: Json) -> object:
    return bind({"type": kind, **more}, given).parameters["p"]


def fails(kind: str, given: Json, **more: Json) -> str:
    with pytest.raises(StackValidationFailed) as caught:
        value(kind, given, **more)
    assert caught.value.message.startswith("Parameter 'p' is invalid: ")
    return caught.value.message.removeprefix("Parameter 'p' is invalid: ")


@table(
    ("kind", "given", "typed", "text"),
    [
        ("string", "a", "a", "a"),
        ("string", 5, "5", "5"),
        ("string", True, "True", "True"),
        ("string", {"a": 1}, '{"a": 1}', '{"a": 1}'),
        ("number", 5, 5, "5"),
        ("number", "5", 5, "5"),
        ("number", "2.50", 2.5, "2.5"),
        ("number", 2.5, 2.5, "2.5"),
        ("number", "1e3", 1000.0, "1000.0"),
        ("boolean", True, True, "True"),
        ("boolean", "off", False, "False"),
        ("boolean", 1, True, "True"),
        ("boolean", "YES", True, "True"),
        ("boolean", "n", False, "False"),
        ("comma_delimited_list", "a, b", ["a", " b"], "a, b"),
        ("comma_delimited_list", "", [], ""),
        ("comma_delimited_list", ["a", 1], ["a", "1"], "a,1"),
        ("json", '{"a": [1, null]}', {"a": [1, None]}, '{"a": [1, null]}'),
        ("json", {"a": 1}, {"a": 1}, '{"a": 1}'),
        ("json", "[]", [], "[]"),
        ("json", '"zz"', "zz", '"zz"'),
        ("json", "", "", '""'),
    ],
)
def test_types(kind: str, given: Json, typed: object, text: str) -> None:
    parameters = bind({"type": kind}, given).parameters
    assert parameters["p"] == typed and type(parameters["p"]) is type(typed)
    assert parameters.as_text("p") == text


@table(
    ("kind", "given", "told"),
    [
        ("number", "abc", "could not convert string to float: 'abc'"),
        ("number", "nan", "could not convert string to float: 'nan'"),
        ("number", "9" * 5000, "could not convert"),
        ("number", [1], "could not convert"),
        ("boolean", "zz", "Unrecognized value 'zz', acceptable values are: '0', '1', 'f', 'false', "),
        ("boolean", 2, "Unrecognized value '2'"),
        ("comma_delimited_list", 5, "Value must be a comma-delimited list string: 5"),
        ("string", "a\0b", "NUL characters are not allowed"),
        ("json", {"a": ["\ud800"]}, "unpaired surrogates are not allowed"),
        ("json", {"a": float("inf")}, "infinite"),
        ("json", "{", "Value must be valid JSON: "),
        ("json", "[" * 5000, "Value must be valid JSON: "),
        ("json", '{"a": NaN}', "Value must be valid JSON: "),
    ],
)
def test_wrong_types(kind: str, given: Json, told: str) -> None:
    assert fails(kind, given).startswith(told)


def test_a_default_of_the_wrong_type_is_told_when_it_is_used() -> None:
    definition: JsonMap = {"type": "number", "default": "abc"}
    assert bind(definition, 5).parameters["p"] == 5
    assert bind(definition, strict=False).parameters["p"] is UNKNOWN
    with pytest.raises(StackValidationFailed) as caught:
        bind(definition)
    assert caught.value.message == "Parameter 'p' is invalid: could not convert string to float: 'abc'"


# -- precedence, missing ---------------------------------------------------------------------------------


def test_precedence() -> None:
    definition: JsonMap = {"type": "string", "default": "template"}
    assert bind(definition).parameters["p"] == "template"
    assert bind(definition, parameter_defaults={"p": "defaults", "zz": 1}).parameters["p"] == "defaults"
    assert bind(definition, "user", parameter_defaults={"p": "defaults"}).parameters["p"] == "user"
    assert bind(definition, "").parameters["p"] == ""


def test_missing() -> None:
    with pytest.raises(UserParameterMissing) as caught:
        bind({"type": "string"})
    assert caught.value.message == "The Parameter (p) was not provided."
    assert bind({"type": "string"}, strict=False).parameters["p"] is UNKNOWN
    with pytest.raises(UserParameterMissing):
        bind({"type": "string", "default": None})


def test_unknown() -> None:
    with pytest.raises(HeatliteError) as caught:
        Template({"heat_template_version": LATEST}).bind(Environment(parameters={"zz": 1}), {})
    assert type(caught.value).__name__ == "UnknownUserParameter"
    assert caught.value.message == "The Parameter (zz) was not defined in template."


def test_pseudo_parameters() -> None:
    template = Template({"heat_template_version": LATEST})
    parameters = template.bind(Environment(), {"OS::stack_id": "i", "OS::stack_name": "n"}).parameters
    assert {name: parameters.as_text(name) for name in ("OS::stack_id", "OS::stack_name")} == {
        "OS::stack_id": "i",
        "OS::stack_name": "n",
    }
    assert parameters["OS::project_id"] is UNKNOWN
    assert list(parameters) == ["OS::stack_id", "OS::stack_name", "OS::project_id"] and len(parameters) == 3


def test_hidden_values_do_not_show() -> None:
    definition: JsonMap = {"type": "string", "hidden": "yes", "constraints": [{"allowed_values": ["a"]}]}
    bound = bind(definition, "a")
    assert bound.parameters.as_text("p") == "******"
    assert bound.parameters["p"] == "a"
    described = bound.describe()["Parameters"]
    assert isinstance(described, dict) and isinstance(described["p"], dict)
    assert described["p"]["NoEcho"] == "true" and described["p"]["Value"] == "******"
    with pytest.raises(StackValidationFailed) as caught:
        bind(definition, "secret")
    assert "secret" not in caught.value.message


@table(
    ("kind", "constraint", "given", "shown"),
    [
        ("comma_delimited_list", {"allowed_values": ["x"]}, "secret1,secret2", '"******" is not an allowed value [x]'),
        ("comma_delimited_list", {"custom_constraint": "ip_addr"}, "1.1.1.1,secret", '"******" does not validate'),
        ("number", {"range": {"max": 3}}, "0123456.70", "****** is out of range"),
        ("number", {"allowed_values": [1]}, " 123456", '"******" is not an allowed value'),
    ],
)
def test_typed_hidden_values_do_not_show(kind: str, constraint: Json, given: str, shown: str) -> None:
    definition: JsonMap = {"type": kind, "hidden": True, "constraints": [constraint]}
    with pytest.raises(StackValidationFailed) as caught:
        bind(definition, given)
    assert caught.value.message.startswith(f"Parameter 'p' is invalid: {shown}")
    with pytest.raises(Invalid) as refused:
        bind({**definition, "default": given})
    assert "123456" not in refused.value.message and "secret" not in refused.value.message


def test_immutable() -> None:
    definition: JsonMap = {"type": "string", "immutable": True}
    new = bind(definition, "b").parameters
    assert new.immutable_changes(bind(definition, "a").parameters) == ["p"]
    assert new.immutable_changes(bind(definition, "b").parameters) == []
    assert new.immutable_changes({}) == []
    assert bind({"type": "string"}, "b").parameters.immutable_changes({"p": "a"}) == []


# -- definitions -----------------------------------------------------------------------------------------


@table(
    ("definition", "told"),
    [
        (None, "a map is needed"),
        ("string", "a map is needed"),
        ({}, "Missing parameter type for parameter: p"),
        ({"type": "zz"}, "Invalid type (zz)"),
        ({"type": ["string"]}, "Invalid type"),
        ({"type": "String"}, "Invalid type (String)"),
        ({"type": "string", "zz": 1}, "Invalid key 'zz' for parameter (p)"),
        ({"type": "string", "hidden": "zz"}, "hidden"),
        ({"type": "string", "immutable": 5}, "immutable"),
        ({"type": "string", "tags": "a"}, "tags"),
        ({"type": "string", "constraints": {"length": {"min": 1}}}, "expected a list"),
        ({"type": "string", "constraints": ["a"]}, "expected a mapping"),
        ({"type": "string", "constraints": [{}]}, "No constraint expressed"),
        ({"type": "string", "constraints": [{"description": "d"}]}, "No constraint expressed"),
        ({"type": "string", "constraints": [{"zz": 1}]}, "Invalid key 'zz' for parameter constraints (p)"),
        ({"type": "string", "constraints": [{"length": {"min": 1}, "allowed_pattern": "a"}]}, "Only one constraint"),
        ({"type": "string", "constraints": [{"range": {"min": 1}}]}, "range constraint invalid for string"),
        ({"type": "number", "constraints": [{"length": {"min": 1}}]}, "length constraint invalid for number"),
        ({"type": "comma_delimited_list", "default": 5}, "Parameter 'p' is invalid: Value must be a comma-delimited"),
        ({"type": "json", "constraints": [{"allowed_values": []}]}, "allowed_values constraint invalid for json"),
        (
            {"type": "number", "constraints": [{"allowed_pattern": "a"}]},
            "allowed_pattern constraint invalid for number",
        ),
        (
            {"type": "json", "constraints": [{"custom_constraint": "a"}]},
            "custom_constraint constraint invalid for json",
        ),
        ({"type": "string", "constraints": [{"length": {}}]}, "needs min or max"),
        ({"type": "string", "constraints": [{"length": 5}]}, "expected a mapping"),
        ({"type": "string", "constraints": [{"length": {"min": "a"}}]}, "min must be a number"),
        ({"type": "string", "constraints": [{"length": {"max": 1.5}}]}, "max must be an integer"),
        ({"type": "string", "constraints": [{"length": {"zz": 1}}]}, "Invalid key 'zz'"),
        ({"type": "number", "constraints": [{"modulo": {"step": 2}}]}, "step value and an offset value"),
        ({"type": "number", "constraints": [{"modulo": {"step": 0, "offset": 0}}]}, "step cannot be 0"),
        ({"type": "number", "constraints": [{"modulo": {"step": 2, "offset": 2}}]}, "smaller (by absolute value)"),
        ({"type": "number", "constraints": [{"modulo": {"step": 3, "offset": -1}}]}, "both positive or both negative"),
        ({"type": "string", "constraints": [{"allowed_values": "a"}]}, "must be a list"),
        ({"type": "number", "constraints": [{"allowed_values": ["a"]}]}, "must be of the parameter's type"),
        ({"type": "string", "constraints": [{"allowed_pattern": "("}]}, "Invalid pattern"),
        ({"type": "string", "constraints": [{"allowed_pattern": 5}]}, "must be a string"),
        ({"type": "string", "constraints": [{"custom_constraint": 5}]}, "must be the name"),
        (
            {"type": "string", "default": "a", "constraints": [{"length": {"min": 3}}]},
            "Parameter 'p' is invalid: Invalid default a (length (1) is out of range (min: 3, max: None))",
        ),
        (
            {"type": "number", "default": 9, "constraints": [{"range": {"max": 3}, "description": "small"}]},
            "Parameter 'p' is invalid: Invalid default 9 (small)",
        ),
    ],
)
def test_bad_definitions(definition: Json, told: str) -> None:
    for strict in (True, False):
        template = Template({"heat_template_version": LATEST, "parameters": {"p": definition}})
        with pytest.raises(InvalidSchemaError) as caught:
            template.bind(Environment(parameters={"p": 1}), {}, strict)
        assert told in caught.value.message
        assert caught.value.problems[0].path[:2] == ("parameters", "p")


def test_what_younger_versions_do_not_know() -> None:
    assert bind({"type": "string", "tags": ["t"]}, "a", "2018-03-02").parameters.schemas["p"].tags == ("t",)
    with pytest.raises(InvalidSchemaError, match="Invalid key 'tags'"):
        bind({"type": "string", "tags": ["t"]}, "a", "2017-09-01")
    modulo: JsonMap = {"type": "number", "constraints": [{"modulo": {"step": 2, "offset": 1}}]}
    assert bind(modulo, 3, "2017-02-24").parameters["p"] == 3
    with pytest.raises(InvalidSchemaError, match="Invalid key 'modulo'"):
        bind(modulo, 3, "2016-10-14")
    assert bind({"type": "string", "schema": {"x": 1}}, "a").parameters["p"] == "a"


# -- constraints -----------------------------------------------------------------------------------------


@table(
    ("kind", "constraint", "good", "bad", "told"),
    [
        ("string", {"length": {"min": 2, "max": 3}}, "abc", "a", "length (1) is out of range (min: 2, max: 3)"),
        ("string", {"length": {"max": "2"}}, "ab", "abc", "length (3) is out of range (min: None, max: 2)"),
        ("comma_delimited_list", {"length": {"max": 2}}, "a,b", "a,b,c", "length (3) is out of range"),
        ("json", {"length": {"min": 1}}, {"a": 1}, {}, "length (0) is out of range"),
        ("number", {"range": {"min": 1, "max": 2.5}}, 2.5, 3, "3 is out of range (min: 1, max: 2.5)"),
        ("number", {"range": {"min": 1}}, "1", "0.5", "0.5 is out of range (min: 1, max: None)"),
        ("number", {"modulo": {"step": 3, "offset": 1}}, 7, 8, "8 is not a multiple of 3 with an offset of 1"),
        ("number", {"modulo": {"step": 3, "offset": 0}}, 6.0, 6.5, "6.5 is not a multiple"),
        ("string", {"allowed_values": ["a", 5]}, "5", "b", '"b" is not an allowed value [a, 5]'),
        ("number", {"allowed_values": ["1", 2]}, 1, 3, '"3" is not an allowed value [1, 2]'),
        ("boolean", {"allowed_values": ["yes"]}, True, False, '"False" is not an allowed value [yes]'),
        ("comma_delimited_list", {"allowed_values": ["a", "b"]}, "b,a", "a,c", "is not an allowed value [a, b]"),
        ("string", {"allowed_pattern": "[a-c]+"}, "abc", "abcd", '"abcd" does not match pattern "[a-c]+"'),
        ("string", {"allowed_pattern": "a|ab"}, "ab", "abc", "does not match"),
        ("string", {"custom_constraint": "ip_addr"}, "10.0.0.1", "10.0.0", '"10.0.0" does not validate ip_addr'),
        (
            "comma_delimited_list",
            {"custom_constraint": "net_cidr"},
            "10.0.0.0/8",
            "10.0.0.0/8,x",
            '"x" does not validate',
        ),
    ],
)
def test_constraints(kind: str, constraint: JsonMap, good: Json, bad: Json, told: str) -> None:
    value(kind, good, constraints=[constraint])
    assert told in fails(kind, bad, constraints=[constraint])
    assert fails(kind, bad, constraints=[{**constraint, "description": "in our words"}]) == "in our words"


def test_constraints_hold_for_defaults_of_the_environment_but_not_in_validation() -> None:
    definition: JsonMap = {"type": "string", "constraints": [{"length": {"min": 3}}]}
    with pytest.raises(StackValidationFailed):
        bind(definition, parameter_defaults={"p": "a"})
    bind(definition, "a", strict=False)


def test_custom_constraints_of_a_cloud_and_of_nobody() -> None:
    assert value("string", "m1.small", constraints=[{"custom_constraint": "nova.flavor"}]) == "m1.small"
    told = fails("string", "x", constraints=[{"custom_constraint": "zz"}])
    assert told == '"x" does not validate zz (constraint not found)'
    definition: Json = {"type": "string", "default": "x", "constraints": [{"custom_constraint": "zz"}]}
    assert ParameterSchema.parse("p", definition, LATEST, StepMeter().charge)


@table(
    ("name", "good", "bad"),
    [
        ("ip_addr", ["10.0.0.1", "::1"], ["10.0.0.256", "x", ""]),
        ("net_cidr", ["10.0.0.0/24", "10.0.0.1/8", "fe80::/10"], ["10.0.0.1", "10.0.0.0/33", " 10.0.0.0/8", "/8"]),
        ("ip_or_cidr", ["10.0.0.1", "10.0.0.0/8"], ["x"]),
        ("mac_addr", ["00:11:22:aa:BB:ff", "0011.22aa.bbff", "001122aaBBff", "0:1:2:3:4:5", "001122-aabbff"], [""]),
        ("mac_addr", ["00-11-22-aa-bb-ff"], ["00:11-22:aa:bb:ff", "00:11:22:aa:bb", "00:11:22:aa:bb:gg", "001122aabb"]),
        ("iso_8601", ["2026-11-21T02:44:00Z", "2026-11-21"], ["yesterday", ""]),
        ("iso_8601", ["2026", "2026-11", "2026-1-5", "20261121"], ["202611", "2026-13", "2026-02-30", "2026-W47-6"]),
        ("iso_8601", ["2026-11-21 02", "20261121T0244", "2026-11-21 02:44:5,25"], ["2026-11T02", "2026-11-21x02:44"]),
        ("iso_8601", ["2026-11-21T02-05", "2026-11-21T02:44+0530"], ["2026-11-21T02:44z", "2026-11-21T02:44+24:00"]),
        (
            "expiration",
            ["2999-11-21T02:44:00Z", "2999-01-01", "2999-01-01T00:00+02:00", "2999", "2999-01", ""],
            ["soon", "2001-01-01T00:00:00Z", "2001-01"],
        ),
        (
            "cron_expression",
            ["* * * * *", "*/5 0-6 1,15 jan-mar mon", "0 0 1 1 7"],
            ["* * * *", "60 * * * *", "a * * * *", "* * * * * 60", "* * * * * * * *", "@reboot"],
        ),
        ("cron_expression", ["0 0 * * 1-5/2", "* * * * * 30", "@daily", ""], ["* * * * */x", "1-2-3 * * * *"]),
        ("cron_expression", ["0 0 L * *", "0 0 9W * *", "0 0 * * L5", "0 0 * * 1,FRI#3"], ["* * W * *", "* * * * 5#6"]),
        ("timezone", ["UTC", "Europe/Berlin", ""], ["Mars/Base", "../etc"]),
        ("dns_name", ["a.example.org", "a.example.org.", "a", "web.1", ""], ["-a.org", "a..b", ".", "a" * 64]),
        ("rel_dns_name", ["a.b", ""], ["a.b."]),
        ("dns_domain", ["a.b.", ""], ["a.b", "."]),
        ("json_string", ['{"a": 1}', ""], ["{", "[" * 5000]),
        ("test_constr", ["anything"], []),
    ],
)
def test_named_constraints(name: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not NAMED[name](text)] == []
    assert [text for text in bad if NAMED[name](text)] == []


# -- POST /validate ----------------------------------------------------------------------------------------


def test_describe() -> None:
    definition: JsonMap = {
        "type": "number",
        "default": 5,
        "label": "A number",
        "description": "Of things",
        "tags": ["t"],
        "constraints": [
            {"range": {"min": 1}, "description": "positive"},
            {"modulo": {"step": 2, "offset": 1}},
            {"allowed_values": [1, 3, 5]},
        ],
    }
    bound = bind(definition, 3)
    assert bound.describe() == {
        "Description": "No description",
        "Parameters": {
            "p": {
                "Type": "Number",
                "Description": "Of things",
                "NoEcho": "false",
                "Label": "A number",
                "Default": 5,
                "Value": 3,
                "MinValue": 1,
                "Step": 2,
                "Offset": 1,
                "AllowedValues": [1, 3, 5],
                "ConstraintDescription": "positive",
                "Tags": ["t"],
            }
        },
        "Environment": {
            "resource_registry": {"resources": {}},
            "parameters": {"p": 3},
            "parameter_defaults": {},
            "event_sinks": [],
        },
    }


def test_describe_the_least() -> None:
    shown = ParameterSchema.parse("p", {"type": "comma_delimited_list"}, LATEST, StepMeter().charge).describe()
    assert shown == {"Type": "CommaDelimitedList", "Description": "", "NoEcho": "false", "Label": "p"}


@table(
    ("definition", "defaults", "shown"),
    [
        ({"type": "number", "default": 1}, {"p": 3}, 3),
        ({"type": "number", "default": 1}, {"p": 0}, 0),
        ({"type": "number", "default": 1}, {"p": None}, 1),
        ({"type": "number", "default": 1}, {"q": 3}, 1),
        ({"type": "comma_delimited_list"}, {"p": ["a"]}, ["a"]),
        ({"type": "json", "default": {}}, {"p": '{"a": 1}'}, '{"a": 1}'),
        ({"type": "string", "default": "d", "hidden": True}, {"p": "secret"}, "******"),
    ],
)
def test_the_environment_has_other_defaults(definition: JsonMap, defaults: JsonMap, shown: Json) -> None:
    template = Template({"heat_template_version": LATEST, "parameters": {"p": definition}})
    described = template.bind(Environment(parameter_defaults=defaults), {}, strict=False).describe()["Parameters"]
    assert isinstance(described, dict) and isinstance(described["p"], dict)
    assert described["p"]["Default"] == shown


def test_every_problem_is_found() -> None:
    template = Template(
        {
            "heat_template_version": LATEST,
            "parameters": {
                "a": {"type": "number", "default": "x"},
                "b": {"type": "zz"},
                "c": {"type": "string"},
                "d": {"type": "string", "constraints": [{"allowed_pattern": "x"}]},
            },
        }
    )
    with pytest.raises(Invalid) as caught:
        template.bind(Environment(parameters={"d": "y", "e": 1}), {})
    assert [(problem.error, problem.path[-1]) for problem in caught.value.problems] == [
        ("UnknownUserParameter", "e"),
        ("UserParameterMissing", "c"),
        ("InvalidSchemaError", "type"),
        ("StackValidationFailed", "default"),
        ("StackValidationFailed", "d"),
    ]


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        (
            {
                "heat_template_version": LATEST,
                "parameters": {
                    "p": {"type": "zz", "defalt": 1, "labl": 1, "hidden": "perhaps", "tags": "a", "constraints": "a"},
                    "q": {"constraints": [{"length": {"min": 1}}]},
                    "r": {"type": "string", "constraints": [{"range": {"min": 1}}, {"zz": 1}, {"allowed_values": 1}]},
                },
            },
            [
                "p.defalt", "p.labl", "p.type", "p.hidden", "p.constraints", "p.tags", "q", "r.constraints[0].range",
                "r.constraints[1].zz", "r.constraints[2].allowed_values",
            ],
        ),
        (
            {
                "AWSTemplateFormatVersion": "2010-09-09",
                "Parameters": {
                    "p": {"Type": "Zz", "Defalt": 1, "NoEcho": "perhaps"},
                    "q": {"Type": "String", "MinValue": 1, "AllowedValues": 1, "AllowedPattern": 1},
                },
            },
            ["p.Defalt", "p.Type", "p.NoEcho", "q.MinValue", "q.AllowedValues", "q.AllowedPattern"],
        ),
    ],
)  # fmt: skip
def test_every_fault_of_a_definition_is_found(document: JsonMap, paths: list[str]) -> None:
    found = Template(document).findings.ordered()
    assert [problem.where.partition(".")[2] for problem in found] == paths
    assert {problem.error for problem in found} == {"InvalidSchemaError"}
