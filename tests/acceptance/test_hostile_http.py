"""Hostile requests against gunicorn: 4xx or a closed connection, and no damage."""

import json
import resource
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.acceptance.processes import START_SECONDS, Server

ANSWER_SECONDS = 3.0
"""Time for an answer, before a client says that it sends no more."""
STACKS = "POST /v1/demo/stacks HTTP/1.1"
TEMPLATE = {"heat_template_version": "2018-08-31"}


@pytest.fixture(autouse=True)
def still_healthy(server: Server) -> Iterator[None]:
    """After any of them the next request is answered normally."""
    yield
    assert server.healthy()
    found = server.request("GET", "/stacks?limit=1")
    assert found.status == 200


def raw(server: Server, payload: bytes) -> int | None:
    """Send bytes and return the answer's status; None if closed without an answer.

    gunicorn takes the end of what a client sends for the end of the connection. So it comes after the answer.
    """
    with socket.create_connection(("127.0.0.1", server.port), START_SECONDS) as connection:
        try:
            # What is too large is refused before it was read, and the rest meets a closed door.
            with suppress(ConnectionResetError, BrokenPipeError):
                connection.sendall(payload)
            readable, _, _ = select.select([connection], [], [], ANSWER_SECONDS)
            if not readable:
                connection.shutdown(socket.SHUT_WR)  # the server waits for more
            answer = connection.makefile("rb").readline()
        except ConnectionResetError:
            return None
    return int(answer.split()[1]) if answer else None


