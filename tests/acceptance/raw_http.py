"""HTTP byte by byte: what no library sends, and each answer of a connection."""

import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO

from tests.acceptance.processes import START_SECONDS

HEAD = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")


@dataclass
class Reply:
    """An answer to a request."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


@dataclass
class Replies:
    """All that a connection has answered."""

    finals: list[Reply] = field(default_factory=list)
    """The answers, without interim ones."""
    interim: list[int] = field(default_factory=list)
    """Status codes of interim answers."""

    @property
    def statuses(self) -> list[int]:
        return [reply.status for reply in self.finals]


def request(first: str, *headers: str, body: bytes = b"") -> bytes:
    """Return a request for localhost. `first` is its line."""
    return "\r\n".join([first, "Host: localhost", *headers, "", ""]).encode("latin-1") + body


def chunked(*parts: bytes) -> bytes:
    """Return a body in chunks."""
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), START_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_reply(lines: BinaryIO, method: str = "GET") -> Reply | None:
    """Read an answer, interim ones as well. None if the connection ends before it."""
    first = lines.readline()
    if not first:
        return None
    found = HEAD.match(first)
    assert found, f"no answer: {first!r}"
    reply = Reply(int(found[1]), {})
    while (line := lines.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        reply.headers[name.lower()] = value.strip()
    assert line, f"half an answer: {reply}"
    if reply.status < 200 or reply.status in (204, 304) or method == "HEAD":
        return reply
    if reply.headers.get("transfer-encoding") == "chunked":
        while size := int(lines.readline(), 16):
            reply.body += lines.read(size)
            lines.readline()
        lines.readline()
    elif "content-length" in reply.headers:
        size = int(reply.headers["content-length"])
        reply.body = lines.read(size)
        assert len(reply.body) == size, f"half an answer: {reply}"
    else:
        reply.body = lines.read()
    return reply


def read_replies(lines: BinaryIO) -> Replies:
    """Read until the connection ends."""
    found = Replies()
    with suppress(ConnectionResetError):
        while (reply := read_reply(lines)) is not None:
            if reply.status < 200:
                found.interim.append(reply.status)
            else:
                found.finals.append(reply)
    return found


def send(connection: socket.socket, parts: Iterable[bytes]) -> None:
    """Send parts one by one, until the server has closed the connection."""
    with suppress(ConnectionResetError, BrokenPipeError):
        for part in parts:
            connection.sendall(part)
