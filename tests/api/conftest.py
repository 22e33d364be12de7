"""The real application over the real engine.

The tests of a process share one server, on which each has a project of its own. A test of what belongs to a whole
server, such as settings, clock, keys, files and lists of all projects, has its own server: `own_heat`.
"""

import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import falcon.inspect
import pytest
from webtest import TestApp, TestResponse

from heatlite import wiring
from heatlite.api.access.account_files import add_token
from heatlite.api.access.policy import TABLE
from heatlite.core.clock import Clock
from heatlite.core.config import Auth, Settings
from heatlite.core.context import Context
from heatlite.core.errors import ActionImmutable, NotFound
from heatlite.core.status import Signal
from heatlite.feature import installed
from heatlite.store.actions.table import LIVE
from heatlite.store.audit import AuditOutcome
from heatlite.store.store import Store
from heatlite.store.tables.audit import Audit
from tests.databases import sqlite
from tests.waiting import eventually
from tests.ways_out import check_conflict

HEADERS = {"Content-Type": "application/json"}
NOW = 1_700_000_000.0
"""A time that has passed."""
MINUTE = 1_800_000_000.0
"""A time at which a minute and an hour begin."""
RULES = {**TABLE, **{rule: roles for one in installed() for rule, roles in one.rules().items()}}
"""The rules of all routes."""
NUMBERS = count()
"""One for each project of a shared server."""


class Ticking(Clock):
    """Time that goes on by a millisecond at each look: no minute ends in a test.

    Equal refusals of two minutes are two rows of the audit log.
    """

    def __init__(self) -> None:
        self._moments = count(MINUTE, 0.001)

    def now(self) -> float:
        return next(self._moments)


class Heat:
    """A client of one project."""

    def __init__(self, app: Any, project: str = "demo", proof: Mapping[str, str] = {}) -> None:
        """`proof` are headers that every request has."""
        self.wsgi = app
        self.proof = proof
        self.app = TestApp(app)
        self.project = project
        self.root = f"/v1/{project}"

    def of(self, project: str) -> "Heat":
        """The same server, another project."""
        return Heat(self.wsgi, project, self.proof)

    @property
    def other(self) -> "Heat":
        """The same server, a project beside this one."""
        return self.of(f"{self.project}-other")

    def call(
        self, method: str, path: str, body: object = None, code: int | None = None, headers: Mapping[str, str] = {}
    ) -> TestResponse:
        """One request.

        `path` is below the project, or whole if it starts with /v1; `body` is JSON or bytes.
        """
        url = path if path.startswith("/v1/") else self.root + path
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {**HEADERS, **self.proof, **headers}
        response = self.app.request(url, method=method, body=raw, headers=sent, expect_errors=True)
        if code is not None:
            assert response.status_int == code, f"{method} {url}: {response.status} {response.text}"
        if response.status_int == 409:
            check_conflict(response.json["error"])
        return response

    def get(self, path: str, code: int = 200) -> Any:
        """The JSON of a GET."""
        return self.call("GET", path, code=code).json

    def fault(self, method: str, path: str, body: object = None, code: int = 400) -> tuple[str, str]:
        """Type and message of a refusal, after a look at the whole fault body."""
        response = self.call(method, path, body, code)
        assert response.content_type == "application/json"
        shown = response.json
        assert shown.keys() == {"code", "title", "explanation", "error"}
        assert shown["code"] == code
        assert shown["error"].keys() >= {"type", "message", "traceback"}
        assert shown["error"]["traceback"] is None
        return shown["error"]["type"], shown["error"]["message"]

    def create(self, template: object, name: str = "s", wait: bool = True, **more: object) -> str:
        """Create a stack and tell its path; with `wait`, once it has come to rest."""
        answer = self.call("POST", "/stacks", {"stack_name": name, "template": template, **more}, code=201)
        path = f"/stacks/{name}/{answer.json['stack']['id']}"
        if wait:
            self.settle(path)
        return path

    def settle(self, path: str, expect: str | None = None) -> Any:
        """The stack once nothing is in progress any more."""
        def settled() -> Any:
            found = self.get(path)["stack"]
            return None if found["stack_status"].endswith("IN_PROGRESS") else found

        stack = eventually(settled, f"{path} comes to rest")
        if expect is not None:
            assert stack["stack_status"] == expect, stack["stack_status_reason"]
        return stack


