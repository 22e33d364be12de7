"""Pages of what will happen by itself, and its part of the page of a stack."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from heatlite.core.json import JsonMap, as_map, as_maps
from heatlite.features.dashboard.client import ApiError, ProjectApi, href, text
from heatlite.features.dashboard.frames import Pages, ProjectPage, Section, StackPage, page_query
from heatlite.features.dashboard.site import BrowserRequest, Tab, command


class ProjectSchedulesPage(ProjectPage):
    """All that will happen by itself in the project, the next first."""

    template, tab = "schedules.html", "schedules"

    def values(self, req: BrowserRequest, api: ProjectApi, **parts: str) -> Mapping[str, object]:
        found = api.get("/schedules", **page_query(req))
        return {**_listed(found), "commands": [command(api.project, "schedule", "list")]}


class StackSchedulesPage(StackPage):
    """All that will happen by itself to a stack."""

    template, part = "stack_schedules.html", "schedules"

    def values(self, req: BrowserRequest, api: ProjectApi, path: str, stack: JsonMap) -> Mapping[str, object]:
        found = api.get("/schedules", stack=text(stack.get("id")), **page_query(req))
        return {**_listed(found), "commands": _of_stack_commands(api, stack)}


def _listed(found: JsonMap) -> Mapping[str, object]:
    """Return the entries of a page, and the marker of the next one."""
    following = parse_qs(urlsplit(href(found.get("links"), "next")).query)
    return {"entries": as_maps(found.get("schedules")), "next": following.get("marker", [""])[0]}


def _of_stack(_req: BrowserRequest, api: ProjectApi, stack: JsonMap) -> Mapping[str, object]:
    """Return the next thing that happens, and the expiry."""
    try:
        found = as_maps(api.get("/schedules", stack=text(stack.get("id")), limit=1).get("schedules"))
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        found = []
    return {"coming": [one for one in found if one.get("next_at")], "expiry": as_map(stack.get("expiry") or {})}


def _of_stack_commands(api: ProjectApi, stack: JsonMap) -> Sequence[str]:
    return [command(api.project, "schedule", "list", text(stack.get("stack_name")))]


PAGES = Pages(
    Path(__file__).with_name("templates"),
    tabs=(Tab("schedules", "Schedules", "/schedules", "stacks:show_schedule"),),
    project={"/schedules": ProjectSchedulesPage},
    stack={"/schedules": ("Schedules", StackSchedulesPage)},
    of_stack=(Section("stack_next.html", _of_stack, commands=_of_stack_commands),),
)
