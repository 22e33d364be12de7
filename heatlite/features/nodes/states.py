"""States of node actions, their transitions, and errors of a wrong state.

Up to PENDING_SCHEDULE the server decides; from NEW on the agent reports.
"""

from enum import StrEnum
from typing import Final

from heatlite.core.errors import Conflict, Invalid
from heatlite.core.wire.why import WayOut

NAME: Final = "nodes"
"""Name of the feature."""


class NodeActionState(StrEnum):
    """State of a node action."""

    PENDING_APPROVE = "PENDING_APPROVE"
    """Waits for an approval."""
    PENDING_SCHEDULE = "PENDING_SCHEDULE"
    """It may or may not have been sent to the agent."""
    NEW = "NEW"
    """The agent has queued it."""
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    """Interrupted, or never started."""
    LOST = "LOST"
    """The agent has lost it, or its node is gone: it may have run."""


S = NodeActionState

ENDED = frozenset({S.DONE, S.FAILED, S.CANCELLED, S.LOST})
OPEN = frozenset(S) - ENDED
PENDING = frozenset({S.PENDING_APPROVE, S.PENDING_SCHEDULE})
AT_AGENT = frozenset({S.NEW, S.RUNNING})

MOVES: dict[NodeActionState, frozenset[NodeActionState]] = {
    # Another client may have given the agent an action with this id; the agent's report counts.
    S.PENDING_APPROVE: frozenset({S.PENDING_SCHEDULE, S.NEW, S.RUNNING, S.DONE, S.FAILED, S.CANCELLED}),
    S.PENDING_SCHEDULE: frozenset({S.NEW, S.RUNNING, S.DONE, S.FAILED, S.CANCELLED, S.LOST}),
    S.NEW: frozenset({S.RUNNING, S.DONE, S.FAILED, S.CANCELLED, S.LOST}),
    S.RUNNING: frozenset({S.DONE, S.FAILED, S.CANCELLED, S.LOST}),
    S.DONE: frozenset(),
    S.FAILED: frozenset(),
    S.CANCELLED: frozenset(),
    S.LOST: frozenset(),
}
"""Allowed transitions. Between two polls an action may have passed several states."""


class NodeState(StrEnum):
    """State of a node's agent."""

    REGISTERED = "REGISTERED"
    """Never polled so far."""
    UP = "UP"
    UNREACHABLE = "UNREACHABLE"
    """The last poll failed, or the answer was not that of an agent."""


class Requester(StrEnum):
    """Origin of a node action."""

    USER = "user"
    PLAYBOOK = "playbook"
    DEPLOYMENT = "deployment"
    AGENT = "agent"
    """Requested at the agent itself."""


class TransitionOrigin(StrEnum):
    """Reporter of a transition."""

    SERVER = "server"
    AGENT = "agent"


class InvalidNodeActionState(Invalid):
    """The node action is in the wrong state (the agents' core answers 400, too)."""


class NodeActionExists(Conflict):
    """The id chosen by the caller is in use."""

    text = "The id {id} is in use. Choose another id, or none."
    ways = (WayOut(text="choose another id, or none"),)


class NodeActionChanged(Conflict):
    """The node action changed between reading and approval."""

    text = "Node action {id} has changed since it was read: its digest is now {digest}. Read it again."
    ways = (WayOut(text="shows it as it now is", command="heatlite node show {id}"),)


class PlaybookChanged(Conflict):
    """The playbook changed between reading and approval."""

    text = "Action {action_id} is not the run that was read: its digest is {digest}. Look at it again."
    ways = (WayOut(text="shows it as it now is", command="heatlite action show {action_id}"),)
