"""The type of flavors. For administrators."""

from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from heatlite.clients.cloud import CloudConflict, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop


class FlavorProps(Schema):
    name: str | None = prop(doc="Its name.")
    flavorid: str | None = prop(api="id", doc="Its id; left out: the service draws one.")
    ram: int = prop(doc="Memory, in MiB.")
    vcpus: int = prop(doc="How many processors.")
    disk: int = prop(0, doc="The disk that it boots from, in GiB; 0: as large as the image.")
    swap: int = prop(0, doc="The disk that it swaps to, in MiB.")
    ephemeral: int = prop(0, api="OS-FLV-EXT-DATA:ephemeral", doc="The disk that goes with the server, in GiB.")
    rxtx_factor: float = prop(1.0, doc="How much of the network it may have.")
    is_public: bool = prop(True, api="os-flavor-access:is_public", doc="Whether all projects may use it.")
    tenants: list[str] = prop(
        [],
        items=prop(find="keystone.project", doc="A project, by name or id."),
        update=True,
        api="",
        doc="The projects that may use it, where it is not for all.",
    )
    extra_specs: dict[str, Json] | None = prop(update=True, api="", doc="What else its servers are to have.")


class Flavor(CloudResource[FlavorProps], type="OS::Nova::Flavor", kind="compute.flavor"):
    """A flavor: the size of servers in processors, memory and disks."""

    support_status = SupportStatus(version="2014.2")
    unique_name = True
    alone = frozenset({"name"})
    lasting_reference = True

    def excludes(self, properties: Mapping[str, object]) -> bool:
        own = self.facts.properties.get("flavorid")
        return super().excludes(properties) or own is not None and own == properties.get("flavorid")

    def check_create_complete(self, token: Json) -> bool | float:
        """Set extra specs and access here, so that a flavor found after a crash has them, too."""
        self._set_specs(set())
        for project in self.props.tenants:
            self._let_in(project)
        return True

    def handle_update(self, change: Change) -> Json:
        if "extra_specs" in change.changed:
            self._set_specs(set(cast(JsonMap, change.before.get("extra_specs") or {})))
        if "tenants" in change.changed:
            before = self.resolved({"tenants": cast(Json, change.before.get("tenants") or [])})["tenants"]
            for project in cast(list[str], before):
                if project not in self.props.tenants:
                    with suppress(CloudNotFound):
                        self.service("flavor_remove_tenant_access", self.physical_id, project)
            for project in self.props.tenants:
                self._let_in(project)
        return None

    def _set_specs(self, before: set[str]) -> None:
        specs = {name: value if isinstance(value, str) else str(value) for name, value in self._specs.items()}
        for name in sorted(before - specs.keys()):
            self.service("delete_flavor_extra_specs_property", self.physical_id, name)
        if specs:
            self.service("create_flavor_extra_specs", self.physical_id, cast(Json, specs))

    @property
    def _specs(self) -> JsonMap:
        return self.props.extra_specs or {}

    def _let_in(self, project: str) -> None:
        with suppress(CloudConflict):  # it has access already
            self.service("flavor_add_tenant_access", self.physical_id, project)

    def attr_is_public(self) -> bool:
        """True if all projects may use it."""
        return bool(self.seen.get("os-flavor-access:is_public"))

    def attr_extra_specs(self) -> dict[str, Json]:
        """Its extra specs."""
        return cast(JsonMap, self.seen.get("extra_specs") or {})
