"""Suspend and resume."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import NotSupported
from heatlite.core.status import Status, Verb, state
from heatlite.store.records import StackRecord
from tests.tables import few, sampled

from .conftest import Engine, ref, resource, template, thing


def final(stack: StackRecord) -> tuple[str, str]:
    return state(stack.verb, stack.status), stack.status_reason


def file(**more: Any) -> Any:
    return resource("Example::Local::File", **more)


def delay(seconds: float, *actions: str, **more: Any) -> Any:
    return resource("OS::Heat::Delay", min_wait=seconds, actions=list(actions), **more)


def mode(engine: Engine, stack: StackRecord, name: str) -> int:
    """The permissions of an example file: what it shows of being suspended."""
    return Path(engine.row(stack, name).physical_id or "").stat().st_mode & 0o777


CHAIN = template(a=file(), b=thing(ref("a")), c=delay(5, "SUSPEND", "RESUME", depends_on="b"))


def test_there_in_reverse_order_and_back(engine: Engine) -> None:
    stack = engine.create(CHAIN)
    before, mark = engine.clock.now(), engine.now_on(stack)
    stack = engine.suspend(stack)
    assert final(stack) == ("SUSPEND_COMPLETE", "Stack SUSPEND completed successfully")
    steps = [f"{name} SUSPEND_{status}" for name in "cba" for status in ("IN_PROGRESS", "COMPLETE")]
    assert engine.told(stack, mark) == ["s SUSPEND_IN_PROGRESS", *steps, "s SUSPEND_COMPLETE"]
    assert (engine.clock.now() - before, mode(engine, stack, "a")) == (5, 0o400)

    before, mark = engine.clock.now(), engine.now_on(stack)
    stack = engine.resume(stack)
    assert final(stack) == ("RESUME_COMPLETE", "Stack RESUME completed successfully")
    steps = [f"{name} RESUME_{status}" for name in "abc" for status in ("IN_PROGRESS", "COMPLETE")]
    assert engine.told(stack, mark) == ["s RESUME_IN_PROGRESS", *steps, "s RESUME_COMPLETE"]
    assert (engine.clock.now() - before, mode(engine, stack, "a")) == (5, 0o600)


def test_a_second_one_does_nothing(engine: Engine) -> None:
    stack = engine.suspend(engine.create(CHAIN))
    events = engine.events(stack)
    assert engine.suspend(stack) == stack
    assert engine.events(stack) == events
    stack = engine.resume(stack)
    events = engine.events(stack)
    assert engine.resume(stack) == stack
    assert engine.events(stack) == events


def test_a_suspended_stack_is_read_and_not_updated(engine: Engine) -> None:
    stack = engine.create(template(a=thing("x"), outputs={"o": {"get_attr": ["a", "output"]}}))
    stack = engine.suspend(stack)
    assert engine.outputs(stack) == {"o": "x"}
    with pytest.raises(NotSupported, match="SUSPEND_COMPLETE"):
        engine.patch(stack)
    stack = engine.resume(stack)
    before = engine.ids(stack)
    assert final(engine.put(stack, template(a=thing("y"))))[0] == "UPDATE_COMPLETE"
    assert engine.ids(stack) == before


@pytest.mark.parametrize("operation", ["suspend", "resume"])
def test_what_was_never_made_is_passed_over(engine: Engine, operation: str) -> None:
    stack = engine.create(template(a=thing(), never=thing(depends_on="boom"), boom=thing(fail=True)))
    engine.put_row(stack, "boom", Verb.SUSPEND, Status.COMPLETE)
    engine.put_row(stack, "a", Verb.SUSPEND, Status.COMPLETE)
    stack = getattr(engine, operation)(stack)
    assert stack.status is Status.COMPLETE
    assert engine.states(stack)["never"] == "INIT_COMPLETE"


GOOD = {
    "suspend": {
        *(state(verb, Status.COMPLETE) for verb in Verb if verb not in (Verb.INIT, Verb.DELETE)),
        "SUSPEND_FAILED",
    },
    "resume": {"SUSPEND_COMPLETE", "RESUME_COMPLETE", "RESUME_FAILED"},
}


@pytest.mark.parametrize(
    ("verb", "status"),
    sampled(
        [(verb, status) for verb in Verb for status in (Status.COMPLETE, Status.FAILED) if verb is not Verb.INIT],
        13,
        pytest.mark.thorough,
    ),
)
@pytest.mark.parametrize("operation", few(["suspend", "resume"]))
def test_from_which_states(engine: Engine, operation: str, verb: Verb, status: Status) -> None:
    stack = engine.create(template(a=thing()))
    engine.put_row(stack, "a", verb, status)
    stack = getattr(engine, operation)(stack)
    now = state(verb, status)
    if now in GOOD[operation]:
        assert final(stack)[0] == f"{operation.upper()}_COMPLETE"
        assert engine.states(stack) == {"a": f"{operation.upper()}_COMPLETE"}
        return
    why = f"Error: resources.a: State ('{verb}', '{status}') invalid for {operation}"
    if operation == "resume" and now in ("CHECK_COMPLETE", "SNAPSHOT_COMPLETE"):
        why += ". Suspend the stack once more, then resume it"
    assert final(stack) == (f"{operation.upper()}_FAILED", f"Resource {operation.upper()} failed: {why}")
    assert engine.states(stack) == {"a": now}


def test_what_was_checked_while_suspended_is_resumed_after_another_suspend(engine: Engine) -> None:
    stack = engine.check(engine.suspend(engine.create(template(a=file()))))
    stack = engine.resume(stack)
    assert final(stack)[0] == "RESUME_FAILED"
    stack = engine.resume(engine.suspend(stack))
    assert (final(stack)[0], mode(engine, stack, "a")) == ("RESUME_COMPLETE", 0o600)


def test_a_failure_stops_what_comes_after_it(engine: Engine) -> None:
    stack = engine.create(template(a=file(), b=file(depends_on="a"), c=file(depends_on="b")))
    path = Path(engine.row(stack, "b").physical_id or "")
    path.unlink()
    stack = engine.suspend(stack)
    assert final(stack)[0] == "SUSPEND_FAILED"
    assert final(stack)[1].startswith("Resource SUSPEND failed: FileNotFoundError: resources.b: ")
    assert engine.states(stack) == {"a": "CREATE_COMPLETE", "b": "SUSPEND_FAILED", "c": "SUSPEND_COMPLETE"}
    # Once it is mended, the next attempt takes it up where it was.
    path.touch()
    mark = engine.now_on(stack)
    assert final(engine.suspend(stack))[0] == "SUSPEND_COMPLETE"
    assert not any(text.startswith("c ") for text in engine.told(stack, mark))


@pytest.mark.slow
def test_a_suspended_stack_that_was_checked_can_be_suspended_again(engine: Engine) -> None:
    stack = engine.check(engine.suspend(engine.create(CHAIN)))
    assert final(engine.suspend(stack))[0] == "SUSPEND_COMPLETE"
    assert final(engine.resume(stack))[0] == "RESUME_COMPLETE"


def test_a_lock_in_between_loses_nothing(engine: Engine) -> None:
    stack = engine.unlock(engine.lock(engine.suspend(engine.create(CHAIN))))
    assert final(engine.resume(stack))[0] == "RESUME_COMPLETE"


def test_it_has_the_time_of_any_action(engine: Engine) -> None:
    stack = engine.create(template(a=delay(90, "SUSPEND")), timeout_mins=1)
    stack = engine.suspend(stack)
    assert final(stack) == ("SUSPEND_FAILED", "Timed out")
    assert engine.states(stack) == {"a": "SUSPEND_FAILED"}


def test_a_delete_cuts_it_short(engine: Engine) -> None:
    stack = engine.create(template(a=delay(1e6, "SUSPEND")))
    with engine.clock.held():
        engine.suspend(stack, wait=False)
        engine.begun(lambda: engine.row(stack, "a").token)
        with engine.heard():
            engine.delete(stack, wait=False)
    assert final(engine.settle(stack))[0] == "DELETE_COMPLETE"


def test_a_type_that_is_gone_is_not_said_to_be_suspended(engine: Engine) -> None:
    stack = engine.create(template(a=thing()))
    row = replace(engine.row(stack, "a"), mapped_type="No::Such::Type")
    with engine.store.transaction():
        engine.store.resources.save_many([row])
    stack = engine.suspend(stack)
    assert final(stack)[0] == "SUSPEND_FAILED"
    assert "No::Such::Type" in final(stack)[1]
