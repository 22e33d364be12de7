"""The reasons for which a walk stops, and the calls that it then abandons."""

from collections.abc import Callable
from enum import Enum

from heatlite.core.actions.payloads import StopRecord
from heatlite.core.clock import Clock
from heatlite.core.status import Control, Verb
from heatlite.engine.calls.step_execution import StepExecution
from heatlite.engine.state.database_retry import retry_while_unavailable

MAX_FAILURE_TEXT = 64 * 1024
"""Maximum characters of failures kept for the next attempt: of thousands, the first ones."""


class Stop(Enum):
    """The reason why no further step begins.

    The value is part of an aborted resource's reason; `final_state.py` of the execution makes that of the stack.
    """

    FAILURE = "another resource failed"
    TIMEOUT = "Timed out"
    CANCEL = "the operation was cancelled"
    FORCE_CANCEL = "the operation was given up"
    CANCEL_ROLLBACK = "the operation was cancelled and is rolled back"
    ABORT = "the stack is being deleted"
    DRAIN = "the engine shuts down"


CONTROLS = {
    Control.CANCEL: Stop.CANCEL,
    Control.FORCE_CANCEL: Stop.FORCE_CANCEL,
    Control.CANCEL_ROLLBACK: Stop.CANCEL_ROLLBACK,
    Control.ABORT: Stop.ABORT,
}

REVISABLE = frozenset({None, Stop.FAILURE, Stop.CANCEL, Stop.CANCEL_ROLLBACK})
"""While running calls end, a caller may still choose whether a rollback follows; the last choice counts."""

AT_ONCE = frozenset({Stop.ABORT, Stop.TIMEOUT, Stop.FORCE_CANCEL})
"""Reasons to wait for nothing but running calls."""


def aborted_text(verb: Verb, stop: Stop) -> str:
    """Return the reason of a resource that was not waited for."""
    return f"{verb} aborted: {stop.value}"


