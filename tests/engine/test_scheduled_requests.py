"""Updates, deletes and changes of groups at a later time."""

import threading
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.context import Context
from heatlite.core.errors import (
    Forbidden,
    HTTPBadRequest,
    InvalidValue,
    NoCredential,
    PlanChanged,
    RequestLimitExceeded,
    ResourceNotFound,
    StackNotFound,
)
from heatlite.core.status import ActionStatus, Cause, Signal, Verb, state
from heatlite.engine.operations.scheduled_actions import MAX_SCHEDULED
from heatlite.engine.state.group_requests import (
    Adjustment,
    FollowTemplate,
    ResizeRequest,
    ScaleIn,
    ScaleOut,
    SizeRequest,
)
from heatlite.engine.state.requests import Reach, StackRequest, Timing
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.secrets.cipher import new_key
from heatlite.store.stacks.events import EventQuery
from tests.engine.conftest import MEMBER, READER, START, Engine, param, template, thing
from tests.engine.test_group_operations import automatic
from tests.engine.test_groups import nested
from tests.killed import killed_at_each_write
from tests.tables import few

SECRET = "the-hidden-one"
HIDDEN = {"p": {"type": "string", "hidden": True, "default": "a-default"}}
CLOSED = {"encryption_keys": (new_key(),)}


def of(engine: Engine, action_id: str) -> ActionRecord:
    found = engine.store.actions.get(action_id)
    assert found is not None
    return found


def only(engine: Engine) -> ActionRecord:
    """The action that is scheduled."""
    ((action_id,),) = engine.store.database.read("SELECT id FROM action WHERE status = 'INIT'")
    return of(engine, action_id)


def digest(engine: Engine, stack: StackRecord, request: StackRequest) -> str:
    plan = engine.stacks.preview_update(MEMBER, engine.get(stack), request, existing=True, plan=True).plan
    assert plan is not None
    return plan.digest


def update(engine: Engine, stack: StackRecord, seconds: float = 100, **changes: Any) -> ActionRecord:
    """Schedule an update by the digest of its plan."""
    request = StackRequest(**changes)
    request = replace(request, plan_digest=digest(engine, stack, request))
    engine.components.scheduled.update(MEMBER, engine.get(stack), request, engine.clock.now() + seconds)
    return only(engine)


def delete(engine: Engine, stack: StackRecord, seconds: float = 100, by: Context = MEMBER) -> ActionRecord:
    return of(engine, deleted_later(engine, stack, seconds, by))


def deleted_later(engine: Engine, stack: StackRecord, seconds: float = 100, by: Context = MEMBER) -> str:
    """Schedule a delete, and return the id of its action."""
    by = replace(by, queued=[])
    engine.components.scheduled.delete(by, engine.get(stack), engine.clock.now() + seconds)
    (action_id,) = by.queued
    return action_id


def ended(engine: Engine, action: ActionRecord, seconds: float = 100) -> ActionRecord:
    """The action after its time, once it has ended."""
    engine.clock.pass_(seconds)
    engine.components.scheduled_actions.sweep_requests()
    engine.wait_for(lambda: of(engine, action.id).finished_at is not None)
    return of(engine, action.id)


def refused(engine: Engine, action: ActionRecord) -> str | None:
    """The code with which the action ends at its time, without having been admitted."""
    found = ended(engine, action)
    assert (found.status, found.started_at, found.request) == (ActionStatus.CANCELLED, None, None)
    assert found.status_reason.startswith("Its time had come, but: ")
    assert engine.store.actions.history(action.id)[-1].before is ActionStatus.INIT
    told = [(one.verb, one.status) for one in engine.store.events.list(action.stack_id, EventQuery())]
    assert (action.verb, "REFUSED") in told, "who watches the stack hears of it"
    return found.outputs.code


