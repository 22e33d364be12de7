"""A relay to a database server that counts round trips."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

CHUNK = 1 << 16


class Relay:
    """Passes connections on to a server, from entering to leaving."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.round_trips = 0
        """Number of requests that follow an answer on the same connection."""
        credentials, at, _ = parts.netloc.rpartition("@")
        self.url = parts._replace(netloc=f"{credentials}{at}127.0.0.1:{self._listener.getsockname()[1]}").geturl()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="relay", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), name="relayed", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(self._server) as server:
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            answered = threading.Event()
            answered.set()

            def request() -> None:
                if answered.is_set():
                    answered.clear()
                    with self._lock:
                        self.round_trips += 1

            # A thread for each direction: while both ends send at once, neither of them takes anything.
            back = threading.Thread(target=_pass_on, args=(server, client, answered.set), name="relayed", daemon=True)
            back.start()
            _pass_on(client, server, request)
            back.join()


def _pass_on(source: socket.socket, sink: socket.socket, seen: Callable[[], None]) -> None:
    """Send to one end what the other sends, until one of them closes.

    `seen` is called before each part.
    """
    with suppress(OSError):
        while data := source.recv(CHUNK):
            seen()
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
