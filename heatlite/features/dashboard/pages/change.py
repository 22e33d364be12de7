"""New stacks and changes: template, parameters, and a plan that one button does."""

import hashlib
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from cryptography.fernet import InvalidToken
from falcon import Response
from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.errors import Forbidden
from heatlite.core.json import Json, JsonMap, as_map, as_maps, dump, parse
from heatlite.features.dashboard.client import ApiError, ProjectApi, number, text
from heatlite.features.dashboard.rendering import as_yaml
from heatlite.features.dashboard.sessions import Visitor
from heatlite.features.dashboard.site import BrowserRequest, Site, command, go, refused, stack_home

PREFIX = "p:"
"""Prefix of fields with parameters."""
START = "heat_template_version: 2021-04-16\n\nresources:\n"
SECTIONS = (
    "heat_template_version", "AWSTemplateFormatVersion", "description", "parameters", "conditions", "resources",
)  # fmt: skip
CHANGED_PLAN = "PlanChanged"
CHANGED = "The {} has changed since the plan was made. This is the new plan."


class ChangeDraft(Struct):
    """A template with parameters that a form has, and what the API says about it."""

    name: str = ""
    template: str = ""
    url: str = ""
    environment: str = ""
    given: dict[str, str] = {}
    """Values of parameters as typed."""
    problems: Sequence[JsonMap] = ()
    parameters: Mapping[str, JsonMap] = {}
    plan: Sequence[JsonMap] | None = None
    digest: str = ""

    @property
    def has_errors(self) -> bool:
        """True if a problem is more than a warning."""
        return any(one.get("severity") == "error" for one in self.problems)

    def lines(self) -> list[tuple[int, str, list[JsonMap]]]:
        """Return the lines of the template, each with its number and its problems."""
        found: dict[int, list[JsonMap]] = {}
        for one in self.problems:
            if one.get("file") == "template":
                found.setdefault(number(one.get("line")), []).append(one)
        lines = self.template.splitlines() if found.keys() - {0} and not self.url else []
        return [(at, line, found.get(at, [])) for at, line in enumerate(lines, 1)]

    def body(self) -> JsonMap:
        """Return the body of a request. Empty parameters keep their value or default."""
        out: JsonMap = {"template_url": self.url} if self.url else {"template": self.template}
        if self.environment.strip():
            out["environment"] = self.environment
        out["parameters"] = {name: value for name, value in self.given.items() if value}
        return out


def read_draft(req: BrowserRequest) -> ChangeDraft:
    """Read a form. Hidden values come back encrypted from the page before."""
    fields = req.fields
    given = _unseal(req.visitor, fields.get("sealed", ""))
    given |= {name.removeprefix(PREFIX): value for name, value in fields.items() if name.startswith(PREFIX) and value}
    return ChangeDraft(
        name=fields.get("stack_name", "").strip(),
        template=(fields.get("file") or fields.get("template", "")).replace("\r\n", "\n"),
        url="" if fields.get("file") else fields.get("template_url", "").strip(),
        environment=fields.get("environment", "").replace("\r\n", "\n"),
        given=given,
        digest=fields.get("digest", ""),
    )


def review(api: ProjectApi, draft: ChangeDraft) -> None:
    """Add the problems and the parameters of a template.

    Drops the values of parameters that it does not have.
    """
    found = api.send("POST", "/validate", draft.body(), {"all_errors": "true"})
    # A form asks for missing parameters below.
    problems = as_maps(as_map(found).get("problems"))
    draft.problems = [one for one in problems if one.get("type") != "UserParameterMissing"]
    unknown = {one.get("path") for one in problems if one.get("type") == "UnknownUserParameter"}
    draft.given = {name: value for name, value in draft.given.items() if f"parameters.{name}" not in unknown}
    if not draft.has_errors:
        shown = as_map(api.send("POST", "/validate", draft.body()))
        draft.parameters = {name: as_map(one) for name, one in as_map(shown.get("Parameters")).items()}


def missing(draft: ChangeDraft) -> list[str]:
    """Return the parameters without a value."""
    return [name for name, one in draft.parameters.items() if "Default" not in one and not draft.given.get(name)]


def seal(visitor: Visitor, draft: ChangeDraft) -> str:
    """Return the values that the next page has no field for, encrypted.

    It must not show hidden ones, and has no fields beside a faulty template.
    """
    asked = draft.parameters
    hidden = {name: value for name, value in draft.given.items() if name not in asked or is_hidden(asked[name])}
    return visitor.cipher.encrypt(dump(hidden).encode()).decode() if hidden else ""


def _unseal(visitor: Visitor, sealed: str) -> dict[str, str]:
    try:
        return dict(parse(visitor.cipher.decrypt(sealed.encode()))) if sealed else {}
    except InvalidToken:
        return {}


def is_hidden(parameter: JsonMap) -> bool:
    """Return True for a parameter whose value is shown nowhere."""
    return parameter.get("NoEcho") == "true"


