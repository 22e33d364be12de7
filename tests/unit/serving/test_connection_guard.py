"""The guard with real sockets, in the event loop of the product."""

import asyncio
import os
import resource
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from math import inf
from pathlib import Path
from typing import TypeAlias

import uvloop

from heatlite.serving import connection_guard
from heatlite.serving.connection_guard import ConnectionGuard

Peer: TypeAlias = tuple[str, int]

LARGE = b"x" * 5_000_000
"""An answer that no buffer of the system can hold."""


class Clients:
    """Clients of a server whose connections a guard watches."""

    def __init__(self, server: asyncio.Server, accepted: list[asyncio.StreamWriter], opened: ExitStack) -> None:
        self.server, self.accepted, self._opened = server, accepted, opened
        self.port: int = server.sockets[0].getsockname()[1]
        self.guard = ConnectionGuard(self.port)

    async def connect(self) -> tuple[socket.socket, Peer]:
        """Return a client whose connection is accepted."""
        count = len(self.accepted)
        client = self._opened.enter_context(socket.create_connection(("127.0.0.1", self.port)))
        client.setblocking(False)
        await until(lambda: len(self.accepted) > count)
        return client, client.getsockname()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():
            await asyncio.sleep(0.001)


def open_files() -> set[str]:
    return {path.name for path in Path("/dev/fd").iterdir()}


def blocking(client: socket.socket) -> socket.socket:
    client.settimeout(60)
    return client


def is_closed(client: socket.socket) -> bool:
    """Return True if the server has closed the connection, on which it sent nothing."""
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@asynccontextmanager
async def serving() -> AsyncIterator[Clients]:
    accepted: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    with ExitStack() as opened:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            yield Clients(server, accepted, opened)
        finally:
            server.close()
            for writer in accepted:
                writer.transport.abort()
            await until(lambda: all(writer.transport.is_closing() for writer in accepted))


def with_clients(test: Callable[[Clients], Coroutine[object, object, None]]) -> Callable[[], None]:
    def run() -> None:
        async def main() -> None:
            async with serving() as clients:
                await test(clients)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@with_clients
async def test_a_connection_has_time_for_its_first_request(clients: Clients) -> None:
    (silent, peer), (other, _) = await clients.connect(), await clients.connect()
    clients.guard.look()
    clients.guard.limits[peer] = 0.0
    clients.guard.look()
    await until(lambda: is_closed(silent))
    assert not is_closed(other)

    def left() -> list[Peer]:
        clients.guard.look()
        return [*clients.guard.limits]

    await until(lambda: left() == [other.getsockname()])  # a socket is closed a little after its transport


@with_clients
async def test_other_files_stay_as_they_are(clients: Clients) -> None:
    """Sockets of other ports, pipes, files, and a client of this very server."""
    (client, _), (ours, theirs), pipe = await clients.connect(), socket.socketpair(), os.pipe()
    with (
        ours,
        theirs,
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as outgoing,
        Path(__file__).open("rb"),
    ):
        before = open_files()
        clients.guard.look(stops=True)
        clients.guard.limits = dict.fromkeys(clients.guard.limits, 0.0)
        clients.guard.look(stops=True)
        assert open_files() == before
        outgoing.sendall(b"a")
        ours.sendall(b"a")
        assert theirs.recv(1) == b"a"
    await until(lambda: is_closed(client))
    for number in pipe:
        os.close(number)


@with_clients
async def test_a_client_may_take_the_rest_of_its_answer(clients: Clients) -> None:
    client, _ = await clients.connect()
    clients.accepted[0].write(LARGE)
    for _ in range(2):
        clients.guard.look(stops=True)
        await asyncio.sleep(0)
    assert len(await asyncio.to_thread(blocking(client).makefile("rb").read)) == len(LARGE)


@with_clients
async def test_a_client_that_takes_no_answer_holds_no_memory(clients: Clients) -> None:
    _, peer = await clients.connect()
    transport = clients.accepted[0].transport
    transport.write(LARGE)
    clients.guard.look()
    clients.guard.limits[peer] = 0.0
    clients.guard.look()
    await until(lambda: transport.get_write_buffer_size() == 0)


@with_clients
async def test_a_client_that_is_gone_leaves_no_trace(clients: Clients) -> None:
    client, _ = await clients.connect()
    clients.guard.look()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    client.close()
    clients.guard.look(stops=True)  # the event loop has not seen it
    assert clients.guard.limits == {}


@with_clients
async def test_the_bytes_of_a_connection_are_known(clients: Clients) -> None:
    client, peer = await clients.connect()
    client.sendall(b"x" * 1234)

    def received() -> int:
        clients.guard.look()
        return clients.guard.received[peer]

    await until(lambda: received() == 1234)


@with_clients
async def test_a_request_in_progress_goes_on(clients: Clients) -> None:
    """At a stop, too, and if it has more connections than files."""
    (busy, peer), (idle, _) = await clients.connect(), await clients.connect()
    clients.guard.look()
    clients.guard.limits[peer] = inf
    clients.guard.look(stops=True)
    await until(lambda: is_closed(idle))
    assert not is_closed(busy)


@with_clients
async def test_closed_listening_sockets_are_the_begin_of_a_stop(clients: Clients) -> None:
    assert clients.guard.look()
    clients.server.close()
    await until(lambda: not clients.guard.look())


@with_clients
async def test_many_connections_may_wait_to_be_accepted(clients: Clients) -> None:
    clients.guard.look()
    (listening,) = clients.server.sockets
    most = struct.unpack("8B24I", listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104))[13]  # tcpi_sacked
    assert most == min(connection_guard.BACKLOG, int(Path("/proc/sys/net/core/somaxconn").read_text()))


@contextmanager
def file_limit(most: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def in_order(clients: Clients, count: int) -> list[socket.socket]:
    """Return clients that have connected one after another."""
    opened = [await clients.connect() for _ in range(count)]
    clients.guard.look()
    for number, (_, peer) in enumerate(opened):
        clients.guard.limits[peer] += number
    return [client for client, _ in opened]


@with_clients
async def test_the_oldest_of_too_many_are_closed(clients: Clients) -> None:
    first, second, third, fourth = await in_order(clients, 4)
    clients.guard.limits[first.getsockname()] = inf  # it has a request
    with file_limit(len(open_files()) + connection_guard.SPARE_FILES - 2):
        clients.guard.look()
    await until(lambda: is_closed(second) and is_closed(third))
    assert not is_closed(first)
    assert not is_closed(fourth)


@with_clients
async def test_the_oldest_are_closed_even_if_no_file_can_be_opened(clients: Clients) -> None:
    opened = await in_order(clients, 4)
    with file_limit(len(open_files()) + connection_guard.SPARE_FILES), ExitStack() as held:
        with suppress(OSError):
            while True:
                held.enter_context(socket.socket())
        clients.guard.look()
    for client in opened:
        await until(lambda client=client: is_closed(client))  # type: ignore[misc]
