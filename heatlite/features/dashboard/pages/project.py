"""Pages of a whole project.

They show actions, approvals, incidents, nodes, playbooks and engines.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, TypeAlias

import falcon
from falcon import Response

from heatlite.core.json import Json, JsonMap, as_map, as_maps
from heatlite.features.dashboard.client import Api, ApiError, href, quoted, text
from heatlite.features.dashboard.site import Request, Site, command, go, home, refused

PAGE: Final = 100
NEWEST: Final = 30


class ProjectPage(ABC):
    """A page below a project."""

    template = ""
    tab = ""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: Request, resp: Response, project: str, error: str = "", **parts: str) -> None:
        """Show the page."""
        values = self.values(req, self._site.api(req, project), **parts)
        self._site.show(req, resp, self.template, project, error, tab=self.tab, **values)

    @abstractmethod
    def values(self, req: Request, api: Api, **parts: str) -> Mapping[str, object]:
        """Return the values of the template."""


def page_query(req: Request, *names: str) -> dict[str, str | int]:
    """Return the part of a query that a list of the API takes."""
    given = {name: req.get_param(name, default="") for name in (*names, "marker")}
    return {"limit": PAGE, **{name: value for name, value in given.items() if value}}


def options(asked: Mapping[str, str | int]) -> list[str]:
    """Return the options of a command line with the same filters."""
    return [part for name in sorted(asked.keys() - {"limit", "marker"}) for part in (f"--{name}", str(asked[name]))]


def following(found: JsonMap, items: list[JsonMap], key: str = "id") -> str:
    """Return the marker of the next page, or an empty text."""
    return text(items[-1].get(key)) if items and href(found.get("links"), "next") else ""


def names_of(api: Api, stack_ids: Sequence[str]) -> dict[str, str]:
    """Return ids of live stacks → names."""
    if not stack_ids:
        return {}
    found = api.send("GET", "/stacks", query={"id": sorted({*stack_ids}), "show_nested": "true"})
    return {text(one.get("id")): text(one.get("stack_name")) for one in as_maps(as_map(found).get("stacks"))}


class ActionsPage(ProjectPage):
    """The actions of the project, newest first."""

    template, tab = "actions.html", "actions"

    def values(self, req: Request, api: Api, **parts: str) -> Mapping[str, object]:
        asked = page_query(req, "status", "action", "target")
        found = api.get("/actions", **asked)
        actions = as_maps(found.get("actions"))
        return {
            "actions": actions,
            "names": names_of(api, [text(one.get("target")) for one in actions]),
            "asked": asked,
            "next": following(found, actions),
            "commands": [command(api.project, "action", "list", *options(asked))],
        }


class ActionPage(ProjectPage):
    """An action with its history; a run of a playbook also as stages and nodes."""

    template, tab = "action.html", "actions"

    def values(self, req: Request, api: Api, **parts: str) -> Mapping[str, object]:
        reference = parts["action"]
        action = as_map(api.get(f"/actions/{quoted(reference)}").get("action"))
        answer: JsonMap = {}
        lines = [command(api.project, "action", "show", text(action.get("name")))]
        if action.get("action") == "STACK_PLAYBOOK":
            answer = api.get("/node_actions", run=text(action.get("id")), sort="created_at:asc")
            lines.append(command(api.project, "node", "actions", "--run", text(action.get("id"))))
        found = as_maps(answer.get("node_actions"))
        return {
            "action": action,
            "history": as_maps(api.get(f"/actions/{quoted(reference)}/history").get("history")),
            "stages": as_maps(as_map(action.get("inputs")).get("stages")),
            "nodes": labels({text(one.get("node_id")): text(one.get("node")) for one in found}),
            "cells": {(one.get("stage"), one.get("node_id")): one for one in found},
            "more": href(answer.get("links"), "next"),
            "commands": lines,
        }


def labels(names: Mapping[str, str]) -> dict[str, str]:
    """Return ids of nodes → unique names, sorted by name.

    Nested stacks may use the same names.
    """
    count = Counter(names.values())
    unique = {key: name if count[name] == 1 else f"{name} ({key})" for key, name in names.items()}
    return dict(sorted(unique.items(), key=lambda item: item[1]))


class ApprovalsPage(ProjectPage):
    """Everything that waits for a decision."""

    template, tab = "approvals.html", "approvals"

    def values(self, req: Request, api: Api, **parts: str) -> Mapping[str, object]:
        asked = {"state": "PENDING_APPROVE", "requester": "user"}  # those of a run wait with it
        found = api.get("/node_actions", **asked)
        single = [text(one.get("id")) for one in as_maps(found.get("node_actions"))]
        waiting_runs = api.get("/actions", action="STACK_PLAYBOOK", status="INIT")
        incidents = api.get("/incidents", state="PROPOSED")
        runs, proposed = as_maps(waiting_runs.get("actions")), as_maps(incidents.get("incidents"))
        pending = [as_map(api.get(f"/node_actions/{one}").get("node_action")) for one in single[:NEWEST]]
        stacks = [text(one.get("stack")) for one in pending] + [text(one.get("root_stack_id")) for one in proposed]
        return {
            "pending": pending,
            "more": max(0, len(single) - NEWEST),
            "is_least": href(found.get("links"), "next"),
            "more_others": any(href(one.get("links"), "next") for one in (waiting_runs, incidents)),
            "runs": runs,
            "proposed": proposed,
            "names": names_of(api, stacks),
            "commands": [
                command(api.project, "node", "actions", "--state", "PENDING_APPROVE"),
                command(api.project, "action", "list", "--action", "STACK_PLAYBOOK", "--status", "INIT"),
                command(api.project, "incident", "list", "--state", "PROPOSED"),
            ],
        }


class HealingPage(ProjectPage):
    """The incidents and healing policies of the project."""

    template, tab = "healing.html", "healing"

    def values(self, req: Request, api: Api, **parts: str) -> Mapping[str, object]:
        asked = page_query(req, "state")
        if asked.get("state") == "any":
            del asked["state"]
        elif "state" not in asked:
            asked["state"] = OPEN_STATES
        found = api.get("/incidents", **asked)
        incidents = as_maps(found.get("incidents"))
        policies = api.get("/healing")
        return {
            "incidents": incidents,
            "names": names_of(api, [text(one.get("root_stack_id")) for one in incidents]),
            "state": req.get_param("state", default=""),
            "policies": as_maps(policies.get("healing_policies")),
            "more_policies": href(policies.get("links"), "next"),
            "next": following(found, incidents),
            "commands": [
                command(api.project, "incident", "list", *options(asked)),
                command(api.project, "healing", "list"),
            ],
        }


OPEN_STATES: Final = "OBSERVED,CONFIRMED,MARKED,PROPOSED,REPAIRING,SETTLING"


class NodeActionsPage(ProjectPage):
    """Actions on nodes, newest first."""

    template, tab = "nodes.html", "nodes"

    def values(self, req: Request, api: Api, **parts: str) -> Mapping[str, object]:
        asked = page_query(req, "state", "node")
        found = api.get("/node_actions", **asked)
        listed = as_maps(found.get("node_actions"))
        return {
            "node_actions": listed,
            "asked": asked,
            "next": following(found, listed),
            "commands": [command(api.project, "node", "actions", *options(asked))],
        }


class NodeActionPage(ProjectPage):
    """An action on a node, with its history."""

    template, tab = "node_action.html", "nodes"

    def values(self, req: Request, api: Api, **parts: str) -> Mapping[str, object]:
        one = as_map(api.get(f"/node_actions/{quoted(parts['node_action'])}").get("node_action"))
        return {"one": one, "commands": [command(api.project, "node", "show", text(one.get("id")))]}


START: Final = """node_playbook: 2026-11-21
stages:
  - name: first
    nodes: all
    at_once: 1
    action: {kind: script, args: {config: "uptime"}}
