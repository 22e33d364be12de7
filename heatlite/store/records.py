"""Records: frozen structs that the store returns and takes.

Rows never leave the store. Times are seconds since the epoch, UTC. To change a record, pass a copy made by
`msgspec.structs.replace` to the store.
"""

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData, ActionInputs, ActionOutputs
from heatlite.core.clouds import CloudIdentity
from heatlite.core.json import Json, JsonMap
from heatlite.core.redaction.secret_fields import HidesSecrets
from heatlite.core.status import (
    LIVE_ACTIONS,
    ActionStatus,
    Cause,
    Control,
    LockLevel,
    Needs,
    Status,
    Verb,
    WorkKind,
    is_locked,
)

REPORT_INTERVAL = 60
"""Seconds within which an engine is expected to report (Heat's default)."""


class LockRecord(Struct, frozen=True):
    """A maintenance lock on a stack."""

    level: LockLevel
    locked_by: str
    by_admin: bool
    locked_at: float
    reason: str | None = None
    expires_at: float | None = None


class ProtectionRecord(Struct, frozen=True, array_like=True):
    """Protection of a stack or resource against deletion and replacement."""

    by: str
    """The user whose request set it, directly or by its environment."""
    at: float
    reason: str | None = None


class Restriction(Struct, frozen=True, omit_defaults=True):
    """The part of a stack's definition that updates have left out.

    It ends with an update of all that succeeds.
    """

    since: float
    action_id: str
    """Of the last update that has left something out."""
    left_out: tuple[str, ...]
    """Paths of resources, the outermost where all below is left out."""
    reached: bool = False
    """False until that update has succeeded: a rollback leads to `earlier`."""
    earlier: "Restriction | None" = None
    """The restriction of the definition that a rollback restores."""

    @property
    def settled(self) -> "Restriction":
        """The restriction once its update has succeeded."""
        return replace(self, reached=True, earlier=None)

    @property
    def without_update(self) -> "Restriction | None":
        """The restriction once its update was rolled back."""
        return self if self.reached else self.earlier


class StackRecord(Struct, frozen=True):
    """One stack."""

    id: str
    name: str
    project: str
    username: str
    template_id: str
    """Content address of the current template and files; during an update, of the new ones."""
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
    """The root of the tree; None for a root."""
    previous_template_id: str | None = None
    """Target of a rollback; None if there is none, or once the stack is COMPLETE."""
    previous_environment: JsonMap | None = None
    timeout_mins: int | None = None
    disable_rollback: bool = True
    tags: tuple[str, ...] = ()
    lock: LockRecord | None = None
    """The lock set on this stack. A lock inherited from an ancestor shows in the state only."""
    parent_resource: str | None = None
    """Name of the parent's resource that has this stack as its object."""
    depth: int = 0
    """Number of ancestors."""
    inherited: JsonMap | None = None
    """Data from the parent beside the environment: ``facade`` (metadata, deletion_policy and update_policy of the
    resource, for resource_facade) and ``without`` (`Environment.without`)."""
    before_lock: str | None = None
    """State before the lock: ``CHECK_FAILED``. Kept after the unlock until the next operation."""

    cloud: CloudIdentity | None = None
    """Cloud of the tree's objects; roots only. None before the first object, or for stacks made before clouds were
    recorded. Only `Stacks.record_cloud` writes it."""
    sealed: bool = False
    """True if the tree has hidden values; the content of the stack's rows is encrypted then."""
    protection: ProtectionRecord | None = None
    """Protection set on this stack. Nested stacks have their own."""
    restricted: Restriction | None = None
    """The part of its definition that updates have left out; roots only."""

    @property
    def timeout(self) -> int:
        """The time limit of its operations in seconds; 0: see `Settings.time_limit`."""
        return (self.timeout_mins or 0) * 60

    @property
    def locked(self) -> bool:
        """True if the stack or an ancestor has a maintenance lock."""
        return self.lock is not None or is_locked(self.verb, self.status)

    @property
    def state_without_lock(self) -> tuple[Verb, Status]:
        """The state without a lock or unlock, which decides the operations allowed."""
        if self.before_lock is None:
            return self.verb, self.status
        verb, _, status = self.before_lock.partition("_")
        return Verb(verb), Status(status)


