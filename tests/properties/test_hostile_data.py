"""Hostile structured data: the answer is data or an error of heatlite."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heatlite.core.json import Json
from heatlite.template.dialects import FUNCTIONS
from tests.fuzz.targets import environment, function, template

ODD = st.sampled_from(
    ["", "a", "r", "p", "1", "-1", "9" * 400, "é", "🙂", "\x7f", "*", "**", ".*", "(a+)+$", "[", "yes", "true",
     "2021-04-16", "OS::stack_name", "OS::Heat::Value", "b.yaml", "resources", "$", "%", "{}", "[1]", "null", "::1",
     "a,b", "/"]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-2, 3) | st.just(10**299) | st.floats(allow_nan=False) | ODD
NAMES = sorted({name for table in FUNCTIONS.values() for name in table})
KEYWORDS = [
    "type", "properties", "metadata", "depends_on", "deletion_policy", "update_policy", "condition", "external_id",
    "value", "default", "constraints", "range", "min", "max", "length", "modulo", "step", "offset",
    "allowed_values", "hidden",
    "allowed_pattern", "custom_constraint", "description", "label", "parameters", "tags", "immutable", "template",
    "params",
    "for_each", "permutations", "keys", "values", "host", "port", "query", "expression", "data", "hooks", "resources",
    "restricted_actions", "default", "merge", "Type", "Properties", "Default", "Value", "AllowedPattern", "Ref",
]  # fmt: skip
DATA: st.SearchStrategy[Json] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from([*KEYWORDS, *NAMES]) | ODD, inner, max_size=4),
        st.tuples(st.sampled_from(NAMES), inner).map(lambda call: {call[0]: call[1]}),
        st.tuples(st.sampled_from(NAMES), st.lists(inner, max_size=4)).map(lambda call: {call[0]: call[1]}),
    ),
    max_leaves=12,
)
NAMED = st.dictionaries(ODD, DATA, max_size=3)


def sections(*names: str) -> st.SearchStrategy[dict[str, Json]]:
    """Some of these sections, each of things by name, or of anything."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, NAMED | DATA))


HOT = st.tuples(
    st.sampled_from(list(FUNCTIONS)),
    sections("description", "parameters", "parameter_groups", "conditions", "resources", "outputs", "resource"),
).map(lambda both: {"heat_template_version": both[0], **both[1]})
CFN = sections("Description", "Parameters", "ParameterGroups", "Mappings", "Conditions", "Resources", "Outputs").map(
    lambda found: {"HeatTemplateFormatVersion": "2012-12-12", **found}
)
ENVIRONMENTS = sections(
    "parameters", "parameter_defaults", "parameter_merge_strategies", "resource_registry", "event_sinks",
    "encrypted_param_names",
)  # fmt: skip



@given(HOT | CFN)
def test_templates(document: dict[str, Json]) -> None:
    template(json.dumps(document).encode())


@pytest.mark.slow
@given(st.lists(ENVIRONMENTS, min_size=1, max_size=3))
def test_environments(documents: list[dict[str, Json]]) -> None:
    environment("# next\n".join(json.dumps(document) + "\n" for document in documents).encode())


@given(DATA)
@example({"get_resource": {"Ref": "a"}})
@example({"get_attr": [{"Ref": "a"}, "b"]})
@example({"if": [{"Ref": "a"}, 1, 2]})
def test_functions(value: Json) -> None:
    function(json.dumps(value).encode())
