"""Changes of the server's records after an agent's answer.

Pure: reads and writes nothing.

The agent is the authority on its machine: its report overwrites the server's record until the action has ended.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.json import JsonMap
from heatlite.features.nodes.states import AT_AGENT, MOVES, NodeActionState, NodeState, Requester, TransitionOrigin
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord, NodeTransitionRecord

LOST_REASON = "The agent has lost it"
ANOTHER_REASON = (
    "The agent has something else with this id, {now}, and the agent wins. What was asked for, and approved, was {was}"
)

Digest = Callable[[str, JsonMap, str], str]
"""Function that returns the digest of kind, args and node id."""


class ReportedStep(Struct, frozen=True):
    """A history line as the agent reports it."""

    time: float
    state: NodeActionState
    reason: str


class ReportedAction(Struct, frozen=True):
    """An action as its agent reports it. Times are by the agent's clock."""

    id: str
    kind: str
    args: JsonMap
    requester: str
    created_at: float
    scheduled_at: float | None
    started_at: float | None
    finished_at: float | None
    state: NodeActionState
    progress: JsonMap
    outputs: JsonMap
    error: str
    history: Sequence[ReportedStep]
    """Oldest first."""


class AgentReport(Struct, frozen=True):
    """Changes reported by an agent."""

    instance: str
    revision: int
    kinds: Sequence[str] = ()
    known: frozenset[str] | None = None
    """Ids of all actions of the agent; None: nothing has changed."""
    actions: Sequence[ReportedAction] = ()
    """Changed node actions."""
    more: bool = False
    """True if more changes did not fit into the answer."""


class RecordChanges(Struct, frozen=True):
    """Records to write."""

    node: NodeRecord
    adopted: list[NodeActionRecord] = []
    """Node actions unknown to the server."""
    changed: list[NodeActionRecord] = []
    lines: list[NodeTransitionRecord] = []
    """The server's own history lines."""
    told: dict[str, list[NodeTransitionRecord]] = {}
    """Histories from the agent, which replace earlier ones."""
    others: list[str] = []
    """Ids that belong to other nodes' actions: this agent cannot change them."""


def compare(
    node: NodeRecord, records: Mapping[str, NodeActionRecord], answer: AgentReport, digest: Digest, now: float
) -> RecordChanges:
    """Return the changes that an agent's answer makes.

    `records` holds, by id, all unfinished actions of the node and all actions with an id of the answer.
    """
    if answer.known is None:
        return RecordChanges(_answered(node, replace(node, state=NodeState.UP, reason=""), now))
    answering = replace(
        node,
        state=NodeState.UP,
        reason="",
        instance=answer.instance,
        revision=answer.revision,
        kinds=list(answer.kinds),
    )
    changes = RecordChanges(_answered(node, answering, now))
    for told in {told.id: told for told in answer.actions}.values():
        record = records.get(told.id)
        if record is None:
            changes.adopted.append(_adopted(node, told, digest, now))
        elif record.node_id != node.id:
            changes.others.append(told.id)
            continue
        elif record.has_ended or (merged := _overwritten(record, told, digest)) == record:
            continue
        else:
            changes.changed.append(replace(merged, updated_at=now))
            if merged.digest != record.digest:
                changes.lines.append(_another(record, merged, now))
        changes.told[told.id] = [
            NodeTransitionRecord(told.id, step.time, step.state, TransitionOrigin.AGENT, reason=step.reason)
            for step in told.history
        ]
    known = answer.known | {told.id for told in answer.actions}
    for record in records.values():
        if record.node_id == node.id and record.state in AT_AGENT and record.id not in known:
            lost = NodeActionState.LOST
            changes.changed.append(replace(record, state=lost, error=LOST_REASON, updated_at=now))
            changes.lines.append(
                NodeTransitionRecord(record.id, now, lost, TransitionOrigin.SERVER, reason=LOST_REASON)
            )
    return changes


def _answered(before: NodeRecord, node: NodeRecord, now: float) -> NodeRecord:
    """Return the node after an answer; an unchanged one costs no write."""
    return before if node == before else replace(node, seen_at=now)


def _adopted(node: NodeRecord, told: ReportedAction, digest: Digest, now: float) -> NodeActionRecord:
    return NodeActionRecord(
        id=told.id,
        project=node.project,
        stack_id=node.stack_id,
        root_id=node.root_id,
        node_id=node.id,
        node=node.name,
        kind=told.kind,
        args=told.args,
        digest=digest(told.kind, told.args, node.id),
        state=told.state,
        requester=Requester.AGENT,
        requested_by=told.requester,
        created_at=told.created_at,
        updated_at=now,
        scheduled_at=told.scheduled_at,
        started_at=told.started_at,
        finished_at=told.finished_at,
        error=told.error,
        progress=told.progress,
        outputs=told.outputs,
    )


def _another(record: NodeActionRecord, merged: NodeActionRecord, now: float) -> NodeTransitionRecord:
    """Return the history line of an action with changed contents."""
    now_is, was = (f"{one.kind} (digest {one.digest})" for one in (merged, record))
    reason = ANOTHER_REASON.format(now=now_is, was=was)
    return NodeTransitionRecord(record.id, now, merged.state, TransitionOrigin.SERVER, reason=reason)


def _overwritten(record: NodeActionRecord, told: ReportedAction, digest: Digest) -> NodeActionRecord:
    """Return the record as the agent reports it, but never an earlier state.

    The agent's disk may be an older copy. A report with other contents than the approved action drops the approval.
    """
    is_other = (told.kind, told.args) != (record.kind, record.args)
    return replace(
        record,
        kind=told.kind,
        args=told.args,
        digest=digest(told.kind, told.args, record.node_id) if is_other else record.digest,
        approved_by=None if is_other else record.approved_by,
        approved_at=None if is_other else record.approved_at,
        state=told.state if told.state in MOVES[record.state] else record.state,
        scheduled_at=told.scheduled_at,
        started_at=told.started_at,
        finished_at=told.finished_at,
        error=told.error,
        progress=told.progress,
        outputs=told.outputs,
    )
