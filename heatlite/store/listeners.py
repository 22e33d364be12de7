"""Listeners: the calls that the store makes to the rest of the process."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from heatlite.core.actions.decisions import Decision
from heatlite.core.status import ActionStatus
from heatlite.store.records import ActionRecord, Announcement

Moved: TypeAlias = Callable[[ActionRecord, ActionStatus, str], None]
"""Takes the action as it was before the move, its new status, and the reason."""


class Listeners(Struct, frozen=True):
    """The listeners of one process, given to `Store.listen`.

    No field has a default: a process that does not want a call says so with `ignore`. The thread that changes the
    database makes the calls. Those after a commit must neither raise nor block.
    """

    action_announced: Callable[[Announcement], None]
    """After a commit, for each action that became READY in it or was sent a control signal."""
    action_moved: Moved
    """After a commit, for each move of an action in it."""
    action_moves: Moved
    """In the transaction that moves an action."""
    decided: Callable[[Decision], None]
    """In the transaction of a step of a decision. It raises the error that refuses the step."""
    work_due: Callable[[str], None]
    """After a commit, with the name of a feature whose work became due in it."""
    message_stored: Callable[[str], None]
    """After a commit, for the address of each message in it."""
    committed: Callable[[], None]
    """After each commit, before the calls above."""
    database_unavailable: Callable[[], None]
    """For each failed statement, at once, inside or outside a transaction."""


def ignore(*_: object) -> None:
    """Do nothing with a call."""


NO_LISTENERS = Listeners(ignore, ignore, ignore, ignore, ignore, ignore, ignore, ignore)
"""The listeners of a store that has been opened and not been given any: for tools and tests."""
