"""The application of the dashboard: its routes, and the rules for every request."""

import logging
from collections.abc import Callable
from http import HTTPStatus
from importlib import import_module
from urllib.parse import quote, urlsplit
from wsgiref.types import WSGIApplication

import falcon
from falcon import Response

from heatlite.api.access.authentication import AccessControl
from heatlite.api.components import Components
from heatlite.api.faults import CODES
from heatlite.api.request import Request as ApiRequest
from heatlite.api.routes import App
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import Forbidden, HeatliteError, Unauthorized
from heatlite.feature import active
from heatlite.features.dashboard.client import ApiError
from heatlite.features.dashboard.feature import DashboardSettings
from heatlite.features.dashboard.frames import Pages, ProjectPage
from heatlite.features.dashboard.pages.audit import AuditExport, AuditPage
from heatlite.features.dashboard.pages.care import (
    HealthPage,
    LockPage,
    OutputsPage,
    ProgressPage,
    SnapshotsPage,
)
from heatlite.features.dashboard.pages.change import ChangePage, NewPage
from heatlite.features.dashboard.pages.deletion import DeletionPage
from heatlite.features.dashboard.pages.login import Index, Login, Logout, Projects
from heatlite.features.dashboard.pages.project import (
    ActionPage,
    ActionsPage,
    ApprovalsPage,
    ProjectDeed,
    ServicesPage,
)
from heatlite.features.dashboard.pages.stack import Deed, ResourcePage, ResourcesPage, StackView
from heatlite.features.dashboard.pages.stacks import Events, StacksPage
from heatlite.features.dashboard.rendering import create_environment, static_files
from heatlite.features.dashboard.sessions import Sessions, Visitor, digest, new_key
from heatlite.features.dashboard.site import DEFAULT_PROJECT, BrowserRequest, Form, Site, command
from heatlite.store.store import Store

log = logging.getLogger(__name__)

ROOT = "/ui"
OPEN = (f"{ROOT}/login", f"{ROOT}/static/")
"""Paths that need no session."""
SECURE_COOKIE = "__Host-heatlite"
PLAIN_COOKIE = "heatlite-ui"
"""Beginning of the name without https: browsers reject the prefix there."""

EDITORS = ("/new", "/change")
"""Ends of paths of forms with long texts, which a login must not lose; features add theirs."""
ENDED = "Log in in a new tab, then reload this page: it sends the form again."
STALE = "The form was of a session that has ended. Look at it, and press again."

MAX_FIELDS = 2000
"""Fields of a form: parameters of a template, and a few of our own. A visitor needs no account to have them parsed."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def mount(app: App, access: AccessControl, components: Components) -> None:
    """Serve the dashboard below /ui of the API's application."""
    inner = create_ui(app, access, components.store, components.clock, components.settings)

    def serve(req: ApiRequest, resp: Response, **_: object) -> None:
        def start_response(
            status: str, headers: list[tuple[str, str]], exc_info: object = None, /
        ) -> Callable[[bytes], object]:
            resp.status = status
            for name, value in headers:
                resp.append_header(name, value)
            return lambda _chunk: None

        resp.stream = inner(req.env, start_response)

    app.add_sink(serve, r"/ui(/.*)?$")


def create_ui(
    app: WSGIApplication, access: AccessControl, store: Store, clock: Clock, settings: Settings
) -> "falcon.App[BrowserRequest, Response]":
    """Create the application. `app` is that of the API."""
    sessions = Sessions(store, clock, settings.of(DashboardSettings).ui_session_hours * 3600)
    added = pages_of(settings)
    templates = create_environment([one.templates for one in added])
    site = Site(app, access, store, sessions, settings, templates, added)
    made: falcon.App[BrowserRequest, Response] = falcon.App(
        media_type=falcon.MEDIA_HTML, request_type=BrowserRequest, middleware=Gate(site)
    )
    made.req_options.default_media_type = falcon.MEDIA_URLENCODED
    made.req_options.strip_url_path_trailing_slash = True
    parts = falcon.media.MultipartFormHandler()
    parts.parse_options.max_body_part_count = MAX_FIELDS
    made.req_options.media_handlers[falcon.MEDIA_MULTIPART] = parts
    errors = Errors(site, (*EDITORS, *(f"/do/{form}" for one in added for form in one.long_forms)))
    made.add_error_handler(Exception, errors.on_unexpected)
    made.add_error_handler(falcon.HTTPError, errors.on_http_error)
    made.add_error_handler(HeatliteError, errors.on_error)
    made.add_error_handler(ApiError, errors.on_api_error)
    _add_routes(made, site)
    return made


