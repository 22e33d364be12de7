"""Ports, and the assignment of their addresses."""

from typing import cast

from heatlite.clients.cloud import CloudError
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.services.network.addresses import (
    AUTOMATIC,
    addresses_of,
    first_free,
    from_hardware,
    taken,
)
from heatlite.features.simulator.services.network.common import NetworkKind, address, conflict, items, refuse, span
from heatlite.features.simulator.services.network.security import default_group
from heatlite.features.simulator.simulation import SimulatedProject, Verb

DOMAIN = "openstacklocal."
"""Default DNS domain of ports."""
KEPT_BY_ROUTERS = ("network:router_interface", "network:router_gateway", "network:floatingip")
"""Owners of ports that can be removed only through their router or floating IP."""


def _made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "network.create_port"
    network = view.thing("network.network", thing["network_id"], verb)
    others = [one for one in view.simulation.all("network.port").values() if one["network_id"] == network["id"]]
    if thing.get("mac_address") is None:
        thing["mac_address"] = _hardware(view)
    elif any(one["mac_address"] == str(thing["mac_address"]).lower() for one in others):
        conflict(verb, f"Unable to complete operation for network {network['id']}. The mac address "
                       f"{thing['mac_address']} is in use.")  # fmt: skip
    thing["mac_address"] = str(thing["mac_address"]).lower()
    if thing.get("port_security_enabled") is None:
        thing["port_security_enabled"] = network["port_security_enabled"]
    thing["fixed_ips"] = given_addresses(view, network, thing, [], thing.get("fixed_ips"), verb)
    _protect(view, thing, thing.get("security_groups"), verb)
    _complete(thing, network)
    if thing.get("qos_policy_id") is not None:
        view.thing("network.qos_policy", thing["qos_policy_id"], verb)


def _hardware(view: SimulatedProject) -> str:
    used = {one["mac_address"] for one in view.simulation.all("network.port").values()}
    number = len(used) + 1
    while True:
        found = f"fa:16:3e:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
        if found not in used:
            return found
        number += 1


def _protect(view: SimulatedProject, thing: JsonMap, groups: Json, verb: str) -> None:
    """Set the security groups and address pairs of a port.

    `groups` None means the default group, unless the port is the service's own or has no port security.
    """
    pairs = items(thing, "allowed_address_pairs")
    if not thing["port_security_enabled"]:
        if groups:
            conflict(verb, "Port security must be enabled and port must have an IP address in order to use security "
                           "groups.")  # fmt: skip
        if pairs:
            conflict(verb, "Port Security must be enabled in order to have allowed address pairs on a port.")
    if groups is None:
        own = not str(thing["device_owner"]).startswith("network:") and thing["port_security_enabled"]
        groups = [default_group(view, thing["project_id"])["id"]] if own else []
    thing["security_groups"] = [
        view.thing("network.security_group", one, verb)["id"] for one in cast(list[Json], groups)
    ]
    thing["allowed_address_pairs"] = [
        {"ip_address": one["ip_address"], "mac_address": one.get("mac_address") or thing["mac_address"]}
        for one in pairs
    ]


def _complete(thing: JsonMap, network: JsonMap) -> None:
    """Set a port's derived attributes: status, binding and DNS assignment."""
    if str(thing["device_owner"]).startswith(("compute:", "network:")) and thing["device_id"]:
        bound = thing["status"] == "DOWN" and thing["admin_state_up"]
        thing["status"] = "ACTIVE" if bound else thing["status"]
        thing["binding:vif_type"] = "ovs"
    elif not thing["device_id"]:
        thing["status"] = "DOWN" if thing["status"] == "ACTIVE" else thing["status"]
        thing["binding:vif_type"], thing["binding:host_id"] = "unbound", ""
    domain = str(network.get("dns_domain") or DOMAIN)
    names = []
    for one in addresses_of(thing):
        host = thing["dns_name"] or f"host-{str(one).replace('.', '-').replace(':', '-')}"
        names.append({"ip_address": one, "hostname": host, "fqdn": f"{host}.{domain}"})
    thing["dns_assignment"] = cast(Json, names)


