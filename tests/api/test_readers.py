"""Requests in a reader: it answers as the engine does, or passes them on."""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.api.refusal_counts import RefusalCounts
from heatlite.core import reading
from heatlite.core.clock import Clock
from heatlite.core.config import Auth, Settings
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.reading import NeedsEngine
from heatlite.store.store import Store
from tests.api.conftest import Heat, Ticking, template, value
from tests.api.test_api_ref import SampleTime
from tests.api.test_api_ref import test_the_samples_are_what_the_api_takes_and_gives as play_every_route
from tests.databases import sqlite


class Reader:
    """A reader in front of the engine, both in this process: a WSGI application.

    Notes the paths of GETs that the reader passes on, and those that it answers with another status.
    """

    def __init__(
        self, settings: Settings, engine: Callable[..., Iterable[bytes]], clock: Clock | None = None
    ) -> None:
        self._engine = engine
        self._embedded = wiring.beside(settings, clock)
        self._app: Any = self._embedded.app
        self._thread = ThreadPoolExecutor(1, initializer=reading.only_read)
        self.passed: list[str] = []
        self.answered: list[str] = []
        self.differences: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return self._engine(environ, start_response)
        path = environ["PATH_INFO"]
        status = self._thread.submit(self._ask, {**environ, "wsgi.input": BytesIO()}).result()
        (self.answered if status else self.passed).append(path)

        def compared(line: str, headers: list[tuple[str, str]], exc_info: object = None) -> object:
            if status not in (None, line):
                self.differences.append(f"{path}: {status}, not {line}")
            return start_response(line, headers)

        return self._engine(environ, compared)

    def _ask(self, environ: dict[str, Any]) -> str | None:
        """The status of the reader's answer; None if it passes the request on."""
        said: list[str] = []
        try:
            for _ in self._app(environ, lambda line, *_: said.append(line)):
                pass
        except NeedsEngine:
            return None
        finally:
            self._embedded.store.close()
        return said[0]

    def close(self) -> None:
        self._thread.shutdown()
        self._embedded.close()


class Tried:
    """A reader that is asked first, also for writes, as after a refusal.

    A WSGI application. The engine answers what the reader passes on.
    """

    def __init__(self, settings: Settings, engine: wiring.Embedded, clock: Clock | None = None) -> None:
        self._engine = engine
        self._embedded = wiring.beside(settings, clock)
        self._app: Any = self._embedded.app
        self._thread = ThreadPoolExecutor(1, initializer=reading.only_read)
        self._from, self._to = (
            RefusalCounts(one.store.audit, one.components.admission.suppressed) for one in (self._embedded, engine)
        )
        self.answered: list[tuple[str, int]] = []
        """Methods and codes of the answers of the reader."""

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        said: list[Any] = []
        found = self._thread.submit(self._ask, {**environ, "wsgi.input": BytesIO(body)}, said).result()
        if found is not None:
            self.answered.append((environ["REQUEST_METHOD"], int(said[0].split()[0])))
            start_response(*said)
            return found
        self.pass_counts()
        return self._engine.app({**environ, "wsgi.input": BytesIO(body)}, start_response)

    def _ask(self, environ: dict[str, Any], said: list[Any]) -> list[bytes] | None:
        """The body of the reader's answer; None if it passes the request on."""
        try:
            found = [*self._app(environ, lambda line, headers, *_: said.extend((line, headers)))]
        except NeedsEngine:
            reading.end_request(is_answered=False)
            return None
        else:
            reading.end_request(is_answered=True)
            return found
        finally:
            self._embedded.store.close()

    def pass_counts(self) -> None:
        """Pass the counts of refusals to the engine."""
        self._from.pass_on(self._to.add)
        self._to.write()

    def find_queue_full(self) -> None:
        """Pass no counts on, as if the queue were full."""

        def put(_message: bytes) -> None:
            raise BlockingIOError

        self._from.pass_on(put)

    def close(self) -> None:
        self._thread.submit(self._embedded.close).result()
        self._thread.shutdown()


@pytest.fixture
def read(own_server: wiring.Embedded, tmp_path: Path) -> Iterator[Reader]:
    """A reader beside the engine of `own_server`."""
    made = Reader(Settings(database=sqlite(tmp_path)), own_server.app)
    yield made
    made.close()


@pytest.mark.full
def test_every_route_that_reads_is_answered_by_a_reader(tmp_path: Path) -> None:
    """In the scenario of the API reference, while the database refuses writes."""
    settings, clock = Settings(database=sqlite(tmp_path)), SampleTime()
    server = wiring.embedded(settings, clock=clock)
    read = Reader(settings, server.app, clock)
    try:
        play_every_route(Heat(read), server)
        assert read.differences == []
        assert len({re.sub(r"[0-9a-f-]{36}|[0-9]+", "", path) for path in read.answered}) > 40
        # Streams, query API, and what the engine's process has counts of in memory.
        passed = {path for path in read.passed if not path.endswith("/lock")}
        assert passed <= {"/v1/demo/events", "/v1", "/v1/", "/v1/demo/audit"}, passed
    finally:
        read.close()
        server.close()


@pytest.mark.full
def test_every_route_may_be_tried_in_a_reader(tmp_path: Path) -> None:
    """It refuses as the engine does, and passes on what it cannot answer."""
    settings, clock = Settings(database=sqlite(tmp_path)), SampleTime()
    server = wiring.embedded(settings, clock=clock)
    tried = Tried(settings, server, clock)
    try:
        play_every_route(Heat(tried), server)
        assert {"GET", "POST"} <= {method for method, _ in tried.answered}
    finally:
        tried.close()
        server.close()


