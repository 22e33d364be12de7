"""Pages of drift, and its part of the page of a stack."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from heatlite.core.json import Json, JsonMap, as_map, as_maps
from heatlite.features.dashboard.client import ApiError, ProjectApi, href, text
from heatlite.features.dashboard.frames import (
    Fields,
    Pages,
    ProjectPage,
    Section,
    StackPage,
    names_of,
    page_query,
    stack_action,
)
from heatlite.features.dashboard.site import BrowserRequest, Tab, command

ACTIONS: Final = ("revert_drift", "accept_drift")


class ProjectDriftPage(ProjectPage):
    """The drift of all stacks of the project."""

    template, tab = "drift.html", "drift"

    def values(self, req: BrowserRequest, api: ProjectApi, **parts: str) -> Mapping[str, object]:
        found = api.get("/drift", **page_query(req))
        listed = _listed(found)
        roots = [text(one.get("root_stack_id")) for one in as_maps(as_map(found.get("drift")).get("resources"))]
        return {**listed, "names": names_of(api, roots), "commands": [command(api.project, "drift", "show")]}


class StackDriftPage(StackPage):
    """The drift of a tree, with the plan of a way out on request.

    A plan reads the objects in the cloud.
    """

    template, part = "stack_drift.html", "drift"

    def values(self, req: BrowserRequest, api: ProjectApi, path: str, stack: JsonMap) -> Mapping[str, object]:
        found, name = api.get(f"{path}/drift", **page_query(req)), req.get_param("plan", default="")
        has_ways_out = stack.get("parent") is None and bool(as_map(found.get("drift")).get("drifted"))
        plan = _plan(api, path, name) if has_ways_out and name in ACTIONS else None
        values = {"has_ways_out": has_ways_out, "plan": plan, "commands": _of_stack_commands(api, stack)}
        return {**_listed(found), **values}


def _listed(found: JsonMap) -> Mapping[str, object]:
    """Return the numbers and the resources of a list, and the marker of its next page."""
    following = parse_qs(urlsplit(href(found.get("links"), "next")).query)
    drift = as_map(found.get("drift"))
    return {"drift": drift, "entries": as_maps(drift.get("resources")), "next": following.get("marker", [""])[0]}


def _plan(api: ProjectApi, path: str, name: str) -> JsonMap:
    """Return the plan of an action, or the reason why there is none."""
    try:
        return {"name": name, **as_map(as_map(api.send("PATCH", f"{path}/preview", {name: {}})).get("plan"))}
    except ApiError as error:
        if error.status not in (400, 403, 404, 409):
            raise
        # A reader has not asked for one.
        return {"name": name, "refusal": "" if error.status == HTTPStatus.FORBIDDEN else error.message}


def _of_stack(_req: BrowserRequest, _api: ProjectApi, stack: JsonMap) -> Mapping[str, object]:
    """Return the numbers of a stack."""
    return {"drifted": as_map(stack.get("drift") or {}).get("drifted") or 0}


def _of_stack_commands(api: ProjectApi, stack: JsonMap) -> Sequence[str]:
    return [command(api.project, "drift", "show", text(stack.get("stack_name")))]


def _approved(fields: Fields) -> Json:
    """Return the options of an action whose plan a user has seen."""
    return {"plan_digest": fields.get("digest", "")}


PAGES = Pages(
    Path(__file__).with_name("templates"),
    tabs=(Tab("drift", "Drift", "/drift", "stacks:list_drift"),),
    project={"/drift": ProjectDriftPage},
    stack={"/drift": ("Drift", StackDriftPage)},
    stack_forms={name: stack_action(name, _approved) for name in ACTIONS},
    after_stack_forms={"revert_drift": "/progress", "accept_drift": "/drift"},
    of_stack=(Section("stack_drifted.html", _of_stack, commands=_of_stack_commands),),
    done={"revert_drift": "The update has begun.", "accept_drift": "The definition has the live values."},
)