def _changed(view: SimulatedProject, thing: JsonMap, asked: JsonMap) -> None:
    verb = "network.update_port"
    network = view.thing("network.network", thing["network_id"], verb)
    new = {**thing, **asked}
    if asked.get("fixed_ips") is not None:
        new["fixed_ips"] = given_addresses(view, network, thing, items(thing, "fixed_ips"), asked["fixed_ips"], verb)
        _refuse_needed(view, thing, asked, verb)
    if {"security_groups", "port_security_enabled", "allowed_address_pairs"} & asked.keys():
        groups = asked["security_groups"] if "security_groups" in asked else thing["security_groups"]
        new["allowed_address_pairs"] = new.get("allowed_address_pairs") or []
        _protect(view, new, groups, verb)
    for name in ("device_id", "device_owner", "dns_name"):
        new[name] = new[name] or ""
    _complete(new, network)
    if new.get("qos_policy_id") is not None:
        view.thing("network.qos_policy", new["qos_policy_id"], verb)
    asked |= new


def given_addresses(
    view: SimulatedProject, network: JsonMap, port: JsonMap, held: list[JsonMap], wanted: Json, verb: str
) -> Json:
    """Return a port's addresses: the requested ones, or a free one per IP version.

    A request for a subnet without an address keeps the address that the port has there.
    """
    subnets = [view.simulation.all("network.subnet")[str(one)] for one in cast(list[Json], network["subnets"])]
    used = taken(view, network["id"]) - {str(one["ip_address"]) for one in held}
    if wanted is None:
        return _usual(network, subnets, used, port, verb)
    found: list[Json] = []
    for one in cast(list[JsonMap], wanted):
        kept = [place for place in held if place["subnet_id"] == one.get("subnet_id") and place not in found]
        place = kept[0] if kept and one.get("ip_address") is None else one
        given = _given(network, subnets, used, place, port, verb)
        used.add(str(given["ip_address"]))
        found.append(given)
    return found


def _refuse_needed(view: SimulatedProject, port: JsonMap, asked: JsonMap, verb: str) -> None:
    """Reject an update that drops the address of a floating IP."""
    named = [one.get("ip_address") for one in items(asked, "fixed_ips")]
    lost = [one for one in addresses_of(port) if one not in named]
    for one in view.simulation.all("network.ip").values():
        if one["port_id"] == port["id"] and one["fixed_ip_address"] in lost:
            refuse(verb, f"Bad port request: Cannot update the fixed_ips of the port {port['id']}, because its "
                         "original fixed_ip has been associated to a floating ip.")  # fmt: skip


def _usual(network: JsonMap, subnets: list[JsonMap], used: set[str], port: JsonMap, verb: str) -> Json:
    automatic = [one for one in subnets if one["ipv6_address_mode"] in AUTOMATIC]
    found: list[Json] = [
        {"subnet_id": one["id"], "ip_address": from_hardware(one, port["mac_address"])} for one in automatic
    ]
    for version in (6, 4):
        choices = [one for one in subnets if one["ip_version"] == version and one not in automatic]
        free = [(one, address) for one in choices if (address := first_free(one, used)) is not None]
        if free:
            found.insert(0, {"subnet_id": free[0][0]["id"], "ip_address": free[0][1]})
        elif choices:
            _exhausted(network, verb)
    return found


def _exhausted(network: JsonMap, verb: str) -> None:
    raise CloudError(verb, f"No more IP addresses available on network {network['id']}.", 409)