class StackPlace(Struct, frozen=True):
    """The place of a nested stack in its tree."""

    id: str
    parent_id: str
    parent_resource: str
    depth: int


class StackSummary(Struct, frozen=True):
    """A stack as in a list, without its environment."""

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
    lock_level: LockLevel | None
    protection: ProtectionRecord | None
    restricted: Restriction | None

    @property
    def locked(self) -> bool:
        """True if the stack or an ancestor has a maintenance lock."""
        return self.lock_level is not None or is_locked(self.verb, self.status)

    @property
    def protected(self) -> bool:
        """True if the stack itself is protected."""
        return self.protection is not None


class TemplateRecord(Struct, frozen=True):
    """A template with its files, stored once per content."""

    id: str
    document: JsonMap
    files: dict[str, str]


class PreviousState(Struct, frozen=True, array_like=True):
    """The state of a resource that a lock, a check or a mark has replaced."""

    verb: Verb
    status: Status
    status_reason: str
    updated_at: float | None = None


class HealthNote(Struct, frozen=True):
    """Knowledge of a feature about the health of a resource."""

    resource_id: str
    unhealthy: bool
    """False: it suspects the resource."""
    since: float
    source: str
    reason: str
    incident: str
    """Id of the incident with the details."""


class HealthRecord(Struct, frozen=True):
    """Knowledge about a resource's health beside its state."""

    since: float | None = None
    """Time of the first failed observation since the last successful one; None: the health is known."""
    reason: str = ""
    """Reason why the last check could not observe the object."""
    marked: bool = False
    """True if CHECK_FAILED of a nested stack's resource is a mark of its own, not the result of its members."""
    before: PreviousState | None = None
    """During a check: the state to restore if the check observes nothing."""
    before_lock: PreviousState | None = None
    """During a check: the `ResourceRecord.before_lock` to restore."""


class HolderRecord(Struct, frozen=True):
    """A resource of another tree that has an object, as an adoption asks for it."""

    name: str
    mapped_type: str
    physical_name: str
    physical_id: str | None
    project: str
    stack_name: str
    """The name of the tree's root. A retained nested stack without a root has its own."""
    cloud: CloudIdentity | None
    """The cloud of the tree's objects."""


class ResourceRecord(Struct, frozen=True):
    """A resource. During a replacement two rows have its name; ids sort by age."""

    id: str
    stack_id: str
    name: str
    type: str
    """Type name in the template."""
    mapped_type: str
    """Type name after the environment's resource registry; it selects the class."""
    verb: Verb
    status: Status
    status_reason: str
    created_at: float
    updated_at: float | None = None
    physical_name: str = ""
    """Name of the object in the cloud, by which a lost object is found."""
    physical_id: str | None = None
    properties: JsonMap = {}
    """Resolved properties of the object as last created or updated, without defaults."""
    metadata: JsonMap = {}
    data: JsonMap = {}
    """Data of the type's handlers."""
    token: JsonMap | None = None
    """`{"token": …}` from the return of a handler until its check succeeds."""
    requires: tuple[str, ...] = ()
    """Names of the resources in its definition's dependencies."""
    deletion_policy: str = "Delete"
    description: str = ""
    before_lock: PreviousState | None = None
    """State before the lock. An unlock that did not restore it keeps it until the next operation."""
    uses: tuple[str, ...] = ()
    """Ids of the rows whose objects the object uses. They are deleted after it."""
    external_id: str | None = None
    """Id of an external object, from the template; the stack does not own it."""
    before_check: PreviousState | None = None
    """State before a check or a mark, for a resource that had failed or was never created."""
    protection: ProtectionRecord | None = None
    health: HealthRecord | None = None
    """None if the state alone describes the health."""
    moved_in: str | None = None
    """Action and phase that last changed the state. After a crash the phase does not repeat what ended in it."""

    @property
    def is_locked(self) -> bool:
        """True while the resource is locked, being locked or being unlocked."""
        return is_locked(self.verb, self.status)

    @property
    def state_without_lock(self) -> PreviousState:
        """The state without a lock or unlock."""
        return self.before_lock or PreviousState(self.verb, self.status, self.status_reason, self.updated_at)


