"""Differences between the stored properties of a resource and its object."""

from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from heatlite.core.json import dump

MAX_DIFFERENCES: Final = 100
"""The number of differences that are kept of one resource."""
MAX_VALUE: Final = 1024
"""Bytes of JSON of one value that are kept."""


class Difference(Struct, frozen=True, omit_defaults=True):
    """One difference. A side without a value is unset.

    In place of hidden values both sides have stars.
    """

    path: str
    """JSON Pointer (RFC 6901) into the properties. ``/rules/-`` stands for a further item of a list."""
    stored: Any | UnsetType = UNSET
    live: Any | UnsetType = UNSET
    ignored: bool = False
    """True if the definition ignores it (``ignore_drift``)."""

    @property
    def text(self) -> str:
        """The difference for people: ``metadata/tier is "silver", not "gold"``."""
        live, stored = ("absent" if one is UNSET else dump(one) for one in (self.live, self.stored))
        return f"{self.path[1:]} is {live}, not {stored}"


class Differences(Struct, frozen=True, omit_defaults=True):
    """The differences of one resource, within the limits."""

    found: tuple[Difference, ...] = ()
    truncated: bool = False
    """True if some are left out, or values are cut."""

    @property
    def counted(self) -> tuple[Difference, ...]:
        """The differences without those that are ignored."""
        return tuple(one for one in self.found if not one.ignored)
