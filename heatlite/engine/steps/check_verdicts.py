"""The verdict of a check: healthy, unhealthy or unknown; and the text of a stack's check that was not all well.

A check that could not look at the object has found out nothing. It fails the stack's check and leaves the resource's
row as it was, so that no update replaces an object on the ground of an outage (docs/decisions/0022-unknown-health.md).
"""

from dataclasses import dataclass, field, replace

from heatlite.clients.cloud import CloudError
from heatlite.core.json import Json, JsonMap
from heatlite.core.masking import masked
from heatlite.core.status import Status, Verb
from heatlite.plugin.resource import Unhealthy
from heatlite.store.records import HealthRecord, PreviousState, ResourceRecord

COULD_NOT_LOOK = "Could not look: "
"""The begin of the reason of an event that tells of a check without a result."""

LONGEST_CAUSE = 200
"""Characters of a cause in the reason of a stack."""

HIDING = frozenset({Verb.CHECK, Verb.LOCK, Verb.UNLOCK})
"""Verbs that keep what they hide of an earlier failure (`journal.row_moved`)."""


def cause_of(error: Exception) -> str:
    """The reason why an object could not be looked at; "" for a definite answer: the object is unhealthy.

    Objects that cannot be looked at for the same reason have the same cause: it names no object and no request.
    """
    if isinstance(error, Unhealthy):
        return ""
    if isinstance(error, CloudError):
        answer = f"HTTP {error.status}" if error.status is not None else type(error).__name__
        return f"{error.service}: {answer}"
    return f"{type(error).__name__}: {masked(str(error))}"[:LONGEST_CAUSE]


def begun(row: ResourceRecord, marked: bool) -> ResourceRecord:
    """The row with the state that a check without a result gives back.

    `marked`: the row is CHECK_FAILED by a mark on the resource itself.
    """
    before = PreviousState(row.verb, row.status, row.status_reason, row.updated_at)
    known = row.health or HealthRecord()
    return replace(row, health=replace(known, before=before, before_lock=row.before_lock, marked=marked))


def unseen(row: ResourceRecord, reason: str, now: float) -> ResourceRecord | None:
    """The row after a check without a result: as before the check, its health unknown. None: the row is in no check."""
    health = row.health
    if health is None or health.before is None:
        return None
    before, since = health.before, health.since
    return replace(
        row,
        verb=before.verb,
        status=before.status,
        status_reason=before.status_reason,
        updated_at=before.updated_at,
        token=None,
        before_lock=health.before_lock,
        before_check=row.before_check if before.verb in HIDING else None,
        health=HealthRecord(now if since is None else since, reason, health.marked),
    )


def told(row: ResourceRecord, reason: str) -> ResourceRecord:
    """The row as the event of a check without a result shows it."""
    return replace(row, verb=Verb.CHECK, status=Status.FAILED, status_reason=COULD_NOT_LOOK + reason)


@dataclass(slots=True)
class Tally:
    """The results of the checks of one stack, those of the stacks nested in it included."""

    healthy: int = 0
    unhealthy: int = 0
    unknown: int = 0
    unsupported: int = 0
    """Resources of types that have no check."""
    names: list[str] = field(default_factory=list)
    """The names of the stack's own resources that are unhealthy, or have unhealthy ones below them."""
    stale: list[str] = field(default_factory=list)
    """The names of those that had failed before and have no check."""
    causes: dict[str, int] = field(default_factory=dict)
    """The number of objects that could not be looked at, by cause."""

    @property
    def fails(self) -> bool:
        """Whether something is unhealthy, or had failed before and cannot be checked."""
        return bool(self.unhealthy or self.stale)

    def add_unknown(self, cause: str, count: int = 1) -> None:
        """Count objects that could not be looked at."""
        self.unknown += count
        self.causes[cause] = self.causes.get(cause, 0) + count

    def add_nested(self, name: str, below: "Tally") -> None:
        """Count what the check of a resource's nested stack has found."""
        self.healthy += below.healthy
        self.unhealthy += below.unhealthy
        self.unsupported += below.unsupported
        for cause, count in below.causes.items():
            self.add_unknown(cause, count)
        if below.unhealthy:
            self.names.append(name)
        if below.stale:
            self.stale.append(name)

    def counts(self) -> JsonMap:
        """The key ``checked`` of an action's outputs."""
        causes: dict[str, Json] = {**self.causes}
        return {
            "healthy": self.healthy,
            "unhealthy": self.unhealthy,
            "unknown": self.unknown,
            "unsupported": self.unsupported,
            "stale": [*self.stale],
            "causes": causes,
        }

    def record(self) -> JsonMap:
        """The key ``checked`` of the data of an action that has not ended, for the next attempt."""
        return {**self.counts(), "names": [*self.names]}

    @classmethod
    def read(cls, outputs: JsonMap) -> "Tally | None":
        """The counts that an action's outputs or, before its end, its data tell of; None: it has none."""
        checked = outputs.get("checked")
        if not isinstance(checked, dict):
            return None
        found = cls(_number(checked.get("healthy")), _number(checked.get("unhealthy")))
        found.unsupported = _number(checked.get("unsupported"))
        stale, causes = checked.get("stale"), checked.get("causes")
        found.stale = [str(name) for name in stale] if isinstance(stale, list) else []
        names = checked.get("names")
        found.names = [str(name) for name in names] if isinstance(names, list) else []
        for cause, count in causes.items() if isinstance(causes, dict) else ():
            found.add_unknown(cause, _number(count))
        return found

    def reason(self) -> str:
        """The reason of a stack's check in which something could not be looked at."""
        parts = [f"{self.unhealthy} unhealthy ({', '.join(sorted(self.names))})"] if self.unhealthy else []
        if self.stale:
            parts.append(f"{len(self.stale)} failed before and cannot be checked ({', '.join(sorted(self.stale))})")
        parts += [f"{count} could not be looked at ({cause})" for cause, count in sorted(self.causes.items())]
        return f"Resource CHECK failed: {', '.join(parts)}"


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