@pytest.mark.full
def test_refusals_of_a_reader_are_counted(tmp_path: Path) -> None:
    """Once each, in the list of the lock and in the audit log."""
    settings, clock = Settings(database=sqlite(tmp_path)), Ticking()
    server = wiring.embedded(settings, clock=clock)
    tried = Tried(settings, server, clock)
    heat = Heat(tried)
    path = heat.create(template(a=value("1")), "s")
    heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, 200)
    heat.settle(path)
    tried.answered.clear()
    for _ in range(10):
        heat.fault("POST", f"{path}/actions", {"check": None}, 409)
    assert tried.answered == [("POST", 409)] * 8  # the engine has written two rows
    (listed,) = heat.get(f"{path}/lock")["suppressed"]
    assert (listed["request"], listed["count"]) == ("check", 10)
    rows = [row for row in heat.get("/audit")["audit"] if row["status"] == 409]
    assert sum(row["times"] for row in rows) == 10
    entry = listed["id"]
    heat.call("DELETE", f"{path}/lock/suppressed/{entry}", code=204)
    heat.fault("POST", f"{path}/actions", {"check": None}, 409)
    assert [one["count"] for one in heat.get(f"{path}/lock")["suppressed"]] == [1]
    heat.call("POST", f"{path}/actions", {"unlock": None}, 200)
    heat.settle(path)
    heat.call("POST", f"{path}/actions", {"check": None}, 200)
    tried.close()
    server.close()


@pytest.mark.full
def test_counts_wait_for_room_in_the_queue(own_server: wiring.Embedded, tmp_path: Path) -> None:
    tried = Tried(Settings(database=sqlite(tmp_path)), own_server)
    heat = Heat(tried)
    path = heat.create(template(a=value("1")), "s")
    heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, 200)
    heat.settle(path)
    for _ in range(3):
        for _ in range(4):
            heat.fault("POST", f"{path}/actions", {"check": None}, 409)
        tried.find_queue_full()
    tried.pass_counts()
    assert [one["count"] for one in heat.get(f"{path}/lock")["suppressed"]] == [12]
    rows = [row for row in heat.get("/audit")["audit"] if row["status"] == 409]
    assert sum(row["times"] for row in rows) == 12
    heat.fault("POST", f"{path}/actions", {"check": None}, 409)
    tried.close()  # with a count


@pytest.mark.full
def test_a_reader_sees_what_the_engine_has_just_written(read: Reader) -> None:
    heat = Heat(read)
    for number in range(20):
        path = heat.create(template(a=value(str(number))), f"s{number}", wait=False)
        heat.get(path)
        assert heat.call("GET", f"/stacks/s{number}", code=302).location.endswith(path)
    assert (read.passed, read.differences) == ([], [])


def test_the_database_of_a_reader_takes_no_writes(tmp_path: Path) -> None:
    store = Store.open(sqlite(tmp_path))
    store.upgrade()

    def write() -> None:
        reading.only_read()
        with pytest.raises(NeedsEngine), store.transaction():
            pass
        store.database.peewee.execute_sql("SELECT 1")
        store.stacks.get("s")
        with pytest.raises((sqlite3.OperationalError, DatabaseUnavailable), match="readonly"):
            store.database.read("DELETE FROM stack RETURNING id")
        store.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write).result()
    store.close()


def test_what_asks_the_cloud_is_passed_on(tmp_path: Path) -> None:
    settings = Settings(database=sqlite(tmp_path), cloud="simulated", metrics=True)
    server = wiring.embedded(settings)
    read = Reader(settings, server.app)
    try:
        heat = Heat(read)
        path = heat.create(template(net={"type": "OS::Neutron::Net", "properties": {"name": "n"}}))
        read.passed.clear()
        heat.get(path)
        heat.get(f"{path}/resources")
        assert read.passed == []
        heat.get("/resource_types")
        assert heat.app.get("/metrics", headers={"Host": "127.0.0.1:8004"}).status_int == 200
        assert read.passed == ["/v1/demo/resource_types", "/metrics"]
        assert read.differences == []
    finally:
        read.close()
        server.close()


@pytest.mark.full
def test_the_engine_checks_passwords_and_readers_remember_them(tmp_path: Path) -> None:
    """So the engine counts every wrong one."""
    passwords = pytest.importorskip("heatlite.api.access.passwords")
    users = tmp_path / "users"
    users.write_text(f"mia:{passwords.hash_password('right')}\n")
    (tmp_path / "users.toml").write_text('[mia]\ndemo = ["member"]\n')
    settings = Settings(database=sqlite(tmp_path), auth=Auth.BASIC, users_file=str(users))
    server = wiring.embedded(settings)
    read = Reader(settings, server.app)
    try:
        wrong, right = (Heat(read, proof=basic(word)) for word in ("wrong", "right"))
        right.call("GET", "/stacks", code=200)
        assert len(read.passed) == 1
        for _ in range(3):
            right.call("GET", "/stacks", code=200)
        assert len(read.passed) == 1
        for _ in range(6):
            wrong.call("GET", "/stacks", code=401)
        wrong.call("GET", "/stacks", code=429)
        right.call("GET", "/stacks", code=200)
        assert (len(read.passed), read.differences) == (8, [])
    finally:
        read.close()
        server.close()


def basic(password: str) -> dict[str, str]:
    """The header of a login."""
    from base64 import b64encode

    return {"Authorization": f"Basic {b64encode(f'mia:{password}'.encode()).decode()}"}
