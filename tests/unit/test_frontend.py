"""Limits of bodies, answers and waits that apply outside gunicorn's parser."""

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from io import BytesIO
from itertools import pairwise
from math import inf
from types import SimpleNamespace
from typing import Any

from gunicorn.config import Config
from gunicorn.http.body import ChunkedReader, LengthReader
from gunicorn.http.unreader import IterUnreader
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch

from heatlite import connections, frontend
from heatlite.connections import Connection, Extent, Received, State
from heatlite.frontend import Frontend
from tests.tables import table


class Request:
    """The connection as a ChunkedReader uses it."""

    limit_request_field_size = 0
    max_buffer_headers = 0

    def parse_headers(self, data: bytes, from_trailer: bool = False) -> list[object]:
        return []


def extent(length: int | None = None) -> Extent:
    source = IterUnreader([])
    return Extent(ChunkedReader(Request(), source) if length is None else LengthReader(source, length))


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    at = [0, *sorted({cut % len(data) for cut in cuts} - {0}), len(data)] if data else [0, 0]
    return [data[start:end] for start, end in pairwise(at)]


CUTS = st.lists(st.integers(0, 10_000), max_size=8)


@given(st.binary(max_size=200), CUTS)
def test_a_body_of_known_length_ends_with_its_last_byte(body: bytes, cuts: list[int]) -> None:
    found = extent(len(body))
    *first, last = pieces(body, cuts)
    assert not any(found.is_whole(piece) for piece in first)
    assert found.is_whole(last)
    assert found.payload == found.received_bytes == len(body)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=5), st.lists(st.just(b"X: y"), max_size=2), CUTS)
