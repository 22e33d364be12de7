"""Facts on operations that wait for a decision."""

from collections.abc import Sequence

from heatlite.core.clock import to_text
from heatlite.core.errors import HeatliteError, InvalidStackState
from heatlite.core.wire.why import Fact
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.engine.why.ways import WayCall, Ways
from heatlite.features.approvals.api.rules import LIST
from heatlite.features.approvals.operations import operation_of
from heatlite.features.approvals.store.records import OF_STACKS, ApprovalRecord, ApprovalState
from heatlite.store.records import StackRecord


def facts(tree: ExplainedTree, approvals: Sequence[ApprovalRecord]) -> list[Told]:
    """Return a fact for each operation that waits, or has to be sent again.

    `approvals` are the open ones. Those of the work of features are facts of these.
    """
    return [_told(tree, one) for one in approvals if one.subject in OF_STACKS]


def _told(tree: ExplainedTree, one: ApprovalRecord) -> Told:
    ways, path = Ways(tree), f"/v1/{one.project}/approvals/{one.id}"
    action = next((found for found in tree.actions if found.id == one.action_id), None)
    asked = f"the {one.subject} that {one.requested_by} asked for"
    if one.state is ApprovalState.APPROVED:
        again = "once it is sent again" if action is None else f"at {to_text(action.not_before)}"
        text = f"{asked} is approved: it passes {again} ({one.id})"
    else:
        operation = operation_of(one, action)
        stack = tree.root if action is None else tree.by_id.get(action.stack_id, tree.root)
        gone = _nothing_to_retry(tree, stack, operation)
        command, call = f"heatlite approval approve {one.id}", WayCall(
            "POST", f"{path}/approve", {"digest": one.digest}
        )
        if gone is None and one.action_id is None:
            ways.operation(operation, stack, "shows it, asks, and lets it pass once it is sent again", command, call)
        elif gone is None:  # the plan is made again, and may be another one
            text = "shows it, asks, and lets it happen"
            ways.after_look(operation, stack, text, command, call, WayCall("GET", path))
        ways.send("rejects it", f"heatlite approval reject {one.id}", WayCall("POST", f"{path}/reject", {}))
        because = f" ({', '.join(one.because)})" if one.because else ""
        text = f"{asked} waits for an approval{because}: {one.id}"
        text += "" if gone is None else f". It can no longer begin: {gone.message}"
    fact = Fact(
        code="approval",
        what="approval",
        path=one.resource,
        id=one.id,
        by=one.requested_by,
        since=to_text(one.requested_at),
        until=to_text(one.expires_at),
        text=text,
        blocks=[] if action is None or one.state is ApprovalState.APPROVED else [action.id],
        way_out=ways.steps,
    )
    return Told(fact, tree.root.id, LIST)


def _nothing_to_retry(tree: ExplainedTree, stack: StackRecord, operation: Operation) -> HeatliteError | None:
    """Return the error of a retry whose stack has no failure to go on from."""
    error = tree.refusal(operation, stack) if operation is Operation.RETRY else None
    return error if isinstance(error, InvalidStackState) else None
