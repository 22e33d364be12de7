"""Networks with their segments, subnets, subnet pools and address scopes."""

import ipaddress
import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import cast

from heatlite.clients.cloud import CloudError
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.services.network.common import (
    NetworkKind,
    Span,
    address,
    conflict,
    items,
    refuse,
    span,
)
from heatlite.features.simulator.simulation import SimulatedProject, Verb

PASSING = ("network:dhcp", "network:distributed", "network:router_centralized_snat")
"""Owners of ports that are deleted with their network."""
GATEWAY = "network:router_gateway"
PHYSICAL = ("flat", "vlan")
"""Network types that need a physical network."""
AUTOMATIC = ("slaac", "dhcpv6-stateless")
"""IPv6 modes in which machines derive their addresses themselves."""


# -- networks --------------------------------------------------------------------------------------


def _network_made(view: SimulatedProject, thing: JsonMap) -> None:
    _provided(view, thing, "network.create_network")
    thing["subnets"] = []
    if thing.get("qos_policy_id") is not None:
        view.thing("network.qos_policy", thing["qos_policy_id"], "network.create_network")


def _provided(view: SimulatedProject, thing: JsonMap, verb: str) -> None:
    """Set the segment of a network: the requested one, or the next free tunnel."""
    kind = thing["provider:network_type"] = thing.get("provider:network_type") or "vxlan"
    physical, number = thing.get("provider:physical_network"), thing.get("provider:segmentation_id")
    if kind in PHYSICAL and physical is None:
        refuse(verb, f"Invalid input for operation: physical_network required for {kind} provider network.")
    if kind not in PHYSICAL and physical is not None:
        refuse(verb, f"Invalid input for operation: provider:physical_network specified for {kind} network.")
    if kind in ("flat", "local") and number is not None:
        refuse(verb, f"Invalid input for operation: segmentation_id specified for {kind} provider network.")
    used = _used(view, thing)
    if number is not None:
        number = int(str(number))
    elif kind not in ("flat", "local"):
        number = 100
        while (kind, physical, number) in used:
            number += 1
    if kind != "local" and (kind, physical, number) in used:
        conflict(verb, f"Unable to create the {kind} network. The segment {number} of {physical} is in use.")
    thing |= {"provider:physical_network": physical, "provider:segmentation_id": number}
    if kind in ("flat", "vlan", "local"):
        thing["mtu"] = 1500


def _network_changed(view: SimulatedProject, thing: JsonMap, asked: JsonMap) -> None:
    verb = "network.update_network"
    if asked.get("qos_policy_id") is not None:
        view.thing("network.qos_policy", asked["qos_policy_id"], verb)
    if asked.get("router:external") is False and thing["router:external"]:
        gateways = [one for one in view.simulation.all("network.port").values() if one["device_owner"] == GATEWAY]
        if any(one["network_id"] == thing["id"] for one in gateways):
            conflict(verb, f"External network {thing['id']} cannot be updated to be made non-external, since it has "
                           "existing gateway ports.")  # fmt: skip
    for subnet in view.simulation.all("network.subnet").values():
        if subnet["network_id"] == thing["id"] and "shared" in asked:
            _share({**thing, **asked}, subnet)
            view.put("network.subnet", subnet)
    if any(name.startswith("provider:") and asked[name] != thing.get(name) for name in asked):
        new = {**thing, **asked}
        _provided(view, new, verb)
        asked |= {name: value for name, value in new.items() if name.startswith("provider:")}


def _network_removed(view: SimulatedProject, thing: JsonMap) -> None:
    ports = [one for one in view.simulation.all("network.port").values() if one["network_id"] == thing["id"]]
    holding = [str(one["id"]) for one in ports if one["device_owner"] not in PASSING]
    if holding:
        conflict("network.delete_network", f"Unable to complete operation on network {thing['id']}. There are one or "
                 f"more ports still in use on the network, id for these ports: {', '.join(holding)}.")  # fmt: skip
    for kind, reference in (("port", "network_id"), ("subnet", "network_id"), ("segment", "network_id"),
                            ("rbac_policy", "object_id")):  # fmt: skip
        for one in list(view.simulation.all(f"network.{kind}").values()):
            if one[reference] == thing["id"]:
                view.drop(f"network.{kind}", one)


SEGMENT = ("network_type", "physical_network", "segmentation_id")
"""Attributes that together must be unique among all segments."""


