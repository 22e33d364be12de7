"""Bound templates: sections, resources, conditions, outputs."""

from collections.abc import Mapping

import pytest

from heatlite.core.errors import (
    HeatliteError,
    InvalidExternalResourceDependency,
    InvalidTemplateReference,
    InvalidTemplateVersion,
    StackValidationFailed,
    UserParameterMissing,
)
from heatlite.core.json import Json, JsonMap
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from tests.tables import table

LATEST = "2021-04-16"


def bind(environment: Environment | None = None, version: str = LATEST, /, **sections: Json) -> Definition:
    return Template({"heat_template_version": version, **sections}).bind(environment or Environment(), {})


def fails(version: str = LATEST, /, **sections: Json) -> HeatliteError:
    with pytest.raises(HeatliteError) as caught:
        bind(None, version, **sections)
    return caught.value


def resource(**keys: Json) -> JsonMap:
    return {"x": {"type": "T", **keys}, "y": {"type": "T"}}


# -- sections ------------------------------------------------------------------------------------------------


def test_versions() -> None:
    for document, told in (
        ({}, "Template version was not provided"),
        ({"heat_template_version": "rocky", "AWSTemplateFormatVersion": "2010-09-09"}, "Ambiguous versions"),
        ({"heat_template_version": "2999-01-01"}, '"heat_template_version: 2999-01-01"'),
    ):
        with pytest.raises(InvalidTemplateVersion, match=told):
            Template(document)
    assert Template({"heat_template_version": "rocky"}).version == "2018-08-31"
    assert Template({"AWSTemplateFormatVersion": "2010-09-09"}).version == "2010-09-09"
    assert Template({"HeatTemplateFormatVersion": "2012-12-12"}).version == "2012-12-12"
    for key, value in (("AWSTemplateFormatVersion", "2012-12-12"), ("HeatTemplateFormatVersion", "rocky")):
        with pytest.raises(InvalidTemplateVersion, match=f'"{key}: {value}". "{key}" should be 20'):
            Template({key: value})


@pytest.mark.parametrize("empty", [None, {}, []])
def test_empty_sections(empty: Json) -> None:
    definition = bind(resources=empty, outputs=empty, parameters=empty, parameter_groups=empty)
    assert (definition.resources, definition.outputs) == ({}, {})
    assert bind(resources=empty, description=None).template.description == ""


@table("empty", [None, [], "", False])
def test_conditions_are_a_map_even_if_empty(empty: Json) -> None:
    told = "Conditions validation error: Condition definitions must be a map."
    assert fails(conditions=empty).message == told
    assert bind(conditions={}).resources == {}


def test_unknown_sections() -> None:
    assert fails(zzz={}).message == "The template section is invalid: zzz"
    assert fails(mappings={}).message == "The template section is invalid: mappings"
    assert fails("2016-04-08", conditions={}).message == "The template section is invalid: conditions"
    assert isinstance(fails(resources="a"), StackValidationFailed)
    assert isinstance(fails(outputs=["a"]), StackValidationFailed)


@table(
    ("groups", "told"),
    [
        ("a", "Parameter Groups error: parameter_groups: The parameter_groups should be a list."),
        ([{"label": "g"}], "Parameter Groups error: parameter_groups.g: The parameters must be provided"),
        (["g"], "Parameter Groups error: parameter_groups[0]: The parameters must be provided"),
        (
            [{"label": "g", "parameters": "p"}],
            "parameter_groups.g: The parameters of parameter group should be a list.",
        ),
        ([{"label": "g", "parameters": ["zz"]}], "The grouped parameter zz does not reference a valid parameter."),
        (
            [{"parameters": ["p"]}, {"parameters": ["p"]}],
            "The p parameter must be assigned to one parameter group only.",
        ),
        ([{"parameters": [5]}], "does not reference a valid parameter"),
        ([{"parameters": ["OS::stack_name"]}], "The grouped parameter OS::stack_name does not reference"),
    ],
)
def test_parameter_groups(groups: Json, told: str) -> None:
    error = fails(parameters={"p": {"type": "string", "default": ""}}, parameter_groups=groups)
    assert error.message.startswith("Parameter Groups error: ")
    assert told in error.message


