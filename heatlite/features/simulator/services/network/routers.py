"""Routers, floating IPs and port forwardings of floating IPs."""

from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.services.network.addresses import addresses_of
from heatlite.features.simulator.services.network.common import (
    NetworkKind,
    address,
    conflict,
    items,
    missing,
    refuse,
    span,
)
from heatlite.features.simulator.services.network.ports import KIND, claim, release
from heatlite.features.simulator.simulation import ADMIN, SimulatedProject, Verb

INTERFACE, GATEWAY, FLOATING = "network:router_interface", "network:router_gateway", "network:floatingip"


# -- routers ---------------------------------------------------------------------------------------


def _ports(view: SimulatedProject, router: Json, owner: str) -> list[JsonMap]:
    ports = view.simulation.all("network.port").values()
    return [one for one in ports if one["device_id"] == router and one["device_owner"] == owner]


def _made(view: SimulatedProject, thing: JsonMap) -> None:
    wanted = thing.pop("external_gateway_info", None)
    thing |= {"routes": [], "external_gateway_info": None}
    if wanted:
        _open(view, thing, cast(JsonMap, wanted), "network.create_router")


def _open(view: SimulatedProject, router: JsonMap, wanted: JsonMap, verb: str) -> None:
    """Set the gateway of a router."""
    network = view.thing("network.network", wanted.get("network_id"), verb)
    if not network["router:external"]:
        refuse(verb, f"Bad router request: Network {network['id']} is not an external network.")
    if not network["subnets"]:
        wanted = {**wanted, "external_fixed_ips": []}
    port = claim(view, GATEWAY, router["id"], network, wanted.get("external_fixed_ips") or None, "")
    snat = wanted.get("enable_snat")
    router["external_gateway_info"] = {
        "network_id": network["id"],
        "enable_snat": True if snat is None else snat,
        "external_fixed_ips": port["fixed_ips"],
    }


def _changed(view: SimulatedProject, thing: JsonMap, asked: JsonMap) -> None:
    verb = "network.update_router"
    if "routes" in asked:
        asked["routes"] = asked["routes"] or []
        _check_routes(view, thing, items(asked, "routes"), verb)
    if "external_gateway_info" not in asked:
        return
    wanted = cast(JsonMap, asked.pop("external_gateway_info") or {})
    now = cast(JsonMap, thing["external_gateway_info"] or {})
    if wanted and wanted.get("network_id") == now.get("network_id"):
        _readdress(view, thing, wanted, now)
        return
    if now:
        if any(one["router_id"] == thing["id"] for one in view.simulation.all("network.ip").values()):
            conflict(verb, f"Gateway cannot be updated for router {thing['id']}, since a gateway to external network "
                           f"{now['network_id']} is required by one or more floating IPs.")  # fmt: skip
        for port in _ports(view, thing["id"], GATEWAY):
            release(view, port)
        thing["external_gateway_info"] = None
    if wanted:
        _open(view, thing, wanted, verb)


def _readdress(view: SimulatedProject, router: JsonMap, wanted: JsonMap, now: JsonMap) -> None:
    """Change address or SNAT mode of a gateway within the same external network."""
    if wanted.get("enable_snat") is not None:
        now["enable_snat"] = wanted["enable_snat"]
    places = items(wanted, "external_fixed_ips")
    if places:
        (port,) = _ports(view, router["id"], GATEWAY)
        changed = cast(
            JsonMap, KIND.update(SimulatedProject(view.simulation, ADMIN), port["id"], fixed_ips=cast(Json, places))
        )
        now["external_fixed_ips"] = changed["fixed_ips"]
    router["external_gateway_info"] = now


def _removed(view: SimulatedProject, thing: JsonMap) -> None:
    if _ports(view, thing["id"], INTERFACE):
        conflict("network.delete_router", f"Router {thing['id']} still has ports")
    for port in _ports(view, thing["id"], GATEWAY):
        release(view, port)


