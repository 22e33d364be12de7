"""CANCEL, SUSPEND, RESUME and the forced CANCEL of actions."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.actions.payloads import ActionOutputs
from heatlite.core.errors import ActionImmutable, Forbidden, HTTPBadRequest, InvalidActionState
from heatlite.core.status import ActionStatus, Control, Result, Signal, Status, Verb, state
from heatlite.engine.execution.termination import Termination
from heatlite.engine.state.requests import Timing
from heatlite.store.records import ActionRecord, StackRecord
from tests.databases import claim_one
from tests.engine.conftest import ADMIN, MEMBER, Engine, resource, template, thing
from tests.engine.test_hooks import clear, hooks, reach
from tests.tables import few


def stack_state(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def live(engine: Engine, stack: StackRecord) -> ActionRecord:
    """The one live action on a stack."""
    (action,) = engine.store.actions.live([stack.id])
    return action


def signal(engine: Engine, action: ActionRecord, asked: Signal, force: bool = False) -> ActionRecord:
    return engine.components.controls.signal(ADMIN if force else MEMBER, action, asked, force)


class Ears:
    """Sends signals, and knows the moment at which the execution has seen them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._heard = 0
        self._read = engine.server.store.claims.control_of
        engine.server.store.claims.control_of = self._asked  # type: ignore[method-assign]

    def _asked(self, action: ActionRecord) -> Control | None:
        asked = self._read(action)
        self._heard += 1
        return asked

    def tell(self, action: ActionRecord, asked: Signal) -> None:
        before = self._heard
        if signal(self._engine, action, asked).status is ActionStatus.RUNNING:
            self._engine.wait_for(lambda: self._heard > before)


def moves(engine: Engine, action: ActionRecord) -> list[str]:
    """States of an action, oldest first."""
    return [str(one.after) for one in engine.store.actions.history(action.id)]


@pytest.fixture
def queue(plugins: Path, place: Path) -> Iterator[Engine]:
    """An engine that takes requests and carries nothing out."""
    engine = Engine(place)
    engine.by_hand = True
    assert engine.server.worker is not None
    engine.server.worker.stop()
    yield engine
    engine.close()


# -- what no worker has ----------------------------------------------------------------------------


def test_a_queued_action_is_cancelled_at_once(queue: Engine) -> None:
    stack = queue.create(template(a=thing()), wait=False)
    action = signal(queue, live(queue, stack), Signal.CANCEL)
    assert (action.status, action.status_reason) == (ActionStatus.CANCELLED, "Stack CREATE cancelled")
    assert action.outputs == ActionOutputs(Result.CANCEL, "CREATE_FAILED", "Stack CREATE cancelled")
    assert stack_state(queue.get(stack)) == "CREATE_FAILED"
    assert queue.told(stack)[-1] == "s CREATE_FAILED"
    assert queue.store.actions.live([stack.id]) == []
    assert queue.delete(stack, wait=False).verb is Verb.DELETE


def test_a_queued_action_is_suspended_and_resumed_at_once(queue: Engine) -> None:
    stack = queue.create(template(a=thing()), wait=False)
    action = signal(queue, live(queue, stack), Signal.SUSPEND)
    assert (action.status, action.suspended_at) == (ActionStatus.SUSPENDED, queue.clock.now())
    assert signal(queue, action, Signal.SUSPEND) == action
    deadline = action.deadline
    assert deadline is not None
    queue.clock.pass_(100)
    action = signal(queue, action, Signal.RESUME)
    assert (action.status, action.suspended_at, action.suspended) == (ActionStatus.READY, None, 100)
    assert action.deadline == deadline + 100
    assert moves(queue, action) == ["READY", "SUSPENDED", "READY"]


def test_a_suspended_action_that_has_not_begun_is_cancelled_at_once(queue: Engine) -> None:
    stack = queue.create(template(a=thing()), wait=False)
    action = signal(queue, live(queue, stack), Signal.SUSPEND)
    assert signal(queue, action, Signal.CANCEL).status is ActionStatus.CANCELLED
    assert stack_state(queue.get(stack)) == "CREATE_FAILED"


