"""Login, logout, and the choice of a project."""

import shlex
from base64 import b64encode
from collections.abc import Mapping
from http import HTTPStatus

from falcon import Response
from msgspec.structs import replace

from heatlite.api.request import Request as ApiRequest
from heatlite.core.config import Auth
from heatlite.core.errors import HeatliteError, TooManyFailures, Unavailable
from heatlite.features.dashboard.client import api_environ
from heatlite.features.dashboard.sessions import Visitor
from heatlite.features.dashboard.site import TOKEN, BrowserRequest, Site, command, go, home

WRONG = {
    Auth.BASIC: "The name or the password is wrong.",
    Auth.TOKENS: "The token is unknown or has expired.",
    Auth.KEYSTONE: "Keystone accepts neither this name with its password and domain, nor this token.",
}


TOKENS = {Auth.TOKENS: "TOKEN", Auth.KEYSTONE: "$(openstack token issue -f value -c id)"}
"""Values of a variable of the shell with a token."""


class Index:
    """/ui"""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: BrowserRequest, resp: Response) -> None:
        """Go to the only project, or to the choice of one."""
        projects = self._site.projects(req.visitor)
        if len(projects) == 1:
            go(resp, home(req, next(iter(projects))))
        else:
            go(resp, f"{req.root}/projects")


class Projects:
    """/ui/projects"""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: BrowserRequest, resp: Response) -> None:
        """List the visitor's projects."""
        listed = {home(req, key): name for key, name in self._site.projects(req.visitor).items()}
        self._site.show(req, resp, "projects.html", listed=listed, commands=[command("PROJECT", "ls")])


class Login:
    """/ui/login"""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: BrowserRequest, resp: Response, error: str = "") -> None:
        """Show the form, or go to the projects if no login is needed."""
        if not self._site.access.is_guarded:
            go(resp, req.root)
            return
        place = req.fields.get("next") or req.get_param("next", default="")
        asks_token = "token" in (req.get_param("with"), *req.fields)
        auth = str(self._site.auth)
        lines = [self._command(req)]
        self._site.show(
            req, resp, "login.html", auth=auth, asks_token=asks_token, next=place, error=error, commands=lines
        )

    def _command(self, req: BrowserRequest) -> str:
        """Return a command line that logs in to the same server."""
        ls = shlex.join(("heatlite", "ls", "--endpoint", self._site.settings.public_url or req.forwarded_prefix))
        if self._site.auth is Auth.BASIC:
            return f"{ls} --username NAME"
        return f"HEATLITE_TOKEN={TOKENS[self._site.auth]} {ls}"

    def on_post(self, req: BrowserRequest, resp: Response) -> None:
        """Begin a session, with a new id."""
        if not self._site.access.is_guarded:
            go(resp, req.root)
            return
        before = req.visitor.key
        try:
            begun = self._begin(req)
        except (TooManyFailures, Unavailable) as error:
            self._refuse(req, resp, error)
            return
        if begun is None:
            resp.status = HTTPStatus.UNAUTHORIZED
            self.on_get(req, resp, WRONG[self._site.auth])
            return
        self._site.sessions.end(before)
        req.visitor = begun
        self._go_on(req, resp)

    def show_again(self, req: BrowserRequest, resp: Response, error: str, **_parts: str) -> None:
        """Show the form with an error, or go on as the user of another tab."""
        if req.visitor.credentials and req.visitor.user == req.fields.get("user"):
            self._go_on(req, resp)
        else:
            self.on_get(req, resp, error)

    @staticmethod
    def _go_on(req: BrowserRequest, resp: Response) -> None:
        place = req.fields.get("next", "")
        go(resp, req.root + (place if place.startswith("/p/") else ""))

    def _begin(self, req: BrowserRequest) -> Visitor | None:
        """Begin the session of a user; None for wrong credentials.

        Raises TooManyFailures, Unavailable.
        """
        login, fields = self._site.access.password_login, req.fields
        if login is not None and not fields.get("token"):
            asked = ApiRequest(api_environ(req.env))
            names = (fields.get("user", ""), fields.get("password", ""), fields.get("domain", ""))
            known = login.log_in(asked, *names)
            if known is None:
                return None
            return self._site.sessions.begin(known.user, {TOKEN: known.token}, known.projects, {})
        given = credentials(self._site.auth, fields)
        found = self._site.access.identify(ApiRequest({**api_environ(req.env), **given}))
        if found is None:
            return None
        return self._site.sessions.begin(found.user, given, {name: name for name in sorted(found.projects)})

    def _refuse(self, req: BrowserRequest, resp: Response, error: HeatliteError) -> None:
        is_busy = isinstance(error, Unavailable)
        resp.status = HTTPStatus.SERVICE_UNAVAILABLE if is_busy else HTTPStatus.TOO_MANY_REQUESTS
        self.on_get(req, resp, error.message)


class Logout:
    """/ui/logout"""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_post(self, req: BrowserRequest, resp: Response) -> None:
        """End the session."""
        self._site.sessions.end(req.visitor.key)
        req.visitor = replace(req.visitor, credentials={})
        go(resp, f"{req.root}/login")


def credentials(auth: Auth, fields: Mapping[str, str]) -> dict[str, str]:
    """Return what a login form gives, as keys of the API's WSGI environment."""
    if auth is Auth.BASIC:
        pair = f"{fields.get('user', '')}:{fields.get('password', '')}".encode()
        return {"HTTP_AUTHORIZATION": f"Basic {b64encode(pair).decode()}"}
    return {TOKEN: fields.get("token", "").strip()}
