"""Kills of the engine at every commit of a run of a playbook."""

import multiprocessing
from pathlib import Path

import pytest

from heatlite.core.status import ActionStatus, Verb
from heatlite.features.nodes.states import NodeActionState
from heatlite.features.nodes.store.store import NodeStore
from heatlite.features.nodes.transitions import EVENT
from heatlite.store.stacks.events import EventQuery
from heatlite.wiring import Embedded
from tests.crash.test_every_commit import kill_at_every_commit
from tests.features.nodes.crash.playbook_victim import SCENARIOS, run, runs


def look_for_lost_runs(server: Embedded) -> None:
    """Each run of a playbook was approved and ended once, as its node actions were."""
    for one in runs(server):
        moves = [move.after for move in server.store.actions.history(one.id)]
        assert moves == [ActionStatus.WAITING, one.status]
        told = server.store.events.list(one.stack_id, EventQuery(sort_dir="asc"))
        assert len([event for event in told if event.verb == Verb.RUN]) == 2
        steps: dict[str, list[str]] = {}
        for event in told:
            if event.verb == EVENT and event.physical_id is not None:
                steps.setdefault(event.physical_id, []).append(event.status)
        for action in server.store.of(NodeStore).node_actions.of_run(one.id):
            assert action.has_ended
            assert len(steps[action.id]) == len(set(steps[action.id])), "nothing is done twice"
            assert (one.status is ActionStatus.CANCELLED) >= (action.state is NodeActionState.CANCELLED)
        assert server.store.inconsistencies(server.components.clock.now(), 0.0) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("approved", marks=pytest.mark.thorough), "cancelled"])
def test_killed_at_every_commit(name: str, place: Path, victims: multiprocessing.context.ForkServerContext) -> None:
    kill_at_every_commit(place, victims, run, name, SCENARIOS[name], look_for_lost_runs)
