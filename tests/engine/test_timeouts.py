"""Operations end at the stack's own limit or at that of the installation."""

from collections.abc import Callable

import pytest

from heatlite.core.status import Status, Verb, state
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.state.stack_document import read_record
from heatlite.store.records import StackRecord
from tests.tables import few, sampled

from .conftest import Engine, resource, template

PARTS = ("flat", "nested")
CHILD = """
heat_template_version: 2021-04-16
parameters: {endless: {type: string}}
resources: {a: {type: Test::Endless, properties: {verb: {get_param: endless}}}}
"""
FILES = {"child.yaml": CHILD}


def made_of(endless: str, part: str, **more: object) -> object:
    """A template with a verb that never ends; `part`: flat or in a nested stack."""
    if part == "nested":
        return template(a=resource("child.yaml", endless=endless), **more)
    return template(a=resource("Test::Endless", verb=endless), **more)


Operation = Callable[[Engine, str, int | None], StackRecord]


def create(engine: Engine, part: str, minutes: int | None, endless: str = "create") -> StackRecord:
    return engine.create(made_of(endless, part), files=FILES, timeout_mins=minutes)


def update(engine: Engine, part: str, minutes: int | None) -> StackRecord:
    stack = create(engine, part, minutes, "none")
    return engine.put(stack, made_of("update", part), files=FILES, timeout_mins=minutes)


def rollback(engine: Engine, part: str, minutes: int | None) -> StackRecord:
    stack = create(engine, part, minutes, "update")
    failing = made_of("none", part, b=resource("OS::Heat::TestResource", fail=True, depends_on="a"))
    return engine.put(stack, failing, files=FILES, timeout_mins=minutes, disable_rollback=False)


def delete(engine: Engine, part: str, minutes: int | None) -> StackRecord:
    return engine.delete(create(engine, part, minutes, "delete"))


def check(engine: Engine, part: str, minutes: int | None) -> StackRecord:
    return engine.check(create(engine, part, minutes, "check"))


def suspend(engine: Engine, part: str, minutes: int | None) -> StackRecord:
    return engine.suspend(create(engine, part, minutes, "suspend"))


def resume(engine: Engine, part: str, minutes: int | None) -> StackRecord:
    return engine.resume(engine.suspend(create(engine, part, minutes, "resume")))


def snapshot(engine: Engine, part: str, minutes: int | None) -> StackRecord:
    stack = create(engine, part, minutes, "snapshot")
    engine.components.snapshots.take(engine.who, stack, None)
    return engine.settle(stack)


def restore(engine: Engine, part: str, minutes: int | None) -> StackRecord:
    stack = create(engine, part, minutes, "update")
    taken = engine.components.snapshots.take(engine.who, stack, None)
    engine.settle(stack)
    engine.put(stack, made_of("none", part), files=FILES, timeout_mins=minutes)
    engine.components.snapshots.restore(engine.who, engine.get(stack), taken.id)
    return engine.settle(stack)


def lock(engine: Engine, part: str, minutes: int | None) -> StackRecord:
    return engine.lock(create(engine, part, minutes, "lock"))


def unlock(engine: Engine, part: str, minutes: int | None) -> StackRecord:
    return engine.unlock(engine.lock(create(engine, part, minutes, "unlock")))


OPERATIONS: dict[Verb, Operation] = {
    Verb.CREATE: create,
    Verb.UPDATE: update,
    Verb.ROLLBACK: rollback,
    Verb.DELETE: delete,
    Verb.CHECK: check,
    Verb.SUSPEND: suspend,
    Verb.RESUME: resume,
    Verb.SNAPSHOT: snapshot,
    Verb.RESTORE: restore,
    Verb.LOCK: lock,
    Verb.UNLOCK: unlock,
}


def test_no_operation_is_forgotten() -> None:
    assert set(Verb) - set(OPERATIONS) == {Verb.INIT, Verb.ADOPT, Verb.RUN}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "minutes"), [("flat", 2), pytest.param("flat", None, marks=pytest.mark.slow), ("nested", 2)]
)
@pytest.mark.parametrize("verb", sampled(OPERATIONS, 9, pytest.mark.thorough))
def test_it_ends_when_its_time_is_up(engine: Engine, verb: Verb, part: str, minutes: int | None) -> None:
    began = engine.clock.now()
    stack = OPERATIONS[verb](engine, part, minutes)
    assert state(stack.verb, stack.status) == f"{verb}_FAILED"
    # Of a nested stack the time is up at the same moment; which of the two notices first is open.
    assert stack.status_reason == "Timed out" or part == "nested"
    assert stack.status_reason.endswith("Timed out")
    limit = engine.settings.default_action_timeout if minutes is None else minutes * 60
    assert limit <= engine.clock.now() - began < limit + 60
    last = engine.events(stack)[-1]
    assert (state(last.verb, last.status), last.status_reason) == (f"{verb}_FAILED", stack.status_reason)
    row = engine.row(stack, "a")
    if verb is Verb.CHECK:  # nothing was found out
        assert state(row.verb, row.status) == "CREATE_COMPLETE"
        assert row.health is not None
        assert "imed out" in row.health.reason
    else:
        assert row.status is Status.FAILED


@pytest.mark.parametrize("part", few(PARTS))
def test_a_stack_whose_time_was_up_can_be_gone_on_with(engine: Engine, part: str) -> None:
    stack = update(engine, part, 1)
    stack = engine.put(stack, made_of("none", part), files=FILES)
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
    stack = engine.delete(stack)
    assert state(stack.verb, stack.status) == "DELETE_COMPLETE"


@pytest.mark.slow
def test_an_adoption_waits_for_nothing(engine: Engine) -> None:
    stack = create(engine, "nested", None, "none")
    record = engine.components.exports.abandon(engine.who, stack)
    engine.settle(stack)
    adopted = read_record(record)
    began = engine.clock.now()
    stack = engine.settle(engine.stacks.create(engine.who, StackRequest(name="s", adopted=adopted)))
    assert (state(stack.verb, stack.status), engine.clock.now()) == ("ADOPT_COMPLETE", began)
