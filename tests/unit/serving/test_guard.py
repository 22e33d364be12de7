"""The guard of connections without a request."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pytest import MonkeyPatch

from heatlite.serving import guard
from heatlite.serving.guard import Guard


class Connections:
    """Clients, and the server's ends of their connections."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = self._listener.getsockname()[1]

    def open(self) -> tuple[socket.socket, tuple[str, int]]:
        """Return the server's end, and the address of the client."""
        client = self._stack.enter_context(socket.create_connection(("127.0.0.1", self.port)))
        server = self._stack.enter_context(self._listener.accept()[0])
        server.setblocking(False)
        return server, client.getsockname()


@pytest.fixture
def connections() -> Iterator[Connections]:
    with ExitStack() as stack:
        yield Connections(stack)


def is_open(server: socket.socket) -> bool:
    try:
        return server.recv(1) != b""
    except BlockingIOError:
        return True


def test_a_connection_has_time_for_its_next_request(connections: Connections) -> None:
    ended: dict[tuple[str, int], float] = {}
    active: set[tuple[str, int]] = set()
    found = Guard(connections.port, active, ended)
    (silent, _), (busy, working), (idle, waiting), (old, gone) = (connections.open() for _ in range(4))
    outside = connections.open()[1]
    active.add(working)
    ended |= {waiting: time.monotonic(), gone: time.monotonic() - 2 * guard.IDLE_SECONDS, ("10.0.0.1", 1): 1.0}
    found._looked = time.monotonic() - 2 * guard.IDLE_SECONDS - 1
    found.look()
    assert [is_open(one) for one in (silent, busy, idle, old)] == [False, True, True, False]
    assert outside not in ended
    assert ("10.0.0.1", 1) not in ended  # it is forgotten
    found.look(closes_all=True)
    assert [is_open(one) for one in (busy, idle)] == [True, False]


def test_the_oldest_of_too_many_are_closed(connections: Connections, monkeypatch: MonkeyPatch) -> None:
    found = Guard(connections.port, set(), {})
    opened = []
    for _ in range(4):
        opened.append(connections.open()[0])
        found.look()
    monkeypatch.setattr("resource.getrlimit", lambda _: (guard.SPARE_FILES + 2, 0))
    found.look()
    assert [is_open(one) for one in opened] == [False, False, True, True]


def test_connections_to_other_ports_are_left_alone(connections: Connections) -> None:
    server, _ = connections.open()
    Guard(connections.port + 1, set(), {}).look(closes_all=True)
    assert is_open(server)
