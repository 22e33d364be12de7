"""Records of approvals."""

from enum import StrEnum

from msgspec import Struct

from heatlite.core.json import JsonMap


class Subject(StrEnum):
    """Kinds of what is decided."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    SCALE = "scale"
    NODE_ACTION = "node_action"
    PLAYBOOK_RUN = "playbook_run"
    REPAIR = "repair"


OF_STACKS = (Subject.CREATE, Subject.UPDATE, Subject.DELETE, Subject.SCALE)
"""Operations on stacks; the others are work of features."""


class ApprovalState(StrEnum):
    """States of an approval."""

    PENDING = "PENDING"
    """It waits for a decision."""
    APPROVED = "APPROVED"
    """It passes once the request is sent again, which a schedule or an expiry does itself."""
    DONE = "DONE"
    """Used: what was approved has been queued."""
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"
    OBSOLETE = "OBSOLETE"
    """Its content has changed, or its subject is gone."""


OPEN = frozenset({ApprovalState.PENDING, ApprovalState.APPROVED})
"""States that others follow."""


class ApprovalRecord(Struct, frozen=True):
    """A decision on one content and one target. Times are seconds since the epoch."""

    id: str
    project: str
    subject: Subject
    state: ApprovalState
    stack_name: str
    stack_id: str
    """The root; empty for a stack that is to be created."""
    digest: str
    """That of the plan, or of what runs."""
    requested_by: str
    requester: str
    """Identity of the user, which all tokens of the user share."""
    requested_at: float
    open_key: str | None
    """Digest of subject, target and content; None once nothing can follow."""
    resource: str | None = None
    """Path of what changes, below the root."""
    nodes: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    """Reasons why it is needed: ``approve:removals``."""
    expires_at: float | None = None
    decided_by: str | None = None
    decided_at: float | None = None
    reason: str = ""
    action_id: str | None = None
    """The action that waits for it, or that it began."""
    incident_id: str | None = None
    node_action_id: str | None = None
    replaced_by: str | None = None
    used_by: str | None = None
    """The last action that needed no other: the one that it began, or a retry of that."""
    content: JsonMap = {}

    @property
    def is_open(self) -> bool:
        return self.state in OPEN
