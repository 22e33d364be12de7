"""Configs, deployments and deployed servers, without an engine."""

import email
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from heatlite.core.errors import (
    DatabaseUnavailable,
    InvalidTemplateAttribute,
    NotFound,
    StackValidationFailed,
    UserParameterMissing,
)
from heatlite.core.ids import new_id
from heatlite.core.json import Json
from heatlite.engine.operations.software_configs import Software
from heatlite.plugin import Change, NoActionNeeded, Resource, Schema, prop
from heatlite.plugin.ports import SoftwareConfig
from heatlite.plugin.resource import ResourceType
from heatlite.resources.heat.software.configs import (
    CloudConfig,
    MultipartMime,
    SoftwareComponent,
    SoftwareConfigResource,
    StructuredConfig,
)
from heatlite.resources.heat.software.deployment_groups import (
    SoftwareDeploymentGroup,
    SoftwareDeployments,
    StructuredDeploymentGroup,
    StructuredDeployments,
)
from heatlite.resources.heat.software.deployments import (
    LOOK_AGAIN,
    DeploymentFailed,
    SoftwareDeploymentResource,
    StructuredDeployment,
)
from heatlite.resources.heat.software.targets import DeployedServer
from heatlite.resources.heat.values import NoneResource
from heatlite.template.expression import UNKNOWN
from tests.tables import few

Build = Callable[..., Any]

EXITED = "deploy_status_code : Deployment exited with non-zero status code: "


class Shelf:
    """The software of the test's project."""

    def __init__(self, software: Software, project: str) -> None:
        self.software = software
        self.project = project

    def config(self, config: Json = "#!/bin/sh", group: str = "script", **more: Any) -> str:
        config_id = new_id()
        self.software.put_config(self.project, config_id, SoftwareConfig("c", group, config, **more))
        return config_id

    def deployed(self, resource: Any) -> SoftwareConfig:
        """The config that the server has got from a deployment."""
        found = self.software.deployment(self.project, resource.physical_id)
        return self.software.config(self.project, found.config_id)

    def values(self, resource: Any) -> dict[str, Json]:
        return {str(one["name"]): one["value"] for one in self.deployed(resource).inputs}

    def status(self, resource: Any) -> tuple[str, str]:
        found = self.software.deployment(self.project, resource.physical_id)
        return found.status, found.action


@pytest.fixture
def shelf(software: Software, project: str) -> Shelf:
    return Shelf(software, project)


def change(resource: Any, before: Mapping[str, object]) -> Change:
    old = {**resource.facts.properties, **before}
    return Change(resource.schema.diff(old, resource.facts.properties), old, resource.facts.properties)


# -- configs -----------------------------------------------------------------------------------------


def test_a_software_config_is_kept_and_gives_its_id(build: Build, shelf: Shelf) -> None:
    inputs = [{"name": "x", "default": 1, "type": "Number", "description": "An x."}]
    resource = build(
        SoftwareConfigResource,
        {"group": "script", "config": "echo $x", "inputs": inputs, "outputs": [{"name": "y", "error_output": True}]},
    )
    resource.handle_create()
    assert resource.reference() == resource.physical_id
    assert resource.attribute("config") == "echo $x"
    assert shelf.software.config(shelf.project, resource.physical_id) == SoftwareConfig(
        name=resource.physical_name,
        group="script",
        config="echo $x",
        inputs=[{"name": "x", "type": "Number", "description": "An x.", "default": 1}],
        outputs=[{"name": "y", "type": "String", "error_output": True}],
        options={},
    )
    made = resource.physical_id
    resource.handle_create()  # once more, after a crash
    assert resource.physical_id == made
    for _ in range(2):
        resource.handle_delete()
    with pytest.raises(NotFound):
        shelf.software.config(shelf.project, made)


def test_a_structured_config_is_a_map(build: Build) -> None:
    resource = build(StructuredConfig, {"config": {"a": {"get_input": "x"}}})
    resource.handle_create()
    assert resource.attribute("config") == {"a": {"get_input": "x"}}


def test_a_component_has_a_config_for_each_action(build: Build, shelf: Shelf) -> None:
    configs = [{"actions": ["CREATE"], "config": "one", "tool": "script"}, {"actions": ["DELETE"], "tool": "script"}]
    resource = build(SoftwareComponent, {"configs": configs})
    resource.handle_create()
    kept = shelf.software.config(shelf.project, resource.physical_id)
    assert (kept.group, kept.config) == ("component", {"configs": [configs[0], {**configs[1], "config": None}]})