class TestUpdate:
    def test_it_holds_nothing_and_does_what_was_planned(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("v")))
        before, since = engine.get(stack), engine.now_on(stack)
        with engine.clock.held():
            action = update(engine, stack, template=template(a=thing("w")))
            assert (action.verb, action.word, action.not_before) == (Verb.UPDATE, "STACK_UPDATE", START + 100)
            assert (engine.get(stack), engine.told(stack, since)) == (before, [])
            engine.clock.pass_(99)
            engine.components.scheduled_actions.sweep_requests()
            assert of(engine, action.id).status is ActionStatus.INIT
            done = ended(engine, action, 1)
        assert (done.status, done.request) == (ActionStatus.SUCCEEDED, None)
        assert (done.created_at, done.not_before, done.cause) == (START, START + 100, Cause.REQUEST)
        assert done.deadline == START + 100 + engine.settings.default_action_timeout
        assert [move.after for move in engine.store.actions.history(action.id)] == [
            ActionStatus.READY, ActionStatus.RUNNING, ActionStatus.SUCCEEDED
        ]  # fmt: skip
        assert engine.store.actions.history(action.id)[0].time == START + 100
        assert engine.value(stack, "a") == "w"
        assert state(engine.get(stack).verb, engine.get(stack).status) == "UPDATE_COMPLETE"

    def test_it_leaves_out_what_it_did_when_it_was_asked_for(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("1"), b=thing("1")))
        after = template(a=thing("2"), b=thing("2"))
        action = update(engine, stack, template=after, reach=Reach(target=("a",)))
        assert ended(engine, action).status is ActionStatus.SUCCEEDED
        assert [engine.value(stack, name) for name in "ab"] == ["2", "1"]
        restricted = engine.get(stack).restricted
        assert restricted is not None and restricted.left_out == ("b",)

    def test_another_digest_is_refused_at_once(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("v")))
        request = StackRequest(template=template(a=thing("w")), plan_digest="of another plan")
        with pytest.raises(PlanChanged):
            engine.components.scheduled.update(MEMBER, stack, request, START + 100)
        assert engine.store.queue.count_scheduled(stack.id) == 0

    def test_a_stack_that_was_changed_meanwhile_is_left_alone(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("v")))
        action = update(engine, stack, template=template(a=thing("w")))
        engine.put(stack, template(a=thing("x")))
        before, since = engine.get(stack), engine.now_on(stack)
        assert refused(engine, action) == "PlanChanged"
        assert (engine.get(stack), engine.told(stack, since)) == (before, ["s UPDATE_REFUSED"])

    def test_a_hidden_parameter_is_sealed_and_erased(self, place: Any, plugins: Any) -> None:
        engine = Engine(place, **CLOSED)
        stack = engine.create(template(a=thing(param("p")), parameters=HIDDEN))
        action = update(engine, stack, parameters={"p": SECRET})
        assert SECRET not in str(engine.store.database.read("SELECT * FROM action"))
        assert action.request is not None
        assert SECRET in str(action.request)
        (listed,) = engine.store.action_list.find("demo", action.id, 1)
        assert listed.request is None
        assert SECRET not in str(engine.components.reader.mask(stack).text(str(action.inputs)))
        done = ended(engine, action)
        assert (done.status, done.request) == (ActionStatus.SUCCEEDED, None)
        assert SECRET not in str(done.inputs)
        assert engine.store.database.read("SELECT request FROM action WHERE request IS NOT NULL") == []
        engine.close()

    @pytest.mark.parametrize("hidden", [True, False])
    def test_no_error_shows_what_was_hidden(
        self, engine: Engine, hidden: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Not even if the template hides it no more, and allows other values."""
        stack = engine.create(template(a=thing(param("p")), parameters=HIDDEN))
        action = update(engine, stack, parameters={"p": SECRET})
        narrow = {"p": {"type": "string", "hidden": hidden, "constraints": [{"allowed_pattern": "[0-9]+"}]}}
        engine.put(stack, template(a=thing(param("p")), parameters=narrow), parameters={"p": "12"})
        caplog.set_level("INFO")
        assert refused(engine, action) == "StackValidationFailed"
        assert "is invalid: \"******\" does not match" in of(engine, action.id).status_reason
        assert SECRET not in caplog.text + str(of(engine, action.id))

    def test_a_cancelled_one_is_erased(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("v")))
        action = update(engine, stack, template=template(a=thing("w")))
        engine.components.controls.signal(MEMBER, action, Signal.CANCEL)
        found = of(engine, action.id)
        assert (found.status, found.request) == (ActionStatus.CANCELLED, None)
        engine.clock.pass_(200)
        engine.components.scheduled_actions.sweep_requests()
        assert engine.value(stack, "a") == "v"

    @pytest.mark.slow
    def test_who_waits_for_it_waits_for_its_end(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("v")))
        other = engine.create(template(a=thing("v")), name="other")
        action = update(engine, stack, template=template(a=thing("w")))
        engine.stacks.check(MEMBER, other, Timing(depends_on=(action.id,)))
        ended(engine, action)
        assert state(engine.settle(other).verb, engine.settle(other).status) == "CHECK_COMPLETE"

    def test_a_retry_does_not_take_one_that_never_began_for_the_last(self, engine: Engine) -> None:
        stack = engine.create(template(**automatic(2)))
        action = replacement(engine, stack, "g", [min(engine.ids(nested(engine, stack, "g")))])
        engine.lock(stack)
        assert refused(engine, action) == "StackLocked"
        assert engine.store.actions.last(stack.id, Verb.UPDATE) is None


class TestDelete:
    def test_it_ends_the_stack(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("v")))
        action = delete(engine, stack)
        assert ended(engine, action).status is ActionStatus.SUCCEEDED
        assert state(engine.get(stack).verb, engine.get(stack).status) == "DELETE_COMPLETE"

    def test_lock_and_protection_win(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("v")))
        action = delete(engine, stack)
        engine.lock(stack)
        assert refused(engine, action) == "StackLocked"
        engine.unlock(stack)
        action = delete(engine, stack)
        engine.components.protection.protect(MEMBER, engine.get(stack), "a", None)
        assert refused(engine, action) == "DeletionProtected"
        engine.components.scheduled_actions.sweep_requests()
        assert state(engine.get(stack).verb, engine.get(stack).status) == "UNLOCK_COMPLETE"

    def test_a_stack_that_is_gone_has_none(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("v")))
        action = delete(engine, stack)
        engine.delete(stack)
        assert of(engine, action.id).status is ActionStatus.CANCELLED
        with pytest.raises(StackNotFound):
            delete(engine, stack)

    def test_times_and_numbers(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("v")))
        for seconds in (0, -1):
            with pytest.raises(HTTPBadRequest, match="not in the future"):
                delete(engine, stack, seconds)
        for number in range(MAX_SCHEDULED):
            engine.components.scheduled.delete(MEMBER, stack, START + 100 + number)
        with pytest.raises(RequestLimitExceeded, match=f"^{MAX_SCHEDULED} actions on stack s are already scheduled"):
            engine.components.scheduled.delete(MEMBER, stack, START + 10_000)


def change(engine: Engine, stack: StackRecord, request: SizeRequest) -> ActionRecord:
    return engine.components.scheduled.change(MEMBER, engine.get(stack), "g", request, engine.clock.now() + 100)


def replacement(engine: Engine, stack: StackRecord, name: str, members: list[str]) -> ActionRecord:
    when = engine.clock.now() + 100
    return engine.components.scheduled.replace_members(MEMBER, engine.get(stack), name, members, when)


class TestGroups:
    @pytest.mark.parametrize(
        ("request_", "word", "size"),
        few(
            [
                (ResizeRequest(Adjustment.EXACT_CAPACITY, 4), "GROUP_RESIZE", 4),
                (FollowTemplate(True), "GROUP_RESIZE", 2),
                (ScaleOut(2), "GROUP_SCALE_OUT", 4),
                (ScaleIn(), "GROUP_SCALE_IN", 1),
            ]
        ),
    )
    def test_each_change(self, engine: Engine, request_: SizeRequest, word: str, size: int) -> None:
        stack = engine.create(template(**automatic(2)))
        action = change(engine, stack, request_)
        assert (action.word, action.status, action.stack_id) == (word, ActionStatus.INIT, stack.id)
        done = ended(engine, action)
        assert (done.word, done.status, done.request) == (word, ActionStatus.SUCCEEDED, None)
        group = nested(engine, stack, "g")
        assert (done.stack_id, len(engine.rows(group))) == (group.id, size)

    def test_members_are_replaced(self, engine: Engine) -> None:
        stack = engine.create(template(**automatic(2)))
        group = nested(engine, stack, "g")
        before = engine.ids(group)
        name = min(before)
        action = replacement(engine, stack, "g", [name])
        assert action.inputs.heal is not None
        assert [*action.inputs.heal.steps] == [f"g/{name}"]
        assert ended(engine, action).status is ActionStatus.SUCCEEDED
        after = engine.ids(group)
        assert {one for one in before if before[one] != after[one]} == {name}

    def test_what_cannot_be(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), **automatic(2)))
        with pytest.raises(ResourceNotFound):
            engine.components.scheduled.change(MEMBER, stack, "zz", ScaleOut(), START + 100)
        with pytest.raises(HTTPBadRequest, match="is no group"):
            engine.components.scheduled.change(MEMBER, stack, "a", ScaleOut(), START + 100)
        with pytest.raises(InvalidValue):
            replacement(engine, stack, "g", ["zz"])
        action = change(engine, stack, ScaleOut(50))
        assert refused(engine, action) == "ValueError"
        assert len(engine.rows(nested(engine, stack, "g"))) == 2

    def test_a_locked_group(self, engine: Engine) -> None:
        stack = engine.create(template(**automatic(2)))
        action = change(engine, stack, ScaleOut())
        engine.lock(stack)
        assert refused(engine, action) == "StackLocked"
        assert [one.request for one in engine.store.suppressed.list(stack.id)] == ["scale_out"]


class TestRights:
    def test_who_could_not_do_it_now_cannot_schedule_it(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing()))
        nobody = replace(READER, may=lambda rule: rule != "stacks:delete" and rule != "stacks:update_patch")
        with pytest.raises(Forbidden):
            engine.components.scheduled.delete(nobody, stack, START + 100)
        with pytest.raises(Forbidden):
            engine.components.scheduled.update(nobody, stack, StackRequest(plan_digest="x"), START + 100)

    @pytest.mark.parametrize("error", [Forbidden(action="actions:delete"), NoCredential(stack_name="s", user="mia")])
    def test_who_has_lost_the_right_meanwhile(self, engine: Engine, error: Forbidden) -> None:
        stack = engine.create(template(a=thing()))
        action = delete(engine, stack)

        def lost(_author: Context, _stack: StackRecord) -> Context:
            raise error

        engine.server.components.scheduled._author_now = lost
        with pytest.raises(Forbidden):
            engine.server.components.scheduled.delete(MEMBER, stack, START + 200)
        assert refused(engine, action) == ("no_credential" if isinstance(error, NoCredential) else "Forbidden")
        assert engine.get(stack).deleted_at is None


class TestOthers:
    def test_one_that_breaks_keeps_no_other_from_its_time(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stacks = [engine.create(template(a=thing("v")), name=name) for name in ("a", "b")]
        broken, sound = (deleted_later(engine, one) for one in stacks)
        schedule = engine.server.components.scheduled_actions
        begin = schedule._begin_request

        def begin_request(action: ActionRecord, stack: StackRecord) -> None:
            if action.id == broken:
                raise KeyError("a defect")
            begin(action, stack)

        monkeypatch.setattr(schedule, "_begin_request", begin_request)
        engine.clock.pass_(100)
        schedule.sweep_requests()
        engine.wait_for(lambda: of(engine, sound).finished_at is not None)
        assert (of(engine, broken).status, of(engine, sound).status) == (
            ActionStatus.CANCELLED, ActionStatus.SUCCEEDED
        )  # fmt: skip
        assert "internal error" in of(engine, broken).status_reason

    @pytest.mark.slow
    def test_one_that_waits_for_the_cloud_delays_none(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        stack = engine.create(template(a=thing("v")))
        other = engine.create(template(a=thing("v")), name="other")
        entered, answer = threading.Event(), threading.Event()

        schedule = engine.server.components.scheduled_actions
        begin = schedule._begin_request

        def wait(action: ActionRecord, stack: StackRecord) -> None:
            entered.set()
            answer.wait()
            begin(action, stack)

        monkeypatch.setattr(schedule, "_begin_request", wait)
        action = delete(engine, stack)
        engine.clock.pass_(100)
        assert entered.wait(30)
        engine.stacks.check(MEMBER, other, Timing(not_before=engine.clock.now() + 10))
        engine.clock.pass_(10)
        try:
            engine.wait_for(lambda: engine.get(other).verb is Verb.CHECK)
        finally:
            answer.set()
        engine.wait_for(lambda: of(engine, action.id).finished_at is not None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", few(["update", "delete", "scale_out", "replace_members"]))
def test_killed_at_each_write(engine: Engine, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is carried out once, wherever the engine is killed."""
    monkeypatch.setattr(engine.server.store.queue, "due", lambda _now: [])  # the engine itself begins nothing
    stack = engine.create(template(a=thing("v"), **automatic(2)))
    if kind == "update":
        action = update(engine, stack, template=template(a=thing("w"), **automatic(2)))
    elif kind == "delete":
        action = delete(engine, stack)
    elif kind == "scale_out":
        action = change(engine, stack, ScaleOut())
    else:
        action = replacement(engine, stack, "g", [min(engine.ids(nested(engine, stack, "g")))])
    engine.clock.pass_(100)
    begin = engine.server.components.scheduled_actions._begin
    kills = [*killed_at_each_write(monkeypatch, lambda: begin(action))]
    assert len(kills) > 4
    begin(action)  # another engine had read it, too
    engine.wait_for(lambda: of(engine, action.id).finished_at is not None)
    assert of(engine, action.id).status is ActionStatus.SUCCEEDED
    begun = [one for one in engine.told(stack) if one in ("s UPDATE_IN_PROGRESS", "s DELETE_IN_PROGRESS")]
    assert len(begun) == (0 if kind == "scale_out" else 1)
    ((count,),) = engine.store.database.read(
        "SELECT COUNT(*) FROM action WHERE verb IN ('UPDATE', 'DELETE') AND parent_id IS NULL"
    )
    assert count == 1
