"""The processes of a server: each one dies, and nothing is lost."""

import json
import os
import signal
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from tests.acceptance.processes import START_SECONDS, Server
from tests.waiting import eventually

pytestmark = pytest.mark.full

VALUE = {"type": "OS::Heat::Value", "properties": {"value": "v"}}
TEMPLATE = {"heat_template_version": "2021-04-16", "resources": {"a": VALUE}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    more = {"HEATLITE_METRICS": "true", "HEATLITE_MAX_STACKS_PER_TENANT": "-1"}
    started = Server(tmp_path, **more)
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


def test_the_process_is_killed_under_load(server: Server) -> None:
    """Another one takes its place; each accepted stack is there and complete."""
    creators = [Creator(server, f"c{number}") for number in range(3)]
    try:
        for creator in creators:
            creator.more()
        killed = server.worker()
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: server.worker() not in (0, killed), "another one is there")
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


def test_a_request_after_a_refusal_may_have_any_form(server: Server) -> None:
    """Requests on one connection, in pieces of any size."""
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


def test_no_refusal_is_lost_at_the_end(server: Server) -> None:
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


def test_a_stop_answers_what_was_asked(server: Server) -> None:
    """Requests of the last moment are answered."""
    creators = [Creator(server, f"c{number}") for number in range(3)]
    for creator in creators:
        creator.more()
    server.process.send_signal(signal.SIGTERM)
    for creator in creators:
        creator.ended.set()
        creator.join()
    server.stop()
    assert [creator.wrong for creator in creators] == [[], [], []]
    again = Server(server.home)
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


def test_one_process_for_all(tmp_path: Path) -> None:
    """The engine of a SQLite file has no second one, so nothing is replaced."""
    server = Server(tmp_path)
    try:
        engine = server.worker()
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "SIGHUP is ignored" in server.log.read_text(), "it says that nothing is replaced")
        assert server.settled(server.create("s", TEMPLATE)) == "CREATE_COMPLETE"
        assert server.worker() == engine
        server.stop()
    finally:
        server.kill()
