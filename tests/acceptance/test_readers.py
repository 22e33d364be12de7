"""Readers beside the engine's process: each process dies, and nothing is lost."""

import json
import os
import re
import signal
import socket
import sqlite3
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import START_SECONDS, CommandLine, Server
from tests.acceptance.test_streams import Following
from tests.processes import freeze
from tests.waiting import eventually

pytestmark = pytest.mark.full

VALUE = {"type": "OS::Heat::Value", "properties": {"value": "v"}}
TEMPLATE = {"heat_template_version": "2021-04-16", "resources": {"a": VALUE}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    more = {"HEATLITE_METRICS": "true", "HEATLITE_MAX_STACKS_PER_TENANT": "-1"}
    started = Server(tmp_path, HEATLITE_PROCESSES="2", **more)
    eventually(lambda: started.worker() != 0 and len(started.readers()) == 2, "all processes are there")
    yield started
    started.kill()


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


@pytest.mark.parametrize("order", ["engine first", "reader first"])
def test_each_process_is_killed_under_load(server: Server, order: str) -> None:
    """Another one takes its place; each accepted stack is there and complete."""
    creators = [Creator(server, f"c{number}") for number in range(3)]
    try:
        for victim in ("engine", "reader") if order == "engine first" else ("reader", "engine"):
            for creator in creators:
                creator.more()
            engine, readers = server.worker(), server.readers()
            killed = engine if victim == "engine" else readers[0]
            os.kill(killed, signal.SIGKILL)
            eventually(
                lambda: killed not in (server.worker(), *server.readers()), "it is gone"  # noqa: B023
            )
            eventually(lambda: server.worker() != 0 and len(server.readers()) == 2, "another one is there")
            assert (server.worker() == engine) == (victim == "reader")
            for creator in creators:
                creator.more()
    finally:
        for creator in creators:
            creator.ended.set()
        for creator in creators:
            creator.join()
    assert [creator.wrong for creator in creators] == [[], [], []]
    for path in (path for creator in creators for path in creator.made):
        assert server.settled(path) == "CREATE_COMPLETE"
    server.stop()
    assert server.complaints() == ""


def test_a_request_waits_for_the_next_engine(server: Server) -> None:
    """The kernel keeps a connection that no process has taken yet."""
    engine = server.worker()
    freeze(engine)
    answers: list[int] = []
    asking = threading.Thread(
        target=lambda: answers.append(
            server.request("POST", "/stacks", {"stack_name": "s", "template": TEMPLATE}).status
        )
    )
    asking.start()
    eventually(lambda: server.request("GET", "/stacks").status == 200, "readers answer meanwhile")
    time.sleep(0.5)  # the request is passed on; it may as well be later
    os.kill(engine, signal.SIGKILL)
    asking.join()
    assert answers == [201]
    assert server.settled(server.find("s")) == "CREATE_COMPLETE"
    server.stop()


def _is_held_by(process: int, client: HTTPConnection, port: int) -> bool:
    """Return whether a process has the server's end of a connection."""
    ends = (port, client.sock.getsockname()[1])
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if tuple(int(fields[at].rpartition(":")[2], 16) for at in (1, 2)) == ends:
            files = set()
            for file in Path(f"/proc/{process}/fd").iterdir():
                with suppress(OSError):  # closed meanwhile
                    files.add(str(file.readlink()))
            return f"socket:[{fields[9]}]" in files
    return False


def test_an_idle_connection_outlives_the_engine(server: Server) -> None:
    """The engine's process keeps it after a write, and passes it back once it is idle."""
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=START_SECONDS)) as client:
        body = json.dumps({"stack_name": "s", "template": TEMPLATE})
        client.request("POST", "/v1/demo/stacks", body, {"Content-Type": "application/json"})
        path = f"/stacks/s/{json.loads(client.getresponse().read())['stack']['id']}"
        assert server.settled(path) == "CREATE_COMPLETE"
        readers = server.readers()
        eventually(lambda: any(_is_held_by(one, client, server.port) for one in readers), "a reader has it")
        os.kill(server.worker(), signal.SIGKILL)
        for method, body, expected in (("GET", "", 200), ("PATCH", "{}", 202), ("GET", "", 200)):
            client.request(method, f"/v1/demo{path}", body, {"Content-Type": "application/json"})
            answer = client.getresponse()
            answer.read()
            assert (answer.status, client.sock is None) == (expected, False)