def test_a_delete_ends_what_is_suspended_and_has_not_begun(queue: Engine) -> None:
    stack = queue.create(template(a=thing()), wait=False)
    action = signal(queue, live(queue, stack), Signal.SUSPEND)
    queue.delete(stack, wait=False)
    assert moves(queue, action)[-1] == "CANCELLED"
    assert live(queue, stack).status is ActionStatus.READY


def test_a_delete_that_waits_is_cancelled_without_what_it_waits_for(queue: Engine) -> None:
    """The owner of the stack still has its rows."""
    stack = queue.create(template(a=thing()), wait=False)
    holder = claim_one(queue.store, "somebody", queue.clock.now(), 60)
    assert holder is not None
    queue.delete(stack, wait=False)
    (delete,) = [one for one in queue.store.actions.live([stack.id]) if one.verb is Verb.DELETE]
    assert delete.status is ActionStatus.WAITING
    assert signal(queue, delete, Signal.CANCEL).status is ActionStatus.CANCELLED
    assert stack_state(queue.get(stack)) == "DELETE_FAILED"
    assert live(queue, stack).control is Control.ABORT


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", few(Signal))
def test_an_action_that_has_ended_takes_no_signal(queue: Engine, asked: Signal) -> None:
    stack = queue.create(template(a=thing()), wait=False)
    action = live(queue, stack)
    signal(queue, action, Signal.CANCEL)
    with pytest.raises(ActionImmutable, match="has ended already, as CANCELLED: Stack CREATE cancelled"):
        signal(queue, action, asked)


def test_only_what_is_suspended_is_resumed(queue: Engine) -> None:
    action = live(queue, queue.create(template(a=thing()), wait=False))
    with pytest.raises(InvalidActionState, match="is READY: only a suspended action can be resumed"):
        signal(queue, action, Signal.RESUME)


def test_what_is_being_stopped_cannot_be_suspended(queue: Engine) -> None:
    action = live(queue, queue.create(template(a=thing()), wait=False))
    assert claim_one(queue.store, "somebody", queue.clock.now(), 60) is not None
    assert signal(queue, action, Signal.CANCEL).control is Control.CANCEL
    with pytest.raises(InvalidActionState, match="is RUNNING, asked to CANCEL: it is already being stopped"):
        signal(queue, action, Signal.SUSPEND)


def test_force_goes_with_a_cancel(queue: Engine) -> None:
    action = live(queue, queue.create(template(a=thing()), wait=False))
    with pytest.raises(HTTPBadRequest):
        queue.components.controls.signal(ADMIN, action, Signal.SUSPEND, force=True)
    assert queue.store.actions.get(action.id) == action


def test_who_may_not_lift_a_lock_may_not_stop_it_on_its_way(queue: Engine) -> None:
    stack = queue.create(template(a=thing()), wait=False)
    signal(queue, live(queue, stack), Signal.CANCEL)
    queue.who = ADMIN
    action = live(queue, queue.lock(stack, wait=False))
    with pytest.raises(Forbidden, match="administrator has locked the stack"):
        queue.components.controls.signal(MEMBER, action, Signal.CANCEL)
    assert queue.components.controls.signal(ADMIN, action, Signal.CANCEL).status is ActionStatus.CANCELLED
    assert stack_state(queue.get(stack)) == "LOCK_FAILED"


def test_a_suspend_that_is_taken_back_before_it_was_seen_has_no_effect(queue: Engine) -> None:
    action = live(queue, queue.create(template(a=thing()), wait=False))
    assert claim_one(queue.store, "somebody", queue.clock.now(), 60) is not None
    assert signal(queue, action, Signal.SUSPEND).control is Control.SUSPEND
    action = signal(queue, action, Signal.RESUME)
    assert (action.status, action.control) == (ActionStatus.RUNNING, None)


# -- every operation, at every point, with every signal ----------------------------------------------

HOUR = 3600.0


