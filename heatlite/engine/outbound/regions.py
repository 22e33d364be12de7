"""Clients of other regions, and of this server by its own address."""

import http.client
import ssl
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

from msgspec import Struct

from heatlite.core.config import BadSetting, Settings
from heatlite.core.errors import EntityNotFound
from heatlite.core.json import Json, dump, parse
from heatlite.core.redaction.masking import origin
from heatlite.engine.outbound.egress import connection, exchange, failure, path_of, remaining, resolve
from heatlite.engine.outbound.self_auth import SelfAuth
from heatlite.plugin.ports import RegionUnavailable

WHOLE: Final = 30.0
"""Time limit of a request in seconds."""
MAX_BYTES: Final = 32 * 1024 * 1024
"""Maximum size of an answer."""
PROJECT: Final = "{project}"
_NOBODY_HOME: Final = (502, 503, 504)


class Endpoint(Struct, frozen=True):
    """Address of a region."""

    url: str
    """``https://host:port/v1/{project}``, with the stack's project in that place."""
    token: str | None = None
    """Sent as X-Auth-Token."""


class Regions:
    """Sends requests to regions (`plugin.ports.Regions`).

    Addresses set by the operator need no egress check.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], own: str, self_auth: SelfAuth | None = None) -> None:
        """Create a client. `own` is this server's address: ``http://host:port``.

        `self_auth` signs the requests to it.
        """
        self._self_auth = self_auth
        self._endpoints = endpoints
        self._own = Endpoint(f"{own}/v1/{PROJECT}")

    def ask(
        self,
        region: str | None,
        project: str,
        method: str,
        path: str,
        body: Json = None,
        ca_cert: str | None = None,
        insecure: bool = False,
    ) -> tuple[int, Json]:
        endpoint = self._own if region is None else self._endpoints.get(region)
        if endpoint is None:
            raise EntityNotFound(entity="Region", name=region)
        parts = urlsplit(endpoint.url.replace(PROJECT, quote(project, safe="")) + path)
        shown = f"{'This server' if region is None else f'Region {region}'} ({origin(endpoint.url)})"
        headers = {"Host": parts.netloc, "Accept": "application/json", "User-Agent": "heatlite", "Connection": "close"}
        if endpoint.token is not None:
            headers["X-Auth-Token"] = endpoint.token
        if region is None and self._self_auth is not None:
            headers.update(self._self_auth.headers(project))
        payload = None
        if body is not None:
            payload, headers["Content-Type"] = dump(body).encode(), "application/json"
        end = time.monotonic() + WHOLE
        sent = False
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            address = resolve(parts.hostname or "", port, remaining(end)), port
            tls = trusted(ca_cert, insecure) if parts.scheme == "https" else None
            with connection(parts, address, end, tls) as connected:
                sent = True
                response = exchange(connected, method, path_of(parts), headers, MAX_BYTES, payload)
            remaining(end)  # a truncated answer may look complete
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RegionUnavailable(shown, failure(error, end, WHOLE), sent) from error
        if response.status in _NOBODY_HOME:
            raise RegionUnavailable(shown, f"the answer is {response.status}", sent=True)
        if len(response.body) > MAX_BYTES:
            raise RegionUnavailable(shown, f"the answer has more than {MAX_BYTES} bytes", sent=True)
        return response.status, _read(response.body)


def trusted(ca_cert: str | None, insecure: bool) -> ssl.SSLContext:
    """Load the trusted certificates. Raises ssl.SSLError for an invalid certificate."""
    context = ssl.create_default_context(cadata=ca_cert)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def endpoints(settings: Settings) -> dict[str, Endpoint]:
    """Return the settings `regions` and `region_tokens` by name. Raises BadSetting."""
    tokens = dict(_pair("region_tokens", entry) for entry in settings.region_tokens)
    found = {}
    for name, url in (_pair("regions", entry) for entry in settings.regions):
        try:
            parts = urlsplit(url)
            fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fine = False
        if not fine or parts.username is not None or parts.query or parts.fragment:
            raise BadSetting(
                f"regions: the address of {name} ({origin(url)}…) must be one such as https://host:8004/v1/{PROJECT},"
                " without user, password and query. A token belongs into region_tokens."
            )
        found[name] = Endpoint(url.rstrip("/"), tokens.pop(name, None))
    if tokens:
        raise BadSetting(f"region_tokens: there is no region {', '.join(sorted(tokens))}.")
    return found


def _pair(setting: str, entry: str) -> tuple[str, str]:
    name, equals, value = entry.partition("=")
    if not (name and equals and value):
        raise BadSetting(f"{setting}: each entry is NAME=VALUE.")  # the value may be a secret: it is not shown
    return name.strip(), value.strip()


def _read(text: bytes) -> Json:
    try:
        found: Json = parse(text)
    except ValueError:
        return None
    return found
