"""One action after others: decision 0008."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from heatlite.core.errors import ActionConflict, HTTPBadRequest
from heatlite.core.ids import new_id
from heatlite.core.status import ENDED_ACTIONS, ActionStatus, Result, Signal, state
from heatlite.engine.state.requests import Timing
from heatlite.store.records import ActionRecord, StackRecord
from tests.laws import FEW_EXAMPLES
from tests.tables import few

from .conftest import MEMBER, Engine, resource, template, thing

SUCCEEDED, FAILED, CANCELLED = ActionStatus.SUCCEEDED, ActionStatus.FAILED, ActionStatus.CANCELLED


def after(engine: Engine, stack: StackRecord, *depended: ActionRecord, **more: Any) -> ActionRecord:
    """A check of the stack that is to come after these actions."""
    timing = Timing(depends_on=tuple(one.id for one in depended), **more)
    context = replace(MEMBER, queued=[])
    engine.stacks.check(context, engine.get(stack), timing)
    return now(engine, context.queued[0])


def now(engine: Engine, action: ActionRecord | str) -> ActionRecord:
    found = engine.store.actions.get(action if isinstance(action, str) else action.id)
    assert found is not None
    return found


def status(engine: Engine, *actions: ActionRecord) -> list[ActionStatus]:
    return [now(engine, one).status for one in actions]


def ended(engine: Engine, *actions: ActionRecord) -> list[ActionStatus]:
    """The ends of the actions."""
    engine.wait_for(lambda: all(one in ENDED_ACTIONS for one in status(engine, *actions)))
    return status(engine, *actions)


def moves(engine: Engine, action: ActionRecord) -> list[ActionStatus]:
    return [move.after for move in engine.store.actions.history(action.id)]


def final(engine: Engine, stack: StackRecord) -> str:
    found = engine.settle(stack)
    return state(found.verb, found.status)


class Grove:
    """Stacks whose checks go as their names say, and one whose check takes a minute."""

    def __init__(self, engine: Engine, good: int, bad: int = 0) -> None:
        self.engine = engine
        self.slow = engine.create(template(a=thing(action_wait_secs={"check": 60})), "slow")
        self.good = [engine.create(template(a=thing()), f"good{number}") for number in range(good)]
        gone = template(a=resource("Example::Local::File"))
        self.bad = [engine.create(gone, f"bad{number}") for number in range(bad)]
        for stack in self.bad:
            Path(engine.row(stack, "a").physical_id or "").unlink()

    def first(self) -> ActionRecord:
        """The check that takes a minute, begun. The clock is held."""
        action = after(self.engine, self.slow)
        self.engine.begun(lambda: now(self.engine, action).status is ActionStatus.RUNNING)
        return action


def test_it_holds_its_stack_while_it_waits(engine: Engine) -> None:
    grove = Grove(engine, 1)
    (stack,) = grove.good
    with engine.clock.held():
        first = grove.first()
        action = after(engine, stack, first)
        assert (action.status, action.pending) == (ActionStatus.WAITING, 1)
        assert state(engine.get(stack).verb, engine.get(stack).status) == "CHECK_IN_PROGRESS"
        with pytest.raises(ActionConflict, match=action.id):
            engine.stacks.check(MEMBER, engine.get(stack))
        assert engine.states(stack) == {"a": "CREATE_COMPLETE"}, "nothing is begun"
    assert ended(engine, first, action) == [SUCCEEDED, SUCCEEDED]
    assert moves(engine, action) == [ActionStatus.WAITING, ActionStatus.READY, ActionStatus.RUNNING, SUCCEEDED]
    assert now(engine, action).started_at == now(engine, first).finished_at
    assert [(one.depended, one.state) for one in engine.store.dependencies.of(action.id)] == [(first.id, "ok")]


@pytest.mark.slow
def test_a_chain_that_breaks(engine: Engine) -> None:
    grove = Grove(engine, 3, bad=1)
    with engine.clock.held():
        first = grove.first()
        broken = after(engine, grove.bad[0], first)
        chain = [broken]
        for stack in grove.good:
            chain.append(after(engine, stack, chain[-1]))
    assert ended(engine, *chain) == [FAILED] * 4
    for before, one, stack in zip(chain, chain[1:], grove.good, strict=False):
        assert now(engine, one).status_reason == f"Action {before.id}, on which it depends, has not succeeded"
        assert now(engine, one).outputs.result is Result.ERROR
        assert final(engine, stack) == "CHECK_FAILED"
        assert engine.states(stack) == {"a": "CREATE_COMPLETE"}, "nothing was begun"
        assert engine.get(stack).status_reason == now(engine, one).status_reason


@pytest.mark.slow
@pytest.mark.parametrize("one_is_bad", few([False, True]))
def test_a_diamond(engine: Engine, one_is_bad: bool) -> None:
    grove = Grove(engine, 3, bad=1)
    with engine.clock.held():
        first = grove.first()
        left = after(engine, grove.good[0], first)
        right = after(engine, grove.bad[0] if one_is_bad else grove.good[1], first)
        last = after(engine, grove.good[2], left, right)
        assert now(engine, last).pending == 2
    assert ended(engine, left, right, last) == [SUCCEEDED, *[FAILED if one_is_bad else SUCCEEDED] * 2]
    assert moves(engine, last).count(ActionStatus.RUNNING) == 1


@pytest.mark.slow
def test_what_has_ended_before_is_not_waited_for(engine: Engine) -> None:
    grove = Grove(engine, 2, bad=1)
    well, ill = after(engine, grove.good[0]), after(engine, grove.bad[0])
    assert ended(engine, well, ill) == [SUCCEEDED, FAILED]
    engine.settle(grove.good[0])
    assert ended(engine, after(engine, grove.good[1], well)) == [SUCCEEDED]
    engine.settle(grove.good[1])
    late = after(engine, grove.good[1], well, ill)
    assert ended(engine, late) == [FAILED]
    assert ill.id in now(engine, late).status_reason


def test_what_it_depends_on_is_cut_short_by_a_delete(engine: Engine) -> None:
    grove = Grove(engine, 1)
    with engine.clock.held():
        first = grove.first()
        action = after(engine, grove.good[0], first)
        with engine.heard():
            engine.delete(grove.slow, wait=False)
    assert ended(engine, first, action) == [CANCELLED, FAILED]
    assert final(engine, grove.good[0]) == "CHECK_FAILED"


def test_its_own_stack_is_deleted_while_it_waits(engine: Engine) -> None:
    grove = Grove(engine, 2)
    with engine.clock.held():
        first = grove.first()
        action = after(engine, grove.good[0], first)
        last = after(engine, grove.good[1], action)
        engine.delete(grove.good[0])
        assert ended(engine, action, last) == [CANCELLED, FAILED]
        assert status(engine, first) == [ActionStatus.RUNNING]
    assert ended(engine, first) == [SUCCEEDED]


@pytest.mark.slow
def test_it_runs_out_of_time_while_it_waits(engine: Engine) -> None:
    grove = Grove(engine, 2)
    with engine.clock.held():
        first = grove.first()
        action = after(engine, grove.good[0], first, timeout=30)
        last = after(engine, grove.good[1], action)
        engine.clock.pass_(30)
        assert ended(engine, action, last) == [FAILED, FAILED]
        assert now(engine, action).outputs.result is Result.TIMEOUT
        assert final(engine, grove.good[0]) == "CHECK_FAILED"
        assert engine.get(grove.good[0]).status_reason == "Timed out"
        assert engine.states(grove.good[0]) == {"a": "CREATE_COMPLETE"}
    assert ended(engine, first) == [SUCCEEDED]


def test_one_that_is_suspended_while_it_waits(engine: Engine) -> None:
    grove = Grove(engine, 1)
    with engine.clock.held():
        first = grove.first()
        action = after(engine, grove.good[0], first)
        engine.components.controls.signal(MEMBER, action, Signal.SUSPEND)
    assert ended(engine, first) == [SUCCEEDED]
    assert status(engine, action) == [ActionStatus.SUSPENDED]
    engine.components.controls.signal(MEMBER, action, Signal.RESUME)
    assert ended(engine, action) == [SUCCEEDED]


@pytest.mark.parametrize("bad", [False, True])
def test_one_for_later_waits_for_its_time_and_then_for_the_others(engine: Engine, bad: bool) -> None:
    grove = Grove(engine, 1, bad=1)
    with engine.clock.held():
        first = grove.first()
        between = after(engine, grove.bad[0], first) if bad else first
        early = after(engine, grove.good[0], between, not_before=engine.clock.now() + 10)
        assert (early.status, early.pending) == (ActionStatus.INIT, 1)
        engine.clock.pass_(10)
        engine.components.scheduled_actions.sweep()
        assert status(engine, early) == [ActionStatus.WAITING]
        assert state(engine.get(grove.good[0]).verb, engine.get(grove.good[0]).status) == "CHECK_IN_PROGRESS"
    assert ended(engine, early) == [FAILED if bad else SUCCEEDED]


@pytest.mark.parametrize("bad", [False, True])
def test_the_others_end_before_its_time(engine: Engine, bad: bool) -> None:
    grove = Grove(engine, 1, bad=1)
    with engine.clock.held():
        first = after(engine, grove.bad[0]) if bad else grove.first()
        late = after(engine, grove.good[0], first, not_before=engine.clock.now() + 1000)
        engine.clock.pass_(100)
        ended(engine, first)
        assert status(engine, late) == [ActionStatus.INIT]
        engine.clock.pass_(900)
        engine.components.scheduled_actions.sweep()
        assert ended(engine, late) == [FAILED if bad else SUCCEEDED]


def test_one_that_waits_for_one_for_later(engine: Engine) -> None:
    grove = Grove(engine, 2)
    with engine.clock.held():
        later = after(engine, grove.good[0], not_before=engine.clock.now() + 10)
        action = after(engine, grove.good[1], later)
        assert status(engine, action) == [ActionStatus.WAITING]
        engine.clock.pass_(10)
        engine.components.scheduled_actions.sweep()
        assert ended(engine, later, action) == [SUCCEEDED, SUCCEEDED]


def test_two_that_can_only_wait_for_each_other_do_not(engine: Engine) -> None:
    """A later action would find its stack held by the one that waits for it."""
    grove = Grove(engine, 1)
    with engine.clock.held():
        later = after(engine, grove.good[0], not_before=engine.clock.now() + 10)
        before = engine.get(grove.good[0])
        with pytest.raises(ActionConflict, match=f"would be held for action {later.id}"):
            after(engine, grove.good[0], later)
        assert engine.get(grove.good[0]) == before
        early = after(engine, grove.good[0], later, not_before=engine.clock.now() + 5)
        last = after(engine, grove.good[0], later, not_before=engine.clock.now() + 20)
        engine.clock.pass_(5)
        engine.components.scheduled_actions.sweep()
        assert status(engine, early, later, last) == [CANCELLED, ActionStatus.INIT, ActionStatus.INIT]
        engine.clock.pass_(5)
        engine.components.scheduled_actions.sweep()
        assert ended(engine, later) == [SUCCEEDED]
        engine.settle(grove.good[0])
        engine.clock.pass_(10)
        engine.components.scheduled_actions.sweep()
        assert ended(engine, last) == [SUCCEEDED]


def test_dependencies_count_even_where_there_is_nothing_to_do(engine: Engine) -> None:
    """A stack that was resumed before drops no resume that names a suspend to come."""
    stack = engine.resume(engine.suspend(engine.create(template(a=thing()))))
    context = replace(MEMBER, queued=[])
    engine.stacks.suspend(context, stack, Timing(not_before=engine.clock.now() + 1000))
    (later,) = context.queued
    with pytest.raises(ActionConflict, match=f"would be held for action {later}"):
        engine.stacks.resume(MEMBER, engine.get(stack), Timing(depends_on=(later,)))
    with pytest.raises(HTTPBadRequest, match="no action with the id"):
        engine.stacks.resume(MEMBER, engine.get(stack), Timing(depends_on=(new_id(),)))


@pytest.mark.parametrize("above", few([False, True]))
def test_nor_do_two_on_one_line_of_a_tree(engine: Engine, above: bool) -> None:
    below = {"type": "below.yaml"}
    root = engine.create(template(a=below, b=below), "tree", files={"below.yaml": json.dumps(template(a=thing()))})
    child, other = engine.store.stacks.descendants(engine.get(root))
    with engine.clock.held():
        target, held = (root, child) if above else (child, root)
        later = after(engine, target, not_before=engine.clock.now() + 10)
        with pytest.raises(ActionConflict, match="would be held"):
            after(engine, held, later)
        if above:
            return
        beside = after(engine, other, later)
        engine.clock.pass_(10)
        engine.components.scheduled_actions.sweep()
        assert ended(engine, later, beside) == [SUCCEEDED, SUCCEEDED]


def test_an_action_that_is_not_there(engine: Engine) -> None:
    grove = Grove(engine, 1)
    before = engine.get(grove.good[0])
    with pytest.raises(HTTPBadRequest, match="this project has no action with the id"):
        engine.stacks.check(MEMBER, before, Timing(depends_on=(new_id(),)))
    assert engine.get(grove.good[0]) == before


# -- the law -------------------------------------------------------------------------------------------

NODES = 6


def model(graph: Sequence[set[int]], bad: set[int], cancelled: set[int]) -> list[ActionStatus]:
    """The ends of a graph's actions: each depends on earlier ones."""
    ends: list[ActionStatus] = []
    for node, depended in enumerate(graph):
        if node in cancelled:
            ends.append(CANCELLED)
        elif node in bad or any(ends[one] is not SUCCEEDED for one in depended):
            ends.append(FAILED)
        else:
            ends.append(SUCCEEDED)
    return ends


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[set[int]], set[int], set[int]]:
    """Dependencies of each, the failing ones, and those cancelled while all wait."""
    count = draw(st.integers(1, NODES))
    graph = [draw(st.sets(st.integers(0, node - 1))) if node else set() for node in range(count)]
    some = st.sets(st.integers(0, count - 1), max_size=2)
    return graph, draw(some), draw(some)


