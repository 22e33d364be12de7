"""Ends of requests: attacks × bodies × uses of a connection, on a real server.

Each answer belongs to a request that a client has sent, and comes in its place.
"""

import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.acceptance.attacks import BODIES, CHUNKS, HEADS, Outcome, frames
from tests.acceptance.processes import Server
from tests.acceptance.raw_http import Reply, connect, read_replies, read_reply, request, send
from tests.tables import few

NUMBERS = itertools.count(1)
USES = ("the first of a connection", "after an answer", "behind a request", "in pieces")
PIECE = 7
"""Bytes of a piece."""


@contextmanager
def served_meanwhile(server: Server) -> Iterator[None]:
    """Normal requests during the block are all answered."""
    ended, statuses = threading.Event(), []

    def ask() -> None:
        while not ended.wait(0.02):
            statuses.append(server.request("GET", "/stacks?limit=1").status)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert {*statuses} <= {200}


@pytest.fixture(scope="module", autouse=True)
def bystander(server: Server) -> Iterator[None]:
    """Another client, to which nothing happens."""
    with served_meanwhile(server):
        yield
    assert server.healthy()


def get(mark: str, *headers: str) -> bytes:
    return request(f"GET /v1/demo/stacks/{mark} HTTP/1.1", *headers)


def in_pieces(payload: bytes) -> Iterable[bytes]:
    """Divide into small pieces, or into a thousand."""
    size = max(PIECE, len(payload) // 1000)
    return (payload[at : at + size] for at in range(0, len(payload), size))


def converse(server: Server, use: str, attack: bytes, outcome: Outcome) -> list[Reply]:
    """Send an attack and another request on a connection.

    Returns the answers to the two.
    """
    before, after = f"before-{next(NUMBERS)}", get("after", "Connection: close")
    with connect(server.port) as connection, connection.makefile("rb") as lines:
        if use == "after an answer":
            send(connection, [get(before)])
            assert is_answer(read_reply(lines), before)
        if use == "behind a request":
            attack = get(before) + attack
        send(connection, in_pieces(attack + after) if use == "in pieces" else [attack + after])
        if use == "behind a request":
            assert is_answer(read_reply(lines), before)
        if outcome is Outcome.UNENDING:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
        return read_replies(lines).finals


def is_answer(reply: Reply | None, mark: str) -> bool:
    """Return True for the answer to a request that was understood, and named `mark`."""
    if reply is None or not reply.headers.get("content-type", "").startswith("application/json"):
        return False
    message = json.loads(reply.body)["error"]["message"]
    return message in (f"The Stack ({mark}) could not be found.", f"The template section is invalid: {mark}")


def check(server: Server, of: Callable[[str], bytes], outcome: Outcome, where: str) -> None:
    """Send an attack on connections of all uses, and check what becomes of it."""
    for use in USES:
        mark = f"own-{next(NUMBERS)}"
        replies = converse(server, use, of(mark), outcome)
        found = [(reply.status, reply.body[:300]) for reply in replies]
        said = f"{where}, {use}: {found}"
        understood = bool(replies) and is_answer(replies[0], mark)
        assert not any(is_answer(reply, "smuggled") for reply in replies), said
        assert all(400 <= reply.status < 500 or reply.status == 501 for reply in replies), said
        if understood:
            assert outcome in (Outcome.ANSWERED, Outcome.EITHER), said
            assert len(replies) == 2, said
            assert is_answer(replies[1], "after"), said
        else:
            assert outcome is not Outcome.ANSWERED, said
            assert len(replies) <= 1, said
            assert not (replies and is_answer(replies[0], "after")), said


@pytest.mark.parametrize("attack", few(HEADS))
def test_heads(server: Server, attack: str) -> None:
    outcome, change = HEADS[attack]
    for body in frames(""):
        check(server, lambda mark, body=body: change(frames(mark)[body]), outcome, body)  # type: ignore[misc]


@pytest.mark.parametrize("attack", BODIES)
def test_bodies(server: Server, attack: str) -> None:
    outcome, of = BODIES[attack]
    check(server, of, outcome, attack)


@pytest.mark.parametrize("attack", CHUNKS)
def test_chunks(server: Server, attack: str) -> None:
    outcome, of = CHUNKS[attack]
    check(server, of, outcome, attack)
