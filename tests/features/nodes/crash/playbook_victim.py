"""Runs of playbooks, whose engine is killed."""

from heatlite.core.json import JsonMap
from heatlite.core.status import ActionStatus, Signal
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.playbooks import RunRequest
from heatlite.features.nodes.states import NodeActionState
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import ActionRecord
from heatlite.wiring import Embedded
from tests.crash import victim
from tests.crash.scenarios import CALLER, CREATED, Scenario, create_and_settle, stack_of, tell
from tests.features.nodes.engine.played_agents import register
from tests.features.nodes.engine.played_agents import tell as say

NEXT = {
    NodeActionState.PENDING_SCHEDULE: NodeActionState.NEW,
    NodeActionState.NEW: NodeActionState.RUNNING,
    NodeActionState.RUNNING: NodeActionState.DONE,
}
"""Result of a node action at an agent."""
PLAYBOOK: JsonMap = {
    "node_playbook": "2026-11-21",
    "stages": [
        {"name": "one by one", "nodes": {"names": ["a", "b"]}, "action": {"kind": "script"}},
        {"name": "all", "nodes": {"names": ["b", "c"]}, "at_once": "all", "action": {"kind": "script"}},
    ],
}


def nodes(server: Embedded) -> None:
    """A stack with unreachable agents beside its resources, played by the test."""
    create_and_settle(server)
    register(server, stack_of(server), ["a", "b", "c"])


def play(server: Embedded) -> None:
    """Run the playbook once, and play its agents' work state by state."""
    stack = stack_of(server)
    if not runs(server):
        run_id = server.components.of(NodeOperations).playbooks.run(CALLER, stack, RunRequest(document=PLAYBOOK))
    else:
        run_id = runs(server)[0].id
    run = server.store.actions.get(run_id)
    assert run is not None
    if run.status is ActionStatus.INIT:
        server.components.of(NodeOperations).playbooks.approve(CALLER, run)
    rows = server.store.of(NodeStore).node_actions
    while theirs := [one for one in rows.open_of_root(stack.id) if one.turn or one.sent_at]:
        for one in theirs:
            if one.cancel_asked:
                after = NodeActionState.CANCELLED
            else:
                after = NEXT[one.state]
            say(server, one, after)


def play_and_cancel(server: Embedded) -> None:
    """The same, but the run is cancelled when the first agent is at work."""
    if not runs(server):
        request = RunRequest(document=PLAYBOOK, approval="granted")
        server.components.of(NodeOperations).playbooks.run(CALLER, stack_of(server), request)
    (run,) = runs(server)
    for one in server.store.of(NodeStore).node_actions.of_run(run.id)[:1]:
        if one.state is NodeActionState.PENDING_SCHEDULE:
            say(server, one, NodeActionState.RUNNING)
    tell(server, Signal.CANCEL)
    play(server)


def runs(server: Embedded) -> list[ActionRecord]:
    found = server.store.database.read("SELECT id FROM action WHERE verb = 'PLAYBOOK' ORDER BY seq")
    return [run for (run_id,) in found if (run := server.store.actions.get(run_id)) is not None]


SCENARIOS = {
    "approved": Scenario(nodes, play, (CREATED,), CREATED, retry=play),
    "cancelled": Scenario(nodes, play_and_cancel, (CREATED,), CREATED, retry=play_and_cancel),
}


def run(database: str, files: str, scenario: str) -> None:
    """Do the operation of a scenario, with a pause before each commit."""
    victim.act(database, files, SCENARIOS[scenario])
