"""Needs: how much an object counts in the quotas of its project."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct

from heatlite.core.json import JsonMap

Find: TypeAlias = Callable[[str, str], JsonMap | None]
"""Returns an object of the cloud by the name of its finder and its name or id: ``find("nova.flavor", "m1.small")``.

None: there is none, or it cannot be looked at now."""


class Need(Struct, frozen=True):
    """Part of an object's needs."""

    kind: str
    """Service and name of the quota: ``compute.cores``."""
    amount: int = 1
    known: bool = True
    """False: the operation alone brings the amount. It is at least `amount`."""
    limited_project: str = ""
    """Of an object that sets the limit of the kind: the project, by name or id. Its limit is not known then."""


def counted(kinds: Iterable[str], given: Mapping[str, object]) -> list[Need]:
    """Return a need of one of each kind.

    With an owner in the properties it is at least none.
    """
    return [unknown(kind) if given.get("tenant_id") else Need(kind) for kind in kinds]


def unknown(kind: str) -> Need:
    """Return a need whose amount only the operation brings."""
    return Need(kind, 0, known=False)


def whole(value: object) -> int | None:
    """Return a whole number, also one in a text.

    None for another value, and for UNKNOWN.
    """
    if type(value) is int:  # a bool is none
        return value
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else None


def found(find: Find, finder: str, key: object) -> Mapping[str, object]:
    """Return an object that a property names; {} without one."""
    return (find(finder, key) or {}) if isinstance(key, str) and key else {}
