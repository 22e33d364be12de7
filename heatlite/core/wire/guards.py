"""The guard of an update in a request or a policy."""

from enum import StrEnum
from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, UnsetType, to_builtins

from heatlite.core.json import JsonMap
from heatlite.core.wire.base import Body

MOST_SECONDS = 86_400
ANY = "*"

Place: TypeAlias = Annotated[str, Meta(pattern=r"^(labels|annotations)\..+$(?!\n)", max_length=255)]
Values: TypeAlias = Annotated[list[Annotated[str, Meta(max_length=1024)]], Meta(min_length=1, max_length=100)]
Condition: TypeAlias = Annotated[dict[Place, Values], Meta(min_length=1, max_length=20)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]


class SilenceMode(StrEnum):
    """Course of a bake while no source of reports is heard."""

    WAIT = "wait"
    PASS = "pass"


class GuardRequest(Body, frozen=True, omit_defaults=True):
    """The time in which an update may be taken back, and what does it."""

    bake: Annotated[int, Meta(ge=0, le=MOST_SECONDS)]
    """Seconds from the end of the changes to the clean-up.

    Until then the objects that the update replaces or removes still exist.
    """
    alerts: Annotated[list[Condition], Meta(min_length=1, max_length=20)] | UnsetType = UNSET
    """Alerts that take the update back, in the form of ``when`` of a source; one of them suffices.

    Default: each report whose target lies in the tree of the stack.
    """
    sources: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=20)] = (ANY,)
    """Names of the sources of reports that count. ``*``: all."""
    unknown: SilenceMode = SilenceMode.WAIT
    """``wait``: the bake goes on until its sources are heard. ``pass``: it ends at its time.

    A source is heard by any report since the end of the changes, but one that says that it cannot see.
    """

    def looser_than(self, other: "GuardRequest") -> list[str]:
        """Return the keys in which it asks less than another guard."""
        found = ["bake"] if self.bake < other.bake else []
        if not _has_all(self.alerts, other.alerts):
            found.append("alerts")
        if not {*other.sources} <= {*self.sources}:
            found.append("sources")
        return [*found, "unknown"] if (other.unknown, self.unknown) == (SilenceMode.WAIT, SilenceMode.PASS) else found


class Guarded(Body, frozen=True, kw_only=True):
    """Body of an update that brings no definition."""

    guard: GuardRequest | bool | None = None
    """Guard, as of an update."""

    @property
    def further(self) -> JsonMap:
        """Return the guard as the body of an update has it."""
        return {} if self.guard is None else {"guard": to_builtins(self.guard)}


def _has_all(own: list[Condition] | UnsetType, others: list[Condition] | UnsetType) -> bool:
    """Return True if conditions have all others.

    All reports of a tree are no condition.
    """
    if isinstance(own, UnsetType) or isinstance(others, UnsetType):
        return own is others
    return all(one in own for one in others)
