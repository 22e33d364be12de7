"""The store of nodes: one attribute for each kind of row."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from heatlite.core.clock import DAY
from heatlite.core.config import Settings
from heatlite.core.runtime.meter import Gauge
from heatlite.features.nodes.states import ENDED, PENDING, NodeActionState, NodeState
from heatlite.features.nodes.store.node_actions import NodeActions
from heatlite.features.nodes.store.nodes import Nodes, Orchestrations
from heatlite.features.nodes.store.playbooks import Playbooks
from heatlite.features.nodes.store.tables import MODELS, NodeAction, NodeTransition
from heatlite.store.actions.table import OPEN
from heatlite.store.feature_store import ConsistencyRule, FeatureStore, Moved, OldRows
from heatlite.store.records import ActionRecord
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.large_values import ProjectValues


def _any_of(states: Collection[NodeActionState]) -> str:
    return f"({', '.join(repr(str(one)) for one in sorted(states))})"


_PENDING = f"state IN {_any_of(PENDING)}"
_OPEN = f"state NOT IN {_any_of(ENDED)}"

RULES = (
    ConsistencyRule(
        "an open run of a playbook has open node actions",
        "action",
        f"SELECT id, status FROM action WHERE verb = 'PLAYBOOK' AND {OPEN} AND NOT EXISTS "
        f"(SELECT 1 FROM node_action WHERE run_id = action.id AND {_OPEN})",
    ),
    ConsistencyRule(
        "an ended run of a playbook has no unsent node actions",
        "node action",
        f"SELECT id, run_id FROM node_action WHERE {_PENDING} AND sent_at IS NULL AND EXISTS "
        f"(SELECT 1 FROM action WHERE action.id = run_id AND NOT {OPEN})",
    ),
    ConsistencyRule(
        "a node of a deleted stack is deleted",
        "node",
        "SELECT id, stack_id FROM node WHERE NOT EXISTS (SELECT 1 FROM stack WHERE stack.id = node.stack_id"
        " AND (stack.deleted_at IS NULL OR stack.deleted_at >= {late}))",
    ),
    ConsistencyRule(
        "an open node action has a node",
        "node action",
        f"SELECT id, node_id FROM node_action WHERE {_OPEN} AND NOT EXISTS "
        "(SELECT 1 FROM node WHERE node.id = node_action.node_id)",
    ),
    ConsistencyRule(
        "a tree with open node actions has an orchestration",
        "node action",
        f"SELECT id, root_id FROM node_action WHERE {_OPEN} AND NOT EXISTS "
        "(SELECT 1 FROM orchestration WHERE orchestration.root_id = node_action.root_id)",
    ),
    ConsistencyRule(
        "an unapproved node action was not sent",
        "node action",
        "SELECT id, node_id FROM node_action WHERE state = 'PENDING_APPROVE' AND (sent_at IS NOT NULL OR attempts > 0)",
    ),
    ConsistencyRule(
        "the history of a pending node action has its state",
        "node action",
        f"SELECT id, state FROM node_action WHERE {_PENDING} AND NOT EXISTS (SELECT 1 FROM node_transition"
        " WHERE action_id = node_action.id AND node_transition.state = node_action.state)",
    ),
)


class NodeStore(FeatureStore):
    """Nodes, their actions, orchestrations and playbooks."""

    tables = MODELS
    of_stacks = {"node": "stack_id", "node_action": "stack_id"}
    holders = (NodeAction,)
    rules = RULES
    unended = f"SELECT 1 FROM node_action WHERE node_action.id = depended AND {_OPEN}"
    decisions = (
        "SELECT COUNT(*) FROM node_action WHERE project = ? AND state = 'PENDING_APPROVE' AND run_id IS NULL",
        "SELECT COUNT(*) FROM action WHERE project = ? AND verb = 'PLAYBOOK' AND status = 'INIT'",
    )

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        super().__init__(encryption, values)
        self.nodes = Nodes(encryption)
        self.node_actions = NodeActions(encryption, values)
        self.orchestrations = Orchestrations(encryption)
        self.playbooks = Playbooks(encryption)

    def engine_started(self) -> None:
        self.orchestrations.expire_all()

    def tree_changed(self, root_id: str, now: float) -> None:
        self.orchestrations.send_nudge(root_id, now)

    def resource_marked(self, root_id: str, is_unhealthy: bool, now: float) -> None:
        if not is_unhealthy:  # its node may get work again
            self.orchestrations.nudge_existing(root_id, now)

    def note_deployed(self, project: str, server_id: str, now: float) -> None:
        for root_id in self.nodes.roots_of_server(project, server_id):
            self.orchestrations.nudge_existing(root_id, now)

    def stacks_removed(self, stack_ids: Sequence[str]) -> None:
        work = NodeAction.select(NodeAction.id).where(NodeAction.stack_id.in_(stack_ids))
        self.database.change(NodeTransition.delete().where(NodeTransition.action_id.in_(work)))
        super().stacks_removed(stack_ids)

    def resources_moved(self, moved: Moved) -> None:
        moved.rename(self.database, "node", "name", root="root_id")
        moved.rename(self.database, "node_action", "node", root="root_id")

    def has_work(self, project: str, work_id: str) -> bool:
        found = self.node_actions.get(work_id)
        return found is not None and found.project == project

    def running(self, root_id: str) -> Sequence[str]:
        return self.node_actions.at_agents(root_id)

    def resting(self, runs: Sequence[ActionRecord]) -> Collection[str]:
        return self.node_actions.waiting_for_unhealthy(runs)

    def results(self, ids: Sequence[str], root_id: str) -> Mapping[str, bool | None]:
        return self.node_actions.results(ids, root_id)

    def totals(self) -> Iterator[Gauge]:
        ((approvals,),) = self.database.read("SELECT COUNT(*) FROM node_action WHERE state = 'PENDING_APPROVE'")
        text = "Node actions that wait for an approval."
        yield Gauge("heatlite_node_actions_to_approve", text, (), {(): approvals})
        states: dict[str, int] = dict(self.database.read("SELECT state, COUNT(*) FROM node GROUP BY state"))
        yield Gauge(
            "heatlite_nodes", "Nodes, by state.", ("state",), {(state,): states.get(state, 0) for state in NodeState}
        )

    def old_rows(self, settings: Settings, now: float, limit: int) -> Iterator[OldRows]:
        remove, found = self.node_actions.remove, self.node_actions
        yield remove, found.older_than(now - settings.action_days * DAY, limit)
        yield remove, found.over_limit(settings.max_actions_per_stack, limit)