def _check_routes(view: SimulatedProject, router: JsonMap, routes: list[JsonMap], verb: str) -> None:
    subnets = [
        span(view.simulation.all("network.subnet")[str(one["subnet_id"])]["cidr"])
        for port in (*_ports(view, router["id"], INTERFACE), *_ports(view, router["id"], GATEWAY))
        for one in items(port, "fixed_ips")
    ]
    for route in routes:
        if not any(address(route["nexthop"]) in one for one in subnets):
            refuse(verb, f"Invalid format for routes: {routes}, the nexthop is not connected with router")


# -- interfaces ------------------------------------------------------------------------------------


def _add_interface(view: SimulatedProject, router: Json, subnet_id: Json = None, port_id: Json = None) -> Json:
    verb = "network.add_interface_to_router"
    owner = view.thing("network.router", router, verb)
    connected = {
        one["subnet_id"]: view.simulation.all("network.subnet")[str(one["subnet_id"])]
        for held in _ports(view, router, INTERFACE)
        for one in items(held, "fixed_ips")
    }
    if port_id is not None:
        held = view.thing("network.port", port_id, verb)
        if held["device_id"]:
            conflict(verb, f"Port {port_id} is already acquired by another device {held['device_id']}.")
        if not held["fixed_ips"]:
            refuse(verb, "Bad router request: Router port must have at least one fixed IP.")
        for one in items(held, "fixed_ips"):
            place = view.thing("network.subnet", one["subnet_id"], verb)
            _refuse_overlap(connected, place, verb)
        held |= {"device_id": owner["id"], "device_owner": INTERFACE, "status": "ACTIVE", "security_groups": []}
        return _interface(owner, view.put("network.port", held))
    place = view.thing("network.subnet", subnet_id, verb)
    if place["id"] in connected:
        refuse(verb, f"Bad router request: Router already has a port on subnet {place['id']}.")
    if place["gateway_ip"] is None:
        refuse(verb, "Bad router request: Subnet for router interface must have a gateway IP.")
    _refuse_overlap(connected, place, verb)
    network = view.thing("network.network", place["network_id"], verb)
    wanted: Json = [{"subnet_id": place["id"], "ip_address": place["gateway_ip"]}]
    return _interface(owner, claim(view, INTERFACE, owner["id"], network, wanted, owner["project_id"]))


def _refuse_overlap(connected: dict[Json, JsonMap], place: JsonMap, verb: str) -> None:
    for one in connected.values():
        if one["id"] != place["id"] and span(one["cidr"]).overlaps(span(place["cidr"])):
            refuse(verb, f"Bad router request: Cidr {place['cidr']} of subnet {place['id']} overlaps with cidr "
                         f"{one['cidr']} of subnet {one['id']}.")  # fmt: skip


def _interface(router: JsonMap, port: JsonMap) -> Json:
    subnets: list[Json] = [one["subnet_id"] for one in items(port, "fixed_ips")]
    return {
        "id": router["id"], "tenant_id": router["project_id"], "port_id": port["id"],
        "network_id": port["network_id"], "subnet_id": subnets[0], "subnet_ids": subnets,
    }  # fmt: skip


def _remove_interface(view: SimulatedProject, router: Json, subnet_id: Json = None, port_id: Json = None) -> Json:
    verb = "network.remove_interface_from_router"
    owner = view.thing("network.router", router, verb)
    for held in _ports(view, owner["id"], INTERFACE):
        places = [one["subnet_id"] for one in items(held, "fixed_ips")]
        if port_id == held["id"] or port_id is None and subnet_id in places:
            for place in places:
                _refuse_needed(view, owner, place, verb)
            release(view, held)
            return _interface(owner, held)
    what = f"port {port_id}" if port_id is not None else f"subnet {subnet_id}"
    raise missing(verb, f"Router {router} does not have an interface with {what}")


