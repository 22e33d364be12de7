"""Queues of connections between processes."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from heatlite.channels import MAX_DATA, Channel, Passed


@pytest.fixture
def channel() -> Iterator[Channel]:
    made = Channel()
    yield made
    made.receiver.close()
    made._sender.close()


def taken(channel: Channel) -> Passed:
    found = channel.take()
    assert isinstance(found, Passed)
    return found


def test_a_connection_arrives_with_its_bytes(channel: Channel) -> None:
    client, server = socket.socketpair()
    for data in (b"", b"GET / HTTP/1.1\r\n", bytes(MAX_DATA)):
        channel.put(server, data)
        passed = taken(channel)
        assert passed.data == data
        with closing(passed.sock):
            assert not os.get_inheritable(passed.sock.fileno())
            passed.sock.send(b"answer")
            assert client.recv(10) == b"answer"
    with pytest.raises(BlockingIOError):
        channel.take()
    client.close()
    server.close()


def test_connections_wait_in_their_order(channel: Channel) -> None:
    client, server = socket.socketpair()
    with closing(client), closing(server):
        for number in range(50):
            channel.put(server, b"%d" % number)
        for number in range(50):
            passed = taken(channel)
            assert passed.data == b"%d" % number
            passed.sock.close()


def test_what_does_not_fit_is_refused(channel: Channel) -> None:
    client, server = socket.socketpair()
    with closing(client), closing(server):
        with pytest.raises(OSError, match="too long"):
            channel.put(server, bytes(MAX_DATA + 1))
        put = 0
        with pytest.raises(BlockingIOError):
            while True:
                channel.put(server, bytes(MAX_DATA))
                put += 1
        for _ in range(put):
            passed = taken(channel)
            passed.sock.close()


def test_counts_and_connections_keep_their_order(channel: Channel) -> None:
    client, server = socket.socketpair()
    with closing(client), closing(server):
        channel.put_count(b"1")
        channel.put(server, b"", is_refused=True)
        channel.put(server, b"")
        assert channel.take() == b"1"
        for is_refused in (True, False):
            passed = taken(channel)
            assert passed.is_refused is is_refused
            passed.sock.close()
