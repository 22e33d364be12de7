"""The networks of a server and its ports in them.

A server has a port of its own for each network, unless the template gives one. So its addresses are known before it is
built, and its replacement can keep them.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from heatlite.clients.cloud import CloudConflict, CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import CloudResource, Schema, prop
from heatlite.resources.neutron.base import places

VNIC_TYPES = ("normal", "direct", "macvtap", "direct-physical", "baremetal", "virtio-forwarder", "smart-nic")


class AddressPair(Schema):
    ip_address: str = prop(custom="ip_or_cidr", doc="The address, or several of them.")
    mac_address: str | None = prop(custom="mac_addr", doc="The hardware address; left out: that of the port.")


class PortExtra(Schema):
    admin_state_up: bool = prop(True, update=True, doc="Whether the port carries traffic.")
    allowed_address_pairs: list[AddressPair] | None = prop(update=True, doc="Further addresses that it may use.")
    vnic_type: str = prop("normal", alias="binding:vnic_type", update=True, one_of=VNIC_TYPES, doc="What kind it is.")
    mac_address: str | None = prop(custom="mac_addr", doc="Its hardware address; left out: the service makes one.")
    no_fixed_ips: bool = prop(False, update=True, api="", doc="Whether it has no address.")
    port_security_enabled: bool | None = prop(update=True, doc="Whether it is protected.")
    propagate_uplink_status: bool | None = prop(update=True, doc="Whether it tells of the state of its uplink.")
    qos_policy: str | None = prop(
        update=True, find="neutron.qos_policy", api="qos_policy_id", doc="Its QoS policy, by name or id."
    )
    value_specs: dict[str, Json] = prop({}, update=True, api="", doc="Further attributes, sent as they are.")


class Nic(Schema):
    uuid: str | None = prop(hidden=True, find="neutron.network", means="network", doc="An old name of network.")
    network: str | None = prop(find="neutron.network", doc="The network, by name or id.")
    allocate_network: str | None = prop(
        update=True, one_of=("none", "auto"), doc="none: no network; auto: the service chooses or makes one."
    )
    fixed_ip: str | None = prop(custom="ip_addr", doc="The address.")
    port: str | None = prop(find="neutron.port", doc="A port that is there, by name or id.")
    port_extra_properties: PortExtra | None = prop(update=True, doc="How the port is that the server gets.")
    floating_ip: str | None = prop(doc="The id of a floating IP that leads to it.")
    subnet: str | None = prop(resolve="neutron.subnet", doc="The subnet that the address is of, by name or id.")
    tag: str | None = prop(doc="What the server is told about the interface.")


WHERE: Final = ("network", "port", "subnet", "allocate_network")


def fault(nics: Sequence[Nic]) -> str | None:
    """Return the error in the networks of a server, or None."""
    if any(nic.allocate_network is not None for nic in nics) and len(nics) > 1:
        return "allocate_network cannot be given beside other networks"
    for nic in nics:
        given = {name: getattr(nic, name) for name in WHERE}
        if not any(given.values()):
            return f"One of {', '.join(WHERE)} has to be given for each of the networks"
        if nic.allocate_network is not None and (nic.network or nic.port or nic.subnet):
            return "allocate_network cannot be given together with network, port or subnet"
        if nic.port is not None and nic.fixed_ip is not None:
            return "fixed_ip cannot be given together with port: the port has its addresses"
        if nic.port is not None and nic.port_extra_properties is not None:
            return "port_extra_properties cannot be given together with port: it is for the port that the server gets"
    return None


PATIENCE: Final = 120.0
"""Seconds until another server has to have released a port."""
PORT_KEYS: Final = ("network", "subnet", "port", "fixed_ip")
"""Properties of a network whose change needs another port."""


class Ports:
    """The ports of one server.

    The server's `data` holds three entries. `nics`: the wanted ports in order, each ``{"port": id, "made": bool,
    "spec": the template's network}``. `taken`: port → the server that had it before. `leaving`: the ports to be
    detached.
    """

    def __init__(self, server: CloudResource[Any]) -> None:
        self._server = server
        self._data = server.data

    @property
    def nics(self) -> list[JsonMap]:
        return cast(list[JsonMap], self._data.setdefault("nics", []))

    @property
    def _taken(self) -> dict[str, Json]:
        return cast(dict[str, Json], self._data.setdefault("taken", {}))

    @property
    def _leaving(self) -> list[JsonMap]:
        return cast(list[JsonMap], self._data.setdefault("leaving", []))

    def _call(self, verb: str, *arguments: Json, **attributes: Json) -> Json:
        return self._server.cloud.call(verb, *arguments, **attributes)

    # -- before the server's creation ----------------------------------------------------------------

    def prepare(self, specs: Sequence[JsonMap], groups: list[Json] | None, again: bool) -> None:
        """Prepare a port for each network. `again`: an interrupted attempt may have created some of them.

        Raises CloudError; `nics` then has the ports created so far.
        """
        self._data["nics"] = []
        self._data.pop("asked_at", None)
        former = self._server.facts.former()
        theirs = list(_nics_of(former))
        for number, spec in enumerate(specs):
            port = self._wanted_port(number, spec, groups, again, theirs)
            theirs = [nic for nic in theirs if nic["port"] != port]
            self.nics.append({"port": port, "made": spec.get("port") is None, "spec": spec})
            if isinstance(former, CloudResource) and any(nic["port"] == port for nic in _nics_of(former)):
                self._take(port, former)
            self._lead_to(spec, port)

    def _wanted_port(
        self,
        number: int,
        spec: JsonMap,
        groups: list[Json] | None,
        again: bool,
        theirs: Sequence[JsonMap] = (),
        other: Sequence[JsonMap] = (),
    ) -> str:
        """Return the given port, a port of the replaced server (`theirs`), or a new one.

        `other` are ports of other networks, which may have the same name.
        """
        if spec.get("port") is not None:
            return str(spec["port"])
        for nic in theirs:
            if nic["made"] and _place(cast(JsonMap, nic["spec"])) == _place(spec) and self._is_there(str(nic["port"])):
                return str(nic["port"])
        name = f"{self._server.physical_name}-port-{number}"
        if again:
            known = [nic["port"] for nic in other]
            named = cast(list[JsonMap], self._call("network.ports", name=name))
            found = [one for one in named if one["id"] not in known]
            if found:
                return str(found[0]["id"])
        body = self._body(spec)
        if groups is not None:
            body.setdefault("security_groups", groups)
        return str(cast(JsonMap, self._call("network.create_port", name=name, **body))["id"])

    def _is_there(self, port: str) -> bool:
        try:
            self._call("network.get_port", port)
        except CloudNotFound:
            return False
        return True

    def _body(self, spec: JsonMap) -> JsonMap:
        """Return the attributes of a new port."""
        network, subnet = spec.get("network"), spec.get("subnet")
        if network is None:
            network = cast(JsonMap, self._call("network.get_subnet", subnet))["network_id"]
        body: JsonMap = {"network_id": network}
        address = {"subnet_id": subnet, "ip_address": spec.get("fixed_ip")}
        address = {name: value for name, value in address.items() if value is not None}
        if address:
            body["fixed_ips"] = [cast(Json, address)]
        return body | _extra(spec)

    def _lead_to(self, spec: JsonMap, port: str) -> None:
        """Associate the floating IP with the port."""
        if spec.get("floating_ip") is not None:
            fixed: JsonMap = {} if spec.get("fixed_ip") is None else {"fixed_ip_address": spec["fixed_ip"]}
            self._call("network.update_ip", spec["floating_ip"], port_id=port, **fixed)

    def _take(self, port: str, former: CloudResource[Any]) -> None:
        """Detach a port from the replaced server; `ready` tells when it is free."""
        if former.physical_id is None:
            return
        self._taken[port] = former.physical_id
        try:
            self._call("compute.delete_server_interface", port, former.physical_id)
        except CloudConflict:
            if former.status_of(former.seen) not in former.broken:
                raise
            # The service detaches no port from a server in such a state.
            self._call("network.update_port", port, device_id="", device_owner="")

    def ready(self) -> bool:
        """True if the ports of the replaced server are free. Raises CloudError after a timeout."""
        held = [key for key in self._taken if self._port(key).get("device_id")]
        since = cast(float, self._data.setdefault("asked_at", self._server.facts.now()))
        if held and self._server.facts.now() > since + PATIENCE:
            text = f"server {self._taken[held[0]]} does not let go of port {held[0]}, which this one is to have"
            raise CloudError("compute.delete_server_interface", text)
        return not held

    def _port(self, key: str) -> JsonMap:
        return cast(JsonMap, self._call("network.get_port", key))

    def wanted(self, specs: Sequence[JsonMap] | None) -> Json:
        """Return the networks for the creation of the server, with the prepared ports."""
        if specs and specs[0].get("allocate_network") is not None:
            return specs[0]["allocate_network"]
        if not specs:
            return "auto" if self._any_network() else "none"
        made: list[Json] = []
        for nic in self.nics:
            tag = cast(JsonMap, nic["spec"]).get("tag")
            made.append({"port": nic["port"]} | ({} if tag is None else {"tag": tag}))
        return made

    def _any_network(self) -> bool:
        """True if there is a network for the server; without one it gets none, as in Heat."""
        known = cast(list[JsonMap], self._call("network.networks"))
        return any(not one.get("router:external") or one.get("shared") for one in known)

    def remember(self, specs: Sequence[JsonMap], server_id: str) -> None:
        """Find the ports of a server that an interrupted attempt created."""
        ports = cast(list[JsonMap], self._call("network.ports", device_id=server_id))
        theirs = [str(nic["port"]) for nic in _nics_of(self._server.facts.former())]
        self._data["nics"] = []
        for number, spec in enumerate(specs):
            name = f"{self._server.physical_name}-port-{number}"
            own = [str(port["id"]) for port in ports if port.get("name") == name or port["id"] in theirs]
            if spec.get("port") is not None or own:
                port = str(spec.get("port") or own[0])
                self.nics.append({"port": port, "made": spec.get("port") is None, "spec": spec})

    # -- after the server's deletion -----------------------------------------------------------------

    def release(self) -> None:
        """Delete the ports that were created for the server, and give taken ones back to the replaced server."""
        for nic in [*self.nics, *self._leaving]:
            port = str(nic["port"])
            with suppress(CloudNotFound):
                owner = self._port(port).get("device_id")
                if owner not in ("", None, self._server.physical_id):
                    continue  # the replacement of this server has it now
                if self._given_back(port) or not nic["made"]:
                    continue
                self._call("network.delete_port", port)
        self._data["nics"] = []
        self._data["leaving"] = []

    def _given_back(self, port: str) -> bool:
        """Attach a port taken from the replaced server to that again. True on success."""
        before = self._taken.get(port)
        former = self._server.facts.former()
        if before is None or former is None or former.physical_id != before:
            return False
        try:
            self._call("compute.create_server_interface", before, port_id=port)
        except (CloudNotFound, CloudConflict):
            return False  # the server is gone or being deleted
        del self._taken[port]
        return True

    # -- changes -------------------------------------------------------------------------------------

    def change(self, before: Sequence[JsonMap], after: Sequence[JsonMap], groups: list[Json] | None) -> None:
        """Determine the ports to attach and to detach, and create missing ones; `changed` continues."""
        old = self.nics or self._found(before)
        known = [*old, *self._leaving]
        kept: list[JsonMap] = []
        for number, spec in enumerate(after):
            same = next((nic for nic in old if _same(cast(JsonMap, nic["spec"]), spec, nic)), None)
            if same is not None:
                old.remove(same)
                was = cast(JsonMap, same["spec"])
                if same["made"] and was.get("port_extra_properties") != spec.get("port_extra_properties"):
                    self._call("network.update_port", same["port"], **_extra(spec))
                if was.get("floating_ip") != spec.get("floating_ip"):
                    if was.get("floating_ip") is not None:
                        self._call("network.update_ip", was["floating_ip"], port_id=None)
                    self._lead_to(spec, str(same["port"]))
                kept.append({**same, "spec": spec})
            elif spec.get("allocate_network") is None:
                port = self._wanted_port(number, spec, groups, True, other=known)
                kept.append({"port": port, "made": spec.get("port") is None, "spec": spec})
                self._lead_to(spec, port)
        names = {nic["port"] for nic in kept}
        leaving = [nic for nic in [*self._leaving, *old] if nic["port"] not in names]
        self._data["leaving"] = cast(Json, leaving)
        self._data["nics"] = cast(Json, kept)
        wants = after[0].get("allocate_network") if after else "auto"
        self._data["allocate"] = wants

    def let_go(self, subnet: Json) -> None:
        """Remove the addresses in a subnet, which is about to be deleted, from the server's own ports."""
        for nic in self.nics:
            held = cast(list[JsonMap], self._port(str(nic["port"]))["fixed_ips"]) if nic["made"] else []
            left: list[Json] = [one for one in held if one["subnet_id"] != subnet]
            if len(left) < len(held):
                self._call("network.update_port", nic["port"], fixed_ips=left)

    def leave(self, port: Json) -> None:
        """Detach a port from the server; `changed` attaches it again."""
        if any(interface["port_id"] == port for interface in self.interfaces()):
            self._call("compute.delete_server_interface", port, self._server.physical_id)

    def readdress(self) -> None:
        """Give new addresses to those of the server's own ports that have none."""
        for nic in self.nics:
            port, spec = self._port(str(nic["port"])) if nic["made"] else {}, cast(JsonMap, nic["spec"])
            if port.get("fixed_ips") == [] and (body := self._body(spec)).get("fixed_ips") != []:
                fixed = body.get("fixed_ips") or places(self._server.cloud, port["network_id"])
                self._call("network.update_port", nic["port"], fixed_ips=fixed)

    def _found(self, specs: Sequence[JsonMap]) -> list[JsonMap]:
        """Return the ports of a server whose ports the service created."""
        found: list[JsonMap] = []
        for interface in self.interfaces():
            network = interface["net_id"]
            spec = next((one for one in specs if network == one.get("network")), {"network": network})
            found.append({"port": interface["port_id"], "made": False, "spec": spec})
        return found

    def interfaces(self) -> list[JsonMap]:
        """Return the current interfaces of the server."""
        return cast(list[JsonMap], self._call("compute.server_interfaces", self._server.physical_id))

    def changed(self) -> bool:
        """Take the next steps. True if the server is connected as wanted."""
        has = {interface["port_id"] for interface in self.interfaces()}
        lost = [nic for nic in self._leaving if nic["port"] in has]
        for nic in lost:
            self._call("compute.delete_server_interface", nic["port"], self._server.physical_id)
        if lost:
            return False
        for nic in self._leaving:
            if nic["made"]:
                self._call("network.delete_port", nic["port"])
        self._data["leaving"] = []
        missing = [nic for nic in self.nics if nic["port"] not in has]
        for nic in missing:
            if self._port(str(nic["port"])).get("device_id") not in ("", None):
                continue  # still attached to another server
            tag = cast(JsonMap, nic["spec"]).get("tag")
            more: JsonMap = {} if tag is None else {"tag": tag}
            self._call("compute.create_server_interface", self._server.physical_id, port_id=nic["port"], **more)
        if not self.nics and not has and self._data.get("allocate") == "auto":
            self._call("compute.create_server_interface", self._server.physical_id)
        return not missing


def _nics_of(server: object) -> list[JsonMap]:
    return list(Ports(server).nics) if isinstance(server, CloudResource) else []


def _place(spec: Mapping[str, Json]) -> list[Json]:
    """Return the place of a port: ports with the same place are interchangeable."""
    return [spec.get(name) for name in PORT_KEYS]


def _same(was: JsonMap, spec: JsonMap, nic: JsonMap) -> bool:
    if was.get("tag") != spec.get("tag"):
        return False
    return _place(was) == _place(spec) or spec.get("port") == nic["port"]


def _extra(spec: Mapping[str, Json]) -> JsonMap:
    """Return the attributes in port_extra_properties."""
    given = spec.get("port_extra_properties")
    if not isinstance(given, dict):
        return {}
    body = cast(JsonMap, Nic.fields["port_extra_properties"].wire(given))
    if given.get("no_fixed_ips"):
        body["fixed_ips"] = []
    if given.get("port_security_enabled") is False:
        body["security_groups"] = []  # the service requires that an unprotected port has none
    return body | cast(JsonMap, given.get("value_specs") or {})
