"""Count the verdicts of a stack's check."""

from msgspec import Struct
from msgspec.structs import replace

COULD_NOT_LOOK = "Could not look: "
"""Begin of an event's reason after a check without a verdict: the resource stays as it was."""


class CheckCounts(Struct):
    """The verdicts of one stack's check, including the stacks nested in it."""

    healthy: int = 0
    unhealthy: int = 0
    unknown: int = 0
    unsupported: int = 0
    """Resources of types that have no check."""
    stale: list[str] = []
    """Names of resources that had failed before and have no check."""
    causes: dict[str, int] = {}
    """The number of objects with unknown health, by cause."""
    drifted: int = 0
    """Resources whose objects differ from what is stored."""

    @property
    def fails(self) -> bool:
        """True if a resource is unhealthy, or had failed before and has no check."""
        return bool(self.unhealthy or self.stale)


class CheckTally(CheckCounts):
    """Verdicts that are being counted. The next attempt at a check reads them again."""

    names: list[str] = []
    """Unhealthy resources of the stack itself, or with unhealthy ones below them."""

    def add_unknown(self, cause: str, count: int = 1) -> None:
        """Count objects of unknown health."""
        self.unknown += count
        self.causes[cause] = self.causes.get(cause, 0) + count

    def add_nested(self, name: str, below: CheckCounts) -> None:
        """Add the verdicts of a resource's nested stack."""
        self.healthy += below.healthy
        self.unhealthy += below.unhealthy
        self.unsupported += below.unsupported
        self.drifted += below.drifted
        for cause, count in below.causes.items():
            self.add_unknown(cause, count)
        if below.unhealthy:
            self.names.append(name)
        if below.stale:
            self.stale.append(name)

    def reason(self) -> str:
        """Return the status reason of a stack's check that left something unknown."""
        parts = [f"{self.unhealthy} unhealthy ({', '.join(sorted(self.names))})"] if self.unhealthy else []
        if self.stale:
            parts.append(f"{len(self.stale)} failed before and cannot be checked ({', '.join(sorted(self.stale))})")
        parts += [f"{count} could not be looked at ({cause})" for cause, count in sorted(self.causes.items())]
        return f"Resource CHECK failed: {', '.join(parts)}"

    def copy(self) -> "CheckTally":
        """Return an independent copy."""
        return replace(self, names=[*self.names], stale=[*self.stale], causes={**self.causes})

    def counts(self) -> CheckCounts:
        """Return the counts alone."""
        return CheckCounts(
            self.healthy, self.unhealthy, self.unknown, self.unsupported, [*self.stale], {**self.causes}, self.drifted
        )
