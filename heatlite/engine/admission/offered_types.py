"""Resource types offered to a caller by the policy and the cloud's catalog."""

import logging
from collections.abc import Iterable
from functools import partial

from heatlite.clients.cloud import CloudError, CloudUnavailable, CredentialsRefused
from heatlite.clients.clouds import Clouds
from heatlite.clients.finders import Finders
from heatlite.core.context import TYPE, Context
from heatlite.core.errors import Forbidden
from heatlite.plugin.cloud import HOW_TO_SET_A_CLOUD
from heatlite.plugin.registry import Registry
from heatlite.template.types import Availability, UnusableType

log = logging.getLogger(__name__)

HEATS = {
    "block_storage": "cinder", "compute": "nova", "identity": "keystone", "image": "glance", "network": "neutron",
    "object_store": "swift",
}  # fmt: skip
"""Service type → service name in Heat's texts.
Other services are named as in their types: ``OS::Octavia::Pool``."""


class OfferedTypes:
    """Filters the installed resource types for callers and stacks."""

    def __init__(self, types: Registry, clouds: Clouds) -> None:
        self._types = types
        self._clouds = clouds

    def listed(self, context: Context, names: Iterable[str]) -> list[str]:
        """Return the types that the caller may use and that the cloud has a service for."""
        unavailable = self.availability(context.project, context)
        return [name for name in names if unavailable(name) is None]

    def availability(self, project: str, context: Context | None = None) -> Availability:
        """Return a function from a type's name to the reason why it cannot be used.

        A reason is a missing service or, with a `context`, the policy for its caller. Reads the catalog with the
        operator's own credentials: it is the same for all projects, and needs no token of the caller.
        """
        return partial(self._unavailable, project, context)

    def _unavailable(self, project: str, context: Context | None, name: str) -> UnusableType | None:
        if context is not None and not context.may(TYPE + name):
            return UnusableType("Forbidden", Forbidden(action=name).message)
        service, extension = self._types.service_of(name), self._types.network_extension_of(name)
        if not service:
            return None
        heats, hint = HEATS.get(service) or name.split("::")[1:2][0].lower(), ""
        reason = f"{heats} {service.replace('_', '-')} endpoint is not in service catalog."
        if self._clouds.name is not None and _has(self._clouds.of(project), service):
            if not extension or _has_extension(self._clouds.of(project), extension):
                return None
            reason = f"Required extension {extension} in {heats} service is not available."
        if self._clouds.name is None:
            reason, hint = "no cloud is set.", HOW_TO_SET_A_CLOUD
        text = f"HEAT-E99001 Service {heats} is not available for resource type {name}, reason: {reason}"
        return UnusableType("ResourceTypeUnavailable", text, hint)


def _has(view: Finders, service: str) -> bool:
    """True if the cloud has the service, or cannot be asked.

    In the latter case the resource fails with the real error.
    """
    try:
        return view.has(service)
    except (CloudUnavailable, CredentialsRefused) as error:
        log.warning("the cloud's catalog is not known: %s", error)
        return True


def _has_extension(view: Finders, extension: str) -> bool:
    """True if the network service has the extension, or cannot be asked."""
    try:
        return view.has_network_extension(extension)
    except CloudError as error:
        log.warning("the extensions of the network service are not known: %s", error)
        return True


def check_types(context: Context, types: Iterable[str]) -> None:
    """Raise Forbidden for a type that the caller may not use."""
    for name in sorted(types):
        context.require(TYPE + name)
