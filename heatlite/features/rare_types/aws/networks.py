"""Virtual private clouds: network with router, subnets, route tables, gateways."""

from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap, as_maps
from heatlite.features.rare_types.aws.base import Tag
from heatlite.plugin import Absent, Change, CloudResource, Resource, Schema, SupportStatus, Unhealthy, prop
from heatlite.plugin.cloud import delete_other
from heatlite.plugin.naming import UUID
from heatlite.resources.neutron.base import overlap
from heatlite.template.expression import UNKNOWN


def router_of(resource: CloudResource[Schema], network: Json) -> str | None:
    """Return the router of a VPC: it has the same name as the network."""
    return router_called(resource, resource.map(resource.cloud.call("network.get_network", network))["name"])


def router_called(resource: CloudResource[Schema], name: Json) -> str | None:
    """Return the router of that name."""
    found = cast(list[JsonMap], resource.cloud.call("network.routers", name=name))
    return str(found[0]["id"]) if found else None


def external_network(resource: CloudResource[Schema]) -> str:
    """Return the external network. Raises CloudNotFound unless there is exactly one."""
    query: JsonMap = {"router:external": True}
    found = cast(list[JsonMap], resource.cloud.call("network.networks", **query))
    if len(found) != 1:
        text = f"there are {len(found)} external networks, and one is needed for an internet gateway"
        raise CloudNotFound("network.networks", text)
    return str(found[0]["id"])


def connect(resource: CloudResource[Schema], router: str, subnet: Json) -> None:
    """Connect a router to a subnet, unless it is connected already."""
    ports = cast(list[JsonMap], resource.cloud.call("network.ports", device_id=router))
    if not any(_lies_in(port, subnet) for port in ports):
        resource.cloud.call("network.add_interface_to_router", router, subnet)


def disconnect(resource: CloudResource[Schema], router: str | None, subnet: Json) -> None:
    """Disconnect a router from a subnet, unless either is gone."""
    if router is not None:
        with suppress(CloudNotFound):
            resource.cloud.call("network.remove_interface_from_router", router, subnet)


def _lies_in(port: JsonMap, subnet: Json) -> bool:
    return any(one.get("subnet_id") == subnet for one in cast(list[JsonMap], port.get("fixed_ips") or []))


class VPCProps(Schema):
    cidr_block: str | None = prop(alias="CidrBlock", api="", doc="The address range of its subnets.")
    tenancy: str = prop(
        "default", alias="InstanceTenancy", one_of=("default", "dedicated"), api="", doc="Without effect."
    )
    tags: list[Tag] | None = prop(alias="Tags", api="", doc="Without effect.")


class VPC(CloudResource[VPCProps], type="AWS::EC2::VPC", kind="network.network"):
    """A network with a router of the same name. The physical id is the network's id."""

    counts = ("network.network", "network.router")

    def check_create_complete(self, token: Json) -> bool | float:
        if router_of(self, self.physical_id) is None:
            self.service("create_router", name=self.physical_name)
        return True

    def handle_delete(self) -> Json:
        if self.physical_id is None:
            return None
        try:
            router = router_of(self, self.physical_id)
        except CloudNotFound:  # the network is gone, and the router is left
            router = router_called(self, self.physical_name)
        super().handle_delete()  # first, as the service may refuse it: then nothing is deleted
        if router is not None:
            delete_other(self.cloud, "network.router", router)
        return None

    def handle_check(self) -> Json:
        with self.absent_if_missing():
            network = self.fetch()
        if router_of(self, network["id"]) is None:
            raise Absent(f"network.routers: the router {self.physical_name} is gone")
        return None


class SubnetProps(Schema):
    availability_zone: str | None = prop(
        alias="AvailabilityZone", api="", doc="The value of its attribute AvailabilityZone; otherwise without effect."
    )
    cidr_block: str = prop(alias="CidrBlock", api="cidr", doc="Its addresses.")
    vpc_id: str = prop(alias="VpcId", api="network_id", doc="The VPC, by id.")
    tags: list[Tag] | None = prop(alias="Tags", api="", doc="Without effect.")