def test_a_chunked_body_ends_where_gunicorn_says(chunks: list[bytes], trailers: list[bytes], cuts: list[int]) -> None:
    body = b"".join(b"%x;a=b\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    body += b"0\r\n" + b"".join(line + b"\r\n" for line in trailers) + b"\r\n"
    found = extent()
    *first, last = pieces(body, cuts)
    assert not any(found.is_whole(piece) for piece in first)
    assert found.is_whole(last)
    assert found.payload == sum(map(len, chunks))
    read = ChunkedReader(Request(), IterUnreader([body])).read(1000)
    assert read == b"".join(chunks)


@table("nonsense", [b"zz\r\n", b"\r\n", b"-\r\n", b"-2\r\n", b"-6\r\n", b"+5\r\n", b"0x5\r\n", b"1_0\r\n", b"1" * 2000])
def test_there_is_nothing_to_wait_for_after_nonsense(nonsense: bytes) -> None:
    assert extent().is_whole(nonsense)


def test_what_was_received_is_read_without_waiting() -> None:
    received = Received(b"abc")
    received.put(b"def")
    assert received.read(2) == b"ab"
    assert received.rest() == b"cdef"
    received.put(b"g")
    assert BytesIO(received.read(10)).read() == b"cdefg"
    assert received.read(1) == b""


def test_small_chunks_take_a_time_that_grows_with_their_number() -> None:
    """A copy of the whole rest for each of them would occupy the server for minutes."""

    def seconds(count: int) -> float:
        received = Received(b"1\r\nx\r\n" * count + b"0\r\n\r\n")
        began = time.process_time()
        assert ChunkedReader(Request(), received).read(count + 1) == b"x" * count
        return time.process_time() - began

    assert seconds(80_000) < 8 * (seconds(20_000) + 0.01)


def test_each_phase_has_a_deadline_but_the_servers_own() -> None:
    connection = Connection(None, None)  # type: ignore[arg-type]  # nobody is at the other end
    waits = {}
    for state in State:
        connection.enter(state)
        connection.since = 0.0
        waits[state] = connection.deadline(Config().keepalive)
    assert waits.pop(State.BUSY) == inf
    assert max(waits.values()) <= connections.BODY_SECONDS
    connection.enter(State.BODY)
    connection.since, connection.extent = 0.0, extent(10**7)
    connection.extent.is_whole(b"x" * connections.RATE * 5)
    assert connection.deadline(0) == connections.BODY_SECONDS + 5


@table("stood_still, stays", [(60.0, True), (0.0, False)])
def test_time_in_which_the_process_stands_still_does_not_count(stood_still: float, stays: bool) -> None:
    server = Frontend.__new__(Frontend)
    server._selector, server._connections, server._memory = selectors.DefaultSelector(), set(), 0
    server.cfg = Config()
    ours, theirs = socket.socketpair()
    connection = Connection(ours, "")
    connection.since -= 60.0
    server._checked = connection.since + 60.0 - stood_still
    server._connections.add(connection)
    server._watch(connection, selectors.EVENT_READ)
    server._check_deadlines()
    assert (connection in server._connections) is stays
    ours.close()
    theirs.close()


def test_a_request_is_quick_as_its_last_answer_was() -> None:
    quick, connection = frontend.QuickRequests(is_used=True), Connection(None, None)  # type: ignore[arg-type]
    connection.extent = extent(4)
    connection.request = SimpleNamespace(method="GET", uri="/a")
    for seconds, is_quick in ((0.001, True), (1.0, False), (0.001, True)):
        quick.note(connection, seconds)
        assert quick.has(connection) is is_quick
    for following in (b"body", b"bodyGET /next HTTP/1.1\r\n\r\n"):
        connection.raw = b"head\r\n\r\n" + following
        assert quick.has(connection) is (following != b"body")  # what follows is another request
        quick.note(connection, 0.001)
    connection.raw = b"head\r\n\r\nBODY"
    assert not quick.has(connection)
    connection.raw = bytes(frontend.MAX_QUICK_BYTES + 1)
    assert not quick.has(connection)
    connection.raw, connection.request = b"", SimpleNamespace(method="GET", uri="/b")
    assert not quick.has(connection)
    for number in range(frontend.MAX_QUICK + 1):
        connection.request = SimpleNamespace(method="GET", uri=f"/{number}")
        quick.note(connection, 0.001)
    assert len(quick._known) <= frontend.MAX_QUICK
    unused = frontend.QuickRequests(is_used=False)
    unused.note(connection, 0.001)
    assert not unused.has(connection)


def test_connections_with_many_requests_take_turns() -> None:
    """A round of the loop answers what has come, and the request that follows."""
    asked: list[str] = []

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        asked.append(environ["QUERY_STRING"])
        start_response("200 OK", [("Content-Length", "0")])
        return []

    server = Frontend.__new__(Frontend)
    server._selector, server._connections, server._memory = selectors.DefaultSelector(), set(), 0
    server._done, server._unpassed, server._checked = deque(), deque(), inf
    server._quick = frontend.QuickRequests(is_used=False)
    server.cfg, server.alive, server.tmp = Config(), True, SimpleNamespace(notify=lambda: None)
    server.app, server.wsgi = SimpleNamespace(instant={"/a"}, max_body=0), application
    clients = []
    for name in "xy":
        ours, theirs = socket.socketpair()
        server._welcome(ours, "")
        theirs.sendall(b"".join(b"GET /a?%b%d HTTP/1.1\r\nHost: a\r\n\r\n" % (name.encode(), at) for at in range(3)))
        clients.append(theirs)
    for number in (2, 3):
        server._run_round()
        assert sorted(asked) == [f"{name}{at}" for name in "xy" for at in range(number)]
        for theirs in clients:
            theirs.sendall(b"GET /a HTTP/1.1\r\n")  # waits for its turn
    server._run_round()
    assert [(one.state, one.raw) for one in server._connections] == [(State.IDLE, b"")] * 2
    server._run_round()
    assert [one.head.count(b"GET") for one in server._connections] == [2, 2]
    for connection, theirs in zip([*server._connections], clients, strict=True):
        theirs.close()
        server._drop(connection)
    server._selector.close()


def test_answers_that_nobody_takes_share_the_memory(monkeypatch: MonkeyPatch) -> None:
    """The clients that have waited longest lose their connections."""
    monkeypatch.setattr(frontend, "MAX_MEMORY", 3_000)
    server = Frontend.__new__(Frontend)
    server._selector, server._connections, server._memory = selectors.DefaultSelector(), set(), 0
    clients = []
    for _ in range(5):
        ours, theirs = socket.socketpair()
        connection = Connection(ours, "")
        server._connections.add(connection)
        server._watch(connection, selectors.EVENT_READ)
        connection.sendall(b"x" * 1000)
        server._finish(connection)
        clients.append((connection, theirs))
    assert [connection.sock is not None for connection, _ in clients] == [False, False, True, True, True]
    for connection, theirs in clients:
        theirs.close()
        server._drop(connection)
    server._selector.close()
