"""Progress, outputs, snapshots, health, lock and nodes of one stack."""

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus

from falcon import Response
from msgspec import Struct

from heatlite.core.json import JsonMap, as_map, as_maps
from heatlite.features.dashboard.client import Api, ApiError, text
from heatlite.features.dashboard.pages.project import PAGE, labels
from heatlite.features.dashboard.pages.stack import events
from heatlite.features.dashboard.pages.tree import Node, tree_of
from heatlite.features.dashboard.rendering import parsed
from heatlite.features.dashboard.site import Request, Site, command, refused, stack_home

MOST_EVENTS = 2000
"""Events that the timeline reads."""
MOST_BARS = 300
WIDTH = 1000
"""Units of a timeline."""


class Part(ABC):
    """A page below a stack."""

    template = ""
    part = ""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: Request, resp: Response, project: str, name: str, stack_id: str, error: str = "") -> None:
        """Show the page."""
        self._show(req, resp, (project, name, stack_id), error)

    def _show(
        self, req: Request, resp: Response, place: tuple[str, str, str], error: str = "", **more: object
    ) -> None:
        project, name, stack_id = place
        api, path = self._site.api(req, project), f"/stacks/{name}/{stack_id}"
        stack = as_map(api.get(path, resolve_outputs="False").get("stack"))
        frame = {"stack": stack, "here": stack_home(req, project, name, stack_id), "tab": "stacks", "part": self.part}
        values = {**frame, **self.values(req, api, path, stack), **more}
        self._site.show(req, resp, self.template, project, error, **values)

    @abstractmethod
    def values(self, req: Request, api: Api, path: str, stack: JsonMap) -> Mapping[str, object]:
        """Return the values of the template."""


# -- progress ---------------------------------------------------------------------------------------------


class Bar(Struct, frozen=True):
    """A part of the work on a resource: its begin and length in units of the timeline."""

    name: str
    status: str
    start: float
    length: float
    seconds: int


class ProgressPage(Part):
    """The last operation as a timeline, its first failure, and its actions."""

    template = "progress.html"
    part = "progress"

    def values(self, req: Request, api: Api, path: str, stack: JsonMap) -> Mapping[str, object]:
        nodes = tree_of(api, path)
        found = events(api, path, nodes, MOST_EVENTS)
        operation = last_operation(found, text(stack.get("id")))
        return {
            "bars": bars(operation, text(stack.get("id")))[:MOST_BARS],
            "cause": first_cause(operation, text(stack.get("id"))),
            "events": found[:200],
            "actions": as_maps(api.get("/actions", target=text(stack.get("id")), limit=20).get("actions")),
            "commands": [
                command(api.project, "events", text(stack.get("stack_name"))),
                command(api.project, "action", "list", "--target", text(stack.get("id"))),
            ],
        }


def last_operation(found: Sequence[JsonMap], stack_id: str) -> list[JsonMap]:
    """Return the events of the stack's last operation, oldest first.

    `found` is newest first.
    """
    end = 0
    for at, one in enumerate(found):
        if one.get("physical_resource_id") == stack_id:
            if text(one.get("resource_status")).endswith("_IN_PROGRESS"):
                return list(reversed(found[end : at + 1]))
            end = at  # what comes later, such as a mark, is no part of it
    return list(reversed(found))


def first_cause(operation: Sequence[JsonMap], stack_id: str) -> JsonMap:
    """Return the first failure of a resource; an empty object without one."""
    failed = (one for one in operation if text(one.get("resource_status")).endswith("_FAILED"))
    return next((one for one in failed if one.get("physical_resource_id") != stack_id), {})


