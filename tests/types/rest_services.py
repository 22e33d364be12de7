"""Services over HTTP that keep any objects and record changes."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.clouds.serving import Serving, serving
from tests.types.exchanges import Replay

PLACE = re.compile(r"(?<![A-Z_])URL")
"""Stands for the URL of the services, in an answer."""
VERSIONS = {
    "dns": "v2", "identity": "v3", "image": "v2", "key_manager": "v1", "load_balancer": "v2.0", "network": "v2.0",
}  # fmt: skip
"""Versions of the services that the SDK asks for theirs."""


class RestServices:
    """The services of one cloud, in memory."""

    def __init__(self, objects: dict[str, Any], answers: dict[str, Any]) -> None:
        self.shapes = {re.compile(path.replace("*", "[^/]+") + "(?:/([^/]+))?"): objects[path] for path in objects}
        """Regular expression of a path → the form of its objects.

        `one`, `many`, `key`, `defaults`, values that it `becomes`, its state after deletion (`dying`), and `brief` for
        lists without /detail.
        """
        self.answers = answers
        """``METHOD /path`` → what is said to that."""
        self.asked: list[Any] = []
        """Each request that may change something, as ``{"METHOD /path?query": body}``."""
        self.things: dict[str, dict[str, Any]] = {}
        self.made = 0
        self.versions: dict[str, Any] = {}
        """Service → what it says of its version."""
        self.replay: Replay | None = None
        """Recorded answers that are given instead."""

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        """HTTP status and body."""
        path = urlsplit(target).path
        service, _, version = path.strip("/").partition("/")
        if version in ("", VERSIONS.get(service)) and service in self.versions:
            return 200, {"versions": [self.versions[service]]}
        if method != "GET":
            self.asked.append({f"{method} {target}": body})
        if self.replay is not None:
            return self.replay.answer(method, target, body)
        if f"{method} {path}" in self.answers:
            return 200, self.answers[f"{method} {path}"]
        for pattern, shape in self.shapes.items():
            found = pattern.fullmatch(path)
            if found is not None:
                return self._thing(method, path, found[1], body, shape or {})
        return 404, {"message": f"nothing at {path}"}

    def _thing(self, method: str, path: str, key: str | None, body: Any, shape: dict[str, Any]) -> tuple[int, Any]:
        one, many, name = shape.get("one"), shape.get("many"), shape.get("key", "id")
        brief = shape.get("brief") and key != "detail"
        if key == "detail":
            key, path = None, path.removesuffix("/detail")  # the list with all attributes
        if key is None and method == "GET":
            listed = [thing for where, thing in self.things.items() if where.rpartition("/")[0] == path]
            if brief:
                listed = [{one: thing.get(one) for one in (name, "name")} for thing in listed]
            return 200, {many: listed} if many else listed
        given = body.get(one, body) if one and isinstance(body, dict) else body
        if key is None:
            self.made += 1
            thing = {name: f"id-{self.made}", **shape.get("defaults", {}), **given, **shape.get("becomes", {})}
            self.things[f"{path}/{thing[name]}"] = thing
        elif path not in self.things:
            return 404, {"message": f"no {key}"}
        elif method == "DELETE" and "dying" in shape:
            self.things[path].update(shape["dying"], gone=True)
            return 202, None
        elif method == "DELETE" or method == "GET" and self.things[path].get("gone") is False:
            del self.things[path]
            return (204, None) if method == "DELETE" else (404, {"message": f"no {key}"})
        elif self.things[path].get("gone"):
            thing = self.things[path]
            thing["gone"] = False  # it is seen once more
        else:
            thing = self.things[path]
            if isinstance(given, list):
                given = {change["path"][1:]: change.get("value") for change in given}
            thing.update(given or {})
        return 200, {one: thing} if one else thing


@contextmanager
def rest_services(services: RestServices) -> Iterator[str]:
    """The services on a free local port, by URL, during the context."""

    class Handler(Serving):
        def answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            is_json = "json" in (self.headers.get("Content-Type") or "")
            body = (json.loads(sent) if is_json else sent.decode()) if sent else None
            if body is not None and not is_json and "json" in (self.headers.get("Accept") or ""):
                self.send(406, b"")  # as Mistral does
                return
            status, said = services.answer(self.command, self.path, body)
            text = said if isinstance(said, str) else json.dumps(said)
            kind = "application/json" if text[:1] in '{["n' else "text/plain"
            self.send(status, b"" if said is None else PLACE.sub(url, text).encode(), Content_Type=kind)

    with serving(Handler, threading.Event()) as port:
        url = f"http://127.0.0.1:{port}"
        for service, version in VERSIONS.items():
            links = [{"rel": "self", "href": f"{url}/{service}/{version}"}]
            services.versions[service] = {"id": version, "status": "CURRENT", "links": links}
        yield url
