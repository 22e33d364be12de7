"""Wire types of the reasons why a stack is as it is."""

import shlex

from heatlite.core.json import AnyMap
from heatlite.core.wire.base import Answer, Count, Time


class WayOut(Answer, frozen=True, kw_only=True):
    """A step that leads on."""

    text: str
    """The effect of the step, or what to wait for."""
    command: str | None = None
    """The command that does it, for a shell.

    It is complete but for ``FILE``: a definition that has to change.
    """
    method: str | None = None
    """The method of the request that does it, or ``null``."""
    path: str | None = None
    """The path of that request. It would not be refused with 409 now, unless ``after`` names a step."""
    body: AnyMap | None = None
    """The body of that request."""
    after: Count | None = None
    """The place in the list of the step that has to come first, from 0 on."""


class Holder(Answer, frozen=True, kw_only=True):
    """The thing that a request is in conflict with."""

    kind: str
    """Kind of what ``id`` names, as ``what`` of a fact."""
    id: str | None = None
    by: str | None = None
    """The user who caused it."""
    since: Time | None = None


class Fact(Answer, frozen=True, kw_only=True):
    """One reason why something is as it is, with the ways out."""

    code: str
    """The kind of the fact, see the table."""
    what: str
    """Kind of what ``id`` names: ``stack``, ``resource``, ``action``, ``approval``, or what a feature has."""
    path: str | None = None
    """The path of a resource or a nested stack below the root: ``web/2/server``."""
    id: str | None = None
    by: str | None = None
    """The user who caused it."""
    since: Time | None = None
    until: Time | None = None
    """Time at which it ends by itself."""
    text: str
    blocks: list[str] = []
    """Ids of the actions that wait for it."""
    way_out: list[WayOut] = []
    """The steps that lead on, the best first."""


class Why(Answer, frozen=True, kw_only=True):
    """The reasons why a stack is as it is."""

    waits: bool
    """``true`` if an action is blocked."""
    facts: list[Fact]
    """The facts: what holds the stack now, then failures, then what the next update does in another way."""
    hidden: Count
    """Number of facts that are not for this caller."""


def words(*names: str) -> str:
    """Return names as words of a command for a shell.

    None is an option: those that look like one stand behind ``--``.
    """
    return ("-- " if any(one.startswith("-") for one in names) else "") + shlex.join(names)