def _used(view: SimulatedProject, but: JsonMap) -> set[tuple[Json, ...]]:
    """Return the segments in use, except those of one network, or except one segment."""
    networks, segments = (view.simulation.all(f"network.{kind}").values() for kind in ("network", "segment"))
    found = {tuple(one[f"provider:{name}"] for name in SEGMENT) for one in networks if one["id"] != but["id"]}
    others = [one for one in segments if but["id"] not in (one["id"], one["network_id"])]
    return found | {tuple(one.get(name) for name in SEGMENT) for one in others}


def _segment_made(view: SimulatedProject, thing: JsonMap) -> None:
    for name in ("project_id", "tenant_id", "tags"):  # owned through the network
        del thing[name]
    network = view.thing("network.network", thing["network_id"], "network.create_segment")
    if thing["network_type"] in PHYSICAL and thing.get("physical_network") is None:
        refuse("network.create_segment",
               f"Invalid input for operation: physical_network required for {thing['network_type']} provider "
               "network.")  # fmt: skip
    wanted = tuple(thing.get(name) for name in SEGMENT)
    if wanted[2] is not None and wanted in _used(view, thing):
        text = f"Unable to create the {wanted[0]} network. The segment {wanted[2]} of {wanted[1]} is in use."
        conflict("network.create_segment", text)
    for one in view.simulation.all("network.segment").values():
        if one["network_id"] == network["id"] and one["physical_network"] == thing.get("physical_network") is not None:
            conflict("network.create_segment", f"Network {network['id']} has a segment on {one['physical_network']}.")


def _segment_removed(view: SimulatedProject, thing: JsonMap) -> None:
    if any(one.get("segment_id") == thing["id"] for one in view.simulation.all("network.subnet").values()):
        conflict("network.delete_segment", f"Segment '{thing['id']}' cannot be deleted: The segment is still "
                 "associated with subnet(s).")  # fmt: skip


# -- subnets ---------------------------------------------------------------------------------------


def _subnet_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "network.create_subnet"
    network = view.thing("network.network", thing["network_id"], verb)
    if thing.get("subnetpool_id") is not None:
        thing["cidr"] = _allocated(view, thing)
    thing.pop("prefixlen", None)
    whole = _asked_span(thing, verb)
    for one in view.simulation.all("network.subnet").values():
        if one["network_id"] == network["id"] and span(one["cidr"]).overlaps(whole):
            refuse(verb, f"Invalid input for operation: Requested subnet with cidr: {whole} for network: "
                         f"{network['id']} overlaps with another subnet.")  # fmt: skip
    if thing["ip_version"] == 4 and (thing["ipv6_ra_mode"] or thing["ipv6_address_mode"]):
        refuse(verb, "Invalid input for operation: ipv6_ra_mode is not valid when ip_version is 4.")
    if thing.get("gateway_ip", "") == "":
        thing["gateway_ip"] = str(whole[1] if whole.num_addresses > 2 else whole[0])
    thing["allocation_pools"] = thing.get("allocation_pools") or _default_pools(whole, thing["gateway_ip"])
    _check_pools(thing, whole, verb)
    cast(list[Json], network["subnets"]).append(thing["id"])
    view.put("network.network", network)
    _share(network, thing)


def _share(network: JsonMap, subnet: JsonMap) -> None:
    """Show a subnet to all projects that may use its network.

    A network that is only external does not show its subnets.
    """
    subnet["_shown_to"] = ["*"] if network["shared"] else network.get("_shown_to", [])


def _asked(cidr: Json, verb: str, name: str = "cidr") -> Span:
    """Parse a CIDR of a request. Raises CloudError."""
    try:
        whole = ipaddress.ip_network(str(cidr), strict=False)
    except ValueError as error:
        raise CloudError(verb, f"Invalid input for {name}. Reason: {error}.", 400) from error
    if str(whole.network_address) != str(cidr).partition("/")[0]:
        refuse(verb, f"Invalid input for {name}. Reason: '{cidr}' isn't a recognized IP subnet cidr, '{whole}' is "
                     "recommended.")  # fmt: skip
    return whole


def _asked_span(thing: JsonMap, verb: str) -> Span:
    whole = _asked(thing.get("cidr"), verb)
    if whole.version != thing["ip_version"]:
        refuse(verb, f"Invalid input for operation: cidr '{whole}' does not match the ip_version "
                     f"'{thing['ip_version']}'.")  # fmt: skip
    return whole


