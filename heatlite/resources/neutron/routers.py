"""Routers, their interfaces, gateways and routes."""

from collections.abc import Iterable, Mapping
from typing import cast

from heatlite.clients.cloud import CloudConflict
from heatlite.core.json import Json, JsonMap, as_maps
from heatlite.plugin import Change, CloudNotFound, Resource, Schema, SupportStatus, prop
from heatlite.plugin.needs import Find, Need
from heatlite.resources.neutron.base import HostedResource, Link, Tagged, ValueSpecs, asked, same


class ExternalFixedIP(Schema):
    ip_address: str | None = prop(custom="ip_addr", doc="The address; default: a free one.")
    subnet: str | None = prop(find="neutron.subnet", api="subnet_id", doc="The subnet, by name or id.")


class ExternalGateway(Schema):
    network: str = prop(
        update=True, resolve="neutron.network", api="network_id", doc="The external network, by name or id."
    )
    enable_snat: bool | None = prop(update=True, doc="True if it translates source addresses (SNAT).")
    external_fixed_ips: list[ExternalFixedIP] | None = prop(update=True, doc="Its addresses in the external network.")


class RouterProps(ValueSpecs, Tagged):
    name: str | None = prop(update=True, doc="Its name.")
    external_gateway_info: ExternalGateway | None = prop(update=True, doc="Its external gateway.")
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")
    l3_agent_ids: list[str] | None = prop(
        update=True, api="", doc="The L3 agents that host it; only administrators may set them."
    )
    l3_agent_id: str | None = prop(
        update=True, blank=True, hidden=True, means="l3_agent_ids", api="", doc="An old name of l3_agent_ids, for one."
    )
    distributed: bool | None = prop(doc="True if it is distributed to all hosts; only administrators may set it.")
    ha: bool | None = prop(doc="True if it is highly available; only administrators may set it.")
    availability_zone_hints: list[Json] | None = prop(update=True, doc="Availability zones that it may run in.")
    tenant_id: str | None = prop(blank=True, doc="The project that owns it; only administrators may set it.")


class Router(HostedResource[RouterProps], type="OS::Neutron::Router", kind="network.router"):
    """A router: it forwards packets between networks."""

    counts = ("network.router",)
    ready = HostedResource.WORKING
    agent_ids = "l3_agent_ids"
    agent_calls = ("routers_hosting_l3_agents", "add_router_to_agent", "remove_router_from_agent")
    shown = {
        "status": (str, "ACTIVE if it carries traffic."),
        "external_gateway_info": (dict, "Its external gateway."),
        "name": (str, "Its name."),
        "admin_state_up": (str, "True if it is administratively up."),
        "tenant_id": (str, "The project that owns it."),
    }
    after = frozenset({"OS::Neutron::Subnet"})

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:  # noqa: ARG003
        """True for its external network's subnets, which give it an address, as in Heat."""
        gateway = own.get("external_gateway_info")
        return isinstance(gateway, Mapping) and same(gateway, "network", other, "network")


class RouterInterfaceProps(Schema):
    router: str = prop(find="neutron.router", doc="The router, by name or id.")
    router_id: str | None = prop(
        hidden=True, find="neutron.router", means="router", api="", doc="An old name of router."
    )
    subnet: str | None = prop(find="neutron.subnet", doc="The subnet that is connected, by name or id.")
    subnet_id: str | None = prop(
        hidden=True, find="neutron.subnet", means="subnet", api="", doc="An old name of subnet."
    )
    port: str | None = prop(find="neutron.port", doc="The port by which the router is connected, by name or id.")
    port_id: str | None = prop(hidden=True, find="neutron.port", means="port", api="", doc="An old name of port.")

    def fault(self) -> str | None:
        if (self.subnet is None) == (self.port is None):
            return "Either subnet or port must be given, and not both"
        return None


