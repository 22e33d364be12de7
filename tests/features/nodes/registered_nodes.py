"""Nodes whose agents a test plays."""

import time

from heatlite.features.nodes.states import NodeState
from heatlite.features.nodes.store.records import NodeRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

KINDS = ("script", "test/loop", "test/success")


def registered(store: Store, stack: StackRecord, name: str, **more: object) -> NodeRecord:
    """Register the agent of a resource that the test plays; no orchestrator runs."""
    (row,) = store.resources.by_name(stack.id, [name])
    given = {"kinds": KINDS, "state": NodeState.UP, **more}
    node = NodeRecord(
        id=row.id,
        stack_id=stack.id,
        root_id=stack.root_id or stack.id,
        project=stack.project,
        name=name,
        url="http://127.0.0.1:1",
        secret="s" * 32,
        instance="",
        revision=0,
        agent="1",
        deployments=False,
        reason="",
        registered_at=time.time(),
        **given,  # type: ignore[arg-type]
    )
    with store.transaction():
        store.of(NodeStore).nodes.insert(node)
        store.of(NodeStore).orchestrations.nudge(node.root_id, 0.0)
        for orchestration in store.of(NodeStore).orchestrations.due(0.0, 1000):
            if orchestration.root_id == node.root_id:
                store.of(NodeStore).orchestrations.claim(orchestration, "a test", 0.0, 1e12)
    return node
