"""Parts that all pages share: the request, the API, the frame of a page."""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import urlencode

import falcon
from falcon import RequestOptions, Response
from jinja2 import Environment
from msgspec import Struct

from heatlite.api.access.authentication import AccessControl
from heatlite.api.request import Request as ApiRequest
from heatlite.core.config import Auth, Settings
from heatlite.core.errors import HTTPForbidden, Unauthorized
from heatlite.core.json import as_map
from heatlite.features.dashboard.client import ApiError, ProjectApi, api_environ, quoted
from heatlite.features.dashboard.sessions import Sessions, Visitor
from heatlite.store.store import Store

if TYPE_CHECKING:
    from heatlite.features.dashboard.frames import Pages

DEFAULT_PROJECT = "default"
TOKEN = "HTTP_X_AUTH_TOKEN"
"""Key of a token in a WSGI environment."""


class Tab(Struct, frozen=True):
    """A page of a project in the navigation."""

    key: str
    word: str
    path: str
    rule: str
    """Rule of the API that the page needs."""


FIRST_TABS = (
    Tab("stacks", "Stacks", "", "stacks:index"),
    Tab("approvals", "Approvals", "/approvals", "actions:list"),
    Tab("actions", "Actions", "/actions", "actions:list"),
)
LAST_TABS = (
    Tab("services", "Services", "/services", "service:index"),
    Tab("audit", "Audit", "/audit", "audit:index"),
)

DONE = {
    "drop": "The request is dropped.",
    "decide": "Decided.",
    "snapshot": "The snapshot is being taken.",
    "restore": "The stack is being restored.",
    "delete_snapshot": "The snapshot is being deleted.",
    "replay": "The request was made again.",
    "signal": "The action has the signal.",
    "new": "The stack is being created.",
    "change": "The plan is being done.",
    "lock": "The stack is locked.",
    "unlock": "The lock is gone.",
    "mark": "The mark is changed.",
    "protect": "The protection is set.",
    "unprotect": "The protection is gone.",
    "check": "The check has begun.",
    "suspend": "The suspension has begun.",
    "resume": "The stack resumes.",
    "retry": "The stack continues.",
    "cancel_update": "The update is being cancelled and rolled back.",
    "cancel_without_rollback": "The action is being cancelled.",
    "delete": "The deletion has begun.",
}
"""Messages after a form, by the last part of its address."""


class BrowserRequest(falcon.Request):
    """A browser's request, with its visitor."""

    __slots__ = ("answers", "fields", "page", "root", "visitor")

    visitor: Visitor
    root: str
    """Path of the dashboard: ``/ui``, with the path of `public_url` before it."""
    fields: Mapping[str, str]
    """The fields of a form."""

    def __init__(self, env: dict[str, Any], options: RequestOptions | None = None) -> None:
        super().__init__(env, options)
        self.visitor = Visitor("")
        self.answers = hashlib.sha256()
        """Digest of what the API has answered."""
        self.page = ""
        """Address of the page that answers a refused form."""
        self.root = ""
        self.fields = {}

    @property
    def is_secure(self) -> bool:
        """True if the browser uses https."""
        return self.forwarded_scheme == "https"


@runtime_checkable
class Form(Protocol):
    """The target of a form."""

    def show_again(self, req: BrowserRequest, resp: Response, error: str, **parts: str) -> None:
        """Show the page of the form, with what was typed and an error."""