"""


class PlaybooksPage(ProjectPage):
    """Playbooks of the project, and their runs."""

    template, tab = "playbooks.html", "playbooks"

    def values(self, req: Request, api: Api, **parts: str) -> Mapping[str, object]:
        chosen = req.get_param("name", default="")
        document = START
        if chosen:
            document = text(as_map(api.get(f"/node_playbooks/{quoted(chosen)}").get("node_playbook")).get("document"))
        return {
            "playbooks": as_maps(api.get("/node_playbooks").get("node_playbooks")),
            "runs": as_maps(api.get("/actions", action="STACK_PLAYBOOK", limit=50).get("actions")),
            "chosen": chosen,
            "document": req.fields.get("document") or document,
            "commands": [
                command(api.project, "node", "playbook", *(("show", chosen) if chosen else ("list",))),
                command(api.project, "action", "list", "--action", "STACK_PLAYBOOK"),
            ],
        }


class ServicesPage(ProjectPage):
    """Engines and their running actions."""

    template, tab = "services.html", "services"

    def values(self, req: Request, api: Api, **parts: str) -> Mapping[str, object]:
        services = as_maps(api.get("/services").get("services"))
        return {"services": services, "commands": [command(api.project, "services")]}


# -- forms ------------------------------------------------------------------------------------------------

Fields: TypeAlias = Mapping[str, str]
Act: TypeAlias = Callable[[Api, Fields], Json]


def _digest(fields: Fields) -> JsonMap:
    return {"digest": fields["digest"]} if fields.get("digest") else {}


PICK: Final = "pick:"
"""Prefix of checkboxes: ``pick:KIND:ID`` with a digest as value."""
DECISIONS: Mapping[tuple[str, str], str] = {
    ("node", "approve"): "approve",
    ("node", "reject"): "reject",
    ("run", "approve"): "approve_run",
    ("run", "reject"): "reject_run",
    ("repair", "approve"): "approve_repair",
    ("repair", "reject"): "close",
}
"""Forms that decide on a kind of request."""


def _decide(api: Api, given: Fields) -> Json:
    """Approve or reject each chosen request. Raises ApiError with all refusals."""
    refusals, done = [], 0
    for field, digest in given.items():
        kind, _, one = field.removeprefix(PICK).partition(":")
        deed = DECISIONS.get((kind, given["decision"]))
        if not field.startswith(PICK) or deed is None:
            continue
        try:
            DEEDS[deed](api, {"id": one, "digest": digest})
            done += 1
        except ApiError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                raise
            refusals.append(error.message)
    if refusals:
        raise ApiError(HTTPStatus.CONFLICT, {"title": f"{done} decided, {len(refusals)} refused: {' '.join(refusals)}"})
    if not done:
        raise ApiError(HTTPStatus.BAD_REQUEST, {"title": "Choose at least one request."})
    return None


DEEDS: Mapping[str, Act] = {
    "decide": _decide,
    "approve": lambda api, given: api.send("POST", f"/node_actions/{quoted(given['id'])}/approve", _digest(given)),
    "reject": lambda api, given: api.send("POST", f"/node_actions/{quoted(given['id'])}/reject", _digest(given)),
    "cancel": lambda api, given: api.send("POST", f"/node_actions/{quoted(given['id'])}/cancel"),
    "approve_run": lambda api, given: api.send(
        "POST", f"/node_playbook_runs/{quoted(given['id'])}/approve", _digest(given)
    ),
    "reject_run": lambda api, given: api.send("POST", f"/node_playbook_runs/{quoted(given['id'])}/reject"),
    "signal": lambda api, given: api.send("POST", f"/actions/{quoted(given['id'])}", {"signal": given["signal"]}),
    "close": lambda api, given: api.send(
        "POST", f"/incidents/{quoted(given['id'])}/close", {"reason": given.get("reason", "")}
    ),
    "approve_repair": lambda api, given: api.send(
        "POST", f"/incidents/{quoted(given['id'])}/approve", {"plan_digest": given.get("digest", "")}
    ),
    "playbook": lambda api, given: api.send(
        "PUT", f"/node_playbooks/{quoted(given['name'])}", {"document": given["document"].replace("\r\n", "\n")}
    ),
    "delete_playbook": lambda api, given: api.send("DELETE", f"/node_playbooks/{quoted(given['name'])}"),
}
"""Forms by the last part of their address."""

PAGES: Mapping[str, tuple[type[ProjectPage], str]] = {
    "cancel": (NodeActionsPage, "/nodes"),
    "signal": (ActionsPage, "/actions"),
    "close": (HealingPage, "/healing"),
    "playbook": (PlaybooksPage, "/playbooks"),
    "delete_playbook": (PlaybooksPage, "/playbooks"),
}
"""Pages that a form returns to, if it is not on the page of approvals."""
APPROVALS: tuple[type[ProjectPage], str] = (ApprovalsPage, "/approvals")


class ProjectDeed:
    """The forms of a project's pages."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def show_again(self, req: Request, resp: Response, error: str, project: str, deed: str, **_parts: str) -> None:
        """Show the page that has the form, with an error."""
        page, path = PAGES.get(deed, APPROVALS)
        req.page = home(req, project) + path
        page(self._site).on_get(req, resp, project, error)

    def on_post(self, req: Request, resp: Response, project: str, deed: str) -> None:
        """Act, and return to the page that has the form."""
        if deed not in DEEDS:
            raise falcon.HTTPNotFound
        try:
            DEEDS[deed](self._site.api(req, project), req.fields)
        except KeyError as error:
            resp.status = HTTPStatus.BAD_REQUEST
            self.show_again(req, resp, f"The form lacks {error.args[0]}.", project, deed)
        except ApiError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                raise
            self.show_again(req, resp, refused(resp, error), project, deed)
        else:
            go(resp, home(req, project) + PAGES.get(deed, APPROVALS)[1], did=deed)
