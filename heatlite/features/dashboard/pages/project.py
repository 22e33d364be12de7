"""Pages of a whole project: actions, approvals and engines."""

from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

import falcon
from falcon import Response

from heatlite.core.json import Json, as_map, as_maps
from heatlite.features.dashboard.client import ApiError, ProjectApi, quoted, text
from heatlite.features.dashboard.frames import (
    Act,
    DecisionKind,
    Fields,
    Pages,
    ProjectPage,
    following,
    names_of,
    options,
    page_query,
)
from heatlite.features.dashboard.site import BrowserRequest, Site, command, go, home, refused

APPROVALS: Final = "/approvals"


class ActionsPage(ProjectPage):
    """The actions of the project, newest first."""

    template, tab = "actions.html", "actions"

    def values(self, req: BrowserRequest, api: ProjectApi, **parts: str) -> Mapping[str, object]:
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
    """An action with its history."""

    template, tab = "action.html", "actions"

    def values(self, req: BrowserRequest, api: ProjectApi, **parts: str) -> Mapping[str, object]:
        reference = parts["action"]
        action = as_map(api.get(f"/actions/{quoted(reference)}").get("action"))
        sections = [section for one in self._site.added for section in one.of_action]
        values = {name: value for one in sections for name, value in one.values(req, api, action).items()}
        return {
            **values,
            "action": action,
            "history": as_maps(api.get(f"/actions/{quoted(reference)}/history").get("history")),
            "sections": sections,
            "commands": [
                command(api.project, "action", "show", text(action.get("name"))),
                *(line for one in sections for line in one.commands(api, action)),
            ],
        }


class ApprovalsPage(ProjectPage):
    """Everything that waits for a decision."""

    template, tab = "approvals.html", "approvals"

    def values(self, req: BrowserRequest, api: ProjectApi, **parts: str) -> Mapping[str, object]:
        found = [(kind, kind.waiting(api)) for one in self._site.added for kind in one.decisions]
        lines = [waiting.command for _, waiting in found]
        return {
            "decisions": found,
            "count": sum(len(waiting.items) for _, waiting in found),
            "names": names_of(api, [stack for _, waiting in found for stack in waiting.stacks]),
            "commands": lines or [command(api.project, "action", "list")],
        }


class ServicesPage(ProjectPage):
    """Engines and their running actions."""

    template, tab = "services.html", "services"

    def values(self, req: BrowserRequest, api: ProjectApi, **parts: str) -> Mapping[str, object]:
        services = as_maps(api.get("/services").get("services"))
        return {"services": services, "commands": [command(api.project, "services")]}


# -- forms ------------------------------------------------------------------------------------------------

PICK: Final = "pick:"
"""Prefix of checkboxes: ``pick:KIND:ID`` with a digest as value."""


def _decide(forms: Mapping[str, Act], decisions: Sequence[DecisionKind], api: ProjectApi, given: Fields) -> Json:
    """Approve or reject each chosen request. Raises ApiError with all refusals."""
    deeds = {(one.key, "approve"): one.approve for one in decisions}
    deeds |= {(one.key, "reject"): one.reject for one in decisions}
    refusals, done = [], 0
    for field, digest in given.items():
        kind, _, one = field.removeprefix(PICK).partition(":")
        deed = deeds.get((kind, given["decision"]))
        if not field.startswith(PICK) or deed is None:
            continue
        try:
            forms[deed](api, {"id": one, "digest": digest})
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


def _signal(api: ProjectApi, given: Fields) -> Json:
    return api.send("POST", f"/actions/{quoted(given['id'])}", {"signal": given["signal"]})


def forms_of(pages: Sequence[Pages]) -> dict[str, Act]:
    """Return all forms of a project, by the last part of their address."""
    forms = {name: act for one in pages for name, act in one.forms.items()}
    decisions = [decision for one in pages for decision in one.decisions]
    return {**forms, "signal": _signal, "decide": partial(_decide, forms, decisions)}


class ProjectDeed:
    """The forms of a project's pages."""

    def __init__(self, site: Site, pages: Mapping[str, ProjectPage]) -> None:
        """`pages` are all of the project, by path."""
        self._site = site
        self._pages = pages
        self._forms = forms_of(site.added)
        places = {form: at for one in site.added for form, at in one.pages_of_forms.items()}
        self._place = {"signal": "/actions", **places}

    def show_again(
        self, req: BrowserRequest, resp: Response, error: str, project: str, deed: str, **_parts: str
    ) -> None:
        """Show the page that has the form, with an error."""
        path = self._place.get(deed, APPROVALS)
        req.page = home(req, project) + path
        self._pages[path].on_get(req, resp, project, error)

    def on_post(self, req: BrowserRequest, resp: Response, project: str, deed: str) -> None:
        """Act, and return to the page that has the form."""
        if deed not in self._forms:
            raise falcon.HTTPNotFound
        try:
            self._forms[deed](self._site.api(req, project), req.fields)
        except KeyError as error:
            resp.status = HTTPStatus.BAD_REQUEST
            self.show_again(req, resp, f"The form lacks {error.args[0]}.", project, deed)
        except ApiError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                raise
            self.show_again(req, resp, refused(resp, error), project, deed)
        else:
            go(resp, home(req, project) + self._place.get(deed, APPROVALS), did=deed)
