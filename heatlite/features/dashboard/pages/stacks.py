"""The list of stacks of a project."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from falcon import Response

from heatlite.core.json import JsonMap, as_map, as_maps
from heatlite.core.status import LIVE_ACTIONS
from heatlite.features.dashboard.client import ProjectApi, href, number, text
from heatlite.features.dashboard.site import BrowserRequest, Site, command, stack_home

PAGE: Final = 100
ONLY: Final = ("unhealthy", "locked")
"""Filters of the API that are true or absent."""
RUNNING: Final = ",".join(sorted(LIVE_ACTIONS))


class StacksPage:
    """The stacks of a project: health, lock, running action."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: BrowserRequest, resp: Response, project: str) -> None:
        """Show a page of the list."""
        marker, given = req.get_param("marker", default=""), filters(req)
        asked = {name: value for name, value in given.items() if name != "only"}
        options = [part for name, value in asked.items() for part in (f"--{name}", value)]
        if "only" in given:
            asked[given["only"]] = "true"
            options.append(f"--{given['only']}")
        if marker:
            asked["marker"] = marker
        api = self._site.api(req, project)
        found = api.get("/stacks", limit=PAGE, sort_keys="stack_name", sort_dir="asc", with_count="true", **asked)
        objects = find_objects(api, given.get("search", "")) if not marker else []
        stacks = as_maps(found.get("stacks"))
        self._site.show(
            req,
            resp,
            "stacks.html",
            project,
            tab="stacks",
            stacks=[_row(req, project, one) for one in stacks],
            running=running(api, [text(one.get("id")) for one in stacks]),
            counts=(counts := as_map(api.get("/counts").get("counts"))),
            waiting=counts.get("waiting"),
            count=number(found.get("count")),
            given=given,
            objects=[_place(req, project, one) for one in objects],
            marker=marker,
            next=text(stacks[-1].get("id")) if href(found.get("links"), "next") else "",
            commands=[
                *([command(project, "find", given["search"])] if objects else []),
                *([command(project, "ls", *options)] if stacks or not objects else []),
            ],
        )


def filters(req: BrowserRequest) -> dict[str, str]:
    """Return the filters of a request that have a value."""
    given = {name: req.get_param(name, default="").strip() for name in ("search", "status", "only")}
    return {name: value for name, value in given.items() if value and (name != "only" or value in ONLY)}


def find_objects(api: ProjectApi, physical_id: str) -> list[JsonMap]:
    """Return the resources of a project that have an object."""
    if not physical_id:
        return []
    return as_maps(api.get("/resources", physical_resource_id=physical_id).get("resources"))


def running(api: ProjectApi, stack_ids: Sequence[str]) -> Mapping[str, JsonMap]:
    """Return the unfinished actions of stacks by their stack.

    A large tree has more of them than a list of the API.
    """
    found: dict[str, JsonMap] = {}
    if not stack_ids:
        return found
    listed = as_map(api.send("GET", "/actions", query={"status": RUNNING, "target": stack_ids}))
    for action in as_maps(listed.get("actions")):
        found.setdefault(text(action.get("target")), action)
    return found


def _place(req: BrowserRequest, project: str, found: JsonMap) -> JsonMap:
    root = stack_home(req, project, text(found.get("root_stack_name")), text(found.get("root_stack_id")))
    return {**found, "page": f"{root}/resources/{quote(text(found.get('path')))}"}


def _row(req: BrowserRequest, project: str, stack: JsonMap) -> JsonMap:
    return {**stack, "page": stack_home(req, project, text(stack.get("stack_name")), text(stack.get("id")))}


class Events:
    """The event stream of a project."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: BrowserRequest, resp: Response, project: str) -> None:
        """Pass the stream on. An EventSource can send no header with credentials."""
        changes = {"HTTP_ACCEPT": "text/event-stream"}
        last = req.get_header("Last-Event-ID")
        if last:
            changes["HTTP_LAST_EVENT_ID"] = last
        answer = self._site.api(req, project).open("GET", "/events", {}, changes)
        resp.status = HTTPStatus(answer.status)
        resp.content_type = answer.headers.get("content-type", "")
        resp.set_header("X-Accel-Buffering", "no")
        resp.stream = answer.chunks
