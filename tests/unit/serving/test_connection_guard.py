"""The guard with real sockets, in the event loop of the product."""

import asyncio
import math
import os
import resource
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import uvloop

from heatlite.serving import connection_guard
from heatlite.serving.connection_guard import ClientConnection, ConnectionGuard, Peer
from tests.tables import table

NOW = 100.0
LATE, OLD, NEW = (("a", number) for number in range(3))
BUSY, IN_BODY = ("b", 0), ("b", 1)
CONNECTIONS = {
    NEW: ClientConnection(NOW + 9),
    BUSY: ClientConnection(math.inf, busy=1),
    OLD: ClientConnection(NOW + 1),
    IN_BODY: ClientConnection(0.0, busy=1, is_in_body=True),
    LATE: ClientConnection(NOW - 1),
}
END, ABORT = socket.SHUT_RD, socket.SHUT_RDWR
LARGE = b"x" * 5_000_000
"""An answer that no buffer of the system can hold."""


@table(
    ("excess", "stops", "ends_bodies", "expected"),
    [
        (-5, False, False, {LATE: ABORT}),
        (1, False, False, {LATE: ABORT}),
        (2, False, False, {LATE: ABORT, OLD: END}),
        (9, False, False, {LATE: ABORT, OLD: END, NEW: END}),
        (0, True, False, {LATE: ABORT, OLD: END, NEW: END}),
        (0, True, True, {LATE: ABORT, OLD: END, NEW: END, IN_BODY: END}),
    ],
)
def test_which_connections_are_closed(excess: int, stops: bool, ends_bodies: bool, expected: dict[Peer, int]) -> None:
    assert connection_guard.closing(CONNECTIONS, NOW, excess, stops, ends_bodies) == expected


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
    clients.guard.connections[peer].limit = 0.0
    clients.guard.look()
    await until(lambda: is_closed(silent))
    assert not is_closed(other)

    def left() -> list[Peer]:
        clients.guard.look()
        return [*clients.guard.connections]

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
        for one in clients.guard.connections.values():
            one.limit = 0.0
        clients.guard.look(stops=True, ends_bodies=True)
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
    clients.guard.connections[peer].limit = 0.0
    clients.guard.look()
    await until(lambda: transport.get_write_buffer_size() == 0)


@with_clients
async def test_a_client_that_is_gone_leaves_no_trace(clients: Clients) -> None:
    client, _ = await clients.connect()
    clients.guard.look()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    client.close()
    clients.guard.look(stops=True)  # the event loop has not seen it
    assert clients.guard.connections == {}


@with_clients
async def test_a_client_far_ahead_of_its_answers(clients: Clients) -> None:
    client, peer = await clients.connect()
    clients.guard.look()
    connection = clients.guard.connections[peer]
    size = connection_guard.MAX_AHEAD + 100
    await asyncio.to_thread(blocking(client).sendall, b"x" * size)
    server_side = clients.accepted[0].get_extra_info("socket")

    def has_received() -> bool:
        info = server_side.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, connection_guard.RECEIVED.size)
        return bool(connection_guard.RECEIVED.unpack(info)[0] == size)

    await until(has_received)
    found = []
    for taken, is_in_body in [(100, False), (0, True), (0, False)]:
        connection.begun, connection.taken, connection.is_in_body = connection.begun + 2, taken, is_in_body
        assert clients.guard.is_due
        clients.guard.look()
        found.append(connection.is_ahead)
    assert found == [False, False, True]
    assert not clients.guard.is_due


@with_clients
async def test_a_closed_listening_socket_is_the_begin_of_a_stop(clients: Clients) -> None:
    assert not clients.guard.is_stopping
    clients.guard.look()
    assert not clients.guard.is_stopping
    clients.server.close()
    await until(lambda: clients.guard.is_stopping)
    with socket.socket():  # it has the number of the closed one
        assert clients.guard.is_stopping


@with_clients
async def test_many_connections_may_wait_to_be_accepted(clients: Clients) -> None:
    clients.guard.look()
    (listening,) = clients.server.sockets
    most = struct.unpack("8B24I", listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104))[13]  # tcpi_sacked
    assert most == min(connection_guard.BACKLOG, int(Path("/proc/sys/net/core/somaxconn").read_text()))


@with_clients
async def test_the_oldest_of_too_many_are_closed_even_if_no_file_can_be_opened(clients: Clients) -> None:
    opened = [await clients.connect() for _ in range(4)]
    clients.guard.look()
    for number, (_, peer) in enumerate(opened):
        clients.guard.connections[peer].limit += number
    before, files = resource.getrlimit(resource.RLIMIT_NOFILE), len(open_files())
    with ExitStack() as held:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files + connection_guard.SPARE_FILES, before[1]))
            with suppress(OSError):
                while True:
                    held.enter_context(socket.socket())
            clients.guard.look()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    for client, _ in opened:
        await until(lambda client=client: is_closed(client))  # type: ignore[misc]
