"""Answers about revisions. The command line takes its columns from them."""

from typing import Annotated, Any

from heatlite.core.json import AnyMap
from heatlite.core.status import ActionStatus
from heatlite.core.wire.base import Answer, Count, Time, column


class ListedRevision(Answer, frozen=True):
    """A definition that a stack was given, without its content."""

    number: Annotated[Count, column(1)]
    """Number of the revision, from 1 on."""
    by: Annotated[str, column(3)]
    """The user who sent it."""
    at: Annotated[Time, column(2)]
    """Time of the request."""
    action_id: str | None
    """Id of the action that began with it.

    ``null``: the stack got the definition before it had revisions, or while the feature was off.
    """
    plan_digest: str | None
    """Digest of the approved plan, if the request named one."""
    result: Annotated[ActionStatus | None, column(4)]
    """End of the action; ``SUCCEEDED``: the stack has reached the definition.

    ``null`` while it runs.
    """
    operation: str | None
    """Operation that gave the stack the definition: ``import``, ``move``, ``detach``, ``undo`` …

    ``null``: an update, or the operation that made the stack.
    """
    undo_of: Annotated[int | None, column(5)]
    """Of an undo: the number of the revision that it went back to."""
    tags: list[str]
    """Tags of the stack."""
    timeout_mins: int | None
    """Time limit in minutes."""
    disable_rollback: bool
    """True if a failure is not rolled back."""


class ShownRevision(ListedRevision, frozen=True):
    """A definition that a stack was given. Hidden values are masked."""

    template: AnyMap
    """The template."""
    files: dict[str, str]
    """Names and contents of files."""
    environment: AnyMap
    """The environment, with the parameters."""


class DefinitionChange(Answer, frozen=True):
    """A difference between two revisions.

    ``null`` stands for a side that has no such place. Hidden values are masked.
    """

    place: str
    """``resources.web.properties.flavor`` in the template; others begin with ``environment``, ``files``, ``tags``,
    ``timeout_mins`` or ``disable_rollback``."""
    old: Any
    """Value of the earlier revision."""
    new: Any
    """Value of the later revision."""
