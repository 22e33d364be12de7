"""Time limits of a connection to a database server, chosen from the lease of the workers.

A process that freezes inside a transaction keeps its row locks until the server ends the transaction. A server that
freezes answers nothing until somebody gives up. Both take at most the times below. docs/operations.md has a table.
"""

from dataclasses import dataclass
from enum import Enum

DEFAULT_LEASE = 30.0
"""Seconds: the lease where no setting says it."""

LONGEST_LEASE = 86_400.0
"""Seconds: servers and systems take no limits of more than some days. A longer lease has the limits of this one."""

LONGEST_IDLE = 600.0
"""Seconds that maintenance may compute between two statements of a transaction."""


class Pace(Enum):
    """The use of a connection, which decides how long it may wait."""

    REQUEST = "request"
    """A client waits for the answer, and a thread of the server with it."""
    WORK = "work"
    """An engine: it retries for as long as it takes, but other workers must get their turn."""
    MAINTENANCE = "maintenance"
    """Migrations, key rotation, retention: statements take as long as they take."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds; None: no limit."""

    connect: float
    """Until the server has taken the connection."""
    silence: float | None
    """Until the server has said something in answer to a statement. The client gives the connection up then."""
    statement: float | None
    """Until a statement has ended. The server cancels it."""
    lock: float | None
    """Until a lock of another transaction is free. The server cancels the statement."""
    idle: float
    """Between two statements of a transaction. The server rolls back and closes the connection."""
    peer: float
    """Until the system has heard of the other machine."""


def limits(pace: Pace, lease: float) -> Limits:
    """The limits of a pace, where workers have a lease of so many seconds."""
    lease = min(lease, LONGEST_LEASE)
    match pace:
        case Pace.REQUEST:
            return Limits(connect=3.0, silence=4.0, statement=3.5, lock=1.0, idle=lease, peer=lease)
        case Pace.WORK:
            statement = max(5.0, lease / 2)
            # The server's own word comes first, as long as there is one.
            return Limits(5.0, statement + 1.0, statement, max(1.0, lease / 4), idle=lease, peer=lease)
        case Pace.MAINTENANCE:
            return Limits(10.0, None, None, None, idle=LONGEST_IDLE, peer=lease)
