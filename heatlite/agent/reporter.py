"""Reporter: registers the agent with the server and reports changes.

No other work waits for it, so the server may be unreachable.
"""

import http.client
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from urllib.parse import urlsplit

from heatlite.agent.log import log
from heatlite.agent.settings import AgentSettings, BadSettings, register_address

_SECONDS = 10.0
"""Timeout of a request in seconds."""
_FIRST_PAUSE, _LAST_PAUSE = 0.5, 60.0
"""Seconds between retries; the pause doubles each time."""
_LONGEST = 1000
"""Characters of the server's sentence that are logged."""
_LOOK = 2.0
"""Seconds between two reads of the file with the URL."""


class Reporter:
    """Registers the agent and posts events, each for all changes since the last."""

    def __init__(
        self, settings: AgentSettings, url: str, secret: str, instance: str, version: str, kinds: Sequence[str]
    ) -> None:
        """Prepare the registration.

        Raises BadSettings if the authority's file cannot be used.
        """
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
        # A proxy for plain http could read the secret; one for https only tunnels (CONNECT).
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
        """Last error of reading the file with the URL; the same error is logged once."""

    def change(self) -> None:
        """Report a change soon. Returns at once."""
        self._changed = True
        self._awake.set()

    def stop(self) -> None:
        """Make run() return as soon as possible."""
        self._stopped.set()
        self._awake.set()

    def run(self) -> None:
        """Register and report changes until stop()."""
        registered_at: str | None = None
        pause = _FIRST_PAUSE
        while not self._stopped.is_set():
            url = self._url()
            changed = self._changed
            if url is None or (url == registered_at and not changed):
                self._awake.wait(_LOOK if self._settings.register is None else None)
                self._awake.clear()
                continue
            # A change from here on needs another event.
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
                # The server does not know this agent: its database was restored, or the resource replaced.
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
        """Send a request. Returns None or the error, without the URL, which is a secret."""
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                answer.read(65536)
        except urllib.error.HTTPError as error:
            with error:
                return f"HTTP {error.code}{_message(error, url)}"
        except urllib.error.URLError as error:
            if isinstance(error.reason, ConnectionRefusedError):
                return "nothing listens there: is the server running?"
            return getattr(error.reason, "strerror", None) or str(error.reason)
        except (OSError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}"
        return None


def _message(answer: urllib.error.HTTPError, url: str) -> str:
    """Return the server's sentence, such as why it refuses the agent.

    It never has the URL, which is a secret.
    """
    try:
        message = json.loads(answer.read(65536))["error"]["message"]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return ": " + str(message).replace(url, "[url]").replace(urlsplit(url).query or url, "[url]")[:_LONGEST]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Rejects redirects, so that the secret goes only to the configured server."""

    def redirect_request(self, *_: object) -> None:
        return None


def _context(settings: AgentSettings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(
            cafile=None if settings.server_authority is None else str(settings.server_authority)
        )
    except OSError as error:
        raise BadSettings(f"server_authority: {settings.server_authority}: {error}") from None
