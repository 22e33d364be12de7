"""Absence in masses: most objects of a service seem to be gone. Pure."""

from collections.abc import Mapping

LEAST = 3
"""Objects of a service that have to be looked at before their absence is doubted."""


def service_of(mapped_type: str) -> str:
    """Return the service of a resource type: ``OS::Nova`` of ``OS::Nova::Server``."""
    return mapped_type.rpartition("::")[0] or mapped_type


def in_masses(absent: Mapping[str, int], checked: Mapping[str, int]) -> frozenset[str]:
    """Return the services of which more than half of the objects are absent."""
    return frozenset(one for one, count in absent.items() if checked[one] >= LEAST and 2 * count > checked[one])