class Subnet(CloudResource[SubnetProps], type="AWS::EC2::Subnet", kind="network.subnet"):
    """A subnet of a VPC, connected to the VPC's router."""

    counts = ("network.subnet", "network.port")
    keeps_joined = True
    blocks = frozenset({"AWS::EC2::VPC"})

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other subnet is in the same VPC and overlaps with this one."""
        own = self.facts.properties
        cidrs = [[values.get("CidrBlock")] for values in (own, properties)]
        return own["VpcId"] == properties.get("VpcId") and overlap(*cidrs)

    def create_args(self) -> JsonMap:
        return {**self.sent(), "ip_version": 4}

    def check_create_complete(self, token: Json) -> bool | float:
        router = router_of(self, self.props.vpc_id)
        if router is not None:
            connect(self, router, self.physical_id)
        return True

    def handle_delete(self) -> Json:
        self.free()
        if self.physical_id is not None:
            with suppress(CloudNotFound):
                disconnect(self, router_of(self, self.props.vpc_id), self.physical_id)
        return super().handle_delete()

    def attr_AvailabilityZone(self) -> str | None:  # noqa: N802 - Amazon's
        """The availability zone from the template."""
        return self.props.availability_zone


class InternetGatewayProps(Schema):
    tags: list[Tag] | None = prop(alias="Tags", doc="Without effect.")


class InternetGateway(Resource[InternetGatewayProps], type="AWS::EC2::InternetGateway"):
    """Stands for the external network; nothing is created.

    An AWS::EC2::VPCGatewayAttachment connects a VPC to it.
    """

    quick = True

    def handle_create(self) -> Json:
        self.physical_id = self.physical_name
        return None


class VPCGatewayAttachmentProps(Schema):
    vpc_id: str = prop(alias="VpcId", doc="The VPC, by id.")
    internet_gateway_id: str | None = prop(alias="InternetGatewayId", doc="The internet gateway.")
    vpn_gateway_id: str | None = prop(alias="VpnGatewayId", doc="Without effect.")


class VPCGatewayAttachment(
    CloudResource[VPCGatewayAttachmentProps], type="AWS::EC2::VPCGatewayAttachment", kind="network.router"
):
    """Connects the route tables of a VPC to the external network.

    The physical id is the VPC's id.
    """

    shares_object = True
    after = frozenset({"AWS::EC2::RouteTable", "AWS::EC2::Subnet"})
    joins = frozenset({"AWS::EC2::RouteTable"})
    searched = False  # setting a gateway is idempotent

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:  # noqa: ARG003
        """True for the route tables and subnets of the same VPC, as in Heat."""
        vpc = own.get("VpcId")
        return vpc is not UNKNOWN and vpc == other.get("VpcId")

    def _tables(self) -> list[JsonMap]:
        return cast(list[JsonMap], self.service("routers", description=table_of(self.physical_id or self.props.vpc_id)))

    def handle_create(self) -> Json:
        outside = external_network(self)
        self.physical_id = self.props.vpc_id
        for table in self._tables():
            self.service("update_router", table["id"], external_gateway_info={"network_id": outside})
        return None

    def handle_update(self, change: Change) -> Json:
        """Set the gateway of route tables that are new."""
        return self.handle_create()

    def handle_delete(self) -> Json:
        if self.physical_id is not None and not self.is_passed_on:
            for table in self._tables():
                with suppress(CloudNotFound):
                    self.service("update_router", table["id"], external_gateway_info=None)
        return None

    def fetch(self) -> JsonMap:
        if not self._tables():
            raise CloudNotFound("network.routers", f"VPC {self.physical_id} has no route table")
        return {}

    def handle_check(self) -> Json:
        for table in self._tables():
            if not table.get("external_gateway_info"):
                raise Unhealthy(f"network.routers: route table {table['id']} does not lead to the outside")
        return None


class RouteTableProps(Schema):
    vpc_id: str = prop(alias="VpcId", api="", doc="The VPC, by id.")
    tags: list[Tag] | None = prop(alias="Tags", api="", doc="Without effect.")


class RouteTable(CloudResource[RouteTableProps], type="AWS::EC2::RouteTable", kind="network.router"):
    """A router for subnets of a VPC that need routes of their own."""

    counts = ("network.router",)
    support_status = SupportStatus(version="2014.1")

    def create_args(self) -> JsonMap:
        return {"description": table_of(self.props.vpc_id)}


def table_of(vpc: str) -> str:
    """Return the description that identifies the route tables of a VPC."""
    return f"route table of {vpc}"


class SubnetRouteTableAssociationProps(Schema):
    route_table_id: str = prop(alias="RouteTableId", doc="The route table, by id.")
    subnet_id: str = prop(alias="SubnetId", find="neutron.subnet", doc="The subnet, by name or id.")


class SubnetRouteTableAssociation(
    CloudResource[SubnetRouteTableAssociationProps],
    type="AWS::EC2::SubnetRouteTableAssociation",
    kind="network.router_interface",
):
    """Connects a subnet to a route table instead of the VPC's own router."""

    alone = frozenset({"SubnetId"})
    blocks = frozenset({"AWS::EC2::RouteTable", "AWS::EC2::Subnet"})
    searched = False  # connecting is idempotent

    def _beside(self, other: object) -> "SubnetRouteTableAssociation | None":
        """Return the predecessor or successor `other` if it is about the same subnet."""
        if not isinstance(other, SubnetRouteTableAssociation) or other.physical_id is None:
            return None
        return other if other.props.subnet_id == self.props.subnet_id else None

    def _own_router(self) -> str | None:
        subnet = self.map(self.service("get_subnet", self.props.subnet_id))
        return router_of(self, subnet["network_id"])

    def handle_create(self) -> Json:
        self.physical_id = f"{self.props.route_table_id}:{self.props.subnet_id}"
        former = self._beside(self.facts.former())
        if former is not None and former.props.route_table_id != self.props.route_table_id:
            disconnect(self, former.props.route_table_id, self.props.subnet_id)
        disconnect(self, self._own_router(), self.props.subnet_id)
        connect(self, self.props.route_table_id, self.props.subnet_id)
        return None

    def handle_delete(self) -> Json:
        if self.physical_id is None or self._beside(self.facts.latter()) is not None:
            return None
        self.free()
        with suppress(CloudNotFound):
            disconnect(self, self.props.route_table_id, self.props.subnet_id)
            router = self._own_router()
            if router is not None:
                connect(self, router, self.props.subnet_id)
        return None

    def fetch(self) -> JsonMap:
        table, _, subnet = str(self.physical_id).partition(":")
        for port in cast(list[JsonMap], self.service("ports", device_id=table)):
            if _lies_in(port, subnet):
                return port
        raise CloudNotFound("network.ports", f"route table {table} does not reach subnet {subnet}")


