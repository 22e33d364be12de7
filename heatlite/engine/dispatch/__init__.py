"""Who tells workers that there is something to do (decision 0008). Nobody above knows which of the two it is.

Whoever commits a move announces it; a dispatcher brings that to workers. A lost announcement costs them a second: they
look at the table by themselves that often.
"""

from dataclasses import dataclass
from typing import Protocol

from heatlite.core.status import Kind
from heatlite.store.records import Announcement


class Called(Protocol):
    """A worker, as dispatchers see it. Both from any thread."""

    def wake(self) -> None:
        """There is something to claim, or a control to look at."""

    def take(self, action_id: str) -> None:
        """Claim this action and begin with it, unless there is no free slot or somebody else has it."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a worker is for."""

    kinds: frozenset[Kind] | None = None
    """None: all."""
    zones: frozenset[str] | None = None
    """None: all. Work without a zone is for everybody."""


class Dispatcher(Protocol):
    """Brings announcements to workers."""

    share: Share
    """What the worker of this process is to claim."""

    def announce(self, announcement: Announcement) -> None:
        """Called after a commit, by the thread that made it. Returns at once and never raises."""

    def attach(self, worker: Called) -> None:
        """Call this worker from now on."""

    def detach(self) -> None:
        """Call it no more."""

    def close(self) -> None:
        """Send what is still here, and end."""
