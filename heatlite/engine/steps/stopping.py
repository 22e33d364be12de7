"""Why a walk stops, and what it does not wait for then."""

from collections.abc import Callable
from enum import Enum

from heatlite.core.action_payloads import StopRecord
from heatlite.core.clock import Clock
from heatlite.core.status import Control, Verb
from heatlite.engine.state.database_retry import patiently
from heatlite.engine.steps.step import Work


class Stop(Enum):
    """Why nothing new is started; the value is what an aborted resource says."""

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
"""While what runs is waited for, a caller may still decide whether there is to be a rollback; the last word counts."""

AT_ONCE = frozenset({Stop.ABORT, Stop.TIMEOUT, Stop.FORCE_CANCEL})
"""Why nothing is waited for but calls that are under way."""


def aborted_text(verb: Verb, stop: Stop) -> str:
    """What a resource says that was not waited for."""
    return f"{verb} aborted: {stop.value}"


class Stopping:
    """Whether, why and how patiently one execution stops: a failure, its time, what has been asked of it.

    `asked` reads that from the action's row, and raises Fenced where the action is somebody else's: what other threads
    have seen there may be out of date, above all once the operation has turned back.

    `record` is what the next attempt continues with after a crash or a give-back (`restore`).
    """

    def __init__(
        self,
        clock: Clock,
        asked: Callable[[], Control | None],
        patience: float,
        rolls_back: bool,
        deadline: float | None,
    ) -> None:
        self.cause: Stop | None = None
        """Why the operation stops, on whichever engine: never DRAIN."""
        self.deadline = deadline
        self.rolls_back = rolls_back
        """Whether a failure will be followed by a rollback."""
        self.is_made = False
        """All that was asked for is there, and only the clean-up is left."""
        self._clock = clock
        self._patience = patience
        self.patience_ends: float | None = None
        """When what runs is no longer waited for: seconds since the epoch."""
        self.control: Control | None = None
        """What is asked, as last read from the action's row."""
        self._asked = asked
        self._called = False
        self._draining = False
        self._drains = False

    @property
    def stop(self) -> Stop | None:
        """Why nothing new is started here."""
        return Stop.DRAIN if self._drains else self.cause

    def record(self, suspended: float) -> StopRecord:
        """Return the state of stopping as the next attempt needs it; empty while nothing stops.

        `suspended`: the seconds for which the action was suspended so far. They do not count.
        """
        if self.cause is None or self.patience_ends is None:
            return StopRecord(self.is_made)
        return StopRecord(self.is_made, self.cause.name, self.patience_ends - suspended)

    def restore(self, stopped: StopRecord, suspended: float) -> None:
        """Continue with the record of an earlier attempt."""
        if stopped.made:
            self.finish_making()
        if stopped.cause is not None and stopped.until is not None:
            self.cause, self.patience_ends = Stop[stopped.cause], stopped.until + suspended

    def finish_making(self) -> None:
        """Everything that was asked for is there: that an old object does not go is no reason to undo it."""
        self.is_made, self.rolls_back = True, False

    def restart(self, deadline: float | None) -> None:
        """A rollback begins, with its own time, and is not rolled back itself."""
        self.cause, self.control, self.patience_ends = None, None, None
        self.deadline = deadline
        self.rolls_back = self.is_made = False

    def call(self) -> None:
        """Something else is asked of the action now, or it is somebody else's (from any thread)."""
        self._called = True

    def hear(self) -> None:
        """Read what is asked, if there is anything new. Raises Fenced."""
        if self._called:
            self._called = False
            self.control = patiently(self._clock, self._asked)

    def slept(self, seconds: float) -> None:
        """The action was suspended: nobody's time has gone on."""
        self.deadline = None if self.deadline is None else self.deadline + seconds
        self.patience_ends = None if self.patience_ends is None else self.patience_ends + seconds

    def drain(self) -> None:
        """The engine stops (from any thread)."""
        self._draining = True

    def fail(self) -> None:
        """A resource has failed."""
        if self.cause is None:
            self._halt(Stop.FAILURE)

    def look_up(self) -> None:
        """Notice what has been asked from outside, and the time."""
        if self._draining:
            # What it was stopping for is recorded, and what is asked of it is left to the next engine.
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
        """Whether nothing is to go on until the action is resumed."""
        return self.control is Control.SUSPEND and not self._draining

    @property
    def drains(self) -> bool:
        """Whether the engine stops, so that everything is left to the next one."""
        return self._draining

    @property
    def gives_up(self) -> bool:
        """Whether it stops and what runs elsewhere is no longer waited for."""
        return self.cause is not None and not self._drains

    @property
    def takes_up(self) -> bool:
        """Whether it stops, but steps that an earlier attempt has begun are still to end."""
        return self.gives_up and self.cause not in AT_ONCE

    @property
    def is_late(self) -> bool:
        """Whether what runs has been waited for long enough."""
        return self.patience_ends is not None and self._clock.now() >= self.patience_ends

    def must_abort(self, work: Work) -> bool:
        """Whether nobody waits for a work any longer that has begun.

        A half-made object is removed by the rollback, or made anew after a cancel; one that changes in place had better
        finish.
        """
        if self.cause in AT_ONCE or work.waits or self.is_late:
            return True
        cancelled = self.cause in (Stop.CANCEL, Stop.CANCEL_ROLLBACK)
        return (cancelled or self.cause is Stop.FAILURE and self.rolls_back) and work.verb is Verb.CREATE
