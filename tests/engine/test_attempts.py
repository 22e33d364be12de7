"""Retries: count, delay, events, and none after a crash."""

from itertools import pairwise
from pathlib import Path

import pytest

from heatlite.core.status import Status, state
from heatlite.store.records import StackRecord

from .conftest import ADMIN, START, Engine, ref, resource, template, thing

pytestmark = pytest.mark.database


def busy(**more: object) -> dict[str, object]:
    return template(a=resource("Test::Busy", **more))  # type: ignore[no-any-return]


def stack_state(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def reasons(engine: Engine, stack: StackRecord, since: int = 0) -> list[str]:
    return [
        f"{state(event.verb, event.status)}: {event.status_reason}"
        for event in engine.events(stack)[since:]
        if event.resource_name == "a"
    ]


def asked(engine: Engine, row_id: str) -> dict[str, float]:
    """Requests to the service for a resource, with their times."""
    return {key: float(str(when)) - START for key, when in engine.store.messages.read(row_id).items()}


def test_a_create_that_the_service_refuses_is_tried_again(engine: Engine) -> None:
    stack = engine.create(busy(refused=2))
    assert stack_state(stack) == "CREATE_COMPLETE"
    refused = "ServiceConflict: resources.a: busy"
    assert reasons(engine, stack) == [
        "CREATE_IN_PROGRESS: state changed",
        f"CREATE_FAILED: {refused}",
        "DELETE_IN_PROGRESS: state changed",
        "DELETE_COMPLETE: state changed",
        f"CREATE_IN_PROGRESS: Attempt 2 of 6, after: {refused}",
        f"CREATE_FAILED: {refused}",
        "DELETE_IN_PROGRESS: state changed",
        "DELETE_COMPLETE: state changed",
        f"CREATE_IN_PROGRESS: Attempt 3 of 6, after: {refused}",
        "CREATE_COMPLETE: state changed",
    ]
    times = list(asked(engine, engine.row(stack, "a").id).values())
    assert 2 <= times[1] - times[0] <= 4
    assert 4 <= times[2] - times[1] <= 6


def test_an_object_in_error_is_deleted_before_the_next_attempt(engine: Engine) -> None:
    stack = engine.create(busy(broken=1))
    assert stack_state(stack) == "CREATE_COMPLETE"
    row = engine.row(stack, "a")
    assert row.physical_id == f"{row.physical_name}-1"
    assert list(asked(engine, row.id)) == ["create 0", f"delete {row.physical_name}-0 0", "create 1"]


@pytest.mark.slow
def test_a_row_says_that_the_remains_of_an_attempt_are_deleted(engine: Engine) -> None:
    failed = "ResourceInError: resources.a: went to ERROR"
    with engine.clock.held():
        stack = engine.create(busy(broken=1, kept=1), wait=False)
        engine.begun(lambda: len(reasons(engine, stack)) == 3)
        engine.begun(lambda: "starts_at" in (engine.row(stack, "a").token or {}))
        assert engine.row(stack, "a").status_reason == f"{failed}; what it has left is being deleted"
        engine.clock.pass_(6)
        engine.begun(lambda: len(reasons(engine, stack)) == 5)
        assert engine.row(stack, "a").status_reason == f"Attempt 3 of 6, after: {failed}"
    stack = engine.settle(stack)
    assert (stack_state(stack), engine.row(stack, "a").status_reason) == ("CREATE_COMPLETE", "state changed")


def test_one_that_cannot_be_deleted_at_first_is_tried_too(engine: Engine) -> None:
    stack = engine.create(busy(broken=1, kept=2))
    assert stack_state(stack) == "CREATE_COMPLETE"


def test_a_delete_is_tried_again_in_silence(engine: Engine) -> None:
    stack = engine.create(busy(kept=3))
    row_id, since = engine.row(stack, "a").id, engine.now_on(stack)
    stack = engine.delete(stack)
    assert stack_state(stack) == "DELETE_COMPLETE"
    assert reasons(engine, stack, since) == ["DELETE_IN_PROGRESS: state changed", "DELETE_COMPLETE: state changed"]
    times = [when for key, when in asked(engine, row_id).items() if key.startswith("delete")]
    waits = [after - before for before, after in pairwise(times)]
    assert all(least <= wait <= least + 2 for least, wait in zip((2, 4, 8), waits, strict=True))


def test_why_tells_the_last_error_of_a_delete(engine: Engine) -> None:
    stack = engine.create(busy(kept=1))
    with engine.clock.held():
        stack = engine.delete(stack, wait=False)
        engine.begun(lambda: "starts_at" in (engine.row(stack, "a").token or {}))
        (found,) = [one for one in engine.components.reasons.of_stack(ADMIN, stack).facts if one.code == "retrying"]
        assert found.text.endswith("Attempt 2 of 6, after: ServiceConflict: resources.a: in use")
        assert found.until is not None and found.until in found.text
    stack = engine.settle(stack)
    assert stack_state(stack) == "DELETE_COMPLETE"


@pytest.mark.parametrize("limit", [0, 2])
def test_the_limit(place: Path, plugins: Path, limit: int) -> None:
    engine = Engine(place, action_retry_limit=limit)
    try:
        stack = engine.create(busy(refused=10))
        assert (stack_state(stack), stack.status_reason) == (
            "CREATE_FAILED", "Resource CREATE failed: ServiceConflict: resources.a: busy",
        )  # fmt: skip
        assert len(asked(engine, engine.row(stack, "a").id)) == limit + 1
        stack = engine.put(stack, busy(kept=10))
        stack = engine.delete(stack)
        assert stack_state(stack) == "DELETE_FAILED"
    finally:
        engine.close()


def test_what_does_not_pass_fails_at_once(engine: Engine) -> None:
    stack = engine.create(busy(broken=1, stuck=True))
    assert stack.status_reason == (
        "Resource CREATE failed: ResourceInError: resources.a: went to ERROR; and what it has left cannot be removed:"
        " RuntimeError: resources.a: stuck"
    )
    assert engine.clock.now() < START + 1


def test_an_update_is_not_tried_again(engine: Engine) -> None:
    """Only its replacement is: that is a create."""
    stack = engine.create(busy())
    stack = engine.put(stack, busy(refused=1))
    assert stack_state(stack) == "UPDATE_COMPLETE"


def test_nothing_is_tried_again_once_the_operation_stops(engine: Engine) -> None:
    document = template(a=resource("Test::Busy", refused=9), bad=thing(fail=True, wait_secs=3))
    stack = engine.create(document)
    assert stack_state(stack) == "CREATE_FAILED"
    assert stack.status_reason == "Resource CREATE failed: ValueError: resources.bad: Test Resource failed bad"
    assert engine.row(stack, "a").status_reason == "CREATE aborted: another resource failed"
    assert engine.clock.now() < START + 10
    assert stack_state(engine.delete(stack)) == "DELETE_COMPLETE"


def test_dependents_and_others_go_on(engine: Engine) -> None:
    document = template(a=resource("Test::Busy", refused=1), b=thing(ref("a")), other=thing())
    with engine.clock.held():
        stack = engine.create(document, wait=False)
        engine.begun(lambda: len(reasons(engine, stack)) == 5)
        assert engine.states(stack) == {
            "a": "CREATE_IN_PROGRESS", "b": "INIT_COMPLETE", "other": "CREATE_COMPLETE",
        }  # fmt: skip
    assert stack_state(engine.settle(stack)) == "CREATE_COMPLETE"


@pytest.mark.slow
def test_another_process_goes_on_counting(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(busy(refused=9), wait=False)
        for attempt in range(2, 7):
            engine.begun(lambda seen=5 + 4 * (attempt - 2): len(reasons(engine, stack)) >= seen)  # type: ignore[misc]
            engine.close()
            engine.open()
            engine.begun(lambda: engine.get(stack).status is Status.IN_PROGRESS)
            engine.clock.pass_(2.0**attempt)
    stack = engine.settle(stack)
    assert stack_state(stack) == "CREATE_FAILED"
    assert len(asked(engine, engine.row(stack, "a").id)) == 6
