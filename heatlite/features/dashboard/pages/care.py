"""Progress, outputs, snapshots, health and lock of one stack."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from heatlite.core.json import JsonMap, as_map, as_maps
from heatlite.features.dashboard.client import ProjectApi, text
from heatlite.features.dashboard.frames import StackPage
from heatlite.features.dashboard.pages.stack import events
from heatlite.features.dashboard.pages.tree import tree_of
from heatlite.features.dashboard.rendering import parsed
from heatlite.features.dashboard.site import BrowserRequest, command

MOST_EVENTS = 2000
"""Events that the timeline reads."""
MOST_BARS = 300
WIDTH = 1000
"""Units of a timeline."""


# -- progress ---------------------------------------------------------------------------------------------


class Bar(Struct, frozen=True):
    """A part of the work on a resource: its begin and length in units of the timeline."""

    name: str
    status: str
    start: float
    length: float
    seconds: int


class ProgressPage(StackPage):
    """The last operation as a timeline, its first failure, and its actions."""

    template = "progress.html"
    part = "progress"

    def values(self, req: BrowserRequest, api: ProjectApi, path: str, stack: JsonMap) -> Mapping[str, object]:
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


class OutputsPage(StackPage):
    """The outputs with their values."""

    template = "outputs.html"
    part = "outputs"

    def values(self, req: BrowserRequest, api: ProjectApi, path: str, stack: JsonMap) -> Mapping[str, object]:
        shown = as_map(api.get(path).get("stack"))
        name = text(stack.get("stack_name"))
        return {"outputs": as_maps(shown.get("outputs")), "commands": [command(api.project, "outputs", name)]}


class SnapshotsPage(StackPage):
    """The snapshots, newest first."""

    template = "snapshots.html"
    part = "snapshots"

    def values(self, req: BrowserRequest, api: ProjectApi, path: str, stack: JsonMap) -> Mapping[str, object]:
        found = as_maps(api.get(f"{path}/snapshots").get("snapshots"))
        name = text(stack.get("stack_name"))
        return {
            "snapshots": found[::-1],
            "commands": [shlex.join(("openstack", "stack", "snapshot", "list", name))],
        }


# -- health -----------------------------------------------------------------------------------------------


class HealthPage(StackPage):
    """Unhealthy resources, checks and marks."""

    template = "health.html"
    part = "health"

    def values(self, req: BrowserRequest, api: ProjectApi, path: str, stack: JsonMap) -> Mapping[str, object]:
        nodes = tree_of(api, path)
        every = [node for root in nodes for node in root.walk()]
        sections = [section for one in self._site.added for section in one.of_health]
        values = {name: value for one in sections for name, value in one.values(req, api, stack).items()}
        asked = {"target": text(stack.get("id")), "action": "STACK_CHECK"}
        lines = [line for one in sections for line in one.commands(api, stack)]
        return {
            **values,
            "unwell": [node for node in every if node.health.get("state") and not node.members],
            "checks": as_maps(api.get("/actions", limit=3, **asked).get("actions")),
            "others": [node.key for node in every if not node.members][:1000],
            "sections": sections,
            "commands": lines or [command(api.project, "resources", text(stack.get("stack_name")))],
        }


# -- lock -------------------------------------------------------------------------------------------------


class LockPage(StackPage):
    """The lock, and the requests that it refused."""

    template = "lock.html"
    part = "lock"

    def values(self, req: BrowserRequest, api: ProjectApi, path: str, stack: JsonMap) -> Mapping[str, object]:
        found = api.get(f"{path}/lock")
        return {
            "lock": as_map(found.get("lock")),
            "suppressed": as_maps(found.get("suppressed")),
            "dropped": as_map(found.get("dropped")),
            "commands": [command(api.project, "lock-status", text(stack.get("stack_name")))],
        }
