"""Operations on a stack through the API, timed until it is COMPLETE."""

import json
import time
from typing import Any, Protocol

from benchmarks.client import Pause

PROJECT = "/v1/benchmark"
Template = dict[str, Any]

TEXT_PROPERTY = {"OS::Heat::Value": "value", "OS::Heat::TestResource": "value", "OS::Heat::SoftwareConfig": "config"}
"""Property that differs between the resources of a template, by type."""


def template(count: int, kind: str = "OS::Heat::Value", chain: bool = False, changed: int = 0) -> Template:
    """A chain of `count` resources; the first `changed` ones have other values."""
    resources: dict[str, Any] = {}
    for number in range(count):
        made: dict[str, Any] = {"type": kind}
        if kind in TEXT_PROPERTY:
            made["properties"] = {TEXT_PROPERTY[kind]: f"{'w' if number < changed else 'v'}{number}"}
        if chain and number:
            made["depends_on"] = f"r{number - 1}"
        resources[f"r{number}"] = made
    return {"heat_template_version": "2018-08-31", "resources": resources}


def group(count: int) -> Template:
    """A ResourceGroup with `count` random strings."""
    member = {"type": "OS::Heat::RandomString"}
    made = {"type": "OS::Heat::ResourceGroup", "properties": {"count": count, "resource_def": member}}
    return {"heat_template_version": "2018-08-31", "resources": {"group": made}}


WITHIN = "within.yaml"


def tree(stacks: int, each: int) -> tuple[Template, dict[str, str]]:
    """A stack with so many nested stacks of `each` resources, and its files."""
    within = template(each)
    within["parameters"] = {"text": {"type": "string"}}
    for made in within["resources"].values():
        made["properties"]["value"] = {"get_param": "text"}
    resources = {f"s{number}": {"type": WITHIN, "properties": {"text": f"v{number}"}} for number in range(stacks)}
    return {"heat_template_version": "2018-08-31", "resources": resources}, {WITHIN: json.dumps(within)}


class JSONClient(Protocol):
    """Client that sends requests."""

    def json(self, method: str, path: str, body: object = None, expect: int = 200) -> Any: ...


class Stack:
    """One stack on a server."""

    def __init__(self, client: JSONClient, name: str) -> None:
        self._client = client
        self._name = name
        self.path = ""

    def create(self, wanted: Template, files: dict[str, str] | None = None) -> float:
        """Seconds from sending the POST to CREATE_COMPLETE."""
        body = {"stack_name": self._name, "template": wanted, "files": files or {}, "timeout_mins": 60}
        began = time.perf_counter()
        made = self._client.json("POST", f"{PROJECT}/stacks", body, 201)
        self.path = f"{PROJECT}/stacks/{self._name}/{made['stack']['id']}"
        return self.wait("CREATE_COMPLETE", began)

    def update(self, wanted: Template, files: dict[str, str] | None = None) -> float:
        """Seconds from sending the PUT to UPDATE_COMPLETE."""
        began = time.perf_counter()
        self._client.json("PUT", self.path, {"template": wanted, "files": files or {}}, 202)
        return self.wait("UPDATE_COMPLETE", began)

    def mark(self, count: int) -> None:
        """Mark the first `count` resources unhealthy."""
        for number in range(count):
            self._client.json("PATCH", f"{self.path}/resources/r{number}", {"mark_unhealthy": True})

    def delete(self) -> float:
        """Seconds from sending the DELETE to DELETE_COMPLETE."""
        began = time.perf_counter()
        self._client.json("DELETE", self.path, None, 204)
        return self.wait("DELETE_COMPLETE", began)

    def check(self) -> float:
        """Seconds from sending the check to CHECK_COMPLETE."""
        began = time.perf_counter()
        self._client.json("POST", f"{self.path}/actions", {"check": None}, 200)
        return self.wait("CHECK_COMPLETE", began)

    def lock(self) -> None:
        """Put it under maintenance."""
        self._client.json("POST", f"{self.path}/actions", {"lock": {"level": "stacks"}}, 200)
        self.wait("LOCK_COMPLETE", 0.0)

    def wait(self, wanted: str, began: float = 0.0) -> float:
        """Seconds since `began` until it is in that state.

        Raises RuntimeError when it ends in another.
        """
        pause = Pause()
        while True:
            shown = self._client.json("GET", f"{self.path}?resolve_outputs=false")["stack"]
            now = time.perf_counter()
            if shown["stack_status"] == wanted:
                return now - began
            if not shown["stack_status"].endswith("_IN_PROGRESS"):
                raise RuntimeError(f"{self._name}: {shown['stack_status']}: {shown['stack_status_reason']}")
            pause.sleep()
