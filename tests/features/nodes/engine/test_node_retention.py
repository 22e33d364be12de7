"""Retention of node actions."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from heatlite.engine.state.requests import Timing
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.requests import NodeRequest
from heatlite.features.nodes.states import NodeActionState
from heatlite.features.nodes.store.store import NodeStore
from tests.engine.conftest import MEMBER, Engine, template, thing
from tests.features.nodes.registered_nodes import registered

pytestmark = pytest.mark.database
DAY = 86_400


@pytest.mark.slow
def test_old_actions_on_nodes_go(plugins: Path, place: Path) -> None:
    """Nothing goes that has not ended, or is part of a run that has not."""
    engine = Engine(place, max_actions_per_stack=2, action_days=10, deleted_stack_days=20)
    stack = engine.create(template(a=thing(), b=thing()))
    nodes = {name: registered(engine.store, stack, name) for name in ("a", "b")}
    ledger = engine.components.of(NodeOperations).ledger

    def did(node: str, run_id: str | None = None, state: NodeActionState = NodeActionState.DONE) -> str:
        request = NodeRequest(nodes[node].id, "script", {}, granted=True)
        action, _ = engine.components.of(NodeOperations).requests.create(MEMBER, engine.get(stack), request)
        with engine.store.transaction():
            ledger.record([replace(action, state=state, updated_at=engine.clock.now())])
            if run_id:
                engine.store.database.write(f"UPDATE node_action SET run_id = '{run_id}' WHERE id = '{action.id}'")
        return action.id

    def kept() -> set[str]:
        # One statement: what goes, goes with its history in one transaction.
        both = "SELECT 0, id FROM node_action UNION SELECT 1, action_id FROM node_transition"
        found = engine.store.database.read(both)
        left, told = ({one for which, one in found if which == part} for part in (0, 1))
        assert told == left
        return left

    engine.stacks.check(MEMBER, engine.get(stack), Timing(not_before=engine.clock.now() + 50 * DAY))
    ((run,),) = engine.store.database.read("SELECT id FROM action WHERE status = 'INIT'")
    of_run, open_ = did("a", run), did("a", state=NodeActionState.RUNNING)
    many = [did("a") for _ in range(4)]
    few = did("b")
    engine.clock.pass_(60)
    engine.wait_for(lambda: kept() == {of_run, open_, *many[2:], few})
    engine.clock.pass_(11 * DAY)
    engine.wait_for(lambda: kept() == {of_run, open_})
    with engine.store.transaction():
        rows = engine.store.of(NodeStore)
        ledger.record([replace(one, state=NodeActionState.LOST) for one in rows.node_actions.existing([open_])])
        rows.nodes.delete_many([node.id for node in nodes.values()])
    engine.delete(stack)
    engine.clock.pass_(21 * DAY)
    engine.wait_for(lambda: engine.store.stacks.get(stack.id) is None)
    assert kept() == set()
    engine.close()
