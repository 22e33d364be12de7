"""A plain HTTP client with one connection that is kept."""

import http.client
import json
import time
from collections.abc import Mapping
from typing import Any


class Client:
    """One connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """One request; status and body of the answer."""
        self._connection.request(method, path, body, dict(headers or {}))
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def json(self, method: str, path: str, body: object = None, expect: int = 200) -> Any:
        """One JSON request, repeated while a server under load does not take it.

        Raises RuntimeError when the answer has another status than expected.
        """
        data = None if body is None else json.dumps(body).encode()
        status = 503
        ends = time.monotonic() + 60
        while status == 503 != expect and time.monotonic() < ends:
            try:
                status, answer = self.send(method, path, data, {"Content-Type": "application/json"})
            except ConnectionError as error:
                self.close()
                status, answer = 503, str(error).encode()
            if status == 503:
                time.sleep(0.2)
        if status != expect:
            raise RuntimeError(f"{method} {path}: {status} instead of {expect}: {answer[:500]!r}")
        return json.loads(answer) if answer.strip() else None

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


class Pause:
    """Sleeps between two polls of a server: 2 % of the wait so far, at least 1 ms.

    Measured times are too long by at most 2 % or a millisecond, and by the last poll. Polls cost the server little.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def sleep(self) -> None:
        """Until the next look."""
        time.sleep(min(0.05, max(0.001, 0.02 * (time.perf_counter() - self._began))))
