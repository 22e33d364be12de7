"""Channels: queues of client connections between the processes of a server.

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
MARK = b"+"
"""Begin of each message. An empty message would look like the end of the channel."""


class Passed(NamedTuple):
    """A connection taken from a channel, with the bytes received from its client."""

    sock: socket.socket
    peer: Any
    """Address of the client."""
    data: bytes


class Channel:
    """A queue of connections, to be created before the fork. No method waits."""

    def __init__(self) -> None:
        self._sender, self.receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        for end in (self._sender, self.receiver):
            end.setblocking(False)

    def put(self, sock: socket.socket, data: bytes) -> None:
        """Append a connection. The caller closes its own copy afterwards.

        Raises BlockingIOError if the queue is full, and OSError.
        """
        if len(data) > MAX_DATA:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        rights = array("i", [sock.fileno()])
        self._sender.sendmsg([MARK, data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def take(self) -> Passed:
        """Take the first connection whose client is still there.

        Raises BlockingIOError if there is none.
        """
        while True:
            data, found, _, _ = socket.recv_fds(self.receiver, len(MARK) + MAX_DATA, 1)
            if not found:
                log.warning("a connection is lost: this process has too many open files")
                continue
            os.set_inheritable(found[0], False)
            sock = socket.socket(fileno=found[0])
            try:
                return Passed(sock, sock.getpeername(), data[len(MARK) :])
            except OSError:
                sock.close()
