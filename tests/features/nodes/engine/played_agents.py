"""Nodes with agents that a test plays itself."""

from collections.abc import Sequence

from msgspec.structs import replace

from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.states import NodeActionState
from heatlite.features.nodes.store.records import NodeActionRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import StackRecord
from heatlite.wiring import Embedded
from tests.features.nodes.registered_nodes import registered

S = NodeActionState
KINDS = ("script", "service.restart")


def register(server: Embedded, stack: StackRecord, names: Sequence[str] | None = None) -> None:
    """Have an agent beside each resource of the stack, or beside those named."""
    for row in server.store.resources.of(stack.id):
        if names is None or row.name in names:
            registered(server.store, stack, row.name, kinds=KINDS)


def tell(server: Embedded, action: NodeActionRecord, state: NodeActionState) -> None:
    """The agent says how a node action stands."""
    with server.store.transaction():
        server.store.stacks.lock(action.root_id)
        found = server.store.of(NodeStore).node_actions.lock(action.id)
        assert found is not None
        sent = found.sent_at or server.components.clock.now()
        server.components.of(NodeOperations).ledger.record([replace(found, state=state, sent_at=sent)])


def sendable(server: Embedded, stack: StackRecord) -> list[NodeActionRecord]:
    """The sendable actions of an orchestration."""
    return [
        one
        for one in server.store.of(NodeStore).node_actions.open_of_root(stack.id)
        if one.state is S.PENDING_SCHEDULE and one.turn and one.sent_at is None
    ]


def work(server: Embedded, stack: StackRecord, ends: NodeActionState = S.DONE) -> list[str]:
    """Do sendable actions until none is left; those done at once in one text."""
    done = []
    while now := sendable(server, stack):
        done.append(" ".join(one.node for one in now))
        for state in (S.NEW, S.RUNNING, ends):
            for one in now:
                tell(server, one, state)
    return done