def test_a_reader_refuses_what_was_refused_before(server: Server) -> None:
    """It counts each refusal once, and leaves to the engine what is permitted again."""
    path = server.create("s", TEMPLATE)
    server.settled(path)
    headers = {"Content-Type": "application/json"}
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=START_SECONDS)) as client:

        def ask(method: str, target: str, body: object = None) -> tuple[int, Any]:
            client.request(method, f"/v1/demo{target}", None if body is None else json.dumps(body), headers)
            answer = client.getresponse()
            return answer.status, json.loads(answer.read() or "null")

        assert ask("POST", f"{path}/actions", {"lock": {"level": "stacks"}})[0] == 200
        server.settled(path)
        assert [ask("POST", f"{path}/actions", {"check": None})[0] for _ in range(50)] == [409] * 50
        by_process = re.findall(r"\[(\d+)\] \[INFO\] .*POST '\S+/actions' 409", server.log.read_text())
        assert len(by_process) == 50
        assert len([one for one in by_process if int(one) in server.readers()]) >= 40

        def counted() -> bool:
            (listed,) = ask("GET", f"{path}/lock")[1]["suppressed"]
            rows = [row for row in ask("GET", "/audit")[1]["audit"] if row["status"] == 409]
            return bool(listed["count"] == sum(row["times"] for row in rows) == 50)

        eventually(counted, "both readers have passed on their counts")
        assert ask("POST", f"{path}/actions", {"unlock": None})[0] == 200
        server.settled(path)
        assert ask("POST", f"{path}/actions", {"check": None})[0] == 200
    server.stop()
    assert server.complaints() == ""


def test_a_request_after_a_refusal_may_have_any_form(server: Server) -> None:
    """A reader tries it, and passes it on with all its bytes if it cannot answer."""
    path = server.create("s", TEMPLATE)
    server.settled(path)

    def request(body: bytes, *lines: str, version: str = "1.1") -> bytes:
        head = (f"POST /v1/demo{path}/actions HTTP/{version}", "Host: localhost", "Content-Type: application/json")
        return "\r\n".join((*head, *lines, "", "")).encode() + body

    def sized(body: bytes, *lines: str, version: str = "1.1") -> bytes:
        return request(body, f"Content-Length: {len(body)}", *lines, version=version)

    retry, check = b'{"retry": null}', b'{"check": null}'
    refused = sized(retry)  # there is nothing to retry
    read = f"GET /v1/demo{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(retry), retry)
    forms: list[tuple[list[bytes], list[int]]] = [
        ([refused], [409]),
        ([refused * 5], [409] * 5),
        ([refused + read + refused], [409, 200, 409]),
        ([refused[:-4], refused[-4:]], [409]),
        ([refused[:30], refused[30:]], [409]),
        ([request(chunked, "Transfer-Encoding: chunked")], [409]),
        ([sized(retry + b" " * 70_000)], [409]),
        ([sized(retry + b" " * 50_000)], [409]),
        ([sized(b"{")], [400]),
        ([sized(b"")], [400]),
        ([sized(retry, "Expect: 100-continue")[: -len(retry)], retry], [100, 409]),
        ([sized(b'{"protect": null}') + refused], [200, 409]),
        ([sized(b'{"unprotect": null}') + sized(check)], [200, 200]),
        ([refused + sized(retry, "Connection: keep-alive", version="1.0")], [409, 409]),
    ]
    for pieces, codes in forms:
        server.settled(path)
        with socket.create_connection(("127.0.0.1", server.port), START_SECONDS) as client, Codes(client) as answers:
            client.sendall(refused)
            found = answers.next(1)
            for piece in pieces:
                client.sendall(piece)
                if codes[0] == 100 and len(found) == 1:
                    found += answers.next(1)
            assert [*found, *answers.next(len(codes) + 1 - len(found))] == [409, *codes], pieces
    server.stop()
    assert server.complaints() == ""


class Codes:
    """Reads the codes of answers on a connection."""

    def __init__(self, client: socket.socket) -> None:
        self._file = client.makefile("rb")

    def __enter__(self) -> "Codes":
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def next(self, count: int) -> list[int]:
        found = []
        for _ in range(count):
            found.append(int(self._file.readline().split()[1]))
            length = 0
            while (line := self._file.readline()) not in (b"\r\n", b""):
                name, _, text = line.partition(b":")
                length = int(text) if name.lower() == b"content-length" else length
            self._file.read(length)
        return found


