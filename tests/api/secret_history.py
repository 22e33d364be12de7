"""The life of a stack with hidden parameters, with a record of all answers."""

import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tests.api.conftest import Heat

SECRET = 'mark-7f3a19 "ü"'
DEFAULT = "mark-5b21dd-default"
SINK = "mark-90cc41-sink"
SECOND = "mark-e177b0-second"
PLAIN = "mark-41d0aa-plain"
"""A parameter that is not hidden."""
HIDDEN = (SECRET, DEFAULT, SINK, SECOND)

CHILD = """
heat_template_version: 2021-04-16
parameters:
  given: {type: string}
  inner: {type: string, hidden: true}
resources:
  kept: {type: OS::Heat::Value, properties: {value: {get_param: given}}}
  own: {type: OS::Heat::TestResource, properties: {value: {get_param: inner}}}
outputs:
  both: {value: {list_join: ["/", [{get_attr: [kept, value]}, {get_attr: [own, output]}]]}}
"""


def forms(secret: str) -> set[str]:
    """The ways in which it may be written."""
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret)}


def found_in(text: str) -> list[str]:
    """Those of the secrets that can be read in a text."""
    return [secret for secret in HIDDEN if any(form in text for form in forms(secret))]


def template(**more: object) -> dict[str, Any]:
    """Something of every kind that a hidden value can get into."""
    secret = {"get_param": "secret"}
    member = {"type": "OS::Heat::TestResource", "properties": {"value": secret}}
    return {
        "heat_template_version": "2021-04-16",
        "parameters": {
            "secret": {"type": "string", "hidden": True},
            "plain": {"type": "string", "default": PLAIN},
            "wrong": {"type": "boolean", "default": False},
            "servers": {"type": "number", "default": 1},
        },
        "resources": {
            "value": {"type": "OS::Heat::Value", "properties": {"value": secret}, "metadata": {"of": secret}},
            "shown": {"type": "OS::Heat::Value", "properties": {"value": {"get_param": "plain"}}},
            "made": {
                "type": "OS::Heat::TestResource",
                "properties": {"value": {"str_replace": {"template": "login P", "params": {"P": secret}}}},
            },
            "from_it": {"type": "OS::Heat::TestResource", "properties": {"value": {"get_attr": ["made", "output"]}}},
            "group": {
                "type": "OS::Heat::ResourceGroup",
                "properties": {"count": {"get_param": "servers"}, "resource_def": member},
            },
            "scaled": {
                "type": "OS::Heat::AutoScalingGroup",
                "properties": {"min_size": 1, "max_size": 3, "resource": member},
            },
            "up": {
                "type": "OS::Heat::ScalingPolicy",
                "properties": {
                    "adjustment_type": "change_in_capacity",
                    "auto_scaling_group_id": {"get_resource": "scaled"},
                    "scaling_adjustment": 1,
                },
            },
            "nested": {"type": "child.yaml", "properties": {"given": secret}},
            "after": {"type": "OS::Heat::Value", "properties": {"value": {"get_attr": ["nested", "both"]}}},
            "config": {
                "type": "OS::Heat::SoftwareConfig",
                "properties": {"config": secret, "inputs": [{"name": "pw", "default": "x"}]},
            },
            "deployed": {
                "type": "OS::Heat::SoftwareDeployment",
                "properties": {
                    "config": {"get_resource": "config"},
                    "server": "11111111-2222-4333-8444-555555555555",
                    "input_values": {"pw": secret},
                    "signal_transport": "HEAT_SIGNAL",
                },
            },
            "late": {
                "type": "OS::Heat::RandomString",
                "condition": {"get_param": "wrong"},
                "properties": {"length": {"get_attr": ["value", "value"]}},
            },
            **more,
        },
    }


def environment(secret: str = SECRET, **parameters: object) -> dict[str, object]:
    """The files of `template`."""
    return {
        "parameters": {"secret": secret, **parameters},
        "parameter_defaults": {"inner": DEFAULT},
        "resource_registry": {
            "resources": {"shown": {"hooks": "pre-update"}, "group": {"*": {"lifecycle_hook": {"timeout": 3600}}}}
        },
        "event_sinks": [{"type": "webhook", "target": "https://sink.example/x", "secret": SINK}],
    }


