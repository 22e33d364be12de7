"""Addresses of a server as shown by its attributes, by network name and id."""

from collections.abc import Sequence
from typing import Final, cast

from heatlite.clients.cloud import Cloud
from heatlite.core.json import Json, JsonMap

MAC: Final = "OS-EXT-IPS-MAC:mac_addr"

Addresses = dict[str, list[JsonMap]]
"""The service's answer: addresses by network name."""


def with_ports(known: Addresses, interfaces: Sequence[JsonMap], cloud: Cloud) -> dict[str, Json]:
    """Return each address with its port, network and subnets."""
    found: dict[str, Json] = {}
    ports = {
        (str(fixed["ip_address"]), str(one["mac_addr"])): one
        for one in interfaces
        for fixed in cast(list[JsonMap], one["fixed_ips"])
    }
    by_mac = {mac: one for (_, mac), one in ports.items()}
    for name, addresses in known.items():
        shown: list[Json] = []
        network: Json = None
        for one in addresses:
            mac = str(one.get(MAC))
            port = ports.get((str(one["addr"]), mac)) or by_mac.get(mac)
            more: JsonMap = {"port": None, "network": None, "subnets": None}
            if port is not None:
                network = port["net_id"]
                more = {"port": port["port_id"], **_surroundings(port, cloud)}
            shown.append({**one, **more})
        found[name] = shown
        if network is not None:
            found[str(network)] = shown
    return found


def _surroundings(port: JsonMap, cloud: Cloud) -> JsonMap:
    """Return the network and the subnets of a port."""
    subnets = [one["subnet_id"] for one in cast(list[JsonMap], port["fixed_ips"])]
    return {
        "network": cloud.call("network.get_network", port["net_id"]),
        "subnets": [cloud.call("network.get_subnet", one) for one in subnets],
    }


def as_texts(known: Addresses, interfaces: Sequence[JsonMap]) -> dict[str, Json]:
    """Return the addresses as lists of texts."""
    found: dict[str, Json] = {}
    ids = {str(one["mac_addr"]): str(one["net_id"]) for one in interfaces}
    for name, addresses in known.items():
        listed: list[Json] = [one["addr"] for one in addresses]
        found[name] = listed
        for one in addresses:
            network = ids.get(str(one.get(MAC)))
            if network is not None:
                found[network] = listed
    return found