def test_no_refusal_of_a_reader_is_lost_at_the_end(server: Server) -> None:
    path = server.create("s", TEMPLATE)
    server.settled(path)
    headers = {"Content-Type": "application/json"}
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=START_SECONDS)) as client:

        def ask(body: object) -> int:
            client.request("POST", f"/v1/demo{path}/actions", json.dumps(body), headers)
            with client.getresponse() as answer:
                answer.read()
                return answer.status

        assert ask({"lock": {"level": "stacks"}}) == 200
        server.settled(path)
        assert [ask({"check": None}) for _ in range(50)] == [409] * 50
    server.stop()
    with closing(sqlite3.connect(server.home / "heatlite.db")) as database:
        assert database.execute("SELECT times FROM suppressed").fetchall() == [(50,)]
        assert database.execute("SELECT SUM(times) FROM audit WHERE status = 409").fetchall() == [(50,)]
    assert server.complaints() == ""


def test_a_stream_does_not_end_with_a_reader(server: Server) -> None:
    path = server.create("s", TEMPLATE)
    server.settled(path)
    with closing(Following(server, f"{path}/events?stream=true")) as stream:
        stream.until("CREATE_COMPLETE")
        killed = server.readers()
        for reader in killed:
            os.kill(reader, signal.SIGKILL)
        eventually(lambda: not {*killed} & {*server.readers()} and len(server.readers()) == 2, "others are there")
        assert server.request("DELETE", path).status == 204
        stream.until("DELETE_COMPLETE")
    server.stop()


def test_a_reload_replaces_readers_and_keeps_the_engine(server: Server) -> None:
    engine, before = server.worker(), server.readers()
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: not {*before} & {*server.readers()} and len(server.readers()) == 2, "others are there")
    assert server.worker() == engine
    assert server.settled(server.create("s", TEMPLATE)) == "CREATE_COMPLETE"
    server.stop()


def test_a_stop_answers_what_was_asked(server: Server) -> None:
    """Requests of the last moment pass from a reader to the engine, which ends last."""
    creators = [Creator(server, f"c{number}") for number in range(3)]
    for creator in creators:
        creator.more()
    server.process.send_signal(signal.SIGTERM)
    for creator in creators:
        creator.ended.set()
        creator.join()
    server.stop()
    assert [creator.wrong for creator in creators] == [[], [], []]
    again = Server(server.home, HEATLITE_PROCESSES="1")
    try:
        for path in (path for creator in creators for path in creator.made):
            assert again.settled(path) == "CREATE_COMPLETE"
        again.stop()
    finally:
        again.kill()


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


def test_a_password_that_the_engine_knows_is_known_to_readers(tmp_path: Path) -> None:
    passwords = pytest.importorskip("heatlite.api.access.passwords")
    users = tmp_path / "users"
    users.write_text(f"mia:{passwords.hash_password('right')}\n")
    (tmp_path / "users.toml").write_text('[mia]\ndemo = ["member"]\n')
    server = Server(tmp_path, HEATLITE_AUTH="basic", HEATLITE_USERS_FILE=str(users), HEATLITE_PROCESSES="1")
    try:
        eventually(lambda: server.worker() != 0, "the engine is there")
        header = {"Authorization": f"Basic {b64encode(b'mia:right').decode()}"}
        connection = HTTPConnection("127.0.0.1", server.port, timeout=START_SECONDS)
        for _ in range(2):
            connection.request("GET", "/v1/demo/stacks", headers=header)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
        connection.close()
        by_process = [line for line in server.log.read_text().splitlines() if "GET '/v1/demo/stacks' 200" in line]
        first, second = (line.split("] [")[1] for line in by_process)
        assert (int(first), int(second)) == (server.worker(), server.readers()[0])
        server.stop()
    finally:
        server.kill()


def test_one_process_for_all(tmp_path: Path, heatlite: CommandLine) -> None:
    """`--processes 0`."""
    server = Server(tmp_path, HEATLITE_PROCESSES="0")
    try:
        assert server.settled(server.create("s", TEMPLATE)) == "CREATE_COMPLETE"
        assert server.readers() == []
        engine = server.worker()
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "SIGHUP is ignored" in server.log.read_text(), "it says that nothing is replaced")
        assert (server.worker(), server.settled(server.find("s"))) == (engine, "CREATE_COMPLETE")
        server.stop()
    finally:
        server.kill()
    assert heatlite("serve", "--processes", "-1").code != 0


