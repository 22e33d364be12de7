"""Guard that closes connections which gunicorn would keep.

gunicorn has no setting for the time until a first request, the number of connections, and the bytes that a client sends
ahead of its answers. The guard looks at the sockets of its process. It ends them by shutdown(2), which the event loop
notices.
"""

import os
import socket
import sys
import time
from contextlib import suppress
from math import inf, isfinite

HEAD_SECONDS = 10.0
"""Time limit for the head of the first request of a connection."""
BACKLOG = 2048
"""Connections that arrive together and wait to be accepted. The default of asyncio is 100."""
SPARE_FILES = 100
"""Files of a process that are kept for others than connections."""


class ConnectionGuard:
    """Watches the connections to a port. Used in the event loop only."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.limits: dict[tuple[str, int], float] = {}
        """Time limit of each client for the head of its next request. It is infinite during a request."""
        self.received: dict[tuple[str, int], int] = {}
        """Bytes that each client has sent on its connection, by the last look."""

    def look(self, stops: bool = False) -> bool:
        """Close connections without a request: late ones, and the oldest of too many.

        If the process `stops`, it closes all of these. Returns False once gunicorn has begun to stop: it closes the
        listening sockets.
        """
        now, most, is_listening = time.monotonic(), os.sysconf("SC_OPEN_MAX"), False
        files = [*range(most)]
        with suppress(OSError), os.scandir("/dev/fd") as found:  # it fails if no number is free
            files = [int(one.name) for one in found]
        excess = len(files) if stops else max(0, len(files) + SPARE_FILES - most)
        ended = max([now, *sorted(filter(isfinite, self.limits.values()))[:excess]])
        known, self.limits, self.received = self.limits, {}, {}
        for number in files:
            with suppress(OSError):  # it is no socket, or its client is gone
                one = socket.socket(fileno=number)
                try:
                    if one.getsockname()[1:2] != (self._port,):
                        continue
                    if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        is_listening = True
                        one.listen(BACKLOG)
                    peer = one.getpeername()[:2]  # raises OSError for a listening socket
                    self.limits[peer] = known.get(peer, now + HEAD_SECONDS)
                    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)  # tcp(7), linux/tcp.h
                    self.received[peer] = int.from_bytes(info[128:], sys.byteorder)
                    if known.get(peer, inf) <= ended:
                        # The event loop first sends the rest of an answer, unless the client is late in taking it.
                        one.shutdown(socket.SHUT_RDWR if known[peer] < now else socket.SHUT_RD)
                finally:
                    one.detach()  # a duplicate, closed here, would release the locks of a SQLite file
        return is_listening
