"""Connections that the guard watches, with a protocol in gunicorn's place."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

from pytest import MonkeyPatch

from heatlite.serving import guard
from heatlite.serving.guard import Connection, Guard


class Server(asyncio.Protocol):
    """Counts the bytes of a connection."""

    def __init__(self) -> None:
        self.received = 0
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += len(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True


class Clients:
    """Clients of a server whose connections a guard watches."""

    def __init__(self, watched: Guard, port: int, servers: list[Server]) -> None:
        self.guard, self.port, self.servers = watched, port, servers
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[Connection, asyncio.StreamWriter]:
        """Return the server's end of a connection, and the client's."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        await until(lambda: len(self.guard.connections) == len(self.servers) and bool(self.servers))
        return self.guard.connections[writer.get_extra_info("sockname")], writer


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():
            await asyncio.sleep(0.001)


def with_clients(test: Callable[[Clients], Coroutine[object, object, None]]) -> Callable[[], None]:
    """Run a test in an event loop of a guard."""

    @asynccontextmanager
    async def serving(watched: Guard) -> AsyncIterator[Clients]:
        servers: list[Server] = []

        def make() -> Server:
            servers.append(Server())
            return servers[-1]

        server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
        async with server:
            clients = Clients(watched, server.sockets[0].getsockname()[1], servers)
            try:
                yield clients
            finally:
                for writer in clients.writers:
                    writer.transport.abort()
                for connection in [*watched.connections.values()]:
                    connection.abort()
                await until(lambda: not watched.connections)

    def run() -> None:
        async def main() -> None:
            async with serving(watched) as clients:
                await test(clients)

        watched = Guard()
        with asyncio.Runner(loop_factory=watched.new_event_loop) as runner:
            runner.run(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@with_clients
async def test_a_connection_has_time_for_its_next_request(clients: Clients) -> None:
    silent, busy, idle, lost = [(await clients.connect())[0] for _ in range(4)]
    for connection in (busy, idle, lost):
        connection.begin_request(100)
    idle.end_request(is_answered=True)
    lost.end_request(is_answered=False)
    silent.limit = busy.limit = 0.0
    clients.guard.look()
    await until(lambda: sum(server.is_lost for server in clients.servers) == 2)
    assert {*clients.guard.connections.values()} == {busy, idle}
    clients.guard.look(closes_all=True)
    await until(lambda: {*clients.guard.connections.values()} == {busy})


@with_clients
async def test_a_stop_ends_bodies_that_are_not_whole(clients: Clients) -> None:
    whole, half = [(await clients.connect())[0] for _ in range(2)]
    for connection in (whole, half):
        connection.begin_request(100)
        connection.begin_body()
    whole.end_body()
    clients.guard.look(closes_all=True)
    assert len(clients.guard.connections) == 2
    clients.guard.look(closes_all=True, ends_bodies=True)
    await until(lambda: [*clients.guard.connections.values()] == [whole])


@with_clients
async def test_a_client_that_is_gone_before_it_is_accepted_leaves_no_trace(clients: Clients) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    gone = socket.create_connection(("127.0.0.1", clients.port))  # the event loop stands still meanwhile
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    gone.close()
    await until(lambda: bool(clients.servers))
    await asyncio.sleep(0.05)
    assert (faults, clients.guard.connections) == ([], {})


def test_the_oldest_of_too_many_are_closed(monkeypatch: MonkeyPatch) -> None:
    @with_clients
    async def test(clients: Clients) -> None:
        opened = [(await clients.connect())[0] for _ in range(4)]
        monkeypatch.setattr("resource.getrlimit", lambda _: (guard.SPARE_FILES + 2, 0))
        clients.guard.look()
        await until(lambda: [*clients.guard.connections.values()] == opened[2:])

    test()


@with_clients
async def test_a_client_waits_for_answers_before_it_sends_more(clients: Clients) -> None:
    connection, client = await clients.connect()
    (server,) = clients.servers
    connection.begin_request(0)
    client.write(b"x" * 10_000_000)
    await until(lambda: not connection.is_reading())
    for _ in range(20):  # gunicorn reads on after each request, and begins the next one
        connection.end_request(is_answered=True)
        connection.pause_reading()
        connection.resume_reading()
        connection.begin_request(100)
        await asyncio.sleep(0.01)
    assert server.received < 1_000_000
    connection.end_request(is_answered=True)
    await until(lambda: server.received > 1_000_000)  # there are no more requests


@with_clients
async def test_a_body_may_be_large(clients: Clients) -> None:
    connection, client = await clients.connect()
    (server,) = clients.servers
    client.write(b"x" * 10_000_000)
    await until(lambda: server.received > 0)
    connection.begin_request(100)
    connection.begin_body()
    await until(lambda: server.received == 10_000_000)
    connection.take(10_000_000)
    connection.end_body()
    assert connection.is_reading()
    connection.end_request(is_answered=True)


@with_clients
async def test_gunicorns_own_pauses_stay(clients: Clients) -> None:
    connection, client = await clients.connect()
    connection.begin_request(0)
    client.write(b"x" * 10_000_000)
    await until(lambda: not connection.is_reading())
    connection.pause_reading()
    connection.begin_body()
    assert not connection.is_reading()
    connection.resume_reading()
    assert connection.is_reading()
    connection.end_request(is_answered=True)
