"""Groups in templates: their members are checked before anything is made."""

import time
from collections.abc import Mapping

from heatlite.core.errors import Problem
from heatlite.core.json import JsonMap
from heatlite.plugin.registry import Registry
from heatlite.template.checks.check import check, examine
from heatlite.template.document import Template
from heatlite.template.environment import Environment
from heatlite.template.source.loader import SourceText, load, load_template
from tests.resource_types import ALL_TYPES
from tests.tables import table

TYPES = Registry(ALL_TYPES)
CHILD = """
parameters:
  length: {type: number}
resources:
  inner: {type: OS::Heat::RandomString, properties: {length: {get_param: length}}}
outputs:
  value: {value: {get_attr: [inner, value]}}
"""


def problems(text: str, files: Mapping[str, str] | None = None, registry: JsonMap | None = None) -> list[Problem]:
    environment = Environment.parse(SourceText("environment", {"resource_registry": registry or {}}))
    found = {name: f"heat_template_version: rocky\n{content}" for name, content in (files or {}).items()}
    return check(load("heat_template_version: rocky\nresources:\n" + text), environment, TYPES, found)


def texts(text: str, files: Mapping[str, str] | None = None, registry: JsonMap | None = None) -> list[str]:
    return [problem.text for problem in problems(text, files, registry)]


def group(properties: str) -> str:
    return f"  g: {{type: OS::Heat::ResourceGroup, properties: {{{properties}}}}}\n"


def scaling(properties: str) -> str:
    return f"  g: {{type: OS::Heat::AutoScalingGroup, properties: {{{properties}}}}}\n"


RANDOM = "type: OS::Heat::RandomString"
OTHER = "  o: {type: OS::Heat::Value, properties: {value: 3}}\n"


@table(
    "text",
    [
        group(f"count: 3, resource_def: {{{RANDOM}, properties: {{salt: 'a %index%', length: null}}}}"),
        group("count: 0, resource_def: {type: Not::There}"),
        group(f"count: {{get_attr: [o, value]}}, resource_def: {{{RANDOM}}}") + OTHER,
        group(f"resource_def: {{{RANDOM}, properties: {{length: {{get_attr: [o, value]}}}}}}") + OTHER,
        group(f"resource_def: {{{RANDOM}, properties: {{get_attr: [o, value]}}}}") + OTHER,
        group("resource_def: {get_attr: [o, value]}") + OTHER,
        group("resource_def: {type: child.yaml, properties: {length: '1%index%'}}"),
        group(f"resource_def: {{{RANDOM}}}, removal_policies: [{{resource_list: [nobody, 5]}}]"),
        scaling(f"min_size: 0, max_size: 2, resource: {{{RANDOM}, properties: {{length: 3}}}}"),
        scaling("min_size: 1, max_size: 2, resource: {type: child.yaml, properties: {length: 3}, metadata: {a: 1}}"),
        "  g: {type: OS::Heat::ResourceChain, properties: {resources: [OS::Heat::RandomString, OS::Heat::None]}}\n",
        "  g: {type: OS::Heat::ResourceChain, properties: {resources: {get_attr: [o, value]}}}\n" + OTHER,
    ],
)
def test_nothing_is_wrong(text: str) -> None:
    assert texts(text, {"child.yaml": CHILD}) == []


HERE = "resources.g<nested_stack>"


