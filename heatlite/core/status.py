"""What can be done to a stack or a resource, and how it stands.

A state is a verb and a status, written ``CREATE_COMPLETE`` on the wire (Heat's `action` and `status`).
"""

from enum import StrEnum


class Verb(StrEnum):
    """What is or was done (wire name: action)."""

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
    PLAYBOOK = "PLAYBOOK"
    """Runs a playbook on the nodes of a tree. No worker does, and no stack is ever in a state of it."""


class Status(StrEnum):
    """How it went."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"


class ActionStatus(StrEnum):
    """How a queued action stands (seed: senlin-actions)."""

    INIT = "INIT"
    """Its time has not come; it holds nothing."""
    READY = "READY"
    WAITING = "WAITING"
    WAITING_LIFECYCLE_COMPLETION = "WAITING_LIFECYCLE_COMPLETION"
    """It waits at a hook before a deletion, until that is cleared or its time is up."""
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


ENDED_ACTIONS = frozenset({ActionStatus.SUCCEEDED, ActionStatus.FAILED, ActionStatus.CANCELLED})
LIVE_ACTIONS = frozenset(ActionStatus) - ENDED_ACTIONS - {ActionStatus.INIT}
"""What holds its target."""

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
"""What may follow what. RUNNING follows itself where another worker takes over."""


class Result(StrEnum):
    """What the execution of an action came to (seed: senlin-actions)."""

    OK = "OK"
    ERROR = "ERROR"
    RETRY = "RETRY"
    """Others were in the way: it is to be begun again later."""
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
    """Why there is an action (seed: senlin-actions; the third is ours)."""

    REQUEST = "RPC Request"
    DERIVED = "Derived Action"
    SCHEDULED = "Scheduled Action"
    """Its time has come: one of a series, or a lock that ran out."""


class Kind(StrEnum):
    """Which kind of work an action is; workers may be for some kinds only."""

    STACK = "stack"
    CHECK = "check"


class Needs(StrEnum):
    """What an action needs of one that it depends on."""

    SUCCESS = "success"
    END = "end"
    """However that ends."""


class Control(StrEnum):
    """What a live action has been asked to do."""

    CANCEL = "CANCEL"
    """Start nothing new, let what runs finish, end *_FAILED."""
    FORCE_CANCEL = "FORCE_CANCEL"
    """Stop at once, wait for nothing, end *_FAILED."""
    CANCEL_ROLLBACK = "CANCEL_ROLLBACK"
    """Start nothing new, then roll back."""
    ABORT = "ABORT"
    """A delete waits: stop at once and leave the stack's state to the delete."""
    SUSPEND = "SUSPEND"
    """Start nothing new, and let go of the worker until a RESUME."""


class Signal(StrEnum):
    """What a caller may ask of an action (seed: senlin-actions)."""

    CANCEL = "CANCEL"
    SUSPEND = "SUSPEND"
    RESUME = "RESUME"


class LockLevel(StrEnum):
    """How deep a maintenance lock goes (seed: heat-stack-lock)."""

    STACKS = "stacks"
    ALL = "all"


def is_locked(verb: Verb, status: Status) -> bool:
    """Whether it is the state of a stack that is locked, being locked or being unlocked, by whomever it was locked."""
    return verb is Verb.LOCK or verb is Verb.UNLOCK and status is not Status.COMPLETE


def state(verb: str, status: str) -> str:
    """``CREATE_COMPLETE`` and the like."""
    return f"{verb}_{status}"
