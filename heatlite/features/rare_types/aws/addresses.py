"""Public addresses of machines."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.features.rare_types.aws.base import first_port, leads_to_machine
from heatlite.features.rare_types.aws.networks import external_network
from heatlite.plugin import Change, CloudResource, Resource, Schema, prop
from heatlite.plugin.naming import UUID
from heatlite.resources.neutron.floating_ips import JOINED, WAYS_OUT, leads_by

AMAZONS = frozenset({"AWS::EC2::VPCGatewayAttachment", "AWS::EC2::SubnetRouteTableAssociation"})
BEFORE = AMAZONS | JOINED | WAYS_OUT
"""Types that have to exist before an address can be associated with a machine."""


class EIPProps(Schema):
    domain: str | None = prop(alias="Domain", one_of=("vpc",), doc="Without effect.")
    instance_id: str | None = prop(
        alias="InstanceId", update=True, find="nova.server", doc="The machine to associate it with, by name or id."
    )


class EIP(CloudResource[EIPProps], type="AWS::EC2::EIP", kind="network.ip"):
    """A floating IP. Its id is the address."""

    counts = ("network.floatingip",)
    after = BEFORE
    joins = AMAZONS | JOINED
    alone = frozenset({"InstanceId"})

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:  # noqa: ARG003
        """Return True: an address comes after all ports, gateways and route tables."""
        return True

    def identity(self) -> JsonMap:
        return {"description": self.physical_name}

    def find(self) -> str | None:
        found = cast(list[JsonMap], self.service("ips", description=self.physical_name))
        return self._take(found[0]) if len(found) == 1 else None

    def _take(self, thing: JsonMap) -> str:
        self.data["allocation_id"] = thing["id"]
        return str(thing["floating_ip_address"])

    @property
    def address(self) -> tuple[Json, ...]:
        return (self.data.get("allocation_id"),)

    def handle_create(self) -> Json:
        if self.physical_id is None:
            args = {"floating_network_id": external_network(self), **self.identity()}
            self.physical_id = self._take(self.map(self.service("create_ip", **args)))
        return None

    def check_create_complete(self, token: Json) -> bool | float:
        if self.props.instance_id is not None:
            self._lead()
        return True

    def handle_adopt(self) -> None:
        """Find the floating IP, whose address the recorded id is."""
        if "allocation_id" not in self.data and self.physical_id is not None:
            self._take(ip_at(self, self.physical_id))

    def fetch(self) -> JsonMap:
        self.handle_adopt()  # an external one was not adopted
        return super().fetch()

    def handle_update(self, change: Change) -> Json:
        if change.changed or not leads_to_machine(self, self.fetched):
            self._lead()
        return None

    def check_update_complete(self, token: Json) -> bool | float:
        return True

    def detach_from(self, gone: Resource[Schema]) -> None:
        if leads_by(self.fetched, gone):
            with suppress(CloudNotFound):
                self.service("update_ip", self.data["allocation_id"], port_id=None)

    def _lead(self) -> None:
        port = None if self.props.instance_id is None else first_port(self, self.props.instance_id)
        former = self.facts.former()
        if isinstance(former, EIP) and former.fetched.get("port_id") == port is not None:
            self.service("update_ip", former.data["allocation_id"], port_id=None)
        self.service("update_ip", self.data["allocation_id"], port_id=port)

    def handle_delete(self) -> Json:
        try:
            self.handle_adopt()  # its adoption may have failed
        except CloudNotFound:
            return None
        return super().handle_delete()

    def live_properties(self) -> Mapping[str, Json] | None:
        if not self.fetched:
            return None
        given = self.facts.properties.get("InstanceId")
        if given is None:
            return {}
        wanted, machine = self.known({"InstanceId": given})["InstanceId"], self._machine()
        is_known = UUID.fullmatch(str(wanted))  # else the name leads nowhere any more
        return {"InstanceId": machine if is_known and wanted != machine else given}

    def _machine(self) -> Json:
        """Return the id of the machine that it leads to."""
        if self.fetched.get("port_id") is None:
            return None
        try:
            return self.map(self.service("get_port", self.fetched["port_id"])).get("device_id") or None
        except CloudNotFound:
            return None

    def attr_AllocationId(self) -> str | None:  # noqa: N802 - Amazon's
        """The id of the floating IP."""
        return cast(str | None, self.data.get("allocation_id") or self.fetched.get("id"))


def ip_at(resource: CloudResource[Any], address: str) -> JsonMap:
    """Return the floating IP with an address. Raises CloudNotFound, CloudError."""
    found = cast(list[JsonMap], resource.service("ips", floating_ip_address=address))
    if not found:
        raise CloudNotFound("network.ips", f"there is no floating IP {address}")
    return found[0]


class EIPAssociationProps(Schema):
    allocation_id: str | None = prop(
        alias="AllocationId", update=True, blank=True, doc="The floating IP, by its AllocationId."
    )
    eip: str | None = prop(alias="EIP", update=True, custom="ip_addr", doc="The floating IP, by its address.")
    instance_id: str | None = prop(
        alias="InstanceId", update=True, find="nova.server", doc="The machine to associate it with, by name or id."
    )
    network_interface_id: str | None = prop(
        alias="NetworkInterfaceId", update=True, blank=True, doc="The network interface to associate it with, by id."
    )

    def fault_address(self) -> str | None:
        if (self.eip is None) is (self.allocation_id is None):
            return "either EIP or AllocationId must be given, and not both"
        return None

    def fault_target(self) -> str | None:
        if self.instance_id is None and (self.given("EIP") or self.network_interface_id is None):
            return "InstanceId must be given, or with AllocationId NetworkInterfaceId"
        return None


class EIPAssociation(CloudResource[EIPAssociationProps], type="AWS::EC2::EIPAssociation", kind="network.ip"):
    """Associates a floating IP with a machine."""

    shares_object = True
    after = BEFORE
    joins = AMAZONS | JOINED
    comes_after = EIP.comes_after
    searched = False  # associating is idempotent

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other resource associates another address with the same machine."""
        names = (("EIP", "AllocationId"), ("InstanceId", "NetworkInterfaceId"))
        both = (self.facts.properties, properties)
        whence, where = ([[one.get(name) for name in pair] for one in both] for pair in names)
        return whence[0] != whence[1] and where[0] == where[1]

    def fetch(self) -> JsonMap:
        self.handle_adopt()  # an external one was not adopted
        thing = self.map(self.service("get_ip", self.data.get("ip")))
        if thing.get("port_id") != self.data.get("port") or thing.get("port_id") is None:
            raise CloudNotFound("network.get_ip", f"{thing['floating_ip_address']} leads elsewhere")
        return thing

    def handle_create(self) -> Json:
        props = self.props
        ip, port = self._ip(), props.network_interface_id or first_port(self, str(props.instance_id))
        self.service("update_ip", ip, port_id=port)
        self.data.update(ip=ip, port=port)
        self.physical_id = props.eip or props.allocation_id
        return None

    def _ip(self) -> str:
        """Return the id of the floating IP.

        Without properties the physical id tells it, which is made from them.
        """
        key = self.props.allocation_id or self.props.eip or str(self.physical_id)
        return key if UUID.fullmatch(key) else str(ip_at(self, key)["id"])

    def handle_adopt(self) -> None:
        """Record what is associated."""
        if "ip" not in self.data and self.physical_id is not None:
            thing = self.map(self.service("get_ip", self._ip()))
            self.data.update(ip=thing["id"], port=thing.get("port_id"))

    def handle_update(self, change: Change) -> Json:
        if not change.changed and leads_to_machine(self, self.fetched):
            return None
        if {"EIP", "AllocationId"} & change.changed:
            self._part()
        return self.handle_create()

    def detach_from(self, gone: Resource[Schema]) -> None:
        if leads_by(self.fetched, gone):
            self._part()

    def _part(self) -> None:
        with suppress(CloudNotFound):
            self.fetch()
            self.service("update_ip", self.data["ip"], port_id=None)

    def handle_delete(self) -> Json:
        if self.data.get("ip") is not None and not self.is_passed_on:
            self._part()
        return None

    def live_properties(self) -> Mapping[str, Json] | None:
        return {} if self.fetched else None
