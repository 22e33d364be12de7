"""The maintenance lock."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.context import Context
from heatlite.core.errors import (
    Forbidden,
    HTTPBadRequest,
    InvalidStackState,
    NotFound,
    NotSupported,
    StackLocked,
)
from heatlite.core.ids import new_id
from heatlite.core.status import ActionStatus, LockLevel, Status, Verb, state
from heatlite.core.wire.locks import LockOptions
from heatlite.store.records import ActionRecord, StackRecord
from tests.tables import few, sampled

from .conftest import ADMIN, MEMBER, START, Engine, ref, resource, template, thing

TEST = "OS::Heat::TestResource"
ALL, STACKS = LockLevel.ALL, LockLevel.STACKS


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def locked(engine: Engine, stack: StackRecord) -> dict[str, Any]:
    """The objects that are locked themselves."""
    return {row.name: row.data.get("locked", False) for row in engine.rows(stack)}


class TestLevels:
    def test_all(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), b=thing(ref("a")), v=resource("OS::Heat::Value", value=ref("b"))))
        mark = engine.now_on(stack)
        stack = engine.lock(stack)
        assert (final(stack), stack.status_reason) == ("LOCK_COMPLETE", "Stack LOCK completed successfully")
        assert engine.told(stack, mark) == [
            "s LOCK_IN_PROGRESS",
            "v LOCK_IN_PROGRESS",
            "v LOCK_COMPLETE",
            "b LOCK_IN_PROGRESS",
            "b LOCK_COMPLETE",
            "a LOCK_IN_PROGRESS",
            "a LOCK_COMPLETE",
            "s LOCK_COMPLETE",
        ]
        assert locked(engine, stack) == {"a": True, "b": True, "v": False}
        mark = engine.now_on(stack)
        stack = engine.unlock(stack)
        assert (final(stack), stack.lock) == ("UNLOCK_COMPLETE", None)
        assert engine.told(stack, mark) == [
            "s UNLOCK_IN_PROGRESS",
            "a UNLOCK_IN_PROGRESS",
            "a UNLOCK_COMPLETE",
            "b UNLOCK_IN_PROGRESS",
            "b UNLOCK_COMPLETE",
            "v UNLOCK_IN_PROGRESS",
            "v UNLOCK_COMPLETE",
            "s UNLOCK_COMPLETE",
        ]
        assert not any(locked(engine, stack).values())

    def test_stacks_touches_no_resource(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing()))
        rows, mark = engine.rows(stack), engine.now_on(stack)
        stack = engine.lock(stack, STACKS)
        assert final(stack) == "LOCK_COMPLETE"
        stack = engine.unlock(stack)
        assert final(stack) == "UNLOCK_COMPLETE"
        assert engine.rows(stack) == rows
        assert engine.told(stack, mark) == [
            "s LOCK_IN_PROGRESS", "s LOCK_COMPLETE", "s UNLOCK_IN_PROGRESS", "s UNLOCK_COMPLETE",
        ]  # fmt: skip

    def test_from_one_to_the_other_and_back(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template(a=thing())), STACKS)
        assert locked(engine, stack) == {"a": False}
        stack = engine.lock(stack, ALL)
        assert (final(stack), locked(engine, stack)) == ("LOCK_COMPLETE", {"a": True})
        stack = engine.lock(stack, STACKS)
        assert (final(stack), locked(engine, stack)) == ("LOCK_COMPLETE", {"a": False})
        assert stack.lock is not None
        assert stack.lock.level is STACKS
        assert engine.states(stack) == {"a": "UNLOCK_COMPLETE"}

    def test_reason_and_expiry_change_without_touching_a_resource(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template(a=thing())), ALL, "one")
        rows = engine.rows(stack)
        stack = engine.lock(stack, ALL, "two", START + 100)
        assert stack.lock is not None
        assert (stack.lock.reason, stack.lock.expires_at) == ("two", START + 100)
        assert engine.rows(stack) == rows

    def test_the_record(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template()), STACKS, "upgrade")
        lock = stack.lock
        assert lock is not None
        assert (lock.level, lock.locked_by, lock.by_admin, lock.locked_at, lock.reason, lock.expires_at) == (
            STACKS, "mia", False, START, "upgrade", None,
        )  # fmt: skip

    def test_slow_ones_at_once(self, engine: Engine) -> None:
        slow = {"lock": 10, "unlock": 20}
        stack = engine.create(template(a=thing(action_wait_secs=slow), b=thing(action_wait_secs=slow)))
        engine.lock(stack)
        assert engine.clock.now() == START + 10
        engine.unlock(stack)
        assert engine.clock.now() == START + 30


class TestNothingIsForgotten:
    @pytest.mark.parametrize(
        ("verb", "status"),
        few(
            [
                (Verb.CREATE, Status.FAILED),
                (Verb.UPDATE, Status.FAILED),
                (Verb.CHECK, Status.FAILED),
                (Verb.SUSPEND, Status.COMPLETE),
                (Verb.SUSPEND, Status.FAILED),
                (Verb.RESUME, Status.FAILED),
            ]
        ),
    )
    @pytest.mark.parametrize("level", sampled(list(LockLevel), 3, pytest.mark.thorough))
    def test_a_state_that_matters_comes_back(
        self, engine: Engine, verb: Verb, status: Status, level: LockLevel
    ) -> None:
        stack = engine.create(template(a=thing(), b=thing()))
        engine.put_row(stack, "a", verb, status, "for a reason")
        engine.lock(stack, level)
        mark = engine.now_on(stack)
        engine.unlock(stack)
        row = engine.row(stack, "a")
        assert (row.verb, row.status, row.status_reason) == (verb, status, "for a reason")
        assert row.before_lock is None
        assert engine.states(stack)["b"] == ("UNLOCK_COMPLETE" if level is ALL else "CREATE_COMPLETE")
        assert (f"a {state(verb, status)}" in engine.told(stack, mark)) == (level is ALL)

    @pytest.mark.parametrize("verb", few([Verb.CREATE, Verb.UPDATE, Verb.CHECK, Verb.RESUME, Verb.UNLOCK]))
    def test_others_end_unlocked(self, engine: Engine, verb: Verb) -> None:
        stack = engine.create(template(a=thing()))
        engine.put_row(stack, "a", verb, Status.COMPLETE)
        engine.unlock(engine.lock(stack))
        assert engine.states(stack) == {"a": "UNLOCK_COMPLETE"}

    def test_through_changes_of_level_and_failures(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(fail_lock=True), b=thing(fail_unlock=True)))
        engine.mark(stack, "a", reason="a is bad")
        engine.mark(stack, "b", reason="b is bad")
        for _ in range(2):
            engine.lock(stack, ALL)  # LOCK_FAILED for a
        engine.lock(stack, STACKS)  # UNLOCK_FAILED for b
        assert engine.states(stack)["b"] == "UNLOCK_FAILED"
        engine.unlock(stack)
        engine.unlock(stack)
        assert engine.row(stack, "a").status_reason == "a is bad"
        before = engine.row(stack, "b").before_lock
        assert before is not None
        assert (before.verb, before.status, before.status_reason) == (Verb.CHECK, Status.FAILED, "b is bad")

    def test_an_unhealthy_one_is_replaced_after_the_unlock(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), b=thing(ref("a"))))
        before = engine.ids(stack)
        engine.mark(stack, "a", reason="bad")
        engine.lock(stack)
        assert engine.states(stack)["a"] == "LOCK_COMPLETE"
        engine.unlock(stack)
        assert engine.row(stack, "a").status_reason == "bad"
        stack = engine.patch(stack)
        after = engine.ids(stack)
        assert (after["a"] != before["a"], after["b"] == before["b"]) == (True, True)
        assert engine.value(stack, "b") == engine.row(stack, "a").physical_id

    def test_one_that_was_never_made(self, engine: Engine) -> None:
        stack = engine.create(template(boom=thing(fail=True), never=thing(depends_on="boom")))
        engine.lock(stack)
        assert engine.states(stack) == {"boom": "LOCK_COMPLETE", "never": "INIT_COMPLETE"}
        engine.unlock(stack)
        assert engine.states(stack) == {"boom": "CREATE_FAILED", "never": "INIT_COMPLETE"}

    def test_a_lock_changes_no_object_of_the_template(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), b=thing(ref("a")), c=resource("OS::Heat::RandomString")))
        ids = engine.ids(stack)
        engine.unlock(engine.lock(stack))
        mark = engine.now_on(stack)
        assert final(engine.patch(stack)) == "UPDATE_COMPLETE"
        assert (engine.ids(stack), engine.told(stack, mark)) == (ids, ["s UPDATE_IN_PROGRESS", "s UPDATE_COMPLETE"])

    @pytest.mark.parametrize("level", few(list(LockLevel)))
    def test_a_suspended_stack_is_resumed(self, engine: Engine, level: LockLevel) -> None:
        stack = engine.suspend(engine.create(template(a=thing(), b=thing(ref("a")))))
        stack = engine.unlock(engine.lock(stack, level))
        with pytest.raises(NotSupported, match=r"UNLOCK_COMPLETE \(before its lock: SUSPEND_COMPLETE\)"):
            engine.patch(stack)
        mark = engine.now_on(stack)
        engine.suspend(stack)
        assert engine.told(stack, mark) == [], "it is suspended"
        assert final(engine.resume(stack)) == "RESUME_COMPLETE"
        stack = engine.unlock(engine.lock(stack, level))
        mark = engine.now_on(stack)
        engine.resume(stack)
        assert engine.told(stack, mark) == []
        assert final(engine.patch(stack)) == "UPDATE_COMPLETE"

    @pytest.mark.parametrize("level", list(LockLevel))
    def test_a_failed_resume_is_gone_on_with(self, engine: Engine, level: LockLevel) -> None:
        stack = engine.suspend(engine.create(template(a=thing(), b=thing(ref("a")))))
        engine.put_row(stack, "a", Verb.RESUME, Status.COMPLETE)
        engine.put_row(stack, "b", Verb.RESUME, Status.FAILED)
        stack = engine.put_stack(stack, Verb.RESUME, Status.FAILED)
        stack = engine.unlock(engine.lock(stack, level))
        mark = engine.now_on(stack)
        assert final(engine.resume(stack)) == "RESUME_COMPLETE"
        assert engine.told(stack, mark)[1:-1] == ["b RESUME_IN_PROGRESS", "b RESUME_COMPLETE"]

    @pytest.mark.parametrize("level", few(list(LockLevel)))
    @pytest.mark.parametrize("verb", few([Verb.CREATE, Verb.UPDATE]))
    def test_a_retry_does_what_it_would_have_done(self, engine: Engine, verb: Verb, level: LockLevel) -> None:
        told = []
        for name, locks in (("plain", False), ("locked", True)):
            boom = {"value": ref("a"), "fail": True}
            parts = {"a": thing(), "b": thing(depends_on="a"), "boom": resource(TEST, depends_on="b", **boom)}
            if verb is Verb.CREATE:
                stack = engine.create(template(**parts), name)
            else:
                stack = engine.create(template(a=thing(), b=thing()), name)
                stack = engine.put(stack, template(**{**parts, "a": thing("other")}))
            assert final(stack) == f"{verb}_FAILED"
            if locks:
                stack = engine.unlock(engine.lock(stack, level))
            mark = engine.now_on(stack)
            engine.stacks.retry(engine.who, stack)
            assert final(engine.settle(stack)) == f"{verb}_FAILED"
            told.append([line.replace(name, "s") for line in engine.told(stack, mark)])
        assert told[0] == told[1]
        assert not any(line.startswith(("a ", "b ")) for line in told[0])

    def test_attributes_stay_readable(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), outputs={"o": {"get_attr": ["a", "output"]}}))
        engine.lock(stack)
        assert engine.outputs(stack) == {"o": "v"}


class TestFailures:
    def test_a_lock_that_fails(self, engine: Engine) -> None:
        stack = engine.create(
            template(a=thing(), boom=thing(fail_lock=True, depends_on="a"), c=thing(depends_on="boom"))
        )
        mark = engine.now_on(stack)
        stack = engine.lock(stack)
        assert final(stack) == "LOCK_FAILED"
        assert stack.status_reason == "Resource LOCK failed: ValueError: resources.boom: Test Resource failed boom"
        assert engine.states(stack) == {"a": "LOCK_COMPLETE", "boom": "LOCK_FAILED", "c": "LOCK_COMPLETE"}
        assert engine.told(stack, mark)[-1] == "s LOCK_FAILED"
        assert stack.lock is not None
        # Again: only what has failed is tried again.
        mark = engine.now_on(stack)
        stack = engine.lock(stack)
        assert engine.told(stack, mark) == [
            "s LOCK_IN_PROGRESS", "boom LOCK_IN_PROGRESS", "boom LOCK_FAILED", "s LOCK_FAILED",
        ]  # fmt: skip
        stack = engine.unlock(stack)
        assert (final(stack), stack.lock) == ("UNLOCK_COMPLETE", None)
        assert set(engine.states(stack).values()) == {"UNLOCK_COMPLETE"}
        assert not any(locked(engine, stack).values())

    def test_an_unlock_that_fails(self, engine: Engine) -> None:
        stack = engine.create(
            template(a=thing(), boom=thing(fail_unlock=True, depends_on="a"), c=thing(depends_on="boom"))
        )
        engine.lock(stack)
        stack = engine.unlock(stack)
        assert final(stack) == "UNLOCK_FAILED"
        assert stack.status_reason == "Resource UNLOCK failed: ValueError: resources.boom: Test Resource failed boom"
        assert engine.states(stack) == {"a": "UNLOCK_COMPLETE", "boom": "UNLOCK_FAILED", "c": "UNLOCK_COMPLETE"}
        assert stack.lock is not None
        with pytest.raises(StackLocked, match="UNLOCK_FAILED"):
            engine.lock(stack)
        mark = engine.now_on(stack)
        engine.unlock(stack)
        assert engine.told(stack, mark) == [
            "s UNLOCK_IN_PROGRESS", "boom UNLOCK_IN_PROGRESS", "boom UNLOCK_FAILED", "s UNLOCK_FAILED",
        ]  # fmt: skip

    @pytest.mark.parametrize("fail", few(["fail_lock", "fail_unlock"]))
    def test_delete_releases_what_is_held(self, engine: Engine, plugins: Path, fail: str) -> None:
        stack = engine.create(template(a=thing(**{fail: True}), f=resource("Example::Local::File")))
        stack = engine.lock(stack)
        if fail == "fail_unlock":
            stack = engine.unlock(stack)
        assert stack.status is Status.FAILED
        mark = engine.now_on(stack)
        stack = engine.delete(stack)
        assert (final(stack), stack.lock) == ("DELETE_COMPLETE", None)
        assert engine.rows(stack) == []
        assert [path.name for path in plugins.iterdir()] == ["journal"]
        told = engine.told(stack, mark)
        assert told.index("a UNLOCK_IN_PROGRESS") < told.index("a DELETE_IN_PROGRESS")

    def test_a_delete_that_fails_leaves_no_lock(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(fail_lock=True, action_wait_secs={"delete": -1})), timeout_mins=1)
        engine.lock(stack)
        stack = engine.delete(stack)
        assert (final(stack), stack.lock) == ("DELETE_FAILED", None)
        with pytest.raises(InvalidStackState):
            engine.unlock(stack)

    def test_one_that_takes_too_long(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(action_wait_secs={"lock": -1}), b=thing(depends_on="a")), timeout_mins=1)
        stack = engine.lock(stack)
        assert (final(stack), stack.status_reason) == ("LOCK_FAILED", "Timed out")
        assert engine.states(stack) == {"a": "LOCK_FAILED", "b": "LOCK_COMPLETE"}
        assert final(engine.unlock(stack)) == "UNLOCK_COMPLETE"


class TestRestoreNeverClear:
    """The example's objects are files, and a second file beside one is its lock."""

    def test_a_lock_of_somebody_else_survives(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("Example::Local::File"), b=resource("Example::Local::File")))
        flags = {name: Path(f"{engine.row(stack, name).physical_id}.lock") for name in "ab"}
        flags["a"].touch()
        engine.lock(stack)
        assert [flags[name].exists() for name in "ab"] == [True, True]
        engine.lock(stack, STACKS)
        assert [flags[name].exists() for name in "ab"] == [True, False]
        engine.lock(stack, ALL)
        engine.lock(stack, ALL, "again")
        engine.unlock(stack)
        assert [flags[name].exists() for name in "ab"] == [True, False]

    def test_a_repeated_lock_does_not_take_its_own_for_another(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("Example::Local::File"), boom=thing(fail_lock=True)))
        flag = Path(f"{engine.row(stack, 'a').physical_id}.lock")
        for _ in range(3):
            assert final(engine.lock(stack)) == "LOCK_FAILED"
        assert flag.exists()
        engine.unlock(stack)
        assert not flag.exists()


