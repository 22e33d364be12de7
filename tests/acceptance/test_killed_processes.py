"""The processes of `heatlite serve`: each one dies, and nothing accepted is lost."""

import json
import os
import select
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import DRAIN_SECONDS, START_SECONDS, TEMPLATES, CommandLine, Server
from tests.acceptance.test_streams import Following
from tests.waiting import eventually

pytestmark = pytest.mark.slow

VALUE = {"type": "OS::Heat::Value", "properties": {"value": "v"}}
TEMPLATE = {"heat_template_version": "2021-04-16", "resources": {"a": VALUE}}
VARIABLES = {"HEATLITE_PROCESSES": "2", "HEATLITE_METRICS": "true", "HEATLITE_MAX_STACKS_PER_TENANT": "-1"}


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    started = serve(**VARIABLES)
    eventually(lambda: started.worker() != 0 and len(started.apis()) == 2, "all processes are there")
    return started


class Creator(threading.Thread):
    """Creates stacks one after another, and reads each one back at once."""

    def __init__(self, server: Server, name: str) -> None:
        super().__init__()
        self._server = server
        self._name = name
        self.ended = threading.Event()
        self.made: list[str] = []
        """Paths of accepted stacks."""
        self.lost = 0
        """Connections that broke before their answer."""
        self.wrong: list[str] = []
        self.start()

    def run(self) -> None:
        connection = HTTPConnection("127.0.0.1", self._server.port, timeout=START_SECONDS)
        number = 0
        while not self.ended.wait(0.02):
            number += 1
            body = json.dumps({"stack_name": f"{self._name}-{number}", "template": TEMPLATE})
            try:
                connection.request("POST", "/v1/demo/stacks", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                found = json.loads(answer.read())
                if answer.status != 201:
                    self.wrong.append(f"{answer.status}: {found}")
                    continue
                path = f"/stacks/{self._name}-{number}/{found['stack']['id']}"
                self.made.append(path)
                connection.request("GET", f"/v1/demo{path}")
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    self.wrong.append(f"GET {path}: {answer.status}")
            except (OSError, HTTPException):
                self.lost += 1
                connection.close()
        connection.close()

    def more(self) -> None:
        """Wait until another stack is accepted."""
        before = len(self.made)
        eventually(lambda: len(self.made) > before + 1, "another stack is accepted")


@contextmanager
def load(server: Server) -> Iterator[list[Creator]]:
    """Create stacks during the block. Each answer is right, or its connection breaks."""
    creators = [Creator(server, f"c{number}") for number in range(3)]
    try:
        for creator in creators:
            creator.more()
        yield creators
    finally:
        for creator in creators:
            creator.ended.set()
        for creator in creators:
            creator.join()
    assert [creator.wrong for creator in creators] == [[], [], []]


def assert_complete(server: Server, creators: list[Creator]) -> None:
    """Each accepted stack is there and complete."""
    for path in (path for creator in creators for path in creator.made):
        assert server.settled(path) == "CREATE_COMPLETE"


def test_each_process_is_killed_under_load(server: Server) -> None:
    """Another one takes its place."""
    with load(server) as creators:
        for victim in ("engine", "api", "gunicorn", "engine"):
            engine, gunicorn, apis = server.worker(), server.gunicorn(), server.apis()
            killed = {"engine": engine, "api": apis[0], "gunicorn": gunicorn}[victim]
            os.kill(killed, signal.SIGKILL)
            eventually(
                lambda: killed not in (server.worker(), server.gunicorn(), *server.apis()), "it is gone"  # noqa: B023
            )
            eventually(lambda: server.worker() != 0 and len(server.apis()) == 2, "another one is there")
            assert (server.worker() == engine) == (victim != "engine")
            assert (server.gunicorn() == gunicorn) == (victim != "gunicorn")
            for creator in creators:
                creator.more()
    assert_complete(server, creators)
    server.stop()
    log = server.log.read_text()
    assert log.count("the engine has ended (killed by SIGKILL)") == 2
    assert log.count("the API has ended (killed by SIGKILL)") == 1
    assert server.complaints() == ""


def test_a_killed_supervisor_takes_all_along(server: Server, serve: Callable[..., Server]) -> None:
    """A new server starts at once, at the same port."""
    pids = [server.worker(), server.gunicorn(), *server.apis()]
    with load(server) as creators:
        server.process.kill()
        server.process.wait()
        again = serve(port=server.port, **VARIABLES)
        assert not {*pids} & {again.worker(), again.gunicorn(), *again.apis()}
        for creator in creators:
            creator.more()
    assert_complete(again, creators)
    again.stop()


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_stop_under_load(is_terminal: bool, server: Server, serve: Callable[..., Server]) -> None:
    """By SIGTERM, and by Ctrl-C."""
    with load(server) as creators:
        if is_terminal:
            os.killpg(server.process.pid, signal.SIGINT)
            assert server.process.wait(DRAIN_SECONDS) == 0
        else:
            server.stop()
    assert sum(creator.lost for creator in creators) >= len(creators)
    assert server.complaints() == ""
    again = serve(**VARIABLES)
    assert_complete(again, creators)
    again.stop()


def test_a_reload_under_load_replaces_the_api(server: Server) -> None:
    engine, before = server.worker(), server.apis()
    with load(server) as creators:
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: not {*before} & {*server.apis()} and len(server.apis()) == 2, "others are there")
        for creator in creators:
            creator.more()
    assert server.worker() == engine
    assert_complete(server, creators)
    server.stop()
    assert server.complaints() == ""


