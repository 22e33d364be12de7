"""Common parts of the simulated network service's objects."""

import ipaddress
from collections.abc import Mapping
from typing import Final, TypeAlias, cast

from heatlite.clients.cloud import CloudConflict, CloudError, CloudNotFound, OverQuota
from heatlite.core.clock import to_text
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.simulation import SimulatedProject

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Span: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

QUOTAS: Final[Mapping[str, int]] = {
    "floatingip": 1000,
    "network": 1000,
    "port": 5000,
    "rbac_policy": 10,
    "router": 1000,
    "security_group": 1000,
    "security_group_rule": 5000,
    "subnet": 1000,
    "subnetpool": -1,
}
"""Default quotas of a project by kind; -1: unlimited."""
QUOTA_NAMES: Final = {"ip": "floatingip", "subnet_pool": "subnetpool"}
"""Names of kinds in quotas, where they differ from the SDK's."""


class NetworkKind(Collection, frozen=True):
    """Kind of network object: owned by a project, with optional common attributes."""

    standard: bool = True
    """True if the objects have the service's standard attributes: description, tags, times."""
    fixed: tuple[str, ...] = ()
    """Attributes that an update cannot change."""

    def create(self, view: SimulatedProject, *whole: Json, **attributes: Json) -> Json:
        """See `Collection`."""
        owner = attributes.pop("tenant_id", None) or attributes.pop("project_id", None) or view.project
        attributes |= {"project_id": owner, "tenant_id": owner}
        if "status" in self.defaults and view.simulation.going:
            attributes["status"] = view.simulation.going
        if self.standard:
            now = to_text(view.simulation.clock.now())
            attributes.setdefault("description", "")
            attributes |= {"tags": [], "created_at": now, "updated_at": now, "revision_number": 1}
        made = super().create(view, *whole, **attributes)
        if not self.standard and isinstance(made, dict):
            del made["created_at"]
            view.put(self.kind, made)
        return made

    def update(self, view: SimulatedProject, key: Json, /, *whole: Json, **attributes: Json) -> Json:
        """See `Collection`."""
        thing = self._one(view, "update", key, whole)
        for name in self.fixed:
            if name in attributes and attributes[name] != thing.get(name):
                refuse(f"network.update_{self.noun}", f"Cannot update read-only attribute {name}")
        if attributes.get("description", "") is None:
            attributes["description"] = ""
        if attributes.get("name", "") is None:
            attributes["name"] = ""
        if self.standard:
            attributes["updated_at"] = to_text(view.simulation.clock.now())
            attributes["revision_number"] = cast(int, thing["revision_number"]) + 1
        return super().update(view, key, *whole, **attributes)

    def _refuse_too_many(self, view: SimulatedProject, verb: str) -> None:
        name = QUOTA_NAMES.get(self.noun, self.noun)
        limit = limits(view, view.project).get(name, view.simulation.scenario.quotas.get(self.kind, -1))
        own = sum(one.get("project_id") == view.project for one in view.simulation.all(self.kind).values())
        if 0 <= limit <= own:
            raise OverQuota(verb, f"Quota exceeded for resources: ['{name}'].", 409)


def limits(view: SimulatedProject, project: str) -> dict[str, int]:
    """Return a project's quotas."""
    own = view.simulation.all("network.quota").get(project, {})
    scripted = view.simulation.scenario.quotas
    found = {name: scripted.get(f"network.{name}", count) for name, count in QUOTAS.items()}
    found |= {QUOTA_NAMES[noun]: scripted[f"network.{noun}"] for noun in QUOTA_NAMES if f"network.{noun}" in scripted}
    return {name: cast(int, own.get(name, count)) for name, count in found.items()}


def refuse(verb: str, reason: str) -> None:
    """Reject an invalid request. Raises CloudError."""
    raise CloudError(verb, reason, 400)


def conflict(verb: str, reason: str) -> None:
    """Reject a request that conflicts with the current state. Raises CloudConflict."""
    raise CloudConflict(verb, reason)


def missing(verb: str, reason: str) -> CloudNotFound:
    return CloudNotFound(verb, reason)


def items(thing: Mapping[str, Json], name: str) -> list[JsonMap]:
    """Return a list-valued attribute of maps; [] if it is empty or missing."""
    return cast(list[JsonMap], thing.get(name) or [])


def span(text: Json) -> Span:
    """Parse a CIDR that the service has accepted."""
    return ipaddress.ip_network(str(text))


def address(text: Json) -> Address:
    return ipaddress.ip_address(str(text))


def tagging(view: SimulatedProject, noun: Json, key: Json, tags: Json) -> Json:
    """Replace all tags of an object (``network.set_tags``)."""
    thing = view.thing(f"network.{noun}", key, "network.set_tags")
    thing["tags"] = sorted(set(cast(list[str], tags)))
    return view.put(f"network.{noun}", thing)
