"""`auth` = ``keystone``: tokens of Keystone, checked by its middleware."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keystoneauth1 import loading
from keystoneauth1.exceptions import ClientException, NoMatchingPlugin
from keystoneauth1.session import Session
from keystonemiddleware.auth_token import AuthProtocol, list_opts
from oslo_config import cfg

from heatlite.api.access.account_files import digest
from heatlite.api.access.authentication import TOKEN, Identity
from heatlite.api.access.keystone_login import REFUSED, KeystoneLogin
from heatlite.api.access.login_throttle import Network
from heatlite.api.request import Request
from heatlite.core.config import BadSetting
from heatlite.core.context import ADMIN
from heatlite.core.errors import Unavailable
from heatlite.core.json import JsonMap
from heatlite.core.runtime.bulkhead import Bulkhead, check_may_wait

if TYPE_CHECKING:
    import requests

log = logging.getLogger(__name__)

GROUP: Final = "keystone_authtoken"

DEFAULTS: Final = {
    "auth_type": "password",
    "service_type": "orchestration",
    "http_connect_timeout": "5",
    "http_request_max_retries": "1",
}
"""Defaults for options that keystonemiddleware requires, or whose default waits forever."""

AT_ONCE: Final = 3
"""Concurrent requests to Keystone. Each occupies one of the server's threads, eight by default."""
IN_LINE: Final = 2
"""Requests that wait for such a request."""
IN_LINE_SECONDS: Final = 1.0
"""Seconds that they wait."""
MAX_KNOWN: Final = 10_000
"""Maximum number of tokens remembered as valid."""

RENEW_SECONDS: Final = 60.0
"""Seconds between two renewals of the server's own token after a 401."""

DOMAINS: Final = {"user_domain_name": "Default", "project_domain_name": "Default"}


class Keystone:
    """Identifies callers by a Keystone token."""

    def __init__(
        self, table: Mapping[str, str], now: Callable[[], float] = time.time, trusted: Sequence[Network] = ()
    ) -> None:
        """`table` has the options of ``[keystone_authtoken]``. Raises BadSetting.

        `trusted` are the proxies whose X-Forwarded-For is believed.
        """
        if "auth_url" not in table:
            raise BadSetting(
                "auth = keystone needs the table [keystone]: auth_url, username, password, project_name, and domains"
                " that are not Default."
            )
        if not table["auth_url"].startswith(("http://", "https://")):
            raise BadSetting("[keystone]: auth_url: it is no address; an example is https://keystone:5000/v3.")
        by_id = {name.removesuffix("_id") + "_name" for name in table}
        domains = {name: value for name, value in DOMAINS.items() if name not in by_id}
        if table.get("auth_type", "password") != "password":
            domains = {}
        conf = _configure({**DEFAULTS, "www_authenticate_uri": table["auth_url"], **domains, **table})
        self.challenge = f'Keystone uri="{conf[GROUP].www_authenticate_uri}"'
        self._middleware = AuthProtocol(_confirmed, {"oslo_config_config": conf})
        self._asking = Bulkhead(AT_ONCE, IN_LINE, IN_LINE_SECONDS, _busy)
        own = conf[GROUP]
        self._cached_seconds = own.token_cache_time
        self._asks_memcached = bool(own.memcached_servers)
        self._confirmed_at: dict[str, float] = {}
        """Digest of a token → time when Keystone confirmed it. The middleware's cache has it from then on."""
        for name in ("cafile", "certfile", "keyfile"):
            if own[name] and not Path(own[name]).exists():
                raise BadSetting(f"[keystone]: {name}: there is no {own[name]}.")
        self._session = Session(
            auth=loading.load_auth_from_conf_options(conf, GROUP),
            verify=False if own.insecure else own.cafile or True,
            timeout=own.http_connect_timeout,
        )
        self._renewed = -RENEW_SECONDS
        url = table["auth_url"].rstrip("/").removesuffix("/v3") + "/v3"
        self._signatures = f"{url}/ec2tokens"
        self.login = KeystoneLogin(self._session, url, self._asking, now, trusted)

    def identify(self, req: Request) -> Identity | None:
        """Return the owner of a token.

        A remembered token waits for no request to Keystone.
        """
        if not all(str(req.env.get(header, "")).isascii() for header in TOKENS):
            return None  # not a token, and not valid in a header
        environ = {**req.env, CONFIRMED: []}
        status: list[str] = []

        def start_response(
            line: str, _headers: list[tuple[str, str]], _exc_info: object = None, /
        ) -> Callable[[bytes], object]:
            status.append(line)
            return lambda _chunk: None

        tokens = [digest(str(req.env[header])) for header in TOKENS if req.env.get(header)]
        ages = self._ages(tokens)
        # Shorter than the middleware's cache, so that a remembered token does not need Keystone.
        is_known = bool(tokens) and all(age < self._cached_seconds * 0.9 for age in ages.values())
        if self._asks_memcached:
            check_may_wait()  # its cache is at other machines
        try:
            with nullcontext() if is_known else self._asking.turn():
                self._middleware(environ, start_response)
        except UNREADABLE as error:
            log.error("Keystone's answer is invalid", exc_info=error)
            raise _away() from error
        if environ[CONFIRMED]:
            # Until the cache has lost a token, its answer is no new confirmation.
            if asked := [token for token, age in ages.items() if age >= self._cached_seconds]:
                if len(self._confirmed_at) >= MAX_KNOWN:
                    self._confirmed_at.clear()
                self._confirmed_at |= dict.fromkeys(asked, time.monotonic())
            return _identity(environ[CONFIRMED][0], req)
        if status[0].startswith("401"):
            return None
        raise _away()

    def _ages(self, tokens: Sequence[str]) -> Mapping[str, float]:
        """Return the seconds since Keystone confirmed tokens: infinity for unknown ones."""
        now = time.monotonic()
        return {token: now - self._confirmed_at.get(token, -math.inf) for token in tokens}

    def roles(self, user: str, project: str) -> frozenset[str]:
        """Return nothing: Keystone keeps the accounts, and the keys with them."""
        return frozenset()

    def exchange(self, credentials: JsonMap) -> tuple[str, str] | None:
        """Return a token and the project of the user who signed a request.

        The key is an EC2 credential. `credentials` describe the request as Keystone's API takes it. Returns None for a
        wrong signature or an unknown key. Raises Unavailable.
        """
        try:
            with self._asking.turn():
                answer = self._asked(credentials)
            if answer.status_code == HTTPStatus.OK:
                return answer.headers["X-Subject-Token"], answer.json()["token"]["project"]["id"]
        except UNREADABLE as error:
            log.error("Keystone cannot check a signature", exc_info=error)
            raise _away() from error
        if answer.status_code in REFUSED:
            return None
        raise _away()

    def _asked(self, credentials: JsonMap) -> "requests.Response":
        """Return Keystone's answer about a signature.

        401 may mean the signature or our own token. A new token is got once in a while only, as it costs a password.
        """
        now = time.monotonic()
        renews = now > self._renewed + RENEW_SECONDS
        answer = self._session.post(
            self._signatures,
            json={"credentials": credentials},
            authenticated=True,
            allow_reauth=renews,
            raise_exc=False,
        )
        if renews and answer.status_code == HTTPStatus.UNAUTHORIZED:
            self._renewed = now
        return answer


