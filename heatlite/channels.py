"""Channels: queues of connections and counts between a server's processes.

The kernel keeps the queue, with the connections in it. So they outlive the process that should take them.
"""

import errno
import logging
import os
import socket
from array import array
from typing import Any, NamedTuple

log = logging.getLogger(__name__)

BUFFER = 1024 * 1024
"""Bytes of the queue, as far as the system allows. A connection needs one or two thousand."""
MAX_DATA = 128 * 1024
"""Maximum bytes that are passed with a connection: a head, and what was read together with its end."""
CONNECTION, REFUSED, COUNT = b"+", b"-", b"#"
"""First byte of a message: a connection, one whose last request was refused, a count of refusals."""


class Passed(NamedTuple):
    """A connection taken from a channel, with the bytes received from its client."""

    sock: socket.socket
    peer: Any
    """Address of the client."""
    data: bytes
    is_refused: bool
    """True if its last request met a conflict."""


class Channel:
    """A queue of connections, to be created before the fork. No method waits."""

    def __init__(self) -> None:
        self._sender, self.receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        for end in (self._sender, self.receiver):
            end.setblocking(False)

    def put(self, sock: socket.socket, data: bytes, is_refused: bool = False) -> None:
        """Append a connection. The caller closes its own copy afterwards.

        Raises BlockingIOError if the queue is full, and OSError.
        """
        if len(data) > MAX_DATA:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        rights = array("i", [sock.fileno()])
        mark = REFUSED if is_refused else CONNECTION
        self._sender.sendmsg([mark, data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def put_count(self, message: bytes) -> None:
        """Append a count of refusals.

        Raises BlockingIOError if the queue is full, and OSError.
        """
        self._sender.sendmsg([COUNT, message])

    def take(self) -> Passed | bytes:
        """Take the first connection whose client is still there, or count of refusals.

        Raises BlockingIOError if there is none.
        """
        while True:
            data, found, _, _ = socket.recv_fds(self.receiver, len(CONNECTION) + MAX_DATA, 1)
            mark, data = data[:1], data[1:]
            if mark == COUNT:
                return data
            if not found:
                log.warning("a connection is lost: this process has too many open files")
                continue
            os.set_inheritable(found[0], False)
            sock = socket.socket(fileno=found[0])
            try:
                return Passed(sock, sock.getpeername(), data, mark == REFUSED)
            except OSError:
                sock.close()