class EventRecord(Struct, frozen=True):
    """A change of state of a stack or resource. `id` is 0 until stored."""

    stack_id: str
    resource_name: str
    resource_type: str
    physical_id: str | None
    verb: str
    status: str
    status_reason: str
    created_at: float
    properties: JsonMap = {}
    id: int = 0


class ActionRecord(Struct, frozen=True):
    """A queued unit of work on a stack, see docs/reference/actions.md."""

    id: str
    stack_id: str
    """The target."""
    root_id: str
    project: str
    verb: Verb
    status: ActionStatus
    requested_by: str
    created_at: float
    cause: Cause = Cause.REQUEST
    inputs: ActionInputs = ActionInputs()
    outputs: ActionOutputs = ActionOutputs()
    data: ActionData = ActionData()
    context: JsonMap = {}
    """The caller: ``roles``, ``request_id``."""
    status_reason: str = ""
    control: Control | None = None
    interval: float = 0.0
    """Interval of a series in seconds; 0: not repeated."""
    not_before: float | None = None
    timeout: int = 0
    """Seconds; 0: see `Settings.time_limit`."""
    retries: int = 0
    """Number of times it was requeued because of a conflict."""
    pending: int = 0
    """Number of open dependencies; for a run one more, for its own work."""
    failed_dependencies: int = 0
    zone: str | None = None
    """Zone of the workers that may claim it; None: any."""
    owner: str | None = None
    attempt: int = 0
    lease_until: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    suspended_at: float | None = None
    suspended: float = 0.0
    """Seconds of all past suspensions."""
    updated_at: float | None = None
    deadline: float | None = None
    commits: int = 0
    """Number of commits of its workers."""
    takeovers: int = 0
    """Number of takeovers since the last progress, including the current one."""
    seq: int = 0
    parent_id: str | None = None
    """The parent action, which continues when this one has ended."""
    urgent: bool = False
    """True if the end wakes the parent at once, even if other children still run."""
    request: JsonMap | None = None
    """Of a scheduled action: the request to carry out at its time; None from then on."""
    approval_id: str | None = None
    """The approval that it waits for, or that it needed."""

    @property
    def name(self) -> str:
        """Readable name, not unique: ``stack_update_1a2b3c4d``."""
        return f"{self.word.lower()}_{self.stack_id[-8:]}"

    @property
    def word(self) -> str:
        """Kind of the action as the API names it: ``STACK_UPDATE``, ``GROUP_SCALE_IN``."""
        asked = self.inputs.asked
        return f"STACK_{self.verb}" if asked is None or asked.key == "signal" else f"GROUP_{asked.key.upper()}"

    @property
    def was_claimed(self) -> bool:
        """True if a worker has ever claimed it. No worker claims a run."""
        return self.started_at is not None and self.verb is not Verb.RUN

    @property
    def is_baking(self) -> bool:
        """True if it waits before its clean-up, and may be taken back."""
        guard, is_back = self.data.guard, self.data.rolled_back_after is not None
        return guard is not None and guard.ended is None and not is_back and self.status in LIVE_ACTIONS

    @property
    def kind(self) -> WorkKind:
        """The kind of workers that may claim it."""
        return WorkKind.CHECK if self.verb is Verb.CHECK else WorkKind.STACK


class DependencyRecord(Struct, frozen=True):
    """A dependency of one action on another."""

    dependent: str
    depended: str
    needs: Needs
    state: str
    """open, ok, failed."""


class Relations(Struct, frozen=True):
    """Ids of an action's dependencies and dependents, children and parent included."""

    depends_on: tuple[str, ...] = ()
    depended_by: tuple[str, ...] = ()


class TransitionRecord(Struct, frozen=True):
    """One move of an action."""

    action_id: str
    time: float
    before: ActionStatus
    after: ActionStatus
    attempt: int
    owner: str | None
    reason: str


