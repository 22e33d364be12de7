"""Types of the reservation service."""

from collections.abc import Mapping

from heatlite.core.json import Json, JsonMap, as_maps
from heatlite.plugin import CloudResource, Schema, SupportStatus, prop
from heatlite.plugin.naming import is_as_requested

MOST = 2147483647
MOMENT = r"\d{4}-\d{2}-\d{2}\s\d{2}:\d{2}"


class HostProps(Schema):
    name: str = prop(doc="The name of the host in the compute service.")
    extra_capability: dict[str, Json] | None = prop(api="", doc="Further capabilities, by which hosts are selected.")


class Host(CloudResource[HostProps], type="OS::Blazar::Host", kind="reservation.host"):
    """A host of the compute service that can be reserved. For administrators."""

    support_status = SupportStatus(version="12.0.0")
    alone = frozenset({"name"})
    shown = {
        "cpu_info": (dict, "Its processors."),
        "created_at": (str, "The time of its creation."),
        "hypervisor_hostname": (str, "The name of its hypervisor."),
        "hypervisor_type": (str, "The type of its hypervisor."),
        "hypervisor_version": (int, "The version of its hypervisor."),
        "local_gb": (int, "Its disk space in GB."),
        "memory_mb": (int, "Its memory in MB."),
        "reservable": (bool, "True if it can be reserved."),
        "service_name": (str, "The name of its compute service."),
        "status": (str, "Its status."),
        "trust_id": (str, "The id of its trust."),
        "updated_at": (str, "The time of its last update."),
        "vcpus": (int, "Number of virtual processors."),
    }

    def create_args(self) -> JsonMap:
        return {**(self.props.extra_capability or {}), **self.sent()}

    def alike(self) -> list[JsonMap]:
        found, name = as_maps(self.service("hosts")), self.props.name
        return [one for one in found if name in (one.get("hypervisor_hostname"), one.get("service_name"))]

    def attr_extra_capability(self) -> dict[str, Json]:
        """Further capabilities."""
        return {name: self.fetched.get(name) for name in self.props.extra_capability or {}}


class Reservation(Schema):
    resource_type: str = prop(one_of=("virtual:instance", "physical:host"), doc="The type of what is reserved.")
    min: int | None = prop(between=(1, None), doc="Minimum number of hosts.")
    max: int | None = prop(between=(1, None), doc="Maximum number of hosts.")
    hypervisor_properties: str | None = prop(doc="The condition that hypervisors must meet, as JSON text.")
    resource_properties: str | None = prop(doc="The condition that hosts must meet, as JSON text.")
    before_end: str = prop("default", one_of=("default", "snapshot"), doc="The action before the end of the lease.")
    amount: int | None = prop(between=(0, MOST), doc="Number of servers.")
    vcpus: int | None = prop(between=(0, MOST), doc="Number of virtual processors of each server.")
    memory_mb: int | None = prop(between=(0, MOST), doc="Memory of each server in MiB.")
    disk_gb: int | None = prop(between=(0, MOST), doc="Disk space of each server in GiB.")
    affinity: bool = prop(False, doc="True if all servers are on one host.")


class Event(Schema):
    event_type: str = prop(doc="Its type.")
    time: str = prop(doc="Its time.")


class LeaseProps(Schema):
    name: str = prop(doc="Its name.")
    start_date: str = prop(pattern=MOMENT, doc="Its begin, as 2030-01-31 12:00.")
    end_date: str = prop(pattern=MOMENT, doc="Its end, as 2030-01-31 12:00.")
    before_end_date: str | None = prop(pattern=MOMENT, doc="The time of the action before its end.")
    reservations: list[Reservation] = prop(doc="The things that it reserves.")
    events: list[Event] = prop([], doc="Events during it.")


HOSTS = frozenset({"min", "max", "hypervisor_properties", "before_end"})
"""Keys of reservations of hosts only."""
SERVERS = frozenset({"amount", "vcpus", "memory_mb", "disk_gb", "affinity"})
"""Keys of reservations of servers only."""

ANY: JsonMap = {"hypervisor_properties": "", "resource_properties": ""}
"""Conditions that everything meets. The service needs the keys."""


class Lease(CloudResource[LeaseProps], type="OS::Blazar::Lease", kind="reservation.lease"):
    """A lease: hosts or servers that are reserved for a time."""

    support_status = SupportStatus(version="12.0.0")
    unique_name = True
    alone = frozenset({"name"})
    blocks = frozenset({"OS::Blazar::Host"})
    ready = frozenset({"PENDING", "ACTIVE", "TERMINATED"})
    shown = {
        "created_at": (str, "The time of its creation."),
        "degraded": (bool, "True if something of it is broken."),
        "end_date": (str, "Its end."),
        "events": (list, "Events during it."),
        "name": (str, "Its name."),
        "project_id": (str, "The project that has it."),
        "reservations": (list, "The things that it reserves."),
        "start_date": (str, "Its begin."),
        "status": (str, "Its status."),
        "trust_id": (str, "The id of its trust."),
        "updated_at": (str, "The time of its last update."),
        "user_id": (str, "The user that has made it."),
    }

    def create_args(self) -> JsonMap:
        return {**self.sent(), "reservations": [*self._reservations()]}

    def _reservations(self) -> list[JsonMap]:
        """Return the reservations in the service's form."""
        found: list[JsonMap] = []
        for one in as_maps(self.sent()["reservations"]):
            others = SERVERS if one["resource_type"] == "physical:host" else HOSTS
            found.append({key: value for key, value in {**ANY, **one}.items() if key not in others})
        return found

    def live_properties(self) -> Mapping[str, Json] | None:
        """Return the live properties in the template's form.

        The service adds events of its own, and seconds.
        """
        live = super().live_properties()
        if live is None:
            return None
        found = {name: value for name, value in live.items() if name != "events"}
        for name in found.keys() & {"start_date", "end_date"}:
            found[name] = str(found[name]).replace("T", " ")[:16]
        if "reservations" in found and is_as_requested(found["reservations"], [*self._reservations()]):
            found["reservations"] = self.facts.properties["reservations"]
        return found
