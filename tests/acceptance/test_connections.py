"""Requests on one connection, in pieces of any size."""

import socket
from contextlib import suppress

from tests.acceptance.processes import START_SECONDS, Server
from tests.acceptance.raw_http import connect, read_reply, request

VALUE = {"type": "OS::Heat::Value", "properties": {"value": "v"}}
TEMPLATE = {"heat_template_version": "2021-04-16", "resources": {"a": VALUE}}


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


def test_a_request_after_a_refusal_may_have_any_form(server: Server) -> None:
    path = server.create("connections", TEMPLATE)
    server.settled(path)

    def post(body: bytes, *lines: str, version: str = "1.1") -> bytes:
        head = (f"POST /v1/demo{path}/actions HTTP/{version}", "Host: localhost", "Content-Type: application/json")
        return "\r\n".join((*head, *lines, "", "")).encode() + body

    def sized(body: bytes, *lines: str, version: str = "1.1") -> bytes:
        return post(body, f"Content-Length: {len(body)}", *lines, version=version)

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
        ([post(chunked, "Transfer-Encoding: chunked")], [409]),
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


def test_requests_far_ahead_of_their_answers_close_the_connection(server: Server) -> None:
    """A few hundred are answered.

    gunicorn would keep any number of them in memory.
    """
    ask = request("GET /healthcheck HTTP/1.1")
    with connect(server.port) as client, client.makefile("rb") as lines:
        client.sendall(ask * 500)
        assert [reply.status for _ in range(500) if (reply := read_reply(lines))] == [200] * 500
        with suppress(ConnectionResetError, BrokenPipeError):
            while True:  # the answers are not read
                client.sendall(ask * 500)
