"""Expiry of stacks with the real store and worker."""

import pytest
from msgspec.structs import replace

from heatlite.core.context import Context
from heatlite.core.errors import EntityNotFound, Forbidden, HTTPBadRequest, NoCredential, StackNotFound
from heatlite.core.json import JsonMap
from heatlite.core.status import ActionStatus, Cause, LockLevel, Status, Verb, state
from heatlite.features.change_policy.store.records import ChangePolicyRecord
from heatlite.features.change_policy.store.store import ChangePolicyStore
from heatlite.features.schedules.expiry.operations import WantedExpiry
from heatlite.features.schedules.expiry.parts import Expiries
from heatlite.features.schedules.expiry.state import LOOK_AGAIN, ExpiryRecord, ExpiryState, Then
from heatlite.features.schedules.store.expiries import ExpiryStore
from heatlite.store.records import LockRecord, StackRecord
from tests.engine.conftest import MEMBER, START, Engine, resource, template, thing
from tests.features.schedules.engine.test_sweep import LOCKED
from tests.killed import killed_at_each_write
from tests.tables import few

HOUR, DAY = 3600, 86_400


@pytest.fixture
def stack(engine: Engine) -> StackRecord:
    return engine.create(template(a=thing()))


def expire(
    engine: Engine,
    stack: StackRecord,
    seconds: float,
    then: Then = Then.DELETE,
    warn_before: tuple[int, ...] = (DAY, HOUR),
) -> ExpiryRecord:
    """Let a stack expire after some seconds."""
    wanted = WantedExpiry(engine.clock.now() + seconds, then, warn_before)
    return engine.components.of(Expiries).operations.put(MEMBER, engine.get(stack), wanted)


def expiry(engine: Engine, stack: StackRecord) -> ExpiryRecord | None:
    return engine.store.of(ExpiryStore).of([stack.id]).get(stack.id)


def of(engine: Engine, stack: StackRecord) -> tuple[ExpiryState, str | None]:
    found = expiry(engine, stack)
    assert found is not None
    return found.state, found.code


def after(engine: Engine, seconds: float) -> None:
    """Let time go on, and sweep."""
    engine.clock.pass_(seconds)
    sweep(engine)


def sweep(engine: Engine) -> None:
    """Sweep as an engine does once a second."""
    rows = engine.store.of(ExpiryStore)
    engine.components.of(Expiries).sweep.run(rows.due(engine.clock.now()))


def told(engine: Engine, stack: StackRecord) -> list[str]:
    """The events of the expiry, oldest first."""
    return [state(one.verb, one.status) for one in engine.events(stack) if one.verb == "EXPIRY"]


class TestTimes:
    def test_it_warns_and_deletes(self, engine: Engine, stack: StackRecord) -> None:
        with engine.clock.held():
            expire(engine, stack, 2 * DAY)
            after(engine, DAY - 1)
            assert (of(engine, stack), told(engine, stack)) == ((ExpiryState.PENDING, None), [])
            after(engine, 1)
            sweep(engine)
            assert (of(engine, stack), told(engine, stack)) == ((ExpiryState.WARNED, None), ["EXPIRY_WARNING"])
            after(engine, DAY - HOUR)
            assert told(engine, stack) == ["EXPIRY_WARNING"] * 2
            after(engine, HOUR - 1)
            assert engine.get(stack).deleted_at is None
            after(engine, 1)
        engine.wait_for(lambda: engine.get(stack).deleted_at is not None)
        (cause,) = engine.store.database.read("SELECT cause FROM action WHERE verb = 'DELETE'")
        assert cause == (Cause.SCHEDULED,)
        assert expiry(engine, stack) is None

    def test_it_suspends(self, engine: Engine, stack: StackRecord) -> None:
        expire(engine, stack, HOUR + 10, Then.SUSPEND)
        after(engine, 10)
        after(engine, HOUR)
        assert state(engine.settle(stack).verb, engine.settle(stack).status) == "SUSPEND_COMPLETE"
        assert of(engine, stack) == (ExpiryState.DONE, None)
        after(engine, DAY)
        assert told(engine, stack) == ["EXPIRY_WARNING"]

    def test_a_near_time_warns_at_once(self, engine: Engine, stack: StackRecord) -> None:
        expire(engine, stack, 60)
        sweep(engine)
        assert (of(engine, stack), told(engine, stack)) == ((ExpiryState.WARNED, None), ["EXPIRY_WARNING"])
        after(engine, 60)
        engine.wait_for(lambda: engine.get(stack).deleted_at is not None)

    def test_a_later_time_has_a_new_warning(self, engine: Engine, stack: StackRecord) -> None:
        expire(engine, stack, HOUR)
        sweep(engine)
        expire(engine, stack, 3 * HOUR, warn_before=(HOUR,))
        assert of(engine, stack) == (ExpiryState.PENDING, None)
        after(engine, HOUR)
        assert told(engine, stack) == ["EXPIRY_WARNING"]
        after(engine, HOUR)
        assert told(engine, stack) == ["EXPIRY_WARNING"] * 2

    def test_a_downtime_over_the_warning_and_the_time(self, engine: Engine, stack: StackRecord) -> None:
        """Law 4.4: it does not end without a warning before."""
        expire(engine, stack, 2 * DAY, warn_before=(DAY, 2 * HOUR))
        after(engine, 7 * DAY)
        found = expiry(engine, stack)
        assert found is not None
        assert (found.state, found.expires_at) == (ExpiryState.WARNED, engine.clock.now() + 2 * HOUR)
        assert told(engine, stack) == ["EXPIRY_WARNING"]
        after(engine, 2 * HOUR - 1)
        assert engine.get(stack).deleted_at is None
        after(engine, 1)
        engine.wait_for(lambda: engine.get(stack).deleted_at is not None)

    def test_no_more(self, engine: Engine, stack: StackRecord) -> None:
        expire(engine, stack, HOUR)
        engine.components.of(Expiries).operations.delete(MEMBER, stack)
        with pytest.raises(EntityNotFound):
            engine.components.of(Expiries).operations.delete(MEMBER, stack)
        after(engine, DAY)
        assert (told(engine, stack), engine.get(stack).deleted_at) == ([], None)


