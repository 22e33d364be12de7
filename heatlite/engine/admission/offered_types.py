"""Which of the types that there are somebody is offered: those that he may use, and whose service the cloud has."""

import logging
from collections.abc import Iterable
from functools import partial

from heatlite.clients.cloud import CloudUnavailable, CredentialsRefused
from heatlite.clients.clouds import Clouds
from heatlite.clients.finders import Finders
from heatlite.core.context import TYPE, Context
from heatlite.core.errors import Forbidden
from heatlite.plugin.registry import Registry
from heatlite.template.barring import Bar

log = logging.getLogger(__name__)

HEATS = {
    "block_storage": "cinder", "compute": "nova", "dns": "designate", "identity": "keystone", "image": "glance",
    "key_manager": "barbican", "load_balancer": "octavia", "network": "neutron", "object_store": "swift",
}  # fmt: skip
"""What Heat calls a service."""


class Offer:
    """The types that the installation has for callers and for stacks."""

    def __init__(self, types: Registry, clouds: Clouds) -> None:
        self._types = types
        self._clouds = clouds

    def listed(self, context: Context, names: Iterable[str]) -> list[str]:
        """Those of the types that a caller may use and the cloud has a service for."""
        bar = self.bar(context.project, context)
        return [name for name in names if bar(name) is None]

    def bar(self, project: str, context: Context | None = None) -> Bar:
        """What is against types: the services that the cloud lacks and, with a `context`, what its caller may not.

        The catalog is that of the operator's own user, who need not prove himself for each request: services are there
        for all projects.
        """
        return partial(self._bar, project, context)

    @staticmethod
    def nothing(name: str) -> None:
        """In place of `bar`: nothing is against any type."""

    def _bar(self, project: str, context: Context | None, name: str) -> tuple[str, str] | None:
        if context is not None and not context.may(TYPE + name):
            return "Forbidden", Forbidden(action=name).message
        service = self._types.service_of(name)
        if self._clouds.name is None or not service or _has(self._clouds.of(project), service):
            return None
        heats = HEATS[service]
        reason = f"{heats} {service.replace('_', '-')} endpoint is not in service catalog."
        text = f"HEAT-E99001 Service {heats} is not available for resource type {name}, reason: {reason}"
        return "ResourceTypeUnavailable", text


def _has(view: Finders, service: str) -> bool:
    """Whether a cloud has a service. One that cannot be asked is taken to have it: whoever needs it will see."""
    try:
        return view.has(service)
    except (CloudUnavailable, CredentialsRefused) as error:
        log.warning("the cloud's catalog is not known: %s", error)
        return True


def check_types(context: Context, types: Iterable[str]) -> None:
    """Raise Forbidden for a type that the caller may not use."""
    for name in sorted(types):
        context.require(TYPE + name)
