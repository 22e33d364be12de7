"""Refusals of approvals."""

from heatlite.core.clock import to_text
from heatlite.core.errors import Conflict, PlanChanged
from heatlite.core.json import JsonMap
from heatlite.features.approvals.store.records import ApprovalRecord, ApprovalState

HEADER = "X-Heatlite-Approval"


class ApprovalRequired(Conflict):
    """An operation needs an approval first. Nothing was changed."""

    ignored_as = "approval"

    def __init__(self, record: ApprovalRecord) -> None:
        super().__init__(
            f"Stack {record.stack_name} is left as it is: its {record.subject} needs an approval"
            f" ({', '.join(record.because)}). Approval {record.id} waits for a decision: heatlite approval approve"
            f" {record.id}. Once it is approved, send the same request again."
        )
        self.facts = facts(record)
        self.headers = {HEADER: record.id}


class ScalingNeedsApproval(Conflict):
    """The scaling of a signal would need an approval, so the signal has no effect."""

    ignored_as = "approval"
    text = "The scaling needs an approval ({because}), and the change policy lets signals that need one have no effect."


class ApprovalChanged(Conflict):
    """The digest of a decision is not that of the approval."""

    text = "Approval {id} has the digest {digest}, not {given}. Nothing was decided. Read it again."

    def __init__(self, record: ApprovalRecord, given: str) -> None:
        super().__init__(id=record.id, digest=record.digest, given=given)
        self.facts = facts(record)


class InvalidApprovalState(Conflict):
    """An approval waits for no decision."""

    text = "Approval {id} is {state}: only one that is PENDING can be {what}."

    def __init__(self, record: ApprovalRecord, state: ApprovalState, what: str) -> None:
        super().__init__(id=record.id, state=state, what=what)
        self.facts = {"holder": _holder(record), "way_out": [_step("read it", "show", record)]}


class TooManyApprovals(Conflict):
    """A stack has too many approvals that wait."""

    text = (
        "{most} approvals of stack {stack_name} wait already. Nothing was done. Have some of them decided:"
        " heatlite approval list --stack {stack_name}."
    )

    def __init__(self, oldest: ApprovalRecord, most: int) -> None:
        super().__init__(most=most, stack_name=oldest.stack_name)
        self.facts = facts(oldest)


def plan_changed(record: ApprovalRecord) -> PlanChanged:
    """Return the error for a request that waits and whose plan has changed.

    `record` is the approval of the new plan.
    """
    error = PlanChanged(
        f"Nothing was begun: the plan has changed since it was requested. Approval {record.id} has it as it is now."
    )
    error.facts = facts(record)
    error.headers = {HEADER: record.id}
    return error


def facts(record: ApprovalRecord) -> JsonMap:
    """Return the keys of an error that an approval explains."""
    ways = [_step("approve it", "approve", record, {"digest": record.digest}), _step("reject it", "reject", record, {})]
    return {"holder": _holder(record), "way_out": ways}


def _holder(record: ApprovalRecord) -> JsonMap:
    since = to_text(record.requested_at)
    return {"kind": "approval", "id": record.id, "by": record.requested_by, "since": since}


def _step(text: str, word: str, record: ApprovalRecord, body: JsonMap | None = None) -> JsonMap:
    """Return a step with an approval. Without a body it reads it."""
    path = f"/v1/{record.project}/approvals/{record.id}"
    method, path = ("GET", path) if body is None else ("POST", f"{path}/{word}")
    command = f"heatlite approval {word} {record.id}"
    return {"text": text, "command": command, "method": method, "path": path, "body": body, "after": None}
