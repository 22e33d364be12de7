"""HTTP servers of tests: on a free port, a thread for each connection, quiet."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Serving(BaseHTTPRequestHandler):
    """Base of the handlers: `answer` is called for each request, whatever its method."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits until its head is acknowledged: 40 ms

    def answer(self) -> None:
        raise NotImplementedError

    def send(self, status: int, data: bytes, **headers: str) -> None:
        """Send a whole answer. Words of a header's name are joined by ``_`` here."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass

    def handle(self) -> None:
        with suppress(ConnectionError):  # whoever asked has not waited
            super().handle()


for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
    setattr(Serving, f"do_{method}", lambda self: self.answer())


@contextmanager
def serving(handler: type[Serving], ended: threading.Event) -> Iterator[int]:
    """The port where requests are answered, for as long as the context lasts.

    Then `ended` is set, so that no answer that takes its time is waited for.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
