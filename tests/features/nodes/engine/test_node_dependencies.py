"""Stack actions wait for node actions of their tree, for a time (decision 0015)."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from heatlite.core.errors import HTTPBadRequest
from heatlite.core.status import ActionStatus, Signal, state
from heatlite.core.wire.locks import LockOptions
from heatlite.engine.state.requests import StackRequest, Timing
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.requests import NodeRequest
from heatlite.features.nodes.states import InvalidNodeActionState, NodeActionExists, NodeActionState, NodeState
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.features.nodes.transitions import NodeLedger
from heatlite.store.records import ActionRecord
from tests.engine.conftest import MEMBER, Engine, template, thing
from tests.features.nodes.registered_nodes import registered
from tests.tables import few

S = NodeActionState
WAITING, SUCCEEDED, FAILED, CANCELLED = (
    ActionStatus.WAITING,
    ActionStatus.SUCCEEDED,
    ActionStatus.FAILED,
    ActionStatus.CANCELLED,
)


class Fleet:
    """A stack with two nodes, whose agents the test plays."""

    def __init__(self, engine: Engine, name: str = "s") -> None:
        self.engine = engine
        self.ledger = NodeLedger(engine.store, engine.clock)
        self.stack = engine.create(template(a=thing(), b=thing()), name)
        self.nodes = {one: registered(engine.store, self.stack, one) for one in ("a", "b")}

    def ask(self, node: str = "a", sent: bool = True) -> NodeActionRecord:
        """A node action that was approved, and sent."""
        request = NodeRequest(node, "test/success", {}, granted=True)
        action, _ = self.engine.components.of(NodeOperations).requests.create(MEMBER, self.stack, request)
        return self.moved(action, sent_at=1.0) if sent else action

    def moved(self, action: NodeActionRecord, state: S | None = None, **more: object) -> NodeActionRecord:
        """Records of an orchestration."""
        with self.engine.store.transaction():
            self.engine.store.stacks.lock(action.root_id)
            found = self.engine.store.of(NodeStore).node_actions.lock(action.id)
            assert found is not None
            found = replace(found, state=state or found.state, **more)  # type: ignore[arg-type]
            self.ledger.record([found])
        return found

    def is_silent(self, node: NodeRecord) -> None:
        """It does not answer any more."""
        store = self.engine.store
        with store.transaction():
            store.stacks.lock(node.root_id)
            store.of(NodeStore).nodes.save_many([replace(node, state=NodeState.UNREACHABLE)])
            for one in store.of(NodeStore).node_actions.open_of_nodes([node.id]):
                store.dependencies.release_waiting(one.id, self.engine.clock.now())

    def waits_for(self) -> list[str]:
        """Dependencies of the action on the stack."""
        (action,) = self.engine.store.actions.live([self.stack.id])
        assert action.status is WAITING
        return sorted(self.engine.store.dependencies.waited_for([action.id]))

    def last(self) -> ActionRecord:
        """The newest action on the stack."""
        rows = self.engine.store.database.read("SELECT id FROM action ORDER BY seq DESC LIMIT 1")
        found = self.engine.store.actions.get(rows[0][0])
        assert found is not None
        return found


@pytest.fixture
def fleet(engine: Engine) -> Fleet:
    return Fleet(engine)


NEW = template(a=thing("new"), b=thing())


@pytest.mark.parametrize("ends", few([S.DONE, S.FAILED, S.CANCELLED, S.LOST]))
def test_it_waits_for_the_end_of_what_agents_have_and_for_nothing_that_comes_later(fleet: Fleet, ends: S) -> None:
    engine = fleet.engine
    unsent, at_work, sent = fleet.ask(sent=False), fleet.moved(fleet.ask(), S.RUNNING), fleet.ask("b")
    fleet.moved(fleet.ask(), S.DONE)
    engine.put(fleet.stack, NEW, wait=False)
    assert fleet.waits_for() == sorted([at_work.id, sent.id])
    later = [fleet.ask(node) for node in ("a", "b")]  # as if somebody asked the agents themselves
    fleet.moved(at_work, ends)
    assert fleet.waits_for() == [sent.id]
    shown = engine.store.action_list.relations([fleet.last()])[fleet.last().id]
    assert set(shown.depends_on) == {at_work.id, sent.id}
    assert engine.value(fleet.stack, "a") == "v"
    fleet.moved(sent, S.NEW)
    fleet.moved(sent, S.LOST if ends is S.LOST else S.DONE)
    assert state(engine.settle(fleet.stack).verb, engine.get(fleet.stack).status) == "UPDATE_COMPLETE"
    assert engine.value(fleet.stack, "a") == "new"
    left = engine.store.of(NodeStore).node_actions.open_of_root(fleet.stack.id)
    assert {one.id for one in left} == {unsent.id, *(one.id for one in later)}


@pytest.mark.slow
def test_of_all_that_can_be_asked_what_changes_machines_waits(engine: Engine, fleet: Fleet) -> None:
    stack, components = fleet.stack, engine.components
    components.snapshots.take(MEMBER, engine.get(stack), "n")
    engine.settle(stack)
    (snapshot,) = engine.store.snapshots.of(stack.id)
    work = fleet.moved(fleet.ask(), S.RUNNING)

    def waits(ask: Callable[[], object]) -> bool:
        ask()
        if engine.store.actions.live([stack.id]):
            action = fleet.last()
            if action.status is WAITING:
                assert fleet.waits_for() == [work.id]
                components.controls.signal(MEMBER, action, Signal.CANCEL)
                return True
        engine.settle(stack)
        return False

    assert waits(lambda: engine.stacks.update(MEMBER, engine.get(stack), StackRequest(template=NEW), existing=False))
    assert waits(lambda: engine.stacks.retry(MEMBER, engine.get(stack)))
    assert waits(lambda: engine.stacks.suspend(MEMBER, engine.get(stack)))
    assert waits(lambda: engine.stacks.resume(MEMBER, engine.get(stack)))
    assert waits(lambda: components.snapshots.take(MEMBER, engine.get(stack), "m"))
    assert waits(lambda: components.snapshots.restore(MEMBER, engine.get(stack), snapshot.id))
    assert not waits(lambda: engine.stacks.check(MEMBER, engine.get(stack)))
    assert not waits(lambda: components.maintenance.lock(MEMBER, engine.get(stack), LockOptions()))
    assert not waits(lambda: components.maintenance.unlock(MEMBER, engine.get(stack)))
    fleet.moved(work, S.DONE)
    assert not waits(lambda: engine.stacks.suspend(MEMBER, engine.get(stack)))


def test_what_was_for_later_looks_when_its_time_has_come(engine: Engine, fleet: Fleet) -> None:
    with engine.clock.held():
        early = fleet.ask()
        timing = Timing(not_before=engine.clock.now() + 10, depends_on=(early.id,))
        engine.stacks.suspend(MEMBER, fleet.stack, timing)
        work = fleet.ask("b")
        engine.clock.pass_(10)
        engine.components.scheduled_actions.sweep()
        assert fleet.waits_for() == sorted([early.id, work.id])
        fleet.moved(early, S.DONE)
        assert fleet.waits_for() == [work.id]
        fleet.moved(work, S.FAILED)
        assert engine.settle(fleet.stack).verb == "SUSPEND"


def test_a_node_that_does_not_answer_holds_nobody(engine: Engine, fleet: Fleet) -> None:
    lost, work = fleet.ask("a"), fleet.ask("b")
    fleet.is_silent(fleet.nodes["a"])
    engine.put(fleet.stack, NEW, wait=False)
    assert fleet.waits_for() == [work.id]
    fleet.is_silent(fleet.nodes["b"])
    assert engine.settle(fleet.stack).status == "COMPLETE"
    fleet.moved(lost, S.DONE)  # it comes back
    assert engine.store.dependencies.of(lost.id) == []


@pytest.mark.slow
@pytest.mark.parametrize(("ends", "how"), few([(S.DONE, SUCCEEDED), (S.FAILED, FAILED), (S.CANCELLED, FAILED)]))
def test_callers_may_have_an_action_depend_on_node_actions(
    engine: Engine, fleet: Fleet, ends: S, how: ActionStatus
) -> None:
    """Also on those of another tree; what has not succeeded has them fail."""
    other = Fleet(engine, "other")
    work, there = fleet.ask(), other.ask()
    engine.stacks.check(MEMBER, fleet.stack, Timing(depends_on=(work.id, there.id)))
    check = fleet.last()
    assert fleet.waits_for() == sorted([work.id, there.id])
    assert engine.store.action_list.relations([check])[check.id].depends_on == tuple(sorted([work.id, there.id]))
    fleet.moved(work, S.DONE)
    fleet.is_silent(other.nodes["a"])
    assert fleet.waits_for() == [there.id], "that it does not answer says nothing of success"
    other.moved(there, ends)
    engine.settle(fleet.stack)
    found = engine.store.actions.get(check.id)
    assert found is not None
    assert found.status is how
    if how is FAILED:
        assert there.id in found.status_reason
    engine.stacks.check(MEMBER, engine.get(fleet.stack), Timing(depends_on=(there.id,)))
    engine.settle(fleet.stack)
    assert fleet.last().status is how
    foreign = replace(MEMBER, project="foreign")
    stack = engine.stacks.create(foreign, StackRequest(name="f", template=template(a=thing())))
    engine.settle(stack)
    with pytest.raises(HTTPBadRequest, match=f"no action with the id {work.id}"):
        engine.stacks.check(foreign, stack, Timing(depends_on=(work.id,)))


@pytest.mark.parametrize("rollback", few([False, True]))
def test_to_stop_what_waits_waits_for_nobody(engine: Engine, fleet: Fleet, rollback: bool) -> None:
    work = fleet.ask()
    engine.put(fleet.stack, NEW, wait=False)
    assert fleet.waits_for() == [work.id]
    stopped = engine.cancel(fleet.stack, rollback)
    assert state(stopped.verb, stopped.status) == ("ROLLBACK_COMPLETE" if rollback else "UPDATE_FAILED")
    assert engine.value(fleet.stack, "a") == "v"
    fleet.moved(work, S.DONE)
    assert engine.put(fleet.stack, NEW).status == "COMPLETE"


@pytest.mark.slow
def test_an_update_and_an_orchestration_at_once(engine: Engine, fleet: Fleet) -> None:
    """The second sees the first holder of the tree: a changing machine gets nothing."""
    for number in range(6):
        work = [fleet.ask(node, sent=False) for node in ("a", "b")]
        meet = threading.Barrier(2)

        def orchestrate(work: Sequence[NodeActionRecord] = work, meet: threading.Barrier = meet) -> None:
            meet.wait()
            for one in work:
                with engine.store.transaction():
                    engine.store.stacks.lock(one.root_id)
                    if not engine.store.actions.live([one.stack_id]):
                        fleet.moved(one, sent_at=1.0)
            engine.store.close()

        thread = threading.Thread(target=orchestrate)
        thread.start()
        slow = thing(f"{number}", action_wait_secs={"update": 1})
        with engine.clock.held():  # what has ended again would be in nobody's way
            meet.wait()
            engine.put(fleet.stack, template(a=slow, b=thing()), wait=False)
            thread.join()
        found = engine.store.of(NodeStore).node_actions.existing([one.id for one in work])
        sent = [one.id for one in found if one.sent_at]
        depended = {one.depended for one in engine.store.dependencies.of(fleet.last().id)}
        assert sorted(sent) == sorted(depended)
        for one in work:
            fleet.moved(one, S.DONE)
        assert engine.settle(fleet.stack).status == "COMPLETE"
        assert engine.value(fleet.stack, "a") == f"{number}"


def test_many_at_once_who_ask_with_one_id_ask_once(engine: Engine, fleet: Fleet) -> None:
    """In the same tree for the same, in another for something else."""
    other = Fleet(engine, "other")

    def ask(fleet: Fleet) -> str:
        try:
            request = NodeRequest("a", "script", {}, id="0b54ba22-1c4e-4f8e-9c43-6d8b54f43d35")
            _, is_new = engine.components.of(NodeOperations).requests.create(MEMBER, fleet.stack, request)
        except NodeActionExists:
            return "refused"
        finally:
            engine.store.close()
        return "new" if is_new else "known"

    with ThreadPoolExecutor(8) as pool:
        said = [*pool.map(ask, [fleet, other] * 4)]
    (only,) = engine.store.of(NodeStore).node_actions.page("demo")
    assert said.count("new") == 1
    assert (said.count("known"), said.count("refused")) == (3, 4)
    assert [line.state for line in engine.store.of(NodeStore).node_actions.history(only.id)] == [S.PENDING_APPROVE]


@pytest.mark.slow
def test_who_decides_first_has_decided(engine: Engine, fleet: Fleet) -> None:
    """An approval, a rejection and a cancel at once each see the ones before them."""
    requests = engine.components.of(NodeOperations).requests
    for _ in range(4):
        action, _ = requests.create(MEMBER, fleet.stack, NodeRequest("a", "script", {}))

        def decide(decision: str, action: NodeActionRecord = action) -> str:
            try:
                getattr(requests, decision)(MEMBER, action)
            except InvalidNodeActionState:
                return ""
            finally:
                engine.store.close()
            return decision

        with ThreadPoolExecutor(3) as pool:
            done = {*pool.map(decide, ["approve", "reject", "cancel"])} - {""}
        assert done in ({"approve", "cancel"}, {"reject"}, {"cancel"})
        told = [line.state for line in engine.store.of(NodeStore).node_actions.history(action.id)]
        assert len(told) == 1 + len(done)
        assert told[-1] is S.CANCELLED
