"""Facts on operations that wait for a decision."""

from collections.abc import Sequence

from heatlite.core.clock import to_text
from heatlite.core.wire.why import Fact
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.why.tree import Told, Tree
from heatlite.engine.why.ways import Call, Ways
from heatlite.features.approvals.api.rules import LIST
from heatlite.features.approvals.store.records import OF_STACKS, ApprovalRecord, ApprovalState, Subject


def facts(tree: Tree, approvals: Sequence[ApprovalRecord]) -> list[Told]:
    """Return a fact for each operation on a root stack that waits.

    `approvals` are the open ones. Those of the work of features are facts of these.
    """
    return [_told(tree, one) for one in approvals if one.state is ApprovalState.PENDING and one.subject in OF_STACKS]


def _told(tree: Tree, one: ApprovalRecord) -> Told:
    ways, path = Ways(tree), f"/v1/{one.project}/approvals/{one.id}"
    operation = Operation.DELETE if one.subject is Subject.DELETE else Operation.UPDATE
    approve: Call | None = Call("POST", f"{path}/approve", {"digest": one.digest})
    if one.action_id is not None:
        approve = None  # the plan is made again, and may be another one
    command = f"heatlite approval approve {one.id}"
    ways.operation(operation, tree.root, "shows it, asks, and lets it happen", command, approve)
    ways.send("rejects it", f"heatlite approval reject {one.id}", Call("POST", f"{path}/reject", {}))
    because = f" ({', '.join(one.because)})" if one.because else ""
    text = f"the {one.subject} that {one.requested_by} asked for waits for an approval{because}: {one.id}"
    fact = Fact(
        code="approval",
        what="approval",
        path=one.resource,
        id=one.id,
        by=one.requested_by,
        since=to_text(one.requested_at),
        until=to_text(one.expires_at),
        text=text,
        blocks=[action.id for action in tree.actions if action.id == one.action_id],
        way_out=ways.steps,
    )
    return Told(fact, tree.root.id, LIST)