def _ends(whole: Span) -> tuple[int, int]:
    """Return the first and the last usable address."""
    first, last = int(whole.network_address), int(whole.broadcast_address)
    if whole.num_addresses <= 2:
        return first, last
    return first + 1, last - 1 if whole.version == 4 else last


def _default_pools(whole: Span, gateway: Json) -> list[Json]:
    """Return the default pools: all usable addresses except the gateway's."""
    first, last = _ends(whole)
    make = ipaddress.IPv4Address if whole.version == 4 else ipaddress.IPv6Address
    at = int(address(gateway)) if gateway is not None and address(gateway) in whole else None
    parts = [(first, last)] if at is None else [(first, at - 1), (at + 1, last)]
    return [{"start": str(make(start)), "end": str(make(end))} for start, end in parts if start <= end]


def _check_pools(thing: JsonMap, whole: Span, verb: str) -> None:
    ranges = []
    for pool in items(thing, "allocation_pools"):
        start, end = address(pool["start"]), address(pool["end"])
        if start.version != whole.version or int(start) > int(end):
            refuse(verb, f"The allocation pool {start}-{end} is not valid.")
        if start not in whole or end not in whole:
            refuse(verb, f"The allocation pool {start}-{end} spans beyond the subnet cidr {whole}.")
        gateway = thing["gateway_ip"]
        if gateway is not None and int(start) <= int(address(gateway)) <= int(end):
            conflict(verb, f"Gateway ip {gateway} conflicts with allocation pool {start}-{end}.")
        ranges.append((int(start), int(end)))
    ranges.sort()
    for (_, before), (after, _) in itertools.pairwise(ranges):
        if after <= before:
            conflict(verb, f"Found overlapping allocation pools for subnet {whole}.")


def _subnet_changed(view: SimulatedProject, thing: JsonMap, asked: JsonMap) -> None:
    verb, whole = "network.update_subnet", span(thing["cidr"])
    new = {**thing, **asked}
    if asked.get("allocation_pools", "") is None:
        new["allocation_pools"] = asked["allocation_pools"] = _default_pools(whole, new["gateway_ip"])
    if asked.get("host_routes", "") is None:
        asked["host_routes"] = []
    if "gateway_ip" in asked and asked["gateway_ip"] != thing["gateway_ip"] and thing["gateway_ip"] is not None:
        for port in allocations(view, thing["id"]):
            if port["device_owner"] == "network:router_interface" and thing["gateway_ip"] in addresses_of(port):
                conflict(verb, f"Current gateway ip {thing['gateway_ip']} already in use by port {port['id']}. "
                               "Unable to update.")  # fmt: skip
    _check_pools(new, whole, verb)
    if asked.get("segment_id") is not None:
        view.thing("network.segment", asked["segment_id"], verb)


def _subnet_removed(view: SimulatedProject, thing: JsonMap) -> None:
    holding = [one for one in allocations(view, thing["id"]) if one["device_owner"] not in PASSING]
    if holding:
        conflict("network.delete_subnet", f"Unable to complete operation on subnet {thing['id']}: One or more ports "
                 f"have an IP allocation from this subnet (port {holding[0]['id']}).")  # fmt: skip
    network = view.simulation.all("network.network").get(str(thing["network_id"]))
    if network is not None:
        network["subnets"] = [one for one in cast(list[Json], network["subnets"]) if one != thing["id"]]
        view.put("network.network", network)


def allocations(view: SimulatedProject, subnet: Json) -> Iterator[JsonMap]:
    """Return all ports of all projects with an address of a subnet."""
    for port in view.simulation.all("network.port").values():
        if any(one["subnet_id"] == subnet for one in items(port, "fixed_ips")):
            yield port


def addresses_of(port: JsonMap) -> list[Json]:
    return [one["ip_address"] for one in items(port, "fixed_ips")]


# -- pools and scopes ------------------------------------------------------------------------------


LENGTHS = ("min_prefixlen", "default_prefixlen", "max_prefixlen")
"""Prefix lengths of a pool; the service returns them as strings."""