class TestStates:
    def test_a_failed_delete_can_be_locked(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(action_wait_secs={"delete": -1}), b=thing()), timeout_mins=1)
        assert final(engine.delete(stack)) == "DELETE_FAILED"
        assert final(engine.lock(stack)) == "LOCK_COMPLETE"
        assert engine.states(stack) == {"a": "DELETE_FAILED"}
        assert final(engine.unlock(stack)) == "UNLOCK_COMPLETE"

    def test_after_a_rollback(self, engine: Engine) -> None:
        """A lock in between does not make a rollback forget where to go."""
        stack = engine.create(template(a=thing(), boom=thing(fail=True)), disable_rollback=False)
        engine.unlock(engine.lock(stack))
        stack = engine.patch(stack)
        assert final(stack) == "ROLLBACK_COMPLETE"
        assert engine.rows(stack) == []

    def test_after_a_failed_update(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("1"), b=thing("1")))
        reached = stack.template_id
        engine.put(stack, template(a=thing("2"), b=thing("2", fail=True)))
        engine.unlock(engine.lock(stack))
        engine.check(stack)
        stack = engine.patch(stack, disable_rollback=False)
        assert final(stack) == "ROLLBACK_COMPLETE"
        assert stack.template_id == reached


class TestExpiry:
    @pytest.mark.slow
    def test_the_engine_unlocks_by_itself(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template(a=thing())), expires_at=START + 100)
        engine.components.maintenance.expire_locks()
        assert final(engine.get(stack)) == "LOCK_COMPLETE"
        engine.clock.pass_(99)
        engine.components.maintenance.expire_locks()
        assert final(engine.get(stack)) == "LOCK_COMPLETE"
        mark = engine.now_on(stack)
        engine.clock.pass_(1)
        engine.wait_for(lambda: engine.get(stack).lock is None)
        stack = engine.settle(stack)
        assert final(stack) == "UNLOCK_COMPLETE"
        assert engine.told(stack, mark) == [
            "s UNLOCK_IN_PROGRESS", "a UNLOCK_IN_PROGRESS", "a UNLOCK_COMPLETE", "s UNLOCK_COMPLETE",
        ]  # fmt: skip

    @pytest.mark.slow
    def test_what_cannot_be_lifted_yet_is_told_once(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        stacks, tries = engine.server.store.stacks, []
        look = stacks.expired_locks
        monkeypatch.setattr(stacks, "expired_locks", lambda now: (tries.append(now), look(now))[1])
        stack = engine.lock(engine.create(template(a=thing())), expires_at=START + 100)
        queued = ActionRecord(
            id=new_id(), stack_id=stack.id, root_id=stack.id, project=stack.project, verb=Verb.RUN, pending=1,
            status=ActionStatus.WAITING, requested_by="mia", created_at=engine.clock.now(),
        )  # fmt: skip
        engine.by_hand = True
        with engine.store.transaction():
            engine.store.queue.enqueue(queued)
        with caplog.at_level(logging.INFO, "heatlite.engine.operations.maintenance_lock"):
            engine.clock.pass_(100)
            before = len(tries)
            engine.wait_for(lambda: len(tries) > before + 4)
            assert [queued.id in line for line in caplog.messages if "expired lock not lifted yet" in line] == [True]
        with engine.store.transaction():
            engine.store.controls.cancel_queued([stack.id], "enough", engine.clock.now())
        engine.wait_for(lambda: engine.get(stack).lock is None)
        assert final(engine.settle(stack)) == "UNLOCK_COMPLETE"

    def test_a_lock_that_was_prolonged_meanwhile_stays(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        """The engine has read the lock before the request, and admits the unlock after it."""
        found = engine.lock(engine.create(template(a=thing())), expires_at=START + 100)
        stack = engine.lock(found, expires_at=START + 500)
        monkeypatch.setattr(engine.store.stacks, "expired_locks", lambda now: [found])
        engine.components.maintenance.expire_locks()
        stack = engine.settle(stack)
        assert final(stack) == "LOCK_COMPLETE"
        assert stack.lock is not None and stack.lock.expires_at == START + 500

    @pytest.mark.slow
    def test_while_the_process_was_down(self, engine: Engine) -> None:
        engine.who = ADMIN
        stack = engine.lock(engine.create(template(a=thing())), expires_at=START + 100)
        engine.close()
        engine.clock.pass_(1000)
        engine.open()
        engine.wait_for(lambda: engine.get(stack).lock is None)
        assert final(engine.settle(stack)) == "UNLOCK_COMPLETE"
        assert locked(engine, stack) == {"a": False}

    def test_a_lock_that_failed_expires_too(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template(a=thing(fail_lock=True))), expires_at=START + 100)
        assert final(stack) == "LOCK_FAILED"
        engine.clock.pass_(100)
        engine.components.maintenance.expire_locks()
        assert final(engine.settle(stack)) == "UNLOCK_COMPLETE"

    def test_an_unlock_that_failed_is_for_a_person_to_look_at(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template(a=thing(fail_unlock=True))), expires_at=START + 100)
        engine.clock.pass_(100)
        engine.components.maintenance.expire_locks()
        assert final(engine.settle(stack)) == "UNLOCK_FAILED"
        mark = engine.now_on(stack)
        engine.components.maintenance.expire_locks()
        assert engine.told(stack, mark) == []

    def test_a_later_one_counts(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template()), expires_at=START + 100)
        engine.lock(stack)
        engine.clock.pass_(1000)
        engine.components.maintenance.expire_locks()
        assert final(engine.get(stack)) == "LOCK_COMPLETE"

    @pytest.mark.parametrize("seconds", [0, -1])
    def test_it_lies_in_the_future(self, engine: Engine, seconds: float) -> None:
        stack = engine.create(template())
        with pytest.raises(HTTPBadRequest, match="expires_at"):
            engine.lock(stack, expires_at=START + seconds)
        assert engine.get(stack) == stack


