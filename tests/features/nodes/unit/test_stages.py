"""Steps of a playbook's run, for all states and orders of its node actions."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from heatlite.features.nodes.stages import STOPPED, Next, held_back, next_of
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
