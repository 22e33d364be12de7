"""A way to a real service on which answers get lost."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

from tests.clouds.serving import Serving, serving

TROUBLE = ("unheard", "unanswered", "late", "503", "html", "empty")
"""Faults of the first request that makes something of this name.

The request is lost; or its answer is cut off, late, or of another request.
"""
LATE = 30.0


class Relay:
    """Hands everything on to a service on this machine, but for trouble."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.url = ""
        self.met: list[str] = []
        """The trouble that was, in order."""

    def trouble(self, method: str, body: bytes) -> str:
        """The fault of a request."""
        if method != "POST" or not body:
            return ""
        for thing in json.loads(body).values():
            name = thing.get("name") if isinstance(thing, dict) else None
            if name in TROUBLE and name not in self.met:
                self.met.append(name)
                return str(name)
        return ""


@contextmanager
def relay(port: int) -> Iterator[Relay]:
    """A way to the service at a port, for as long as the context lasts."""
    way, ended = Relay(port), threading.Event()

    class Handler(Serving):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            trouble = way.trouble(self.command, body)
            if trouble == "unheard":
                self.close_connection = True
                return
            service = HTTPConnection("127.0.0.1", way.target, timeout=240)
            service.request(self.command, self.path, body, dict(self.headers))
            heard = service.getresponse()
            status, data, kind = heard.status, heard.read(), heard.headers.get("Content-Type", "")
            service.close()
            match trouble:
                case "unanswered":
                    self.close_connection = True
                    return
                case "late":
                    ended.wait(LATE)
                case "503":
                    status, data, kind = 503, b"<html>No server is available</html>", "text/html"
                case "html":
                    data, kind = b"<html>Welcome</html>", "text/html"
                case "empty":
                    data = b"{}"
            self.send(status, data, Content_Type=kind)

    with serving(Handler, ended) as own:
        way.url = f"http://127.0.0.1:{own}"
        yield way
