"""Wire types of maintenance locks (docs/reference/lock.md)."""

from typing import Annotated

from heatlite.core.json import AnyMap
from heatlite.core.status import LockLevel
from heatlite.core.wire.base import Answer, Body, Count, ShortText, Time, column


class LockOptions(Body, frozen=True):
    """The lock; ``null`` and ``{}`` mean level ``all``."""

    level: LockLevel = LockLevel.ALL
    """``all``: lock the real objects too; ``stacks``: touch no resource."""
    reason: ShortText | None = None
    """The reason, for those who run into the lock; at most 255 characters."""
    expires_at: Time | None = None
    """Time of the automatic unlock: ISO 8601, UTC, in the future."""


class LockHolder(Answer, frozen=True):
    """A stack that is locked."""

    id: str
    name: str


class Lock(Answer, frozen=True):
    """The lock that covers a stack."""

    level: LockLevel
    """``all`` or ``stacks``."""
    locked_by: str | None
    """User who set the lock."""
    reason: str | None
    """The reason that was given, or ``null``."""
    locked_at: Time
    """Time at which the lock was set."""
    expires_at: Time | None
    """Time of the automatic unlock, or ``null``."""
    inherited_from: LockHolder | None
    """The ancestor that is locked (``id``, ``name``), or ``null`` if the stack itself is."""


class SuppressedStack(Answer, frozen=True):
    """The stack that a request was sent to."""

    id: str
    name: str | None


class SuppressedRequest(Answer, frozen=True):
    """A request that a lock refused or ignored."""

    id: Annotated[str, column(1)]
    """Id of the entry."""
    stack: Annotated[SuppressedStack, column(4)]
    """The stack that the request was sent to: ``id`` and ``name``."""
    time: Annotated[Time, column(2)]
    """Time of the first such request."""
    last_time: Annotated[Time, column(9)]
    """Time of the last such request."""
    count: Annotated[Count, column(3)]
    """Number of equal requests under the same lock."""
    request: Annotated[str, column(5)]
    """Kind of request: ``delete``, ``update``, ``mark_unhealthy``, ``check`` …"""
    target: Annotated[str | None, column(6)]
    """The target: a resource, or the stack."""
    requested_by: Annotated[str | None, column(7)]
    """User who made the request."""
    effect: Annotated[AnyMap, column(8)]
    """Effect of the request.

    A health mark: its body. A signal: ``bytes`` and ``digest`` (SHA-256) of its body. An update: ``template``, the
    digest of the new template and its files; the names of resources ``added``, ``removed`` and ``changed`` in the
    template, of ``files`` and of sections of the ``environment`` that differ; the ``parameters`` that differ with their
    new values, hidden ones masked. ``problem`` names the error of a request that would be refused without a lock, too.
    """
    replayable: bool
    """``true`` if it can be replayed. A body of more than 1 MiB is not kept.

    Earlier versions kept no queries: their deletions of stacks are not replayed.
    """
    detail: Annotated[str, column(10)]
    """Answer to the request, with the lock that refused it."""
    query: str
    """Its query, with which a replay sends it: ``force=true``."""
