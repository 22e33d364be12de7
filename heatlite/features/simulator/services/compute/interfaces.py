"""Ports of servers."""

import ipaddress
from typing import Final, cast

from heatlite.clients.cloud import CloudConflict, CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.services.compute.states import SERVER, STATES, free, server_of
from heatlite.features.simulator.simulation import SimulatedProject, Verb

PORT: Final = "network.port"
QUICK: Final = 2.0
"""Maximum of seconds until a detached port is free."""


def planned(view: SimulatedProject, verb: str, server: JsonMap, networks: Json) -> list[JsonMap]:
    """Return the planned ports of a server, without creating any.

    Each is ``{"port": id}`` or the attributes of a new port. Raises CloudError.
    """
    if networks == "none":
        return []
    if networks == "auto":
        return [{"uuid": _only_network(view, verb)}]
    if not isinstance(networks, list):
        raise CloudError(verb, f"Invalid input for field/attribute networks. Value: {networks}.", 400)
    wanted = cast(list[JsonMap], networks)
    for one in wanted:
        if one.get("port") is not None:
            _free_port(view, verb, one["port"], server)
        else:
            _network(view, verb, one.get("uuid"))
    return wanted


def _only_network(view: SimulatedProject, verb: str) -> Json:
    usable = [
        one
        for one in view.simulation.all("network.network").values()
        if one.get("project_id") == view.project and not one.get("router:external") or one.get("shared")
    ]
    if not usable:
        raise CloudError(verb, "Unable to automatically allocate a network", 400)
    if len(usable) > 1:
        text = "Multiple possible networks found, use a Network ID to be more specific."
        raise CloudConflict(verb, text)
    return usable[0]["id"]


def _network(view: SimulatedProject, verb: str, key: Json) -> JsonMap:
    try:
        return view.thing("network.network", key, verb)
    except CloudNotFound as error:
        raise CloudError(verb, f"Network {key} could not be found.", 400) from error


def _free_port(view: SimulatedProject, verb: str, key: Json, server: JsonMap) -> JsonMap:
    try:
        port = view.thing(PORT, key, verb)
    except CloudNotFound as error:
        raise CloudError(verb, f"Port id {key} could not be found.", 400) from error
    if port.get("device_id") and port["device_id"] != server.get("id"):
        raise CloudConflict(verb, f"Port {key} is still in use.")
    return port


def groups_of(view: SimulatedProject, verb: str, server: JsonMap) -> list[Json] | None:
    """Return the ids of a server's security groups; None for the default of new ports."""
    names = [one["name"] for one in cast(list[JsonMap], server["security_groups"])]
    if names == ["default"]:
        return None
    known = view.things("network.security_group")
    found: list[Json] = []
    for name in names:
        ids = [one["id"] for one in known if name in (one["id"], one["name"])]
        if not ids:
            raise CloudError(verb, f"Unable to find security_group with name or id '{name}'", 400)
        found.append(ids[0])
    return found


def plug_in(view: SimulatedProject, verb: str, server: JsonMap, wanted: list[JsonMap]) -> list[JsonMap]:
    """Attach the planned ports to a server and return them.

    Raises CloudError after removing the ports created so far.
    """
    groups = groups_of(view, verb, server)
    ports: list[JsonMap] = []
    made: list[JsonMap] = []
    try:
        for one in wanted:
            if one.get("port") is not None:
                port = _free_port(view, verb, one["port"], server)
            else:
                port = _new_port(view, one, groups)
                made.append(port)
            ports.append(port)
    except CloudError:
        for port in made:
            view.drop(PORT, port)
        raise
    zone = server["OS-EXT-AZ:availability_zone"]
    for port, one in zip(ports, wanted, strict=True):
        port.pop("_then", None)
        port.update(device_id=server["id"], device_owner=f"compute:{zone}", status="ACTIVE")
        port["_tag"] = one.get("tag")
        port["_made_by_compute"] = port in made
        view.put(PORT, port)
    own = cast(list[Json], server.setdefault("_ports", []))
    own.extend(port["id"] for port in ports if port["id"] not in own)
    return ports


def _new_port(view: SimulatedProject, wanted: JsonMap, groups: list[Json] | None) -> JsonMap:
    more: JsonMap = {} if groups is None else {"security_groups": groups}
    if wanted.get("fixed_ip") is not None:
        more["fixed_ips"] = [{"ip_address": wanted["fixed_ip"]}]
    elif wanted.get("fixed_ips"):
        more["fixed_ips"] = wanted["fixed_ips"]
    made = view.simulation.verbs["network.create_port"](view, network_id=wanted.get("uuid"), **more)
    return cast(JsonMap, made)


