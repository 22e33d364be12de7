"""The service catalog: services, endpoints and regions."""

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import JsonMap
from heatlite.plugin import Change, Resource, Schema, SupportStatus, prop
from heatlite.resources.keystone.base import KeystoneResource


class ServiceProps(Schema):
    name: str | None = prop(blank=True, update=True, doc="Its name.")
    type: str = prop(update=True, doc="Its type: compute, network and so on.")
    description: str | None = prop(update=True, doc="Its description.")
    enabled: bool = prop(True, update=True, doc="True if it is enabled.")


class Service(KeystoneResource[ServiceProps], type="OS::Keystone::Service", kind="identity.service"):
    """A service of the cloud."""

    support_status = SupportStatus(version="5.0.0")


class EndpointProps(Schema):
    name: str | None = prop(blank=True, update=True, doc="Its name.")
    service: str = prop(update=True, find="keystone.service", api="service_id", doc="The service, by name or id.")
    interface: str = prop(
        update=True, one_of=("public", "internal", "admin"), doc="The kind of clients: public, internal or admin."
    )
    url: str = prop(update=True, doc="The URL of the service.")
    region: str | None = prop(update=True, find="keystone.region", api="region_id", doc="The region it is in.")
    enabled: bool = prop(True, update=True, doc="True if it is enabled.")


class Endpoint(KeystoneResource[EndpointProps], type="OS::Keystone::Endpoint", kind="identity.endpoint"):
    """An address of a service."""

    support_status = SupportStatus(version="5.0.0")
    joins = frozenset({"OS::Keystone::Region"})

    def update_args(self, change: Change) -> JsonMap:
        """Return the changes together with the region, which `detach_from` may have unset."""
        unset = {"region"} if self.fetched.get("region_id") is None else set[str]()
        return {**super().update_args(change), **self.sent(change.changed & {"region"} | unset)}

    def detach_from(self, gone: Resource[Schema]) -> None:
        if self.fetched.get("region_id") == gone.physical_id:
            self.service("update_endpoint", self.physical_id, region_id=None)


class RegionProps(Schema):
    id: str | None = prop(doc="Its id, which is its name.")
    parent_region: str | None = prop(
        update=True, find="keystone.region", api="parent_region_id", doc="The region it is a part of."
    )
    description: str | None = prop(update=True, doc="Its description.")
    enabled: bool = prop(True, update=True, api="", doc="Accepted without effect: the service has no such attribute.")


class Region(KeystoneResource[RegionProps], type="OS::Keystone::Region", kind="identity.region"):
    """A part of the cloud with endpoints of its own."""

    support_status = SupportStatus(version="6.0.0")
    alone = frozenset({"id"})
    joins = frozenset({"OS::Keystone::Region"})
    lasting_reference = True

    def update_args(self, change: Change) -> JsonMap:
        """Return the changes with the parent region, which `detach_from` may have unset."""
        unset = {"parent_region"} if self.fetched.get("parent_region_id") is None else set[str]()
        return {**super().update_args(change), **self.sent(change.changed & {"parent_region"} | unset)}

    def detach_from(self, gone: Resource[Schema]) -> None:
        """Unset the parent region: otherwise the service would delete this region with it."""
        if self.fetched.get("parent_region_id") == gone.physical_id:
            self.service("update_region", self.physical_id, parent_region_id=None)

    def identity(self) -> JsonMap:
        """Return the id, which identifies a region: it has no name."""
        return {"id": self.facts.properties.get("id") or self.physical_name}

    def alike(self) -> list[JsonMap]:
        try:
            return [self.map(self.service("get_region", self.identity()["id"]))]
        except CloudNotFound:
            return []
