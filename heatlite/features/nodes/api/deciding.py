"""Decisions about node actions and runs, for lists of all approvals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heatlite.core.actions.decisions import Decision, DecisionStep
from heatlite.core.context import Context
from heatlite.core.errors import EntityNotFound
from heatlite.core.json import JsonMap
from heatlite.core.redaction.masking import Mask
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.features.nodes.feature import NodeSettings
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.redaction import NodeVeil
from heatlite.features.nodes.requests import APPROVE
from heatlite.features.nodes.runs import at_once, decision_of_run, stage_names
from heatlite.features.nodes.states import NodeState
from heatlite.features.nodes.store.records import NodeActionRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.features.nodes.transitions import decision_of
from heatlite.store.records import ActionRecord

if TYPE_CHECKING:
    from heatlite.api.components import Components


class NodeActionDecider:
    """Decides about node actions (`core.actions.decisions.Decider`)."""

    rule = APPROVE

    def __init__(self, core: "Components") -> None:
        self._core = core
        self._rows = core.store.of(NodeStore)
        self.by_another = core.settings.of(NodeSettings).node_approval_by_another

    def content(self, target: str) -> JsonMap:
        """Return the kind and the arguments."""
        found = self._rows.node_actions.get(target)
        return {} if found is None else work(self._core, found)

    def waiting(self, root_id: str | None = None) -> Sequence[Decision]:
        """Return the decisions about node actions that are no part of a run."""
        alone = [one for one in self._rows.node_actions.unapproved(root_id) if one.run_id is None]
        return [decision_of(DecisionStep.ASKED, one, Context(one.project, one.requested_by)) for one in alone]

    def approve(self, context: Context, target: str, digest: str) -> None:
        """Approve a node action."""
        self._core.of(NodeOperations).requests.approve(context, self._found(target), digest)

    def reject(self, context: Context, target: str, reason: str) -> None:
        """Reject a node action."""
        self._core.of(NodeOperations).requests.reject(context, self._found(target))

    def _found(self, target: str) -> NodeActionRecord:
        found = self._rows.node_actions.get(target)
        if found is None:
            raise EntityNotFound(entity="Node action", name=target)
        return found


class RunDecider:
    """Decides about runs of playbooks (`core.actions.decisions.Decider`)."""

    rule = "node_playbooks:approve"

    def __init__(self, core: "Components") -> None:
        self._core = core
        self._rows = core.store.of(NodeStore)
        self.by_another = core.settings.of(NodeSettings).node_approval_by_another

    def content(self, target: str) -> JsonMap:
        """Return the actions of all stages, and their nodes.

        Nodes that get no work now are marked.
        """
        run = self._core.store.actions.get(target)
        if run is None:
            return {}
        steps = self._rows.node_actions.of_run(run.id)
        marks = self._marks(run)
        names, limits = stage_names(run), at_once(run)
        stages: list[JsonMap] = []
        said: list[JsonMap] = []
        for number, name in enumerate(names):
            mine = [one for one in steps if one.stage == number]
            nodes = [{"name": one.node, "marks": marks.get(one.node_id, [])} for one in mine]
            stages.append({"name": name, "at_once": limits[number] or "all", "nodes": [*nodes]})
            said.append({"name": name, "action": work(self._core, mine[0]) if mine else {}})
        return {"document": {"name": run.inputs.playbook or None, "stages": [*said]}, "stages": [*stages]}

    def _marks(self, run: ActionRecord) -> dict[str, list[str]]:
        """Return why nodes get no work now, by id."""
        found: dict[str, list[str]] = {}
        nodes = self._rows.nodes.of_root(run.root_id)
        for node in nodes:
            if node.state is NodeState.UNREACHABLE:
                found.setdefault(node.id, []).append(node.state.value)
        for stack_id in {node.stack_id for node in nodes}:
            for row in self._core.store.resources.of(stack_id):
                if (row.verb, row.status) == (Verb.CHECK, Status.FAILED):
                    found.setdefault(row.id, []).append("CHECK_FAILED")
        return found

    def waiting(self, root_id: str | None = None) -> Sequence[Decision]:
        """Return the decisions about runs."""
        nodes: dict[str, dict[str, None]] = {}
        for one in self._rows.node_actions.unapproved(root_id):
            if one.run_id is not None:
                nodes.setdefault(one.run_id, {})[one.node] = None
        return [
            decision_of_run(DecisionStep.ASKED, run, Context(run.project, run.requested_by), (*nodes[run.id],))
            for run in map(self._found, nodes)
            if run.status is ActionStatus.INIT
        ]

    def approve(self, context: Context, target: str, digest: str) -> None:
        """Approve a run. One of an older version has no digest here."""
        self._core.of(NodeOperations).playbooks.approve(context, self._found(target), digest or None)

    def reject(self, context: Context, target: str, reason: str) -> None:
        """Reject a run."""
        self._core.of(NodeOperations).playbooks.reject(context, self._found(target))

    def _found(self, target: str) -> ActionRecord:
        found = self._core.store.actions.get(target)
        if found is None:
            raise EntityNotFound(entity="Run of a playbook", name=target)
        return found


def work(core: "Components", action: NodeActionRecord) -> JsonMap:
    """Return the kind and the arguments of a node action, masked."""
    stack = core.store.stacks.get(action.stack_id)
    mask = Mask(list) if stack is None else core.reader.mask(stack)
    return {"kind": action.kind, "args": NodeVeil(action, mask).json(action.args)}