def test_good_parameter_groups() -> None:
    groups: Json = [{"label": "g", "description": "d", "parameters": ["p"]}]
    definition = bind(parameters={"p": {"type": "string", "default": ""}}, parameter_groups=groups)
    assert definition.describe()["ParameterGroups"] == groups


# -- resources -----------------------------------------------------------------------------------------------


def test_a_resource_with_everything() -> None:
    x = bind(
        resources=resource(
            properties={"a": 1},
            metadata={"m": {"get_resource": "y"}},
            depends_on="y",
            update_policy={"rolling": {}},
            deletion_policy="Retain",
            description="d",
            condition=True,
        )
    ).resources["x"]
    assert (x.name, x.type, x.mapped_type, x.properties) == ("x", "T", "T", {"a": 1})
    assert (x.depends_on, x.deletion_policy, x.update_policy) == (("y",), "Retain", {"rolling": {}})
    assert (x.description, x.external_id, x.requires) == ("d", None, {"y"})


def test_a_resource_with_nothing() -> None:
    x = bind(resources=resource()).resources["x"]
    assert (x.properties, x.metadata, x.depends_on, x.update_policy) == ({}, {}, (), {})
    assert (x.deletion_policy, x.description, x.requires) == ("Delete", "", frozenset())


@table(
    ("key", "kind"),
    [
        ("properties", "object"),
        ("metadata", "object"),
        ("update_policy", "object"),
        ("depends_on", "list or string"),
        ("deletion_policy", "string"),
        ("description", "string"),
        ("external_id", "string"),
    ],
)
def test_keys_of_a_resource_are_not_null(key: str, kind: str) -> None:
    told = f"Resource x {key} type must be {kind}"
    template = Template({"heat_template_version": LATEST, "resources": resource(**{key: None})})
    assert fails(resources=resource(**{key: None})).message == told
    assert fails(conditions={"no": False}, resources=resource(condition="no", **{key: None})).message == told
    # An earlier release accepted them: such stacks go on.
    assert template.bind(Environment(), {}, stored=True).resources["x"].properties == {}


def test_stored_dependencies_that_an_earlier_release_accepted_are_none() -> None:
    for depends_on in (False, 0, {}):
        document: JsonMap = {"heat_template_version": "2021-04-16", "resources": resource(depends_on=depends_on)}
        bound = Template(document).bind(Environment(), {}, stored=True)
        assert bound.resources["x"].depends_on == ()


def test_static_properties_are_not_copied() -> None:
    properties: JsonMap = {"a": [1, {"b": "c"}]}
    assert bind(resources=resource(properties=properties)).resources["x"].properties is properties


@table(
    ("resources", "message"),
    [
        ({"x": "T"}, '"resources" must contain a map of resource maps, but "x" is none.'),
        ({"x": None}, '"resources" must contain a map of resource maps, but "x" is none.'),
        ({"x": {}}, "Each resource must contain a type key."),
        ({"x": {"properties": {}}}, "Each resource must contain a type key."),
        ({"x": {"type": {"get_param": "p"}}}, "resources.x.type: The type of a resource must be a string"),
        ({"x": {"type": "T", "zz": 1}}, '"zz" is not a valid keyword inside a resource definition'),
        ({"a/b": {"type": "T"}}, 'Resource name may not contain "/"'),
        ({"a" * 256: {"type": "T"}}, "Resource name may not have more than 255 characters"),
        (resource(properties=[1]), "Resource x properties type must be object"),
        (resource(metadata="a"), "Resource x metadata type must be object"),
        (resource(update_policy=5), "Resource x update_policy type must be object"),
        (resource(description={"get_param": "p"}), "Resource x description type must be string"),
        *((resource(depends_on=one), "Resource x depends_on type must be list or string") for one in (5, 0, False, {})),
        (resource(depends_on=[["y"]]), "Resource x depends_on type must be list or string"),
        (resource(deletion_policy="zz"), 'Invalid deletion policy "zz"'),
        (resource(deletion_policy="RETAIN"), 'Invalid deletion policy "RETAIN"'),
        (resource(deletion_policy=["Delete"]), "Resource x deletion_policy type must be string"),
        (resource(condition="zz"), 'resources.x.condition: Invalid condition "zz"'),
        (resource(condition=5), 'resources.x.condition: Invalid condition "5"'),
    ],
)
def test_bad_resources(resources: Json, message: str) -> None:
    error = fails(resources=resources)
    assert isinstance(error, StackValidationFailed)
    assert error.message == message