def pages_of(settings: Settings) -> list[Pages]:
    """Return the pages of the features that are on."""
    modules = [import_module(one.pages) for one in active(settings) if one.pages]
    return [pages for module in modules if isinstance(pages := module.PAGES, Pages)]


def _add_routes(app: "falcon.App[BrowserRequest, Response]", site: Site) -> None:
    app.add_route(ROOT, Index(site))
    app.add_route(f"{ROOT}/login", Login(site))
    app.add_route(f"{ROOT}/logout", Logout(site))
    app.add_route(f"{ROOT}/projects", Projects(site))
    app.add_route(ROOT + "/static/{name}", Static())
    project = ROOT + "/p/{project}"
    app.add_route(project, StacksPage(site))
    app.add_route(project + "/events", Events(site))
    kinds: dict[str, type[ProjectPage]] = {
        "/actions": ActionsPage,
        "/actions/{action}": ActionPage,
        "/approvals": ApprovalsPage,
        "/services": ServicesPage,
    }
    kinds |= {path: kind for one in site.added for path, kind in one.project.items()}
    pages = {path: kind(site) for path, kind in kinds.items()}
    for path, page in pages.items():
        app.add_route(project + path, page)
    app.add_route(project + "/do/{deed}", ProjectDeed(site, pages))
    app.add_route(project + "/new", NewPage(site))
    app.add_route(project + "/audit", AuditPage(site))
    app.add_route(project + "/audit.csv", AuditExport(site))
    stack = project + "/stacks/{name}/{stack_id}"
    views: dict[str, StackView] = {
        "": ResourcesPage(site),
        "/delete": DeletionPage(site),
        "/health": HealthPage(site),
        "/lock": LockPage(site),
        "/outputs": OutputsPage(site),
        "/progress": ProgressPage(site),
        "/snapshots": SnapshotsPage(site),
    }
    views |= {path: kind(site) for one in site.added for path, (_, kind) in one.stack.items()}
    for path, view in views.items():
        app.add_route(stack + path, view)
    app.add_route(stack + "/change", ChangePage(site))
    app.add_route(stack + "/do/{deed}", Deed(site, views))
    app.add_route(stack + "/resources/{resource:path}", ResourcePage(site))


class Static:
    """Style sheets and scripts."""

    def on_get(self, req: BrowserRequest, resp: Response, name: str) -> None:
        """Send a file. Its name changes with its content."""
        found = static_files()[1].get(name)
        if found is None:
            raise falcon.HTTPNotFound
        resp.data, resp.content_type = found.content, found.media_type
        resp.set_header("Cache-Control", "public, max-age=31536000, immutable")