class RouterInterface(
    Link[RouterInterfaceProps], type="OS::Neutron::RouterInterface", kind="network.router_interface"
):
    """Connects a subnet to a router.

    The physical id is ``router:subnet_id=…``, or ``router:port_id=…`` if a port is given.
    """

    counts = ("network.port",)  # of the router
    joins = frozenset({"OS::Neutron::Router", "OS::Neutron::Subnet"})
    blocks = frozenset({"OS::Neutron::Port"})

    @classmethod
    def needs(cls, given: Mapping[str, object], find: Find) -> Iterable[Need]:
        """Nothing beside a port that is given."""
        return [] if given.get("port") else super().needs(given, find)

    def detach_from(self, gone: Resource[Schema]) -> None:
        if str(gone.physical_id) in str(self.physical_id):
            super().detach_from(gone)

    def takes(self, other: Resource[Schema]) -> bool:
        """True for the router's port, which is deleted with the interface."""
        return other.physical_id is not None and other.physical_id == self.facts.properties.get("port")

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other interface has the same router, subnet or port.

        An identical interface is taken over instead, because floating IPs may need it.
        """
        names = ("router", "subnet", "port")
        own, new = [[values.get(name) for name in names] for values in (self.facts.properties, properties)]
        if own == new:
            return self.facts.leaves
        return any(one is not None and one == other for one, other in zip(own, new, strict=True))

    def handle_create(self) -> Json:
        props = self.props
        if not (self.inherits and self.alike()):
            self.service("add_interface_to_router", props.router, props.subnet, props.port)
        self.physical_id = self.key()
        return None

    def key(self) -> str:
        props = self.props
        return f"{props.router}:" + (f"port_id={props.port}" if props.port else f"subnet_id={props.subnet}")

    @staticmethod
    def _place(physical_id: str) -> tuple[str, str, str]:
        """Return the router, ``subnet`` or ``port``, and its id, as of the creation."""
        router, _, place = physical_id.partition(":")
        kind, _, key = place.partition("_id=")
        return router, kind, key

    def fetch(self) -> JsonMap:
        """Return the router's port."""
        if self.physical_id is None:
            raise CloudNotFound("network.ports", f"{self.name} has not been made")
        return self._port(self.physical_id)

    def _port(self, physical_id: str) -> JsonMap:
        router, kind, key = self._place(physical_id)
        for port in cast(list[JsonMap], self.service("ports", device_id=router)):
            places = [one["subnet_id"] for one in cast(list[JsonMap], port["fixed_ips"])]
            if port["id"] == key or kind == "subnet" and key in places:
                return port
        raise CloudNotFound("network.ports", f"Router {router} does not have an interface with {kind} {key}")

    def alike(self) -> list[JsonMap]:
        try:
            self._port(self.key())
        except CloudNotFound:
            return []
        return [{"id": self.key()}]

    def undo(self, physical_id: str) -> None:
        router, kind, key = self._place(physical_id)
        subnet, port = (key, None) if kind == "subnet" else (None, key)
        self.service("remove_interface_from_router", router, subnet, port)


class RouterGatewayProps(Schema):
    router_id: str = prop(find="neutron.router", doc="The router, by name or id.")
    network: str | None = prop(find="neutron.network", doc="The external network, by name or id.")
    network_id: str | None = prop(
        hidden=True, find="neutron.network", means="network", api="", doc="An old name of network."
    )

    def fault(self) -> str | None:
        return "Property network not assigned" if self.network is None else None


class RouterGateway(Link[RouterGatewayProps], type="OS::Neutron::RouterGateway", kind="network.router_gateway"):
    """Connects a router to an external network.

    A router's external_gateway_info does the same.
    """

    support_status = SupportStatus("HIDDEN", "5.0.0", "Give the router external_gateway_info instead.")
    after = frozenset({"OS::Neutron::RouterInterface", "OS::Neutron::Subnet"})
    searched = False  # setting the gateway is idempotent

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:
        """True for its router's interfaces and its network's subnets, as in Heat."""
        if kind == "OS::Neutron::Subnet":
            return same(own, "network", other, "network")
        return same(own, "router", other, "router")

    def handle_create(self) -> Json:
        props = self.props
        self.service("update_router", props.router_id, external_gateway_info={"network_id": props.network})
        self.physical_id = f"{props.router_id}:{props.network}"
        return None

    def fetch(self) -> JsonMap:
        """Return the router's gateway."""
        router, _, network = str(self.physical_id).partition(":")
        if self.physical_id is not None:
            gateway = self.map(self.service("get_router", router)).get("external_gateway_info")
            if isinstance(gateway, dict) and gateway.get("network_id") == network:
                return gateway
        raise CloudNotFound("network.get_router", f"Router {router} has no gateway to network {network}")

    def undo(self, physical_id: str) -> None:
        self.fetch()  # another gateway may have been set since
        self.service("update_router", physical_id.partition(":")[0], external_gateway_info=None)


class Route(Schema):
    destination: str = prop(custom="net_cidr", doc="The destination network.")
    nexthop: str = prop(custom="ip_addr", doc="The address of the next hop.")


class ExtraRouteProps(Schema):
    router_id: str = prop(find="neutron.router", doc="The router, by name or id.")
    destination: str = prop(doc="The destination network.")
    nexthop: str = prop(doc="The address of the next hop.")