def test_a_component_has_no_two_configs_for_one_action() -> None:
    faults = SoftwareComponent.check_properties({"configs": [{"tool": "a"}, {"tool": "b"}]})
    assert [fault.text for fault in faults] == ["More than one of the configs is for CREATE, UPDATE"]


def test_a_cloud_config_is_what_cloud_init_reads(build: Build) -> None:
    given = {"write_files": [{"path": "/etc/x", "content": "ä\n- no: list\n"}], "package_upgrade": True, "bootcmd": []}
    resource = build(CloudConfig, {"cloud_config": given})
    resource.handle_create()
    first, text = resource.attribute("config").split("\n", 1)
    assert first == "#cloud-config"
    assert yaml.safe_load(text) == given
    assert text.startswith("bootcmd: []\npackage_upgrade: true\n")


def test_a_multipart_message_has_texts_and_configs(build: Build, shelf: Shelf) -> None:
    inner = build(
        MultipartMime,
        {"parts": [{"config": "one", "filename": "a.sh"}, {"config": "zwei ü", "subtype": "x-shellscript"}]},
    )
    inner.handle_create()
    parts = [
        {"config": shelf.config("from a config")},
        {"config": inner.physical_id, "type": "multipart"},
        {"config": "no message", "type": "multipart"},
        {"config": shelf.config({"a": 1}), "subtype": "cloud-config", "filename": "cc.yaml"},
    ]
    outer = build(MultipartMime, {"parts": parts})
    text = outer.content().config
    assert isinstance(text, str)
    found = [
        (part.get_content_type(), part.get_filename(), part.get_payload(decode=True).decode())  # type: ignore[union-attr]
        for part in email.message_from_string(text).get_payload()  # type: ignore[union-attr]
    ]
    assert found == [
        ("text/plain", None, "from a config"),
        ("text/a", "a.sh", "one"),
        ("text/x-shellscript", None, "zwei ü"),
        ("text/cloud-config", "cc.yaml", '{"a":1}'),
    ]


# -- deployments -------------------------------------------------------------------------------------


def run(resource: Any, action: str, *arguments: Any) -> Json:
    """The handler, and its check once; the token."""
    token: Json = getattr(resource, f"handle_{action}")(*arguments)
    assert getattr(resource, f"check_{action}_complete")(token) is (
        token is None or resource.props.signal_transport == "NO_SIGNAL"
    )
    return token


def test_a_server_is_given_the_config_with_values(build: Build, shelf: Shelf) -> None:
    inputs = [{"name": "a", "type": "String", "default": "x"}, {"name": "b", "type": "Json", "default": {"k": 1}}]
    config_id = shelf.config("echo", inputs=inputs, outputs=[{"name": "o"}], options={"p": 1})
    given = {"a": "y", "c": [1]}
    resource = build(
        SoftwareDeploymentResource,
        {"server": "web", "config": config_id, "input_values": given, "name": "00-first"},
    )
    token = run(resource, "create")
    derived = shelf.deployed(resource)
    assert (derived.name, derived.group, derived.config) == ("00-first", "script", "echo")
    assert (derived.outputs, derived.options) == ([{"name": "o"}], {"p": 1})
    assert [one["name"] for one in derived.inputs] == [
        "a", "b", "c", "deploy_server_id", "deploy_action", "deploy_stack_id", "deploy_resource_name",
        "deploy_signal_transport", "deploy_signal_id", "deploy_signal_verb",
    ]  # fmt: skip
    values = shelf.values(resource)
    url = values.pop("deploy_signal_id")
    assert values == {
        "a": "y", "b": {"k": 1}, "c": [1], "deploy_server_id": "web", "deploy_action": "CREATE",
        "deploy_stack_id": f"s/{resource.facts.stack_id}", "deploy_resource_name": "a",
        "deploy_signal_transport": "CFN_SIGNAL", "deploy_signal_verb": "POST",
    }  # fmt: skip
    assert isinstance(url, str)
    assert urlsplit(url).path.startswith("/v1/signal/arn")
    assert resource.check_create_complete(token) == LOOK_AGAIN
    assert resource.awaited_address() == resource.physical_id
    assert shelf.status(resource) == ("IN_PROGRESS", "CREATE")


