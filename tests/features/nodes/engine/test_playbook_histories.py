"""Random histories of runs in any order of requests and reports.

Each run keeps its limits, ends once, and leaves nothing behind.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import Conflict, Invalid
from heatlite.core.status import ENDED_ACTIONS, ActionStatus, Signal
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.playbooks import RunRequest
from heatlite.features.nodes.states import PENDING, NodeActionState
from heatlite.features.nodes.store.records import NodeActionRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import ActionRecord, StackRecord
from tests.engine.conftest import MEMBER, Engine, template, thing
from tests.features.nodes.engine.played_agents import register, tell
from tests.laws import FEW_EXAMPLES

S = NodeActionState
STAGES = [
    {"name": "first", "nodes": "all", "at_once": 2, "action": {"kind": "script"}},
    {"name": "second", "nodes": {"names": ["c", "a"]}, "action": {"kind": "script"}},
]
MAX_AT_ONCE = (2, 1)
AFTER = {S.PENDING_SCHEDULE: S.NEW, S.NEW: S.RUNNING, S.RUNNING: S.DONE}


@dataclass
class History:
    """One stack, and the runs on it."""

    engine: Engine
    stack: StackRecord
    runs: list[str] = field(default_factory=list)

    def run(self, number: int) -> ActionRecord | None:
        return self.engine.store.actions.get(self.runs[number % len(self.runs)]) if self.runs else None

    def put(self, _: int) -> None:
        request = RunRequest(document={"node_playbook": "2026-11-21", "stages": STAGES})
        self.runs.append(self.engine.components.of(NodeOperations).playbooks.run(MEMBER, self.stack, request))

    def approve(self, number: int) -> None:
        if run := self.run(number):
            self.engine.components.of(NodeOperations).playbooks.approve(MEMBER, run)

    def reject(self, number: int) -> None:
        if run := self.run(number):
            self.engine.components.of(NodeOperations).playbooks.reject(MEMBER, run)

    def signal(self, number: int, wanted: Signal) -> None:
        if run := self.run(number):
            self.engine.components.controls.signal(MEMBER, run, wanted)

    def at_agents(self) -> list[NodeActionRecord]:
        """The sendable and the sent actions of an orchestration."""
        return [
            one
            for one in self.engine.store.of(NodeStore).node_actions.open_of_root(self.stack.id)
            if one.sent_at is not None or one.state is S.PENDING_SCHEDULE and one.turn
        ]

    def goes_on(self, number: int) -> None:
        if theirs := self.at_agents():
            one = theirs[number % len(theirs)]
            tell(self.engine.front, one, S.CANCELLED if one.cancel_asked else AFTER[one.state])

    def goes_wrong(self, number: int) -> None:
        if theirs := self.at_agents():
            one = theirs[number % len(theirs)]
            lost = one.state not in PENDING and number % 2
            tell(self.engine.front, one, S.LOST if lost else S.FAILED)

    def cancel_one(self, number: int) -> None:
        found = self.engine.store.of(NodeStore).node_actions.open_of_root(self.stack.id)
        if found:
            self.engine.components.of(NodeOperations).requests.cancel(MEMBER, found[number % len(found)])

    def time_out(self, _: int) -> None:
        self.engine.clock.pass_(4000)
        self.engine.wait_for(lambda: not self.engine.store.moves.overdue(self.engine.clock.now()))

    def restart(self, _: int) -> None:
        self.engine.close()
        self.engine.open()

    # -- what is true at any time --------------------------------------------------------------------

    def check(self) -> None:
        store = self.engine.store
        assert store.inconsistencies(self.engine.clock.now(), 0.0) == []
        assert self.engine.get(self.stack) == self.stack
        live = {action.id for action in store.actions.live([self.stack.id])}
        assert len(live) <= 1
        for run_id in self.runs:
            run, actions = store.actions.get(run_id), store.of(NodeStore).node_actions.of_run(run_id)
            assert run is not None
            assert (run.id in live) == (run.status not in ENDED_ACTIONS | {ActionStatus.INIT})
            ends = [move for move in store.actions.history(run_id) if move.after in ENDED_ACTIONS]
            assert len(ends) == (run.status in ENDED_ACTIONS)
            under_way = [one for one in actions if not one.has_ended and (one.turn or one.sent_at is not None)]
            if run.status is ActionStatus.INIT:
                assert {one.state for one in actions} == {S.PENDING_APPROVE}
                assert under_way == []
            elif run.status in ENDED_ACTIONS:
                assert all(one.cancel_asked for one in actions if not one.has_ended)
                assert (run.status is ActionStatus.SUCCEEDED) == all(one.state is S.DONE for one in actions)
            else:
                has_failed = any(one.has_ended and one.state is not S.DONE for one in actions)
                assert under_way or run.status is ActionStatus.SUSPENDED
                assert not has_failed or all(one.sent_at is not None for one in under_way)
                for stage, most in enumerate(MAX_AT_ONCE):
                    of_stage = [one for one in under_way if one.stage == stage]
                    assert len(of_stage) <= most
                    if of_stage:
                        assert has_failed or all(one.state is S.DONE for one in actions if (one.stage or 0) < stage)

    def end(self) -> None:
        """Agents do all that they are given; then the stack is free."""
        for run_id in self.runs:
            run = self.engine.store.actions.get(run_id)
            if run is not None and run.status is ActionStatus.SUSPENDED:
                self.engine.components.controls.signal(MEMBER, run, Signal.RESUME)
        while self.at_agents():
            self.goes_on(0)
            self.check()
        assert self.engine.store.actions.live([self.stack.id]) == []


STEPS: dict[str, Callable[[History, int], None]] = {
    "put": History.put,
    "approve": History.approve,
    "reject": History.reject,
    "suspend": lambda history, number: history.signal(number, Signal.SUSPEND),
    "resume": lambda history, number: history.signal(number, Signal.RESUME),
    "cancel": lambda history, number: history.signal(number, Signal.CANCEL),
    "cancel one": History.cancel_one,
    "goes on": History.goes_on,
    "goes wrong": History.goes_wrong,
    "time is over": History.time_out,
    "restart": History.restart,
}
LIKELY = ["goes on"] * 12 + ["approve"] * 2 + ["suspend", "resume"]
STEP = st.tuples(st.sampled_from([*STEPS, *LIKELY]), st.integers(0, 9))


@pytest.mark.slow
@FEW_EXAMPLES
@given(steps=st.lists(STEP, max_size=25))
def test_a_history(engine: Engine, steps: list[tuple[str, int]]) -> None:
    stack = engine.store.stacks.by_name("demo", "s") or engine.create(template(a=thing(), b=thing(), c=thing()))
    if not engine.store.of(NodeStore).nodes.of_root(stack.id):
        register(engine.front, stack)
    history = History(engine, engine.get(stack))
    for step, number in [("put", 0), ("approve", 0), *steps]:
        with suppress(Conflict, Invalid):  # what cannot be asked now
            STEPS[step](history, number)
        history.check()
    history.end()