def test_what_older_versions_do_not_know() -> None:
    for key in ("condition", "external_id"):
        told = f'"{key}" is not a valid keyword inside a resource definition'
        assert fails("2016-04-08", resources=resource(**{key: "a"})).message == told
    assert bind(resources=resource(deletion_policy="snapshot")).resources["x"].deletion_policy == "Snapshot"
    assert (
        fails("2016-04-08", resources=resource(deletion_policy="retain")).message == 'Invalid deletion policy "retain"'
    )


def test_external_id() -> None:
    x = bind(resources=resource(external_id="abc", deletion_policy="Delete")).resources["x"]
    assert (x.external_id, x.deletion_policy) == ("abc", "Retain")
    parameters: Json = {"id": {"type": "string", "default": "abc"}}
    given: Json = {"get_param": "id"}
    assert bind(parameters=parameters, resources=resource(external_id=given)).resources["x"].external_id == "abc"
    for wrong in (5, [], {"get_resource": "y"}, {"get_param": "zz"}, ""):
        assert "external_id" in fails(resources=resource(external_id=wrong)).message
    assert "external_id is empty" in fails(resources=resource(external_id="")).message
    assert isinstance(fails(resources=resource(external_id="a", depends_on="y")), InvalidExternalResourceDependency)


@table(
    ("keys", "told"),
    [
        ({"properties": {"v": {"list_join": "zz"}}}, "resources.x.properties.v.list_join: Incorrect arguments"),
        ({"properties": {"v": {"if": ["zzz", 1, 2]}}}, 'Invalid condition "zzz"'),
        ({"properties": ["zz"]}, "Resource x properties type must be object"),
        ({"deletion_policy": "zz"}, 'Invalid deletion policy "zz"'),
        ({"depends_on": 5}, "Resource x depends_on type must be list or string"),
        ({"depends_on": False}, "Resource x depends_on type must be list or string"),
        ({"properties": {"v": {"get_resource": "zz"}}}, ""),
        ({"properties": {"v": {"get_param": "zz"}}}, ""),
        ({"depends_on": "zz"}, ""),
    ],
)
def test_syntax_of_disabled_resources(keys: JsonMap, told: str) -> None:
    sections: JsonMap = {"conditions": {"no": False}, "resources": resource(condition="no", **keys)}
    if told:
        assert told in fails(**sections).message
    else:
        assert bind(**sections).disabled == {"x"}


def test_a_policy_may_be_a_function() -> None:
    parameters: Json = {"keep": {"type": "string", "default": "retain"}}
    policy: Json = {"get_param": "keep"}
    assert (
        bind(parameters=parameters, resources=resource(deletion_policy=policy)).resources["x"].deletion_policy
        == "Retain"
    )
    assert "not possible here" in fails(resources=resource(deletion_policy={"get_resource": "y"})).message
    assert "(zz) was not provided" in fails(resources=resource(deletion_policy={"get_param": "zz"})).message


def test_whole_sections_may_be_functions() -> None:
    x = bind(resources=resource(properties={"map_merge": [{"a": {"get_resource": "y"}}]})).resources["x"]
    assert x.requires == {"y"}