class Editor:
    """Steps that both pages have."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def _check(self, req: BrowserRequest, project: str, rule: str) -> None:
        """Raise Forbidden without the right to do what the form does."""
        if not self._site.rights(req, project).may(rule):
            raise Forbidden(action=rule)

    def _show(
        self,
        req: BrowserRequest,
        resp: Response,
        project: str,
        draft: ChangeDraft,
        frame: Mapping[str, object],
        error: str = "",
    ) -> None:
        given = {
            "draft": draft,
            "sealed": seal(req.visitor, draft),
            "prefix": PREFIX,
            "tab": "stacks",
            "missing": missing(draft),
            "shown_actions": [one for one in draft.plan or () if one.get("action") != "keep"],
        }
        self._site.show(req, resp, "change.html", project, error, **given, **frame)


class NewPage(Editor):
    """Creates a stack."""

    def on_get(self, req: BrowserRequest, resp: Response, project: str) -> None:
        """Show an empty form."""
        self._check(req, project, "stacks:create")
        draft = ChangeDraft(template=START)
        self._show(req, resp, project, draft, new_frame(project, draft))

    def show_again(self, req: BrowserRequest, resp: Response, error: str, project: str, **parts: str) -> None:
        """Show what the form has, with an error."""
        draft = read_draft(req)
        self._show(req, resp, project, draft, new_frame(project, draft), error)

    def on_post(self, req: BrowserRequest, resp: Response, project: str) -> None:
        """Check the template, show the plan, or create the stack."""
        api, draft, error = self._site.api(req, project), read_draft(req), ""
        approved = draft.digest if req.fields.get("step") == "do" else ""
        try:
            review(api, draft)
            if draft.has_errors:
                resp.status = HTTPStatus.BAD_REQUEST
            elif draft.name and not missing(draft):
                body = {**draft.body(), "stack_name": draft.name}
                shown = api.send("POST", "/stacks/preview", body, {"plan": "true"})
                draft.plan = as_maps(as_map(as_map(shown).get("plan")).get("resources"))
                draft.digest = hashlib.sha256(dump([body, *draft.plan]).encode()).hexdigest()
                if approved == draft.digest:
                    created = as_map(as_map(api.send("POST", "/stacks", body)).get("stack"))
                    go(resp, stack_home(req, project, draft.name, text(created.get("id"))), did="new")
                    return
                if approved:
                    resp.status, error = HTTPStatus.CONFLICT, CHANGED.format("form")
        except ApiError as refusal:
            error = refused(resp, refusal)
        self._show(req, resp, project, draft, new_frame(project, draft), error)


def new_frame(project: str, draft: ChangeDraft) -> dict[str, object]:
    """Return what the form of a new stack shows around a draft."""
    line = command(project, "up", "FILE", "--name", draft.name or "NAME")
    return {"is_new": True, "stack": {}, "here": "", "commands": [line]}


class ChangePage(Editor):
    """Changes a stack."""

    def on_get(self, req: BrowserRequest, resp: Response, project: str, name: str, stack_id: str) -> None:
        """Show the template of the stack."""
        self._check(req, project, "stacks:update_patch")
        api, path = self._site.api(req, project), f"/stacks/{name}/{stack_id}"
        draft = ChangeDraft(name=name, template=as_yaml(readable(api.get(f"{path}/template"))) + "\n")
        self._show(req, resp, project, draft, self._frame(req, api, path, draft))

    def show_again(self, req: BrowserRequest, resp: Response, error: str, project: str, **parts: str) -> None:
        """Show what the form has, with an error."""
        api, path = self._site.api(req, project), f"/stacks/{parts['name']}/{parts['stack_id']}"
        draft = replace(read_draft(req), name=parts["name"])
        self._show(req, resp, project, draft, self._frame(req, api, path, draft), error)

    def on_post(self, req: BrowserRequest, resp: Response, project: str, name: str, stack_id: str) -> None:
        """Check the template, show the plan, or do the plan."""
        api, path, error = self._site.api(req, project), f"/stacks/{name}/{stack_id}", ""
        draft = read_draft(req)
        draft.name = name
        try:
            if req.fields.get("step") == "do" and draft.digest:
                try:
                    api.send("PATCH", path, {**draft.body(), "plan_digest": draft.digest})
                    go(resp, stack_home(req, project, name, stack_id), did="change")
                    return
                except ApiError as refusal:
                    if refusal.kind != CHANGED_PLAN:
                        raise
                    refused(resp, refusal)
                    error = CHANGED.format("stack")
            review(api, draft)
            if draft.has_errors:
                resp.status = HTTPStatus.BAD_REQUEST
            else:
                shown = as_map(as_map(api.send("PATCH", f"{path}/preview", draft.body(), {"plan": "true"})).get("plan"))
                draft.plan, draft.digest = as_maps(shown.get("resources")), text(shown.get("digest"))
        except ApiError as refusal:
            error = refused(resp, refusal)
        self._show(req, resp, project, draft, self._frame(req, api, path, draft), error)

    def _frame(self, req: BrowserRequest, api: ProjectApi, path: str, draft: ChangeDraft) -> dict[str, object]:
        project, stack = api.project, as_map(api.get(path, resolve_outputs="False").get("stack"))
        if stack.get("stack_status") == "DELETE_COMPLETE":
            return new_frame(project, draft)  # the stack is gone, the text is not
        name, stack_id = text(stack.get("stack_name")), text(stack.get("id"))
        return {
            "is_new": False,
            "part": "change",
            "stack": stack,
            "here": stack_home(req, project, name, stack_id),
            "commands": [command(project, "up", "FILE", "--name", name)],
        }


def readable(template: Json) -> Json:
    """Return a template with its sections in the usual order."""
    found = as_map(template)
    return {**{key: found[key] for key in SECTIONS if key in found}, **found}

