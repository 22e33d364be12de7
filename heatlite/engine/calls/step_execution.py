"""Executions of the steps of a plan: their phases, and a class for each kind."""

from collections.abc import Callable
from enum import Enum, auto

from msgspec import Struct, field

from heatlite.core.actions.check_tally import CheckCounts
from heatlite.core.differences import Differences
from heatlite.core.json import Json
from heatlite.core.status import Verb
from heatlite.engine.calls.backoff import Retry
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.group_members import Place
from heatlite.engine.planning.plan import Outcome, Step
from heatlite.engine.types.differences import HiddenPart
from heatlite.plugin.ports import Accounts, Change
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord
from heatlite.template.ignored import Ignored

_CONVERGING = frozenset({Verb.CREATE, Verb.UPDATE, Verb.ADOPT})


class StepPhase(Enum):
    """The progress of a step's execution."""

    READY = auto()
    """The handler has not been called, or is to be called again. A hook has not been cleared."""
    CHECKING = auto()
    """The handler has returned; its check is open. An earlier attempt has ordered the nested stack's action."""
    DONE = auto()
    FAILED = auto()
    REPLACED = auto()
    """The type asks to replace the object instead of updating it."""


ENDED = (StepPhase.DONE, StepPhase.FAILED, StepPhase.REPLACED)
"""No set: the hash of an Enum takes longer than three comparisons."""


class Failure(Struct, frozen=True):
    """The reason why an execution failed."""

    text: str
    unknown: str = ""
    """The cause of a check without a verdict (`check_verdicts.cause_of`)."""
    is_transient: bool = False
    """Another attempt may succeed."""
    is_absent: bool = False
    """A check has not found the object."""


class StepExecution(Struct, eq=False):
    """A step that has begun.

    An instance of this class itself has ended already; kinds in progress are below.
    """

    step: Step
    row: ResourceRecord
    """The row as last written."""
    resource: Resource[Schema]
    verb: Verb
    wanted: Wanted | None = None
    """The values of the row after a successful create or update."""
    phase: StepPhase = StepPhase.READY
    failure: Failure | None = None
    """The reason of FAILED."""
    is_recorded: bool = False
    """The row and its events are complete already; the end writes nothing more about the resource's state."""
    note: str = ""
    """The reason of a success, instead of "state changed"."""
    replaced_by: Wanted | None = None
    """The values of the new object that takes the place of the deleted one."""

    @property
    def has_ended(self) -> bool:
        """True if there is nothing more to call."""
        return self.phase in ENDED

    @property
    def is_delayed(self) -> bool:
        """True if a later attempt has not called its handler yet."""
        return False

    def fail(self, text: str, unknown: str = "", is_transient: bool = False, is_absent: bool = False) -> None:
        """Move to FAILED."""
        self.failure = Failure(text, unknown, is_transient, is_absent)
        self.phase = StepPhase.FAILED


class HookWait(StepExecution, eq=False):
    """Waits at a hook. Another execution follows when the hook is cleared."""

    hook: str = ""


class NestedOperation(StepExecution, eq=False):
    """Waits for an action on a nested stack."""

    round: int = 0
    """The number of actions that have succeeded."""
    action_id: str | None = None
    """The action to wait for."""
    tally: CheckCounts | None = None
    """The verdicts of a check below."""
    cleans_after: str | None = None
    """Of a clean-up: the id of the action that has left the old objects."""

    @property
    def converges(self) -> bool:
        """True if it gives the nested stack a template, in one round or several."""
        return self.verb in _CONVERGING and self.cleans_after is None

    @property
    def token(self) -> Json:
        """Return the row's token: the next attempt waits for the same action."""
        return {"action": self.action_id, "round": self.round}

    def resume(self, token: Json) -> None:
        """Continue with the token of an earlier attempt."""
        if isinstance(token, dict):
            self.action_id, self.round = str(token["action"]), int(str(token["round"]))


class HandlerCall(StepExecution, eq=False):
    """Calls a handler of the resource type, then its check until that is complete."""

    change: Change | None = None
    is_observed: bool = False
    """True if `change` starts from what was read from the object."""
    in_place: Outcome = Outcome.UPDATE
    """Kind of a change in place: UPDATE, REBUILD or REBOOT."""
    snapshot_name: str = ""
    """The name of the snapshot to take."""
    snapshot_first: bool = False
    """Let the type save the object before the deletion (``deletion_policy: Snapshot``)."""
    find_first: bool = False
    """Look the object up by its name: an interrupted attempt may have made it."""
    token: Json = None
    """The handler's answer, for its check."""
    pause: float = 0.0
    """Seconds until the next call of the check."""
    awaits: str | None = None
    """The address of a mailbox whose next message ends the pause."""
    outage_since: float | None = None
    """The time since which a service of the handler is unreachable: seconds since the epoch."""
    retry: Retry = field(default_factory=Retry)
    ignored: Ignored = field(default_factory=Ignored)
    """Of a check: the differences that the definition ignores."""
    hidden: HiddenPart | None = None
    """Of a check: returns the path of the hidden part of the properties at a path; None: nothing is hidden."""
    differences: Differences | None = None
    """The differences that a check has found; None: it has compared nothing."""

    @property
    def is_delayed(self) -> bool:
        """True if a later attempt has not called its handler yet.

        It does at the time `retry.starts_at`.
        """
        return self.retry.starts_at is not None and self.phase is StepPhase.READY

    @property
    def handler_verb(self) -> Verb:
        """The verb of the handler to call."""
        return Verb.DELETE if self.retry.cleanup_before_retry else self.verb

    def survey(self) -> bool:
        """Note what has to be written before a new object is made (`Resource.survey`)."""
        return self.resource.survey()

    @property
    def accounts(self) -> Accounts | None:
        """The accounts of the object's agent; None if the object never has one."""
        accounts = self.resource.facts.services.accounts
        return accounts if accounts is not None and self.resource.has("wants_account") else None

    @property
    def is_quick(self) -> bool:
        """True if the handler waits for nothing outside this process."""
        return self.resource.is_quick and self.accounts is None

    @property
    def shares_commit(self) -> bool:
        """True if the handler writes to the store only.

        It can share a transaction with others.
        """
        return self.resource.stored_only and self.phase is StepPhase.READY and self.accounts is None


class PoolCall(HandlerCall, eq=False):
    """Changes the place of a group's member in the pool of a load balancer.

    `resource` is the pool's member. `row` is that of the group's.
    """

    place: Place = field(default_factory=lambda: Place("", 0))
    then: Callable[[ResourceRecord], StepExecution | None] = lambda _: None
    """Returns what follows for the row."""
    find_place: Callable[[], bool] = lambda: False
    """Completes `place`. Returns False if nothing was missing."""

    def survey(self) -> bool:
        return self.find_place()