class World:
    """Stacks with one resource of which one operation takes long, and their objects."""

    def __init__(self, engine: Engine, folder: Path, point: str) -> None:
        self.engine = engine
        self.folder = folder / "objects"
        self.folder.mkdir()
        self.point = point
        self.hang = self.folder / "hang"
        self.hangs = self.folder / "hangs"
        self.files = {"c.yaml": self.template("nested")}

    def template(self, kind: str = "", slow: object = "", value: str = "one", **more: Any) -> Any:
        if kind == "nested":
            given = {name: {"type": "string"} for name in ("slow", "value")}
            paced = resource("Test::Paced", folder=str(self.folder), **{name: {"get_param": name} for name in given})
            return json.dumps(template(parameters=given, a=paced))
        if self.point == "nested":
            return template(a=resource("c.yaml", slow=slow, value=value), **more)
        return template(a=resource("Test::Paced", folder=str(self.folder), slow=slow, value=value), **more)

    def create(self, name: str, slow: str = "", wait: bool = True, **more: Any) -> StackRecord:
        return self.engine.create(self.template(slow=slow), name, wait, files=self.files, **more)

    def put(self, stack: StackRecord, wait: bool = True, rollback: bool = False, **more: Any) -> StackRecord:
        document = self.template(**more)
        return self.engine.put(stack, document, wait, files=self.files, disable_rollback=not rollback)

    def begin(self, verb: Verb, name: str) -> StackRecord:
        """Start an operation that is slow on `a`."""
        engine = self.engine
        match verb:
            case Verb.CREATE:
                return self.create(name, "create", wait=False)
            case Verb.UPDATE:
                return self.put(self.create(name), wait=False, slow="update", value="two")
            case Verb.ROLLBACK:
                fails = thing(fail=True, depends_on="a")
                return self.put(self.create(name, "update"), wait=False, rollback=True, value="two", b=fails)
            case Verb.RESTORE:
                stack = self.create(name, "update")
                taken = engine.components.snapshots.take(engine.who, stack, None)
                engine.settle(stack)
                self.put(stack, value="two")
                engine.components.snapshots.restore(engine.who, engine.get(stack), taken.id)
                return engine.get(stack)
        stack = self.create(name, verb.lower())
        match verb:
            case Verb.DELETE:
                return engine.delete(stack, wait=False)
            case Verb.CHECK:
                engine.stacks.check(engine.who, stack)
            case Verb.SUSPEND:
                return engine.suspend(stack, wait=False)
            case Verb.RESUME:
                return engine.resume(engine.suspend(stack), wait=False)
            case Verb.SNAPSHOT:
                engine.components.snapshots.take(engine.who, stack, None)
            case Verb.LOCK:
                return engine.lock(stack, wait=False)
            case Verb.UNLOCK:
                return engine.unlock(engine.lock(stack), wait=False)
        return engine.get(stack)

    def reached(self, verb: Verb, name: str) -> tuple[StackRecord, ActionRecord]:
        """A stack with an operation that is where `point` says."""
        self.hangs.unlink(missing_ok=True)
        if self.point == "call":
            self.hang.touch()
        engine, stack = self.engine, self.begin(verb, name)
        if self.point == "call":
            engine.wait_for(self.hangs.exists)
        else:
            engine.begun(lambda: engine.get(stack).verb is verb and self.is_slow(stack))
        return stack, live(engine, stack)

    def is_slow(self, stack: StackRecord) -> bool:
        """True while `a` waits for its minute."""
        if self.point == "nested":
            children = self.engine.store.stacks.descendants(self.engine.get(stack))
            return bool(children) and self.is_asked(children[0])
        return self.is_asked(stack)

    def is_asked(self, stack: StackRecord) -> bool:
        rows = self.engine.rows(stack)
        return any(row.status is Status.IN_PROGRESS and row.token is not None for row in rows if row.name == "a")

    def let_go(self) -> None:
        self.hang.unlink(missing_ok=True)

    def tree(self, stack: StackRecord) -> list[str]:
        return [stack.id, *(one.id for one in self.engine.store.stacks.descendants(self.engine.get(stack)))]

    def statuses(self, stack: StackRecord) -> set[ActionStatus]:
        """Of the live actions of a tree."""
        return {action.status for action in self.engine.store.actions.live(self.tree(stack))}

    def suspended(self, verb: Verb, name: str) -> tuple[StackRecord, ActionRecord]:
        """A stack whose operation was suspended there; hours pass without a change."""
        stack, action = self.reached(verb, name)
        signal(self.engine, action, Signal.SUSPEND)
        if self.point == "call":
            assert self.statuses(stack) == {ActionStatus.RUNNING}, "a call cannot be interrupted"
            self.let_go()
        self.engine.wait_for(lambda: self.statuses(stack) == {ActionStatus.SUSPENDED})
        before = self.engine.now_on(stack)
        self.engine.clock.pass_(10 * HOUR)
        found = live(self.engine, stack)
        assert (found.status, found.owner, found.control) == (ActionStatus.SUSPENDED, None, None)
        assert self.engine.get(stack).status is Status.IN_PROGRESS
        assert self.engine.now_on(stack) == before
        return stack, found

    def ended(self, stack: StackRecord, action: ActionRecord) -> str:
        """The end of the operation, reported once, without leftovers."""
        self.engine.wait_for(lambda: not self.engine.store.actions.live(self.tree(stack)))
        ends = [status for status in moves(self.engine, action) if status in ("SUCCEEDED", "FAILED", "CANCELLED")]
        assert len(ends) == 1
        for stack_id in self.tree(stack):
            one = self.engine.store.stacks.get(stack_id)
            assert one is not None and one.status is not Status.IN_PROGRESS
            rows = self.engine.store.resources.of(stack_id)
            assert [row.name for row in rows if row.status is Status.IN_PROGRESS or row.token is not None] == []
        return f"{ends[0]} {stack_state(self.engine.get(stack))}"

    def remove(self, stack: StackRecord) -> None:
        """The stack can be deleted, and nothing is left of what it has made."""
        if self.engine.get(stack).deleted_at is None:
            if stack_state(self.engine.get(stack)) == "LOCK_COMPLETE":
                self.engine.unlock(stack)
            assert stack_state(self.engine.delete(stack)) == "DELETE_COMPLETE"
        assert {path.name for path in self.folder.iterdir()} <= {"hang", "hangs"}


