"""Software from a stack to its servers and back, with the agent's requests."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.tables import few
from tests.waiting import eventually

from .conftest import Heat, template

SERVER = {"type": "OS::Heat::DeployedServer", "properties": {"software_config_transport": "POLL_SERVER_HEAT"}}


def ref(name: str) -> dict[str, str]:
    return {"get_resource": name}


def config(text: str = "echo", **more: object) -> dict[str, object]:
    properties = {"group": "script", "config": text, "inputs": [{"name": "x"}], "outputs": [{"name": "y"}], **more}
    return {"type": "OS::Heat::SoftwareConfig", "properties": properties}


def deployment(server: str = "server", **more: object) -> dict[str, object]:
    return {"type": "OS::Heat::SoftwareDeployment", "properties": {"server": ref(server), "config": ref("c"), **more}}


class Agent:
    """Does on a server what os-collect-config and heat-config-notify do."""

    def __init__(self, heat: Heat, path: str, server: str = "server") -> None:
        self.heat = heat
        self.metadata = f"{path}/resources/{server}/metadata"
        self.done: set[str] = set()

    def news(self) -> list[dict[str, Any]]:
        """The configs that were not there before."""
        deployments = self.heat.get(self.metadata)["metadata"].get("deployments", [])
        return [one for one in deployments if one["id"] not in self.done]

    def wait(self, count: int = 1) -> list[dict[str, Any]]:
        return eventually(lambda: found if len(found := self.news()) >= count else None)

    def answer(self, one: dict[str, Any], code: int = 200, **outputs: object) -> None:
        """Signal in the way that the config says."""
        self.done.add(one["id"])
        inputs = {each["name"]: each["value"] for each in one["inputs"]}
        url = urlsplit(inputs["deploy_signal_id"])
        method = inputs["deploy_signal_verb"]
        self.heat.call(method, f"{url.path}?{url.query}", outputs, code=code)

    def value(self, one: dict[str, Any], name: str) -> Any:
        return next(each["value"] for each in one["inputs"] if each["name"] == name)


def start(heat: Heat, *, name: str = "s", **resources: object) -> tuple[str, Agent]:
    outputs = {"y": {"value": {"get_attr": ["d", "y"]}}}
    path = heat.create({**template(server=SERVER, c=config(), **resources), "outputs": outputs}, name, wait=False)
    until_there(heat, path)
    return path, Agent(heat, path)


def until_there(heat: Heat, path: str, name: str = "server") -> None:
    eventually(lambda: heat.get(f"{path}/resources?status=COMPLETE&name={name}")["resources"])


def change(heat: Heat, path: str, **resources: object) -> None:
    heat.call("PATCH", path, {"template": template(server=SERVER, **resources)}, code=202)


@pytest.mark.slow
@pytest.mark.parametrize("transport", few(["CFN_SIGNAL", "HEAT_SIGNAL"]))
def test_a_server_is_told_and_answers(heat: Heat, transport: str) -> None:
    path, agent = start(heat, d=deployment(input_values={"x": 1}, signal_transport=transport))
    (told,) = agent.wait()
    assert (told["group"], told["config"]) == ("script", "echo")
    assert agent.value(told, "x") == 1
    server_id = agent.value(told, "deploy_server_id")
    assert heat.get(f"/software_deployments/metadata/{server_id}") == {"metadata": [told]}
    assert heat.get(path)["stack"]["stack_status"] == "CREATE_IN_PROGRESS"
    agent.answer(told, y="done", deploy_stdout="out", deploy_status_code=0)
    stack = heat.settle(path, "CREATE_COMPLETE")
    assert stack["outputs"][0]["output_value"] == "done"
    shown = heat.get(f"{path}/resources/d")["resource"]
    assert shown["attributes"] == {"deploy_stdout": "out", "deploy_stderr": None, "deploy_status_code": 0}
    kept = heat.get(f"/software_deployments/{shown['physical_resource_id']}")["software_deployment"]
    assert (kept["status"], kept["action"], kept["server_id"]) == ("COMPLETE", "CREATE", server_id)
    assert (kept["status_reason"], kept["output_values"]["y"]) == ("Outputs received", "done")
    assert kept["input_values"] == {"x": 1}
    events = heat.get(f"{path}/resources/d/events?resource_action=SIGNAL")["events"]
    assert [event["resource_status_reason"] for event in events] == [f"Signal: deployment {kept['id']} succeeded"]

    agent.answer(told, y="late", deploy_status_code=1)  # takes nothing back
    assert heat.get(path)["stack"]["outputs"][0]["output_value"] == "done"
    heat.call("DELETE", path, code=204)
    heat.settle(path, "DELETE_COMPLETE")
    assert heat.get("/software_configs") == {"software_configs": []}
    assert heat.get("/software_deployments") == {"software_deployments": []}


def test_a_server_that_fails_fails_the_stack(heat: Heat) -> None:
    path, agent = start(heat, d=deployment())
    agent.answer(agent.wait()[0], deploy_status_code=2, deploy_stderr="no")
    stack = heat.settle(path, "CREATE_FAILED")
    assert (
        "Deployment to server failed: deploy_status_code : Deployment exited with non-zero status code: 2"
        in (stack["stack_status_reason"])
    )
    physical_id = heat.get(f"{path}/resources/d")["resource"]["physical_resource_id"]
    kept = heat.get(f"/software_deployments/{physical_id}")["software_deployment"]
    assert (kept["status"], kept["output_values"]["deploy_stderr"]) == ("FAILED", "no")


@pytest.mark.slow
def test_a_changed_config_is_deployed_in_place(heat: Heat) -> None:
    path, agent = start(heat, d=deployment())
    first = agent.wait()[0]
    agent.answer(first)
    heat.settle(path, "CREATE_COMPLETE")
    before = heat.get(f"{path}/resources/d")["resource"]["physical_resource_id"]
    change(heat, path, c=config("echo 2"), d=deployment())
    (second,) = agent.wait()
    assert (second["config"], agent.value(second, "deploy_action")) == ("echo 2", "UPDATE")
    agent.answer(second)
    heat.settle(path, "UPDATE_COMPLETE")
    assert heat.get(f"{path}/resources/d")["resource"]["physical_resource_id"] == before
    assert len(heat.get("/software_configs")["software_configs"]) == 2  # the new one, and what was made of it


def test_an_input_may_replace_the_deployment(heat: Heat) -> None:
    inputs = [{"name": "x", "replace_on_change": True}]
    quiet = {"signal_transport": "NO_SIGNAL"}
    resources = {"server": SERVER, "c": config(inputs=inputs), "d": deployment(input_values={"x": 1}, **quiet)}
    path = heat.create(template(**resources))
    before = heat.get(f"{path}/resources/d")["resource"]["physical_resource_id"]
    resources["d"] = deployment(input_values={"x": 2}, **quiet)
    heat.call("PATCH", path, {"template": template(**resources)}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    after = heat.get(f"{path}/resources/d")["resource"]["physical_resource_id"]
    assert after != before
    assert [one["id"] for one in heat.get("/software_deployments")["software_deployments"]] == [after]


def test_a_deployment_reads_as_in_heat(heat: Heat) -> None:
    named = config(inputs=[{"name": "x", "default": "d"}, {"name": "z", "replace_on_change": True}])
    quiet = deployment(signal_transport="NO_SIGNAL", input_values={"z": 2})
    path = heat.create(template(server=SERVER, c=named, d=quiet))
    physical_id = heat.get(f"{path}/resources/d")["resource"]["physical_resource_id"]
    shown = heat.get(f"/software_deployments/{physical_id}")["software_deployment"]
    assert (shown["status"], shown["status_reason"]) == ("COMPLETE", "Not waiting for outputs signal")
    assert (shown["input_values"], shown["output_values"]) == ({"z": 2}, None)
    derived = heat.get(f"/software_configs/{shown['config_id']}")["software_config"]
    assert derived["name"].startswith("s-c-"), "the name of the config"
    assert derived["inputs"][:2] == [
        {"name": "x", "type": "String", "default": "d", "value": "d"},
        {"name": "z", "type": "String", "replace_on_change": True, "value": 2},
    ]


@pytest.mark.slow
def test_a_delete_is_told_to_the_server(heat: Heat) -> None:
    path, agent = start(heat, d=deployment(actions=["CREATE", "DELETE"]))
    agent.answer(agent.wait()[0])
    heat.settle(path, "CREATE_COMPLETE")
    heat.call("DELETE", path, code=204)
    (told,) = agent.wait()
    assert agent.value(told, "deploy_action") == "DELETE"
    agent.answer(told)
    heat.settle(path, "DELETE_COMPLETE")
    assert heat.get("/software_configs") == {"software_configs": []}


def test_suspend_and_resume_are_told_to_the_server(heat: Heat) -> None:
    path, agent = start(heat, d=deployment(actions=["SUSPEND", "RESUME"]))
    heat.settle(path, "CREATE_COMPLETE")
    assert agent.news() == []
    for verb in ("suspend", "resume"):
        heat.call("POST", f"{path}/actions", {verb: None}, code=200)
        (told,) = agent.wait()
        assert agent.value(told, "deploy_action") == verb.upper()
        agent.answer(told)
        heat.settle(path, f"{verb.upper()}_COMPLETE")


@pytest.mark.slow
def test_a_signal_for_what_is_gone_is_refused(heat: Heat) -> None:
    path, agent = start(heat, d=deployment())
    agent.answer(agent.wait()[0])
    heat.settle(path, "CREATE_COMPLETE")
    change(heat, path, c=config(), d=deployment(name="n"))
    (told,) = agent.wait()
    heat.call("DELETE", path, code=204)
    heat.settle(path, "DELETE_COMPLETE")
    agent.answer(told, code=403)  # the key has gone with the resource


@pytest.mark.slow
def test_two_servers_and_two_deployments_on_each(heat: Heat) -> None:
    resources = {f"{server}-{name}": deployment(server, name=name) for server in ("s1", "s2") for name in ("b", "a")}
    path = heat.create(template(s1=SERVER, s2=SERVER, c=config(), **resources), wait=False)
    for server in ("s1", "s2"):
        until_there(heat, path, server)
        agent = Agent(heat, path, server)
        told = agent.wait(2)
        assert [one["name"] for one in told] == ["a", "b"]
        for one in told:
            agent.answer(one)
    heat.settle(path, "CREATE_COMPLETE")


@pytest.mark.slow
def test_any_resource_can_stand_for_a_server(heat: Heat) -> None:
    nova = {"type": "OS::Heat::None", "properties": {"user_data_format": "SOFTWARE_CONFIG"}, "metadata": {"m": 1}}
    path = heat.create(template(server=nova, c=config(), d=deployment(signal_transport="NO_SIGNAL")))
    metadata = heat.get(f"{path}/resources/server/metadata")["metadata"]
    assert (metadata["m"], [one["config"] for one in metadata["deployments"]]) == (1, ["echo"])
    raw = {"type": "OS::Heat::None", "properties": {"user_data_format": "RAW"}}
    path = heat.create(template(server=raw, c=config(), d=deployment(signal_transport="NO_SIGNAL")), "raw")
    assert "user_data_format" in heat.settle(path, "CREATE_FAILED")["stack_status_reason"]


def test_the_guide(heat: Heat) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "software.md").read_text()
    path = heat.create(guide.split("```yaml\n")[1].split("```")[0], wait=False)
    until_there(heat, path)
    agent = Agent(heat, path)
    (told,) = agent.wait()
    assert agent.value(told, "who") == "world"
    agent.answer(told, greeting="hello, world", deploy_status_code=0)
    assert heat.settle(path, "CREATE_COMPLETE")["outputs"][0]["output_value"] == "hello, world"


def test_other_projects_see_nothing_of_it(heat: Heat) -> None:
    path, agent = start(heat, d=deployment())
    (told,) = agent.wait()
    other = heat.other
    server_id = agent.value(told, "deploy_server_id")
    assert other.get(f"/software_deployments/metadata/{server_id}") == {"metadata": []}
    assert other.get("/software_configs") == {"software_configs": []}
    agent.answer(told)
    heat.settle(path, "CREATE_COMPLETE")


class TestGroups:
    GROUP = {"servers": {"one": ref("s1"), "two": ref("s2")}, "config": ref("c")}

    def create(self, heat: Heat, kind: str = "OS::Heat::SoftwareDeploymentGroup", **more: Any) -> str:
        policy = more.pop("policy", {})
        group = {"type": kind, "properties": {**self.GROUP, **more}, "update_policy": policy}
        outputs = {name: {"value": {"get_attr": ["g", name]}} for name in ("deploy_stdouts", "y")}
        body = {**template(s1=SERVER, s2=SERVER, c=config(), g=group), "outputs": outputs}
        return heat.create(body, wait=False)

    @pytest.mark.slow
    def test_each_server_is_told_and_answers(self, heat: Heat) -> None:
        path = self.create(heat)
        for server in ("s1", "s2"):
            until_there(heat, path, server)
            agent = Agent(heat, path, server)
            agent.answer(agent.wait()[0], y=f"y of {server}", deploy_stdout=server)
        outputs = {one["output_key"]: one["output_value"] for one in heat.settle(path, "CREATE_COMPLETE")["outputs"]}
        assert outputs == {
            "deploy_stdouts": {"one": "s1", "two": "s2"}, "y": {"one": "y of s1", "two": "y of s2"},
        }  # fmt: skip
        heat.call("DELETE", path, code=204)
        heat.settle(path, "DELETE_COMPLETE")
        assert heat.get("/software_deployments") == {"software_deployments": []}

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["OS::Heat::SoftwareDeployments", "OS::Heat::SoftwareDeploymentGroup"])
    def test_under_its_new_name_nothing_is_deployed_again(self, heat: Heat, name: str) -> None:
        path = self.create(heat, kind=name)
        for server in ("s1", "s2"):
            until_there(heat, path, server)
            agent = Agent(heat, path, server)
            agent.answer(agent.wait()[0])
        heat.settle(path, "CREATE_COMPLETE")
        before = heat.get(f"{path}/resources/g")["resource"]["physical_resource_id"]
        deployed = heat.get("/software_deployments")
        group = {"type": "OS::Heat::SoftwareDeploymentGroup", "properties": self.GROUP}
        heat.call("PUT", path, {"template": template(s1=SERVER, s2=SERVER, c=config(), g=group)}, code=202)
        heat.settle(path, "UPDATE_COMPLETE")
        after = heat.get(f"{path}/resources/g")["resource"]
        assert (after["physical_resource_id"], after["resource_type"]) == (before, "OS::Heat::SoftwareDeploymentGroup")
        assert heat.get("/software_deployments") == deployed

    @pytest.mark.slow
    def test_one_after_the_other(self, heat: Heat) -> None:
        path = self.create(heat, policy={"batch_create": {"max_batch_size": 1}})
        until_there(heat, path, "s1")
        until_there(heat, path, "s2")
        first, second = (Agent(heat, path, server) for server in ("s1", "s2"))
        (told,) = first.wait()
        assert second.news() == []
        first.answer(told)
        second.answer(second.wait()[0])
        heat.settle(path, "CREATE_COMPLETE")

    def test_by_the_old_name(self, heat: Heat) -> None:
        path = self.create(heat, "OS::Heat::SoftwareDeployments", signal_transport="NO_SIGNAL")
        heat.settle(path, "CREATE_COMPLETE")
        assert len(heat.get("/software_deployments")["software_deployments"]) == 2