@table(
    ("resources", "message"),
    [
        (resource(depends_on="zz"), 'The specified reference "zz" (in x) is incorrect.'),
        (resource(depends_on=["y", "zz"]), 'The specified reference "zz" (in x) is incorrect.'),
        (
            resource(properties={"value": {"get_resource": "zz"}}),
            'The specified reference "zz" (in x.Properties.value) is incorrect.',
        ),
        (
            resource(properties={"v": [1, {"list_join": ["", [{"get_resource": "zz"}]]}]}),
            'The specified reference "zz" (in x.Properties.v[1].list_join[1][0]) is incorrect.',
        ),
        (
            resource(metadata={"m": {"get_resource": "zz"}}),
            'The specified reference "zz" (in x.Metadata.m) is incorrect.',
        ),
    ],
)
def test_references_to_nowhere(resources: Json, message: str) -> None:
    error = fails(resources=resources)
    assert isinstance(error, InvalidTemplateReference)
    assert error.message == message


def test_mapped_types() -> None:
    environment = Environment(resource_registry={"T": "U", "F": "f.yaml", "resources": {"y": {"T": "V"}}})
    resources = bind(environment, resources=resource()).resources
    assert (resources["x"].type, resources["x"].mapped_type, resources["y"].mapped_type) == ("T", "U", "V")
    mapped = bind(environment, resources={"x": {"type": "F"}, "y": {"type": "other.template"}}).resources
    assert (mapped["x"].mapped_type, mapped["y"].mapped_type) == ("f.yaml", "other.template")


def test_templates_used_as_types_are_in_the_registry() -> None:
    group: Json = {"type": "OS::Heat::ResourceGroup", "properties": {"resource_def": {"type": "m.yaml"}}}
    definition = bind(None, resources={"x": {"type": "n.yaml"}, "g": group})
    registry = {"n.yaml": "n.yaml", "resources": {}}
    assert definition.shown_environment()["resource_registry"] == {**registry, "m.yaml": "m.yaml"}
    assert definition.describe()["Environment"]["resource_registry"] == registry  # type: ignore[call-overload,index]


# -- conditions ----------------------------------------------------------------------------------------------

PARAMETERS: Json = {
    "flag": {"type": "boolean", "default": False},
    "text": {"type": "string", "default": "prod"},
    "number": {"type": "number", "default": 1},
}


def holds(condition: Json, conditions: Mapping[str, Json] | None = None, version: str = LATEST) -> bool:
    sections: dict[str, Json] = {
        "parameters": PARAMETERS,
        "conditions": {"yes": True, "no": False, **(conditions or {})},
    }
    return "x" in bind(None, version, resources=resource(condition=condition), **sections).resources


@table(
    ("condition", "expected"),
    [
        (True, True),
        (False, False),
        ("yes", True),
        ("no", False),
        ("by_name", False),
        ({"equals": [1, 1]}, True),
        ({"equals": [1, "1"]}, False),
        ({"equals": [{"get_param": "number"}, 1]}, True),
        ({"equals": [{"get_param": "text"}, "prod"]}, True),
        ({"equals": [{"a": [1]}, {"a": [1]}]}, True),
        ({"get_param": "flag"}, False),
        ({"not": "no"}, True),
        ({"not": {"get_param": "flag"}}, True),
        ({"and": ["yes", True]}, True),
        ({"and": ["yes", {"not": "yes"}, True]}, False),
        ({"or": ["no", {"equals": ["a", "a"]}]}, True),
        ({"or": [False, "no"]}, False),
        ({"contains": ["r", {"get_param": "text"}]}, True),
    ],
)
def test_conditions(condition: Json, expected: bool) -> None:
    assert holds(condition, {"by_name": {"not": "yes"}}) is expected
    if not isinstance(condition, str):
        assert holds("named", {"named": condition}) is expected


