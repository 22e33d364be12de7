"""Steps of a playbook's run, for all states and orders of its node actions."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from heatlite.features.nodes.stages import SKIPPED, STOPPED, Next, held_back, is_skipped, next_of
from heatlite.features.nodes.states import AT_AGENT, NodeActionState
from heatlite.features.nodes.store.records import RunStep

S = NodeActionState
MAX_STEPS = 200


def action(number: int, stage: int) -> RunStep:
    return RunStep(str(number), f"n{number}", "k", S.PENDING_SCHEDULE, stage)


def under_way(one: RunStep) -> bool:
    return one.turn and not one.has_ended


@given(st.data())
def test_a_run(data: st.DataObject) -> None:
    most = data.draw(st.lists(st.none() | st.integers(1, 4), min_size=1, max_size=4))
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=len(most), max_size=len(most)))
    stages = [stage for stage, size in enumerate(sizes) for _ in range(size)]
    actions = [action(number, stage) for number, stage in enumerate(stages)]
    ends = data.draw(st.sampled_from([[S.DONE], [S.DONE, S.DONE, S.DONE, S.FAILED, S.LOST, S.CANCELLED]]))
    has_failed = False
    for _ in range(MAX_STEPS):
        # What the run says is done, whether it must be asked once or again.
        following = next_of(most, actions)
        turns, cancelled = {one.id for one in following.turns}, {one.id for one in following.cancelled}
        recalled = {one.id for one in following.recalled}
        assert not (has_failed and turns)
        assert bool(following.failure) == has_failed
        assert following.failure is None or following.failure.error != STOPPED
        changes: dict[str, dict[str, Any]] = {
            **{key: {"turn": True} for key in turns},
            **{key: {"state": S.CANCELLED, "error": STOPPED} for key in cancelled},
            **{key: {"cancel_asked": True} for key in recalled},
        }
        actions = [replace(one, **changes.get(one.id, {})) for one in actions]
        again = next_of(most, actions)
        assert again == Next(failure=again.failure, has_ended=again.has_ended)
        for stage, limit in enumerate(most):
            running = [one for one in actions if one.stage == stage and under_way(one)]
            assert limit is None or len(running) <= limit
            if running:
                assert all(one.state is S.DONE for one in actions if one.stage < stage) or has_failed
        if again.has_ended:
            assert all(one.has_ended for one in actions)
            assert has_failed == any(one.state is not S.DONE for one in actions)
            return
        # One of those that have their turn goes on; there is always one.
        able = [one for one in actions if under_way(one)]
        assert not has_failed or all(one.state in AT_AGENT or one.cancel_asked for one in able)
        assert able
        chosen = data.draw(st.sampled_from(able))
        if chosen.sent_at is None and data.draw(st.booleans()):
            after = replace(chosen, sent_at=1.0)
        elif chosen.sent_at is None and data.draw(st.booleans()):
            assert held_back([chosen]) == (chosen,)
            after = replace(chosen, turn=False)  # suspended and resumed
        else:
            states = [S.NEW, S.RUNNING] if chosen.state not in AT_AGENT else []
            after = replace(chosen, sent_at=1.0, state=data.draw(st.sampled_from([*states, *ends])))
        has_failed |= after.state in (S.FAILED, S.LOST, S.CANCELLED)
        actions = [after if one is chosen else one for one in actions]
    # Nothing but our own moves goes on for ever.
    assert any(under_way(one) for one in actions)


@given(st.data())
def test_a_run_that_skips_unhealthy_nodes(data: st.DataObject) -> None:
    """Healthy ones get their turns within the limit, and no later stage begins before."""
    most = data.draw(st.none() | st.integers(1, 3))
    actions = [action(number, stage) for stage in (0, 1) for number in (2 * stage, 2 * stage + 1)]
    unwell = data.draw(st.sets(st.sampled_from([one.id for one in actions])))
    done: list[str] = []
    for _ in range(MAX_STEPS):
        following = next_of([most, None], actions, unwell)
        changes: dict[str, dict[str, Any]] = {
            **{one.id: {"turn": True} for one in following.turns},
            **{one.id: {"state": S.CANCELLED, "error": SKIPPED, "turn": False} for one in following.skipped},
        }
        actions = [replace(one, **changes.get(one.id, {})) for one in actions]
        running = [one for one in actions if under_way(one)]
        assert not {one.id for one in running} & unwell
        assert most is None or len([one for one in running if one.stage == 0]) <= most
        if following.has_ended:
            break
        if not changes:
            done.append(running[0].id)
            actions = [replace(one, state=S.DONE) if one.id == done[-1] else one for one in actions]
    assert following == Next(has_ended=True)
    assert {one.id for one in actions if is_skipped(one)} == unwell
    assert done == sorted(done, key=int) and {*done} == {one.id for one in actions} - unwell


def test_a_node_that_becomes_unhealthy_in_its_turn_is_skipped() -> None:
    first, second = replace(action(0, 0), turn=True), action(1, 0)
    following = next_of([1], [first, second], {"0"})
    assert (following.skipped, following.turns) == ((first,), (second,))
    sent = replace(first, sent_at=1.0)
    assert next_of([1], [sent, second], {"0"}) == Next(), "what an agent may have is not skipped"
