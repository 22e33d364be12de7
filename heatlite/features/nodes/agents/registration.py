"""Nodes: registration of agents, and the view of a stack's nodes."""

import logging
from collections.abc import Collection, Sequence
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from heatlite.api.access.policy import PROVEN
from heatlite.core.clock import Clock
from heatlite.core.errors import EntityNotFound
from heatlite.core.status import MAX_REASON
from heatlite.features.nodes.agents.client import Agents, Kinds, ShortWord
from heatlite.features.nodes.states import NodeActionState, NodeState
from heatlite.features.nodes.store.records import NodeRecord, OrchestrationRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import EventRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

REFUSED_SECONDS = 600.0
"""Time for which a refusal is shown. A refused agent asks again after a minute at most."""
EVENT, ANOTHER = "NODE", "REPLACED"
"""The event ``NODE_REPLACED``, with the node's id as physical id."""
EVENT_TYPE = "OS::Heat::Node"


class Registered(Struct, frozen=True, forbid_unknown_fields=True):
    """Self-description of an agent."""

    url: Annotated[str, Meta(max_length=2048)]
    """Address of the agent: ``http`` or ``https``."""
    secret: Annotated[str, Meta(min_length=32, max_length=256)]
    """Shared secret of agent and server; it is never shown."""
    instance: ShortWord
    """Id of the agent's database: one that was wiped is another."""
    agent: ShortWord
    """The version of the agent."""
    kinds: Kinds
    """The kinds of work that the agent can do."""
    deployments: bool = False
    """``true`` if the agent carries out the software deployments of the server."""


class RefusedAgent(Struct, frozen=True):
    """The last refused request of an agent that has not registered since."""

    stack_id: str
    name: str
    address: str
    reason: str
    time: float


class NodeListing(Struct, frozen=True):
    """Nodes of a stack and its nested stacks, as the API shows them."""

    nodes: list[tuple[NodeRecord, dict[NodeActionState, int]]]
    """Each node with the number of its unfinished actions by state."""
    orchestration: OrchestrationRecord | None
    refused: list[RefusedAgent]
    """Agents that the server has refused lately, by stack name and own name."""


class NodeRegistry:
    """Registers agents and lists nodes."""

    def __init__(self, store: Store, clock: Clock, agents: Agents) -> None:
        self._store = store
        self._rows = store.of(NodeStore)
        self._clock = clock
        self._agents = agents

    def register(self, stack: StackRecord, row: ResourceRecord, given: Registered) -> NodeRecord:
        """Register an agent beside a resource.

        The latest registration replaces the earlier agent, with an event.

        Raises HTTPBadRequest for a URL that egress rules refuse, EntityNotFound if the resource is gone.
        """
        url, now = self._agents.vet(given.url), self._clock.now()
        with self._store.transaction():
            self._store.stacks.lock(stack.id)
            if row.id not in self._store.resources.states([row.id]):
                raise EntityNotFound(entity="Resource", name=row.name)
            before = self._rows.nodes.get(row.id)
            same = before is not None and before.instance == given.instance
            node = NodeRecord(
                id=row.id,
                stack_id=stack.id,
                root_id=stack.root_id or stack.id,
                project=stack.project,
                name=row.name,
                url=url,
                secret=given.secret,
                instance=given.instance if same else "",
                revision=before.revision if before is not None and same else 0,
                agent=given.agent,
                kinds=list(given.kinds),
                deployments=given.deployments,
                state=NodeState.REGISTERED,
                reason="",
                registered_at=now,
                seen_at=None if before is None else before.seen_at,
            )
            if before is None:
                self._rows.nodes.insert(node)
            else:
                self._rows.nodes.save_many([node])
                if before.secret != node.secret or urlsplit(before.url).hostname != urlsplit(node.url).hostname:
                    self._record_replacement(before, node)
            self._rows.orchestrations.nudge(node.root_id, now)
        log.info("node %s of stack %s: an agent has registered at %s", row.name, stack.id, url)
        return node

    def _record_replacement(self, before: NodeRecord, node: NodeRecord) -> None:
        """Record a replaced agent: the machine was rebuilt, or its URL has a new owner.

        With the same secret the agent has moved, or it runs on a copy of the other's folder.
        """
        which = "Another agent" if before.secret != node.secret else "An agent with the same secret"
        reason = f"{which} has registered, at {node.url}, in place of the one at {before.url}"
        log.warning("node %s of stack %s: %s", node.name, node.stack_id, reason)
        event = EventRecord(
            node.stack_id, node.name, EVENT_TYPE, node.id, EVENT, ANOTHER, reason[:MAX_REASON], node.registered_at
        )
        self._store.events.append_many([event])

    def changed(self, stack: StackRecord, row: ResourceRecord) -> None:
        """Note a change that an agent reports.

        Raises EntityNotFound without a registration.
        """
        if self._rows.nodes.get(row.id) is None:
            raise EntityNotFound(entity="Node", name=row.name)
        self.orchestrate(stack)

    def orchestrate(self, stack: StackRecord) -> bool:
        """Have the nodes of the stack's tree orchestrated soon. False if it has none."""
        with self._store.transaction():
            return self._rows.orchestrations.nudge_existing(stack.root_id or stack.id, self._clock.now())

    def listing(self, stack: StackRecord) -> NodeListing:
        """Return the nodes of a stack and its nested stacks, by stack name and own name."""
        names = {one.id: one.name for one in (stack, *self._store.stacks.descendants(stack))}
        found = self._rows.nodes
        nodes = found.of_root(stack.id) if stack.parent_id is None else found.of_stacks([*names])
        nodes.sort(key=lambda node: (names.get(node.stack_id, ""), node.name))
        counts = self._rows.node_actions.open_counts([node.id for node in nodes])
        last = self._rows.orchestrations.get(stack.root_id or stack.id)
        refused = self.refused(stack.project, names, nodes)
        refused.sort(key=lambda one: (names[one.stack_id], one.name))
        return NodeListing([(node, counts.get(node.id, {})) for node in nodes], last, refused)

    def refused(self, project: str, stack_ids: Collection[str], nodes: Sequence[NodeRecord]) -> list[RefusedAgent]:
        """Return the agents of some stacks whose last request was refused.

        `nodes` are those that are registered. A request whose signature is wrong counts for
        a registered node only: others may send it, too.
        """
        known = {(node.stack_id, node.name): node for node in nodes}
        found: dict[tuple[str, str], RefusedAgent] = {}
        for row in self._store.audit.refusals(project, PROVEN, self._clock.now() - REFUSED_SECONDS):
            key = (row.stack_id or "", row.resource or "")
            node = known.get(key)
            is_over = node is not None and node.registered_at >= row.last_time
            if key[0] in stack_ids and not is_over and (row.user is not None or node is not None):
                found.setdefault(key, RefusedAgent(*key, row.address, row.reason, row.last_time))
        return [*found.values()]
