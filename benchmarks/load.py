"""Clients in one thread: some without a pause, or requests at a rate.

`Load` runs them in a process of its own, so that they share no lock of Python with the measuring process.
"""

import errno
import json
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from benchmarks.processes import CHECKOUT

PATIENCE = 10.0
"""Seconds that requests wait for their answers after the end of a load."""
WARM_UP = 0.7
"""Seconds of a load that do not count: its process starts, and opens its connections."""
MAX_CONNECTIONS = 10_000
"""Connections of a load at a rate. What needs more has no answer."""


class Answer(NamedTuple):
    """One request. `status` is 0 if it had no answer."""

    asked: float
    """Time when it was due, on the monotonic clock, which all processes of the machine share."""
    seconds: float
    """Seconds until its answer was complete."""
    status: int
    late: float = 0.0
    """Seconds of these until it was sent: the driver was busy, or the server had not accepted the connection."""


class Connection:
    """One connection, and the request that it carries."""

    __slots__ = ("asked", "late", "received", "request", "socket", "wanted")

    def __init__(self, port: int) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found = self.socket.connect_ex(("127.0.0.1", port))
        if found not in (0, errno.EINPROGRESS):
            raise OSError(found, "no connection")
        self.asked = self.late = 0.0
        self.request = b""
        """The part that has not been sent yet."""
        self.received = bytearray()
        self.wanted = 0
        """Bytes of the whole answer; 0 while that is not known."""