def test_a_check_asked_again_deploys_nothing_again(build: Build, shelf: Shelf) -> None:
    resource = build(SoftwareDeploymentResource, {"server": "web", "config": shelf.config()})
    token = run(resource, "create")
    resource.handle_signal({})
    assert resource.check_create_complete(token) is True  # as after a crash, too: the answer is there
    assert shelf.status(resource) == ("COMPLETE", "CREATE")


def test_a_heat_signal_goes_to_a_url_of_its_own(build: Build, shelf: Shelf) -> None:
    resource = build(SoftwareDeploymentResource, {"server": "web", "signal_transport": "HEAT_SIGNAL"})
    run(resource, "create")
    url = shelf.values(resource)["deploy_signal_id"]
    assert isinstance(url, str)
    assert urlsplit(url).path.endswith(f"/{resource.facts.stack_id}/resources/a/signal")


def test_without_a_signal_nothing_is_waited_for(build: Build, shelf: Shelf) -> None:
    resource = build(SoftwareDeploymentResource, {"server": "web", "signal_transport": "NO_SIGNAL"})
    run(resource, "create")
    assert shelf.status(resource) == ("COMPLETE", "CREATE")
    assert "deploy_signal_id" not in shelf.values(resource)
    assert (shelf.deployed(resource).group, shelf.deployed(resource).config) == ("Heat::Ungrouped", "")


class TestSignals:
    @pytest.fixture
    def resource(self, build: Build, shelf: Shelf) -> Any:
        outputs = [{"name": "result"}, {"name": "oops", "error_output": True}]
        config_id = shelf.config(outputs=outputs)
        resource = build(SoftwareDeploymentResource, {"server": "web", "config": config_id})
        self.token = run(resource, "create")
        return resource

    @pytest.mark.parametrize("code", few([{}, {"deploy_status_code": 0}, {"deploy_status_code": "0"}]))
    def test_success(self, resource: Any, code: dict[str, Json]) -> None:
        assert resource.attribute("result") is None
        text = resource.handle_signal({"result": [1], "deploy_stdout": "out", "undeclared": 1, **code})
        assert text == f"deployment {resource.physical_id} succeeded"
        assert resource.check_create_complete(self.token) is True
        assert (resource.attribute("result"), resource.attribute("deploy_stdout")) == ([1], "out")
        assert resource.attribute("deploy_stderr") is None
        assert resource.attribute("deploy_status_code") == code.get("deploy_status_code")
        with pytest.raises(InvalidTemplateAttribute):
            resource.attribute("undeclared")

    @pytest.mark.parametrize(
        ("details", "reason"),
        few(
            [
                ({"deploy_status_code": 3}, f"{EXITED}3"),
                ({"deploy_status_code": "1", "oops": "no"}, f"{EXITED}1, oops : no"),
                ({"oops": ""}, "oops : "),
                ({"oops": "x" * 5000}, "oops : " + "x" * 993),
            ]
        ),
    )
    def test_failure(self, resource: Any, details: dict[str, Json], reason: str) -> None:
        assert resource.handle_signal(details).endswith("failed")
        with pytest.raises(DeploymentFailed) as raised:
            resource.check_create_complete(self.token)
        assert str(raised.value) == f"Deployment to server failed: {reason}"
        assert resource.attribute("deploy_status_code") == details.get("deploy_status_code")

    def test_only_while_it_is_awaited(self, resource: Any) -> None:
        resource.handle_signal({"result": 1})
        with pytest.raises(NoActionNeeded):
            resource.handle_signal({"result": 2, "deploy_status_code": 1})
        assert resource.attribute("result") == 1

    def test_what_is_cancelled_has_failed(self, resource: Any, shelf: Shelf) -> None:
        resource.handle_cancel()
        found = shelf.software.deployment(shelf.project, resource.physical_id)
        assert (found.status, found.status_reason) == ("FAILED", "Deployment cancelled.")
        with pytest.raises(NoActionNeeded):
            resource.handle_signal({})

    def test_before_there_is_a_deployment(self, build: Build) -> None:
        resource = build(SoftwareDeploymentResource, {"server": "web"})
        resource.handle_cancel()
        with pytest.raises(NoActionNeeded):
            resource.handle_signal({})


ACTIONS = ("create", "update", "delete", "suspend", "resume")


def begin(resource: Any, action: str) -> Json:
    arguments = [Change(frozenset({"input_values"}), {}, {})] if action == "update" else []
    return getattr(resource, f"handle_{action}")(*arguments)  # type: ignore[no-any-return]


