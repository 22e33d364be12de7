"""Records of the healing tables."""

from msgspec import Struct

from heatlite.core.json import AnyMap, JsonMap
from heatlite.features.healing.terms import Brake, ClosedAs, IncidentState, RepairResult, Word


class HealthSourceRecord(Struct, frozen=True):
    """A named intake of a project."""

    project: str
    name: str
    document: JsonMap | None = None
    """Its document as it was put; None: the defaults of its name."""
    last_report_at: float | None = None
    storm_since: float | None = None
    """Begin of its storm; None: there is none."""
    window_from: float = 0.0
    """Time from which the window of its storm counts; an acknowledgement moves it."""
    results: tuple[AnyMap, ...] = ()
    """The last results, oldest first."""


class HealthTokenRecord(Struct, frozen=True):
    """A token that only opens intakes."""

    id: str
    project: str
    name: str
    digest: str
    """SHA-256 of the token."""
    source: str | None
    """The only source that it opens; None: all of its project."""
    created_by: str
    created_at: float
    expires_at: float | None = None
    last_used_at: float | None = None


class ObservationRecord(Struct, frozen=True):
    """An episode: one firing period of a key of a source."""

    id: str
    project: str
    source: str
    key: str
    starts_at: float
    first_seen: float
    last_seen: float
    reports: int = 1
    word: Word = Word.FIRING
    """The last word of the source about it."""
    is_open: bool = True
    """True for the newest episode of the key, until that has resolved. A muted key stays open."""
    incident_id: str | None = None
    root_id: str | None = None
    path: str = ""
    """Slot of the target below the root; "" for a source that is blind as a whole."""
    muted_for: str | None = None
    """Physical id of the object for which an operator has muted the key; None: not muted."""
    summary: str = ""
    ended_at: float | None = None


class HistoryLine(Struct, frozen=True, array_like=True):
    """One move of an incident."""

    time: float
    before: str
    after: str
    reason: str


class IncidentRecord(Struct, frozen=True):
    """A slot and a source, while something is wrong there."""

    id: str
    project: str
    source: str
    root_id: str
    stack_id: str
    """The stack that has the resource."""
    path: str
    """Names from the root to the resource: ``web/2/server``."""
    member: str
    """Path of the member that brakes count."""
    scope: str
    """Path of the member's group, or ``type:TYPE``."""
    resource_id: str
    physical_id: str
    """The object that it was opened for; while it settles, the new object."""
    state: IncidentState
    created_at: float
    last_report_at: float
    evidence_since: float | None = None
    """Receipt of the first report that counts as evidence; None: none has come since `evidence_after`."""
    evidence_after: float = 0.0
    """Reports that were received earlier are no evidence."""
    reports: int = 1
    """Reports since `evidence_since`."""
    ttl: int | None = None
    """Seconds without a report after which it expires; None: never."""
    due: float | None = None
    """Time at which the loop looks at it; None once closed."""
    is_marked: bool = False
    """True if this incident made the row CHECK_FAILED."""
    needs_resolved: Brake | None = None
    """Brake that holds until the alert has resolved once."""
    step: int = 0
    """Position of the next step in the ladder."""
    attempt: int = 0
    """Number of repairs begun for it."""
    action_id: str | None = None
    """The action that repairs it, or has repaired it."""
    settles_until: float | None = None
    plan_digest: str | None = None
    """Digest of the proposed plan."""
    reason: Brake | None = None
    """The first brake that holds it; None: none does."""
    also: tuple[Brake, ...] = ()
    """The other brakes that hold it."""
    summary: str = ""
    """Text of the mark."""
    closed_at: float | None = None
    closed_as: ClosedAs | None = None
    history: tuple[HistoryLine, ...] = ()
    version: int = 0
    """Number of its changes; a change names the version that it read."""


class HealingPolicyRecord(Struct, frozen=True):
    """The policy of a root stack."""

    root_id: str
    document: JsonMap
    version: int
    updated_by: str
    updated_at: float


class HealingScopeRecord(Struct, frozen=True):
    """Brakes of one scope of a tree."""

    root_id: str
    scope: str
    open_since: float | None = None
    """Time at which its breaker opened; None: it is closed."""
    is_suspended: bool = False
    failures: int = 0
    """Failed repairs in a row."""


class RepairRecord(Struct, frozen=True):
    """One attempt to repair a member."""

    id: str
    incident_id: str
    root_id: str
    scope: str
    member: str
    path: str
    step: str
    """A `RepairStep`, or ``revert``."""
    position: int
    """Position of the step in the ladder."""
    action_id: str
    begun_at: float
    ended_at: float | None = None
    result: RepairResult | None = None
    settles_until: float | None = None
    is_failure: bool = False
    """True once it counts as failed: by its result, or by new trouble soon after it."""
