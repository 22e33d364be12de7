"""Fifty clients in one thread without a pause, or requests at a rate.

A process of its own, with kept connections and bare sockets, so that it costs the second processor little. Reads its
orders as JSON from standard input, writes its findings as JSON to standard output.
"""

import json
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Connection:
    """One client."""

    socket: socket.socket
    turn: int
    asked: float = 0.0
    received: bytearray = field(default_factory=bytearray)
    wanted: int = 0
    """Bytes of the whole answer; 0 while that is not known."""


def run(port: int, requests: list[bytes], clients: int, seconds: float, expect: int) -> dict[str, float]:
    """Requests per second and latencies in milliseconds, after a warm-up.

    Each client sends the requests in turn, starting at another one than its neighbour. Raises RuntimeError at an answer
    with another status than `expect`.
    """
    selector = selectors.DefaultSelector()
    for number in range(clients):
        made = socket.create_connection(("127.0.0.1", port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(made, number * len(requests) // clients)
        selector.register(made, selectors.EVENT_READ, connection)
        _ask(connection, requests)
    wanted = str(expect).encode()
    took: list[float] = []
    began = time.perf_counter() + 0.5
    ends = began + seconds
    while (now := time.perf_counter()) < ends:
        for key, _ in selector.select(1.0):
            connection = key.data
            if not _take(connection):
                continue
            if connection.received[9:12] != wanted:
                raise RuntimeError(f"not {expect}: {bytes(connection.received[:1000])!r}")
            now = time.perf_counter()
            if now >= began:
                took.append(now - connection.asked)
            _ask(connection, requests)
    elapsed = time.perf_counter() - began
    for key in list(selector.get_map().values()):
        key.data.socket.close()
    took.sort()
    return {
        "requests_per_second": len(took) / elapsed,
        "p50_ms": took[len(took) // 2] * 1000,
        "p99_ms": took[int(len(took) * 0.99)] * 1000,
    }


def paced(port: int, requests: list[bytes], rate: float, seconds: float, expect: int) -> dict[str, list[float]]:
    """Return the milliseconds that each request takes from its time on.

    `rate` of them are sent per second, whatever the others do. A request uses a connection that is free, or opens one.
    Those that a 503 refuses are counted apart. Raises RuntimeError at another status than `expect`.
    """
    selector = selectors.DefaultSelector()
    free: list[Connection] = []
    took: list[float] = []
    refused: list[float] = []
    wanted, total, sent = str(expect).encode(), int(rate * seconds), 0
    began = time.perf_counter()
    while len(took) + len(refused) < total:
        due = began + sent / rate
        if sent < total and time.perf_counter() >= due:
            connection = free.pop() if free else _open(port)
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.turn = sent
            _ask(connection, requests)
            connection.asked = due
            sent += 1
            continue
        for key, _ in selector.select(max(0.0, due - time.perf_counter()) if sent < total else 10.0):
            connection = key.data
            if not _take(connection):
                continue
            if connection.received[9:12] not in (wanted, b"503"):
                raise RuntimeError(f"not {expect}: {bytes(connection.received[:1000])!r}")
            answered = took if connection.received[9:12] == wanted else refused
            answered.append((time.perf_counter() - connection.asked) * 1000)
            selector.unregister(connection.socket)
            free.append(connection)
    for connection in free:
        connection.socket.close()
    return {"took_ms": took, "refused_ms": refused}


def _open(port: int) -> Connection:
    made = socket.create_connection(("127.0.0.1", port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(made, 0)


def at_once(port: int, request: bytes, clients: int) -> list[tuple[int, float]]:
    """Status and seconds of each answer to one request of all clients at once.

    One thread sends on open connections, as fast as it can.
    """
    selector = selectors.DefaultSelector()
    connections = [Connection(socket.create_connection(("127.0.0.1", port)), 0) for _ in range(clients)]
    for connection in connections:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    for connection in connections:
        _ask(connection, [request])
    answers: list[tuple[int, float]] = []
    while len(answers) < clients:
        for key, _ in selector.select(60.0):
            connection = key.data
            if _take(connection):
                took = time.perf_counter() - connection.asked
                answers.append((int(connection.received[9:12]), took))
                selector.unregister(connection.socket)
                connection.socket.close()
    return answers


def _ask(connection: Connection, requests: list[bytes]) -> None:
    connection.received.clear()
    connection.wanted = 0
    request = requests[connection.turn % len(requests)]
    connection.turn += 1
    connection.asked = time.perf_counter()
    connection.socket.sendall(request)


def _take(connection: Connection) -> bool:
    """Receive; whether the answer is whole."""
    received = connection.received
    part = connection.socket.recv(65536)
    if not part:
        raise RuntimeError(f"the server has closed a connection after {bytes(received)!r}")
    received += part
    if not connection.wanted:
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(received[:end])
        lower = head.lower()
        at = lower.find(b"content-length:")
        if at < 0:
            raise RuntimeError(f"an answer without a length: {head!r}")
        connection.wanted = end + 4 + int(lower[at + 15 :].split(b"\r\n", 1)[0])
    return len(received) >= connection.wanted


def encode(method: str, path: str, body: str = "") -> str:
    """A request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {len(body.encode())}", "", body])


if __name__ == "__main__":
    orders = json.load(sys.stdin)
    orders["requests"] = [request.encode() for request in orders["requests"]]
    print(json.dumps(paced(**orders) if "rate" in orders else run(**orders)))
