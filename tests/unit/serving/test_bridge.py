"""The bridge from ASGI to WSGI."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
from pytest import MonkeyPatch

from heatlite.api.request import REFUSAL
from heatlite.core.runtime.bulkhead import check_may_wait
from heatlite.serving import bridge, lines
from heatlite.serving.bridge import Bridge, Environ, Message
from heatlite.serving.connection_guard import ConnectionGuard
from tests.tables import table

SMALL = 1000
"""Maximum size of a body here."""
PEER = ("10.0.0.9", 5)


class Client:
    """One request. `sent` has what the server sends."""

    def __init__(self, served: Bridge, *pieces: bytes, ends: bool = True, takes: int = 1000, **scope: object) -> None:
        """Without `ends` the last piece of the body never comes."""
        self.served = served
        self.sent: list[Message] = []
        self._takes = takes
        self._pieces = [*pieces]
        self._ends = ends
        headers = [(b"host", b"localhost")]
        if pieces:
            headers.append((b"content-length", b"%d" % len(b"".join(pieces))))
        self.scope: Message = {
            "type": "http", "method": "POST" if pieces else "GET", "raw_path": b"/a", "query_string": b"",
            "http_version": "1.1", "scheme": "http", "headers": headers, "client": PEER,
            "server": ("10.0.0.1", 80), **scope,
        }  # fmt: skip

    async def receive(self) -> Message:
        if not self._pieces:
            await asyncio.Event().wait()
        piece = self._pieces.pop(0)
        if not self._pieces and not self._ends:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}

    async def send(self, message: Message) -> None:
        if len(self.sent) == self._takes:
            await asyncio.Event().wait()
        self.sent.append(message)

    async def run(self) -> "Client":
        await self.served(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode().lower(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


def echo(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
    if REFUSAL in environ:
        start_response("503 Service Unavailable", [("Retry-After", str(environ[REFUSAL].retry_after))])
        return [str(environ[REFUSAL]).encode()]
    start_response("200 OK", [("X-Path", environ["PATH_INFO"])])
    return [environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH", 0)))]


def made(application: bridge.Application = echo, guard: ConnectionGuard | None = None, **options: Any) -> Bridge:
    return Bridge(application, 8, SMALL, guard or ConnectionGuard(0), **options)


def test_a_request_and_its_answer() -> None:
    guard = ConnectionGuard(0)
    served = made(guard=guard)
    client = asyncio.run(Client(served, b"ab", b"", b"c", raw_path=b"/%C3%BC").run())
    assert (client.status, client.headers, client.body) == (200, {"x-path": "/ü"}, b"abc")
    assert math.inf > guard.limits[PEER] > time.monotonic()


def test_a_request_in_progress_has_no_time_limit_for_its_head() -> None:
    found: list[float] = []
    guard = ConnectionGuard(0)

    class Watching(Client):
        async def receive(self) -> Message:
            found.append(guard.limits[PEER])
            return await super().receive()

    def application(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        found.append(guard.limits[PEER])
        return echo(environ, start_response)

    asyncio.run(Watching(made(application, guard), b"a", b"b").run())
    assert found == [math.inf] * 3


def test_at_a_stop_only_bodies_that_have_not_arrived_end() -> None:
    begun, release = threading.Event(), threading.Event()

    def held(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        begun.set()
        release.wait(240)
        return echo(environ, start_response)

    async def run() -> list[Any]:
        served = made(held)
        whole, arriving = Client(served, b"a"), Client(served, b"a", b"b", ends=False)
        tasks = [asyncio.create_task(client.run()) for client in (whole, arriving)]
        await asyncio.to_thread(begun.wait, 240)
        served.memory.end_bodies()
        release.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    answered, ended = asyncio.run(run())
    assert answered.status == 200
    assert isinstance(ended, asyncio.CancelledError)


def test_a_client_that_is_gone_gets_no_answer() -> None:
    client = asyncio.run(Client(made(), client=None).run())
    assert client.sent == []


def test_a_connection_that_has_received_much_closes_after_an_answer() -> None:
    guard = ConnectionGuard(0)
    clients = [Client(made(guard=guard)) for _ in range(2)]

    async def run() -> None:
        await clients[0].run()
        guard.received[PEER] = bridge.MAX_RECEIVED + 1
        await clients[1].run()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert [(client.status, "connection" in client.headers) for client in clients] == [(200, False), (200, True)]
    assert guard.limits[PEER] > time.monotonic()  # the client may take its answer


@table(
    ("reads_locally", "is_slow", "waits", "in_loop"),
    [
        (True, False, False, [False, True, True]),
        (False, False, False, [False, False, False]),
        (True, True, False, [False, False, False]),
        (True, False, True, [False, False, False]),
    ],
)
@pytest.mark.parametrize("pieces", [(), (b"a", b"b")])
def test_the_event_loop_answers_what_was_quick(
    reads_locally: bool, is_slow: bool, waits: bool, in_loop: list[bool], pieces: tuple[bytes, ...]
) -> None:
    threads: list[int] = []

    def application(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        threads.append(threading.get_ident())
        begun = time.thread_time()
        while is_slow and time.thread_time() - begun < 2 * lines.QUICK_SECONDS:
            pass
        if waits:
            check_may_wait()
        return echo(environ, start_response)

    async def run() -> None:
        for _ in range(3):
            await Client(served, *pieces).run()
        await Client(served, *pieces, query_string=b"a=b").run()
        await Client(served, *pieces, raw_path=b"/b").run()

    served = made(application, reads_locally=reads_locally)
    asyncio.run(run())
    assert [one == threading.get_ident() for one in threads] == [*in_loop, False, False]


def test_only_the_same_write_is_expected_to_be_quick() -> None:
    threads: list[int] = []

    def application(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        threads.append(threading.get_ident())
        return echo(environ, start_response)

    async def run() -> None:
        for body, header in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"a", b"1")):
            await Client(served, body, headers=[(b"content-length", b"1"), (b"x-auth-token", header)]).run()

    served = made(application, reads_locally=True)
    asyncio.run(run())
    assert [one == threading.get_ident() for one in threads] == [False, False, False, True]


def test_what_would_wait_after_all_is_answered_in_a_thread() -> None:
    order: list[str] = []
    noted: ContextVar[str] = ContextVar("noted", default="")

    def application(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        noted.set("by a request")
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        if len(order) >= 2:
            order.append("waits")
            check_may_wait()
        order.append(threading.current_thread().name[:7])
        start_response("200 OK", [])
        return [body]

    async def run() -> list[tuple[int, bytes]]:
        clients = [await Client(served, b"ab", b"c").run() for _ in range(4)]
        assert noted.get() == ""
        return [(client.status, client.body) for client in clients]

    served = made(application, reads_locally=True)
    assert asyncio.run(run()) == [(200, b"abc")] * 4
    in_thread = ["waits", "request"]
    assert order == ["request", threading.main_thread().name[:7], "waits", *in_thread, *in_thread]


def test_the_application_words_a_refusal(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_WAITING", 0)
    client = asyncio.run(Client(made(), b"abc").run())
    text = b"The server has too many requests. Try again later."
    assert (client.status, client.headers, client.body) == (503, {"retry-after": "1"}, text)


def test_the_environment_of_a_request() -> None:
    found: list[Environ] = []

    def application(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        found.append(environ)
        return echo(environ, start_response)

    headers = [
        (b"host", b"h:1"), (b"x-a", b"1"), (b"x-a", b"2"), (b"content-type", b"t"), (b"transfer-encoding", b"chunked"),
        (b"content_length", b"9"),
    ]  # fmt: skip
    scope = {"headers": headers, "query_string": b"q=%20", "http_version": "1.0", "scheme": "https"}
    asyncio.run(Client(made(application), b"abcd", **scope).run())
    (environ,) = found
    expected = {
        "REQUEST_METHOD": "POST", "SCRIPT_NAME": "", "PATH_INFO": "/a", "QUERY_STRING": "q=%20",
        "SERVER_PROTOCOL": "HTTP/1.0", "SERVER_NAME": "10.0.0.1", "SERVER_PORT": "80", "REMOTE_ADDR": "10.0.0.9",
        "REMOTE_PORT": "5", "HTTP_HOST": "h:1", "HTTP_X_A": "1,2", "CONTENT_TYPE": "t", "CONTENT_LENGTH": "4",
        "wsgi.url_scheme": "https",
    }  # fmt: skip
    assert {key: environ.get(key) for key in expected} == expected
    assert not environ.keys() & {"HTTP_TRANSFER_ENCODING", "HTTP_CONTENT_LENGTH"}


def test_chunks_of_any_size_are_one_body() -> None:
    chunks = [bytes([number]) * size for number, size in enumerate([1, bridge.PIECE, 5, 10 * bridge.PIECE, 0])]
    served = Bridge(echo, 8, 20 * bridge.PIECE, ConnectionGuard(0))
    client = asyncio.run(Client(served, *chunks, headers=[(b"transfer-encoding", b"chunked")]).run())
    assert client.body == b"".join(chunks)


def test_a_body_that_is_too_large_is_not_read(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "LINGER_SECONDS", 0.01)
    client = asyncio.run(Client(made(), b"x" * (SMALL + 1), ends=False).run())
    assert (client.status, client.headers["connection"], client.body) == (200, "close", b"")
    headers = [(b"transfer-encoding", b"chunked")]
    client = asyncio.run(Client(made(), *[b"x" * 100] * 50, headers=headers).run())
    assert (client.headers["connection"], len(client.body)) == ("close", SMALL + 100)


@pytest.mark.parametrize(
    ("limit", "value", "status"), [("TRANSFER_SECONDS", 0.01, 408), ("MAX_PIECES", 2, 400), ("MAX_MEMORY", 2, 503)]
)
def test_a_body_has_limits(monkeypatch: MonkeyPatch, limit: str, value: float, status: int) -> None:
    monkeypatch.setattr(bridge, limit, value)
    monkeypatch.setattr(bridge, "LINGER_SECONDS", 0.01)
    client = asyncio.run(Client(made(), b"a", b"b", b"c", b"d", ends=False).run())
    assert (client.status, client.headers["connection"]) == (status, "close")
    assert ("retry-after" in client.headers) == (status == 503)


def test_an_answer_without_room_is_refused_unless_it_may_tell_of_a_change(monkeypatch: MonkeyPatch) -> None:
    def large(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        if REFUSAL in environ:
            return echo(environ, start_response)
        start_response("200 OK", [])
        return [b"x" * SMALL]

    monkeypatch.setattr(bridge, "MAX_MEMORY", SMALL - 1)
    read, write = (asyncio.run(Client(made(large), *pieces).run()) for pieces in [(), (b"a",)])
    assert (read.status, write.status, len(write.body)) == (503, 200, SMALL)


def test_who_takes_no_answer_loses_the_connection(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "TRANSFER_SECONDS", 0.01)

    def large(_: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response("200 OK", [])
        return [b"x" * bridge.PIECE * 3]

    guard = ConnectionGuard(0)
    served = made(large, guard)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(Client(served, takes=2).run())
    assert guard.limits[PEER] == 0.0


def test_the_slowest_transfers_end_if_there_are_too_many(monkeypatch: MonkeyPatch) -> None:
    """A request in a thread is none of them."""
    monkeypatch.setattr(bridge, "MAX_MEMORY", 2500)
    begun, release = threading.Event(), threading.Event()

    def slow(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/slow":
            begun.set()
            release.wait(240)
        return echo(environ, start_response)

    async def run() -> list[Any]:
        served = made(slow)
        clients = [Client(served, b"x" * 900, raw_path=b"/slow"), Client(served, b"x" * 900, b"", ends=False)]
        tasks = [asyncio.create_task(client.run()) for client in clients]
        await asyncio.to_thread(begun.wait, 240)
        last = await Client(served, b"x" * 800).run()
        release.set()
        return [last.status, *await asyncio.gather(*tasks, return_exceptions=True)]

    status, in_thread, dropped = asyncio.run(run())
    assert (status, in_thread.status, len(in_thread.body)) == (200, 200, 900)
    assert isinstance(dropped, asyncio.CancelledError)


class Deaf(Client):
    """A request whose first cancellation the server loses.

    Its client sends a piece at the same moment.
    """

    _is_deaf = True

    async def receive(self) -> Message:
        try:
            return await super().receive()
        except asyncio.CancelledError:
            if not self._is_deaf:
                raise
            self._is_deaf = False
        return {"type": "http.request", "body": b"y", "more_body": True}


def test_a_connection_closes_even_if_the_server_loses_its_cancellation(monkeypatch: MonkeyPatch) -> None:
    """`asyncio.wait_for` of Python 3.11 does so if a piece comes at the same moment."""
    monkeypatch.setattr(bridge, "LINGER_SECONDS", 0.01)

    async def run() -> Client:
        return await asyncio.wait_for(Deaf(made(), b"x" * (SMALL + 1), b"", ends=False).run(), 60)

    assert asyncio.run(run()).headers["connection"] == "close"


def test_a_transfer_ends_even_if_the_server_loses_its_cancellation(monkeypatch: MonkeyPatch) -> None:
    """`asyncio.wait_for` of Python 3.11 does so if a piece comes at the same moment."""
    monkeypatch.setattr(bridge, "MAX_MEMORY", 1500)

    async def run() -> list[Any]:
        served = made()
        task = asyncio.create_task(Deaf(served, b"x" * 900, b"", ends=False).run())
        await asyncio.sleep(0)
        last = await Client(served, b"x" * 700).run()
        return [last.status, *await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 60)]

    status, dropped = asyncio.run(run())
    assert status == 200
    assert isinstance(dropped, asyncio.CancelledError)


def test_instant_answers_need_no_thread() -> None:
    names: dict[str, str] = {}

    def application(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        names[environ["PATH_INFO"]] = threading.current_thread().name
        return echo(environ, start_response)

    async def run() -> None:
        served = made(application, instant={"/now"})
        for path in (b"/now", b"/later"):
            await Client(served, raw_path=path).run()

    asyncio.run(run())
    assert names["/now"] == threading.main_thread().name
    assert names["/later"].startswith("request")


def test_a_failure_of_the_application_is_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    closed = threading.Event()

    class Parts:
        def __iter__(self) -> Iterator[bytes]:
            yield b"a"
            raise ValueError("it is broken")

        def close(self) -> None:
            closed.set()

    def application(_: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response("200 OK", [])
        return Parts()

    client = asyncio.run(Client(made(application)).run())
    assert (client.status, client.body) == (500, b"Internal Server Error\n")
    assert closed.is_set()
    assert "GET '/a' failed" in caplog.text


class Stream:
    """An asynchronous body."""

    def __init__(self, ended: list[bool]) -> None:
        self._ended = ended

    def __iter__(self) -> Iterator[bytes]:
        return iter(())

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            for number in range(3):
                yield b"%d" % number
                await asyncio.sleep(0)
        finally:
            self._ended.append(True)


def streaming(ended: list[bool], _: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [])
    return Stream(ended)


def test_an_asynchronous_answer_is_sent_in_parts(monkeypatch: MonkeyPatch) -> None:
    ended: list[bool] = []
    client = asyncio.run(Client(made(partial(streaming, ended))).run())
    assert [message["body"] for message in client.sent[1:]] == [b"0", b"1", b"2", b""]
    assert ended == [True]
    monkeypatch.setattr(bridge, "STALL_SECONDS", 0.01)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(Client(made(partial(streaming, ended)), takes=2).run())
    assert ended == [True, True]


def test_who_is_gone_leaves_its_place_once_its_thread_is_free() -> None:
    begun, release, order = threading.Event(), threading.Event(), list[str]()

    def application(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        order.append(environ["PATH_INFO"])
        if environ["PATH_INFO"] == "/gone":
            begun.set()
            release.wait(240)
        return echo(environ, start_response)

    async def run() -> int:
        served = Bridge(application, 1, SMALL, ConnectionGuard(0))  # one thread for reads
        gone = asyncio.create_task(Client(served, raw_path=b"/gone").run())
        await asyncio.to_thread(begun.wait, 240)
        gone.cancel()
        next_one = asyncio.create_task(Client(served, raw_path=b"/next").run())
        await asyncio.sleep(0.05)
        assert order == ["/gone"]
        release.set()
        return (await next_one).status

    assert asyncio.run(run()) == 200
    assert order == ["/gone", "/next"]