def _allocated(view: SimulatedProject, thing: JsonMap) -> str:
    """Allocate a subnet's CIDR from its pool: the requested or the first free one."""
    verb = "network.create_subnet"
    pool = view.thing("network.subnet_pool", thing["subnetpool_id"], verb)
    subnets = [one for one in view.simulation.all("network.subnet").values() if one.get("subnetpool_id") == pool["id"]]
    taken = [span(one["cidr"]) for one in subnets]
    prefixes = [span(one) for one in cast(list[Json], pool["prefixes"])]
    wanted = thing.get("cidr")
    asked = thing.get("prefixlen") or pool["default_prefixlen"]
    exact = None if wanted is None else _asked(wanted, verb)
    length = int(str(asked)) if exact is None else exact.prefixlen
    if not int(str(pool["min_prefixlen"])) <= length <= int(str(pool["max_prefixlen"])):
        refuse(verb, f"Unable to allocate subnet with prefix length {length}, the pool allows "
                     f"{pool['min_prefixlen']} to {pool['max_prefixlen']}.")  # fmt: skip
    own = [span(one["cidr"]) for one in subnets if one["project_id"] == thing["project_id"]]
    size = 2 ** (32 - length) if pool["ip_version"] == 4 else 2 ** max(0, 64 - length)
    quota = pool.get("default_quota")
    if quota is not None and size + sum(one.num_addresses >> (0 if one.version == 4 else 64) for one in own) > cast(
        int, quota
    ):
        conflict(verb, "Per-tenant subnet pool prefix quota exceeded.")
    for prefix in prefixes:
        if length < prefix.prefixlen:
            continue
        choices = prefix.subnets(new_prefix=length) if exact is None else iter([exact])
        for choice in choices:
            inside = choice.version == prefix.version and (
                int(prefix.network_address) <= int(choice.network_address)
                and int(choice.broadcast_address) <= int(prefix.broadcast_address)
            )
            if inside and not any(choice.overlaps(one) for one in taken):
                thing["ip_version"] = pool["ip_version"]
                return str(choice)
    raise CloudError(verb, f"Failed to allocate subnet: Insufficient prefix space to allocate subnet size /{length}.",
                     409)  # fmt: skip


def _pool_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "network.create_subnet_pool"
    prefixes = [_asked(one, verb, "prefixes") for one in cast(list[Json], thing["prefixes"])]
    if len({one.version for one in prefixes}) > 1:
        refuse(verb, "Cannot mix IPv4 and IPv6 prefixes in a subnet pool.")
    version = prefixes[0].version
    least, most = (8, 32) if version == 4 else (64, 128)
    thing["ip_version"] = version
    for name, default in (("min_prefixlen", least), ("max_prefixlen", most)):
        if thing.get(name) is None:
            thing[name] = default
    if thing.get("default_prefixlen") is None:
        thing["default_prefixlen"] = thing["min_prefixlen"]
    thing.setdefault("default_quota", None)
    thing["prefixes"] = _merged(prefixes)
    _check_pool(view, thing, verb)
    thing |= {name: str(thing[name]) for name in LENGTHS}


def _merged(prefixes: list[Span]) -> list[Json]:
    four = [one for one in prefixes if isinstance(one, ipaddress.IPv4Network)]
    six = [one for one in prefixes if isinstance(one, ipaddress.IPv6Network)]
    return [*map(str, ipaddress.collapse_addresses(four)), *map(str, ipaddress.collapse_addresses(six))]


def _check_pool(view: SimulatedProject, thing: JsonMap, verb: str) -> None:
    least, usual, most = (int(str(thing[name])) for name in LENGTHS)
    if not least <= usual <= most:
        refuse(verb, f"Illegal prefix lengths: min_prefixlen {least}, default_prefixlen {usual}, max_prefixlen {most}.")
    if thing.get("address_scope_id") is not None:
        scope = view.thing("network.address_scope", thing["address_scope_id"], verb)
        if scope["ip_version"] != thing["ip_version"]:
            refuse(verb, f"Illegal subnetpool association: subnetpool {thing['id']} cannot associate with address "
                         f"scope {scope['id']} because its ip_version is not {scope['ip_version']}.")  # fmt: skip


def _pool_changed(view: SimulatedProject, thing: JsonMap, asked: JsonMap) -> None:
    verb = "network.update_subnet_pool"
    if "prefixes" in asked:
        new = [_asked(one, verb, "prefixes") for one in cast(list[Json], asked["prefixes"])]
        asked["prefixes"] = _merged(new)
        for old in cast(list[Json], thing["prefixes"]):
            if not any(_lies_in(span(old), one) for one in new):
                refuse(verb, f"Illegal subnetpool prefix update: {old} cannot be removed.")
    for name in LENGTHS:
        if asked.get(name, 0) is None:
            del asked[name]
        elif name in asked:
            asked[name] = str(asked[name])
    _check_pool(view, {**thing, **asked}, verb)