def answering(server: Server) -> set[str]:
    """The processes of the API that have answered a request of health."""
    assert server.request("GET", "/healthcheck").data == "OK"
    lines = [line for line in server.log.read_text().splitlines() if "GET '/healthcheck' 200" in line]
    return {line.split("] [")[1] for line in lines}


def test_requests_are_accepted_without_an_engine(
    serve: Callable[..., Server], heatlite: CommandLine, tmp_path: Path
) -> None:
    """The server says what is missing, and goes on once that is back."""
    types = tmp_path / "types"
    types.mkdir()
    server = serve(HEATLITE_ENVIRONMENT_DIR=str(types), **VARIABLES)
    # A process of the API that begins later cannot start, either, and nothing would start it again.
    eventually(lambda: len(answering(server)) == 2, "all processes of the API answer")
    wrong = types / "wrong.yaml"
    wrong.write_text("resource_registry: 3\n")  # the next engine cannot start
    os.kill(server.worker(), signal.SIGKILL)
    eventually(lambda: server.request("GET", "/healthcheck").data != "OK", "it tells that the engine is gone")
    assert "actions wait" in str(server.request("GET", "/healthcheck").data)
    listed: Any = server.request("GET", "/services").data
    assert [one["status"] for one in listed["services"]] == ["down"]
    assert 'heatlite_engines{status="up"} 0.0' in str(server.request("GET", "/metrics").data)
    path = server.create("s", TEMPLATE)
    assert server.stack(path)["stack_status"] == "CREATE_IN_PROGRESS"
    database = f"sqlite:///{server.home / 'heatlite.db'}"
    assert f"uses {database}" in heatlite("db", "restore", str(wrong), "--database", database).err
    assert "CREATE_IN_PROGRESS" in heatlite("ls", "--database", database, "--project", "demo").out
    waiting = heatlite.start("up", "--yes", str(TEMPLATES / "hello.yaml"), "--database", database)
    eventually(lambda: "/v1/default/stacks' 201" in server.log.read_text(), "its stack is accepted")
    eventually(lambda: "starts in 0.8 s" in server.log.read_text(), "it is tried again")
    assert waiting.stderr is not None
    select.select([waiting.stderr], [], [], START_SECONDS)
    said = waiting.stderr.readline()
    wrong.unlink()
    _, err = waiting.communicate(timeout=START_SECONDS)
    assert (waiting.returncode, "engine is not running" in said) == (0, True), said + err
    assert server.settled(path) == "CREATE_COMPLETE"
    assert server.request("GET", "/healthcheck").data == "OK"
    listed = server.request("GET", "/services").data
    assert [one["status"] for one in listed["services"]] == ["up"]
    server.stop()


def test_refusals_of_all_processes_are_counted(server: Server) -> None:
    path = server.create("s", TEMPLATE)
    server.settled(path)
    assert server.request("POST", f"{path}/actions", {"lock": {"level": "stacks"}}).status == 200
    server.settled(path)
    assert [server.request("POST", f"{path}/actions", {"check": None}).status for _ in range(50)] == [409] * 50

    def counted() -> bool:
        (listed,) = server.request("GET", f"{path}/lock").data["suppressed"]  # type: ignore[index]
        audit = server.request("GET", "/audit").data["audit"]  # type: ignore[index]
        return bool(listed["count"] == sum(row["times"] for row in audit if row["status"] == 409) == 50)

    eventually(counted, "both processes have written their counts")
    assert [server.request("POST", f"{path}/actions", {"check": None}).status for _ in range(50)] == [409] * 50
    server.stop()
    with closing(sqlite3.connect(server.home / "heatlite.db")) as database:
        assert database.execute("SELECT times FROM suppressed").fetchall() == [(100,)]
        assert database.execute("SELECT SUM(times) FROM audit WHERE status = 409").fetchall() == [(100,)]
    assert server.complaints() == ""


def test_a_stream_tells_of_what_another_process_has_done(server: Server) -> None:
    path = server.create("s", TEMPLATE)
    server.settled(path)
    with closing(Following(server, f"{path}/events?stream=true")) as stream:
        stream.until("CREATE_COMPLETE")
        os.kill(server.worker(), signal.SIGKILL)
        eventually(lambda: server.request("DELETE", path).status == 204, "the delete is accepted")
        stream.until("DELETE_COMPLETE")
    server.stop()


def test_metrics_count_requests_of_all_processes(server: Server) -> None:
    for _ in range(5):
        assert server.request("GET", "/stacks").status == 200
    assert server.request("POST", "/stacks", {}).status == 400
    found = str(server.request("GET", "/metrics").data)
    counts = [line for line in found.splitlines() if line.startswith("heatlite_http_request_duration_seconds_count")]
    by_method = {method: sum(float(line.rpartition(" ")[2]) for line in counts if f'"{method}"' in line)
                 for method in ("GET", "POST")}  # fmt: skip
    assert by_method["GET"] >= 5
    assert by_method["POST"] == 1
    server.stop()


def test_one_process_for_all(serve: Callable[..., Server], heatlite: CommandLine) -> None:
    """`--processes 0`."""
    server = serve(HEATLITE_PROCESSES="0")
    assert server.settled(server.create("s", TEMPLATE)) == "CREATE_COMPLETE"
    assert server.gunicorn() == 0
    server.stop()
    assert heatlite("serve", "--processes", "-1").code != 0