def request(first: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([first, "Host: localhost", *headers, "", ""]).encode("latin-1") + body


def post(body: bytes, *headers: str, first: str = STACKS) -> bytes:
    return request(first, "Content-Type: application/json", f"Content-Length: {len(body)}", *headers, body=body)


def stack(template: object, **more: object) -> bytes:
    return json.dumps({"stack_name": "hostile", "template": template, **more}).encode()


def bomb() -> str:
    lines = ["heat_template_version: 2018-08-31", "parameters:", "  a: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"  b{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    return "\n".join(lines)


BODIES = {
    "10 MB": stack("x" * 10_000_000),
    "10 MB of digits": b"9" * 10_000_000,
    "a YAML bomb": stack(bomb()),
    "a YAML bomb in the environment": stack(TEMPLATE, environment=bomb()),
    "deep JSON": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep YAML": stack("heat_template_version: 2018-08-31\na: " + "[" * 50_000),
    "deep template": stack({**TEMPLATE, "outputs": {"o": {"value": json.loads("[" * 99 + "]" * 99)}}}),
    "NUL": b"\0" * 100,
    "NUL in a name": stack(TEMPLATE).replace(b"hostile", b"a\\u0000b"),
    "NUL in YAML": stack("heat_template_version: 2018-08-31\0"),
    "half a surrogate": stack(TEMPLATE).replace(b"hostile", b"a\\ud800"),
    "not UTF-8": b'{"stack_name": "\xff\xfe"}',
    "not JSON": b"stack_name=x&template=y",
    "NaN": b'{"stack_name": "x", "timeout_mins": NaN}',
    "a huge number": b'{"stack_name": "x", "template": {}, "timeout_mins": 1e999}',
    "a very long integer": b'{"stack_name": "x", "template": {}, "timeout_mins": ' + b"9" * 10_000 + b"}",
    "nothing": b"",
    "a list": b"[]",
    "null": b"null",
    "text": b'"x"',
    "true": b"true",
    "a name of a megabyte": stack(TEMPLATE).replace(b"hostile", b"h" * 1_000_000),
    "a template that is a number": stack(7),
    "parameters that are a list": stack(TEMPLATE, parameters=[1]),
    "files that are numbers": stack(TEMPLATE, files={"a": 1}),
    "a tag of a megabyte": stack(TEMPLATE, tags="t" * 1_000_000),
    "Python in YAML": stack("heat_template_version: 2018-08-31\na: !!python/object/apply:os.system [id]"),
}


@pytest.mark.parametrize("body", BODIES)
def test_bodies(server: Server, body: str) -> None:
    status = raw(server, post(BODIES[body]))
    assert status is not None or body.startswith("10 MB")
    assert status is None or 400 <= status < 500


NO_LENGTH = (STACKS, "Content-Type: application/json")
GOOD = stack({**TEMPLATE, "zz": 1})
"""Read in full it is a 400, too: it leaves no stack behind."""

REQUESTS = {
    "an unknown verb": request("FOO /v1/demo/stacks HTTP/1.1"),
    "a verb in small letters": request("get /v1/demo/stacks HTTP/1.1"),
    "CONNECT": request("CONNECT localhost:80 HTTP/1.1"),
    "TRACE": request("TRACE /v1/demo/stacks HTTP/1.1"),
    "no verb": request("/v1/demo/stacks"),
    "no version": request("GET /v1/demo/nothing"),
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "noise": bytes(range(256)) * 10,
    "an empty line and nothing": b"\r\n\r\n",
    "a line of a megabyte": b"GET /" + b"a" * 1_000_000,
    "a long path": request(f"GET /{'a' * 4_000} HTTP/1.1"),
    "a header of 100 kB": request("GET /v1/demo/nothing HTTP/1.1", f"X: {'a' * 100_000}"),
    "a thousand headers": request("GET /v1/demo/nothing HTTP/1.1", *(f"X-{n}: 1" for n in range(1000))),
    "NUL in the path": request("GET /v1/demo/stacks/a%00b HTTP/1.1"),
    "NUL in the query": request("GET /v1/demo/stacks?name=a%00b HTTP/1.1"),
    "no UTF-8 in the path": request("GET /v1/demo/stacks/%ff%fe HTTP/1.1"),
    "dots in the path": request("GET /v1/demo/stacks/..%2f..%2fetc/passwd HTTP/1.1"),
    "no UTF-8 in the query": request("GET /v1/demo/stacks?marker=%ff&limit=x HTTP/1.1"),
    "a limit of many digits": request(f"GET /v1/demo/stacks?limit={'9' * 3000} HTTP/1.1"),
    "a wrong content type": post(GOOD, first=STACKS).replace(b"application/json", b"application/xml"),
    "a form": post(b"stack_name=x").replace(b"application/json", b"application/x-www-form-urlencoded"),
    "a length of a petabyte": request(*NO_LENGTH, "Content-Length: 1000000000000000", body=GOOD),
    "a chunk without an end": request(*NO_LENGTH, "Transfer-Encoding: chunked", body=b"%x\r\n%b" % (len(GOOD), GOOD)),
    "a body that ends early": request(*NO_LENGTH, f"Content-Length: {len(GOOD) + 10}", body=GOOD),
    "a body that never comes": request(*NO_LENGTH, "Content-Length: 100"),
    "no length and no chunks": request(*NO_LENGTH, body=GOOD),
    "Expect": request(*NO_LENGTH, "Content-Length: 2", "Expect: the-unexpected", body=b"{}"),
    "a host that is none": request("GET /v1/demo/stacks/a HTTP/1.1", "X-Forwarded-Proto: javascript"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests(server: Server, name: str) -> None:
    status = raw(server, REQUESTS[name])
    assert status is None or 400 <= status < 500, status


def test_an_unknown_encoding_is_not_implemented(server: Server) -> None:
    """The one 5xx that is the client's mistake (RFC 9112, 6.1)."""
    assert raw(server, request(*NO_LENGTH, "Transfer-Encoding: zip", body=GOOD)) == 501


def test_a_chunked_body_is_read(server: Server) -> None:
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (GOOD[:10], GOOD[10:], b""))
    with socket.create_connection(("127.0.0.1", server.port), START_SECONDS) as connection:
        connection.sendall(request(*NO_LENGTH, "Transfer-Encoding: chunked", "Connection: close", body=chunks))
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"The template section is invalid: zz" in answer


def test_a_header_does_not_change_the_path(server: Server) -> None:
    """A proxy that hides /metrics would see another path, and pass on the header."""
    assert raw(server, request("GET /x/healthcheck HTTP/1.1", "SCRIPT_NAME: /x", "Connection: close")) == 404
    assert raw(server, request("GET /healthcheck HTTP/1.1", "SCRIPT_NAME: /x", "Connection: close")) == 200


def test_a_chunked_body_without_end_is_cut_off(server: Server) -> None:
    """Nothing says beforehand how much will come."""
    chunk = b"10000\r\n%b\r\n" % (b"x" * 0x10000)
    assert raw(server, request(*NO_LENGTH, "Transfer-Encoding: chunked", body=chunk * 200)) in (400, None)


def test_a_body_that_is_too_large_is_refused_before_it_comes(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), START_SECONDS) as connection:
        connection.sendall(request(*NO_LENGTH, "Content-Length: 100000000"))
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Connection: close" in answer
    assert b"RequestLimitExceeded" in answer


def test_who_asks_whether_to_send_is_told_to(server: Server) -> None:
    """Expect: 100-continue (RFC 9110, 10.1.1)."""
    with socket.create_connection(("127.0.0.1", server.port), START_SECONDS) as connection:
        headers = (f"Content-Length: {len(GOOD)}", "Connection: close", "Expect: 100-continue")
        connection.sendall(request(*NO_LENGTH, *headers))
        lines = connection.makefile("rb")
        assert [lines.readline(), lines.readline()] == [b"HTTP/1.1 100 Continue\r\n", b"\r\n"]
        connection.sendall(GOOD)
        assert lines.readline().startswith(b"HTTP/1.1 400 ")


def test_requests_in_a_row_are_answered_in_a_row(server: Server) -> None:
    """Without waiting for the answers (RFC 9112, 9.3.2)."""
    get = request("GET /healthcheck HTTP/1.1")
    chunks = request(*NO_LENGTH, "Transfer-Encoding: chunked", body=b"5\r\nabcde\r\n0\r\n\r\n")
    last = request("GET /v1/demo/stacks?limit=1 HTTP/1.1", "Connection: close")
    with socket.create_connection(("127.0.0.1", server.port), START_SECONDS) as connection:
        connection.sendall(get + post(GOOD) + get + chunks + get + last)
        answer = connection.makefile("rb").read()
    found = [line for line in answer.split(b"\r\n") if b"HTTP/1.1 " in line]
    assert [line.partition(b"HTTP/1.1 ")[2][:3] for line in found] == [b"200", b"400", b"200", b"400", b"200", b"200"]


def test_who_takes_no_answer_stops_nobody(server: Server) -> None:
    """More slow readers than the server has threads, with answers larger than buffers."""
    path = server.create("large", {**TEMPLATE, "description": "x" * 1_000_000})
    server.settled(path)
    with ExitStack() as opened:
        for _ in range(20):
            connection = opened.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(request(f"GET /v1/demo{path}/template HTTP/1.1"))
        for url in ["/healthcheck", "/stacks?limit=1"] * 5:
            assert server.request("GET", url).status == 200
        received = connection.makefile("rb")
        while (line := received.readline()) != b"\r\n":
            name, _, value = line.lower().partition(b": ")
            if name == b"content-length":
                length = int(value)
        assert json.loads(received.read(length))["description"] == "x" * 1_000_000
    server.request("DELETE", path)


@pytest.fixture
def many_files() -> Iterator[None]:
    """This process may open as many as the system lets it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.slow
@pytest.mark.usefixtures("many_files")
def test_who_has_been_answered_and_stays_stops_nobody(server: Server) -> None:
    """More connections than the server keeps: the oldest have to go."""
    ask = request("GET /healthcheck HTTP/1.1")
    with ExitStack() as opened:
        for _ in range(1100):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), START_SECONDS))
            connection.sendall(ask)
            answer = connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200")
        for path in ["/healthcheck", "/stacks?limit=1"] * 5:
            assert server.request("GET", path).status == 200
        while not answer.endswith(b"\r\n\r\nOK"):
            answer += connection.recv(4096)
        connection.sendall(ask)  # the newest are kept
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
