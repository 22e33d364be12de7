"""A connection to a database server that breaks during a COMMIT."""

import select
import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

CHUNK = 1 << 16


class Proxy:
    """Relay that breaks the connection at each nth COMMIT.

    It breaks in turn before the server gets it and after it has done it. The client cannot tell which.
    """

    def __init__(self, url: str, every: int) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self._every = every
        self._commits = 0
        self.unheard = 0
        """Number of COMMITs that the server did not receive."""
        self.unanswered = 0
        """Number of COMMITs whose answer was lost."""
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = parts._replace(netloc=f"{parts.username}@127.0.0.1:{self._listener.getsockname()[1]}").geturl()
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), name="proxied", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(self._server) as server:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    said = source.recv(CHUNK)
                    if not said:
                        return
                    if source is server:
                        client.sendall(said)
                        continue
                    breaks = b"COMMIT" in said and self._breaks()
                    if breaks and self.unheard <= self.unanswered:
                        self.unheard += 1
                        return
                    server.sendall(said)
                    if breaks:
                        server.recv(CHUNK)
                        self.unanswered += 1
                        return

    def _breaks(self) -> bool:
        with self._lock:
            self._commits += 1
            return self._commits % self._every == 0
