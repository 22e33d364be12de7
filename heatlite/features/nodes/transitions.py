"""Transitions of node actions, with history, events, dependants and playbook runs."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from heatlite.core.actions.decisions import Decision, DecisionStep
from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.json import JsonMap
from heatlite.core.redaction.masking import Mask, named_secrets
from heatlite.core.status import MAX_REASON
from heatlite.features.nodes.runs import Runs
from heatlite.features.nodes.states import MOVES, NodeActionState, Requester, TransitionOrigin
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord, NodeTransitionRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import EventRecord
from heatlite.store.store import Store

EVENT = "NODE_ACTION"
"""Prefix of node action states in stack events: ``NODE_ACTION_RUNNING``.

Such an event has the node's name, and the node action's id as physical id.
"""
NODE_ACTION = "node_action"
"""Subject of decisions."""
EVENT_TYPE = "OS::Heat::NodeAction"


def new_action(
    node: NodeRecord,
    action_id: str,
    kind: str,
    args: JsonMap,
    digest: str,
    state: NodeActionState,
    requester: Requester,
    requested_by: str,
    created_at: float,
) -> NodeActionRecord:
    """Return a node action that is not stored yet.

    `created_at` is in seconds since the epoch.
    """
    return NodeActionRecord(
        id=action_id,
        project=node.project,
        stack_id=node.stack_id,
        root_id=node.root_id,
        node_id=node.id,
        node=node.name,
        kind=kind,
        args=args,
        digest=digest,
        state=state,
        requester=requester,
        requested_by=requested_by,
        created_at=created_at,
        updated_at=created_at,
    )


def decision_line(action: NodeActionRecord, context: Context, reason: str) -> NodeTransitionRecord:
    """Return the history line of a caller's decision."""
    return NodeTransitionRecord(
        action.id, action.updated_at, action.state, TransitionOrigin.SERVER, context.user, reason
    )


def decision_of(step: DecisionStep, action: NodeActionRecord, by: Context | None = None) -> Decision:
    """Return a step of the decision about a node action."""
    return Decision(
        step, NODE_ACTION, action.id, action.project, action.root_id, by, action.digest, nodes=(action.node,)
    )


class NodeLedger:
    """Writes node actions. Call in a transaction that holds the root of the tree."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._rows = store.of(NodeStore)
        self._clock = clock
        self._runs = Runs(store, clock, self.record)
        self.run_moved = self._runs.moved
        """A listener, see `Listeners.action_moves`, for runs of playbooks."""
        self.advance_run = self._runs.advance

    def put(self, new: Sequence[NodeActionRecord], lines: Sequence[NodeTransitionRecord]) -> None:
        """Add node actions in the order of execution. Raises Duplicate for a known id."""
        self._rows.node_actions.insert_many(new)
        self._rows.node_actions.add_history(lines)
        self._write_events(new)

    def record(
        self,
        changed: Sequence[NodeActionRecord],
        lines: Sequence[NodeTransitionRecord] = (),
        told: Mapping[str, Sequence[NodeTransitionRecord]] | None = None,
    ) -> None:
        """Write changed node actions.

        Those that the server ends have the time of their change as the end. `lines` are the server's history lines;
        `told` maps ids to histories from agents.
        """
        # In order of creation, as everywhere: transactions that lock several actions cannot deadlock.
        changed = sorted(map(_with_end, changed), key=lambda action: action.seq)
        before = self._rows.node_actions.states([action.id for action in changed])
        moved = [action for action in changed if action.state is not before[action.id]]
        for action in moved:
            if action.state not in MOVES[before[action.id]]:
                raise RuntimeError(f"node action {action.id}: no move from {before[action.id]} to {action.state}")
        self._rows.node_actions.save_many(changed)
        self._rows.node_actions.add_history(lines)
        self._rows.node_actions.replace_agent_history(told or {})
        self._write_events(moved)
        now = self._clock.now()
        for action in moved:
            if before[action.id] is NodeActionState.PENDING_APPROVE and action.run_id is None:
                self._store.listeners.decided(decision_of(DecisionStep.ENDED, action))
            if action.has_ended:
                self._store.dependencies.resolve(action.id, action.state is NodeActionState.DONE, now)
        for run_id in dict.fromkeys(action.run_id for action in changed if action.run_id is not None):
            self._runs.advance(run_id)

    def _write_events(self, actions: Sequence[NodeActionRecord]) -> None:
        """Write an event of the stack."""
        now = self._clock.now()
        sealed = self._store.encryption.sealed_stacks({action.stack_id for action in actions})
        self._store.events.append_many([
            EventRecord(
                stack_id=action.stack_id,
                resource_name=action.node,
                resource_type=EVENT_TYPE,
                physical_id=action.id,
                verb=EVENT,
                status=action.state,
                status_reason=_reason(action, action.stack_id in sealed)[:MAX_REASON],
                created_at=now,
            )
            for action in actions
        ])


def _with_end(action: NodeActionRecord) -> NodeActionRecord:
    if not action.has_ended or action.finished_at is not None:
        return action
    return replace(action, finished_at=action.updated_at)


def _reason(action: NodeActionRecord, is_sealed: bool) -> str:
    """Return the event text: the operation, and its failure unless secrets may show."""
    if not action.error or is_sealed:
        return action.kind
    return f"{action.kind}: {Mask(lambda: named_secrets([action.args, action.outputs])).text(action.error)}"
