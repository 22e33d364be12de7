"""Slow, silent and endless clients: each costs a bounded memory and no thread."""

import itertools
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from tests.acceptance.attacks import own_body
from tests.acceptance.processes import Server
from tests.acceptance.raw_http import connect, read_replies, request
from tests.processes import descendants
from tests.tables import few, sampled
from tests.waiting import eventually

STACKS = "POST /v1/demo/stacks HTTP/1.1"
JSON = "Content-Type: application/json"
STREAM = request("GET /v1/demo/STACK/events?stream=true HTTP/1.1")
"""A request for events that never end. STACK stands for the path of a stack."""
ASK = request("GET /healthcheck HTTP/1.1")
SLOW = {
    "silent": b"",
    "half a line": b"GET /healthcheck",
    "half a head": b"GET /healthcheck HTTP/1.1\r\nHost: localhost\r\nX-A: ",
    "half a body": request(STACKS, JSON, "Content-Length: 100000", body=b"{"),
    "half a chunk": request(STACKS, JSON, "Transfer-Encoding: chunked", body=b"ffff\r\n"),
    "half a size": request(STACKS, JSON, "Transfer-Encoding: chunked", body=b"1\r\nx\r\n0"),
    "half a trailer": request(STACKS, JSON, "Transfer-Encoding: chunked", body=b"1\r\nx\r\n0\r\nX: "),
    "a body for a host that is refused": request(STACKS, "Host: evil.example", "Content-Length: 100000", body=b"{"),
    "a body of what takes none": request("GET /healthcheck HTTP/1.1", "Content-Length: 100000", body=b"{"),
    "a body that is too large": request(STACKS, JSON, "Content-Length: 100000000", body=b"{"),
    "a body that waits to be asked for": request(STACKS, JSON, "Content-Length: 100000", "Expect: 100-continue"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}
"""First bytes of clients. They go on with a byte now and then, or with nothing."""
MANY, VERY_MANY = 1000, 5000
SPARE_FILES = 500
"""Files that a process has open besides connections."""
MEMORY_EACH = 20 * 1024
"""Bytes that a connection may cost at most."""


@pytest.fixture(scope="module")
def stack(server: Server) -> bytes:
    """Path of a stack."""
    path = server.create(f"quiet-{uuid4()}", {"heat_template_version": "2018-08-31"})
    assert server.settled(path) == "CREATE_COMPLETE"
    return path.removeprefix("/").encode()


@contextmanager
def many_files(number: int) -> Iterator[None]:
    """Allow so many open files more to this process and those that it starts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < number + SPARE_FILES:
        pytest.skip(f"{number} connections need `ulimit -Hn {number + SPARE_FILES}`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def slow_clients(port: int, begins: list[bytes]) -> Iterator[list[socket.socket]]:
    """Connect a client for each beginning.

    Each second one has had an answer on its connection.
    """
    with ExitStack() as opened:
        clients = []
        for number, begin in enumerate(begins):
            client = opened.enter_context(connect(port))
            if number % 2:
                client.sendall(ASK)
                assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
            with suppress(OSError):
                client.sendall(begin)
            client.setblocking(False)
            clients.append(client)
        yield clients


@contextmanager
def dripping(clients: list[socket.socket], seconds: float = 1.0) -> Iterator[None]:
    """In the block each client sends a byte now and then."""
    ended = threading.Event()

    def drip() -> None:
        while not ended.wait(seconds):
            for client in clients:
                with suppress(OSError):
                    client.send(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def threads(server: Server) -> int:
    """Number of threads of all processes."""
    return sum(1 for process in descendants(server.process.pid) for _ in Path(f"/proc/{process}/task").iterdir())


def memory(server: Server) -> int:
    """Bytes of all processes. What they share counts once (proc(5): Pss)."""
    found = 0
    for process in descendants(server.process.pid):
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        found += int(rollup.partition("\nPss:")[2].split()[0]) * 1024
    return found


def normal(server: Server, number: int) -> list[int]:
    """Return the status codes of normal requests: reads, and a write each fourth time."""
    body = {"template": {"heat_template_version": "2018-08-31"}}
    reads = itertools.cycle(["/healthcheck", "/stacks?limit=1", "/stacks"])
    return [
        (server.request("GET", next(reads)) if at % 4 else server.request("POST", "/validate", body)).status
        for at in range(number)
    ]


def wait_until_closed(client: socket.socket) -> None:
    """Read until the server closes the connection."""

    def is_closed() -> bool:
        try:
            return client.recv(65_536) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    eventually(is_closed, "the connection closes")


@pytest.mark.slow
@pytest.mark.parametrize("drips", few([True, False]))
def test_a_thousand_slow_clients_stop_nobody(server: Server, drips: bool) -> None:
    """They are more than the threads of all processes, and take none."""
    normal(server, 20)
    with many_files(MANY):
        before = threads(server)
        begins = [*SLOW.values()] * (MANY // len(SLOW))
        with slow_clients(server.port, begins) as clients, ExitStack() as during:
            if drips:
                during.enter_context(dripping(clients))
            assert normal(server, 100) == [200] * 100
            assert threads(server) < before + 20


@pytest.mark.slow
def test_silence_costs_memory_only(tmp_path: Path) -> None:
    """Five thousand connections without a whole head: silent, or a byte now and then."""
    with many_files(VERY_MANY):
        server = Server(tmp_path)
        try:
            assert normal(server, 100) == [200] * 100
            memory_before, threads_before = memory(server), threads(server)
            begins = [SLOW["silent"], SLOW["half a line"], SLOW["half a head"], SLOW["TLS"]] * (VERY_MANY // 4)
            with ExitStack() as opened:
                clients = []
                for begin in begins:
                    client = opened.enter_context(connect(server.port))
                    client.sendall(begin)
                    clients.append(client)
                with dripping(clients[::2]):
                    assert normal(server, 50) == [200] * 50
                    assert threads(server) < threads_before + 20
                    assert memory(server) - memory_before < VERY_MANY * MEMORY_EACH
                    assert normal(server, 50) == [200] * 50
            assert normal(server, 20) == [200] * 20
            server.stop()
            assert server.complaints() == ""
        finally:
            server.kill()


@pytest.mark.slow
def test_a_slow_client_loses_its_connection(server: Server) -> None:
    """Each phase of a request has a deadline (docs/reference/limits.md)."""
    begins = [*SLOW.values()]
    with ExitStack() as opened:
        clients = [opened.enter_context(connect(server.port)) for _ in begins * 2]
        for client, begin in zip(clients, begins * 2, strict=True):
            with suppress(OSError):
                client.sendall(begin)
            client.setblocking(False)
        with dripping(clients[: len(begins)]):
            for client in clients:
                wait_until_closed(client)


@pytest.mark.slow
def test_a_stop_waits_for_no_slow_client(tmp_path: Path) -> None:
    """Its processes end by themselves, before they would be killed."""
    server = Server(tmp_path, HEATLITE_PROCESSES="1")
    try:
        with slow_clients(server.port, [*SLOW.values()] * 2) as clients, dripping(clients[: len(SLOW)]):
            server.stop()
            for client in clients:
                wait_until_closed(client)
        assert server.log.read_text().count("Worker exiting") == 1
    finally:
        server.kill()


FLOODS: dict[str, tuple[bytes, bytes]] = {
    "headers": (b"GET / HTTP/1.1\r\n", b"X: %b\r\n" % (b"a" * 1000) * 60),
    "a header": (b"GET / HTTP/1.1\r\nX: ", b"a" * 65_536),
    "a line": (b"GET /", b"a" * 65_536),
    "a method": (b"", b"A" * 65_536),
    "empty lines": (b"", b"\r\n" * 32_768),
    "a size": (request(STACKS, JSON, "Transfer-Encoding: chunked"), b"1" * 65_536),
    "an extension": (request(STACKS, JSON, "Transfer-Encoding: chunked", body=b"5;"), b"a" * 65_536),
    "trailers": (request(STACKS, JSON, "Transfer-Encoding: chunked", body=b"0\r\n"), b"X: y\r\n" * 10_000),
    "chunks": (request(STACKS, JSON, "Transfer-Encoding: chunked"), b"10000\r\n%b\r\n" % (b"x" * 65_536)),
    "small chunks": (request(STACKS, JSON, "Transfer-Encoding: chunked"), b"1\r\nx\r\n" * 10_000),
    "a body": (request(STACKS, JSON, "Content-Length: 1000000000"), b"x" * 65_536),
    "requests": (b"", ASK * 1000),
    "requests behind a stream": (STREAM, ASK * 1000),
}
"""First bytes of clients, and the bytes that they repeat while the server takes them."""
FLOOD_BYTES = 50_000_000
FLOOD_MEMORY = 30_000_000


@pytest.mark.parametrize("what", sampled(FLOODS, 2, pytest.mark.thorough))
def test_what_does_not_end_takes_no_memory(server: Server, stack: bytes, what: str) -> None:
    """The client reads no answers. The server refuses, or takes no more."""
    begin, more = FLOODS[what]
    normal(server, 4)
    before = memory(server)
    with connect(server.port) as client:
        client.settimeout(1.0)
        sent, most = 0, before
        with suppress(OSError):  # also TimeoutError: nobody takes it
            client.sendall(begin.replace(b"STACK", stack))
            while sent < FLOOD_BYTES:
                client.sendall(more)
                sent += len(more)
        most = memory(server)
        assert normal(server, 4) == [200] * 4
    assert most - before < FLOOD_MEMORY


@pytest.mark.slow
def test_bodies_and_answers_share_the_memory(server: Server) -> None:
    """More bodies than fit: the longest transfers end, and all others are served."""
    body = own_body("own" + "x" * 3_900_000)
    head = request(STACKS, JSON, f"Content-Length: {len(body)}", "Connection: close")
    before, processes = memory(server), len(server.apis())
    with ExitStack() as opened:
        clients = [opened.enter_context(connect(server.port)) for _ in range(60 * processes)]
        for client in clients:
            with suppress(OSError):
                client.sendall(head + body[:-1])
        assert normal(server, 20) == [200] * 20
        assert memory(server) - before < 1.5 * 128 * 1024 * 1024 * processes
        with suppress(OSError):
            clients[-1].sendall(body[-1:])
            assert read_replies(clients[-1].makefile("rb")).statuses == [400]
    assert normal(server, 20) == [200] * 20


LEAVING: dict[str, bytes] = {
    "before the answer": request("GET /v1/demo/stacks HTTP/1.1"),
    "before the answer to a write": request(STACKS, JSON, f"Content-Length: {len(own_body('a'))}", body=own_body("a")),
    "in a body": SLOW["half a body"],
    "in a chunk": SLOW["half a chunk"],
    "in a head": SLOW["half a head"],
    "in an event stream": STREAM,
    "behind a row of requests": ASK * 50,
}


@pytest.mark.parametrize("when", sampled(LEAVING, 2, pytest.mark.thorough))
@pytest.mark.parametrize("how", few(["closed", "reset", "half closed"]))
def test_clients_that_leave_take_nothing_with_them(server: Server, stack: bytes, when: str, how: str) -> None:
    """Nothing of them stays: no thread, no place, no complaint in the log."""
    normal(server, 20)
    before = threads(server)
    for _ in range(50):
        with connect(server.port) as client:
            client.sendall(LEAVING[when].replace(b"STACK", stack))
            if how == "reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            elif how == "half closed":
                client.shutdown(socket.SHUT_WR)
                client.settimeout(0.05)
                with suppress(OSError):
                    client.recv(10)
    assert normal(server, 20) == [200] * 20
    assert threads(server) < before + 20
