"""Count the verdicts of a stack's check."""


from msgspec import Struct

from heatlite.core.json import Json, JsonMap, as_map, as_texts


class CheckTally(Struct):
    """The verdicts of one stack's check, including the stacks nested in it."""

    healthy: int = 0
    unhealthy: int = 0
    unknown: int = 0
    unsupported: int = 0
    """Resources of types that have no check."""
    names: list[str] = []
    """Unhealthy resources of the stack itself, or with unhealthy ones below them."""
    stale: list[str] = []
    """Names of resources that had failed before and have no check."""
    causes: dict[str, int] = {}
    """The number of objects with unknown health, by cause."""

    @property
    def fails(self) -> bool:
        """True if a resource is unhealthy, or had failed before and has no check."""
        return bool(self.unhealthy or self.stale)

    def add_unknown(self, cause: str, count: int = 1) -> None:
        """Count objects of unknown health."""
        self.unknown += count
        self.causes[cause] = self.causes.get(cause, 0) + count

    def add_nested(self, name: str, below: "CheckTally") -> None:
        """Add the verdicts of a resource's nested stack."""
        self.healthy += below.healthy
        self.unhealthy += below.unhealthy
        self.unsupported += below.unsupported
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
        return CheckTally(
            self.healthy,
            self.unhealthy,
            self.unknown,
            self.unsupported,
            [*self.names],
            [*self.stale],
            {**self.causes},
        )

    def to_json(self, named: bool = False) -> JsonMap:
        """Return the counts; `named` adds the names.

        The next attempt at a check needs them.
        """
        causes: dict[str, Json] = {**self.causes}
        counts: JsonMap = {
            "healthy": self.healthy,
            "unhealthy": self.unhealthy,
            "unknown": self.unknown,
            "unsupported": self.unsupported,
            "stale": [*self.stale],
            "causes": causes,
        }
        return {**counts, "names": [*self.names]} if named else counts

    @classmethod
    def from_json(cls, stored: Json) -> "CheckTally | None":
        """Read what `to_json` wrote; None for anything but an object."""
        if not isinstance(stored, dict):
            return None
        found = cls(
            healthy=_number(stored.get("healthy")),
            unhealthy=_number(stored.get("unhealthy")),
            unsupported=_number(stored.get("unsupported")),
            names=[*as_texts(stored.get("names"))],
            stale=[*as_texts(stored.get("stale"))],
        )
        for cause, count in as_map(stored.get("causes")).items():
            found.add_unknown(cause, _number(count))
        return found


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