class TestWho:
    def test_an_administrators_lock_is_the_administrators(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(fail_lock=True)))
        engine.who = ADMIN
        stack = engine.lock(stack)
        engine.who = MEMBER
        # LOCK_FAILED: unlock, lock and delete are open, but not to everybody.
        for attempt in (engine.unlock, engine.lock, engine.delete):
            with pytest.raises(Forbidden, match="administrator"):
                attempt(stack)
        assert engine.get(stack) == stack
        with pytest.raises(StackLocked, match=r"by ada.* only an administrator can lift it: ask one\.$"):
            engine.check(stack)
        engine.who = ADMIN
        with pytest.raises(StackLocked, match=r"does not expire\. To lift it: heatlite unlock s, or"):
            engine.check(stack)
        assert final(engine.unlock(stack)) == "UNLOCK_COMPLETE"
        engine.who = MEMBER
        assert final(engine.delete(stack)) == "DELETE_COMPLETE"

    def test_an_administrator_lifts_any(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template()))
        engine.who = ADMIN
        assert final(engine.unlock(stack)) == "UNLOCK_COMPLETE"

    def test_what_counts_is_the_lock_as_it_is_now(self, engine: Engine) -> None:
        """An administrator takes over the lock between the check and the unlock."""
        seen = engine.lock(engine.create(template()))
        engine.components.maintenance.lock(ADMIN, seen, LockOptions())
        stack = engine.settle(seen)
        with pytest.raises(Forbidden):
            engine.components.maintenance.unlock(MEMBER, seen)
        assert engine.get(stack) == stack