def bars(operation: Sequence[JsonMap], stack_id: str) -> list[Bar]:
    """Return the timeline of an operation, in the order of begin.

    A replacement has two bars: a create and a delete.
    """
    begun: dict[tuple[str, str], tuple[datetime, str]] = {}
    ended: dict[tuple[str, str], tuple[datetime, str]] = {}
    for one in operation:
        moment, name, status = parsed(one.get("event_time")), text(one["resource_name"]), text(one["resource_status"])
        if moment is None or one.get("physical_resource_id") == stack_id:
            continue
        key = (name, status.partition("_")[0])
        begun.setdefault(key, (moment, status))
        if status.endswith("_IN_PROGRESS"):
            ended.pop(key, None)
        else:
            ended[key] = (moment, status)
    if not begun:
        return []
    moments = [moment for moment, _ in (*begun.values(), *ended.values())]
    first, latest = min(moments), max(moments)
    whole = max(1.0, (latest - first).total_seconds())
    out = []
    for (name, verb), (start, status) in begun.items():
        end, last = ended.get((name, verb), (latest, status))
        seconds = (end - start).total_seconds()
        length = max(6.0, seconds / whole * WIDTH)
        begin = min((start - first).total_seconds() / whole * WIDTH, WIDTH - length)
        out.append(Bar(name, last, begin, length, int(seconds)))
    return out


# -- outputs and snapshots --------------------------------------------------------------------------------


class OutputsPage(Part):
    """The outputs with their values."""

    template = "outputs.html"
    part = "outputs"

    def values(self, req: Request, api: Api, path: str, stack: JsonMap) -> Mapping[str, object]:
        shown = as_map(api.get(path).get("stack"))
        name = text(stack.get("stack_name"))
        return {"outputs": as_maps(shown.get("outputs")), "commands": [command(api.project, "outputs", name)]}


class SnapshotsPage(Part):
    """The snapshots, newest first."""

    template = "snapshots.html"
    part = "snapshots"

    def values(self, req: Request, api: Api, path: str, stack: JsonMap) -> Mapping[str, object]:
        found = as_maps(api.get(f"{path}/snapshots").get("snapshots"))
        name = text(stack.get("stack_name"))
        return {
            "snapshots": found[::-1],
            "commands": [shlex.join(("openstack", "stack", "snapshot", "list", name))],
        }


# -- health -----------------------------------------------------------------------------------------------


class HealthPage(Part):
    """Unhealthy resources, incidents, the policy, and the plan of a repair."""

    template = "health.html"
    part = "health"

    def values(self, req: Request, api: Api, path: str, stack: JsonMap) -> Mapping[str, object]:
        nodes = tree_of(api, path)
        every = [node for root in nodes for node in root.walk()]
        unwell = [node for node in every if node.health.get("state") and not node.members]
        name, asked = text(stack.get("stack_name")), {"target": text(stack.get("id")), "action": "STACK_CHECK"}
        shown: Mapping[str, object] = {
            "unwell": unwell,
            "checks": as_maps(api.get("/actions", limit=3, **asked).get("actions")),
            "others": [node.key for node in every if not node.members][:1000],
            "commands": [command(api.project, "resources", name)],
        }
        if not self._site.settings.has_feature("healing"):
            return shown
        return {**shown, **self._healing(req, api, path, stack, unwell)}

    def _healing(
        self, req: Request, api: Api, path: str, stack: JsonMap, unwell: Sequence[Node]
    ) -> Mapping[str, object]:
        from heatlite.features.healing.terms import IGNORABLE

        plan, refusal = repair(api, path, unwell)
        healed = healing(api, path, stack)
        incidents, after = page_of(as_maps(healed.get("incidents")), req.get_param("marker", default=""))
        name = text(stack.get("stack_name"))
        return {
            "heals": True,
            "healing": healed,
            "incidents": incidents,
            "next": after,
            "holder": holder(api, stack),
            "plan": plan,
            "refusal": refusal,
            "brakes": sorted(IGNORABLE),
            "commands": [
                command(api.project, "health", "show", name),
                command(api.project, "healing", "show", name),
            ],
        }


