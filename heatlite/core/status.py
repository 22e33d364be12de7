"""Verbs and statuses of stacks, resources and actions.

A state is a verb and a status, written ``CREATE_COMPLETE`` on the wire (Heat's `action` and `status`).
"""

from enum import StrEnum

MAX_REASON = 255
"""Characters of a reason in an event (Heat cuts there), and of the reason for a protection."""


class Verb(StrEnum):
    """Operation (wire name: action)."""

    INIT = "INIT"
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    ROLLBACK = "ROLLBACK"
    CHECK = "CHECK"
    SUSPEND = "SUSPEND"
    RESUME = "RESUME"
    SNAPSHOT = "SNAPSHOT"
    RESTORE = "RESTORE"
    ADOPT = "ADOPT"
    LOCK = "LOCK"
    UNLOCK = "UNLOCK"
    RUN = "PLAYBOOK"
    """Runs work of a feature on a tree, once approved and without a worker. No stack is ever in such a state."""


class Status(StrEnum):
    """Outcome of an operation."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"


class ActionStatus(StrEnum):
    """Status of a queued action."""

    INIT = "INIT"
    """Not due yet; it holds nothing."""
    READY = "READY"
    WAITING = "WAITING"
    WAITING_LIFECYCLE_COMPLETION = "WAITING_LIFECYCLE_COMPLETION"
    """Waits at a hook before a deletion, until it is cleared or timed out."""
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


ENDED_ACTIONS = frozenset({ActionStatus.SUCCEEDED, ActionStatus.FAILED, ActionStatus.CANCELLED})
LIVE_ACTIONS = frozenset(ActionStatus) - ENDED_ACTIONS - {ActionStatus.INIT}
"""Statuses in which an action holds its target."""

PARKED_ACTIONS = frozenset({ActionStatus.WAITING, ActionStatus.WAITING_LIFECYCLE_COMPLETION})

MOVES: dict[ActionStatus, frozenset[ActionStatus]] = {
    ActionStatus.INIT: frozenset({ActionStatus.READY, ActionStatus.WAITING, ActionStatus.CANCELLED}),
    ActionStatus.READY: frozenset({ActionStatus.RUNNING, ActionStatus.SUSPENDED}) | ENDED_ACTIONS,
    ActionStatus.WAITING: frozenset({ActionStatus.READY, ActionStatus.SUSPENDED}) | ENDED_ACTIONS,
    ActionStatus.WAITING_LIFECYCLE_COMPLETION: frozenset({ActionStatus.READY, ActionStatus.SUSPENDED}) | ENDED_ACTIONS,
    ActionStatus.RUNNING: frozenset(ActionStatus) - {ActionStatus.INIT},
    ActionStatus.SUSPENDED: frozenset({ActionStatus.READY, ActionStatus.WAITING}) | ENDED_ACTIONS,
    ActionStatus.SUCCEEDED: frozenset(),
    ActionStatus.FAILED: frozenset(),
    ActionStatus.CANCELLED: frozenset(),
}
"""Allowed transitions.
RUNNING follows itself when another worker takes over."""


class Result(StrEnum):
    """Result of an action's execution."""

    OK = "OK"
    ERROR = "ERROR"
    RETRY = "RETRY"
    """A conflict or an outage: the action is requeued."""
    CANCEL = "CANCEL"
    TIMEOUT = "TIMEOUT"


STATUS_AFTER: dict[Result, ActionStatus] = {
    Result.OK: ActionStatus.SUCCEEDED,
    Result.ERROR: ActionStatus.FAILED,
    Result.TIMEOUT: ActionStatus.FAILED,
    Result.CANCEL: ActionStatus.CANCELLED,
    Result.RETRY: ActionStatus.READY,
}


class Cause(StrEnum):
    """Reason why an action exists."""

    REQUEST = "RPC Request"
    DERIVED = "Derived Action"
    SCHEDULED = "Scheduled Action"
    """Its time has come: one of a series, or a lock that ran out."""
    REPAIR = "Healing"
    """A restricted update that repairs marked resources."""


class WorkKind(StrEnum):
    """Kind of work. Workers may be restricted to some kinds."""

    STACK = "stack"
    CHECK = "check"


class Needs(StrEnum):
    """Condition on an action that another one depends on."""

    SUCCESS = "success"
    END = "end"
    """Any end."""


class Control(StrEnum):
    """Request to a live action."""

    CANCEL = "CANCEL"
    """Start nothing new, let running calls end, end *_FAILED."""
    FORCE_CANCEL = "FORCE_CANCEL"
    """Stop at once, wait for nothing, end *_FAILED."""
    CANCEL_ROLLBACK = "CANCEL_ROLLBACK"
    """Start nothing new, then roll back."""
    ABORT = "ABORT"
    """A delete waits: stop at once and leave the stack's state to it."""
    SUSPEND = "SUSPEND"
    """Start nothing new, and release the worker until a RESUME."""
    END_BAKE = "END_BAKE"
    """Wait no longer before the clean-up."""


class Signal(StrEnum):
    """Signal that a caller may send to an action."""

    CANCEL = "CANCEL"
    SUSPEND = "SUSPEND"
    RESUME = "RESUME"


class LockLevel(StrEnum):
    """Depth of a maintenance lock."""

    STACKS = "stacks"
    ALL = "all"


def is_locked(verb: Verb, status: Status) -> bool:
    """True for the states of a locked, locking or unlocking stack."""
    return verb is Verb.LOCK or verb is Verb.UNLOCK and status is not Status.COMPLETE


def state(verb: str, status: str) -> str:
    """Return the state's name: ``CREATE_COMPLETE``."""
    return f"{verb}_{status}"


NOT_ROLLED_BACK = "Not rolled back: "
"""Stands in the reason of a stack whose update failed when all was made, before an explanation."""