class History:
    """Requests and their answers."""

    def __init__(self, heat: Heat, asked: Callable[[], None] = lambda: None) -> None:
        self.heat = heat
        self.said: list[str] = []
        self._asked = asked

    def call(self, method: str, path: str, body: object = None, code: int | None = None) -> Any:
        """A request whose answer says nothing that is hidden."""
        answer = self.heat.call(method, path, body, code)
        text = f"{answer.headers} {answer.text}"
        assert not found_in(text), f"{method} {path}: {found_in(text)} in {text}"
        self.said.append(text)
        self._asked()
        return answer.json if answer.text.strip() and "json" in (answer.content_type or "") else None

    def create(self, name: str, body: dict[str, Any], *, ends: str, **more: object) -> str:
        """A stack; its path once it has come to rest."""
        whole = {"stack_name": name, "template": body, "files": {"child.yaml": CHILD}, **more}
        path = f"/stacks/{name}/{self.call('POST', '/stacks', whole, 201)['stack']['id']}"
        self.settle(path, ends)
        return path

    def settle(self, path: str, ends: str) -> None:
        """Wait until the stack rests; answer its deployment and release its hooks."""
        end = time.monotonic() + 240
        while True:
            stack = self.call("GET", path)["stack"]
            if not stack["stack_status"].endswith("IN_PROGRESS"):
                break
            assert time.monotonic() < end, f"still {stack['stack_status']}"
            # Refused as long as nothing waits there.
            self.call("POST", f"{path}/resources/shown/signal", {"unset_hook": "pre-update"})
            self._drain()
            for one in self.heat.get("/software_deployments")["software_deployments"]:
                if one["status"] == "IN_PROGRESS":
                    # An agent that tells what it was told.
                    output = {"deploy_status_code": 0, "deploy_stdout": f"+ echo {one['input_values']['pw']}"}
                    self.heat.call("POST", f"{path}/resources/deployed/signal", output)
            time.sleep(0.02)
        assert stack["stack_status"] == ends, stack["stack_status_reason"]

    def _drain(self) -> None:
        """Release the members that wait before their deletion."""
        waiting = {one["target"] for one in self.call("GET", "/actions?status=WAITING_LIFECYCLE_COMPLETION")["actions"]}
        for stack in self.call("GET", "/stacks?show_nested=true")["stacks"] if waiting else ():
            if stack["id"] in waiting:
                own = f"/stacks/{stack['stack_name']}/{stack['id']}"
                for row in self.call("GET", f"{own}/resources")["resources"]:
                    self.call("POST", f"{own}/resources/{row['resource_name']}/signal", {"unset_hook": "pre-delete"})

    def act(self, path: str, action: str, ends: str, value: object = None) -> None:
        """POST …/actions."""
        self.call("POST", f"{path}/actions", {action: value})
        self.settle(path, ends)

    def look(self, path: str) -> None:
        """Read all that is not an export: records, outputs, requests of agents."""
        for below in ("", "/template", "/environment", "/files", "/snapshots", "/lock", "/events?nested_depth=5"):
            self.call("GET", path + below)
        self.call("GET", f"{path}/resources?nested_depth=5&with_detail=true")
        for stack in self.call("GET", "/stacks?show_nested=true")["stacks"]:
            own = f"/stacks/{stack['stack_name']}/{stack['id']}"
            if stack["parent"]:
                self.call("GET", f"{own}?resolve_outputs=false")
                self.call("GET", f"{own}/template")
                self.call("GET", f"{own}/environment")
            for event in self.call("GET", f"{own}/events")["events"]:
                self.call("GET", f"{own}/resources/{event['resource_name']}/events/{event['id']}")
            for row in self.call("GET", f"{own}/resources")["resources"]:
                self.call("GET", f"{own}/resources/{row['resource_name']}")
        for one in self.call("GET", "/actions?limit=500")["actions"]:
            self.call("GET", f"/actions/{one['id']}")
            self.call("GET", f"/actions/{one['id']}/history")
        for url in ("/stacks/detail", "/services", "/stacks?show_deleted=true"):
            self.call("GET", url)

    def live(self) -> str:
        """Lead a stack through its life; yield its path whenever it rests."""
        body, files = template(), {"child.yaml": CHILD}
        request = {"template": body, "files": files, "environment": environment()}
        self.call("POST", "/validate?show_nested=true", {"template": body, "files": files, **request}, 200)
        wrong = template(random={"type": "OS::Heat::RandomString", "properties": {"length": {"get_param": "secret"}}})
        self.call("POST", "/stacks", {"stack_name": "wrong", **request, "template": wrong}, 400)
        found = self.call("POST", "/validate?all_errors=true", {**request, "template": wrong})
        assert "******" in str(found)
        self.call("POST", "/stacks/preview?plan=true", {"stack_name": "seen", **request}, 200)

        # One that fails because of what it was given, one that goes back, one that can be tried again.
        failing = environment(wrong=True)
        failed = self.create("failed", body, ends="CREATE_FAILED", environment=failing)
        self.look(failed)
        self.create("back", body, ends="ROLLBACK_COMPLETE", environment=failing, disable_rollback=False)
        self.call("DELETE", failed)
        self.settle(failed, "DELETE_COMPLETE")

        path = self.create("s", body, ends="CREATE_COMPLETE", environment=environment())
        self.look(path)
        self.call("POST", f"{path}/snapshots", {"name": "first"})
        self.settle(path, "SNAPSHOT_COMPLETE")
        (snapshot,) = self.call("GET", f"{path}/snapshots")["snapshots"]

        # Updates: one that is only foreseen, one that waits at a hook, one that fails and goes back.
        second = {"environment": environment(SECOND, plain="another", servers=2)}
        self.call("PATCH", f"{path}/preview?plan=true&show_nested=true", second, 200)
        self.call("PATCH", path, second, 202)
        self.settle(path, "UPDATE_COMPLETE")
        self.look(path)
        self.call("PATCH", path, {"environment": environment(SECRET, wrong=True), "disable_rollback": False}, 202)
        self.settle(path, "ROLLBACK_COMPLETE")
        self.call("PATCH", path, {**second, "converge": True}, 202)
        self.settle(path, "UPDATE_COMPLETE")
        self.call("GET", f"{path}/snapshots/{snapshot['id']}")
        self.call("POST", f"{path}/snapshots/{snapshot['id']}/restore")
        self.settle(path, "RESTORE_COMPLETE")

        # Everything else.
        self.act(path, "suspend", "SUSPEND_COMPLETE")
        self.act(path, "resume", "RESUME_COMPLETE")
        self.act(path, "check", "CHECK_COMPLETE")
        self.call("POST", f"{path}/resources/up/signal", {})
        self._rest(path)
        self.call("PATCH", f"{path}/resources/made", {"mark_unhealthy": True, "resource_status_reason": "sick"})
        self.act(path, "lock", "LOCK_COMPLETE", {"level": "all"})
        self.call("PATCH", path, {"environment": environment("mark-e177b0-second never")}, 409)
        self.look(path)
        self.act(path, "unlock", "UNLOCK_COMPLETE")
        self.call("PATCH", path, {}, 202)
        self.settle(path, "UPDATE_COMPLETE")

        # It goes away with its objects, and comes back with them.
        record = self.heat.call("DELETE", f"{path}/abandon", code=200).json
        assert found_in(json.dumps(record)), "a record that is handed over is whole"
        self.settle(path, "DELETE_COMPLETE")
        adopted = {"stack_name": "again", "adopt_stack_data": record}
        path = f"/stacks/again/{self.call('POST', '/stacks', adopted, 201)['stack']['id']}"
        self.settle(path, "ADOPT_COMPLETE")
        self.look(path)
        return path

    def _rest(self, path: str) -> None:
        """Wait until nothing goes on in the tree."""
        end = time.monotonic() + 240
        while any(
            one["status"] not in ("SUCCEEDED", "FAILED", "CANCELLED")
            for one in self.call("GET", "/actions?limit=500")["actions"]
        ):
            assert time.monotonic() < end, f"{path} does not come to rest"
            time.sleep(0.02)
