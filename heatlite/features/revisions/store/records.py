"""Records of revisions."""

from msgspec import Struct

from heatlite.core.json import JsonMap
from heatlite.core.status import ActionStatus


class RevisionSummary(Struct, frozen=True):
    """A revision without its content."""

    number: int
    """From 1 on, for each stack."""
    requested_by: str
    created_at: float
    action_id: str | None
    """The action that it was made with. None: the feature was off then, or not there."""
    plan_digest: str | None
    """Digest of the approved plan, if the request named one."""
    result: ActionStatus | None
    """End of the action. None: it has not ended."""
    operation: str | None
    """Operation of the action, as its inputs tell it. None: its verb says all, or there is no action."""
    undo_of: int | None
    """Number of the revision that it went back to."""
    tags: tuple[str, ...]
    timeout_mins: int | None
    disable_rollback: bool

    @property
    def is_reached(self) -> bool:
        """True if the stack has reached the definition."""
        return self.result is ActionStatus.SUCCEEDED


class RevisionRecord(RevisionSummary, frozen=True):
    """A revision: a definition that a root stack was given."""

    stack_id: str
    template_id: str
    environment: JsonMap
