"""Objects that are attached to a server, as its properties say them."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, cast

from heatlite.clients.cloud import Ambiguous, CloudNotFound, NameNotFound
from heatlite.clients.finders import Finders
from heatlite.core.json import Json, JsonMap, as_map, as_maps
from heatlite.plugin import CloudResource
from heatlite.resources.cinder import attaching
from heatlite.resources.neutron.port_extra import EXTRA, as_port_has, extra_of
from heatlite.resources.nova import disks
from heatlite.resources.nova.networks import Ports, is_placed

VOLUMES: Final = "os-extended-volumes:volumes_attached"


class Attachments:
    """The interfaces, security groups and volumes of one server."""

    def __init__(self, server: CloudResource[Any], finders: Finders) -> None:
        self._server = server
        self._finders = finders
        self._ports = Ports(server)
        self._given = server.facts.properties

    def groups(self) -> list[Json] | None:
        """Return the ids of the security groups; None for the default of ports."""
        names = cast(list[Json], self._given.get("security_groups") or [])
        return [self._finders.id_of("neutron.security_group", str(name)) for name in names] or None

    def live(self) -> Iterator[tuple[str, list[Json]]]:
        """Yield the properties that the template gives, as the server has them."""
        networks = self._networks(as_maps(self._given.get("networks")))
        if self._given.get("networks") is not None and networks is not None:
            yield "networks", networks
        with suppress(NameNotFound, Ambiguous):  # what such a name stood for is not known
            if (groups := self.groups()) and (ports := self._grouped()):
                yield "security_groups", self._live_groups(groups, ports)
        attached = {one["id"] for one in as_maps(self._server.fetched.get(VOLUMES))}
        for name in disks.FORMS:
            if given := as_maps(self._given.get(name)):
                known = as_maps(self._server.known({name: cast(Json, given)})[name])
                pairs = zip(given, known, strict=True)
                yield name, [item for item, disk in pairs if disk.get("volume_id") in (None, *attached)]

    def _networks(self, given: list[JsonMap]) -> list[Json] | None:
        """Return the networks of the server; None: its ports are not known.

        Interfaces that a resource of the project has attached are left out.
        """
        allocates = given[0].get("allocate_network") if given else None
        if given and not self._ports.nics and allocates is None:
            return None
        held = {str(one["port_id"]): one for one in self._ports.interfaces()}
        if allocates == "auto":
            return [*given] if held else []
        found: list[Json] = [*given] if allocates is not None and not held else []
        for item, nic in zip(given, self._ports.nics, strict=False):
            interface = held.pop(str(nic["port"]), None)
            if interface is not None:
                found.append(self._network(item, nic, interface))
        further = [port for port in held if not any(True for _ in self._server.facts.holders(port))]
        return [*found, *({"port": port} for port in further)]

    def _network(self, item: JsonMap, nic: JsonMap, interface: JsonMap) -> JsonMap:
        """Return a given network as the server has it."""
        spec = as_map(nic["spec"])
        if spec.get("floating_ip") is not None and not self._leads_to(spec["floating_ip"], nic["port"]):
            item = {name: value for name, value in item.items() if name != "floating_ip"}
        if not nic["made"]:
            return item
        if item.get(EXTRA) is not None:
            (known,) = as_maps(self._server.known({"networks": [item]})["networks"])
            extra = as_port_has(as_map(item[EXTRA]), as_map(known[EXTRA]), self._ports.port(str(nic["port"])))
            item = {**item, EXTRA: extra}
        if is_placed(interface, spec):
            return item
        kept = {name: value for name, value in item.items() if name not in ("fixed_ip", "subnet")}
        addresses = [one["ip_address"] for one in as_maps(interface["fixed_ips"])]
        return {"network": interface["net_id"], **kept, **({"fixed_ip": addresses[0]} if addresses else {})}

    def _leads_to(self, floating_ip: Json, port: Json) -> bool:
        try:
            return as_map(self._server.cloud.call("network.get_ip", floating_ip)).get("port_id") == port
        except CloudNotFound:
            return False

    def _live_groups(self, groups: list[Json], ports: list[JsonMap]) -> list[Json]:
        """Return the security groups that the ports have, given ones as they are."""
        given = cast(list[Json], self._given["security_groups"])
        held = [cast(list[Json], one["security_groups"]) for one in ports]
        kept = [name for name, key in zip(given, groups, strict=True) if all(key in some for some in held)]
        return [*kept, *dict.fromkeys(key for some in held for key in some if key not in groups)]

    def set_groups(self) -> None:
        """Give the server's own ports its security groups."""
        for port in self._grouped():
            self._server.cloud.call("network.update_port", port["id"], security_groups=self.groups() or [])

    def _grouped(self) -> list[JsonMap]:
        """Return the ports that have the server's security groups.

        Those are its own, or those that the service has made.
        """
        own = {nic["port"]: extra_of(as_map(nic["spec"])) for nic in self._ports.nics if nic["made"]}
        ports = as_maps(self._server.cloud.call("network.ports", device_id=self._server.physical_id))
        mine = [one for one in ports if one["id"] in own] if self._ports.nics else ports
        return [one for one in mine if "security_groups" not in own.get(one["id"], {})]

    def has_volumes(self) -> bool:
        """Attach volumes that the server has lost. Returns True if it has all."""
        given: JsonMap = {name: self._given.get(name) for name in disks.FORMS}
        server, volumes = str(self._server.physical_id), sorted(map(str, disks.volumes_of(self._server.known(given))))
        for volume in volumes:
            attaching.attach(self._server.cloud, server, volume, None)
        return all(attaching.is_attached(self._server.cloud, server, volume) for volume in volumes)