@pytest.mark.parametrize("action", few(ACTIONS))
def test_each_action_is_deployed_if_it_is_listed(build: Build, shelf: Shelf, action: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(Software, "has_server", lambda *_: True)
    properties = {"server": "web", "actions": ["CREATE", action.upper()], "config": shelf.config()}
    resource = build(SoftwareDeploymentResource, properties)
    run(resource, "create")
    resource.handle_signal({})
    for other in ACTIONS[1:]:
        token = begin(resource, other)
        if other == action:
            check = getattr(resource, f"check_{other}_complete")
            assert check(token) is False
            assert shelf.status(resource) == ("IN_PROGRESS", action.upper())
            assert shelf.values(resource)["deploy_action"] == action.upper()
            resource.handle_signal({})
            if other != "delete":
                assert check(token) is True
        else:
            assert token is None


def test_a_component_knows_its_actions(build: Build, shelf: Shelf) -> None:
    configs: Json = {"configs": [{"actions": ["SUSPEND"], "config": "x", "tool": "script"}]}
    resource = build(SoftwareDeploymentResource, {"server": "web", "config": shelf.config(configs, "component")})
    assert resource.handle_create() is None
    assert (resource.physical_id, resource.reference()) == (None, "a")
    assert isinstance(resource.handle_suspend(), str)


def test_a_deployment_without_create_makes_one_later(build: Build, shelf: Shelf) -> None:
    resource = build(SoftwareDeploymentResource, {"server": "web", "actions": ["UPDATE"], "name": "n"})
    token = resource.handle_create()
    assert resource.check_create_complete(token) is True
    assert resource.attribute("deploy_stdout") is None
    run(resource, "update", change(resource, {"name": "m"}))
    assert shelf.status(resource) == ("IN_PROGRESS", "UPDATE")


def test_an_update_takes_the_place_of_what_was_deployed(build: Build, shelf: Shelf) -> None:
    outputs = [{"name": "o"}]
    resource = build(
        SoftwareDeploymentResource,
        {"server": "web", "config": shelf.config("new", outputs=outputs), "input_values": {"a": 2}},
    )
    run(resource, "create")
    before = shelf.software.deployment(shelf.project, resource.physical_id)
    resource.handle_signal({"o": 1})
    run(resource, "update", change(resource, {"input_values": {"a": 1}}))
    after = shelf.software.deployment(shelf.project, resource.physical_id)
    assert (after.config_id != before.config_id, after.action, after.status) == (True, "UPDATE", "IN_PROGRESS")
    assert after.input_values["a"] == 2
    assert resource.attribute("o") == 1  # until the server answers again
    with pytest.raises(NotFound):
        shelf.software.config(shelf.project, before.config_id)


def test_a_delete_leaves_nothing(build: Build, shelf: Shelf) -> None:
    resource = build(SoftwareDeploymentResource, {"server": "web", "config": shelf.config()})
    run(resource, "create")
    config_id = shelf.software.deployment(shelf.project, resource.physical_id).config_id
    assert resource.check_delete_complete(resource.handle_delete()) is True
    for ask, name in ((shelf.software.deployment, resource.physical_id), (shelf.software.config, config_id)):
        with pytest.raises(NotFound):
            ask(shelf.project, name)
    assert resource.check_delete_complete(resource.handle_delete()) is True


def test_a_delete_waits_for_a_server_that_is_there(build: Build, shelf: Shelf, monkeypatch: Any) -> None:
    properties = {"server": "web", "config": shelf.config(), "actions": ["DELETE", "CREATE"]}
    resource = build(SoftwareDeploymentResource, properties)
    run(resource, "create")
    assert resource.handle_delete() is None  # no stack knows the server
    servers = {"web"}
    monkeypatch.setattr(Software, "has_server", lambda *asked: asked[-1] in servers)
    token = resource.handle_delete()
    assert resource.check_delete_complete(token) is False
    resource.handle_signal({"deploy_status_code": 1})
    with pytest.raises(DeploymentFailed):
        resource.check_delete_complete(token)
    servers.clear()
    assert resource.check_delete_complete(token) is True


class NovaProps(Schema):
    user_data_format: str = prop("HEAT_CFNTOOLS", doc="As of OS::Nova::Server.")


class Nova(Resource[NovaProps], type="Test::Nova"):
    """A server of a cloud."""


@pytest.mark.parametrize(
    ("server", "properties", "fits"),
    [
        (Nova, {}, False),
        (Nova, {"user_data_format": "RAW"}, False),
        (Nova, {"user_data_format": "SOFTWARE_CONFIG"}, True),
        (DeployedServer, {}, True),
        (NoneResource, {}, True),
        (NoneResource, {"user_data_format": "RAW"}, False),
    ],
)
def test_a_server_has_to_be_made_for_it(
    build: Build, server: ResourceType, properties: dict[str, Json], fits: bool
) -> None:
    resource = build(SoftwareDeploymentResource, {"server": "web"})
    found = {"web": build(server, properties)}
    resource.facts.sibling = found.get
    if fits:
        assert isinstance(resource.handle_create(), str)
    else:
        with pytest.raises(StackValidationFailed, match="user_data_format"):
            resource.handle_create()


def test_a_check_asks_again_where_the_database_is_away(build: Build, monkeypatch: Any) -> None:
    resource = build(SoftwareDeploymentResource, {"server": "web"})
    token = run(resource, "create")
    resource.handle_signal({})

    def away(*_: object) -> None:
        raise DatabaseUnavailable(reason="restarted")

    with monkeypatch.context() as patched:
        patched.setattr(Software, "deployment", away)
        assert resource.check_create_complete(token) is False
    assert resource.check_create_complete(token) is True


@pytest.mark.parametrize(
    ("before", "after", "replaces"),
    [
        ({"x": 1}, {"x": 2}, True),
        ({"x": 1}, {"x": 1, "y": 2}, False),
        ({}, {"x": "default"}, False),
        ({}, {"x": "other"}, True),
        ({"x": 1}, UNKNOWN, False),
    ],
)
def test_inputs_that_replace(build: Build, shelf: Shelf, before: object, after: object, replaces: bool) -> None:
    inputs = [{"name": "x", "default": "default", "replace_on_change": True}, {"name": "y"}]
    config_id = shelf.config(inputs=inputs)
    resource = build(SoftwareDeploymentResource, {"server": "web"})
    old, new = ({"config": config_id, "input_values": values} for values in (before, after))
    assert resource.needs_replace(Change(frozenset({"input_values"}), old, new)) is replaces


def test_another_config_replaces_if_such_an_input_changes(build: Build, shelf: Shelf) -> None:
    def config(default: str) -> str:
        return shelf.config(inputs=[{"name": "x", "default": default, "replace_on_change": True}])

    resource = build(SoftwareDeploymentResource, {"server": "web"})
    for old, new, replaces in ((config("a"), config("a"), False), (config("a"), config("b"), True)):
        known = Change(frozenset({"config"}), {"config": old}, {"config": new})
        assert resource.needs_replace(known) is replaces


# -- structured deployments --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "more", "expected"),
    [
        ({"a": {"get_input": "x"}}, {}, {"a": [1]}),
        ({"a": [{"get_input": "x"}, {"b": {"get_input": "deploy_action"}}]}, {}, {"a": [[1], {"b": "CREATE"}]}),
        ({"a": {"get_input": "x", "b": 1}}, {}, {"a": {"get_input": "x", "b": 1}}),
        ({"a": {"get_input": ["x"]}}, {}, {"a": {"get_input": ["x"]}}),
        ({"a": {"get_input": "none"}}, {}, {"a": None}),
        ({"a": {"get_input": "x"}, "b": {"its": "x"}}, {"input_key": "its"}, {"a": {"get_input": "x"}, "b": [1]}),
    ],
)
def test_inputs_go_into_the_config(build: Build, shelf: Shelf, config: Json, more: Any, expected: Json) -> None:
    properties = {"server": "web", "config": shelf.config(config), "input_values": {"x": [1]}, **more}
    resource = build(StructuredDeployment, properties)
    run(resource, "create")
    assert shelf.deployed(resource).config == expected