def _given(
    network: JsonMap, subnets: list[JsonMap], used: set[str], wanted: JsonMap, port: JsonMap, verb: str
) -> JsonMap:
    key, exact = wanted.get("subnet_id"), wanted.get("ip_address")
    choices = [one for one in subnets if key in (None, one["id"])]
    if key is not None and not choices:
        refuse(verb, f"Invalid input for operation: Failed to create port on network {network['id']}, because "
                     f"fixed_ips included invalid subnet {key}.")  # fmt: skip
    if exact is not None:
        choices = [one for one in choices if address(exact) in span(one["cidr"])]
        if not choices:
            refuse(verb, f"Invalid input for operation: IP address {exact} is not a valid IP for the specified subnet.")
        if exact in used:
            conflict(verb, f"IP address {exact} already allocated in subnet {choices[0]['id']}.")
        return {"subnet_id": choices[0]["id"], "ip_address": exact}
    for one in choices:
        if one["ipv6_address_mode"] in AUTOMATIC:
            return {"subnet_id": one["id"], "ip_address": from_hardware(one, port["mac_address"])}
        free = first_free(one, used)
        if free is not None:
            return {"subnet_id": one["id"], "ip_address": free}
    _exhausted(network, verb)
    raise AssertionError


def _removed(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "network.delete_port"
    if thing["device_owner"] in KEPT_BY_ROUTERS and thing["device_id"]:
        conflict(verb, f"Port {thing['id']} cannot be deleted directly via the port API: has device owner "
                       f"{thing['device_owner']}.")  # fmt: skip
    for trunk in view.simulation.all("network.trunk").values():
        if trunk["port_id"] == thing["id"]:
            conflict(verb, f"Port {thing['id']} is currently a parent port for trunk {trunk['id']}.")
        if any(one["port_id"] == thing["id"] for one in items(trunk, "sub_ports")):
            conflict(verb, f"Port {thing['id']} is currently a subport for trunk {trunk['id']}.")
    for one in list(view.simulation.all("network.port_forwarding").values()):
        if one["internal_port_id"] == thing["id"]:
            view.drop("network.port_forwarding", one)
    for one in view.simulation.all("network.ip").values():
        if one["port_id"] == thing["id"]:
            one |= {"port_id": None, "fixed_ip_address": None, "router_id": None, "status": "DOWN"}
            view.put("network.ip", one)


def claim(view: SimulatedProject, owner: str, device: Json, network: JsonMap, wanted: Json, project: Json) -> JsonMap:
    """Create a port for a router or a floating IP."""
    made = KIND.create(view, network_id=network["id"], fixed_ips=wanted, device_owner=owner, device_id=device,
                       project_id=view.project, security_groups=[])  # fmt: skip
    assert isinstance(made, dict)
    made |= {"project_id": project, "tenant_id": project}
    return view.put("network.port", made)


def release(view: SimulatedProject, port: JsonMap) -> None:
    """Remove a port of a router or a floating IP."""
    view.drop("network.port", port)


KIND = NetworkKind(
    "network.port",
    {
        "name": "", "admin_state_up": True, "status": "DOWN", "device_id": "", "device_owner": "",
        "allowed_address_pairs": [], "extra_dhcp_opts": [], "dns_name": "", "qos_policy_id": None,
        "binding:vnic_type": "normal", "binding:host_id": "", "binding:vif_type": "unbound", "binding:profile": {},
        "binding:vif_details": {}, "propagate_uplink_status": True, "resource_request": None,
        "ip_allocation": "immediate",
    },
    required=("network_id",),
    made=_made,
    changed=_changed,
    removed=_removed,
    fixed=("network_id",),
)  # fmt: skip

COLLECTIONS = [KIND]


def _ports(view: SimulatedProject, **query: Json) -> Json:
    """List ports, also by subnet or address (``fixed_ips``)."""
    wanted = query.pop("fixed_ips", None)
    places = [wanted] if isinstance(wanted, str) else cast(list[str], wanted or [])
    asked = dict(one.split("=", 1) for one in places)
    found = cast(list[JsonMap], KIND.list(view, **query))
    if not asked:
        return cast(Json, found)
    return [port for port in found if any(asked.items() <= one.items() for one in items(port, "fixed_ips"))]


VERBS: dict[str, Verb] = {"network.ports": _ports}