class Gate:
    """Sessions, protection against cross-site requests, and headers."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._prefix = urlsplit(site.settings.public_url or "").path.rstrip("/")
        self._is_secure = (site.settings.public_url or "").startswith("https:")

    def process_request(self, req: BrowserRequest, resp: Response) -> None:
        """Find the visitor. Browsers without a session are sent to the login."""
        req.root = self._prefix + ROOT
        for name, value in HEADERS.items():
            resp.set_header(name, value)
        key = req.get_cookie_values(self._cookie(req)) or []
        found = self._site.sessions.find(key[0]) if key and self._site.access.is_guarded else None
        if found is None:
            found = Visitor(key[0] if key else new_key())
        req.visitor = found
        if req.method not in ("GET", "HEAD"):
            self._read_form(req)
        if self._site.access.is_guarded and not found.credentials and not req.path.startswith(OPEN):
            raise Unauthorized(challenge="")

    def process_resource(self, req: BrowserRequest, resp: Response, resource: object, params: dict[str, str]) -> None:
        """Check the token of a form.

        A page shows what was typed again, with the token of the new session. Raises Forbidden.
        """
        if req.method in ("GET", "HEAD") or req.visitor.is_own(req.fields.get("csrf", "")):
            return
        if not isinstance(resource, Form):
            raise Forbidden("This form is out of date: its session has ended. Open the page again.")
        resp.status = HTTPStatus.FORBIDDEN
        resource.show_again(req, resp, STALE, **params)
        resp.complete = True

    def process_response(self, req: BrowserRequest, resp: Response, resource: object, req_succeeded: bool) -> None:
        """Set the cookie of a new session.

        A link of another site, such as a chat, opens its page (Lax). Forms have the token of their session.
        """
        name, key = self._cookie(req), req.visitor.key
        if key and [key] != req.get_cookie_values(name) and not isinstance(resource, Static):
            resp.set_cookie(name, key, path="/", secure=self._is_https(req), http_only=True, same_site="Lax")

    def _is_https(self, req: BrowserRequest) -> bool:
        return self._is_secure or req.is_secure

    def _cookie(self, req: BrowserRequest) -> str:
        """Return the name, which differs by server.

        A browser sends a cookie to all ports and paths of its host.
        """
        place = self._site.settings.public_url or req.forwarded_prefix
        return f"{SECURE_COOKIE if self._is_https(req) else PLAIN_COOKIE}-{digest(place)[:8]}"

    def _read_form(self, req: BrowserRequest) -> None:
        """Read the fields of a form. Raises Forbidden for that of another site."""
        if req.get_header("Sec-Fetch-Site", default="same-origin") != "same-origin":
            raise Forbidden("This form was sent by a page of another site.")
        if req.content_length is None:
            raise falcon.HTTPLengthRequired
        req.fields = _fields(req)


def _fields(req: BrowserRequest) -> dict[str, str]:
    """Return the fields of a form; a file's content counts as a field's value."""
    if (req.content_type or "").startswith(falcon.MEDIA_MULTIPART):
        out: dict[str, str] = {}
        for part in req.get_media():
            content = part.stream.read().decode("utf-8", "replace")
            try:
                name = part.name
            except UnicodeDecodeError:
                raise falcon.HTTPBadRequest(description="The name of a field is not UTF-8.") from None
            if name and (content or name not in out):
                out[name] = content
        return out
    text = req.bounded_stream.read().decode("utf-8", "replace")
    if text.count("&") >= MAX_FIELDS:
        raise falcon.HTTPBadRequest(description=f"The form has more than {MAX_FIELDS} fields.")
    form = falcon.uri.parse_query_string(text, keep_blank=True)
    return {name: value if isinstance(value, str) else value[-1] for name, value in form.items()}


class Errors:
    """Pages for errors."""

    def __init__(self, site: Site, editors: tuple[str, ...]) -> None:
        self._site = site
        self._editors = editors

    def page(self, req: BrowserRequest, resp: Response, status: HTTPStatus, message: str, login: str = "") -> None:
        """Answer with a page that shows an error. Its command line lists the stacks.

        `login` is the address of a login in another tab.
        """
        resp.status = status
        project = req.path.removeprefix(f"{ROOT}/p/").partition("/")[0] if req.path.startswith(f"{ROOT}/p/") else ""
        line = command(project or DEFAULT_PROJECT, "ls")
        self._site.show(req, resp, "error.html", status=status, message=message, login=login, commands=[line])

    def on_unexpected(self, req: BrowserRequest, resp: Response, error: Exception, _params: object) -> None:
        """Answer an error of the program."""
        log.error("cannot show %s", req.path, exc_info=error)
        self.page(req, resp, HTTPStatus.INTERNAL_SERVER_ERROR, "The server failed. Its log says why.")

    def on_http_error(self, req: BrowserRequest, resp: Response, error: falcon.HTTPError, _params: object) -> None:
        """Answer an error of the framework."""
        status = HTTPStatus(error.status_code)
        text = "There is no such page." if status == HTTPStatus.NOT_FOUND else error.description or error.title or ""
        self.page(req, resp, status, text)

    def on_error(self, req: BrowserRequest, resp: Response, error: HeatliteError, _params: object) -> None:
        """Answer an error of the server."""
        status = next((code for kind, code in CODES.items() if isinstance(error, kind)), HTTPStatus.BAD_REQUEST)
        if status == HTTPStatus.UNAUTHORIZED:
            self._ask(req, resp)
        else:
            self.page(req, resp, status, error.message)

    def on_api_error(self, req: BrowserRequest, resp: Response, error: ApiError, _params: object) -> None:
        """Answer an error of the API."""
        if error.status == HTTPStatus.UNAUTHORIZED:
            self._ask(req, resp)
        else:
            self.page(req, resp, HTTPStatus(error.status), error.message)

    def _ask(self, req: BrowserRequest, resp: Response) -> None:
        """Send the browser to the login.

        A part of a page that was asked for by a script loads the login as a whole page.
        """
        place = quote(req.path.removeprefix(ROOT).partition("/do/")[0])
        if req.query_string and req.method == "GET":
            place += f"?{req.query_string}"
        target = f"{req.root}/login?next={falcon.uri.encode_value(place)}"
        if req.method == "POST" and req.path.endswith(self._editors):
            self.page(req, resp, HTTPStatus.UNAUTHORIZED, ENDED, login=target)
            return
        resp.status, resp.location = HTTPStatus.SEE_OTHER, target
        if req.get_header("HX-Request"):
            resp.status = HTTPStatus.OK
            resp.set_header("HX-Redirect", resp.location)