def test_an_input_that_nobody_gives_may_be_an_error(build: Build, shelf: Shelf) -> None:
    config_id = shelf.config({"a": {"get_input": "none"}})
    resource = build(StructuredDeployment, {"server": "web", "config": config_id, "input_values_validate": "STRICT"})
    token = resource.handle_create()
    with pytest.raises(UserParameterMissing, match="none"):
        resource.check_create_complete(token)


# -- groups of deployments ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "member"),
    [
        (SoftwareDeploymentGroup, "OS::Heat::SoftwareDeployment"),
        (SoftwareDeployments, "OS::Heat::SoftwareDeployment"),
        (StructuredDeploymentGroup, "OS::Heat::StructuredDeployment"),
        (StructuredDeployments, "OS::Heat::StructuredDeployment"),
    ],
)
def test_a_group_has_a_deployment_for_each_server(build: Build, cls: ResourceType, member: str) -> None:
    group = build(cls, {"servers": {"db": "id-1", "web": "id-2"}, "config": "c", "input_values": {"a": 1}})
    assert group.goal().template["resources"] == {
        name: {"type": member, "properties": {"server": server, "config": "c", "input_values": {"a": 1}}}
        for name, server in (("db", "id-1"), ("web", "id-2"))
    }
    assert group.child(0) == group.goal()
    assert group.child(1) is None


