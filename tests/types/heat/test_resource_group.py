"""ResourceGroup and ResourceChain: inputs of their nested stack, and answers."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import HeatliteError, InvalidTemplateAttribute, NotFound, RequestLimitExceeded
from heatlite.core.json import Json
from heatlite.resources.heat.groups.chain import ResourceChain
from heatlite.resources.heat.groups.resource_group import ResourceGroup
from heatlite.template.expression import UNKNOWN
from tests.types.nested_stack import Group

Build = Callable[..., Any]
DEF = {"type": "T", "properties": {"p": "%index%"}}
NEW = {"type": "T", "properties": {"p": "new %index%"}}


@pytest.fixture
def group(build: Build) -> Group:
    return Group(build, ResourceGroup)


def resolved(definition: dict[str, Any], name: str) -> dict[str, Any]:
    return {"type": definition["type"], "properties": {"p": definition["properties"]["p"].replace("%index%", name)}}


# -- members ---------------------------------------------------------------------------------------


def test_members_are_numbered_and_know_their_number(group: Group) -> None:
    assert group.become(count=3, resource_def=DEF) == [{name: resolved(DEF, name) for name in "012"}]


def test_the_index_stands_in_values_only(group: Group) -> None:
    definition = {
        "type": "T-%index%",
        "properties": {"%index%": ["%index%", {"a": "x%index%y", "n": 5}]},
        "metadata": {"m": "%index%"},
    }
    group.become(count=1, resource_def=definition)
    assert group.nested is not None
    assert group.nested.definitions["0"] == {
        "type": "T-%index%",
        "properties": {"%index%": ["0", {"a": "x0y", "n": 5}]},
        "metadata": {"m": "%index%"},
    }


def test_the_index_variable_can_be_chosen(group: Group) -> None:
    group.become(count=1, index_var="<i>", resource_def={"type": "T", "properties": {"p": "<i> %index%"}})
    assert group.nested is not None
    assert group.nested.definitions["0"]["properties"] == {"p": "0 %index%"}


def test_null_properties_are_dropped(group: Group) -> None:
    group.become(count=1, resource_def={"type": "T", "properties": {"p": None, "q": [None], "r": 1}})
    assert group.nested is not None
    assert group.nested.definitions["0"] == {"type": "T", "properties": {"q": [None], "r": 1}}


def test_a_group_may_be_empty(group: Group) -> None:
    assert group.become(count=0, resource_def=DEF) == [{}]
    assert group.become(count=2, resource_def=DEF) == [{name: resolved(DEF, name) for name in "01"}]


def test_it_shrinks_from_the_end_whoever_has_failed(group: Group) -> None:
    group.become(count=3, resource_def=DEF)
    assert group.nested is not None
    group.nested.rows["0"].status = "FAILED"
    group.become(count=2, resource_def=DEF)
    assert group.names == ["0", "1"]


def test_growing_leaves_the_definitions_of_the_others_as_they_are(group: Group) -> None:
    group.become(count=1000, resource_def={"type": "T", "properties": {"a": 1}})
    assert group.nested is not None
    before = {name: json.dumps(definition) for name, definition in group.nested.definitions.items()}
    group.become(count=1001, resource_def={"type": "T", "properties": {"a": 1}})
    after = {name: json.dumps(definition) for name, definition in group.nested.definitions.items()}
    assert after == {**before, "1000": before["0"]}


def test_more_members_than_a_stack_may_have_are_refused_before_any_is_made(build: Build) -> None:
    group = build(ResourceGroup, {"count": 10**9, "resource_def": DEF})
    chain = build(ResourceChain, {"resources": ["T"] * 11})
    for resource in (group, chain):
        resource.facts.services = replace(resource.facts.services, max_resources=10)
        with pytest.raises(RequestLimitExceeded, match="Maximum resources per stack exceeded: 10"):
            resource.child(0)


# -- removal policies ------------------------------------------------------------------------------


def policies(*named: object) -> list[dict[str, Any]]:
    return [{"resource_list": list(named)}]


def test_a_removed_name_is_not_used_again(group: Group) -> None:
    group.become(count=3, resource_def=DEF)
    group.become(count=2, resource_def=DEF, removal_policies=policies("0"))
    assert group.names == ["1", "2"]
    group.become(count=3, resource_def=DEF)
    assert group.names == ["1", "2", "3"]
    assert group.now().attribute("removed_rsrc_list") == ["0"]


def test_a_new_group_does_not_use_the_names_that_it_is_to_remove(group: Group) -> None:
    group.become(count=2, resource_def=DEF, removal_policies=policies("0", 2, "nobody"))
    assert group.names == ["1", "3"]
    assert group.now().attribute("removed_rsrc_list") == ["0", "2", "nobody"]
    group.become(count=2, resource_def=DEF, removal_policies=policies("0", 2, "nobody"))
    assert group.names == ["1", "3"]


def test_members_are_removed_though_the_count_stays(group: Group) -> None:
    group.become(count=2, resource_def=DEF)
    group.become(count=2, resource_def=DEF, removal_policies=policies("ref-0"))
    assert group.names == ["1", "2"]
    # The reference means nothing any more, and the next update does not bring the member back.
    group.become(count=2, resource_def=DEF, removal_policies=policies("ref-0"))
    assert group.names == ["1", "2"]


def test_a_removal_policy_may_name_numbers_and_what_is_not_there(group: Group) -> None:
    group.become(count=2, resource_def=DEF)
    group.become(count=1, resource_def=DEF, removal_policies=[{}, *policies(0, "nobody", 77)])
    assert group.names == ["1"]
    assert group.now().attribute("removed_rsrc_list") == ["0"]


def test_the_mode_update_frees_names(group: Group) -> None:
    group.become(count=3, resource_def=DEF)
    group.become(count=2, resource_def=DEF, removal_policies=policies("0"))
    group.become(count=2, resource_def=DEF, removal_policies=policies("2"), removal_policies_mode="update")
    assert group.names == ["0", "1"]
    assert group.now().attribute("removed_rsrc_list") == ["2"]
    group.become(count=2, resource_def=DEF, removal_policies=policies("ref-0"), removal_policies_mode="update")
    assert group.names == ["1", "2"]
    group.become(count=2, resource_def=DEF, removal_policies=policies("ref-0"), removal_policies_mode="update")
    assert group.names == ["1", "2"]


# -- batches ---------------------------------------------------------------------------------------


def test_members_are_made_in_batches(group: Group) -> None:
    group.policy = {"batch_create": {"max_batch_size": 2, "pause_time": 7}}
    rounds = group.become(count=5, resource_def=DEF)
    assert [list(members) for members in rounds] == [["0", "1"], ["0", "1", "2", "3"], ["0", "1", "2", "3", "4"]]
    assert group.nested is not None
    assert group.nested.pauses == [0, 7, 7]


def test_batch_create_says_nothing_of_updates(group: Group) -> None:
    group.policy = {"batch_create": {}}
    assert len(group.become(count=2, resource_def=DEF)) == 2
    assert len(group.become(count=4, resource_def=NEW)) == 1


def test_an_empty_group_with_a_policy_is_made_all_the_same(group: Group) -> None:
    group.policy = {"batch_create": {}, "rolling_update": {}}
    assert group.become(count=0, resource_def=DEF) == [{}]
    assert group.become(count=0, resource_def=NEW) == [{}]


def test_a_rolling_update_changes_the_highest_first(group: Group) -> None:
    group.policy = {"rolling_update": {"max_batch_size": 1, "pause_time": 3}}
    group.become(count=3, resource_def=DEF)
    rounds = group.become(count=3, resource_def=NEW)
    changed = [[name for name, definition in members.items() if "new" in str(definition)] for members in rounds]
    assert changed == [["2"], ["1", "2"], ["0", "1", "2"]]
    assert group.nested is not None
    assert group.nested.pauses == [0, 3, 3]


def test_a_rolling_update_grows_to_keep_members_in_service(group: Group) -> None:
    group.policy = {"rolling_update": {"max_batch_size": 2, "min_in_service": 2}}
    group.become(count=3, resource_def=DEF)
    rounds = group.become(count=3, resource_def=NEW)
    assert [len(members) for members in rounds] == [4, 4, 3]
    assert rounds[-1] == {name: resolved(NEW, name) for name in "012"}


def test_a_rolling_update_may_grow_shrink_and_remove(group: Group) -> None:
    group.policy = {"rolling_update": {"max_batch_size": 2}}
    group.become(count=3, resource_def=DEF)
    assert group.become(count=5, resource_def=NEW)[-1] == {name: resolved(NEW, name) for name in "01234"}
    assert group.become(count=2, resource_def=DEF)[-1] == {name: resolved(DEF, name) for name in "01"}
    rounds = group.become(count=2, resource_def=NEW, removal_policies=policies("0"))
    assert rounds[-1] == {name: resolved(NEW, name) for name in "12"}
    assert all("0" not in members for members in rounds)


def test_only_a_change_of_the_definition_rolls(group: Group) -> None:
    group.policy = {"rolling_update": {}}
    group.become(count=2, resource_def=DEF)
    assert len(group.become(count=6, resource_def=DEF)) == 1
    group.policy = {}
    assert len(group.become(count=6, resource_def=NEW)) == 1


def test_pauses_that_outlast_the_operation_fail_it(build: Build) -> None:
    properties = {"count": 3, "resource_def": DEF}
    policy = {"batch_create": {"pause_time": 30}}
    with pytest.raises(ValueError, match=r"^The current update policy will result in stack update timeout\.$"):
        build(ResourceGroup, properties, update_policy=policy, time_limit=60).child(0)
    assert build(ResourceGroup, properties, update_policy=policy, time_limit=61).child(0) is not None


# -- previews --------------------------------------------------------------------------------------


def test_the_goal_is_the_last_round(group: Group) -> None:
    group.policy = {"rolling_update": {}, "batch_create": {}}
    group.become(count=2, resource_def=DEF)
    group.become(count=3, resource_def=NEW, removal_policies=policies("0"))
    assert group.nested is not None
    assert group.now().goal().template == group.nested.template


@pytest.mark.parametrize("unknown", ["count", "resource_def", "removal_policies", "removal_policies_mode"])
def test_a_goal_with_unknown_properties(group: Group, unknown: str) -> None:
    group.become(count=2, resource_def=DEF)
    resource = group.now()
    resource.facts.properties[unknown] = UNKNOWN
    assert list(resource.goal().template["resources"]) == ["0", "1"]


# -- attributes ------------------------------------------------------------------------------------


def test_attributes(group: Group) -> None:
    group.become(count=2, resource_def={"type": "T", "properties": {"p": "v%index%", "q": {"k": ["%index%"]}}})
    resource = group.now()
    answers: dict[tuple[str, ...], Json] = {
        ("refs",): ["ref-0", "ref-1"],
        ("refs_map",): {"0": "ref-0", "1": "ref-1"},
        ("p",): ["v0", "v1"],
        ("q", "k"): [["0"], ["1"]],
        ("attributes", "p"): {"0": "v0", "1": "v1"},
        ("attributes.p",): {"0": "v0", "1": "v1"},
        ("attributes", "q", "k"): {"0": ["0"], "1": ["1"]},
        ("resource.0",): "ref-0",
        ("resource.1.p",): "v1",
        ("resource.1", "q", "k"): ["1"],
        ("removed_rsrc_list",): [],
    }
    assert {asked: resource.attribute_at(asked[0], asked[1:]) for asked in answers} == answers
    assert resource.attribute_at("refs", [1]) == "ref-1"
    assert resource.attributes() == {"refs": ["ref-0", "ref-1"], "refs_map": {"0": "ref-0", "1": "ref-1"}} | {
        "removed_rsrc_list": []
    }


@pytest.mark.parametrize(("name", "error"), [("attributes", InvalidTemplateAttribute), ("resource.7", NotFound)])
def test_attributes_that_are_not_there(group: Group, name: str, error: type[HeatliteError]) -> None:
    group.become(count=1, resource_def=DEF)
    with pytest.raises(error):
        group.now().attribute(name)


def test_a_group_without_a_nested_stack_has_no_members(build: Build) -> None:
    resource = build(ResourceGroup, {"resource_def": DEF})
    assert (resource.attribute("refs"), resource.attribute("p"), resource.reference()) == ([], [], "a")
    assert build(ResourceGroup, {"resource_def": DEF}, physical_id="id").reference() == "id"


# -- OS::Heat::ResourceChain -------------------------------------------------------------------------


@pytest.mark.parametrize(("concurrent", "line"), [(False, {"depends_on": ["0"]}), (True, {})])
def test_a_chain(build: Build, concurrent: bool, line: dict[str, Any]) -> None:
    chain = Group(build, ResourceChain)
    properties = {"resources": ["A", "b.yaml"], "concurrent": concurrent, "resource_properties": {"p": "v"}}
    assert chain.become(**properties) == [
        {"0": {"type": "A", "properties": {"p": "v"}}, "1": {"type": "b.yaml", "properties": {"p": "v"}, **line}}
    ]
    resource = chain.now()
    assert resource.attribute("refs") == ["ref-0", "ref-1"]
    assert resource.attribute("p") == ["v", "v"]
    assert resource.attribute_at("attributes", ["p"]) == {"0": "v", "1": "v"}
    assert resource.attribute_at("resource.1", ["p"]) == "v"
    resource.facts.properties["resources"] = UNKNOWN
    assert list(resource.goal().template["resources"]) == ["0", "1"]
    chain.become(resources=["A"])
    assert chain.names == ["0"]
