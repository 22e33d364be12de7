"""Permissions that the simulated services reserve for administrators.

They follow the services' default policies, by verb and by attribute.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from heatlite.clients.cloud import CloudError
from heatlite.core.json import Json

VERBS: Final = (
    "block_storage.*_type_access",
    "block_storage.*_type_encryption",
    "block_storage.*_type_extra_specs",
    "block_storage.*_type",
    "block_storage.*qos_spec*",
    "block_storage.*_quota_set",
    "compute.*aggregate*",
    "compute.*_flavor",
    "compute.*_flavor_extra_specs*",
    "compute.flavor_*_tenant_access",
    "compute.get_flavor_access",
    "compute.*hypervisor*",
    "compute.reset_server_state",
    "compute.*_quota_set",
    "identity.*",
    "load_balancer.*_flavor",
    "load_balancer.*_flavor_profile",
    "load_balancer.*_availability_zone",
    "load_balancer.*_availability_zone_profile",
    "load_balancer.*_quota",
    "network.create_qos_*",
    "network.update_qos_*",
    "network.delete_qos_*",
    "network.create_segment",
    "network.update_segment",
    "network.delete_segment",
    "network.*_quota*",
    "network.*_agent_to_network",
    "network.*_agent_from_network",
    "network.*_router_*_agent",
    "network.*_hosting_*_agents",
    "network.update_agent",
    "network.delete_agent",
)
"""Patterns of reserved verbs; ``*`` matches any part."""

FOR_ALL: Final = (
    "block_storage.get_type",
    "block_storage.find_type",
    "compute.get_flavor",
    "compute.find_flavor",
    "identity.*region*",
    "load_balancer.get_*",
    "load_balancer.find_*",
)
"""Exceptions among them: open to all users, unless the verb changes something."""

OF_ONES_OWN: Final = (
    "block_storage.get_quota_set",
    "compute.get_quota_set",
    "identity.find_project",
    "identity.get_project",
    "network.get_quota",
    "network.get_quota_default",
)
"""Exceptions among them that users may call for their own project."""

_PROVIDER: Final = ("provider:network_type", "provider:physical_network", "provider:segmentation_id")

GIVEN: Final[Mapping[str, tuple[str, ...]]] = {
    "compute.create_keypair": ("user_id",),
    "network.*_network": (*_PROVIDER, "shared", "router:external", "is_default"),
    "network.*_subnet": ("segment_id",),
    "network.*_subnet_pool": ("shared", "is_default"),
    "network.*_address_scope": ("shared",),
    "network.*_port": ("binding:host_id", "binding:profile"),
    "network.*_router": ("distributed", "ha"),
    "network.*_ip": ("floating_ip_address",),
}
"""Attributes that only administrators may set, by patterns of verbs that create or change something.

Null, false and an empty map are open to all users.
"""

OWNER: Final = ("project_id", "tenant_id")
"""Owner attributes of network objects; only administrators may name another project."""


def refuse(verb: str, project: str, arguments: Sequence[Json], attributes: Mapping[str, Json]) -> None:
    """Reject a non-administrator's call that is reserved.

    Raises CloudError (403; for an owner 400).
    """
    if _is_reserved(verb) and not (verb in OF_ONES_OWN and [*arguments][:1] == [project]):
        raise CloudError(verb, f"Policy doesn't allow {verb} to be performed.", 403)
    if not _changes(verb):
        return
    if verb.startswith("network.") and any(attributes.get(name) not in (None, project) for name in OWNER):
        text = "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin"
        raise CloudError(verb, f"{text} or advsvc privileges", 400)
    for name in next((names for pattern, names in GIVEN.items() if fnmatchcase(verb, pattern)), ()):
        if attributes.get(name) not in (None, False, {}):
            raise CloudError(verb, f"(rule:{verb.partition('.')[2]}:{name}) is disallowed by policy", 403)


def _is_reserved(verb: str) -> bool:
    return _is_among(verb, VERBS) and (_changes(verb) or not _is_among(verb, FOR_ALL))


def _changes(verb: str) -> bool:
    return verb.partition(".")[2].startswith(("create_", "update_", "delete_"))


def _is_among(verb: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(verb, pattern) for pattern in patterns)
