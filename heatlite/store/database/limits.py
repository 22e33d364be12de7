"""Time limits of a connection to a database server, derived from the lease.

A process that freezes in a transaction keeps its row locks until the server ends the transaction. A server that
freezes blocks its clients until they give up. These limits bound both. docs/reference/limits.md has a table.
"""

from enum import Enum

from msgspec import Struct

DEFAULT_LEASE = 30.0
"""Default lease in seconds."""

MAX_LEASE = 86_400.0
"""Lease in seconds above which the limits stay the same: servers accept no more than some days."""

MAX_IDLE = 600.0
"""Seconds between two statements of a transaction in maintenance."""


class Pace(Enum):
    """The use of a connection, which selects its limits."""

    REQUEST = "request"
    """A request: a client waits for the answer."""
    WORK = "work"
    """A worker: it retries without limit, but other workers must get their turn."""
    MAINTENANCE = "maintenance"
    """Migrations, key rotation: statements without a time limit."""
    RETENTION = "retention"
    """As maintenance, but a frozen process must not keep other engines from their periodic jobs."""


class Limits(Struct, frozen=True):
    """Limits in seconds; None: no limit."""

    connect: float
    """Time to open the connection."""
    silence: float | None
    """Time without any answer to a statement. The client then closes the connection."""
    statement: float | None
    """Time of a statement. The server cancels it."""
    lock: float | None
    """Wait for a lock of another transaction. The server cancels the statement."""
    idle: float
    """Time between two statements of a transaction. The server rolls back and closes the connection."""
    peer: float
    """Time without a sign of life of the other machine, for TCP."""


def limits(pace: Pace, lease: float) -> Limits:
    """Return the limits of a pace for a lease in seconds."""
    lease = min(lease, MAX_LEASE)
    match pace:
        case Pace.REQUEST:
            return Limits(connect=3.0, silence=4.0, statement=3.5, lock=1.0, idle=lease, peer=lease)
        case Pace.WORK:
            statement = max(5.0, lease / 2)
            # Longer than the statement limit, so that the server reports its own timeouts first.
            return Limits(5.0, statement + 1.0, statement, max(1.0, lease / 4), idle=lease, peer=lease)
        case Pace.MAINTENANCE:
            return Limits(10.0, None, None, None, idle=MAX_IDLE, peer=lease)
        case Pace.RETENTION:
            return Limits(10.0, None, None, max(1.0, lease / 4), idle=lease, peer=lease)