class Announcement(Struct, frozen=True):
    """A message to workers: an action is READY, or has a new control signal."""

    action_id: str
    kind: WorkKind
    zone: str | None
    is_ready: bool
    stack_id: str = ""
    """With `verb`, for display only."""
    verb: str = ""


class SuppressedRecord(Struct, frozen=True):
    """A request that a maintenance lock refused or ignored. `id` is 0 until stored."""

    stack_id: str
    time: float
    request: str
    target: str
    requested_by: str
    detail: str
    method: str
    path: str
    """Path below the stack for a replay: ``/resources/db``; "" for the stack itself."""
    body: JsonMap | None
    id: int = 0
    root_id: str = ""
    """The root of the tree; "" for a root."""
    author: JsonMap = field(default_factory=lambda: {"roles": ["member"]})
    """The caller's roles and ids. Only members make such requests."""
    effect: JsonMap = {}
    """Effect that the request would have, redacted."""
    last_time: float | None = None
    """Time of the last repeat."""
    count: int = 1
    """Number of repeats, the first request included."""
    replayable: bool = True
    """False if the request was not kept whole."""
    query: str = ""
    """Query of the URL for a replay: ``force=true&approval=wait``."""


class DroppedRecord(Struct, frozen=True):
    """Number of suppressed requests dropped from a full list, and the last drop."""

    count: int
    last_time: float


class SoftwareConfigRecord(Struct, frozen=True):
    """A software configuration. Never changes."""

    id: str
    project: str
    name: str
    group: str
    """Tool that applies it: ``script``, ``ansible`` …"""
    config: Json
    """Input of that tool."""
    inputs: Sequence[JsonMap]
    outputs: Sequence[JsonMap]
    options: JsonMap
    created_at: float


class SoftwareDeploymentRecord(Struct, frozen=True):
    """The deployment of a software configuration to a server, with its result."""

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


class SnapshotRecord(Struct, frozen=True):
    """A snapshot of a stack."""

    id: str
    stack_id: str
    name: str | None
    verb: Verb
    """CREATE or DELETE."""
    status: Status
    status_reason: str
    created_at: float
    data: JsonMap | None = None
    """The stack as Heat's snapshots describe it; None until the snapshot is complete."""


class WebhookRecord(Struct, frozen=True):
    """Delivery state of a stack's events to one of its webhooks."""

    stack_id: str
    digest: str
    position: int
    """Id of the last event delivered."""
    failures: int = 0
    """Failed attempts since the last success."""
    failing_since: float | None = None
    retry_at: float = 0.0
    given_up_at: float | None = None
    project: str = ""
    """Project of the stack."""


class ServiceRecord(Struct, frozen=True):
    """A running engine."""

    id: str
    host: str
    binary: str
    created_at: float
    updated_at: float
    kinds: tuple[WorkKind, ...] | None = None
    """The kinds of actions that it runs. None: all."""
    zones: tuple[str, ...] | None = None
    """The zones whose actions it runs, beside those without one. None: all."""

    def is_up(self, now: float) -> bool:
        """Return whether it has reported within two intervals."""
        return now - self.updated_at <= 2 * REPORT_INTERVAL

    def runs(self, action: ActionRecord) -> bool:
        """Return whether it may claim an action."""
        is_in_zone = action.zone is None or self.zones is None or action.zone in self.zones
        return is_in_zone and (self.kinds is None or action.kind in self.kinds)


class AccessKeyRecord(HidesSecrets, frozen=True):
    """A user's key for signed requests."""

    secret_fields = frozenset({"secret"})

    id: str
    project: str
    user: str
    roles: frozenset[str]
    """The roles that the user had when the key was made: it never gives more."""
    secret: str
    created_at: float


class AccountRecord(HidesSecrets, frozen=True):
    """An account with which the agent of a resource calls the API."""

    secret_fields = frozenset({"password"})

    stack_id: str
    root_id: str
    resource_name: str
    physical_name: str
    """Physical name of the resource, and name of the user."""
    password: str
    user_id: str | None = None
    """None until the creation of the user is confirmed; the same holds for the project."""
    project_id: str | None = None