def _refuse_needed(view: SimulatedProject, router: JsonMap, place: Json, verb: str) -> None:
    whole = span(view.simulation.all("network.subnet")[str(place)]["cidr"])
    if any(address(one["nexthop"]) in whole for one in items(router, "routes")):
        conflict(verb, f"Router interface for subnet {place} on router {router['id']} cannot be deleted, as it is "
                       "required by one or more routes.")  # fmt: skip
    forwardings = view.simulation.all("network.port_forwarding").values()
    for one in view.simulation.all("network.ip").values():
        inside = one["fixed_ip_address"] is not None and address(one["fixed_ip_address"]) in whole
        forwards = [other for other in forwardings if other["_floatingip_id"] == one["id"]]
        inside |= any(address(other["internal_ip_address"]) in whole for other in forwards)
        if one["router_id"] == router["id"] and inside:
            conflict(verb, f"Router interface for subnet {place} on router {router['id']} cannot be deleted, as it is "
                           "required by one or more floating IPs.")  # fmt: skip


def _add_routes(view: SimulatedProject, router: Json, body: Json) -> Json:
    owner = view.thing("network.router", router, "network.add_extra_routes_to_router")
    routes = items(cast(JsonMap, cast(JsonMap, body)["router"]), "routes")
    _check_routes(view, owner, routes, "network.add_extra_routes_to_router")
    known = items(owner, "routes")
    owner["routes"] = cast(Json, [*known, *(one for one in routes if one not in known)])
    return view.put("network.router", owner)


def _remove_routes(view: SimulatedProject, router: Json, body: Json) -> Json:
    owner = view.thing("network.router", router, "network.remove_extra_routes_from_router")
    routes = items(cast(JsonMap, cast(JsonMap, body)["router"]), "routes")
    owner["routes"] = cast(Json, [one for one in items(owner, "routes") if one not in routes])
    return view.put("network.router", owner)


# -- floating IPs ----------------------------------------------------------------------------------


def _ip_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "network.create_ip"
    network = view.thing("network.network", thing["floating_network_id"], verb)
    if not network["router:external"]:
        refuse(verb, f"Bad floatingip request: Network {network['id']} is not a valid external network.")
    place = {"ip_address": thing.get("floating_ip_address"), "subnet_id": thing.pop("subnet_id", None)}
    wanted: Json = [{name: value for name, value in place.items() if value is not None}]
    asked = {name: thing.get(name) for name in ("port_id", "fixed_ip_address")}
    thing |= {"port_id": None, "fixed_ip_address": None, "router_id": None}
    found = _association(view, thing, asked, verb)
    port = claim(view, FLOATING, thing["id"], network, wanted, "")
    thing |= found
    thing["floating_ip_address"] = addresses_of(port)[0]
    thing["_port"] = port["id"]


def _association(view: SimulatedProject, thing: JsonMap, asked: JsonMap, verb: str) -> JsonMap:
    """Return a floating IP's attributes for a port and one of its addresses.

    Without a port the floating IP is not associated.
    """
    if asked.get("port_id") is None:
        if asked.get("fixed_ip_address") is not None:
            refuse(verb, "Bad floatingip request: fixed_ip_address cannot be specified without a port_id.")
        return {"port_id": None, "fixed_ip_address": None, "router_id": None, "status": "DOWN"}
    port = view.thing("network.port", asked["port_id"], verb)
    four = [one for one in items(port, "fixed_ips") if address(one["ip_address"]).version == 4]
    fixed = asked.get("fixed_ip_address")
    held = [one for one in four if fixed in (None, one["ip_address"])]
    if not held:
        refuse(verb, f"Bad floatingip request: Port {port['id']} does not have fixed ip {fixed}." if fixed else
               f"Bad floatingip request: Cannot add floating IP to port {port['id']} that has no fixed IPv4 "
               "addresses.")  # fmt: skip
    chosen = held[0]
    for other in view.simulation.all("network.ip").values():
        same = (port["id"], chosen["ip_address"]) == (other["port_id"], other["fixed_ip_address"])
        if same and other["id"] != thing["id"] and other["floating_network_id"] == thing["floating_network_id"]:
            conflict(verb, f"Cannot associate floating IP {thing.get('floating_ip_address')} ({thing['id']}) with port "
                           f"{port['id']} using fixed IP {chosen['ip_address']}, as that fixed IP already has a "
                           f"floating IP on external network {thing['floating_network_id']}.")  # fmt: skip
    router = path(view, thing["floating_network_id"], chosen["subnet_id"])
    if router is None:
        raise missing(verb, f"External network {thing['floating_network_id']} is not reachable from subnet "
                            f"{chosen['subnet_id']}.  Therefore, cannot associate Port {port['id']} with a Floating "
                            "IP.")  # fmt: skip
    return {"port_id": port["id"], "fixed_ip_address": chosen["ip_address"], "router_id": router, "status": "ACTIVE"}