@pytest.mark.slow
def test_every_graph_ends_as_its_model(engine: Engine) -> None:
    grove = Grove(engine, NODES, bad=NODES)

    @FEW_EXAMPLES
    @given(graphs())
    def run(drawn: tuple[list[set[int]], set[int], set[int]]) -> None:
        graph, bad, cancelled = drawn
        stacks = [grove.bad[node] if node in bad else grove.good[node] for node in range(len(graph))]
        since = {stack.id: engine.now_on(stack) for stack in stacks}
        with engine.clock.held():
            first = grove.first()
            actions: list[ActionRecord] = []
            for stack, depended in zip(stacks, graph, strict=True):
                needed = [actions[one] for one in depended] or [first]
                actions.append(after(engine, stack, *needed))
            for node in sorted(cancelled, reverse=True):  # the last first: nothing has failed before it is cancelled
                engine.components.controls.signal(MEMBER, actions[node], Signal.CANCEL)
        assert ended(engine, first, *actions) == [SUCCEEDED, *model(graph, bad, cancelled)]
        for action, stack in zip(actions, stacks, strict=True):
            made = moves(engine, action)
            assert len([one for one in made if one in ENDED_ACTIONS]) == 1
            assert made.count(ActionStatus.RUNNING) == (now(engine, action).status is not CANCELLED)
            told = [one for one in engine.told(engine.settle(stack), since[stack.id]) if one.startswith(stack.name)]
            assert len(told) == 2, "it begins once, and ends once"
        assert engine.store.inconsistencies(engine.clock.now(), 0.0) == []

    run()
