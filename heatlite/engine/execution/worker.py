"""Worker: runs claimed actions in slots.

It looks for claimable actions at a hint of the dispatcher and once a second, so a lost hint costs a second.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.ids import new_id
from heatlite.core.redaction.masking import hiding
from heatlite.core.runtime import logs
from heatlite.core.runtime.logs import logged
from heatlite.core.runtime.meter import Meter
from heatlite.core.runtime.timer import Timer
from heatlite.core.status import Result
from heatlite.engine.dispatch.slots import Slots
from heatlite.engine.execution.action_log import about_action
from heatlite.engine.execution.attempts import WITH_SLOT, Attempt, AttemptTable
from heatlite.engine.execution.claiming import Claiming
from heatlite.engine.execution.execution import Execution, RunParts
from heatlite.engine.execution.final_writes import FinalWrites
from heatlite.engine.execution.leases import Leases
from heatlite.engine.execution.notices import Notices
from heatlite.engine.execution.retention import Retention
from heatlite.engine.execution.sweep import POLL_INTERVAL, Sweep
from heatlite.engine.execution.termination import Termination
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.guarding import Guarding
from heatlite.engine.types.resource_factory import EngineServices
from heatlite.store.errors import Fenced, UnreadableSecret
from heatlite.store.records import ActionRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)


class TakenOverTooOften(Exception):
    """Each engine that carried an action out has ended or frozen."""


class Worker:
    """One engine. Call `start` once; `stop` releases unfinished actions."""

    def __init__(
        self, store: Store, engine_services: EngineServices, clock: Clock, settings: Settings, definitions: Definitions,
        due: Sequence[Callable[[], None]], meter: Meter, slots: Slots, timer: Timer,
        guarding: Callable[[], Guarding | None] = lambda: None,
    ) -> None:
        """Create a worker. It calls each of `due` once a second.

        They may raise DatabaseUnavailable. One that waits for a cloud delays no other.
        """
        self.owner = new_id()
        self._store = store
        self._clock = clock
        self._settings = settings
        self._meter = meter
        self._slots = slots
        self._hints = threading.Semaphore(slots.limit)
        """Bounds the hints that wait for a thread: an outage of the database lets none through."""
        self._handlers = logs.LoggingPool(settings.handler_threads, "handler")
        self._cleanup_threads = logs.LoggingPool(settings.handler_threads, "late")
        self._stopping = threading.Event()
        self._parts = RunParts(
            store, engine_services, clock, settings, definitions,
            self._handlers, self._run_cleanup, self._stopping, meter, guarding,
        )
        termination = Termination(store, clock)
        self._final_writes = FinalWrites(store, clock, settings, termination, self._stopping)
        self._alarm = timer.job("alarm", self._continue_due)
        self._table = AttemptTable(self._alarm.at)
        self._claiming = Claiming(store, clock, settings.lease_seconds, self.owner, meter, slots, self._table)
        self._notices = notices = Notices(store, clock, self.owner, self._table)
        leases = Leases(store, clock, settings.lease_seconds, self.owner, self._table, self._claiming)
        jobs: tuple[Callable[[], object], ...] = (
            # First: the others may wait for rows that such a client holds.
            partial(store.services.end_frozen_clients, settings.lease_seconds),
            Retention(store, clock, settings).sweep,
            self._table.wake_for_nested,
            notices.deliver_messages,
            notices.recheck_controls,
            notices.notify_lost,
            lambda: store.moves.wake_parked(clock.now()),
            termination.time_out,
        )
        self._claims = timer.job("claims", self._claim_all)
        self._leases = timer.job("leases", leases.keep)
        self._sweep = timer.job("sweep", Sweep(store, clock, self.owner, jobs, slots.claim_filter).poll)
        self._due = [timer.job("sweep of what is due", partial(_polled, one)) for one in due]

    def start(self) -> None:
        """Start the jobs."""
        for job in (self._claims, self._alarm, self._leases, self._sweep, *self._due):
            job.start()

    def wake(self) -> None:
        """Look for claimable actions and for controls (from any thread)."""
        self._claims.wake()

    def take(self, action_id: str) -> None:
        """Claim this action and run it in a slot, if one is free (from any thread).

        The claim job finds the rest in the table later.
        """
        if self._table.free_slots(self._slots.limit):
            if self._hints.acquire(blocking=False):
                self._slots.submit(partial(self._take, action_id))
            else:
                self._claims.wake()

    def deliver(self, address: str) -> None:
        """Continue the attempts that wait for a message at the address (from any thread)."""
        self._table.deliver((address,))

    def active(self) -> list[ActionRecord]:
        """Return the actions that have a slot."""
        return [attempt.action for attempt in self._table.of(WITH_SLOT)]

    def stop(self) -> None:
        """Stop claiming, release running actions at their next tick, and wait for that."""
        with self._claiming.lock:
            self._stopping.set()
            self._table.drain()
        self._claims.stop()
        self._alarm.stop()
        self._slots.close()
        self._leases.stop()
        for job in (self._sweep, *self._due):
            job.stop()
        try:
            with self._store.transaction():
                self._store.claims.release(self.owner, self._clock.now(), "its worker has stopped")
                self._store.services.remove([self.owner])
        except DatabaseUnavailable as error:
            log.warning("cannot release running actions; other engines take them over when their leases end: %s", error)
        self._handlers.shutdown(wait=True)
        self._cleanup_threads.shutdown(wait=True)

    # -- jobs --------------------------------------------------------------------------------------

    def _claim_all(self) -> float:
        """Notify of controls and start actions while slots are free.

        Returns the pause until the next look.
        """
        self._notices.forward_controls()
        while attempts := self._claiming.claim():
            self._submit(attempts)
        self._claims.at(self._claiming.next_retry())
        return POLL_INTERVAL

    def _continue_due(self) -> float:
        """Continue the attempts whose time has come. A hint of the table calls it."""
        self._submit(self._table.take_due(self._clock.now()))
        return inf

    # -- in a slot ---------------------------------------------------------------------------------

    def _submit(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self._slots.submit(partial(self._run, attempt))

    def _take(self, action_id: str) -> None:
        try:
            attempts = self._claiming.claim(action_id)
        except DatabaseUnavailable as error:
            log.warning("cannot claim action %s: %s", action_id, error)
            return
        finally:
            self._hints.release()
        for attempt in attempts:
            self._run(attempt)

    def _run(self, attempt: Attempt) -> None:
        """Run an attempt in this thread, a slot, until it waits or ends."""
        with about_action(attempt.action):
            try:
                execution = self._begin(attempt)
                with hiding(execution.mask):
                    until = next(execution.steps)
            except BaseException as error:  # noqa: BLE001 - `_end` logs it
                try:
                    self._end(attempt, error)
                finally:
                    self._leave(attempt, self._table.end)
            else:
                if until is None:
                    self._leave(attempt, self._table.park)
                elif self._table.wait(attempt, until):
                    self._claims.wake()

    def _begin(self, attempt: Attempt) -> Execution:
        """Return the execution of an attempt: its own, one that parked here, or a new one."""
        if attempt.action.takeovers > self._settings.takeover_limit:
            raise TakenOverTooOften
        self._table.begin(attempt)
        if attempt.execution is not None:
            return attempt.execution
        execution = self._new_execution(attempt)
        self._table.start(attempt, execution)
        return execution

    def _new_execution(self, attempt: Attempt) -> Execution:
        action, reads, attempt.reads = attempt.action, attempt.reads, None
        stack = self._store.stacks.get(action.stack_id) if reads is None else reads[0]()
        if stack is None:
            raise LookupError(f"action {action.id} has no stack")
        rows = self._store.resources.of(stack.id) if reads is None else reads[1]()
        return Execution(self._parts, action, stack, rows)

    def _end(self, attempt: Attempt, error: BaseException) -> None:
        """Release the action of an attempt that has ended with an error, or StopIteration."""
        action, execution, final, retry_at = attempt.action, attempt.execution, self._final_writes, None
        match error:
            case StopIteration(value=Result.RETRY) if execution is not None:
                retry_at = final.requeue(action, execution.reason)
            case StopIteration():
                pass  # the execution has written its end
            case TakenOverTooOften():
                final.give_up_taken_over(action)
            case Fenced():
                log.warning("action %s: taken over by another engine, or ended by force", action.id)
            case UnreadableSecret():
                retry_at = final.leave(action, error.message)
            case DatabaseUnavailable():
                retry_at = final.requeue(action, error.message)
            case _:
                # An internal error must not leave the stack IN_PROGRESS forever.
                log.error("action %s: internal error", action.id, exc_info=error)
                retry_at = final.end_broken(action, execution)
        if retry_at is not None:
            self._claiming.retry_at(retry_at)
            self._claims.at(retry_at)

    def _leave(self, attempt: Attempt, move: Callable[[Attempt], bool]) -> None:
        """Free the slot of an attempt whose action is released."""
        action, now = attempt.action, self._clock.now()
        # The claim has set updated_at.
        self._meter.attempt_ended(action.verb, now - (action.updated_at or now))
        if move(attempt):  # otherwise each READY action was announced to a worker with a free slot
            self._claims.wake()

    def _run_cleanup(self, call: Callable[[], None]) -> None:
        """Run the long clean-up of an ended attempt in a thread of its own."""

        def run() -> None:
            try:
                with logged(log, "clean-up after an attempt failed", passing=()):
                    call()
            finally:
                self._store.close()

        self._cleanup_threads.submit(run)


def _polled(call: Callable[[], None]) -> float:
    """Call it. Returns the pause until the next call, in seconds."""
    call()
    return POLL_INTERVAL
