"""Tells the server where the agent is, and that something has changed. Nothing waits for it; the server may be away."""

import http.client
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from urllib.parse import urlsplit

from heatlite.agent.log import log
from heatlite.agent.settings import BadSettings, Settings, register_address

_SECONDS = 10.0
"""For an answer."""
_FIRST_PAUSE, _LAST_PAUSE = 0.5, 60.0
"""Seconds between tries: twice as many each time."""
_LOOK = 2.0
"""Seconds between two looks at the file with the URL."""


class Reporter:
    """Registers, and posts events: one for all that has changed since the last."""

    def __init__(
        self, settings: Settings, url: str, secret: str, instance: str, version: str, kinds: Sequence[str]
    ) -> None:
        """Raises BadSettings where the authority's file is none."""
        self._settings = settings
        self._body = json.dumps(
            {
                "url": url,
                "secret": secret,
                "instance": instance,
                "agent": version,
                "kinds": list(kinds),
                "deployments": settings.deployments,
            }
        ).encode()
        # A proxy of plain http would read the secret; through one for https there is a tunnel (CONNECT).
        proxies = {scheme: proxy for scheme, proxy in urllib.request.getproxies().items() if scheme == "https"}
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler(proxies),
            urllib.request.HTTPSHandler(context=_context(settings)),
            _NoRedirects(),
        )
        self._awake = threading.Event()
        self._changed = False
        self._stopped = threading.Event()
        self._unreadable = ""
        """Why the file with the URL could not be read; told once."""

    def change(self) -> None:
        """Something has changed. Returns at once."""
        self._changed = True
        self._awake.set()

    def stop(self) -> None:
        """Return from run() as soon as possible."""
        self._stopped.set()
        self._awake.set()

    def run(self) -> None:
        """Until stop()."""
        registered_at: str | None = None
        pause = _FIRST_PAUSE
        while not self._stopped.is_set():
            url = self._url()
            changed = self._changed
            if url is None or (url == registered_at and not changed):
                self._awake.wait(_LOOK if self._settings.register is None else None)
                self._awake.clear()
                continue
            # What changes from here on is told anew.
            self._changed = False
            self._awake.clear()
            what, method, body = ("event", "POST", b"") if url == registered_at else ("register", "PUT", self._body)
            reason = self._ask(url, method, body)
            if reason is None:
                if what == "register":
                    registered_at = url
                    log("registered", server=urlsplit(url).netloc)
                pause = _FIRST_PAUSE
                continue
            self._changed = self._changed or changed
            log(f"{what}-failed", server=urlsplit(url).netloc, error=reason)
            if what == "event" and reason.startswith("HTTP 4"):
                # It knows nothing of us: its database is an older one, or the resource another.
                registered_at = None
            self._stopped.wait(pause)
            pause = min(_LAST_PAUSE, 2 * pause)

    def _url(self) -> str | None:
        if self._settings.register is not None or self._settings.metadata is None:
            return self._settings.register
        try:
            found = json.loads(self._settings.metadata.read_bytes())
            url = register_address("heatlite_agent.register", found["heatlite_agent"]["register"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError, BadSettings) as error:
            reason = str(error) if isinstance(error, BadSettings) else type(error).__name__
            if self._unreadable != reason:
                self._unreadable = reason
                log("metadata-unreadable", file=str(self._settings.metadata), error=self._unreadable)
            return None
        self._unreadable = ""
        return url

    def _ask(self, url: str, method: str, body: bytes) -> str | None:
        """Returns why it did not work; the URL itself is a secret and no part of it."""
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                answer.read(65536)
        except urllib.error.HTTPError as error:
            with error:
                return f"HTTP {error.code}"
        except urllib.error.URLError as error:
            return str(error.reason)
        except (OSError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}"
        return None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Nobody is told the secret but who was named."""

    def redirect_request(self, *_: object) -> None:
        return None


def _context(settings: Settings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(
            cafile=None if settings.server_authority is None else str(settings.server_authority)
        )
    except OSError as error:
        raise BadSettings(f"server_authority: {settings.server_authority}: {error}") from None
