"""The type of trunks."""

from collections.abc import Mapping
from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, Resource, Schema, SupportStatus, prop
from heatlite.resources.neutron.base import NeutronResource


class SubPort(Schema):
    port: str = prop(find="neutron.port", api="port_id", doc="The port, by name or id.")
    segmentation_type: str = prop(one_of=("vlan",), doc="The type of the segmentation.")
    segmentation_id: int = prop(between=(1, 4094), doc="The segmentation id, such as a VLAN id.")


class TrunkProps(Schema):
    port: str = prop(immutable=True, find="neutron.port", api="port_id", doc="The parent port, by name or id.")
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    admin_state_up: bool | None = prop(update=True, doc="True if it is administratively up.")
    sub_ports: list[SubPort] | None = prop(update=True, doc="The subports: ports reached through the parent.")


class Trunk(NeutronResource[TrunkProps], type="OS::Neutron::Trunk", kind="network.trunk"):
    """A trunk: a parent port through which a machine reaches several other ports."""

    support_status = SupportStatus(version="9.0.0")
    shown = {"port_id": (str, "The id of the parent port.")}
    joins = frozenset({"OS::Neutron::Port"})
    blocks = frozenset({"OS::Neutron::Port"})

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other trunk is to have one of the same ports."""
        return bool(_ports(self.facts.properties) & _ports(properties))

    def detach_from(self, gone: Resource[Schema]) -> None:
        """Remove a subport from the trunk."""
        now = cast(list[JsonMap], self.fetched.get("sub_ports") or [])
        left: list[Json] = [{"port_id": one["port_id"]} for one in now if one["port_id"] == gone.physical_id]
        if left:
            self.service("delete_trunk_subports", self.physical_id, left)

    def update_args(self, change: Change) -> JsonMap:
        args = super().update_args(change)
        args.pop("sub_ports", None)
        if args.get("admin_state_up", True) is None:
            args["admin_state_up"] = True
        return args

    def handle_update(self, change: Change) -> Json:
        token = super().handle_update(change)
        if "sub_ports" in change.changed:
            wanted = cast(list[JsonMap], self.sent(frozenset({"sub_ports"}))["sub_ports"] or [])
            now = cast(list[JsonMap], self.fetch()["sub_ports"])
            gone: list[Json] = [{"port_id": one["port_id"]} for one in now if one not in wanted]
            new: list[Json] = [one for one in wanted if one not in now]
            if gone:
                self.service("delete_trunk_subports", self.physical_id, gone)
            if new:
                self.service("add_trunk_subports", self.physical_id, new)
        return token


def _ports(properties: Mapping[str, object]) -> set[str]:
    """Return the known ports that properties name."""
    given = properties.get("sub_ports")
    subs = [one for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []
    named = [properties.get("port"), *(one.get("port") for one in subs)]
    return {one for one in named if isinstance(one, str)}