def ports_of(view: SimulatedProject, server: JsonMap) -> list[JsonMap]:
    """Return the ports of a server in the order of attachment."""
    own = [view.simulation.one(PORT, str(key)) for key in cast(list[Json], server.get("_ports") or [])]
    return [port for port in own if port is not None and port.get("device_id") == server["id"]]


def _unplug(view: SimulatedProject, server: JsonMap, port: JsonMap) -> None:
    server["_ports"] = [key for key in cast(list[Json], server["_ports"]) if key != port["id"]]
    free_again: JsonMap = {"device_id": "", "device_owner": "", "status": "DOWN"}
    seconds = min(QUICK, view.simulation.scenario.build)
    view.simulation.later(port, None if port.get("_made_by_compute") else free_again, seconds)
    view.put(PORT, port)


def unplug_all(view: SimulatedProject, server: JsonMap) -> None:
    """Detach all ports of a deleted server, and remove those that the service created."""
    for port in ports_of(view, server):
        _unplug(view, server, port)


def addresses(view: SimulatedProject, server: JsonMap) -> JsonMap:
    """Return the addresses of a server by the names of its networks."""
    found: dict[str, list[Json]] = {}
    floating = view.simulation.all("network.ip").values()
    for port in ports_of(view, server):
        network = view.simulation.one("network.network", str(port["network_id"]))
        name = str((network or {}).get("name"))
        outside = [one for one in floating if one.get("port_id") == port["id"]]
        for fixed in cast(list[JsonMap], port["fixed_ips"]):
            address = str(fixed["ip_address"])
            found.setdefault(name, []).append(_address(port, address, "fixed"))
            for one in outside:
                if one.get("fixed_ip_address") in (None, address):
                    found[name].append(_address(port, str(one["floating_ip_address"]), "floating"))
    return cast(JsonMap, found)


def _address(port: JsonMap, address: str, kind: str) -> Json:
    return {
        "addr": address,
        "version": ipaddress.ip_address(address).version,
        "OS-EXT-IPS:type": kind,
        "OS-EXT-IPS-MAC:mac_addr": port["mac_address"],
    }


# -- verbs -------------------------------------------------------------------------------------------


def _interface(port: JsonMap) -> JsonMap:
    return {
        "id": port["id"],
        "port_id": port["id"],
        "net_id": port["network_id"],
        "fixed_ips": port["fixed_ips"],
        "mac_addr": port["mac_address"],
        "port_state": port["status"],
        "tag": port.get("_tag"),
    }


def _list(view: SimulatedProject, key: Json, **_: Json) -> Json:
    return [_interface(port) for port in ports_of(view, server_of(view, "compute.server_interfaces", key))]


def _attach(view: SimulatedProject, key: Json, **wanted: Json) -> Json:
    verb = "compute.create_server_interface"
    server = free(view, verb, key)
    if server["status"] not in ("ACTIVE", "SHUTOFF"):
        text = f"Cannot 'attach_interface' instance {key} while it is in vm_state {STATES.get(str(server['status']))}"
        raise CloudConflict(verb, text)
    if wanted.get("port_id") is not None:
        if any(port["id"] == wanted["port_id"] for port in ports_of(view, server)):
            raise CloudConflict(verb, f"Port {wanted['port_id']} is still in use.")
        one: JsonMap = {"port": wanted["port_id"], "tag": wanted.get("tag")}
        planned(view, verb, server, [one])
    else:
        network = wanted.get("net_id") or _only_network(view, verb)
        one = {"uuid": network, "fixed_ips": wanted.get("fixed_ips"), "tag": wanted.get("tag")}
        planned(view, verb, server, [one])
    (port,) = plug_in(view, verb, server, [one])
    view.put(SERVER, server)
    return _interface(port)


def _detach(view: SimulatedProject, port_id: Json, key: Json) -> Json:
    verb = "compute.delete_server_interface"
    server = free(view, verb, key)
    found = [port for port in ports_of(view, server) if port["id"] == port_id]
    if not found:
        raise CloudNotFound(verb, f"Port id {port_id} could not be found.")
    if view.simulation.going:
        return None  # a scripted fault: the host does not detach it, and the service reports no error
    _unplug(view, server, found[0])
    view.put(SERVER, server)
    return None


VERBS: dict[str, Verb] = {
    "compute.server_interfaces": _list,
    "compute.create_server_interface": _attach,
    "compute.delete_server_interface": _detach,
}
