"""Software deployments that a node's agent executes, each as a node action.

The node action is the only record; its end is the deployment's answer. Its id is derived from the deployment and its
contents, so each orchestration finds the missing ones, and nothing runs twice after a crash.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID, uuid5

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, JsonMap
from heatlite.engine.operations.signals import Signals
from heatlite.engine.operations.software_configs import IN_PROGRESS
from heatlite.features.nodes.states import PENDING, NodeActionState, Requester, TransitionOrigin
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord, NodeTransitionRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.features.nodes.transitions import NodeLedger, new_action
from heatlite.store.records import ResourceRecord, SoftwareDeploymentRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

SPACE: Final = UUID("b1f1a1f6-3f6c-4d0e-9a58-0d2c54b3b0a4")
SCRIPT: Final = "script"
"""Config group for agents, and the kind of their node actions."""
TOLD: Final = frozenset({"deploy_server_id", "deploy_action", "deploy_stack_id", "deploy_resource_name"})
"""Deployment inputs for the agent itself. They are not passed to scripts, because they may contain secrets."""
USER: Final = "software deployment"
WITHDRAWN = "The deployment was cancelled or removed"
STATUS_CODE, STDERR = "deploy_status_code", "deploy_stderr"
NO_STATUS = -1
"""Stands for the exit status of an action that did not run to its end."""


class WaitingDeployment(Struct, frozen=True):
    """A deployment whose server has not answered yet."""

    deployment: SoftwareDeploymentRecord
    resource: ResourceRecord
    """The resource of the deployment."""
    node: NodeRecord
    args: JsonMap

    @property
    def action_id(self) -> str:
        """Return the id of its node action."""
        return str(uuid5(SPACE, f"{self.deployment.id}/{self.deployment.config_id}"))


class Deployments:
    """Creates, ends and answers the node actions of deployments in an orchestration."""

    def __init__(self, store: Store, clock: Clock, ledger: NodeLedger, signals: Signals) -> None:
        self._store = store
        self._rows = store.of(NodeStore)
        self._clock = clock
        self._ledger = ledger
        self._signals = signals

    def look(self, nodes: Sequence[NodeRecord]) -> list[WaitingDeployment]:
        """Return the deployments that wait for one of the nodes."""
        carrying = [node for node in nodes if node.deployments]
        return list(self._waiting(carrying)) if carrying else []

    def _waiting(self, nodes: Sequence[NodeRecord]) -> Iterator[WaitingDeployment]:
        store, project = self._store, nodes[0].project
        objects = store.resources.objects([node.id for node in nodes])
        node_of = {objects[node.id]: node for node in nodes if node.id in objects}
        found = store.software_deployments.waiting(project, IN_PROGRESS, list(node_of))
        rows = {row.physical_id: row for row in store.resources.with_objects(project, [one.id for one in found])}
        for deployment in found:
            config = store.software_configs.get(project, deployment.config_id)
            row = rows.get(deployment.id)
            if row is None or config is None or config.group != SCRIPT or not isinstance(config.config, str):
                continue  # for another tool than the agent
            inputs: JsonMap = {
                str(one["name"]): one.get("value")
                for one in config.inputs
                if not str(one["name"]).startswith("deploy_") or one["name"] in TOLD
            }
            outputs: list[Json] = [one["name"] for one in config.outputs]
            args: JsonMap = {"config": config.config, "inputs": inputs, "outputs": outputs}
            yield WaitingDeployment(deployment, row, node_of[deployment.server_id], args)

    def action(self, waiting: WaitingDeployment) -> NodeActionRecord:
        """Return the node action for a deployment.

        It needs no approval: the author of the deployment could run the same with any other agent on the server.
        """
        node, now = waiting.node, self._clock.now()
        digest = self._rows.node_actions.digest(SCRIPT, waiting.args, node.id)
        state = NodeActionState.PENDING_SCHEDULE
        action = new_action(
            node, waiting.action_id, SCRIPT, waiting.args, digest, state, Requester.DEPLOYMENT, USER, now
        )
        return replace(action, deployment_id=waiting.deployment.id)

    def put(self, lacking: Sequence[WaitingDeployment]) -> None:
        """Create the missing node actions, in a transaction that holds the nodes' tree."""
        known = {action.id for action in self._rows.node_actions.existing([one.action_id for one in lacking])}
        new = [self.action(one) for one in lacking if one.action_id not in known]
        lines = [NodeTransitionRecord(one.id, one.created_at, one.state, TransitionOrigin.SERVER, USER) for one in new]
        self._ledger.put(new, lines)

    def withdraw(self, actions: Sequence[NodeActionRecord]) -> None:
        """End the node actions of cancelled deployments, at once or by the agent.

        Call in a transaction that holds the tree.
        """
        now, changed, lines = self._clock.now(), [], []
        for action in self._rows.node_actions.existing([one.id for one in actions]):
            if action.has_ended or action.cancel_asked:
                continue
            if action.state in PENDING and action.sent_at is None:
                action = replace(action, state=NodeActionState.CANCELLED, error=WITHDRAWN, updated_at=now)
                lines.append(
                    NodeTransitionRecord(action.id, now, action.state, TransitionOrigin.SERVER, reason=WITHDRAWN)
                )
            else:
                action = replace(action, cancel_asked=True, updated_at=now)
            changed.append(action)
        self._ledger.record(changed, lines)

    def stale(
        self, actions: Sequence[NodeActionRecord], waiting: Sequence[WaitingDeployment]
    ) -> list[NodeActionRecord]:
        """Return the node actions whose deployments have ended or gone."""
        current = {one.action_id for one in waiting}
        found = []
        for action in actions:
            if action.deployment_id is not None and action.id not in current:
                deployment = self._store.software_deployments.get(action.project, action.deployment_id)
                same = None if deployment is None else str(uuid5(SPACE, f"{deployment.id}/{deployment.config_id}"))
                if deployment is None or deployment.status != IN_PROGRESS or same != action.id:
                    found.append(action)
        return found

    def answer(self, waiting: WaitingDeployment, action: NodeActionRecord) -> None:
        """Signal the end of its node action to a deployment, as a server would.

        Call outside of a transaction that holds the node's tree: the deployment may be in another tree.
        """
        details: JsonMap = dict(action.outputs)
        if action.state is not NodeActionState.DONE and details.get(STATUS_CODE) in (None, "", 0, "0"):
            details[STATUS_CODE] = NO_STATUS
            details[STDERR] = f"{details.get(STDERR) or ''}\n{action.state}: {action.error}".lstrip()
        stack = self._store.stacks.get(waiting.resource.stack_id)
        if stack is None:
            return
        try:
            self._signals.signal(Context(stack.project, user=action.node), stack, waiting.resource, details)
        except HeatliteError as error:
            log.warning("deployment %s cannot be answered: %s", waiting.deployment.id, error)
