"""Template downloads from hosts that the operator lists (`template_hosts`)."""

import http.client
import time
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin, urlsplit

from msgspec import Struct, field

from heatlite.core.errors import HTTPBadRequest, RequestLimitExceeded, Unavailable
from heatlite.core.redaction.masking import origin
from heatlite.core.runtime.bulkhead import Bulkhead
from heatlite.engine.outbound.egress import (
    EgressHosts,
    RefusedHost,
    Response,
    connection,
    exchange,
    failure,
    path_of,
    remaining,
)

_MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)
AT_ONCE: Final = 3
"""Concurrent downloads, of the eight requests that a server handles at once."""
IN_LINE: Final = 2
"""Requests that may wait for a free slot."""
IN_LINE_SECONDS: Final = 1.0
"""Seconds that a request waits for a free slot."""


def _busy() -> Unavailable:
    return Unavailable(service="The fetching of templates", reason="too many requests wait for it; try again later")


class Fetcher(Struct, frozen=True):
    """Downloads text over HTTP and HTTPS.

    The URL and each redirect must lead to a listed host (`EgressHosts`).
    """

    hosts: tuple[str, ...]
    most_bytes: int
    timeout: float
    turns: Bulkhead = field(default_factory=lambda: Bulkhead(AT_ONCE, IN_LINE, IN_LINE_SECONDS, _busy))
    """Limits concurrent fetches: a slow host must not take all threads of the server."""

    def lists(self, url: str) -> bool:
        """True if `text` would fetch from the host of `url`."""
        return self._allowed.lists(url)

    @property
    def _allowed(self) -> EgressHosts:
        return EgressHosts("template_hosts", self.hosts)

    def text(self, url: str) -> str:
        """Return the text at `url`.

        Raises HTTPBadRequest, RequestLimitExceeded above `most_bytes`, Unavailable during too many other fetches.
        """
        with self.turns.turn():
            return self._text(url)

    def _text(self, url: str) -> str:
        end = time.monotonic() + self.timeout
        here = url
        for _ in range(_MAX_REDIRECTS + 1):
            try:
                parts = urlsplit(here)
                address = self._allowed.address(parts, end)
                with connection(parts, address, end) as connected:
                    headers = {"Host": parts.netloc, "Connection": "close"}
                    response = exchange(connected, "GET", path_of(parts), headers, self.most_bytes)
                remaining(end)  # a truncated text may look complete
                target = response.headers["Location"] if response.status in _REDIRECTS else None
                following = urljoin(here, target or "")
            except RefusedHost as error:
                raise _failed(url, str(error)) from None
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise _failed(url, failure(error, end, self.timeout)) from error
            if target is None:
                return self._content(url, response)
            if parts.scheme == "https" and not following.startswith("https:"):
                raise _failed(url, f"it redirects from https to {_shown(following)}")
            here = following
        raise _failed(url, f"there are more than {_MAX_REDIRECTS} redirects")

    def _content(self, url: str, response: Response) -> str:
        if response.status != HTTPStatus.OK:
            raise _failed(url, f"the answer is {response.status}")
        if len(response.body) > self.most_bytes:
            text = f"Template {_shown(url)} exceeds maximum allowed size ({self.most_bytes} bytes)."
            raise RequestLimitExceeded(f"Request limit exceeded: {text}")
        try:
            return response.body.decode()
        except UnicodeDecodeError as error:
            raise _failed(url, f"it is no UTF-8 text (byte {error.start})") from None


def _failed(url: str, reason: str) -> HTTPBadRequest:
    return HTTPBadRequest(f"Could not retrieve template {_shown(url)}: {reason}.")


def _shown(url: str) -> str:
    """Return the URL for messages, without user, password and query."""
    shown = origin(url, path=True)
    return (shown if shown.isprintable() else repr(shown))[:200]