UNREADABLE: Final = (ClientException, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""Errors of the middleware for an invalid answer of Keystone, or an unreadable certificate."""

TOKENS: Final = ("HTTP_X_AUTH_TOKEN", "HTTP_X_SERVICE_TOKEN")

CONFIRMED: Final = "heatlite.confirmed"
"""Key in the WSGI environment under which `_confirmed` stores the confirmed one."""


def _confirmed(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
    """WSGI application behind the middleware. It receives requests with a valid token."""
    confirmed = environ[CONFIRMED]
    assert isinstance(confirmed, list)
    confirmed.append(environ)
    start_response("204 No Content", [])
    return []


def _identity(environ: Mapping[str, object], req: Request) -> Identity:
    def header(name: str) -> str:
        return str(environ.get(f"HTTP_X_{name}") or "")

    roles = frozenset(filter(None, header("ROLES").split(",")))
    if header("IS_ADMIN_PROJECT") == "False":
        roles -= {ADMIN}
    project = header("PROJECT_ID")
    return Identity(
        user=header("USER_NAME"),
        projects={project: roles} if project else {},
        user_id=header("USER_ID"),
        user_domain_id=header("USER_DOMAIN_ID"),
        project_domain_id=header("PROJECT_DOMAIN_ID"),
        token=req.env.get(TOKEN, ""),
    )


def _busy() -> Unavailable:
    return Unavailable(service="Keystone", reason="too many requests wait for it; try again later")


def _away() -> Unavailable:
    return Unavailable(service="Keystone", reason="it cannot check your token; try again later")


def _configure(options: Mapping[str, str]) -> cfg.ConfigOpts:
    """Create a configuration of these options without any file. Raises BadSetting."""
    conf = cfg.ConfigOpts()
    conf([], project="heatlite", default_config_files=[], default_config_dirs=[])
    for group, known in list_opts():
        conf.register_opts(known, group=group)
    try:
        plugin: loading.BaseLoader[Any] = loading.get_plugin_loader(options["auth_type"])
    except NoMatchingPlugin as error:
        raise BadSetting(f"[keystone]: {error}") from None
    conf.register_opts(loading.get_auth_plugin_conf_options(plugin), group=GROUP)
    for name, value in options.items():
        try:
            conf.set_override(name, value, group=GROUP)
        except cfg.NoSuchOptError:
            raise BadSetting(f"[keystone]: unknown key {name!r}; valid are those of [{GROUP}].") from None
        except ValueError:
            raise BadSetting(f"[keystone]: {name} has an invalid value.") from None
    return conf