class Stopping:
    """State of stopping: a failure, the deadline, or a control of the action.

    `asked` reads the control from the action's row and raises Fenced if another worker has the action. Controls that
    other threads have read may be out of date, above all after a rollback has begun.
    """

    def __init__(
        self,
        clock: Clock,
        asked: Callable[[], Control | None],
        patience: float,
        rolls_back: bool,
        deadline: float | None,
        is_repair: bool = False,
    ) -> None:
        """Create the state of an operation. A repair cannot be rolled back."""
        self.failures: list[str] = []
        """``Resource CREATE failed: …``, in the order in which they happened."""
        self.cause: Stop | None = None
        """The reason why the operation stops, on any engine: never DRAIN."""
        self.deadline = deadline
        self.rolls_back = rolls_back and not is_repair
        """True if a rollback follows a failure."""
        self.is_made = False
        """True if all that was wanted exists, and only the clean-up is left."""
        self._is_repair = is_repair
        self._clock = clock
        self._patience = patience
        self.patience_ends: float | None = None
        """The end of the time for running calls: seconds since the epoch."""
        self.control: Control | None = None
        """The control as last read from the action's row."""
        self._asked = asked
        self._is_notified = False
        self._draining = False
        self._drains = False

    @property
    def stop(self) -> Stop | None:
        """Return the reason why no further step begins here."""
        return Stop.DRAIN if self._drains else self.cause

    @property
    def turns_back(self) -> bool:
        """True if the operation stops, and a rollback follows."""
        if self.stop is Stop.CANCEL_ROLLBACK:
            return not self._is_repair
        return self.stop in (Stop.FAILURE, Stop.TIMEOUT) and self.rolls_back

    def record(self, suspended: float) -> StopRecord:
        """Return the state for the next attempt; empty while nothing stops.

        `suspended`: the seconds for which the action was suspended so far. They do not count.
        """
        failures = self._first_failures()
        if self.cause is None or self.patience_ends is None:
            return StopRecord(self.is_made, failures=failures)
        return StopRecord(self.is_made, self.cause.name, self.patience_ends - suspended, failures)

    def _first_failures(self) -> tuple[str, ...]:
        room, found = MAX_FAILURE_TEXT, list[str]()
        for text in self.failures:
            room -= len(text)
            if room < 0:
                break
            found.append(text)
        return tuple(found)

    def restore(self, stopped: StopRecord, suspended: float) -> None:
        """Continue with the record of an earlier attempt."""
        if stopped.made:
            self.finish_making()
        if stopped.cause is not None and stopped.until is not None:
            self.cause, self.patience_ends = Stop[stopped.cause], stopped.until + suspended
        self.failures += stopped.failures

    def finish_making(self) -> None:
        """Note that all objects exist. A failed clean-up causes no rollback."""
        self.is_made, self.rolls_back = True, False

    def restart(self, deadline: float | None) -> None:
        """Begin a rollback: it has its own deadline, and no rollback follows it."""
        self.cause, self.control, self.patience_ends = None, None, None
        self.deadline = deadline
        self.rolls_back = self.is_made = False
        self.failures.clear()

    def notify(self) -> None:
        """Read the control again: it has changed, or the lease is lost (any thread)."""
        self._is_notified = True

    def poll_control(self) -> None:
        """Read the control if it may have changed. Raises Fenced."""
        if self._is_notified:
            self._is_notified = False
            self.control = retry_while_unavailable(self._clock, self._asked)

    def extend(self, seconds: float) -> None:
        """Extend all deadlines by the time for which the action was suspended."""
        self.deadline = None if self.deadline is None else self.deadline + seconds
        self.patience_ends = None if self.patience_ends is None else self.patience_ends + seconds

    def drain(self) -> None:
        """Leave the action to another engine; this one stops (from any thread)."""
        self._draining = True

    def fail(self, *failures: str) -> None:
        """Stop because of failures. Those of resources are recorded already.

        They come first, so that the next attempt knows them, however many resources have failed.
        """
        self.failures[:0] = failures
        if self.cause is None:
            self._halt(Stop.FAILURE)

    def check(self) -> None:
        """Stop if the control or the deadline demands it."""
        if self._draining:
            # The cause is recorded already. The control is left to the next engine.
            self._drains = True
            return
        wanted = None if self.control is None else CONTROLS.get(self.control)
        overrides = wanted in (Stop.ABORT, Stop.FORCE_CANCEL) and self.cause is not Stop.ABORT
        if wanted is not None and (self.cause in REVISABLE or overrides):
            self._halt(wanted)
        if self.cause is None and not self.pauses and self.deadline is not None and self._clock.now() >= self.deadline:
            self._halt(Stop.TIMEOUT)

    def _halt(self, stop: Stop) -> None:
        self.cause = stop
        if self.patience_ends is None:
            self.patience_ends = self._clock.now() + self._patience

    @property
    def pauses(self) -> bool:
        """True if nothing may continue until the action is resumed."""
        return self.control is Control.SUSPEND and not self._draining

    @property
    def drains(self) -> bool:
        """True if the engine stops and leaves everything to another."""
        return self._draining

    @property
    def gives_up(self) -> bool:
        """True if the operation stops, and not just this engine."""
        return self.cause is not None and not self._drains

    @property
    def takes_up(self) -> bool:
        """True if the operation stops after the steps that an earlier attempt has begun."""
        return self.gives_up and self.cause not in AT_ONCE

    @property
    def is_late(self) -> bool:
        """True if the time for running calls is over."""
        return self.patience_ends is not None and self._clock.now() >= self.patience_ends

    def must_abort(self, execution: StepExecution) -> bool:
        """Return True to abandon a running execution.

        A rollback removes a half-made object, and after a cancel the next operation creates it again. A change in place
        is better completed.
        """
        if self.cause in AT_ONCE or execution.is_delayed or self.is_late:
            return True
        cancelled = self.cause in (Stop.CANCEL, Stop.CANCEL_ROLLBACK)
        return (cancelled or self.cause is Stop.FAILURE and self.rolls_back) and execution.verb is Verb.CREATE
