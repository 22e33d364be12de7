"""Pages of nodes, their actions, and playbooks, and their parts of other pages."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

from falcon import Response

from heatlite.core.json import Json, JsonMap, as_map, as_maps, parse
from heatlite.features.dashboard.client import ApiError, ProjectApi, href, quoted, text
from heatlite.features.dashboard.frames import (
    Act,
    DecisionKind,
    Fields,
    Pages,
    ProjectPage,
    Section,
    StackPage,
    WaitingRequests,
    following,
    labels,
    options,
    page_query,
)
from heatlite.features.dashboard.site import BrowserRequest, Tab, command, refused


class NodeActionsPage(ProjectPage):
    """Actions on nodes, newest first."""

    template, tab = "nodes.html", "nodes"

    def values(self, req: BrowserRequest, api: ProjectApi, **parts: str) -> Mapping[str, object]:
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

    def values(self, req: BrowserRequest, api: ProjectApi, **parts: str) -> Mapping[str, object]:
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

    def values(self, req: BrowserRequest, api: ProjectApi, **parts: str) -> Mapping[str, object]:
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


class NodesPage(StackPage):
    """Machines with an agent, their actions, and the runs of playbooks."""

    template = "stack_nodes.html"
    part = "nodes"

    def values(self, req: BrowserRequest, api: ProjectApi, path: str, stack: JsonMap) -> Mapping[str, object]:
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

    def on_post(self, req: BrowserRequest, resp: Response, project: str, name: str, stack_id: str) -> None:
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


# -- forms ------------------------------------------------------------------------------------------------


def _decision(kind: str, deed: str) -> Act:
    def act(api: ProjectApi, given: Fields) -> Json:
        body: JsonMap = {"digest": given["digest"]} if deed == "approve" and given.get("digest") else {}
        return api.send("POST", f"/{kind}/{quoted(given['id'])}/{deed}", body)

    return act


def _cancel(api: ProjectApi, given: Fields) -> Json:
    return api.send("POST", f"/node_actions/{quoted(given['id'])}/cancel")


def _save(api: ProjectApi, given: Fields) -> Json:
    document = given["document"].replace("\r\n", "\n")
    return api.send("PUT", f"/node_playbooks/{quoted(given['name'])}", {"document": document})


def _delete(api: ProjectApi, given: Fields) -> Json:
    return api.send("DELETE", f"/node_playbooks/{quoted(given['name'])}")


def _orchestrate(api: ProjectApi, stack: str, _fields: Fields) -> Json:
    return api.send("POST", f"{stack}/orchestrate")


def _node_action(api: ProjectApi, stack: str, fields: Fields) -> None:
    try:
        args = parse(fields.get("args") or "{}")
    except ValueError as error:
        raise ApiError(400, {"title": f"The arguments are not JSON: {error}."}) from None
    body = {"node": fields.get("node", ""), "kind": fields.get("kind", ""), "args": args}
    api.send("POST", f"{stack}/node_actions", body)


def _run(api: ProjectApi, stack: str, fields: Fields) -> Json:
    return api.send("POST", f"{stack}/node_playbook_runs", {"playbook": fields.get("playbook", "")})


# -- the page of a run -------------------------------------------------------------------------------------


def _of_run(_req: BrowserRequest, api: ProjectApi, action: JsonMap) -> Mapping[str, object]:
    """Return a run of a playbook as stages and nodes."""
    if not _is_run(action):
        return {}
    answer = api.get("/node_actions", run=text(action.get("id")), sort="created_at:asc")
    found = as_maps(answer.get("node_actions"))
    return {
        "stages": as_maps(as_map(action.get("inputs")).get("stages")),
        "nodes": labels({text(one.get("node_id")): text(one.get("node")) for one in found}),
        "cells": {(one.get("stage"), one.get("node_id")): one for one in found},
        "more": href(answer.get("links"), "next"),
    }


def _of_run_commands(api: ProjectApi, action: JsonMap) -> Sequence[str]:
    return [command(api.project, "node", "actions", "--run", text(action.get("id")))] if _is_run(action) else []


def _is_run(action: JsonMap) -> bool:
    return action.get("action") == "STACK_PLAYBOOK"


# -- approvals ---------------------------------------------------------------------------------------------

NEWEST: Final = 30
"""Actions on nodes that the page of approvals shows."""


def _pending(api: ProjectApi) -> WaitingRequests:
    # Those of a run wait with it.
    found = api.get("/node_actions", state="PENDING_APPROVE", requester="user")
    ids = [text(one.get("id")) for one in as_maps(found.get("node_actions"))]
    items = [as_map(api.get(f"/node_actions/{one}").get("node_action")) for one in ids[:NEWEST]]
    more = f"{'At least ' if href(found.get('links'), 'next') else ''}{len(ids) - NEWEST} more wait."
    return WaitingRequests(
        items,
        stacks=[text(one.get("stack")) for one in items],
        notice=more if len(ids) > NEWEST else "",
        command=command(api.project, "node", "actions", "--state", "PENDING_APPROVE"),
    )


def _runs(api: ProjectApi) -> WaitingRequests:
    found = api.get("/actions", action="STACK_PLAYBOOK", status="INIT")
    return WaitingRequests(
        as_maps(found.get("actions")),
        stacks=(),
        notice="More runs wait." if href(found.get("links"), "next") else "",
        command=command(api.project, "action", "list", "--action", "STACK_PLAYBOOK", "--status", "INIT"),
    )


PAGES = Pages(
    Path(__file__).with_name("templates"),
    tabs=(
        Tab("nodes", "Nodes", "/nodes", "node_actions:list"),
        Tab("playbooks", "Playbooks", "/playbooks", "node_playbooks:list"),
    ),
    project={
        "/nodes": NodeActionsPage,
        "/nodes/{node_action}": NodeActionPage,
        "/playbooks": PlaybooksPage,
    },
    stack={"/nodes": ("Nodes", NodesPage)},
    forms={
        "approve": _decision("node_actions", "approve"),
        "reject": _decision("node_actions", "reject"),
        "cancel": _cancel,
        "approve_run": _decision("node_playbook_runs", "approve"),
        "reject_run": _decision("node_playbook_runs", "reject"),
        "playbook": _save,
        "delete_playbook": _delete,
    },
    stack_forms={"orchestrate": _orchestrate, "node_action": _node_action, "run": _run},
    pages_of_forms={"cancel": "/nodes", "playbook": "/playbooks", "delete_playbook": "/playbooks"},
    decisions=(
        DecisionKind(
            "node",
            template="approve_node_actions.html",
            waiting=_pending,
            approve="approve",
            approve_rule="node_actions:approve",
            reject="reject",
            reject_rule="node_actions:reject",
        ),
        DecisionKind(
            "run",
            template="approve_runs.html",
            waiting=_runs,
            approve="approve_run",
            approve_rule="node_playbooks:approve",
            reject="reject_run",
            reject_rule="node_playbooks:reject",
        ),
    ),
    of_action=(Section("run_stages.html", _of_run, commands=_of_run_commands),),
    done={
        "approve": "Approved.",
        "approve_run": "The run is approved.",
        "cancel": "The cancellation is asked for.",
        "delete_playbook": "The playbook is gone.",
        "node_action": "The action waits for approval.",
        "orchestrate": "The nodes are being polled.",
        "playbook": "The playbook is saved.",
        "reject": "Rejected.",
        "reject_run": "The run is rejected.",
        "run": "The run waits for approval.",
    },
    long_forms=("node_action", "playbook"),
)