class TestHeld:
    @pytest.mark.parametrize("then", few([Then.DELETE, Then.SUSPEND]))
    def test_by_a_lock_until_some_time_after_the_release(self, engine: Engine, stack: StackRecord, then: Then) -> None:
        expire(engine, stack, HOUR, then)
        sweep(engine)
        engine.lock(stack)
        after(engine, HOUR)
        after(engine, HOUR)
        after(engine, DAY)
        assert of(engine, stack) == (ExpiryState.HELD, "StackLocked")
        assert told(engine, stack) == ["EXPIRY_WARNING", "EXPIRY_HELD"]
        assert engine.store.suppressed.list(stack.id) == []
        engine.unlock(stack)
        after(engine, 60)
        found = expiry(engine, stack)
        assert found is not None
        assert (found.state, found.code, found.expires_at) == (ExpiryState.WARNED, None, engine.clock.now() + HOUR)
        assert told(engine, stack) == ["EXPIRY_WARNING", "EXPIRY_HELD", "EXPIRY_WARNING"]
        after(engine, HOUR - 1)
        assert engine.store.actions.live([stack.id]) == []
        after(engine, 1)
        engine.wait_for(
            lambda: of(engine, stack) == (ExpiryState.DONE, None) or engine.get(stack).deleted_at is not None
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("then", few([Then.DELETE, Then.SUSPEND]))
    def test_by_each_state_of_a_lock(self, engine: Engine, then: Then) -> None:
        """Also by one that has failed, and by that of a nested stack."""
        stack = engine.create(template(g=resource("OS::Heat::ResourceGroup", count=1, resource_def=thing())))
        (below,) = engine.store.stacks.descendants(stack)
        expire(engine, stack, 60, then)
        sweep(engine)
        lock = LockRecord(LockLevel.STACKS, "mia", False, engine.clock.now())
        for verb, status in LOCKED:
            for one in (stack, below):
                engine.put_stack(one, verb, status, lock)
                after(engine, 60)
                assert of(engine, stack) == (ExpiryState.HELD, "StackLocked"), (verb, status)
                engine.put_stack(one, Verb.CREATE, Status.COMPLETE)
        assert told(engine, stack) == ["EXPIRY_WARNING", "EXPIRY_HELD"]
        after(engine, 60)
        assert of(engine, stack) == (ExpiryState.WARNED, None)

    @pytest.mark.slow
    def test_by_something_protected_below(self, engine: Engine) -> None:
        group = resource("OS::Heat::ResourceGroup", count=1, resource_def=thing())
        stack = engine.create(template(g=group))
        (below,) = engine.store.stacks.descendants(stack)
        engine.components.protection.protect(MEMBER, below, "0", None)
        expire(engine, stack, 60)
        sweep(engine)
        after(engine, 60)
        assert of(engine, stack) == (ExpiryState.HELD, "DeletionProtected")
        engine.components.protection.unprotect(MEMBER, engine.get(below), "0", None)
        after(engine, 60)
        assert of(engine, stack) == (ExpiryState.WARNED, None)
        assert engine.get(stack).deleted_at is None

    @pytest.mark.parametrize(
        ("policy", "code"),
        [
            ({"approve": "removals"}, "ApprovalRequired"),
            ({"rules": [{"name": "n", "for": "plan", "when": "true", "then": "deny", "message": "m"}]}, "RuleDenied"),
            ({"reads": "refuse"}, "OutputInUse"),
        ],
    )
    def test_by_a_policy_for_as_long_as_it_refuses(self, engine: Engine, policy: JsonMap, code: str) -> None:
        """No warning says that a stack ends while the policy keeps it."""
        stack = engine.create(template(a=thing(), outputs={"o": "x"}))
        source: JsonMap = {"parameter_sources": {"p": {"stack": stack.name, "output": "o"}}}
        reading = {"heat_template_version": "2018-08-31", "parameters": {"p": {"type": "string"}}}
        engine.create(reading, "reader", further=source)
        rows, given = engine.store.of(ChangePolicyStore), {"change_policy": "2026-11-28", **policy}
        with engine.store.transaction():
            rows.put(ChangePolicyRecord(stack.project, "", given, 1, "ada", engine.clock.now()))
        expire(engine, stack, 60)
        sweep(engine)
        for _ in range(5):
            after(engine, HOUR)
            assert of(engine, stack) == (ExpiryState.HELD, code)
        assert told(engine, stack) == ["EXPIRY_WARNING", "EXPIRY_HELD"]
        assert engine.store.actions.live([stack.id]) == []
        with engine.store.transaction():
            rows.put(ChangePolicyRecord(stack.project, "", {"change_policy": "2026-11-28"}, 2, "ada", 1.0))
        after(engine, 60)
        assert of(engine, stack) == (ExpiryState.WARNED, None)
        after(engine, HOUR)
        engine.wait_for(lambda: engine.get(stack).deleted_at is not None)

    def test_a_suspend_by_a_suspended_stack(self, engine: Engine, stack: StackRecord) -> None:
        engine.suspend(stack)
        expire(engine, stack, 60, Then.SUSPEND)
        sweep(engine)
        after(engine, 60)
        assert of(engine, stack) == (ExpiryState.HELD, "InvalidStackState")

    @pytest.mark.slow
    @pytest.mark.parametrize("then", few([Then.DELETE, Then.SUSPEND]))
    def test_by_a_running_action_for_an_hour(self, engine: Engine, then: Then) -> None:
        slow = resource("OS::Heat::TestResource", value="v", action_wait_secs={"update": -1})
        stack = engine.create(template(a=slow))
        expire(engine, stack, 60, then)
        sweep(engine)
        with engine.clock.held():
            changed = resource("OS::Heat::TestResource", value="w", action_wait_secs={"update": -1})
            engine.put(stack, template(a=changed), wait=False, timeout_mins=600)
            running = [ActionStatus.RUNNING]
            engine.wait_for(lambda: [one.status for one in engine.store.actions.live([stack.id])] == running)
            after(engine, 60)
            after(engine, HOUR - 60)
            assert of(engine, stack) == (ExpiryState.WARNED, None)
            after(engine, 60)
            assert of(engine, stack) == (
                ExpiryState.HELD, "ActionConflict" if then is Then.DELETE else "ResourceIsLocked"
            )
            assert told(engine, stack) == ["EXPIRY_WARNING", "EXPIRY_HELD"]
        (action,) = engine.store.actions.live([stack.id])
        assert action.control is None
        engine.cancel(stack, rollback=False)
        after(engine, 60)
        assert of(engine, stack) == (ExpiryState.WARNED, None)

    @pytest.mark.parametrize("error", [Forbidden(action="stacks:expire"), NoCredential(stack_name="s", user="mia")])
    def test_by_a_right_that_was_lost(self, engine: Engine, stack: StackRecord, error: Forbidden) -> None:
        expire(engine, stack, 60)
        sweep(engine)

        def lost(_record: ExpiryRecord, _stack: StackRecord) -> Context:
            raise error

        engine.components.of(Expiries).sweep._author_of = lost
        after(engine, 60)
        assert of(engine, stack)[0] is ExpiryState.HELD
        assert of(engine, stack)[1] in ("Forbidden", "no_credential")


class TestRequests:
    def test_what_cannot_be(self, engine: Engine, stack: StackRecord) -> None:
        with pytest.raises(HTTPBadRequest, match="expires_at: is 20"):
            expire(engine, stack, 59)
        group = resource("OS::Heat::ResourceGroup", count=1, resource_def=thing())
        (below,) = engine.store.stacks.descendants(engine.create(template(g=group), name="t"))
        with pytest.raises(HTTPBadRequest, match="nested"):
            expire(engine, below, HOUR)
        engine.delete(stack)
        with pytest.raises(StackNotFound):
            expire(engine, stack, HOUR)

    @pytest.mark.parametrize(
        ("then", "rule"),
        few([(Then.DELETE, "stacks:delete"), (Then.SUSPEND, "actions:suspend"), (Then.DELETE, "stacks:expire")]),
    )
    def test_who_may(self, engine: Engine, stack: StackRecord, then: Then, rule: str) -> None:
        nobody = replace(MEMBER, may=lambda asked: asked != rule)
        wanted = WantedExpiry(START + DAY, then, (HOUR,))
        with pytest.raises(Forbidden):
            engine.components.of(Expiries).operations.put(nobody, stack, wanted)

    def test_it_ends_with_the_stack(self, engine: Engine, stack: StackRecord) -> None:
        expire(engine, stack, HOUR)
        engine.delete(stack)
        assert expiry(engine, stack) is None

    def test_a_change_that_another_engine_was_faster_with_writes_nothing(
        self, engine: Engine, stack: StackRecord
    ) -> None:
        record = expire(engine, stack, 60)
        run = engine.components.of(Expiries).sweep.run
        run([record, record])
        run([record])
        assert told(engine, stack) == ["EXPIRY_WARNING"]
        engine.clock.pass_(60)
        due = engine.store.of(ExpiryStore).due(engine.clock.now())
        run([*due, *due])
        engine.wait_for(lambda: engine.get(stack).deleted_at is not None)
        actions = engine.store.database.read("SELECT status FROM action WHERE verb = 'DELETE'")
        assert [*actions] == [(ActionStatus.SUCCEEDED,)]


@pytest.mark.parametrize("then", few([Then.DELETE, Then.SUSPEND]))
def test_killed_at_each_write(engine: Engine, stack: StackRecord, then: Then, monkeypatch: pytest.MonkeyPatch) -> None:
    """One warning and one action, wherever the engine is killed."""
    record = expire(engine, stack, 60, then)
    monkeypatch.setattr(ExpiryStore, "due", lambda *_: [])  # the engine itself does nothing
    sweeps = engine.components.of(Expiries).sweep
    kills = [*killed_at_each_write(monkeypatch, lambda: sweeps.run([record]))]
    assert len(kills) > 1
    assert (of(engine, stack), told(engine, stack)) == ((ExpiryState.WARNED, None), ["EXPIRY_WARNING"])
    engine.clock.pass_(60)
    warned = expiry(engine, stack)
    assert warned is not None
    kills = [*killed_at_each_write(monkeypatch, lambda: sweeps.run([warned]))]
    assert len(kills) > 3
    sweeps.run([warned])  # another engine had read it, too
    verb = then.value.upper()
    engine.wait_for(lambda: engine.store.actions.last(stack.id, Verb(verb)) is not None)
    assert [*engine.store.database.read(f"SELECT status FROM action WHERE verb = '{verb}'")] == [("SUCCEEDED",)]
    assert told(engine, stack) == ["EXPIRY_WARNING"]


def test_one_that_breaks_keeps_no_other_waiting(
    engine: Engine, stack: StackRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = engine.create(template(a=thing()), name="other")
    with engine.clock.held():
        for one in (stack, other):
            expire(engine, one, 2 * HOUR)
        looks = engine.components.of(Expiries).sweep
        warn = looks._warn

        def broken(seen: StackRecord, *records: ExpiryRecord) -> None:
            if seen.id == stack.id:
                raise KeyError("a defect")
            warn(seen, *records)

        monkeypatch.setattr(looks, "_warn", broken)
        after(engine, HOUR)
        assert (told(engine, stack), told(engine, other)) == ([], ["EXPIRY_WARNING"])
        monkeypatch.undo()
        after(engine, LOOK_AGAIN)
        assert told(engine, stack) == ["EXPIRY_WARNING"]