class Town:
    """A project of a server, and tokens for people of all kinds, by name."""

    def __init__(self, server: wiring.Embedded, project: str = "demo") -> None:
        self.server, self.project = server, project
        people: dict[str, tuple[dict[str, frozenset[str]], float | None]] = {
            role: ({project: frozenset({role})}, None) for role in ("reader", "member", "admin", "heat_stack_user")
        }
        people["nothing"] = ({project: frozenset()}, None)
        people["odd"] = ({project: frozenset({"observer", "Member", "_member_"})}, None)
        people["nowhere"] = ({}, None)
        people["stranger"] = ({"other": frozenset({"reader", "member", "heat_stack_user"})}, None)
        people["expired"] = ({project: frozenset({"admin", "member"})}, NOW - 1)
        file = Path(str(server.components.settings.tokens_file))
        self.tokens = {name: add_token(file, name, projects, end) for name, (projects, end) in people.items()}

    def __getitem__(self, name: str) -> Heat:
        """The project for one of them."""
        return Heat(self.server.app, self.project, {"X-Auth-Token": self.tokens[name]})


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wiring.Embedded]:
    """A server that the tests of a process share."""
    server = wiring.embedded(Settings(database=sqlite(tmp_path_factory.mktemp("server"))))
    yield server
    server.close()


@pytest.fixture
def server(shared_server: wiring.Embedded) -> wiring.Embedded:
    """The server of `heat`.

    A file whose tests need servers of their own returns `own_server` here.
    """
    return shared_server


@pytest.fixture
def store(server: wiring.Embedded) -> Store:
    """The store of `heat`'s server."""
    return server.store


@pytest.fixture
def heat(server: wiring.Embedded) -> Iterator[Heat]:
    """A project with nothing in it."""
    yield new_project(server)
    stop_actions(server)


def new_project(server: wiring.Embedded) -> Heat:
    """A project of a server with nothing in it.

    The log keeps a number of refusals of one caller, and all tests of a server have the same: those before are removed.
    """
    with server.store.transaction():
        server.store.database.change(Audit.delete().where(Audit.outcome == AuditOutcome.REFUSED))
    return Heat(server.app, f"demo-{next(NUMBERS)}")


def stop_actions(server: wiring.Embedded) -> None:
    """Stop what a test has left in progress.

    It would take the engine's slots from the tests that follow.
    """
    store = server.store
    for (identifier,) in store.database.read(f"SELECT id FROM action WHERE {LIVE}"):
        action = store.actions.get(identifier)
        if action is not None:
            with suppress(ActionImmutable, NotFound):  # it has just ended
                server.components.controls.signal(Context(action.project), action, Signal.CANCEL, force=True)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[wiring.Embedded]:
    """A server of this test."""
    server = wiring.embedded(Settings(database=sqlite(tmp_path)))
    yield server
    server.close()


@pytest.fixture
def own_store(own_server: wiring.Embedded) -> Store:
    """The store of `own_heat`'s server."""
    return own_server.store


@pytest.fixture
def own_heat(own_server: wiring.Embedded) -> Heat:
    """A server with nothing in it."""
    return Heat(own_server.app)


@pytest.fixture(scope="session")
def refusing(shared_server: wiring.Embedded) -> Heat:
    """A project shared by tests that only make requests which change nothing."""
    return Heat(shared_server.app)


@pytest.fixture(scope="session")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wiring.Embedded]:
    """A server that asks for tokens, which the tests of a process share."""
    folder = tmp_path_factory.mktemp("guarded")
    file = folder / "tokens.toml"
    file.touch()
    server = wiring.embedded(Settings(database=sqlite(folder), auth=Auth.TOKENS, tokens_file=str(file)))
    yield server
    server.close()


@pytest.fixture
def town(guarded_server: wiring.Embedded) -> Iterator[Town]:
    """A project of that server."""
    yield Town(guarded_server, new_project(guarded_server).project)
    stop_actions(guarded_server)


def served_routes(app: Any) -> list[tuple[str, str]]:
    """Methods and paths of the routes of an application.

    An item: ``("GET", "/v1/{project}/stacks")``.
    """
    with pytest.MonkeyPatch.context() as patch:
        # To look for the line of each handler, which nobody needs, takes longer than most tests.
        patch.setattr(inspect, "findsource", lambda _found: ([], 0))
        found = falcon.inspect.inspect_routes(app)
    return sorted((method.method, one.path) for one in found for method in one.methods if not method.internal)


def template(**resources: object) -> dict[str, object]:
    """A template with these resources."""
    return {"heat_template_version": "2021-04-16", "resources": resources}


def value(of: object = "v", **more: object) -> dict[str, object]:
    """An OS::Heat::Value."""
    return {"type": "OS::Heat::Value", "properties": {"value": of}, **more}