@table(
    "condition",
    [
        "zz",
        5,
        None,
        [],
        {},
        {"zz": 1},
        {"equals": [1]},
        {"equals": "a"},
        {"and": [True]},
        {"or": "yes"},
        {"and": [True, "zz"]},
        {"not": "zz"},
        {"not": ["yes"]},
        {"get_param": "text"},
        {"get_resource": "y"},
        {"get_attr": ["y", "a"]},
        {"if": ["yes", True, False]},
        {"equals": [{"get_resource": "y"}, "y"]},
        {"equals": [{"list_join": ["", ["a"]]}, "a"]},
        {"yaql": {"expression": "1"}},
        {"yaql": {"expression": "("}},
        {"yaql": {}},
    ],
)
def test_bad_conditions(condition: Json) -> None:
    with pytest.raises(StackValidationFailed) as caught:
        holds(condition)
    assert caught.value.message.startswith("resources.x.condition")
    with pytest.raises(StackValidationFailed) as caught:
        holds(True, {"c": condition})
    assert caught.value.message.startswith("conditions.c")


def test_conditions_with_unknown_parameters() -> None:
    for condition in ({"get_param": "zz"}, {"equals": [{"get_param": "zz"}, 1]}):
        for section in (None, {"c": condition}):
            with pytest.raises(UserParameterMissing, match=r"^The Parameter \(zz\) was not provided\.$"):
                holds(True if section else condition, section)


def test_a_name_alone_defines_no_condition() -> None:
    with pytest.raises(StackValidationFailed, match=r"^conditions\.c: Invalid condition \"yes\"$"):
        holds(True, {"c": "yes"})


def test_ordinary_functions_are_invalid_in_conditions() -> None:
    with pytest.raises(StackValidationFailed, match="invalid in this context"):
        holds(True, {"c": {"equals": [{"get_attr": ["y", "a"]}, 1]}})


def test_conditions_by_version() -> None:
    assert holds({"contains": ["a", ["a"]]}, version="2017-09-01")
    with pytest.raises(StackValidationFailed):
        holds({"contains": ["a", ["a"]]}, version="2017-02-24")


def test_circular_conditions() -> None:
    with pytest.raises(StackValidationFailed, match="Circular definition") as caught:
        holds("a", {"a": {"not": "b"}, "b": {"and": ["yes", "a"]}})
    assert len(caught.value.problems) == 1
    with pytest.raises(StackValidationFailed, match="Circular definition"):
        holds("a", {"a": {"not": "a"}})


def test_a_very_long_chain_of_conditions_is_an_error_of_ours() -> None:
    chain: dict[str, Json] = {f"c{i}": {"not": f"c{i + 1}"} for i in range(3000)}
    with pytest.raises(StackValidationFailed, match="too deeply"):
        holds("c0", {**chain, "c3000": True})


@table(
    ("condition", "expected"),
    [
        ({"get_param": "p"}, True),
        ({"not": {"get_param": "p"}}, True),
        ({"not": {"not": "named"}}, True),
        ("negated", True),
        ({"and": [True, {"not": "named"}]}, True),
        ({"and": ["named", False]}, False),
        ({"not": {"and": ["named", False]}}, True),
        ({"not": {"and": ["named", True]}}, True),
        ({"or": [False, {"not": "named"}]}, True),
        ({"not": {"or": ["named", False]}}, True),
        ({"not": {"or": ["named", True]}}, False),
    ],
)
def test_a_condition_on_what_is_not_known_yet_counts_as_true(condition: Json, expected: bool) -> None:
    document: dict[str, Json] = {
        "heat_template_version": LATEST,
        "parameters": {"p": {"type": "boolean"}},
        "conditions": {"named": {"get_param": "p"}, "negated": {"not": "named"}},
        "resources": resource(condition=condition),
    }
    assert ("x" in Template(document).bind(Environment(), {}, strict=False).resources) is expected


