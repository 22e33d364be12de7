"""Each changing route × each refusal of access: one row in the audit log."""

from collections.abc import Iterator

import bcrypt
import pytest

from heatlite import wiring
from heatlite.core.clock import Clock
from heatlite.core.config import Auth, Settings
from heatlite.store.audit import AuditQuery, AuditRecord
from tests.databases import sqlite

from .conftest import RULES, Heat, served_routes
from .test_lock_matrix import READS, REDIRECTS, P, R

AGENTS = {f"{method} {R}/node" for method in ("PUT", "POST")}
"""Requests of agents, which prove themselves by a signed URL. Only refused ones leave a row (tests/features/nodes)."""
PARTS = {
    "project": "demo",
    "stack_name": "s",
    "stack_id": "0191cf3b-6f0c-7d2e-9f7a-5a1b2c3d4e5f",
    "resource_name": "a",
    "source": "generic",
}


class LateClock(Clock):
    """The machine's clock, some seconds ahead."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


@pytest.fixture(scope="module")
def clock() -> LateClock:
    return LateClock()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, clock: LateClock) -> Iterator[wiring.Embedded]:
    folder = tmp_path_factory.mktemp("audit")
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()
    (folder / "users").write_text(f"mia:{hashed}\nrob:{hashed}\n")
    (folder / "users.toml").write_text('[mia]\ndemo = ["heat_stack_user"]\n[rob]\nother = ["member"]\n')
    settings = Settings(database=sqlite(folder), auth=Auth.BASIC, users_file=str(folder / "users"))
    server = wiring.embedded(settings, clock=clock)
    yield server
    server.close()


@pytest.fixture
def routes(server: wiring.Embedded) -> list[tuple[str, str]]:
    """Methods and paths of all requests that change something of a project."""
    return [
        (method, path)
        for method, path in served_routes(server.app)
        if method not in ("GET", "HEAD") and path.startswith(P) and f"{method} {path}" not in READS | REDIRECTS | AGENTS
    ]


def refusals(
    server: wiring.Embedded, routes: list[tuple[str, str]], user: str, password: str, code: int
) -> list[list[AuditRecord]]:
    """Send each request once. Returns its rows."""
    heat = Heat(server.app)
    if user:
        heat.app.authorization = ("Basic", (user, password))
    out = []
    for method, path in routes:
        parts = dict.fromkeys(path.replace("}", "{").split("{")[1::2], "1") | PARTS
        with server.store.transaction():
            server.store.audit.remove([one.request_id for one in server.store.audit.page("demo", AuditQuery())])
        heat.call(method, path.format(**parts), {}, code=code)
        out.append(server.store.audit.page("demo", AuditQuery()))
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("user", "password", "code"),
    [("", "", 401), ("rob", "right", 403), ("mia", "right", 403)],
    ids=["unknown", "another project", "without the right"],
)
def test_each_refused_access_is_one_row(
    server: wiring.Embedded, routes: list[tuple[str, str]], user: str, password: str, code: int
) -> None:
    if user == "mia":  # machines may signal
        routes = [one for one in routes if not one[1].endswith("/signal")]
    for route, rows in zip(routes, refusals(server, routes, user, password, code), strict=True):
        assert [(row.status, row.times, row.operation in RULES) for row in rows] == [(code, 1, True)], route


@pytest.mark.slow
def test_each_throttled_login_is_one_row(
    server: wiring.Embedded, routes: list[tuple[str, str]], clock: LateClock
) -> None:
    guesser = Heat(server.app)
    guesser.app.authorization = ("Basic", ("zoe", "left"))
    for _ in range(14):  # until the delay is 300 seconds
        guesser.call("GET", "/stacks", code=401)
        clock.ahead += 300
    clock.ahead -= 300
    for route, rows in zip(routes, refusals(server, routes, "zoe", "left", 429), strict=True):
        assert [(row.status, row.user, row.operation in RULES) for row in rows] == [(429, None, True)], route