def _lies_in(inner: Span, outer: Span) -> bool:
    return (
        inner.version == outer.version
        and int(outer.network_address) <= int(inner.network_address)
        and int(inner.broadcast_address) <= int(outer.broadcast_address)
    )


def _pool_removed(view: SimulatedProject, thing: JsonMap) -> None:
    if any(one.get("subnetpool_id") == thing["id"] for one in view.simulation.all("network.subnet").values()):
        conflict("network.delete_subnet_pool", f"Unable to delete subnet pool: Subnet pool {thing['id']} has existing "
                 "allocations.")  # fmt: skip


def _scope_removed(view: SimulatedProject, thing: JsonMap) -> None:
    if any(one.get("address_scope_id") == thing["id"] for one in view.simulation.all("network.subnet_pool").values()):
        conflict("network.delete_address_scope", f"Unable to complete operation on address scope {thing['id']}. There "
                 "are one or more subnet pools in use on the address scope.")  # fmt: skip


COLLECTIONS = [
    NetworkKind(
        "network.network",
        {
            "name": "", "admin_state_up": True, "shared": False, "mtu": 1450, "port_security_enabled": True,
            "router:external": False, "status": "ACTIVE", "qos_policy_id": None, "dns_domain": "",
            "availability_zone_hints": [], "availability_zones": [], "ipv4_address_scope": None,
            "ipv6_address_scope": None, "l2_adjacency": True, "is_default": False,
        },
        made=_network_made,
        changed=_network_changed,
        removed=_network_removed,
        fixed=("availability_zone_hints",),
    ),
    NetworkKind(
        "network.segment",
        {"name": None, "physical_network": None, "segmentation_id": None},
        required=("network_id", "network_type"),
        made=_segment_made,
        removed=_segment_removed,
        fixed=("network_id", "network_type", "physical_network"),
    ),
    NetworkKind(
        "network.subnet",
        {
            "name": "", "ip_version": 4, "enable_dhcp": True, "dns_nameservers": [], "host_routes": [],
            "service_types": [], "ipv6_ra_mode": None, "ipv6_address_mode": None, "subnetpool_id": None,
            "segment_id": None, "dns_publish_fixed_ip": False,
        },
        required=("network_id",),
        made=_subnet_made,
        changed=_subnet_changed,
        removed=_subnet_removed,
        fixed=("network_id", "cidr", "ip_version", "ipv6_ra_mode", "ipv6_address_mode", "subnetpool_id"),
    ),
    NetworkKind(
        "network.subnet_pool",
        {"name": "", "shared": False, "is_default": False, "address_scope_id": None},
        required=("name", "prefixes"),
        made=_pool_made,
        changed=_pool_changed,
        removed=_pool_removed,
        fixed=("shared",),
    ),
    NetworkKind(
        "network.address_scope",
        {"name": "", "shared": False, "ip_version": 4},
        removed=_scope_removed,
        standard=False,
        fixed=("ip_version",),
    ),
]  # fmt: skip

VERBS: dict[str, Verb] = {}


# -- allocation of addresses -----------------------------------------------------------------------


def taken(view: SimulatedProject, network: Json) -> set[str]:
    """Return the addresses in use on a network."""
    return {
        str(one["ip_address"])
        for port in view.simulation.all("network.port").values()
        if port["network_id"] == network
        for one in items(port, "fixed_ips")
    }


@lru_cache(65536)
def _text(version: int, number: int) -> str:
    return str(ipaddress.IPv4Address(number) if version == 4 else ipaddress.IPv6Address(number))


def first_free(subnet: JsonMap, used: set[str]) -> str | None:
    """Return the first free address of a subnet's pools, or None."""
    for pool in items(subnet, "allocation_pools"):
        first, last = address(pool["start"]), address(pool["end"])
        for number in range(int(first), int(last) + 1):
            found = _text(first.version, number)
            if found not in used:
                return found
    return None


def from_hardware(subnet: JsonMap, mac: Json) -> str:
    """Return the address that a machine derives from its MAC address (EUI-64)."""
    one = [int(part, 16) for part in str(mac).split(":")]
    low = [one[0] ^ 2, one[1], one[2], 0xFF, 0xFE, *one[3:]]
    return str(ipaddress.IPv6Address(int(span(subnet["cidr"]).network_address) | int.from_bytes(bytes(low), "big")))