class TestRefusals:
    def test_the_text_says_what_to_do(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template(a=thing())), ALL, "the disks are replaced", START + 3600)
        with pytest.raises(StackLocked) as caught:
            engine.patch(stack)
        text = caught.value.message
        for part in (
            "Stack s is under maintenance (LOCK_COMPLETE)",
            "update is refused",
            "level 'all'",
            "since 2027-01-15T08:00:00Z",
            "by mia",
            "the disks are replaced",
            "expires at 2027-01-15T09:00:00Z",
            "heatlite unlock s, or openstack stack unlock s",
        ):
            assert part in text
        engine.lock(stack, STACKS)
        with pytest.raises(StackLocked, match="no reason given, does not expire"):
            engine.patch(stack)

    def test_a_locked_stack_is_refused_before_the_request_is_judged(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template(a=thing())))
        with pytest.raises(StackLocked):
            engine.put(stack, template(a=thing(zz=1)))

    def test_every_request_is_kept_once(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template(a=thing(), b=thing())))

        def refused(attempt: Callable[[], object]) -> None:
            with pytest.raises(StackLocked):
                attempt()

        for _ in range(3):
            refused(lambda: engine.mark(stack, "a"))
            refused(lambda: engine.patch(stack, body={"parameters": {"p": 1}}))
        refused(lambda: engine.mark(stack, "b"))
        refused(lambda: engine.mark(stack, "a", reason="another one"))
        refused(lambda: engine.delete(stack))
        engine.who = Context("demo", user="zoe")
        refused(lambda: engine.mark(stack, "a"))
        kept = engine.store.suppressed.list(stack.id)
        assert [(entry.request, entry.target, entry.requested_by) for entry in kept] == [
            ("mark_unhealthy", "a", "mia"),
            ("update", "s", "mia"),
            ("mark_unhealthy", "b", "mia"),
            ("mark_unhealthy", "a", "mia"),
            ("delete", "s", "mia"),
            ("mark_unhealthy", "a", "zoe"),
        ]
        assert (kept[1].method, kept[1].path, kept[1].body) == ("PATCH", "", {"parameters": {"p": 1}})
        assert all(entry.time == engine.clock.now() for entry in kept)
        assert "under maintenance" in kept[0].detail

    @pytest.mark.slow
    def test_once_for_each_lock_and_process(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing()))
        for expected in (1, 2):
            engine.clock.pass_(1)
            engine.lock(stack)
            for _ in range(2):
                with pytest.raises(StackLocked):
                    engine.mark(stack, "a")
                engine.close()
                engine.open()
            engine.unlock(stack)
            assert len(engine.store.suppressed.list(stack.id)) == expected

    @pytest.mark.slow
    def test_what_was_dropped_is_kept_when_it_comes_again(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template(a=thing())))
        for _ in range(2):
            with pytest.raises(StackLocked):
                engine.mark(stack, "a")
            (entry,) = engine.store.suppressed.list(stack.id)
            engine.components.maintenance.drop_suppressed(engine.who, stack, entry.id)
            assert engine.store.suppressed.list(stack.id) == []
        with pytest.raises(NotFound):
            engine.components.maintenance.drop_suppressed(engine.who, stack, entry.id)

    def test_nothing_fires_at_the_unlock(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template(a=thing())))
        with pytest.raises(StackLocked):
            engine.mark(stack, "a")
        with pytest.raises(StackLocked):
            engine.delete(stack)
        mark = engine.now_on(stack)
        stack = engine.unlock(stack)
        assert engine.told(stack, mark)[-1] == "s UNLOCK_COMPLETE"
        assert engine.states(stack) == {"a": "UNLOCK_COMPLETE"}
        assert len(engine.store.suppressed.list(stack.id)) == 2

    def test_nothing_is_left_of_a_stack_that_is_gone(self, engine: Engine) -> None:
        stack = engine.lock(engine.create(template(a=thing())))
        with pytest.raises(StackLocked):
            engine.patch(stack, parameters={"password": "secret"})
        assert engine.store.suppressed.list(stack.id)
        engine.delete(engine.unlock(stack))
        assert engine.store.suppressed.list(stack.id) == []

    def test_everything_is_in_the_audit_log(self, engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
        stack = engine.create(template(a=thing()))
        with caplog.at_level(logging.INFO, "heatlite.audit"):
            engine.lock(stack, STACKS, "why not")
            for _ in range(2):
                with pytest.raises(StackLocked):
                    engine.mark(stack, "a")
            engine.unlock(stack)
        said = [record.getMessage() for record in caplog.records if record.name == "heatlite.audit"]
        assert [text.split()[0] for text in said] == ["lock", "refused", "refused", "unlock"]
        assert all(f"stack={stack.id}" in text and "by=mia" in text for text in said)
        assert "why not" in said[0]

    def test_a_repeated_refusal_waits_for_no_row(self, engine: Engine) -> None:
        """Repeated requests to a locked stack write nothing: they are refused by reads."""
        stack = engine.lock(engine.create(template(a=thing())))

        def mark() -> None:
            with closing(engine.store):  # the connection of this thread
                engine.components.health.mark(engine.who, stack, "a", True, None)

        with ThreadPoolExecutor(1) as other:
            with pytest.raises(StackLocked):
                other.submit(mark).result()
            with engine.store.transaction():
                engine.store.stacks.lock(stack.id)
                for _ in range(3):
                    with pytest.raises(StackLocked):
                        other.submit(mark).result()


@pytest.mark.parametrize("level", few(LockLevel))
def test_a_mark_is_taken_back_under_a_lock(engine: Engine, level: LockLevel) -> None:
    """Afterwards the resource is as it was before the mark, and no update replaces it."""
    stack = engine.create(template(a=thing()))
    before = engine.ids(stack)
    engine.mark(stack, "a")
    stack = engine.lock(stack, level)
    engine.mark(stack, "a", unhealthy=False)
    stack = engine.unlock(stack)
    row = engine.row(stack, "a")
    assert (row.status, row.health) == (Status.COMPLETE, None)
    assert engine.ids(engine.patch(stack)) == before
