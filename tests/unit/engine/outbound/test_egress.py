"""Connections, addresses that count as public, and who may ask for addresses."""

import socket
import time
from urllib.parse import urlsplit

from heatlite.engine.outbound.egress import _is_public, connection
from tests.tables import table


@table(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::1", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("ff02::1", False),
        ("fec0::1", False),
        ("feff::1", False),
        # IPv4-mapped
        ("::ffff:93.184.216.34", True),
        ("::ffff:127.0.0.1", False),
        ("::ffff:169.254.169.254", False),
        # NAT64: this machine may reach the IPv4 address within
        ("64:ff9b::93.184.216.34", True),
        ("64:ff9b::169.254.169.254", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("64:ff9b::10.0.0.1", False),
        ("64:ff9b::224.0.0.1", False),
        ("64:ff9b:1::1", False),
        ("64:ff9b:1::93.184.216.34", False),
        # 6to4, Teredo, IPv4-compatible
        ("2002:7f00:1::", False),
        ("2002:a9fe:a9fe::1", False),
        ("2002:5db8:d822::1", False),
        ("2001:0:7f00:1::1", False),
        ("2001::1", False),
        ("::127.0.0.1", False),
        ("::93.184.216.34", False),
        # IPv4-translated, segment routing, documentation, protocol assignments, AS112, 6to4 relays
        ("::ffff:0:7f00:1", False),
        ("::ffff:0:93.184.216.34", False),
        ("5f00::1", False),
        ("3fff::1", False),
        ("2001:db8::1", False),
        ("2001:20::1", False),
        ("2001:1::1", False),
        ("2620:4f:8000::1", False),
        ("100::1", False),
        ("100:0:0:1::1", False),
        ("4000::1", False),
        ("192.0.0.8", False),
        ("192.0.0.9", False),
        ("192.0.0.192", False),
        ("192.0.0.255", False),
        ("192.31.196.1", False),
        ("192.52.193.1", False),
        ("192.88.99.1", False),
        ("192.175.48.1", False),
        ("198.19.255.255", False),
        ("::ffff:192.88.99.1", False),
        # the agent of a cloud's host
        ("168.63.129.16", False),
        ("168.63.129.17", True),
        ("2001:200::1", True),
        ("2a00:1450:4001::1", True),
        ("localhost", False),
        ("", False),
    ],
)
def test_what_is_public(address: str, public: bool) -> None:
    assert _is_public(address) is public


def test_small_requests_are_not_held_back() -> None:
    """A body would wait until its head is acknowledged: 40 ms on Linux."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        url = urlsplit(f"http://127.0.0.1:{port}")
        with connection(url, ("127.0.0.1", port), time.monotonic() + 10) as connected:
            assert connected.sock is not None
            assert connected.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
