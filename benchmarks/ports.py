"""Ports of the servers that benchmarks and tests start."""

import random
import socket

FIRST = 10_000
EPHEMERAL = 32_768
"""First port that Linux gives to outgoing connections. One of those could take the port before its server does."""


def free_port() -> int:
    """Return a free TCP port of loopback that no outgoing connection gets."""
    while True:
        port = random.SystemRandom().randrange(FIRST, EPHEMERAL)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
