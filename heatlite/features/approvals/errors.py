"""Refusals of approvals."""

from heatlite.core.clock import to_text
from heatlite.core.errors import Conflict, PlanChanged
from heatlite.core.json import JsonMap
from heatlite.core.wire.why import Holder, WayOut
from heatlite.features.approvals.store.records import ApprovalRecord, ApprovalState

HEADER = "X-Heatlite-Approval"


class ApprovalRequired(Conflict):
    """An operation needs an approval first. Nothing was changed."""

    ignored_as = "approval"

    def __init__(self, record: ApprovalRecord) -> None:
        super().__init__(
            f"Stack {record.stack_name} is left as it is: its {record.subject} needs an approval"
            f" ({', '.join(record.because)}). Approval {record.id} waits for a decision: heatlite approval approve"
            f" {record.id}. Once it is approved, send the same request again.",
            holder=holder(record),
            way_out=decisions(record),
        )
        self.headers = {HEADER: record.id}


class NotApproved(Conflict):
    """The time of a scheduled request has come, and its approval does not hold."""

    def __init__(self, record: ApprovalRecord) -> None:
        if record.state is ApprovalState.PENDING:
            text = f"approval {record.id} has expired: nobody had decided by then. Send the request again."
        else:
            text = f"what approval {record.id} was given for has changed. Preview it, and send the request again."
        super().__init__(text)


class ScalingNeedsApproval(Conflict):
    """The scaling of a signal would need an approval, so the signal has no effect."""

    ignored_as = "approval"
    text = "The scaling needs an approval ({because}), and the change policy lets signals that need one have no effect."
    ways = (WayOut(text="scale the group by a request of your own: that can wait for an approval"),)


class ApprovalChanged(Conflict):
    """The digest of a decision is not that of the approval."""

    text = "Approval {id} has the digest {digest}, not {given}. Nothing was decided. Read it again."

    def __init__(self, record: ApprovalRecord, given: str) -> None:
        fields = {"id": record.id, "digest": record.digest, "given": given}
        super().__init__(holder=holder(record), way_out=decisions(record), **fields)


class InvalidApprovalState(Conflict):
    """An approval waits for no decision."""

    text = "Approval {id} is {state}: only one that is PENDING can be {what}."

    def __init__(self, record: ApprovalRecord, state: ApprovalState, what: str) -> None:
        steps = [_step("reads it", "show", record)]
        super().__init__(id=record.id, state=state, what=what, holder=holder(record), way_out=steps)


class TooManyApprovals(Conflict):
    """A stack has too many approvals that wait."""

    text = (
        "{most} approvals of stack {stack_name} wait already. Nothing was done. Have some of them decided:"
        " heatlite approval list --stack {stack_name}."
    )

    def __init__(self, oldest: ApprovalRecord, most: int) -> None:
        name, steps = oldest.stack_name, decisions(oldest)
        super().__init__(most=most, stack_name=name, holder=holder(oldest), way_out=steps)


def plan_changed(record: ApprovalRecord) -> PlanChanged:
    """Return the error for a request that waits and whose plan has changed.

    `record` is the approval of the new plan.
    """
    error = PlanChanged(
        f"Nothing was begun: the plan has changed since it was requested. Approval {record.id} has it as it is now.",
        holder=holder(record),
        way_out=decisions(record),
    )
    error.headers = {HEADER: record.id}
    return error


def decisions(record: ApprovalRecord) -> list[WayOut]:
    """Return the steps that decide about an approval."""
    approve = _step("approves it", "approve", record, {"digest": record.digest})
    return [approve, _step("rejects it", "reject", record, {})]


def holder(record: ApprovalRecord) -> Holder:
    """Return the holder that is an approval."""
    return Holder(kind="approval", id=record.id, by=record.requested_by, since=to_text(record.requested_at))


def _step(text: str, word: str, record: ApprovalRecord, body: JsonMap | None = None) -> WayOut:
    """Return a step with an approval. Without a body it reads it."""
    path = f"/v1/{record.project}/approvals/{record.id}"
    method, path = ("GET", path) if body is None else ("POST", f"{path}/{word}")
    return WayOut(text=text, command=f"heatlite approval {word} {record.id}", method=method, path=path, body=body)
