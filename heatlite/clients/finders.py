"""Resolution of names in a cloud to ids, and custom constraints.

The table of constraints is Heat's: their names, and the kind of object that each looks up.
"""

import re
import threading
from collections.abc import Callable, Mapping
from typing import Final, cast

from msgspec import Struct

from heatlite.clients.cloud import Cloud, CloudError, CloudUnavailable, CredentialsRefused, NameNotFound
from heatlite.core.json import Json, JsonMap, as_map

REMEMBERED: Final = 60.0
"""Seconds for which a lookup is cached (Heat's constraint cache)."""


class Finder(Struct, frozen=True):
    """Lookup of one kind of object by name or id."""

    verb: str
    entity: str
    """Noun used in the error for a missing object."""
    ref: str = ""
    """Attribute with the object's URL, for objects that are identified by a URL ending with their id."""


# fmt: off
FINDERS: Final[Mapping[str, Finder]] = {
    "cinder.backup": Finder("block_storage.find_backup", "Volume backup"),
    "cinder.qos_specs": Finder("block_storage.find_qos_spec", "QoS spec"),
    "cinder.snapshot": Finder("block_storage.find_snapshot", "VolumeSnapshot"),
    "cinder.volume": Finder("block_storage.find_volume", "Volume"),
    "cinder.vtype": Finder("block_storage.find_type", "VolumeType"),
    "glance.image": Finder("image.find_image", "Image"),
    "keystone.domain": Finder("identity.find_domain", "KeystoneDomain"),
    "keystone.group": Finder("identity.find_group", "KeystoneGroup"),
    "keystone.project": Finder("identity.find_project", "KeystoneProject"),
    "keystone.region": Finder("identity.find_region", "KeystoneRegion"),
    "keystone.role": Finder("identity.find_role", "KeystoneRole"),
    "keystone.service": Finder("identity.find_service", "KeystoneService"),
    "keystone.user": Finder("identity.find_user", "KeystoneUser"),
    "neutron.address_scope": Finder("network.find_address_scope", "AddressScope"),
    "neutron.floatingip": Finder("network.find_ip", "FloatingIP"),
    "neutron.network": Finder("network.find_network", "Network"),
    "neutron.port": Finder("network.find_port", "Port"),
    "neutron.qos_policy": Finder("network.find_qos_policy", "QoSPolicy"),
    "neutron.router": Finder("network.find_router", "Router"),
    "neutron.security_group": Finder("network.find_security_group", "SecurityGroup"),
    "neutron.segment": Finder("network.find_segment", "Segment"),
    "neutron.subnet": Finder("network.find_subnet", "Subnet"),
    "neutron.subnetpool": Finder("network.find_subnet_pool", "SubnetPool"),
    "nova.flavor": Finder("compute.find_flavor", "Flavor ID"),
    "nova.host": Finder("compute.find_hypervisor", "Host"),
    "nova.keypair": Finder("compute.find_keypair", "KeyPair"),
    "nova.network": Finder("network.find_network", "Network"),
    "nova.server": Finder("compute.find_server", "Server"),
    "octavia.availabilityzone": Finder("load_balancer.find_availability_zone", "AvailabilityZone"),
    "octavia.availabilityzoneprofile": Finder(
        "load_balancer.find_availability_zone_profile", "AvailabilityZoneProfile"
    ),
    "octavia.flavor": Finder("load_balancer.find_flavor", "Flavor"),
    "octavia.flavorprofile": Finder("load_balancer.find_flavor_profile", "FlavorProfile"),
    "octavia.listener": Finder("load_balancer.find_listener", "Listener"),
    "octavia.loadbalancer": Finder("load_balancer.find_load_balancer", "LoadBalancer"),
    "octavia.l7policy": Finder("load_balancer.find_l7_policy", "L7Policy"),
    "octavia.pool": Finder("load_balancer.find_pool", "Pool"),
}
# fmt: on
"""Finders of the core's types by the name of the constraint."""

DOMAINS: Final = frozenset(f"keystone.{kind}" for kind in ("group", "project", "role", "user"))
"""Constraints whose names are unique within a domain only."""
_IN_DOMAIN: Final = re.compile(r"(.+)\{(.+)\}")
"""As Heat has a name with its domain: ``name{domain}``."""


EXTENSIONS: Final = "network.extensions"


class Finders:
    """Cached lookups of one project in its cloud. Safe for threads."""

    def __init__(
        self, cloud: Cloud, now: Callable[[], float], finders: Mapping[str, Finder | None] = FINDERS
    ) -> None:
        self.cloud = cloud
        self._finders = finders
        self._now = now
        self._known: dict[tuple[str, str], tuple[str, float]] = {}
        self._lock = threading.Lock()

    def id_of(self, constraint: str, name: str) -> str:
        """Return the id, or URL, of the object with this name, id or URL.

        Raises CloudNotFound with Heat's text, CloudError.
        """
        with self._lock:
            found, until = self._known.get((constraint, name), ("", 0.0))
        if self._now() < until:
            return found
        finder = self._finders[constraint]
        assert finder is not None, f"{constraint} names no object"
        within: JsonMap = {}
        called = _IN_DOMAIN.fullmatch(name) if constraint in DOMAINS else None
        if called is not None:
            within["domain_id"] = self.id_of("keystone.domain", called[2])
        wanted = name.rpartition("/")[2] if finder.ref else name if called is None else called[1]
        answer = self.cloud.call(finder.verb, wanted, **within)
        if not isinstance(answer, dict):
            raise NameNotFound(finder.verb, f"The {finder.entity} ({name}) could not be found.")
        found = str(answer[finder.ref]) if finder.ref else identity(answer)
        with self._lock:
            self._known[constraint, name] = (found, self._now() + REMEMBERED)
        return found

    def thing(self, constraint: str, name: str) -> JsonMap | None:
        """Return the object with this name or id as its service tells it.

        None: there is none. Raises CloudError.
        """
        finder = self._finders.get(constraint)
        return None if finder is None else as_map(self.cloud.call(finder.verb, name.rpartition("/")[2])) or None

    def has(self, service: str) -> bool:
        """True if the cloud has a service (``block_storage``).

        Raises CloudUnavailable, CredentialsRefused.
        """
        with self._lock:
            found, until = self._known.get(("", service), ("", 0.0))
        if until <= self._now():
            found = service if self.cloud.has(service) else ""
            with self._lock:
                self._known["", service] = (found, self._now() + REMEMBERED)
        return bool(found)

    def has_network_extension(self, alias: str) -> bool:
        """True if the network service has an extension. Raises CloudError."""
        with self._lock:
            found, until = self._known.get(("", EXTENSIONS), ("", 0.0))
        if until <= self._now():
            listed = cast(list[JsonMap], self.cloud.call("network.extensions"))
            found = " ".join(str(one.get("alias")) for one in listed)
            with self._lock:
                self._known["", EXTENSIONS] = (found, self._now() + REMEMBERED)
        return alias in found.split()

    def missing(self, constraint: str, value: object) -> str:
        """Return the violation of a custom constraint by a value, or "".

        A constraint without a finder accepts every value.
        Raises CloudUnavailable, CredentialsRefused.
        """
        if self._finders.get(constraint) is None or value == "":
            return ""
        try:
            self.id_of(constraint, str(value))
        except (CloudUnavailable, CredentialsRefused):
            raise
        except CloudError as error:
            return error.reason
        return ""


def identity(thing: JsonMap) -> str:
    """Return the id of an object, or its name if the service identifies it by name."""
    found: Json = thing.get("id") or thing.get("name")
    return str(found)
