"""Tests that wait for seconds, all at once.

Programs with python-heatclient or openstacksdk, and the openstack command's --wait, poll every five seconds. The server
waits for silent clients, and for a database that another process holds.
"""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance.conftest import need
from tests.acceptance.processes import START_SECONDS, TEMPLATES, CommandLine, Server, environment
from tests.acceptance.repairs import follow
from tests.acceptance.trouble import check_unavailable, check_well, picture, under_way, writes
from tests.waiting import eventually

pytestmark = pytest.mark.slow

HELLO = TEMPLATES / "hello.yaml"
OPENSTACK = [sys.executable, "-c", "import sys; from openstackclient.shell import main; sys.exit(main())"]

WAITS = {
    "stack update --existing --tags new --wait w-update": "[w-update]: UPDATE_COMPLETE",
    "stack check --wait w-check": "CHECK_COMPLETE",
    "stack delete --yes --wait w-delete": "",
    f"stack create -t {HELLO} -e env.yaml --wait w-create": "[w-create.card]: CREATE_COMPLETE",
}
"""Command line of openstack → what must be in the answer."""


HALVES = [
    b"GET /v1/demo/stac",
    b"POST /v1/demo/stacks HTTP/1.1\r\nHost: localhost\r\n",
    b"POST /v1/demo/stacks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 100\r\n\r\n{",
]
"""The output of silent clients."""


class Background:
    """Processes that all run at once."""

    def __init__(self, home: Path, endpoint: str) -> None:
        self.home = home
        self._endpoint = endpoint
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._printed: dict[str, str] = {}
        self.silent: list[socket.socket] = []
        """Connections on which half a request was sent, and no more."""

    def start(self, name: str, command: Sequence[str], **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            cwd=self.home,
            env=environment(self.home, **variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        print(json.dumps([f"{self._endpoint}/{name}", str(HELLO)]), file=process.stdin, flush=True)
        self._running[name] = process
        return process

    def end(self, name: str) -> str:
        """Return the output of a process, which must have succeeded."""
        process = self._running.pop(name, None)
        if process is not None:
            out, err = process.communicate(timeout=START_SECONDS)
            assert process.returncode == 0, out + err
            self._printed[name] = out
        return self._printed[name]


@pytest.fixture(scope="module")
def background(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    need("openstackclient", "python-openstackclient")
    need("heatclient", "python-heatclient")
    home = tmp_path_factory.mktemp("libraries")
    started = Background(home, f"{server.url}/v1")
    written = CommandLine(home)("clouds", "--endpoint", server.url, "--project", "openstacksdk")
    assert written.out == "Wrote clouds.yaml. Use it with: export OS_CLOUD=heatlite\n"
    (home / "env.yaml").write_text("parameters: {name: you}\n")
    small = {"heat_template_version": "2018-08-31", "resources": {"a": {"type": "OS::Heat::RandomString"}}}
    for name in ("w-update", "w-delete", "w-check"):
        server.settled(server.create(name, small))
    with ExitStack() as processes:
        for name in ("openstacksdk", "heatclient"):
            program = str(Path(__file__).with_name(f"{name}_program.py"))
            processes.enter_context(started.start(name, [sys.executable, program]))
        variables = {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": f"{server.url}/v1/demo"}
        for line in WAITS:
            processes.enter_context(started.start(line, [*OPENSTACK, *line.split()], **variables))
        for half in HALVES:
            connection = processes.enter_context(socket.create_connection(("127.0.0.1", server.port), START_SECONDS))
            connection.sendall(half)
            started.silent.append(connection)
        yield started
    # Gone before they are made once more, where another file's tests came between those of this one.
    paths = [f"/stacks/w-{name}" for name in ("update", "check", "create")]
    for path in paths:
        follow(server, "DELETE", path)
    eventually(lambda: all(server.request("GET", path).status == 404 for path in paths), "they are gone")


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA busy_timeout = 240000")
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
input()
connection.execute("ROLLBACK")
"""
"""Hold a database until a line comes in."""


def test_another_process_holds_the_database(background: Background, serve: Callable[[], Server]) -> None:
    """A backup, or an administrator with a shell."""
    server = serve()
    path, slow = under_way(server)
    database = str(server.home / "heatlite.db")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, database], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        before = picture(server, path)
        with ThreadPoolExecutor(5) as pool:
            refused = [pool.submit(server.request, *one) for one in writes(path)]
            assert picture(server, path) == before  # meanwhile
            assert server.healthy()
            for one in refused:
                check_unavailable(one.result())
        assert picture(server, path) == before
        holder.communicate("\n")
    check_well(server, path, slow)


@pytest.mark.parametrize("line", WAITS)
def test_openstack_waits(background: Background, line: str) -> None:
    assert WAITS[line] in background.end(line)


def test_what_they_waited_for(background: Background, server: Server) -> None:
    for line in WAITS:
        background.end(line)
    assert server.request("GET", "/stacks/w-delete").status == 404
    for name in ("update", "check", "create"):
        assert server.stack(server.find(f"w-{name}"))["stack_status"] == f"{name.upper()}_COMPLETE"


@pytest.mark.parametrize("library", ["heatclient", "openstacksdk"])
def test_a_program_with(background: Background, library: str) -> None:
    assert background.end(library) == "done\n"


def test_who_falls_silent_is_sent_away(background: Background) -> None:
    """A client amid a request holds a connection. Half a head gets no answer."""
    answers = [connection.makefile("rb").readline() for connection in background.silent]
    assert answers == [b"", b"", b"HTTP/1.1 408 Request Timeout\r\n"]
