"""An endpoint of rules: a real listener, which may misbehave on the wire."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

Behaviour = Callable[[socket.socket], object]


def answer(body: bytes, status: str = "200 OK", *headers: str) -> Behaviour:
    """A whole HTTP answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return lambda peer: peer.sendall("\r\n".join(lines).encode() + body)


def says(result: str, **more: object) -> Behaviour:
    """The answer of an endpoint that behaves."""
    return answer(json.dumps({"result": result, **more}).encode())


PASSES = says("pass")


@dataclass
class Endpoint:
    """Listens on this machine."""

    port: int = 0
    behave: Behaviour = PASSES
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the test has ended. A behaviour that hangs waits for it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/judge?site=1"

    @property
    def told(self) -> list[Any]:
        """Return what it was told, decoded."""
        return [json.loads(one) for one in self.bodies]

    def serve(self, peer: socket.socket) -> None:
        """Read a request, and behave."""
        with peer, suppress(OSError):  # the other side may hang up
            text = b""
            while b"\r\n\r\n" not in text:
                text += peer.recv(65_536)
            head, _, body = text.partition(b"\r\n\r\n")
            length = next(int(one.split(b":")[1]) for one in head.split(b"\r\n") if one.startswith(b"Content-Length"))
            while len(body) < length:
                body += peer.recv(65_536)
            self.heads.append(head)
            self.bodies.append(body)
            self.behave(peer)


@contextmanager
def listening() -> Iterator[Endpoint]:
    """Listen until the end of the block."""
    made = Endpoint()
    with socket.create_server(("127.0.0.1", 0)) as server:
        made.port = server.getsockname()[1]

        def accept() -> None:
            with suppress(OSError):  # the end
                while True:
                    peer, _ = server.accept()
                    threading.Thread(target=made.serve, args=(peer,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.over.set()
            server.shutdown(socket.SHUT_RDWR)
    thread.join()
