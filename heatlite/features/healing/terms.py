"""Terms of the healing loop: incident states, report results, brakes, steps."""

from enum import StrEnum

from heatlite.core.json import Json


class IncidentState(StrEnum):
    """States of an incident, in their usual order."""

    OBSERVED = "OBSERVED"
    """There is evidence."""
    CONFIRMED = "CONFIRMED"
    """The evidence has stood long enough; the mark is pending."""
    MARKED = "MARKED"
    """The resource is CHECK_FAILED."""
    PROPOSED = "PROPOSED"
    """A plan waits for approval."""
    REPAIRING = "REPAIRING"
    """An action repairs it."""
    SETTLING = "SETTLING"
    """The repair succeeded; its effect is awaited."""
    CLOSED = "CLOSED"


DEFAULT_SOURCES = ("alertmanager", "grafana", "aodh", "generic")
"""Sources that each project has without configuration, named as their formats."""

OPEN_INCIDENTS = frozenset(IncidentState) - {IncidentState.CLOSED}

UNCONFIRMED = frozenset({IncidentState.OBSERVED, IncidentState.CONFIRMED})
"""States before the mark."""
UNHEALTHY = frozenset({IncidentState.MARKED, IncidentState.PROPOSED, IncidentState.REPAIRING})
"""States in which the resource counts as unhealthy: after the mark, before the end of the repair."""


class ClosedAs(StrEnum):
    """Reasons why an incident was closed."""

    RESOLVED = "resolved"
    HEALED = "healed"
    QUIET = "quiet"
    """No report came while the repair settled."""
    EXPIRED = "expired"
    REPLACED_BY_UPDATE = "replaced_by_update"
    GONE = "gone"
    CLEARED = "cleared"


class Word(StrEnum):
    """The last word of a source about a key."""

    FIRING = "firing"
    RESOLVED = "resolved"
    BLIND = "blind"
    """The source cannot see its target."""


class ReportResult(StrEnum):
    """Results of a report."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"
    CLEARED = "cleared"
    IGNORED = "ignored"
    BLIND = "blind"
    SUPPRESSED = "suppressed"
    SUSPENDED = "suspended"
    MUTED = "muted"
    STALE = "stale"
    UNKNOWN = "unknown"
    UNMAPPED = "unmapped"
    AMBIGUOUS = "ambiguous"
    CONTRADICTION = "contradiction"
    INVALID = "invalid"
    OVERFLOW = "overflow"


class Mode(StrEnum):
    """Permission that a policy gives the loop."""

    OFF = "off"
    """It marks only."""
    PROPOSE = "propose"
    """A plan waits for approval."""
    AUTO = "auto"


def policy_of_yaml(document: Json) -> Json:
    """Return a policy with the word `off`, which YAML 1.1 reads as false."""
    if not isinstance(document, dict):
        return document
    read: dict[str, Json] = dict(document)
    read.update({name: Mode.OFF.value for name in ("mode", "drift") if read.get(name) is False})
    rules = read.get("rules")
    if isinstance(rules, list):
        read["rules"] = [policy_of_yaml(rule) for rule in rules]
    return read


class SecondOpinion(StrEnum):
    """Second opinion that a policy wants before a repair."""

    NONE = "none"
    CHECK = "check"
    """The resource is checked first."""


REVERT = "revert"
"""Step of a repair that puts drift back."""


class RepairResult(StrEnum):
    """Results of a repair."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Brake(StrEnum):
    """Reasons that hold an incident, in the order in which they are asked."""

    MODE_OFF = "mode_off"
    SOURCE_NOT_LISTED = "source_not_listed"
    LOCKED = "locked"
    STACK_SUSPENDED = "stack_suspended"
    STACK_FAILED = "stack_failed"
    SOURCE_BLIND = "source_blind"
    STORM = "storm"
    SCOPE_SUSPENDED = "scope_suspended"
    BREAKER_OPEN = "breaker_open"
    RESTRICTED = "restricted"
    CANCELLED = "cancelled"
    DISPUTED = "disputed"
    CANNOT_LOOK = "cannot_look"
    NO_CREDENTIAL = "no_credential"
    NO_STEP = "no_step"
    INTERNAL_ERROR = "internal_error"
    """The last look at it has failed; the engine's log has the error."""
    STALE_EVIDENCE = "stale_evidence"
    BUSY = "busy"
    IN_GRACE = "in_grace"
    CONFIRMING = "confirming"
    BELOW_MIN = "below_min"
    WINDOW_CLOSED = "window_closed"
    REPAIR_COOLDOWN = "cooldown"
    RATE = "rate"
    PARALLEL = "parallel"
    QUOTA = "quota"
    """The repair needs more than the quota of the project in the cloud leaves."""
    SPREADS = "spreads"
    AWAITING_APPROVAL = "awaiting_approval"


PACE_BRAKES = frozenset({
    Brake.BUSY, Brake.IN_GRACE, Brake.CONFIRMING, Brake.BELOW_MIN, Brake.WINDOW_CLOSED, Brake.REPAIR_COOLDOWN,
    Brake.RATE, Brake.PARALLEL, Brake.QUOTA, Brake.SPREADS, Brake.AWAITING_APPROVAL,
})  # fmt: skip
"""Brakes that say "not now"."""

STOP_BRAKES = frozenset(Brake) - PACE_BRAKES
"""Brakes that say "do not trust this" or "not allowed". Their release needs new evidence, except after our error."""

IGNORABLE = PACE_BRAKES - {Brake.BUSY} | {
    Brake.BREAKER_OPEN, Brake.STORM, Brake.SCOPE_SUSPENDED, Brake.STALE_EVIDENCE, Brake.CANCELLED, Brake.DISPUTED,
    Brake.MODE_OFF, Brake.SOURCE_NOT_LISTED,
}  # fmt: skip
"""Brakes that an operator may ignore in a repair by hand."""
BY_CALLER = frozenset({Brake.NO_CREDENTIAL})
"""Brakes that do not hold a repair by hand: it acts with the credentials of its caller."""