class Site:
    """The dashboard of one process."""

    def __init__(
        self,
        app: Any,
        access: AccessControl,
        store: Store,
        sessions: Sessions,
        settings: Settings,
        templates: Environment,
        added: "Sequence[Pages]",
    ) -> None:
        """`app` is the WSGI application of the API, `added` the pages of features."""
        self.app = app
        self.access = access
        self.store = store
        self.sessions = sessions
        self.settings = settings
        self.added = added
        self._templates = templates
        self._tabs = (*FIRST_TABS, *(tab for one in added for tab in one.tabs), *LAST_TABS)
        self._parts = [(path.removeprefix("/"), word) for one in added for path, (word, _) in one.stack.items()]
        self._done = {**DONE, **{form: message for one in added for form, message in one.done.items()}}

    @property
    def auth(self) -> Auth:
        """The way to log in."""
        return self.settings.auth

    def api(self, req: BrowserRequest, project: str) -> ProjectApi:
        """Return the API of a project with the visitor's rights."""
        return ProjectApi(self.app, req.env, project, self._credentials(req, project), req.answers.update)

    def _credentials(self, req: BrowserRequest, project: str) -> Mapping[str, str]:
        """Return the visitor's credentials for a project.

        Raises Unauthorized, HTTPForbidden, Unavailable.
        """
        tokens, login = req.visitor.tokens, self.access.password_login
        if tokens is None or login is None:
            return req.visitor.credentials
        if project not in req.visitor.projects:
            raise HTTPForbidden(project=project)
        token = tokens.get(project)
        if token is None:
            token = login.token_of(req.visitor.credentials[TOKEN], project)
            if token is None:
                raise Unauthorized(challenge="")
            req.visitor = self.sessions.add_token(req.visitor, project, token)
        return {TOKEN: token}

    def projects(self, visitor: Visitor) -> Mapping[str, str]:
        """Return the projects to choose from, each with its name."""
        if self.access.is_guarded:
            return visitor.projects
        return {name: name for name in sorted({DEFAULT_PROJECT, *self.store.stacks.projects()})}

    def rights(self, req: BrowserRequest, project: str) -> "Rights":
        """Return the rights of the visitor in a project. Raises Unauthorized, Forbidden."""
        asked = ApiRequest({**api_environ(req.env), **self._credentials(req, project)})
        self.access.admit(asked, project, None, {})
        return Rights(asked)

    def show(
        self, req: BrowserRequest, resp: Response, template: str, project: str = "", error: str = "", **values: object
    ) -> None:
        """Answer with a page. `error` is shown above its content.

        A refresh is answered with 304 if neither the answers of the API nor the visitor's session and rights have
        changed.
        """
        rights = self.rights(req, project) if project else None
        may = rights.may if rights else _nothing
        if project and "waiting" not in values and may("stacks:index"):
            counts = as_map(self.api(req, project).get("/counts").get("counts"))
            values = {**values, "waiting": counts.get("waiting")}
        tag = f"{req.answers.hexdigest()}-{rights.digest}-{req.visitor.csrf[:16]}" if rights and not error else ""
        if tag and tag == req.get_header("If-None-Match"):
            resp.status = HTTPStatus.NOT_MODIFIED
            return
        frame = {
            "root": req.root,
            "req": req,
            "visitor": req.visitor,
            "csrf": req.visitor.csrf,
            "is_guarded": self.access.is_guarded,
            "project": project,
            "home": home(req, project),
            "projects": self.projects(req.visitor) if project else {},
            "may": may,
            "tag": tag,
            "error": error,
            "tabs": [tab for tab in self._tabs if may(tab.rule)],
            "parts": self._parts,
            "did": req.get_param("did", default=""),
            "tab": "",
            "done": self._done,
        }
        resp.content_type = falcon.MEDIA_HTML
        resp.text = self._templates.get_template(template).render({**frame, **values})


class Rights:
    """The rights of a visitor in a project."""

    def __init__(self, asked: ApiRequest) -> None:
        self._caller = asked.caller

    @property
    def user(self) -> str:
        """Name of the visitor."""
        return self._caller.user

    @property
    def digest(self) -> str:
        """Digest of the visitor's roles."""
        return hashlib.sha256(" ".join(sorted(self._caller.roles)).encode()).hexdigest()[:16]

    def may(self, rule: str) -> bool:
        """Return True if the policy allows a rule, so its feature is on."""
        return self._caller.may(rule)


def _nothing(_rule: str) -> bool:
    """Allow nothing: the page of no project."""
    return False


def home(req: BrowserRequest, project: str) -> str:
    """Return the address of a project's pages."""
    return f"{req.root}/p/{quoted(project)}"


def stack_home(req: BrowserRequest, project: str, name: str, stack_id: str) -> str:
    """Return the address of a stack's pages."""
    return f"{home(req, project)}/stacks/{quoted(name)}/{stack_id}"


def go(resp: Response, target: str, **query: str) -> None:
    """Answer a form with a redirect to a page."""
    resp.status = HTTPStatus.SEE_OTHER
    resp.location = f"{target}?{urlencode(query)}" if query else target


def refused(resp: Response, error: ApiError) -> str:
    """Set the status of a page that shows an error, and return the error's text."""
    resp.status = HTTPStatus(error.status)
    return error.message


def command(project: str, *words: str) -> str:
    """Return a command line that does or shows the same."""
    given: Sequence[str] = () if project == DEFAULT_PROJECT else ("--project", project)
    return shlex.join(("heatlite", *words, *given))