def test_disabled_resources() -> None:
    resources: JsonMap = {
        "off": {"type": "T", "condition": False},
        "x": {"type": "T", "depends_on": ["off", "y"]},
        "y": {"type": "T"},
    }
    definition = bind(resources=resources)
    assert list(definition.resources) == ["x", "y"]
    assert definition.disabled == {"off"}
    assert (definition.resources["x"].depends_on, definition.resources["x"].requires) == (("y",), {"y"})
    for call in ({"get_resource": "off"}, {"get_attr": ["off", "a"]}):
        error = fails(resources={**resources, "z": {"type": "T", "properties": {"v": call}}})
        assert isinstance(error, InvalidTemplateReference)
        assert error.message == 'The specified reference "off" (in z.Properties.v) is incorrect.'


def test_the_branch_that_is_not_chosen_makes_no_dependency() -> None:
    resources = resource(properties={"v": {"if": ["c", {"get_resource": "y"}, {"get_resource": "nowhere"}]}})
    assert bind(resources=resources, conditions={"c": True}).resources["x"].requires == {"y"}


# -- outputs -------------------------------------------------------------------------------------------------


def test_outputs() -> None:
    outputs = bind(
        conditions={"c": False},
        outputs={
            "a": {"value": 1, "description": "d", "zz": "accepted"},
            "b": {"value": {"list_join": 5}, "condition": "c"},
            "n": {"value": None, "description": ""},
        },
    ).outputs
    assert [outputs[name].description for name in outputs] == ["d", "No description given", ""]
    assert (outputs["a"].value, outputs["a"].description, outputs["a"].condition) == (1, "d", True)
    assert (outputs["b"].value, outputs["b"].condition) == (None, False)
    assert list(outputs) == ["a", "b", "n"]


@table(
    ("output", "message"),
    [
        ({}, "Output validation error: outputs.o: Each output definition must contain a value key."),
        ("a", "Output validation error: outputs.o: An output must be a map with a value key."),
        ({"value": 1, "condition": "zz"}, 'outputs.o.condition: Invalid condition "zz"'),
        ({"value": {"get_attr": "a"}}, 'outputs.o.value.get_attr: Argument to "get_attr" must be a list'),
    ],
)
def test_bad_outputs(output: Json, message: str) -> None:
    assert fails(outputs={"o": output}).message == message


def test_outputs_make_no_dependencies_but_policies_neither() -> None:
    definition = bind(
        resources=resource(update_policy={"a": {"get_resource": "y"}}),
        outputs={"o": {"value": {"get_attr": ["x", "a"]}}},
    )
    assert not definition.resources["x"].requires


def test_describe() -> None:
    assert bind(description="d").describe() == {
        "Description": "d",
        "Parameters": {},
        "Environment": {
            "resource_registry": {"resources": {}},
            "parameters": {},
            "parameter_defaults": {},
            "event_sinks": [],
        },
    }


def test_what_is_stored_is_not_held_to_constraints_again() -> None:
    constraint: Json = [{"custom_constraint": "expiration"}]
    parameters: Json = {"p": {"type": "string", "constraints": constraint}}
    template = Template({"heat_template_version": LATEST, "parameters": parameters})
    environment = Environment(parameters={"p": "2001-01-01"})
    with pytest.raises(StackValidationFailed, match="does not validate expiration"):
        template.bind(environment, {})
    assert template.bind(environment, {}, stored=True).parameters["p"] == "2001-01-01"


@pytest.mark.parametrize("version", ["2013-05-23", "2021-04-16"])
def test_an_empty_key_is_a_key_like_others(version: str) -> None:
    document: JsonMap = {
        "heat_template_version": version,
        "": {},
        "resources": {"a": {"type": "T", "": "b"}},
        "outputs": {"o": {"value": 1, "": "b"}},
    }
    found = Template(document).definition(Environment(), {}).findings.ordered()
    assert [problem.path for problem in found] == [("",), ("resources", "a", "")]