class ExtraRoute(Link[ExtraRouteProps], type="OS::Neutron::ExtraRoute", kind="network.router"):
    """An additional route of a router; OS::Neutron::ExtraRouteSet sets several.

    The physical id is ``router:destination:nexthop``.
    """

    support_status = SupportStatus("UNSUPPORTED", None, "Use OS::Neutron::ExtraRouteSet instead.")
    after = frozenset({"OS::Neutron::RouterInterface", "OS::Neutron::RouterGateway"})
    joins = frozenset({"OS::Neutron::RouterInterface"})
    searched = False  # adding a route is idempotent

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:  # noqa: ARG003
        """True for the interfaces and gateways of its router, as in Heat."""
        return same(own, "router", other, "router")

    def _ask(self, verb: str) -> None:
        route: JsonMap = {"destination": self.props.destination, "nexthop": self.props.nexthop}
        self.service(verb, self.props.router_id, {"router": {"routes": [route]}})

    def key(self) -> str:
        return f"{self.props.router_id}:{self.props.destination}:{self.props.nexthop}"

    def handle_create(self) -> Json:
        self._ask("add_extra_routes_to_router")
        self.physical_id = self.key()
        return None

    def fetch(self) -> JsonMap:
        """Return the route. Raises CloudNotFound unless the router has it."""
        router, _, route = str(self.physical_id).partition(":")
        for one in as_maps(self.map(self.service("get_router", router)).get("routes")):
            if f"{one['destination']}:{one['nexthop']}" == route:
                return one
        raise CloudNotFound("network.get_router", f"Router {router} has no route {route}")

    def undo(self, physical_id: str) -> None:
        self._ask("remove_extra_routes_from_router")


class ExtraRouteSetProps(Schema):
    router: str = prop(find="neutron.router", doc="The router, by name or id.")
    routes: list[Route] = prop([], update=True, doc="The routes; routes from other sources are not touched.")


class ExtraRouteSet(Link[ExtraRouteSetProps], type="OS::Neutron::ExtraRouteSet", kind="network.router"):
    """Additional routes of a router, besides those to its connected networks."""

    support_status = SupportStatus(version="14.0.0")
    shares_object = True
    alone = frozenset({"router"})
    after = frozenset({"OS::Neutron::RouterInterface", "OS::Neutron::RouterGateway"})
    joins = frozenset({"OS::Neutron::RouterInterface"})

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:  # noqa: ARG003
        """True for its router's interfaces and gateways, the next hops, as in Heat."""
        return same(own, "router", other, "router")

    def detach_from(self, gone: Resource[Schema]) -> None:
        """Remove the routes if an interface of the router is about to be deleted."""
        if str(gone.physical_id).partition(":")[0] == str(self.physical_id).partition(":")[0]:
            super().detach_from(gone)

    def handle_create(self) -> Json:
        known, routes = self._known(), self._routes(self.facts.properties)
        twins = [one for one in routes if one in known]
        if twins:
            raise CloudConflict("network.add_extra_routes_to_router", f"Route duplicates an existing route: {twins}")
        self._call("add_extra_routes_to_router", routes)
        self.physical_id = f"{self.props.router}:{self.physical_name}"
        return None

    @staticmethod
    def _routes(properties: Mapping[str, object]) -> list[Json]:
        """Return the routes in coerced properties."""
        routes = properties.get("routes")
        return list(routes) if isinstance(routes, list) else []

    @property
    def _router(self) -> str:
        return self.props.router if self.physical_id is None else self.physical_id.partition(":")[0]

    def _known(self) -> list[Json]:
        return cast(list[Json], self.map(self.service("get_router", self._router)).get("routes") or [])

    def _call(self, verb: str, routes: list[Json]) -> None:
        if routes:
            self.service(verb, self._router, {"router": {"routes": routes}})

    def fetch(self) -> JsonMap:
        """Return the routes. Raises CloudNotFound unless the router has all of them."""
        known = self._known() if self.physical_id is not None else []
        lost = [one for one in self._routes(self.facts.before or self.facts.properties) if one not in known]
        if lost or self.physical_id is None:
            raise CloudNotFound("network.get_router", f"Router {self._router} has no route {lost}")
        return {"routes": self._routes(self.facts.properties)}

    def alike(self) -> list[JsonMap]:
        routes, known = self._routes(self.facts.properties), self._known()
        has_all = routes and all(one in known for one in routes)
        return [{"id": f"{self.props.router}:{self.physical_name}"}] if has_all else []

    def handle_update(self, change: Change) -> Json:
        before, after, known = self._routes(change.before), self._routes(change.after), self._known()
        self._call("remove_extra_routes_from_router", [one for one in before if one not in after and one in known])
        self._call("add_extra_routes_to_router", [one for one in after if one not in known])
        return None

    def undo(self, physical_id: str) -> None:
        known, latter = self._known(), self.facts.latter()
        kept = [] if latter is None else self._routes(latter.facts.properties)
        mine = self._routes(self.facts.properties)
        self._call("remove_extra_routes_from_router", [one for one in mine if one in known and one not in kept])


def leads_out(own: Mapping[str, object], kind: str, other: Mapping[str, object], external: object) -> bool:
    """True if a floating IP waits for the other resource, as in Heat.

    That is a router's gateway, or an interface for its port. `external` is the external network of the floating IP,
    None if that is unknown.
    """
    if kind == "OS::Neutron::RouterInterface":
        return own.get("port_id") is not None or own.get("internal_port") is not None
    if kind == "OS::Neutron::Router":
        gateway = other.get("external_gateway_info")
        return external is not None and isinstance(gateway, Mapping) and asked(gateway, "network") == external
    return external is None or asked(other, "network") == external