OPERATIONS = (
    Verb.CREATE, Verb.UPDATE, Verb.ROLLBACK, Verb.DELETE, Verb.CHECK, Verb.SUSPEND, Verb.RESUME, Verb.SNAPSHOT,
    Verb.RESTORE, Verb.LOCK, Verb.UNLOCK,
)  # fmt: skip
POINTS = ("poll", "call", "nested")


def test_no_operation_is_forgotten() -> None:
    assert set(Verb) - set(OPERATIONS) == {Verb.INIT, Verb.ADOPT, Verb.RUN}


@pytest.fixture
def world(engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    world = World(engine, tmp_path, request.param)
    yield world
    world.let_go()


def everywhere(verbs: Collection[Verb] = OPERATIONS) -> pytest.MarkDecorator:
    """Mark UPDATE at each point and two more at one as fast.

    The others at one are slow, at the rest thorough.
    """
    fast = {("poll", Verb.CREATE), ("poll", Verb.DELETE), *((point, Verb.UPDATE) for point in POINTS)}
    marks = {"poll": [pytest.mark.slow]}
    pairs = [
        pytest.param(point, verb, marks=[] if (point, verb) in fast else marks.get(point, [pytest.mark.thorough]))
        for point in POINTS
        for verb in verbs
    ]
    return pytest.mark.parametrize(("world", "verb"), pairs, indirect=["world"])


def undisturbed(verb: Verb) -> str:
    return f"{'FAILED' if verb is Verb.ROLLBACK else 'SUCCEEDED'} {verb}_COMPLETE"


@everywhere()
def test_what_was_suspended_ends_as_if_it_had_not_been(world: World, verb: Verb) -> None:
    with world.engine.clock.held():
        stack, action = world.suspended(verb, "s")
        deadline = action.deadline
        action = signal(world.engine, action, Signal.RESUME)
        assert deadline is not None and action.deadline is not None and action.deadline >= deadline + 10 * HOUR
    assert world.ended(stack, action) == undisturbed(verb)
    world.remove(stack)


@pytest.mark.slow
@everywhere()
def test_another_engine_goes_on_with_what_was_suspended(world: World, verb: Verb) -> None:
    with world.engine.clock.held():
        stack, action = world.suspended(verb, "s")
        world.engine.close()
        world.engine.open()
        assert live(world.engine, stack).status is ActionStatus.SUSPENDED
        signal(world.engine, action, Signal.RESUME)
    assert world.ended(stack, action) == undisturbed(verb)
    world.remove(stack)


@everywhere()
def test_what_is_suspended_can_be_cancelled(world: World, verb: Verb) -> None:
    with world.engine.clock.held():
        stack, action = world.suspended(verb, "s")
        signal(world.engine, action, Signal.CANCEL)
    assert world.ended(stack, action).startswith("CANCELLED ")
    assert world.ended(stack, action).endswith(f"{verb}_FAILED")
    assert world.engine.get(stack).status_reason == f"Stack {verb} cancelled"
    world.remove(stack)


@everywhere([verb for verb in OPERATIONS if verb not in (Verb.DELETE, Verb.LOCK, Verb.UNLOCK)])
def test_what_is_suspended_makes_room_for_a_delete(world: World, verb: Verb) -> None:
    with world.engine.clock.held():
        stack, action = world.suspended(verb, "s")
        world.engine.delete(stack, wait=False)
    assert world.ended(stack, action) == "CANCELLED DELETE_COMPLETE"
    world.remove(stack)


@everywhere()
def test_every_operation_can_be_cancelled(world: World, verb: Verb) -> None:
    """Work under way may finish, which may or may not be all."""
    with world.engine.clock.held():
        stack, action = world.reached(verb, "s")
        Ears(world.engine).tell(action, Signal.CANCEL)
        world.let_go()
    assert world.ended(stack, action) == f"CANCELLED {verb}_FAILED"
    assert world.engine.get(stack).status_reason == f"Stack {verb} cancelled"
    world.remove(stack)


@pytest.mark.slow
@everywhere()
def test_force_waits_for_nobody(world: World, verb: Verb) -> None:
    """Nor does the delete after it; the former owner writes nothing more."""
    with world.engine.clock.held():
        stack, action = world.reached(verb, "s")
        action = signal(world.engine, action, Signal.CANCEL, force=True)
        assert (action.status, action.owner) == (ActionStatus.CANCELLED, None)
        assert world.ended(stack, action) == f"CANCELLED {verb}_FAILED"
        before = world.engine.rows(stack), world.engine.told(stack)
        world.let_go()
        world.engine.close()  # so that all that was under way has come to its end
        world.engine.open()
        assert (world.engine.rows(stack), world.engine.told(stack)) == before
    world.remove(stack)


@pytest.mark.slow
def test_a_handler_that_hangs_for_ever_keeps_neither_the_stack_nor_the_slot(
    plugins: Path, place: Path, tmp_path: Path
) -> None:
    engine = Engine(place, engine_slots=1)
    world = World(engine, tmp_path, "call")
    try:
        stack, action = world.reached(Verb.CREATE, "s")
        signal(engine, action, Signal.CANCEL, force=True)
        (made,) = [path.name for path in world.folder.iterdir() if path.name not in ("hang", "hangs")]
        assert made == engine.row(stack, "a").physical_name
        assert stack_state(engine.delete(stack)) == "DELETE_COMPLETE"
        assert {path.name for path in world.folder.iterdir()} == {"hang", "hangs"}, "found by its name"
    finally:
        world.let_go()
        engine.close()


@pytest.mark.parametrize("asked", [Signal.CANCEL, Signal.SUSPEND])
def test_what_waits_at_a_breakpoint_is_signalled(engine: Engine, asked: Signal) -> None:
    document = template(a=thing(), b=thing(depends_on="a"))
    stack = engine.create(document, wait=False, environment=hooks(b="pre-create"))
    reach(engine, stack, b="pre-create")
    action = live(engine, stack)
    assert signal(engine, action, asked).status in (ActionStatus.SUSPENDED, ActionStatus.READY)
    if asked is Signal.CANCEL:
        assert stack_state(engine.settle(stack)) == "CREATE_FAILED"
        return
    clear(engine, stack, "b", "pre-create")
    assert live(engine, stack).status is ActionStatus.SUSPENDED
    assert engine.states(stack)["b"] == "INIT_COMPLETE"
    signal(engine, action, Signal.RESUME)
    assert stack_state(engine.settle(stack)) == "CREATE_COMPLETE"


@pytest.mark.slow
def test_the_time_of_a_wait_condition_does_not_run_out_while_it_is_suspended(engine: Engine) -> None:
    """Whichever process goes on with it."""
    waits = resource("OS::Heat::WaitCondition", handle={"get_resource": "h"}, timeout=100)
    with engine.clock.held():
        stack = engine.create(template(h=resource("OS::Heat::WaitConditionHandle"), w=waits), wait=False)
        engine.begun(lambda: any(row.name == "w" and row.token is not None for row in engine.rows(stack)))
        began = engine.clock.now()
        engine.clock.pass_(60)
        for again in (False, True):
            action = signal(engine, live(engine, stack), Signal.SUSPEND)
            engine.wait_for(lambda: live(engine, stack).status is ActionStatus.SUSPENDED)
            engine.clock.pass_(HOUR)
            if again:
                engine.close()
                engine.open()
            signal(engine, action, Signal.RESUME)
    stack = engine.settle(stack)
    assert stack_state(stack) == "CREATE_FAILED"
    assert "0 of 1 received" in stack.status_reason
    assert 2 * HOUR + 100 <= engine.clock.now() - began < 2 * HOUR + 103


def test_a_pause_between_batches_is_a_place_to_suspend(engine: Engine) -> None:
    policy = {"rolling_update": {"max_batch_size": 1, "min_in_service": 1, "pause_time": 600}}

    def document(value: str) -> Any:
        keys = {"update_policy": policy}
        return template(g=resource("OS::Heat::ResourceGroup", count=2, resource_def=thing(value), keys=keys))

    stack = engine.create(document("one"))
    with engine.clock.held():
        stack = engine.put(stack, document("two"), wait=False)
        (nested,) = engine.store.stacks.descendants(stack)
        engine.begun(lambda: engine.told(nested).count(f"{nested.name} UPDATE_COMPLETE") == 1)
        action = signal(engine, live(engine, stack), Signal.SUSPEND)
        engine.wait_for(lambda: live(engine, stack).status is ActionStatus.SUSPENDED)
        engine.clock.pass_(HOUR)
        assert live(engine, stack).status is ActionStatus.SUSPENDED
        assert sorted(str(engine.value(nested, name)) for name in ("0", "1")) == ["one", "two"]
        signal(engine, action, Signal.RESUME)
    assert stack_state(engine.settle(stack)) == "UPDATE_COMPLETE"
    assert {engine.value(nested, name) for name in ("0", "1")} == {"two"}


def test_a_part_of_a_tree_may_be_suspended_alone(world_of_trees: World) -> None:
    world = world_of_trees
    engine = world.engine
    with engine.clock.held():
        stack, action = world.reached(Verb.CREATE, "s")
        (nested,) = engine.store.stacks.descendants(stack)
        part = live(engine, nested)
        signal(engine, part, Signal.SUSPEND)
        engine.wait_for(lambda: live(engine, nested).status is ActionStatus.SUSPENDED)
        engine.clock.pass_(60)
        assert live(engine, stack).status is ActionStatus.WAITING
        signal(engine, action, Signal.SUSPEND)
        signal(engine, action, Signal.RESUME)
    assert world.ended(stack, action) == "SUCCEEDED CREATE_COMPLETE"


def test_a_part_of_a_tree_that_is_cancelled_fails_the_whole(world_of_trees: World) -> None:
    world = world_of_trees
    with world.engine.clock.held():
        stack, action = world.reached(Verb.CREATE, "s")
        (nested,) = world.engine.store.stacks.descendants(stack)
        Ears(world.engine).tell(live(world.engine, nested), Signal.CANCEL)
        world.engine.clock.pass_(60)
    assert world.ended(stack, action) == "FAILED CREATE_FAILED"


@pytest.fixture
def world_of_trees(engine: Engine, tmp_path: Path) -> World:
    return World(engine, tmp_path, "nested")


@pytest.mark.slow
def test_a_cancel_is_heard_where_the_operation_turned_back(engine: Engine) -> None:
    """The reason of the rollback does not stop the rollback."""
    slow = thing("one", action_wait_secs={"update": 50})
    stack = engine.create(template(a=slow))
    with engine.clock.held():
        stack = engine.put(stack, template(a=thing("two", action_wait_secs={"update": 50})), wait=False)
        engine.begun(lambda: engine.states(stack)["a"] == "UPDATE_IN_PROGRESS")
        engine.cancel(stack, rollback=True, wait=False)
        engine.clock.pass_(50)
        engine.begun(lambda: engine.get(stack).verb is Verb.ROLLBACK and engine.row(stack, "a").token is not None)
        action = live(engine, stack)
        assert (action.status, action.control) == (ActionStatus.RUNNING, None)
        Ears(engine).tell(action, Signal.CANCEL)
    stack = engine.settle(stack)
    assert (stack_state(stack), stack.status_reason) == ("ROLLBACK_FAILED", "Stack ROLLBACK cancelled")


# -- time ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_nobody_begins_in_time_times_out(plugins: Path, place: Path, tmp_path: Path) -> None:
    engine = Engine(place, engine_slots=1)
    world = World(engine, tmp_path, "call")
    try:
        world.reached(Verb.CREATE, "busy")
        with engine.clock.held():
            stack = engine.create(template(a=thing()), "late", wait=False, timeout_mins=2)
            aside = engine.create(template(a=thing()), "aside", wait=False, timeout_mins=2)
            signal(engine, live(engine, aside), Signal.SUSPEND)
            engine.clock.pass_(119)
            assert live(engine, stack).status is ActionStatus.READY
            engine.clock.pass_(1)
            stack = engine.settle(stack)
            assert (stack_state(stack), stack.status_reason) == ("CREATE_FAILED", "Timed out")
            assert live(engine, aside).status is ActionStatus.SUSPENDED
            world.let_go()
    finally:
        world.let_go()
        engine.close()


def test_what_waits_for_another_times_out(queue: Engine) -> None:
    first, second = (queue.create(template(a=thing()), name, wait=False) for name in ("first", "second"))
    signal(queue, live(queue, second), Signal.CANCEL)
    timing = Timing(depends_on=(live(queue, first).id,), timeout=60)
    queue.components.scheduled_actions.start(MEMBER, queue.get(second), Verb.CHECK, timing)
    action = live(queue, second)
    endings = Termination(queue.store, queue.clock)
    queue.clock.pass_(59)
    endings.time_out()
    assert live(queue, second).status is ActionStatus.WAITING
    queue.clock.pass_(1)
    endings.time_out()
    found = queue.store.actions.get(action.id)
    assert found is not None
    assert (found.status, found.status_reason, found.outputs.result) == (ActionStatus.FAILED, "Timed out", "TIMEOUT")
    assert (stack_state(queue.get(second)), queue.get(second).status_reason) == ("CHECK_FAILED", "Timed out")
    assert stack_state(queue.get(first)) == "CREATE_IN_PROGRESS"


def test_to_be_begun_again_gives_no_more_time(queue: Engine) -> None:
    stack = queue.create(template(a=thing()), wait=False)
    claimed = claim_one(queue.store, "somebody", queue.clock.now(), 60)
    assert claimed is not None
    queue.clock.pass_(100)
    with queue.store.transaction():
        queue.store.moves.requeue(claimed, "others were in the way", queue.clock.now(), queue.clock.now() + 1)
    assert live(queue, stack).deadline == claimed.deadline
    assert live(queue, stack).status is ActionStatus.READY


@pytest.mark.slow
def test_the_deletion_of_a_snapshot_is_cancelled_where_it_has_not_come_to_it(engine: Engine, tmp_path: Path) -> None:
    stack = engine.create(template(a=resource("Test::Saved", folder=str(tmp_path), value="x")))
    taken = engine.components.snapshots.take(engine.who, stack, None)
    engine.settle(stack)
    images = list(tmp_path.glob("*.image"))
    assert engine.server.worker is not None
    engine.server.worker.stop()
    engine.components.snapshots.delete(engine.who, engine.get(stack), taken.id)
    action = claim_one(engine.store, "somebody who dies", engine.clock.now(), 0.0)
    assert action is not None
    signal(engine, action, Signal.CANCEL)
    engine.close()
    engine.open()
    engine.wait_for(lambda: not engine.store.actions.live([stack.id]))
    found, snapshot = engine.store.actions.get(action.id), engine.store.snapshots.get(stack.id, taken.id)
    assert found is not None and found.status is ActionStatus.CANCELLED
    assert snapshot is not None
    assert (snapshot.status, snapshot.status_reason) == (Status.FAILED, "DELETE aborted: the operation was cancelled")
    assert list(tmp_path.glob("*.image")) == images != []


@pytest.mark.parametrize("restarted", [False, True])
def test_the_time_that_is_left_is_left_after_a_suspend(engine: Engine, restarted: bool) -> None:
    endless = resource("Test::Endless", verb="create")
    with engine.clock.held():
        stack = engine.create(template(a=endless), wait=False, timeout_mins=2)
        engine.begun(lambda: engine.states(stack).get("a") == "CREATE_IN_PROGRESS")
        engine.clock.pass_(60)
        action = signal(engine, live(engine, stack), Signal.SUSPEND)
        engine.wait_for(lambda: live(engine, stack).status is ActionStatus.SUSPENDED)
        engine.clock.pass_(HOUR)
        if restarted:
            engine.close()
            engine.open()
        signal(engine, action, Signal.RESUME)
        engine.wait_for(lambda: live(engine, stack).status is ActionStatus.RUNNING)
        engine.clock.pass_(59)
        engine.wait_for(engine.clock.at_rest)
        assert live(engine, stack).status is ActionStatus.RUNNING
    stack = engine.settle(stack)
    assert (stack_state(stack), stack.status_reason) == ("CREATE_FAILED", "Timed out")
    assert HOUR + 120 <= engine.clock.now() - stack.created_at < HOUR + 122


def test_a_force_leaves_nothing_in_progress_where_the_delete_that_waited_is_gone(
    engine: Engine, tmp_path: Path
) -> None:
    """The last owner of the stack cleans up its rows, whatever its operation was."""
    world = World(engine, tmp_path, "call")
    try:
        stack, holder = world.reached(Verb.CREATE, "s")
        engine.delete(stack, wait=False)
        (delete,) = [action for action in engine.store.actions.live([stack.id]) if action.verb is Verb.DELETE]
        assert signal(engine, delete, Signal.CANCEL).status is ActionStatus.CANCELLED
        assert signal(engine, holder, Signal.CANCEL, force=True).status is ActionStatus.CANCELLED
        assert stack_state(engine.get(stack)) == "DELETE_FAILED"
        assert engine.states(stack) == {"a": "CREATE_FAILED"}
        assert engine.store.inconsistencies(engine.clock.now(), 0.0) == []
    finally:
        world.let_go()