@table(
    ("text", "told"),
    [
        (
            group(f"count: 500, resource_def: {{{RANDOM}, properties: {{length: 0}}}}"),
            f"{HERE}: Property error: resources.0.properties.length: 0 is out of range (min: 1, max: 512)",
        ),
        (group("resource_def: {type: Not::There}"), f"{HERE}: The Resource Type (Not::There) could not be found."),
        (
            group("resource_def: {type: child.yaml}"),
            f"{HERE}: Property error: resources.0.properties: Property length not assigned",
        ),
        (
            group("resource_def: {type: child.yaml, properties: {length: 0}}"),
            f"{HERE}: resources.0<child.yaml>: Property error: resources.inner.properties.length: "
            "0 is out of range (min: 1, max: 512)",
        ),
        (group("count: -1, resource_def: {type: OS::Heat::None}"), "-1 is out of range (min: 0, max: None)"),
        (group("resource_def: {}"), "Property type not assigned"),
        (group("resource_def: {type: OS::Heat::None, depends_on: a}"), "Unknown Property depends_on"),
        (
            "  g: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: OS::Heat::None}}, "
            "update_policy: {rolling_update: {max_batch_size: 0}}}\n",
            "0 is out of range (min: 1, max: None)",
        ),
        (scaling(f"min_size: 3, max_size: 2, resource: {{{RANDOM}}}"), "MinSize can not be greater than MaxSize"),
        (
            scaling(f"min_size: 1, max_size: 2, desired_capacity: 3, resource: {{{RANDOM}, p: {{get_attr: [o, v]}}}}")
            + "  o: {type: OS::Heat::None}\n",
            "DesiredCapacity must be between MinSize and MaxSize",
        ),
        (scaling("min_size: 1, max_size: 2, resource: {}"), f"{HERE}: Each resource must contain a type key."),
        (
            scaling(f"min_size: 1, max_size: 2, resource: {{{RANDOM}, zz: 1}}"),
            f'{HERE}: "zz" is not a valid keyword inside a resource definition',
        ),
        (
            "  g: {type: OS::Heat::ResourceChain, properties: {resources: [OS::Heat::None, Not::There]}}\n",
            f"{HERE}: The Resource Type (Not::There) could not be found.",
        ),
        (
            "  g: {type: OS::Heat::ResourceChain, properties: {resources: [5]}}\n",
            f"{HERE}: resources.0.type: The type of a resource must be a string",
        ),
    ],
)
def test_what_is_wrong_with_a_member(text: str, told: str) -> None:
    found = texts(text, {"child.yaml": CHILD})
    assert len(found) == 1
    assert told in found[0]


def test_the_place_of_a_member_is_where_it_is_defined() -> None:
    (problem,) = problems(group(f"\n resource_def: {{{RANDOM},\n properties: {{a: 1, length: 0}}}}"))[1:]
    assert problem.path == ("resources", "g", "properties", "resource_def", "properties", "length")
    assert problem.line == 5


def test_a_group_of_groups_that_never_ends() -> None:
    files = {"child.yaml": "resources:\n" + group("resource_def: {type: child.yaml}")}
    (text,) = texts(group("resource_def: {type: child.yaml}"), files)
    assert text.endswith(": the template includes itself")


def test_members_follow_the_environment() -> None:
    registry: JsonMap = {"My::Member": "child.yaml", "resources": {"g": {"0": {"My::Member": "OS::Heat::None"}}}}
    text = group("resource_def: {type: My::Member, properties: {zz: 1}}")
    assert texts(text, {"child.yaml": CHILD}, registry) == []
    assert "Unknown Property zz" in texts(text, {"child.yaml": CHILD}, {"My::Member": "child.yaml"})[0]


def test_how_many_resources_there_will_be_is_known_without_making_them() -> None:
    began = time.thread_time()
    text = group("count: 1000000, resource_def: {type: child.yaml, properties: {length: 1}}")
    text += scaling(f"min_size: 7, max_size: 9, resource: {{{RANDOM}}}").replace("g:", "s:")
    template = Template(
        load_template("heat_template_version: rocky\nresources:\n" + text).data,
        {"child.yaml": "heat_template_version: rocky" + CHILD},
    )
    found, tree = examine(template.definition(Environment(), {}, types=TYPES), TYPES)
    assert found == []
    assert tree.resources == 2 + 2 * 1_000_000 + 7
    assert time.thread_time() - began < 1
