"""What leaves the store: frozen records. Rows never do.

Times are seconds since the epoch, UTC. A record is changed with `dataclasses.replace` and given back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from heatlite.core.clouds import CloudIdentity
from heatlite.core.json import Json, JsonMap
from heatlite.core.status import ActionStatus, Cause, Control, Kind, LockLevel, Needs, Status, Verb, is_locked

REPORT_INTERVAL = 60
"""Seconds within which an engine is expected to report (Heat's default)."""


@dataclass(frozen=True, slots=True)
class LockRecord:
    """A maintenance lock on a stack."""

    level: LockLevel
    locked_by: str
    by_admin: bool
    locked_at: float
    reason: str | None = None
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class ProtectionRecord:
    """Protection of a stack or of a resource: it is neither deleted nor replaced until it is unprotected."""

    by: str
    """The user who asked for it, also where the environment of a request did."""
    at: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class StackRecord:
    """One stack."""

    id: str
    name: str
    project: str
    username: str
    template_id: str
    """Content address of the template and files that the stack is moving to, or stands on."""
    environment: JsonMap
    """parameters, parameter_defaults, resource_registry, event_sinks: as given, merged."""
    verb: Verb
    status: Status
    status_reason: str
    created_at: float
    updated_at: float | None = None
    deleted_at: float | None = None
    parent_id: str | None = None
    root_id: str | None = None
    """The root of the tree; None where the stack is itself the root."""
    previous_template_id: str | None = None
    """What a rollback goes back to; None when there is nothing, or once COMPLETE."""
    previous_environment: JsonMap | None = None
    timeout_mins: int | None = None
    disable_rollback: bool = True
    tags: tuple[str, ...] = ()
    lock: LockRecord | None = None
    """The lock that was set on this very stack; one that it has from an ancestor shows in its state only."""
    parent_resource: str | None = None
    """The name of the parent's resource that this stack is the object of."""
    depth: int = 0
    """How many stacks it is nested in."""
    inherited: JsonMap | None = None
    """What a nested stack has from its parent beside its environment: ``facade`` (metadata, deletion_policy and
    update_policy of the resource, for resource_facade) and ``without`` (`Environment.without`)."""
    before_lock: str | None = None
    """The state before it was locked: ``CHECK_FAILED``. Kept after the unlock, until something else is done."""

    cloud: CloudIdentity | None = None
    """Of a root: the cloud in which the tree has its objects. None: it has had none yet, or it was made before this was
    recorded. Written by `Stacks.record_cloud` only."""
    sealed: bool = False
    """Something in its tree is hidden: what the rows of the stack are made of is encrypted."""
    protection: ProtectionRecord | None = None
    """Set on this very stack; what is nested in it has its own."""

    def timeout_seconds(self, default: float) -> float:
        """How long an operation on the stack may take; `default` where it does not say."""
        return self.timeout_mins * 60.0 if self.timeout_mins else float(default)

    @property
    def locked(self) -> bool:
        """Whether it is under maintenance, also where the lock is an ancestor's."""
        return self.lock is not None or is_locked(self.verb, self.status)

    @property
    def state_without_lock(self) -> tuple[Verb, Status]:
        """Its state, as if it had never been locked and unlocked: what else can be done depends on that."""
        if self.before_lock is None:
            return self.verb, self.status
        verb, _, status = self.before_lock.partition("_")
        return Verb(verb), Status(status)


@dataclass(frozen=True, slots=True)
class StackSummary:
    """A stack as a list shows it: without its environment."""

    id: str
    name: str
    project: str
    username: str
    verb: Verb
    status: Status
    status_reason: str
    created_at: float
    updated_at: float | None
    deleted_at: float | None
    parent_id: str | None
    root_id: str | None
    tags: tuple[str, ...]
    locked: bool
    protected: bool


@dataclass(frozen=True, slots=True)
class TemplateRecord:
    """A template with the files it was sent with; stored once per content."""

    id: str
    document: JsonMap
    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class EarlierState:
    """A state of a resource that a lock, a check or a mark hides."""

    verb: Verb
    status: Status
    status_reason: str
    updated_at: float | None = None


@dataclass(frozen=True, slots=True)
class HealthRecord:
    """What is known of a resource's health beside its state."""

    since: float | None = None
    """The time of the first check that could not look at the object, since the last that could; None: it is known."""
    reason: str = ""
    """Why the last check could not look."""
    marked: bool = False
    """Of a nested stack's resource: its CHECK_FAILED is a mark on itself, not what its members have come to."""
    before: EarlierState | None = None
    """While a check runs: the state that the resource gets back where the check finds out nothing."""
    before_lock: EarlierState | None = None
    """While a check runs: what a lock had hidden before it (`ResourceRecord.before_lock`)."""


@dataclass(frozen=True, slots=True)
class ResourceRecord:
    """One resource row. During a replacement two rows have the same name; the ids sort by age."""

    id: str
    stack_id: str
    name: str
    type: str
    """As the template writes it."""
    mapped_type: str
    """What the environment's registry made of it: the class that owns the row."""
    verb: Verb
    status: Status
    status_reason: str
    created_at: float
    updated_at: float | None = None
    physical_name: str = ""
    """The name by which the real object can be found again."""
    physical_id: str | None = None
    properties: JsonMap = field(default_factory=dict)
    """Resolved and coerced, defaults left out: what the object was last made to be."""
    metadata: JsonMap = field(default_factory=dict)
    data: JsonMap = field(default_factory=dict)
    """What the type's handlers keep."""
    token: JsonMap | None = None
    """`{"token": …}` once a handler has returned and its check is still open."""
    requires: tuple[str, ...] = ()
    """Names of the resources that its definition depends on."""
    deletion_policy: str = "Delete"
    description: str = ""
    before_lock: EarlierState | None = None
    """The state before it was locked. Kept after an unlock that has not restored it, until something else is done."""
    uses: tuple[str, ...] = ()
    """Ids of the rows whose objects this one's object was last made with: none of them may go before it."""
    external_id: str | None = None
    """Of an object that was there before, and is not ours: its id as the template gives it."""
    before_check: EarlierState | None = None
    """The state before a check or a mark, of a resource that had failed or was never made."""
    protection: ProtectionRecord | None = None
    health: HealthRecord | None = None
    """None: its state says all that is known."""
    moved_in: str | None = None
    """The phase of an action that has last changed its state: what has ended in it is not begun again after a crash."""

    @property
    def is_locked(self) -> bool:
        """True while it is locked, being locked or being unlocked."""
        return is_locked(self.verb, self.status)

    @property
    def state_without_lock(self) -> EarlierState:
        """Its state, as if it had never been locked and unlocked."""
        return self.before_lock or EarlierState(self.verb, self.status, self.status_reason, self.updated_at)


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A change of state that somebody may want to know of. `id` is 0 until stored."""

    stack_id: str
    resource_name: str
    resource_type: str
    physical_id: str | None
    verb: str
    status: str
    status_reason: str
    created_at: float
    properties: JsonMap = field(default_factory=dict)
    id: int = 0


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """A queued unit of work on a stack (seed: senlin-actions)."""

    id: str
    stack_id: str
    """Its target."""
    root_id: str
    project: str
    verb: Verb
    status: ActionStatus
    requested_by: str
    created_at: float
    cause: Cause = Cause.REQUEST
    inputs: JsonMap = field(default_factory=dict)
    outputs: JsonMap = field(default_factory=dict)
    """Once it has ended: ``result``, and ``stack_status`` or ``error``."""
    data: JsonMap = field(default_factory=dict)
    """What it has decided, and how far it is."""
    context: JsonMap = field(default_factory=dict)
    """Who asked: ``roles``, ``request_id``."""
    secrets: str | None = None
    """What of the context is secret, encrypted; None once the action has ended."""
    status_reason: str = ""
    control: Control | None = None
    interval: float = 0.0
    """Seconds after which it is to be done again; 0: never."""
    not_before: float | None = None
    timeout: int = 0
    """Seconds; 0: the installation's `default_action_timeout`."""
    retries: int = 0
    """How often it has been given back because others were in the way."""
    pending: int = 0
    """How many of the actions that it depends on have not ended; of a playbook's run one more, for its node actions."""
    failed_dependencies: int = 0
    zone: str | None = None
    """The label of the workers that are to do it; None: any."""
    owner: str | None = None
    attempt: int = 0
    lease_until: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    suspended_at: float | None = None
    suspended: float = 0.0
    """Seconds that it has been SUSPENDED in all, not counting the present time."""
    updated_at: float | None = None
    deadline: float | None = None
    commits: int = 0
    """How often what its workers have done was written."""
    takeovers: int = 0
    """How often it was taken over without progress, this time included."""
    seq: int = 0
    parent_id: str | None = None
    """The action that this one was derived from: it goes on when this one has ended."""
    urgent: bool = False
    """Whether the parent has something to do as soon as this one has ended, whatever else it waits for."""

    @property
    def name(self) -> str:
        """``stack_update_1a2b3c4d``: not unique, but easy to read."""
        return f"stack_{self.verb.lower()}_{self.stack_id[-8:]}"

    @property
    def was_claimed(self) -> bool:
        """Whether a worker has ever had it; none ever has a playbook's run."""
        return self.started_at is not None and self.verb is not Verb.PLAYBOOK

    @property
    def kind(self) -> Kind:
        """Which workers are for it."""
        return Kind.CHECK if self.verb is Verb.CHECK else Kind.STACK


@dataclass(frozen=True, slots=True)
class DependencyRecord:
    """One action needs another."""

    dependent: str
    depended: str
    needs: Needs
    state: str
    """open, ok, failed."""


@dataclass(frozen=True, slots=True)
class Relations:
    """The ids of the actions that one depends on, and of those that depend on it, derived ones and its parent too."""

    depends_on: tuple[str, ...] = ()
    depended_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TransitionRecord:
    """One move of an action."""

    action_id: str
    time: float
    before: ActionStatus
    after: ActionStatus
    attempt: int
    owner: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Announcement:
    """Something for workers: an action that has become READY, or one that runs and was asked for something."""

    action_id: str
    kind: Kind
    zone: str | None
    is_ready: bool


@dataclass(frozen=True, slots=True)
class SuppressedRecord:
    """A request that a maintenance lock refused or ignored. `id` is 0 until stored."""

    stack_id: str
    time: float
    request: str
    target: str
    requested_by: str
    detail: str
    method: str
    path: str
    """The route below the stack, for a replay: ``/resources/db``; "" for the stack itself."""
    body: JsonMap | None
    id: int = 0
    root_id: str = ""
    """The root of the stack's tree; "": the stack itself."""
    author: JsonMap = field(default_factory=lambda: {"roles": ["member"]})
    """What is kept of the caller who made the request, beside the name: roles, ids. Only members make such requests."""
    effect: JsonMap = field(default_factory=dict)
    """What the request would do, as it may be shown."""
    last_time: float | None = None
    """When it was last made."""
    count: int = 1
    """How often it was made."""
    replayable: bool = True
    """False for one whose body is too large to be kept."""


@dataclass(frozen=True, slots=True)
class DroppedRecord:
    """How many suppressed requests of a tree were dropped to make room for others, and when the last one was."""

    count: int
    last_time: float


@dataclass(frozen=True, slots=True)
class SoftwareConfigRecord:
    """What software a server is to have, and how. Never changes."""

    id: str
    project: str
    name: str
    group: str
    """The tool that is to apply it: ``script``, ``ansible`` …"""
    config: Json
    """What that tool reads."""
    inputs: Sequence[JsonMap]
    outputs: Sequence[JsonMap]
    options: JsonMap
    created_at: float


@dataclass(frozen=True, slots=True)
class SoftwareDeploymentRecord:
    """A configuration given to a server, and what came of it."""

    id: str
    project: str
    server_id: str
    config_id: str
    input_values: JsonMap
    output_values: JsonMap
    action: str
    status: str
    status_reason: str
    created_at: float
    updated_at: float | None = None


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """What a stack was at a moment."""

    id: str
    stack_id: str
    name: str | None
    verb: Verb
    """CREATE or DELETE."""
    status: Status
    status_reason: str
    created_at: float
    data: JsonMap | None = None
    """The stack's record (heat-api §10), once the snapshot is taken."""


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """How far a stack's events have come to one of its sinks."""

    stack_id: str
    digest: str
    position: int
    """The id of the last event that it has had."""
    failures: int = 0
    """Attempts since the last that went well."""
    failing_since: float | None = None
    retry_at: float = 0.0
    given_up_at: float | None = None
    project: str = ""
    """The stack's."""


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """An engine that reports for work."""

    id: str
    host: str
    binary: str
    created_at: float
    updated_at: float

    def is_up(self, now: float) -> bool:
        """Whether it has reported within two intervals."""
        return now - self.updated_at <= 2 * REPORT_INTERVAL


@dataclass(frozen=True, slots=True)
class AccountRecord:
    """With what the agent of a resource proves to the API who it is."""

    stack_id: str
    root_id: str
    resource_name: str
    physical_name: str
    """The resource's, and what the user is called."""
    password: str = field(repr=False)
    user_id: str | None = None
    """None until it is known that the user was made; as for the project."""
    project_id: str | None = None