class Driver:
    """Sends requests, and has their answers in `answers`.

    A request uses a connection that is free, or opens one. `waiting` is the number of requests without an answer.
    """

    def __init__(self, port: int, requests: Sequence[bytes], connections: int = MAX_CONNECTIONS) -> None:
        self._port = port
        self._requests = requests
        self._connections = connections
        self.selector = selectors.DefaultSelector()
        self._free: list[Connection] = []
        self._busy: set[Connection] = set()
        self.sent = 0
        self.answers: list[Answer] = []

    @property
    def waiting(self) -> int:
        """Number of requests without an answer."""
        return len(self._busy)

    def ask(self, due: float) -> None:
        """Send the next request. `due` is the time from which its answer is awaited."""
        request = self._requests[self.sent % len(self._requests)]
        self.sent += 1
        if self._free:
            connection = self._free.pop()
        elif len(self._busy) < self._connections:
            connection = Connection(self._port)
            self.selector.register(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
            connection.request = request
        else:
            self.answers.append(Answer(due, 0.0, 0))
            return
        self._busy.add(connection)
        connection.asked = due
        if not connection.request:
            connection.request = request
            self._send(connection)

    def wait(self, seconds: float) -> bool:
        """Take what arrives. Returns True if the other file of the selector is ready."""
        other = False
        for key, mask in self.selector.select(seconds):
            connection = key.data
            if connection is None:
                other = True
                continue
            try:
                if mask & selectors.EVENT_WRITE and connection.request:
                    self._send(connection)
                    self.selector.modify(connection.socket, selectors.EVENT_READ, connection)
                if mask & selectors.EVENT_READ:
                    self._take(connection)
            except OSError:
                self._end(connection)
        return other

    def _send(self, connection: Connection) -> None:
        """Send a request. It is shorter than the buffer of a socket, which is empty."""
        connection.socket.send(connection.request)
        connection.request = b""
        connection.late = time.perf_counter() - connection.asked

    def _take(self, connection: Connection) -> None:
        part = connection.socket.recv(65536)
        if not part:
            self._end(connection)
            return
        connection.received += part
        received = connection.received
        if not connection.wanted:
            end = received.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(received[:end]).lower()
            at = head.find(b"content-length:")
            if at < 0:
                raise RuntimeError(f"an answer without a length: {head!r}")
            connection.wanted = end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(received) < connection.wanted:
            return
        self._note(connection, int(received[9:12]))
        if b"connection: close" in bytes(received[:1000]).lower():
            self._end(connection)
            return
        received.clear()
        connection.wanted = 0
        self._free.append(connection)

    def _end(self, connection: Connection) -> None:
        if connection in self._busy:
            self._note(connection, 0)
        elif connection in self._free:
            self._free.remove(connection)
        self.selector.unregister(connection.socket)
        connection.socket.close()

    def _note(self, connection: Connection, status: int) -> None:
        self._busy.remove(connection)
        took = time.perf_counter() - connection.asked
        self.answers.append(Answer(connection.asked, took, status, connection.late))

    def close(self) -> None:
        """Wait for open answers, then close all connections."""
        ends = time.perf_counter() + PATIENCE
        while self._busy and (left := ends - time.perf_counter()) > 0:
            self.wait(left)
        for connection in [key.data for key in self.selector.get_map().values() if key.data is not None]:
            self._end(connection)


def at_once(port: int, request: str, clients: int) -> list[Answer]:
    """Return the answers to one request on so many new connections at once."""
    driver = Driver(port, [request.encode()])
    for _ in range(clients):
        driver.ask(time.perf_counter())
    driver.close()
    return driver.answers


def drive(port: int, requests: Sequence[str], clients: int, rate: float, connections: int) -> list[Answer]:
    """Send requests in turn until the standard input ends.

    They come from `clients` without a pause, or `rate` of them per second, whatever the others do. Those at a rate take
    their time from the moment at which they are due.
    """
    driver = Driver(port, [request.encode() for request in requests], connections)
    driver.selector.register(sys.stdin, selectors.EVENT_READ)
    began = time.perf_counter()
    ended = False
    while not ended:
        pause = 1.0
        while driver.waiting < clients:
            driver.ask(time.perf_counter())
        while rate and (pause := began + driver.sent / rate - time.perf_counter()) <= 0:
            driver.ask(began + driver.sent / rate)
        ended = driver.wait(pause)
    driver.selector.unregister(sys.stdin)
    driver.close()
    return driver.answers


class Load:
    """A load on a server from its start until `stop`, see `drive`."""

    def __init__(
        self,
        port: int,
        requests: Sequence[str],
        *,
        clients: int = 0,
        rate: float = 0.0,
        connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
        )
        assert self._process.stdin is not None
        orders = {
            "port": port, "requests": requests, "clients": clients, "rate": rate, "connections": connections
        }  # fmt: skip
        self._process.stdin.write(json.dumps(orders) + "\n")
        self._process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> list[Answer]:
        """End the load and return its answers. Raises RuntimeError."""
        out, _ = self._process.communicate()
        if self._process.returncode != 0:
            raise RuntimeError("the load has failed")
        return [Answer(*one) for one in json.loads(out)]


def load(port: int, requests: Sequence[str], seconds: float, *, clients: int = 0, rate: float = 0.0) -> list[Answer]:
    """Load a server for some seconds. Returns the answers after a warm-up."""
    with Load(port, requests, clients=clients, rate=rate) as running:
        time.sleep(WARM_UP)
        began = time.perf_counter()
        time.sleep(seconds)
        return [one for one in running.stop() if one.asked >= began]


def rates(answers: Sequence[Answer], expect: int) -> dict[str, float]:
    """Return rate and delays of the answers with a status; count the others."""
    found = [one for one in answers if one.status == expect]
    if not found:
        raise RuntimeError(f"no answer is {expect}: {sorted({one.status for one in answers})}")
    elapsed = max(one.asked + one.seconds for one in found) - min(one.asked for one in found)
    return {
        "requests_per_second": len(found) / elapsed,
        "p50_ms": percentile(found, 0.5),
        "p99_ms": percentile(found, 0.99),
        "failed": len(answers) - len(found),
    }


def percentile(answers: Sequence[Answer], part: float) -> float:
    """Return the milliseconds that this part of the answers does not exceed."""
    took = sorted(one.seconds for one in answers)
    return took[min(len(took) - 1, int(len(took) * part))] * 1000


def encode(method: str, path: str, body: str = "") -> str:
    """A request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {len(body.encode())}", "", body])


if __name__ == "__main__":
    json.dump(drive(**json.loads(sys.stdin.readline())), sys.stdout)