def path(view: SimulatedProject, external: Json, subnet: Json) -> Json:
    """Return the router between a subnet and an external network, or null."""
    for port in view.simulation.all("network.port").values():
        if port["device_owner"] != INTERFACE or all(one["subnet_id"] != subnet for one in items(port, "fixed_ips")):
            continue
        router = view.simulation.all("network.router")[str(port["device_id"])]
        if cast(JsonMap, router["external_gateway_info"] or {}).get("network_id") == external:
            return router["id"]
    return None


def _ip_changed(view: SimulatedProject, thing: JsonMap, asked: JsonMap) -> None:
    if not {"port_id", "fixed_ip_address"} & asked.keys():
        return
    port = asked.get("port_id", thing["port_id"])
    forwarded = view.simulation.all("network.port_forwarding").values()
    if port is not None and any(one["_floatingip_id"] == thing["id"] for one in forwarded):
        conflict("network.update_ip", f"Floating IP {thing['id']} has port forwarding rules and cannot be associated "
                 f"with port {port}.")  # fmt: skip
    wanted = {"port_id": port, "fixed_ip_address": asked.get("fixed_ip_address")}
    asked |= _association(view, thing, wanted, "network.update_ip")


def _ip_removed(view: SimulatedProject, thing: JsonMap) -> None:
    held = view.simulation.all("network.port").get(str(thing["_port"]))
    if held is not None:
        release(view, held)
    for one in list(view.simulation.all("network.port_forwarding").values()):
        if one["_floatingip_id"] == thing["id"]:
            view.drop("network.port_forwarding", one)


# -- port forwardings of floating IPs --------------------------------------------------------------


def _check_forwarding(view: SimulatedProject, thing: JsonMap, verb: str) -> None:
    outside = view.thing("network.ip", thing["_floatingip_id"], verb)
    if outside["port_id"] is not None:
        conflict(verb, f"Floating IP {outside['id']} is associated with port {outside['port_id']} and cannot have port "
                       "forwarding rules.")  # fmt: skip
    port = view.thing("network.port", thing["internal_port_id"], verb)
    held = [one for one in items(port, "fixed_ips") if one["ip_address"] == thing["internal_ip_address"]]
    if not held:
        refuse(verb, f"Bad port_forwarding request: The provided internal_ip_address is not one of the port's: "
                     f"{thing['internal_ip_address']}")  # fmt: skip
    router = path(view, outside["floating_network_id"], held[0]["subnet_id"])
    if router is None:
        raise missing(verb, f"External network {outside['floating_network_id']} is not reachable from subnet "
                            f"{held[0]['subnet_id']}.  Therefore, cannot associate Port {port['id']} with a Floating "
                            "IP.")  # fmt: skip
    for one in view.simulation.all("network.port_forwarding").values():
        same = all(one[name] == thing[name] for name in ("_floatingip_id", "external_port", "protocol"))
        if same and one["id"] != thing["id"]:
            conflict(verb, "A duplicate port forwarding entry with same attributes already exists, conflicting values "
                           f"are {thing['external_port']}/{thing['protocol']}.")  # fmt: skip
        inside = ("internal_port_id", "internal_ip_address", "internal_port", "protocol")
        same = thing.get("internal_port") is not None and all(one.get(name) == thing.get(name) for name in inside)
        if same and one["id"] != thing["id"]:
            refuse(verb, "Bad port_forwarding request: There is a port forwarding entry with the same internal port: "
                         f"the following ranges collides: {thing['internal_port']}")  # fmt: skip
    outside |= {"router_id": router, "status": "ACTIVE"}
    view.put("network.ip", outside)


