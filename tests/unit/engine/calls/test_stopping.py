"""Tests of what the next attempt learns of an operation that stops."""

from heatlite.core.clock import Clock
from heatlite.engine.calls.stopping import MAX_FAILURE_TEXT, Stopping


def stopping() -> Stopping:
    return Stopping(Clock(), lambda: None, patience=1.0, rolls_back=True, deadline=None)


def test_a_failure_of_the_operation_itself_is_known_after_many_of_resources() -> None:
    first, second = stopping(), stopping()
    first.failures += ["x" * 1000] * (MAX_FAILURE_TEXT // 500)
    first.fail("broken")
    second.restore(first.record(0.0), 0.0)
    assert second.failures[0] == "broken"
    assert len(second.failures) < len(first.failures)
