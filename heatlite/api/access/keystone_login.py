"""Login by name and password at Keystone, for pages in a browser.

Clients of the API bring a token. Requests and answers are those of Keystone's Identity API v3.
"""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from keystoneauth1.exceptions import ClientException
from keystoneauth1.session import Session

from heatlite.api.access.authentication import Login
from heatlite.api.access.login_throttle import LoginThrottle, Network, address_of
from heatlite.api.request import Request
from heatlite.core.errors import Unavailable
from heatlite.core.json import JsonMap
from heatlite.core.runtime.bulkhead import Bulkhead

if TYPE_CHECKING:
    import requests

UNREADABLE: Final = (ClientException, LookupError, RuntimeError, TypeError, ValueError)
REFUSED: Final = (
    HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND
)  # fmt: skip
"""Keystone's answers about a login or a signature that is wrong, or that of an unknown key."""


class KeystoneLogin:
    """Gets tokens for a user's password, and tokens of the user's projects."""

    def __init__(
        self, session: Session, url: str, asking: Bulkhead, now: Callable[[], float], trusted: Sequence[Network]
    ) -> None:
        """`url` ends with ``/v3``.

        `asking` bounds the requests to Keystone. `trusted` are the proxies whose X-Forwarded-For is believed.
        """
        self._session = session
        self._url = url
        self._asking = asking
        self._throttle = LoginThrottle(now)
        self._trusted = trusted

    def log_in(self, req: Request, user: str, password: str, domain: str) -> Login | None:
        """Return a user's projects, and a token without one.

        None for a wrong password. Delays further attempts as `auth` = ``basic`` does. Raises TooManyFailures,
        Unavailable.
        """
        name, address = f"{user}@{domain}", address_of(req, self._trusted)
        self._throttle.ask(name, address)
        person: JsonMap = {"name": user, "domain": {"name": domain}, "password": password}
        token = self._token({"methods": ["password"], "password": {"user": person}}, "unscoped")
        if token is None:
            self._throttle.failed(name, address)
            return None
        self._throttle.passed(name, address)
        return Login(user, token, self._projects(token))

    def token_of(self, token: str, project: str) -> str | None:
        """Return a token of a project for one without; None if Keystone refuses.

        Raises Unavailable.
        """
        return self._token({"methods": ["token"], "token": {"id": token}}, {"project": {"id": project}})

    def _token(self, identity: JsonMap, scope: str | JsonMap) -> str | None:
        answer = self._ask("POST", "/auth/tokens", json={"auth": {"identity": identity, "scope": scope}})
        if answer is None:
            return None
        token = answer.headers.get("X-Subject-Token")
        if not token:
            raise _away()
        return token

    def _projects(self, token: str) -> dict[str, str]:
        """Return the projects in which the user has a role: ids → names."""
        answer = self._ask("GET", "/auth/projects", headers={"X-Auth-Token": token})
        try:
            found = [] if answer is None else answer.json()["projects"]
            named = [(str(one["name"]), str(one["id"])) for one in found]
        except UNREADABLE as error:
            raise _away() from error
        return {project: name for name, project in sorted(named)}

    def _ask(
        self, method: str, path: str, json: JsonMap | None = None, headers: Mapping[str, str] = MappingProxyType({})
    ) -> "requests.Response | None":
        """Return Keystone's answer, or None if it refuses."""
        with self._asking.turn():
            try:
                answer: requests.Response = self._session.request(
                    self._url + path,
                    method,
                    json=json,
                    headers=dict(headers),
                    authenticated=False,
                    raise_exc=False,
                    log=False,  # passwords
                )
            except UNREADABLE as error:
                raise _away() from error
        if answer.status_code in REFUSED:
            return None
        if answer.status_code >= HTTPStatus.MULTIPLE_CHOICES:
            raise _away()
        return answer


def _away() -> Unavailable:
    return Unavailable(service="Keystone", reason="it cannot check your password; try again later")
