"""Floating IPs under the compute service's old type names."""

from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.features.rare_types.aws.base import first_port, leads_to_machine
from heatlite.features.rare_types.aws.networks import external_network
from heatlite.plugin import Change, CloudNotFound, CloudResource, Resource, Schema, SupportStatus, prop
from heatlite.resources.neutron.floating_ips import JOINED, WAYS_OUT, associated, leads_by

HIDDEN = SupportStatus(
    "HIDDEN", "11.0.0", "Use OS::Neutron::FloatingIP and OS::Neutron::FloatingIPAssociation instead."
)


class FloatingIPProps(Schema):
    pool: str | None = prop(
        resolve="neutron.network",
        api="floating_network_id",
        doc="The external network, by name or id; default: the only one.",
    )


class FloatingIP(CloudResource[FloatingIPProps], type="OS::Nova::FloatingIP", kind="network.ip"):
    """A floating IP."""

    counts = ("network.floatingip",)
    support_status = HIDDEN
    shown = {
        "ip": (str, "The address itself."),
        "pool": (str, "The id of the external network."),
    }
    blocks = frozenset({"OS::Neutron::Net", "OS::Neutron::ProviderNet"})
    after = frozenset({"OS::Neutron::Router", "OS::Neutron::RouterGateway"})

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:  # noqa: ARG003
        """Return True: addresses are deleted before the gateways on their way."""
        return True

    def identity(self) -> JsonMap:
        return {"description": self.physical_name}

    def create_args(self) -> JsonMap:
        return self.sent() or {"floating_network_id": external_network(self)}

    def attribute(self, name: str) -> Json:
        keys = {"ip": "floating_ip_address", "pool": "floating_network_id"}
        return self.fetched.get(keys[name]) if name in keys else super().attribute(name)


class FloatingIPAssociationProps(Schema):
    server_id: str = prop(update=True, find="nova.server", doc="The server to associate it with, by name or id.")
    floating_ip: str = prop(update=True, doc="The id of the floating IP.")


class FloatingIPAssociation(
    CloudResource[FloatingIPAssociationProps], type="OS::Nova::FloatingIPAssociation", kind="network.ip"
):
    """Associates a floating IP with the first port of a server.

    The physical id is ``floating-ip:port``, of the ids of both.
    """

    support_status = HIDDEN
    after = JOINED | WAYS_OUT
    joins = JOINED
    searched = False  # associating is idempotent

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:  # noqa: ARG003
        """True for all ports, as the server may have one, and for ways out."""
        return kind != "OS::Neutron::Router"

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other resource associates another floating IP with the same server."""
        own = self.facts.properties
        same = [own.get(name) == properties.get(name) for name in ("floating_ip", "server_id")]
        return same == [False, True]

    def fetch(self) -> JsonMap:
        return associated(self)

    def live_properties(self) -> Mapping[str, Json] | None:
        return {} if self.fetched else None

    def handle_create(self) -> Json:
        port = first_port(self, self.props.server_id)
        self.service("update_ip", self.props.floating_ip, port_id=port)
        self.physical_id = f"{self.props.floating_ip}:{port}"
        return None

    def handle_update(self, change: Change) -> Json:
        if not change.changed and leads_to_machine(self, self.fetched):
            return None
        if "floating_ip" in change.changed:
            self._part()
        return self.handle_create()

    def detach_from(self, gone: Resource[Schema]) -> None:
        if leads_by(self.fetched, gone):
            self._part()

    def handle_delete(self) -> Json:
        if self.physical_id is not None and not self.is_passed_on:
            self._part()
        return None

    def _part(self) -> None:
        with suppress(CloudNotFound):
            found = self.fetch()  # it may have been associated with another port since
            self.service("update_ip", cast(str, found["id"]), port_id=None)