def page_of(found: Sequence[JsonMap], marker: str) -> tuple[Sequence[JsonMap], str]:
    """Return the page of a list after the item `marker`, and the next marker."""
    start = next((at for at, one in enumerate(found, 1) if one.get("id") == marker), 0)
    shown = found[start : start + PAGE]
    return shown, text(shown[-1].get("id")) if len(found) > start + PAGE else ""


def repair(api: Api, path: str, unwell: Sequence[Node]) -> tuple[JsonMap, str]:
    """Return the plan of a repair, or the reason why there is none."""
    if not any(node.health.get("state") == "unhealthy" for node in unwell):
        return {}, ""
    try:
        return as_map(as_map(api.send("PATCH", f"{path}/preview", {"heal": None})).get("plan")), ""
    except ApiError as error:
        if error.status not in (400, 403, 404, 409):
            raise
        # A reader has not asked for one.
        return {}, "" if error.status == HTTPStatus.FORBIDDEN else error.message


def healing(api: Api, path: str, stack: JsonMap) -> JsonMap:
    """Return the policy, the scopes and the incidents of a root stack."""
    try:
        return api.get(f"{path}/healing")
    except ApiError as error:
        if error.status not in (400, 403, 404) or stack.get("parent") is None:
            raise
        return {}


def holder(api: Api, stack: JsonMap) -> JsonMap:
    """Return the stack that holds a nested one; an empty object for a root stack."""
    if stack.get("parent") is None:
        return {}
    found = as_maps(api.get("/stacks", id=text(stack["parent"]), show_nested="True").get("stacks"))
    return found[0] if found else {}


# -- lock -------------------------------------------------------------------------------------------------


class LockPage(Part):
    """The lock, and the requests that it refused."""

    template = "lock.html"
    part = "lock"

    def values(self, req: Request, api: Api, path: str, stack: JsonMap) -> Mapping[str, object]:
        found = api.get(f"{path}/lock")
        return {
            "lock": as_map(found.get("lock")),
            "suppressed": as_maps(found.get("suppressed")),
            "dropped": as_map(found.get("dropped")),
            "commands": [command(api.project, "lock-status", text(stack.get("stack_name")))],
        }


# -- nodes ------------------------------------------------------------------------------------------------


class NodesPage(Part):
    """Machines with an agent, their actions, and the runs of playbooks."""

    template = "stack_nodes.html"
    part = "nodes"

    def values(self, req: Request, api: Api, path: str, stack: JsonMap) -> Mapping[str, object]:
        found = api.get(f"{path}/nodes")
        nodes = as_maps(found.get("nodes"))
        return {
            "nodes": nodes,
            "refused": as_maps(found.get("refused")),
            "labels": labels({text(one.get("id")): text(one.get("name")) for one in nodes}),
            "orchestration": as_map(found.get("orchestration")),
            "node_actions": as_maps(api.get(f"{path}/node_actions", limit=50).get("node_actions")),
            "playbooks": as_maps(api.get("/node_playbooks").get("node_playbooks")) if nodes else [],
            "commands": [
                command(api.project, "node", "list", text(stack.get("stack_name"))),
                command(api.project, "node", "actions", text(stack.get("stack_name"))),
            ],
            "playbook": "",
            "plan": {},
        }

    def on_post(self, req: Request, resp: Response, project: str, name: str, stack_id: str) -> None:
        """Show the page with the plan of a playbook. Nothing is done."""
        playbook, error = req.fields.get("playbook", ""), ""
        plan: JsonMap = {}
        try:
            body: JsonMap = {"playbook": playbook, "dry_run": True}
            path = f"/stacks/{name}/{stack_id}/node_playbook_runs"
            plan = as_map(self._site.api(req, project).send("POST", path, body))
        except ApiError as refusal:
            if refusal.status == HTTPStatus.UNAUTHORIZED:
                raise
            error = refused(resp, refusal)
        lines = [command(project, "node", "playbook", "run", "--dry-run", name, playbook)]
        self._show(req, resp, (project, name, stack_id), error, playbook=playbook, plan=plan, commands=lines)


