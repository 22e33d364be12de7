"""The networks of a server and its ports in them.

A server has a port of its own for each network, unless the template gives one. So its addresses are known before it is
built, and its replacement can keep them.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from heatlite.clients.cloud import CloudConflict, CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap, as_maps
from heatlite.plugin import CloudResource, Schema, prop
from heatlite.plugin.cloud import delete_other
from heatlite.resources.neutron.base import places
from heatlite.resources.neutron.port_extra import PortExtra, extra_of, has

WHERE: Final = ("network", "port", "subnet", "allocate_network")


class Nic(Schema):
    uuid: str | None = prop(hidden=True, find="neutron.network", means="network", doc="An old name of network.")
    network: str | None = prop(find="neutron.network", doc="The network, by name or id.")
    allocate_network: str | None = prop(
        update=True, one_of=("none", "auto"), doc="none: no network; auto: the service chooses or creates one."
    )
    fixed_ip: str | None = prop(custom="ip_addr", doc="The address.")
    port: str | None = prop(find="neutron.port", doc="An existing port, by name or id.")
    port_extra_properties: PortExtra | None = prop(update=True, doc="Properties of the port created for the server.")
    floating_ip: str | None = prop(blank=True, doc="The id of a floating IP to associate with it.")
    subnet: str | None = prop(resolve="neutron.subnet", doc="The subnet that the address is of, by name or id.")
    tag: str | None = prop(doc="The tag of the interface, shown to the server.")

    def fault_place(self) -> str | None:
        if not any(getattr(self, name) for name in WHERE):
            return f"One of {', '.join(WHERE)} must be given for each of the networks"
        return None

    def fault_allocate(self) -> str | None:
        if self.allocate_network is not None and self.given(*WHERE[:3]):
            return "allocate_network cannot be given together with network, port or subnet"
        return None

    def fault_address_of_port(self) -> str | None:
        if self.port is not None and self.fixed_ip is not None:
            return "fixed_ip cannot be given together with port: the port has its addresses"
        return None

    def fault_extra_of_port(self) -> str | None:
        if self.port is not None and self.given("port_extra_properties"):
            return "port_extra_properties cannot be given together with port: it is for the port that the server gets"
        return None


PATIENCE: Final = 120.0
"""Seconds until another server must have released a port."""
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
        """Prepare a port for each network.

        `again`: an interrupted attempt may have created some of them.

        Raises CloudError; `nics` then has the ports created so far.
        """
        self._data["nics"] = []
        self._data.pop("asked_at", None)
        former = self._server.facts.former()
        theirs = self._matches([nic for nic in _nics_of(former) if nic["made"]], specs)
        for number, spec in enumerate(specs):
            port = self._wanted_port(number, spec, groups, again, theirs.get(number))
            self.nics.append({"port": port, "made": spec.get("port") is None, "spec": spec})
            if number in theirs:
                self._readdress(self.nics[-1])
            if isinstance(former, CloudResource) and any(nic["port"] == port for nic in _nics_of(former)):
                self._take(port, former)
            self._lead_to(spec, port)

    def _wanted_port(
        self,
        number: int,
        spec: JsonMap,
        groups: list[Json] | None,
        again: bool,
        theirs: JsonMap | None = None,
        other: Sequence[JsonMap] = (),
    ) -> str:
        """Return the given port, the replaced server's matching one, or a new one.

        `theirs` are the ports of the replaced server. `other` are ports of other networks, which may have the same
        name.
        """
        if spec.get("port") is not None:
            return str(spec["port"])
        if theirs is not None and self._is_there(str(theirs["port"])):
            return str(theirs["port"])
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
        return body | extra_of(spec)

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
        self._part(port, former)

    def reclaim(self) -> bool:
        """Detach the ports that the replacement of this server has taken over.

        True if there were any; `changed` then attaches them here.
        """
        latter, found = self._server.facts.latter(), False
        if not isinstance(latter, CloudResource) or latter.physical_id is None:
            return False
        for nic in self.nics:
            with suppress(CloudNotFound):
                if self.port(str(nic["port"])).get("device_id") == latter.physical_id:
                    self._part(str(nic["port"]), latter)
                    found = True
        return found

    def _part(self, port: str, server: CloudResource[Any]) -> None:
        """Detach a port from another server."""
        try:
            self._call("compute.delete_server_interface", port, server.physical_id)
        except CloudNotFound:
            # The server is gone, or has lost the port.
            if self.port(port).get("device_id") == server.physical_id:
                self._free(port)
        except CloudConflict:
            if server.status_of(server.fetched) not in server.broken:
                raise
            # The service detaches no port from a server in such a state.
            self._free(port)

    def _free(self, port: str) -> None:
        self._call("network.update_port", port, device_id="", device_owner="")

    def ready(self) -> bool:
        """True if the ports of the replaced server are free.

        Raises CloudError after a timeout.
        """
        held = [key for key in self._taken if self.port(key).get("device_id")]
        since = cast(float, self._data.setdefault("asked_at", self._server.facts.now()))
        if held and self._server.facts.now() > since + PATIENCE:
            text = f"server {self._taken[held[0]]} does not release port {held[0]}, which this one needs"
            raise CloudError("compute.delete_server_interface", text)
        return not held

    def port(self, key: str) -> JsonMap:
        """Return a port as it is. Raises CloudNotFound."""
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
        asks = any(spec.get("port") is None for spec in specs)
        ports = cast(list[JsonMap], self._call("network.ports", device_id=server_id)) if asks else []
        theirs = [str(nic["port"]) for nic in _nics_of(self._server.facts.former())]
        self._data["nics"] = []
        for number, spec in enumerate(specs):
            name = f"{self._server.physical_name}-port-{number}"
            own = [str(port["id"]) for port in ports if port.get("name") == name or port["id"] in theirs]
            if spec.get("port") is not None or own:
                port = str(spec.get("port") or own[0])
                self.nics.append({"port": port, "made": spec.get("port") is None, "spec": spec})

    def adopt(self, specs: Sequence[JsonMap], server_id: str) -> None:
        """Find the ports of a server that heatlite has not created.

        Ports that a Heat created have the server's name; those of the compute service leave with the server. Leaves
        `nics` empty if the server has other networks than the template says.
        """
        self.remember(specs, server_id)
        known, found = self.nics, list[JsonMap]()
        free = [one for one in self.interfaces() if all(one["port_id"] != nic["port"] for nic in known)]
        for spec in specs:
            nic = next((nic for nic in known if nic["spec"] is spec), None)
            if nic is None:
                fits = [one for one in free if spec.get("network") in (None, one["net_id"])]
                if not fits:
                    break
                free.remove(fits[0])
                nic = {"port": fits[0]["port_id"], "made": False, "spec": spec}
            found.append(nic)
        self._data["nics"] = cast(Json, found if len(found) == len(specs) else [])

    # -- after the server's deletion -----------------------------------------------------------------

    def release(self) -> None:
        """Delete the server's own ports, and return taken ones to the replaced server."""
        for nic in [*self.nics, *self._leaving]:
            port = str(nic["port"])
            with suppress(CloudNotFound):
                owner = self.port(port).get("device_id")
                if owner not in ("", None, self._server.physical_id):
                    continue  # the replacement of this server has it now
                if self._given_back(port) or not nic["made"]:
                    continue
                delete_other(self._server.cloud, "network.port", port)
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
        """Determine the ports to attach and to detach, and create missing ones.

        An own port that is gone is made again. `changed` continues.
        """
        nics = [*(self.nics or self._found(before))]
        for spec in before:
            if spec.get("port") is not None and all(nic["port"] != spec["port"] for nic in nics):
                nics.append({"port": spec["port"], "made": False, "spec": spec})  # somebody else has attached it
        old = [nic for nic in nics if not nic["made"] or self._is_there(str(nic["port"]))]
        known = [*old, *self._leaving]
        kept: list[JsonMap] = []
        staying = self._matches(old, after, tagged=True)
        for number, spec in enumerate(after):
            same = staying.get(number)
            if same is not None:
                old.remove(same)
                was = cast(JsonMap, same["spec"])
                if same["made"]:
                    self._settle(str(same["port"]), was, spec)
                if was.get("floating_ip") not in (None, spec.get("floating_ip")):
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

    def _settle(self, key: str, was: JsonMap, spec: JsonMap) -> None:
        """Give an own port what a specification says anew, and what it lacks of the rest."""
        port, said = self.port(key), extra_of(was)
        lacks = {
            name: value
            for name, value in extra_of(spec).items()
            if said.get(name) != value or not has(port, name, value)
        }
        if not is_placed(port, spec):
            lacks["fixed_ips"] = self._body(spec)["fixed_ips"]
        if lacks:
            self._call("network.update_port", key, **lacks)

    def _matches(self, nics: Sequence[JsonMap], specs: Sequence[JsonMap], tagged: bool = False) -> dict[int, JsonMap]:
        """Return the ports that stay, by the number of their network.

        As in Heat, a network may be said in other words: then its port has what is said now. Networks said as before
        come first. With `tagged` the tags must be the same.
        """
        left, found = list(nics), dict[int, JsonMap]()
        for fits in (_same, self._serves):
            for number, spec in enumerate(specs):
                for nic in () if number in found else left:
                    tags = cast(JsonMap, nic["spec"]).get("tag"), spec.get("tag")
                    if (not tagged or tags[0] == tags[1]) and fits(nic, spec):
                        found[number] = nic
                        left.remove(nic)
                        break
        return found

    def _serves(self, nic: JsonMap, spec: JsonMap) -> bool:
        """Return True if a port matches network, subnet and address of a specification."""
        if spec.get("port") is not None or spec.get("allocate_network") is not None:
            return False
        if not nic["made"] and cast(JsonMap, nic["spec"]).get("port") is not None:
            return False  # a port that the template gave may leave with its own resource
        try:
            port = self.port(str(nic["port"]))
        except CloudNotFound:
            return False
        return is_placed(port, spec) and spec.get("network") in (None, port["network_id"])

    def remove_addresses(self, subnet: Json) -> None:
        """Remove the addresses in a subnet to be deleted from the server's own ports."""
        for nic in self.nics:
            with suppress(CloudNotFound):
                held = cast(list[JsonMap], self.port(str(nic["port"]))["fixed_ips"]) if nic["made"] else []
                left: list[Json] = [one for one in held if one["subnet_id"] != subnet]
                if len(left) < len(held):
                    self._call("network.update_port", nic["port"], fixed_ips=left)

    def leave(self, port: Json) -> None:
        """Detach a port from the server; `changed` attaches it again."""
        if any(interface["port_id"] == port for interface in self.interfaces()):
            self._detach(port)

    def _detach(self, port: Json) -> None:
        """Detach a port from the server, unless it is detached."""
        with suppress(CloudNotFound):
            self._call("compute.delete_server_interface", port, self._server.physical_id)

    def readdress(self) -> bool:
        """Give new addresses to those of the server's own ports that have none.

        True if one of them is gone; then `change` is needed.
        """
        is_gone = False
        for nic in self.nics:
            try:
                self._readdress(nic)
            except CloudNotFound:
                is_gone = True
        return is_gone

    def _readdress(self, nic: JsonMap) -> None:
        """Give an own port without addresses new ones. Raises CloudNotFound if it is gone."""
        port, spec = self.port(str(nic["port"])) if nic["made"] else {}, cast(JsonMap, nic["spec"])
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
            self._detach(nic["port"])
        if lost:
            return False
        for nic in self._leaving:
            if nic["made"]:
                delete_other(self._server.cloud, "network.port", nic["port"])
        self._data["leaving"] = []
        missing = [nic for nic in self.nics if nic["port"] not in has]
        for nic in missing:
            if self.port(str(nic["port"])).get("device_id") not in ("", None):
                continue  # still attached to another server
            tag = cast(JsonMap, nic["spec"]).get("tag")
            more: JsonMap = {} if tag is None else {"tag": tag}
            self._call("compute.create_server_interface", self._server.physical_id, port_id=nic["port"], **more)
        if not self.nics and not has and self._data.get("allocate") == "auto":
            self._call("compute.create_server_interface", self._server.physical_id)
        return not missing


def _nics_of(server: object) -> list[JsonMap]:
    return list(Ports(server).nics) if isinstance(server, CloudResource) else []


def is_placed(port: JsonMap, spec: Mapping[str, Json]) -> bool:
    """Return True if a port or an interface has the address of a specification."""
    wanted = {"subnet_id": spec.get("subnet"), "ip_address": spec.get("fixed_ip")}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    return not wanted or any(wanted.items() <= one.items() for one in as_maps(port["fixed_ips"]))


def _place(spec: Mapping[str, Json]) -> list[Json]:
    """Return the place of a port: ports with the same place are interchangeable."""
    return [spec.get(name) for name in PORT_KEYS]


def _same(nic: JsonMap, spec: JsonMap) -> bool:
    return _place(cast(JsonMap, nic["spec"])) == _place(spec) or spec.get("port") == nic["port"]