def _forwarding_made(view: SimulatedProject, thing: JsonMap) -> None:
    for name in ("project_id", "tenant_id"):  # owned through the floating IP
        del thing[name]
    _check_forwarding(view, thing, "network.create_port_forwarding")


def _forwarding_changed(view: SimulatedProject, thing: JsonMap, asked: JsonMap) -> None:
    _check_forwarding(view, {**thing, **asked}, "network.update_port_forwarding")


def _forwarding_removed(view: SimulatedProject, thing: JsonMap) -> None:
    others = view.simulation.all("network.port_forwarding").values()
    if all(one["_floatingip_id"] != thing["_floatingip_id"] or one["id"] == thing["id"] for one in others):
        outside = view.simulation.all("network.ip").get(str(thing["_floatingip_id"]))
        if outside is not None:
            outside |= {"router_id": None, "status": "DOWN"}
            view.put("network.ip", outside)


IP = NetworkKind(
    "network.ip",
    {"status": "DOWN", "dns_name": "", "dns_domain": "", "qos_policy_id": None, "port_details": None},
    required=("floating_network_id",),
    made=_ip_made,
    changed=_ip_changed,
    removed=_ip_removed,
    fixed=("floating_network_id", "floating_ip_address"),
)

FORWARDING = NetworkKind(
    "network.port_forwarding",
    {"description": "", "internal_port": None},
    within="_floatingip_id",
    required=("internal_port_id", "internal_ip_address", "external_port", "protocol"),
    made=_forwarding_made,
    changed=_forwarding_changed,
    removed=_forwarding_removed,
    standard=False,
)

COLLECTIONS = [
    NetworkKind(
        "network.router",
        {
            "name": "", "admin_state_up": True, "status": "ACTIVE", "distributed": False, "ha": False,
            "flavor_id": None, "availability_zone_hints": [], "availability_zones": [],
        },
        made=_made,
        changed=_changed,
        removed=_removed,
        fixed=("distributed", "ha"),
    ),
    IP,
    FORWARDING,
]  # fmt: skip


def _forward(view: SimulatedProject, floatingip_id: Json, **attributes: Json) -> Json:
    return FORWARDING.create(view, floatingip_id, **attributes)


_DETAILS = ("name", "network_id", "mac_address", "admin_state_up", "status", "device_id", "device_owner")


def _detailed(view: SimulatedProject, thing: JsonMap) -> JsonMap:
    """Return a floating IP with details of its port."""
    port = view.simulation.all("network.port").get(str(thing["port_id"]))
    return {**thing, "port_details": None if port is None else {name: port[name] for name in _DETAILS}}


def _get_ip(view: SimulatedProject, key: Json, **_: Json) -> Json:
    return _detailed(view, cast(JsonMap, IP.get(view, key)))


def _ips(view: SimulatedProject, **query: Json) -> Json:
    return [_detailed(view, one) for one in cast(list[JsonMap], IP.list(view, **query))]


def _find_ip(view: SimulatedProject, name_or_id: Json, ignore_missing: bool = True, **query: Json) -> Json:
    """Find a floating IP by its address, which serves as its name."""
    for one in view.things("network.ip"):
        if one["floating_ip_address"] == name_or_id:
            return one
    return IP.find(view, name_or_id, ignore_missing=ignore_missing, **query)


VERBS: dict[str, Verb] = {
    "network.create_port_forwarding": _forward,
    "network.find_ip": _find_ip,
    "network.get_ip": _get_ip,
    "network.ips": _ips,
    "network.add_interface_to_router": _add_interface,
    "network.remove_interface_from_router": _remove_interface,
    "network.add_extra_routes_to_router": _add_routes,
    "network.remove_extra_routes_from_router": _remove_routes,
}
