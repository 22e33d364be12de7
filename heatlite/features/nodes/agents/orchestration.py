"""One orchestration of a tree's nodes: pull, commit, cancel, mark, push, commit.

Each decision about node actions is a transaction that holds the tree's root and checks the fence. So it stays true for
later transactions, and an engine that has lost the tree writes nothing (docs/decisions/0015-node-actions.md).
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.features.nodes.agents.client import NodeFault
from heatlite.features.nodes.agents.deployments import Deployments
from heatlite.features.nodes.agents.push import Push
from heatlite.features.nodes.agents.session import BATCH, Turn, batches, by_node, line_of
from heatlite.features.nodes.agents.sync import AgentReport, compare
from heatlite.features.nodes.states import AT_AGENT, PENDING, NodeActionState, NodeState
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord, NodeTransitionRecord

GONE_REASON = "Its node is gone"
NEVER_HAD = "Cancelled before the agent had it"


class Orchestration:
    """An orchestration that this engine has claimed. Call `run` once."""

    def __init__(self, turn: Turn, deployments: Deployments) -> None:
        self._turn = turn
        self._deployments = deployments

    def run(self) -> None:
        """Run it. Raises Fenced, Interrupted, DatabaseUnavailable."""
        turn = self._turn
        nodes = self._living(turn.rows.nodes.of_root(turn.root_id))
        if not nodes and self._turn.leave():
            return
        turn.report.nodes, turn.names = len(nodes), _names(nodes)
        with turn.asking(min(turn.node_settings.node_connections, len(nodes))):
            up = self._pull(nodes)
            turn.report.up = len(up)
            self._carry(nodes, up)
            pending = self._pending()
            self._cancel(up, pending)
            Push(turn).push(up, pending)
        self._explain(pending)
        turn.finish(turn.clock.now() + turn.node_settings.node_orchestration_interval)

    def _pending(self) -> list[NodeActionRecord]:
        """Return the open node actions.

        Advance runs that ended while the feature was off, and those with unhealthy nodes, which they may skip.
        """
        turn, actions = self._turn, self._turn.store.actions
        found = turn.rows.node_actions.open_of_root(turn.root_id)
        runs = [*dict.fromkeys(one.run_id for one in found if one.run_id is not None and not one.cancel_asked)]
        moving = {one.id for one in actions.ended(runs)} | ({*runs} - {*actions.existing(runs)})
        states = turn.store.resources.states([one.node_id for one in found if one.run_id is not None and one.turn])
        unwell = {node_id for node_id, state in states.items() if state == (Verb.CHECK, Status.FAILED)}
        moving |= {one.run_id for one in found if one.run_id in runs and one.turn and one.node_id in unwell}
        if not moving:
            return found
        with turn.writing():
            for run_id in runs:
                if run_id in moving:
                    turn.ledger.advance_run(run_id)
        return turn.rows.node_actions.open_of_root(turn.root_id)

    def _explain(self, actions: Sequence[NodeActionRecord]) -> None:
        """Write to the runs of playbooks that were set aside why they cannot go on.

        What they wait for at nodes is told when they are shown.
        """
        turn = self._turn
        has_runs = any(one.run_id is not None for one in actions)
        for run in turn.store.actions.live_of_root(turn.root_id) if has_runs else ():
            if run.verb is not Verb.RUN or run.status is not ActionStatus.WAITING:
                continue
            reason = turn.report.refused.get(run.id, "")
            if reason != run.status_reason:
                with turn.writing():
                    turn.store.moves.explain_wait(run.id, reason, turn.clock.now())

    # -- what is gone --------------------------------------------------------------------------------

    def _living(self, nodes: Sequence[NodeRecord]) -> list[NodeRecord]:
        """Return the nodes that have resources.

        Remove the others, with their unfinished actions.
        """
        standing = self._turn.store.resources.states([node.id for node in nodes])
        gone = [node for node in nodes if node.id not in standing]
        for some in batches(gone):
            with self._turn.writing():
                self._end_actions([node.id for node in some])
        return [node for node in nodes if node.id in standing]

    def _end_actions(self, node_ids: Sequence[str]) -> None:
        now = self._turn.clock.now()
        ended = [
            replace(
                action,
                state=NodeActionState.LOST if _may_be_there(action) else NodeActionState.CANCELLED,
                error=GONE_REASON,
                updated_at=now,
            )
            for action in self._turn.rows.node_actions.open_of_nodes(node_ids)
        ]
        lines = [line_of(action, now, GONE_REASON) for action in ended]
        self._turn.ledger.record(ended, lines)
        self._turn.rows.nodes.delete_many(node_ids)

    # -- pull ----------------------------------------------------------------------------------------

    def _pull(self, nodes: Sequence[NodeRecord]) -> dict[str, NodeRecord]:
        """Poll all agents. Returns the answers by node id."""
        up: dict[str, NodeRecord] = {}
        batch: list[tuple[NodeRecord, AgentReport | NodeFault]] = []
        for node, answer in self._turn.each(nodes, self._changes):
            if isinstance(answer, NodeFault):
                self._turn.report.errors[self._turn.names[node.id]] = answer.brief
                if (node.state, node.reason) != (NodeState.UNREACHABLE, answer.brief):
                    batch.append((node, answer))
            else:
                up[node.id] = node
                if answer.known is not None or node.state is not NodeState.UP:
                    batch.append((node, answer))
            if len(batch) == BATCH:
                self._learn(batch, up)
                batch = []
        if batch:
            self._learn(batch, up)
        return up

    def _changes(self, node: NodeRecord) -> AgentReport:
        with self._turn.agents.line(node) as line:
            return line.changes(node.instance, node.revision)

    def _learn(self, batch: Sequence[tuple[NodeRecord, AgentReport | NodeFault]], up: dict[str, NodeRecord]) -> None:
        """Write the answers of agents. Nodes of silent agents become UNREACHABLE."""
        turn = self._turn
        now, rows = turn.clock.now(), turn.rows
        ids = [told.id for _, answer in batch if isinstance(answer, AgentReport) for told in answer.actions]
        with self._turn.writing():
            now_known = rows.nodes.existing([node.id for node, _ in batch])
            records = rows.node_actions.open_of_nodes([node.id for node, _ in batch])
            has = {record.id for record in records}
            records += rows.node_actions.existing([one for one in dict.fromkeys(ids) if one not in has])
            by_id = {record.id: record for record in records}
            # A dependency on a stack action must not match a node action of the same id.
            taken = turn.store.actions.existing([one for one in dict.fromkeys(ids) if one not in by_id])
            of_node: dict[str, dict[str, NodeActionRecord]] = {}
            for record in records:
                of_node.setdefault(record.node_id, {})[record.id] = record
            nodes: list[NodeRecord] = []
            silent: list[NodeRecord] = []
            adopted: list[NodeActionRecord] = []
            changed: list[NodeActionRecord] = []
            lines: list[NodeTransitionRecord] = []
            told: dict[str, Sequence[NodeTransitionRecord]] = {}
            has_more = False
            for node, answer in batch:
                if not _is_same(node, now_known.get(node.id)):
                    up.pop(node.id, None)  # registered again meanwhile, which has made the tree due again
                    continue
                if isinstance(answer, NodeFault):
                    nodes.append(replace(node, state=NodeState.UNREACHABLE, reason=answer.brief))
                    if node.state is not NodeState.UNREACHABLE:
                        silent.append(node)
                    continue
                others = [one.id for one in answer.actions if one.id in taken]
                answer = replace(answer, actions=[one for one in answer.actions if one.id not in taken])
                asked = {one.id: by_id[one.id] for one in answer.actions if one.id in by_id}
                known = {**of_node.get(node.id, {}), **asked}
                changes = compare(node, known, answer, rows.node_actions.digest, now)
                if changes.node != node:
                    nodes.append(changes.node)
                adopted += changes.adopted
                by_id.update((record.id, record) for record in changes.adopted)  # another agent has the action
                changed += changes.changed
                lines += changes.lines
                told.update(changes.told)
                if others := [*others, *changes.others]:
                    self._turn.report.errors[self._turn.names[node.id]] = (
                        f"tells of actions that are not its own, which is ignored: {', '.join(others[:3])}"
                    )
                has_more |= answer.more and (answer.instance, answer.revision) != (node.instance, node.revision)
            rows.nodes.save_many(nodes)
            self._turn.ledger.put(adopted, [])
            self._turn.ledger.record(changed, lines, told)
            self._release_waiting(silent, records, now)
            if has_more:
                rows.orchestrations.nudge_existing(self._turn.root_id, now)

    def _release_waiting(self, silent: Sequence[NodeRecord], records: Sequence[NodeActionRecord], now: float) -> None:
        """Release what needs only the end of actions whose nodes are silent.

        Those actions stay open. If an agent comes back without one, `compare` makes it LOST.
        """
        ids = {node.id for node in silent}
        for record in records:
            if record.node_id in ids and not record.has_ended:
                self._turn.store.dependencies.release_waiting(record.id, now)

    # -- software deployments --------------------------------------------------------------------------

    def _carry(self, nodes: Sequence[NodeRecord], up: Mapping[str, NodeRecord]) -> None:
        """Answer ended deployments, create missing node actions, withdraw obsolete ones."""
        waiting = self._deployments.look([node for node in nodes if node.id in up])
        asked = self._turn.rows.node_actions.existing([one.action_id for one in waiting])
        known = {action.id: action for action in asked}
        for one in waiting:
            found = known.get(one.action_id)
            if found is not None and found.has_ended and found.node_id == one.node.id:  # an action belongs to one node
                self._deployments.answer(one, found)
        for some in batches([one for one in waiting if one.action_id not in known]):
            with self._turn.writing():
                self._deployments.put(some)
        carried = self._turn.rows.node_actions.open_deployed(self._turn.root_id)
        for stale in batches(self._deployments.stale(carried, waiting)):
            with self._turn.writing():
                self._deployments.withdraw(stale)

    # -- cancel --------------------------------------------------------------------------------------

    def _cancel(self, up: Mapping[str, NodeRecord], actions: Sequence[NodeActionRecord]) -> None:
        """Send the cancel requests to the agents."""
        asked = [action for action in actions if action.cancel_asked and action.node_id in up and _may_be_there(action)]
        never: list[NodeActionRecord] = []
        for (node, _), heard in self._turn.each(by_node(up, asked), self._cancel_all):
            if isinstance(heard, NodeFault):
                self._turn.report.errors[self._turn.names[node.id]] = heard.brief
            else:
                self._turn.report.cancelled += 1
                never += heard
        for some in batches([action for action in never if action.state in PENDING]):
            now = self._turn.clock.now()
            with self._turn.writing():
                ended = [
                    replace(action, state=NodeActionState.CANCELLED, error=NEVER_HAD, updated_at=now)
                    for action in self._turn.rows.node_actions.existing([one.id for one in some])
                    if action.state is NodeActionState.PENDING_SCHEDULE
                ]
                self._turn.ledger.record(ended, [line_of(action, now, NEVER_HAD) for action in ended])

    def _cancel_all(self, given: tuple[NodeRecord, Sequence[NodeActionRecord]]) -> list[NodeActionRecord]:
        """Return the actions that the agent does not have."""
        node, actions = given
        with self._turn.agents.line(node) as line:
            return [action for action in actions if not line.cancel(action.id)]


def _names(nodes: Sequence[NodeRecord]) -> dict[str, str]:
    """Return names of the nodes for a report, by id.

    Nested stacks may use the same resource names.
    """
    count = Counter(node.name for node in nodes)
    return {node.id: node.name if count[node.name] == 1 else f"{node.name} ({node.id})" for node in nodes}


def _is_same(node: NodeRecord, now: NodeRecord | None) -> bool:
    """True if the agent that answered is still the registered one."""
    return now is not None and (now.url, now.secret, now.registered_at) == (node.url, node.secret, node.registered_at)


def _may_be_there(action: NodeActionRecord) -> bool:
    """True if the action may be at the agent."""
    return action.state in AT_AGENT or action.sent_at is not None
