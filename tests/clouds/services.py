"""Small HTTP servers in the place of cloud services, with answers by a test."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.clouds.serving import Serving, serving

EXPIRES = "2099-01-01T00:00:00.000000Z"


@dataclass
class Answer:
    """An answer of a service; `body` is sent as JSON unless it is text."""

    status: int = 200
    body: Any = field(default_factory=dict)
    content_type: str = "application/json"
    request_id: str = "req-11111111-2222-3333-4444-555555555555"
    seconds: float = 0.0
    """Seconds before the answer."""


REFUSED = Answer(401, {"error": {"code": 401, "message": "The request you have made requires authentication."}})

Service = Callable[[str, str, Any], Answer | None]
"""Given method, path below the service and body; None: the way to there breaks off without an answer."""


class Network:
    """A network service with one network. `said` answers in its place."""

    def __init__(self) -> None:
        self.things: dict[str, dict[str, Any]] = {}
        self.said: Answer | None = None
        self.silent = False

    def __call__(self, method: str, path: str, body: Any) -> Answer | None:
        if self.silent:
            return None
        if self.said is not None:
            return self.said
        if method == "POST":
            thing = {"id": "n1", "status": "ACTIVE", "tags": [], **body["network"]}
            self.things["n1"] = thing
            return Answer(201, {"network": thing})
        key = path.rpartition("/")[2].partition("?")[0]
        if key not in self.things:
            return Answer(404, {"NeutronError": {"type": "NetworkNotFound", "message": f"Network {key} not found."}})
        if method == "DELETE":
            del self.things[key]
            return Answer(204, "")
        return Answer(200, {"network": self.things[key]})


class FakeCloud:
    """An identity service whose catalog has one network service, at the same port."""

    def __init__(self, port: int, network: Service | None) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.network = network
        self.password = "secret"
        self.refusal: Answer | None = None
        """The answer to a request for a token."""
        self.project = "p1"
        self.tokens = 0
        """Number of issued tokens; only the newest is valid."""
        self.slow = 0.0
        """Seconds before the answer about its versions."""
        self.discoveries = 0
        """Number of requests for its versions."""
        self.more: dict[str, str] = {}
        """Further services of the catalog: type → path. The network service answers for them."""
        self.calls: list[tuple[str, str]] = []
        """Method and path of what the network service was asked, in order."""
        self.connections: set[object] = set()
        """Addresses of the client's ends of all connections."""

    def entry(self, **more: Any) -> dict[str, Any]:
        """Its entry in clouds.yaml."""
        auth = {
            "auth_url": f"{self.url}/identity/v3", "username": "demo", "password": "secret", "project_name": "demo",
            "user_domain_id": "default", "project_domain_id": "default",
        }  # fmt: skip
        return {"auth": auth, "region_name": "RegionOne", **more}

    def answer(self, method: str, path: str, token: str | None, body: Any) -> Answer | None:
        if path.startswith("/identity"):
            return self._identity(method, path, body)
        if path.rstrip("/") in ("/network", "/network/v2.0"):
            link = {"rel": "self", "href": f"{self.url}/network/v2.0/"}
            self.discoveries += 1
            return Answer(
                body={"versions": [{"id": "v2.0", "status": "CURRENT", "links": [link]}]}, seconds=self.slow
            )
        self.calls.append((method, path.removeprefix("/network/v2.0").partition("?")[0]))
        if token != f"token-{self.tokens}":
            return REFUSED
        assert self.network is not None
        return self.network(method, path.removeprefix("/network/v2.0"), body)

    def _identity(self, method: str, path: str, body: Any) -> Answer:
        if method == "GET":
            link = {"rel": "self", "href": f"{self.url}/identity/v3/"}
            version = {"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z", "links": [link]}
            one = path.rstrip("/").endswith("v3")
            return Answer(200 if one else 300, {"version": version} if one else {"versions": {"values": [version]}})
        if self.refusal is not None:
            return self.refusal
        if body["auth"]["identity"]["password"]["user"]["password"] != self.password:
            return REFUSED
        self.tokens += 1
        catalog = [self._service("identity", "/identity/v3")]
        if self.network is not None:
            catalog.append(self._service("network", "/network"))
        catalog += [self._service(kind, path) for kind, path in self.more.items()]
        project = {"id": self.project, "name": "demo", "domain": {"id": "default", "name": "Default"}}
        user = {"id": "u1", "name": "demo", "domain": {"id": "default", "name": "Default"}}
        token = {
            "methods": ["password"], "expires_at": EXPIRES, "issued_at": "2026-01-01T00:00:00.000000Z",
            "project": project, "user": user, "roles": [{"id": "r1", "name": "member"}], "catalog": catalog,
        }  # fmt: skip
        return Answer(201, {"token": token})

    def _service(self, kind: str, path: str) -> dict[str, Any]:
        endpoint = {"id": kind, "interface": "public", "region": "RegionOne", "region_id": "RegionOne"}
        return {"id": kind, "type": kind, "name": kind, "endpoints": [{**endpoint, "url": self.url + path}]}


@contextmanager
def fake_cloud(network: Service | None) -> Iterator[FakeCloud]:
    """A cloud on a free port of this machine, for as long as the context lasts."""
    ended = threading.Event()

    class Handler(Serving):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            cloud.connections.add(self.client_address)
            said = cloud.answer(self.command, self.path, self.headers.get("X-Auth-Token"), body)
            if said is None:
                self.close_connection = True
                return
            ended.wait(said.seconds)
            data = (said.body if isinstance(said.body, str) else json.dumps(said.body)).encode()
            more = {}
            if self.command == "POST" and self.path.endswith("/auth/tokens"):
                more["X_Subject_Token"] = f"token-{cloud.tokens}"
            self.send(said.status, data, Content_Type=said.content_type, X_Openstack_Request_Id=said.request_id, **more)

    with serving(Handler, ended) as port:
        cloud = FakeCloud(port, network)
        yield cloud


def clouds_yaml(folder: Path, **clouds: Any) -> Path:
    """A clouds.yaml with these entries."""
    path = folder / "clouds.yaml"
    path.write_text(yaml.safe_dump({"clouds": clouds}))
    return path
