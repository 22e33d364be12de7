"""Requests that meet another action are refused at once."""

from typing import Any

import pytest

from heatlite.core.clock import to_text
from heatlite.core.errors import ActionConflict, ActionInProgress, ResourceIsLocked
from heatlite.core.ids import new_id
from heatlite.core.json import dump, parse
from heatlite.core.status import ActionStatus, Verb
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import ActionRecord, StackRecord
from tests.engine.conftest import MEMBER, Engine, attr, ref, resource, template


def cluster(wait: float = 0.0, leave: float = 0.0) -> Any:
    """A group whose nodes take `wait` seconds to make and `leave` to go; its policy."""
    node = resource("OS::Heat::TestResource", value="v", action_wait_secs={"create": wait, "delete": leave})
    nodes = resource("OS::Heat::AutoScalingGroup", resource=node, min_size=1, max_size=9, desired_capacity=2)
    sized = {"auto_scaling_group_id": ref("nodes"), "adjustment_type": "change_in_capacity"}
    return template(
        nodes=nodes,
        out=resource("OS::Heat::ScalingPolicy", **sized, scaling_adjustment=2),
        back=resource("OS::Heat::ScalingPolicy", **sized, scaling_adjustment=-2),
        outputs={"refs": attr("nodes", "refs")},
    )


def nodes_of(engine: Engine, stack: StackRecord) -> StackRecord:
    found = engine.store.stacks.get(engine.row(stack, "nodes").physical_id or "")
    assert found is not None
    return found


def scale(engine: Engine, stack: StackRecord, policy: str) -> None:
    engine.components.signals.signal(MEMBER, engine.get(stack), engine.row(stack, policy), None)


def holder(engine: Engine, stack: StackRecord) -> ActionRecord:
    (action,) = engine.store.actions.live([stack.id])
    return action


def recover(engine: Engine, stack: StackRecord, node: str) -> None:
    """Requests of a health manager after it has found an ill node."""
    engine.components.health.mark(MEMBER, engine.get(stack), node, True, "no answer")
    engine.stacks.update(MEMBER, engine.get(stack), StackRequest(), existing=True)


def test_the_health_check_and_the_scale_out(engine: Engine) -> None:
    """Node ill (1), scale-out by a user (2, 3), recovery (4) that is locked (6).

    The health manager is refused at once, nothing of it stays in the queue, and its next attempt recovers the node
    once.
    """
    stack = engine.create(cluster(wait=60))
    nodes = nodes_of(engine, stack)
    ill, well = sorted(engine.ids(nodes))
    with engine.clock.held():
        scale(engine, stack, "out")
        engine.begun(lambda: len(engine.rows(nodes)) == 4)
        scale_out = holder(engine, nodes)
        with pytest.raises(ActionInProgress):
            recover(engine, nodes, ill)
        for target in (nodes, stack):
            with pytest.raises(ResourceIsLocked) as told:
                engine.stacks.update(MEMBER, engine.get(target), StackRequest(), existing=True)
            assert told.value.retry_after
            since = to_text(scale_out.started_at or 0.0)
            assert all(part in told.value.message for part in (scale_out.id, "UPDATE", since)), told.value.message
        assert [action.id for action in engine.store.actions.live([stack.id, nodes.id])] == [scale_out.id]
    engine.settle(nodes)
    assert len(engine.rows(nodes)) == 4
    before = engine.ids(nodes)

    recover(engine, nodes, ill)  # its next look
    engine.settle(nodes)
    after = engine.ids(nodes)
    assert {name for name in after if after[name] != before[name]} == {ill}
    verbs = [move.verb for move in engine.events(nodes) if move.resource_name == ill and move.status == "COMPLETE"]
    assert verbs.count("CREATE") == 2, "made once, and recovered once"
    assert well in after


def test_what_is_only_queued_conflicts_too(engine: Engine) -> None:
    stack = engine.create(template(a=resource("OS::Heat::TestResource", value="v")))
    queued = ActionRecord(
        id=new_id(), stack_id=stack.id, root_id=stack.id, project=stack.project, verb=Verb.UPDATE, pending=1,
        status=ActionStatus.WAITING, requested_by="mia", created_at=engine.clock.now(),
    )  # fmt: skip
    engine.by_hand = True
    with engine.store.transaction():
        engine.store.queue.enqueue(queued)
    with pytest.raises(ActionConflict, match=queued.id) as told:
        engine.stacks.check(MEMBER, engine.get(stack))
    assert told.value.retry_after


def test_the_data_of_a_scale_in_says_who_goes(engine: Engine) -> None:
    """First how many, then which; and the action removes these."""
    stack = engine.create(cluster(leave=60))
    nodes = nodes_of(engine, stack)
    scale(engine, stack, "out")
    engine.settle(nodes)
    before = list(engine.ids(nodes))
    with engine.clock.held():
        scale(engine, stack, "back")
        action = holder(engine, nodes)
    engine.settle(nodes)
    gone = {name for name in before if name not in engine.ids(nodes)}
    deletion = action.data.deletion
    assert deletion is not None
    assert len(gone) == 2
    assert parse(dump(deletion)) == {"count": 2, "candidates": [*deletion.names]}
    assert set(deletion.names) == gone
    ended = engine.store.actions.get(action.id)
    assert ended is not None
    assert (ended.status, ended.data.deletion) == (ActionStatus.SUCCEEDED, deletion)