def test_a_group_is_made_in_batches(build: Build) -> None:
    group = build(SoftwareDeploymentGroup, {"servers": {name: name.upper() for name in "abc"}})
    group.facts.update_policy = {"batch_create": {"max_batch_size": 2, "pause_time": 5}}
    rounds = [group.child(number) for number in range(3)]
    assert [list(one.template["resources"]) for one in rounds[:2]] == [["a", "b"], ["a", "b", "c"]]
    assert ([one.pause for one in rounds[:2]], rounds[2]) == ([0, 5], None)


def test_a_group_changes_in_batches(build: Build) -> None:
    class Present:
        """The nested stack as the last round has left it."""

        template: Mapping[str, Json]

    group = build(SoftwareDeploymentGroup, {"servers": {name: name.upper() for name in "abd"}, "config": "new"})
    group.facts.before = {"servers": {name: name.upper() for name in "abc"}, "config": "old"}
    group.facts.update_policy = {"rolling_update": {"max_batch_size": 1}}
    old = build(SoftwareDeploymentGroup, {"servers": {name: name.upper() for name in "abc"}, "config": "old"})
    nested = Present()
    nested.template = old.goal().template
    group.facts.nested = lambda: nested
    seen = []
    for number in range(3):
        nested.template = group.child(number).template
        resources: Any = nested.template["resources"]
        seen.append({name: one["properties"]["config"] for name, one in resources.items()})
    assert seen == [
        {"a": "new", "b": "old"}, {"a": "new", "b": "new"}, {"a": "new", "b": "new", "d": "new"},
    ]  # fmt: skip
    assert group.child(3) is None
    assert nested.template == group.goal().template


def test_pauses_have_to_fit_into_the_operation(build: Build) -> None:
    group = build(SoftwareDeploymentGroup, {"servers": {name: name.upper() for name in "abc"}})
    group.facts.update_policy = {"batch_create": {"max_batch_size": 1, "pause_time": 50}}
    group.facts.time_limit = 101
    assert group.child(0) is not None
    group.facts.time_limit = 100
    with pytest.raises(ValueError, match="timeout"):
        group.child(0)


def test_a_group_whose_servers_are_not_known_yet_stays(build: Build) -> None:
    group = build(SoftwareDeploymentGroup, {"servers": {}})
    group.facts.properties["servers"] = UNKNOWN
    assert group.goal().template["resources"] == {}
    assert SoftwareDeploymentGroup.nested_template({"servers": UNKNOWN}) is None


# -- deployed servers --------------------------------------------------------------------------------


def test_a_deployed_server(build: Build) -> None:
    server = build(DeployedServer, {"software_config_transport": "POLL_SERVER_HEAT"})
    server.handle_create()
    assert server.attribute("name") == server.physical_name
    assert server.reference() == server.physical_id != server.physical_name
    heat = {"project_id": server.facts.project, "stack_id": f"s/{server.facts.stack_id}", "resource_name": "a"}
    assert server.attribute("os_collect_config") == {"collectors": ["heat", "local"], "heat": heat}
    assert server.live_metadata() == {
        "heatlite_agent": {"register": server.signed_url("node")},
        "deployments": [],
        "os-collect-config": {"collectors": ["heat", "local"], "heat": heat},
    }


def test_a_deployed_server_with_a_name_and_the_default_transport(build: Build) -> None:
    server = build(DeployedServer, {"name": "db-1"})
    assert server.attribute("name") == "db-1"
    assert server.attribute("os_collect_config") == {
        "collectors": ["cfn", "local"],
        "cfn": {"metadata_url": "http://127.0.0.1:8004/v1/", "stack_name": "s", "path": "a.Metadata"},
    }
