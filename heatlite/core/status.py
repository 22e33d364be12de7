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


class Status(StrEnum):
    """How it went."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"


class ActionStatus(StrEnum):
    """How a queued action stands (seed: senlin-actions)."""

    READY = "READY"
    WAITING = "WAITING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


LIVE_ACTIONS = frozenset({ActionStatus.READY, ActionStatus.WAITING, ActionStatus.RUNNING})


class Control(StrEnum):
    """What a running action has been asked to do."""

    CANCEL = "CANCEL"
    """Start nothing new, let what runs finish, end *_FAILED."""
    FORCE_CANCEL = "FORCE_CANCEL"
    """Stop at once, wait for nothing, end *_FAILED."""
    CANCEL_ROLLBACK = "CANCEL_ROLLBACK"
    """Start nothing new, then roll back."""
    ABORT = "ABORT"
    """A delete waits: stop at once and leave the stack's state to the delete."""


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