class NetworkInterfaceProps(Schema):
    description: str | None = prop(alias="Description", api="description", doc="Its description.")
    group_set: list[Json] | None = prop(
        alias="GroupSet",
        update=True,
        resolve="neutron.security_group",
        api="security_groups",
        doc="Its security groups, by names or ids.",
    )
    address: str | None = prop(alias="PrivateIpAddress", blank=True, api="", doc="Its address.")
    source_dest_check: bool | None = prop(alias="SourceDestCheck", api="", doc="Without effect.")
    subnet_id: str = prop(alias="SubnetId", find="neutron.subnet", api="", doc="The subnet, by name or id.")
    tags: list[Tag] | None = prop(alias="Tags", api="", doc="Without effect.")


class NetworkInterface(CloudResource[NetworkInterfaceProps], type="AWS::EC2::NetworkInterface", kind="network.port"):
    """A port in a subnet."""

    counts = ("network.port",)
    alone = frozenset({"SubnetId", "PrivateIpAddress"})
    blocks = frozenset({"AWS::EC2::Subnet", "OS::Neutron::Subnet"})
    puts_back = alone

    def create_args(self) -> JsonMap:
        network = self.map(self.service("get_subnet", self.props.subnet_id))["network_id"]
        return {**self.sent(), "network_id": network, "admin_state_up": True, "fixed_ips": [self._place()]}

    def _place(self) -> JsonMap:
        address = {} if self.props.address is None else {"ip_address": self.props.address}
        return {"subnet_id": self.props.subnet_id, **address}

    def update_args(self, change: Change) -> JsonMap:
        args: JsonMap = {key: [] if value is None else value for key, value in super().update_args(change).items()}
        return args if self.alone.isdisjoint(change.changed) else {**args, "fixed_ips": [self._place()]}

    def live_parts(self, thing: JsonMap) -> JsonMap:
        addresses, given = as_maps(thing.get("fixed_ips")), self.facts.properties
        parts: JsonMap = {}
        subnet = self.known({"SubnetId": given.get("SubnetId")})["SubnetId"]
        is_known = UUID.fullmatch(str(subnet)) is not None
        for name, key, wanted in (
            ("SubnetId", "subnet_id", subnet if is_known else None),
            ("PrivateIpAddress", "ip_address", given.get("PrivateIpAddress")),
        ):
            held = [one[key] for one in addresses]
            if wanted is not None:
                parts[name] = given[name] if wanted in held else next(iter(held), None)
        return parts

    def attr_PrivateIpAddress(self) -> str | None:  # noqa: N802 - Amazon's
        """Its address."""
        addresses = cast(list[JsonMap], self.fetched.get("fixed_ips") or [])
        return str(addresses[0]["ip_address"]) if addresses else None
