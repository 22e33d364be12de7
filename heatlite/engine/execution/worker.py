"""The process loop: claims actions, carries each out in a thread, keeps leases, looks after what is due.

Claiming waits for a wake-up by the dispatcher, and looks once a second anyway: a lost one costs a second.
"""

import logging
import math
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from heatlite.core import logs
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.ids import new_id
from heatlite.core.masking import hiding
from heatlite.core.meter import Meter
from heatlite.core.status import Result
from heatlite.engine.dispatch import Share
from heatlite.engine.execution.action_log import about_action
from heatlite.engine.execution.execution import Execution, Parts
from heatlite.engine.execution.retention import Retention
from heatlite.engine.execution.termination import Termination
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.resource_factory import EngineServices
from heatlite.store.actions.claims import most_takeovers
from heatlite.store.errors import Fenced
from heatlite.store.records import ActionRecord, ServiceRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

LONGEST_PAUSE = 60.0
"""Seconds until an action is begun again, at the most."""

REPORT = 30.0
"""Seconds between two reports that this engine is alive."""

SWEEP = 1.0
"""Seconds between two looks at what nobody has called us for: lost wake-ups, controls, expired locks."""


BETWEEN_TAKEOVERS = 2.0
"""Seconds between the claims of two actions without progress: one that ends the worker ends no attempt of another."""

TAKEN_OVER = (
    "Taken over {} times without progress: each engine that carried it out ended or froze."
    " Mend what ends it, then retry the stack or delete it."
)


class Ended(Exception):
    """There is nothing more to do: what the execution came to (None: it was stopped for another engine)."""

    def __init__(self, result: Result | None) -> None:
        self.result = result


class Attempt:
    """An execution that has begun, and how to go on with it. `lock` is held while it does."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.lock = threading.Lock()
        self._steps = execution.execute()

    def go_on(self) -> float | None:
        """Do what there is to do. When to go on at the latest (seconds since the epoch); None: once the action is
        claimed again. Raises Ended when there is no more to do; after any other error there is nothing to go on with.
        """
        try:
            return next(self._steps)
        except StopIteration as end:
            raise Ended(end.value) from None


class Worker:
    """One engine. `start` it once; `stop` gives back what it has not finished."""

    def __init__(
        self, store: Store, engine_services: EngineServices, clock: Clock, settings: Settings, definitions: Definitions,
        due: Sequence[Callable[[], None]], meter: Meter, share: Share
    ) -> None:
        """`due` are asked once a second to see to whose time has come; they may raise DatabaseUnavailable."""
        self.owner = new_id()
        self._share = share
        self._store = store
        self._clock = clock
        self._settings = settings
        self._due = due
        self._meter = meter
        self._retention = Retention(store, clock, settings)
        self._handlers = logs.Pool(settings.handler_threads, "handler")
        self._slots = ThreadPoolExecutor(settings.engine_slots, "engine")
        self._late = logs.Pool(settings.handler_threads, "late")
        self._stopping = threading.Event()
        self._parts = Parts(
            store, engine_services, clock, settings, definitions, self._handlers, self._do_late, self._stopping, meter
        )
        self._termination = Termination(store, clock)
        self._claimed: set[tuple[str, int]] = set()
        """Actions and attempts that have a slot: an action may be claimed anew before its slot of before is free."""
        self._running: dict[str, tuple[int, Execution]] = {}
        """By action: the attempt, and what carries it out."""
        self._begun: dict[str, Attempt] = {}
        """What has not ended: it runs, or it waits and needs no slot."""
        self._resting: dict[str, tuple[float, ActionRecord, Attempt]] = {}
        """Of what runs: when to go on with what needs no slot until then."""
        self._begins: list[float] = []
        """When what was given back from here may be claimed again."""
        self._alarm = threading.Event()
        """Says that `_resting` or `_begins` has changed."""
        self._lock = threading.Lock()
        self._claiming = threading.Lock()
        """Held while something is claimed, so that nobody else takes the free slot meanwhile."""
        self._called = threading.Event()
        self._stopped = threading.Event()
        """Nothing runs any more, so that no lease has to be renewed."""
        self._began = clock.now()
        self._suspects_from = self._began
        """When an action that was taken over without progress may be claimed again."""
        self._starters = [
            threading.Thread(target=self._claim_loop, name="claims", daemon=True),
            threading.Thread(target=self._alarm_loop, name="alarm", daemon=True),
        ]
        self._keepers = [
            threading.Thread(target=self._lease_loop, name="leases", daemon=True),
            threading.Thread(target=self._sweep_loop, name="sweep", daemon=True),
        ]

    def start(self) -> None:
        """Begin to work."""
        for thread in (*self._starters, *self._keepers):
            thread.start()

    def wake(self) -> None:
        """There is something to claim, or a control to look at (from any thread)."""
        self._called.set()

    def take(self, action_id: str) -> None:
        """Claim this action and begin with it, unless no slot is free or somebody else has it (from any thread).

        What is not taken is found in the table, as soon as a slot is free.
        """
        try:
            self._begin_next(action_id)
        except DatabaseUnavailable as error:
            log.warning("cannot look for action %s: %s", action_id, error)

    def stop(self) -> None:
        """Claim nothing more, give running actions back at their next tick, and wait for that."""
        with self._claiming:
            self._stopping.set()
        self._called.set()
        self._alarm.set()
        with self._lock:
            for _, execution in self._running.values():
                execution.drain()
        for thread in self._starters:
            thread.join()
        self._slots.shutdown(wait=True)
        self._stopped.set()
        for thread in self._keepers:
            thread.join()
        try:
            with self._store.transaction():
                self._store.claims.release(self.owner, self._clock.now(), "its worker has stopped")
                self._store.services.remove(self.owner)
        except DatabaseUnavailable as error:
            log.warning("running actions are not given back; they are taken over when their leases end: %s", error)
        self._handlers.shutdown(wait=True)
        self._late.shutdown(wait=True)

    # -- claiming ----------------------------------------------------------------------------------

    def _claim_loop(self) -> None:
        while not self._stopping.is_set():
            self._called.clear()
            try:
                self._pass_controls_on()
                while self._begin_next():
                    pass
            except DatabaseUnavailable as error:
                log.warning("cannot look for actions: %s", error)
            except Exception:
                # Whatever it was, an engine that claims nothing any more is worse.
                log.exception("cannot look for actions")
            self._called.wait(SWEEP)
        self._store.close()

    def _begin_next(self, action_id: str | None = None) -> bool:
        """Claim an action, the one named or the next, and begin with it. False if there is none, or no slot is free."""
        with self._claiming:
            with self._lock:
                if self._stopping.is_set() or len(self._claimed) >= self._settings.engine_slots:
                    return False
            now, lease, share = self._clock.now(), self._settings.lease_seconds, self._share
            most = most_takeovers(now - self._began) if now >= self._suspects_from else 0
            action = self._store.claims.claim(self.owner, now, lease, action_id, share.kinds, share.zones, most)
            if action is None:
                return False
            if action.takeovers:
                self._suspects_from = now + BETWEEN_TAKEOVERS
            if action.attempt == 1:
                submitted = max(action.created_at, action.not_before or 0.0)
                self._meter.action_begun(action.verb, self._clock.now() - submitted)
            with self._lock:
                self._claimed.add((action.id, action.attempt))
            self._slots.submit(self._carry_out, action)
            return True

    def _carry_out(self, action: ActionRecord, attempt: Attempt | None = None) -> None:
        """Begin an action, or go on with an `attempt` at it that has rested."""
        with about_action(action):
            self._go_on(action, attempt)

    def _go_on(self, action: ActionRecord, attempt: Attempt | None) -> None:
        rests = False
        try:
            if action.takeovers > self._settings.takeover_limit:
                log.error("action %s: taken over too often without progress", action.id)
                self._give_up(action, TAKEN_OVER.format(self._settings.takeover_limit))
                return
            attempt = attempt or self._attempt(action)
            with attempt.lock:
                with self._lock:
                    self._running[action.id] = action.attempt, attempt.execution
                    self._begun[action.id] = attempt
                    if self._stopping.is_set():
                        attempt.execution.drain()
                try:
                    with hiding(attempt.execution.mask):
                        until = attempt.go_on()
                except Exception:
                    self._forget(attempt)
                    raise
                if until is not None:
                    rests = True
                    self._rest(action, attempt, until)
        except Ended as ended:
            if ended.result is Result.RETRY and attempt is not None:
                self._try_again(action, attempt.execution.reason)
        except Fenced:
            log.warning("action %s: another engine has it by now, or it was ended by force", action.id)
        except DatabaseUnavailable as error:
            self._try_again(action, error.message)
        except Exception:
            # A fault of ours: the stack must not stay IN_PROGRESS for good.
            log.exception("action %s: internal error", action.id)
            self._give_up(action, "Internal error of the engine; its log has the details")
        finally:
            if not rests:
                now = self._clock.now()
                self._meter.attempt_ended(action.verb, now - (action.updated_at or now))  # it was claimed then
                with self._lock:
                    if self._running.get(action.id, (None,))[0] == action.attempt:
                        del self._running[action.id]
                    self._claimed.discard((action.id, action.attempt))
                    parent = self._running.get(action.parent_id or "")
                if parent is not None:
                    parent[1].nudge()
                    self._rouse(parent[1].action.id)
                self._called.set()

    def _do_late(self, call: Callable[[], None]) -> None:
        """Have something done for an attempt that is over, which may take as long as its handlers do."""
        self._late.submit(self._tell_of_faults, call)

    def _tell_of_faults(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            log.exception("what an attempt has left behind cannot be seen to")
        finally:
            self._store.close()

    def _forget(self, attempt: Attempt) -> None:
        """There is nothing to go on with: whoever claims the action begins anew."""
        with self._lock:
            if self._begun.get(attempt.execution.action.id) is attempt:
                del self._begun[attempt.execution.action.id]

    def _rest(self, action: ActionRecord, attempt: Attempt, until: float) -> None:
        """Free the slot until then. The action stays ours: its lease is renewed."""
        with self._lock:
            self._resting[action.id] = 0.0 if attempt.execution.nudged else until, action, attempt
            was_full = len(self._claimed) >= self._settings.engine_slots
            self._claimed.discard((action.id, action.attempt))
        self._alarm.set()
        if was_full:  # else nobody has waited for a slot
            self._called.set()

    def _look_at_nested(self) -> None:
        """Go on with what rests until nested stacks have ended: another process at work in them does not call us."""
        with self._lock:
            waiting = [key for key, (_, _, attempt) in self._resting.items() if attempt.execution.awaits_nested]
        for action_id in waiting:
            self._rouse(action_id)

    def _rouse(self, action_id: str) -> None:
        """Go on with an action that rests."""
        with self._lock:
            if action_id in self._resting:
                self._resting[action_id] = 0.0, *self._resting[action_id][1:]
        self._alarm.set()

    def _alarm_loop(self) -> None:
        while not self._stopping.is_set():
            self._alarm.clear()
            now = self._clock.now()
            with self._lock:
                due = [(action, attempt) for until, action, attempt in self._resting.values() if until <= now]
                for action, _ in due:
                    del self._resting[action.id]
                    self._claimed.add((action.id, action.attempt))
                if any(begins <= now for begins in self._begins):
                    self._begins = [begins for begins in self._begins if begins > now]
                    self._called.set()
                ends = (until for until, _, _ in self._resting.values() if until < math.inf)
                first = min((*ends, *self._begins), default=None)
            for action, attempt in due:
                self._slots.submit(self._carry_out, action, attempt)
            if first is None:
                self._alarm.wait()
            else:
                self._clock.wait(self._alarm, first - now)

    def _attempt(self, action: ActionRecord) -> Attempt:
        """What has let go of the action here, if nobody else has gone on with it since; or a new beginning."""
        with self._lock:
            known = self._begun.pop(action.id, None)
        if known is not None and known.execution.action.attempt + 1 == action.attempt:
            with known.lock:  # its last thread may still be on its way out
                known.execution.resume(action)
            return known
        stack = self._store.stacks.get(action.stack_id)
        if stack is None:
            raise LookupError(f"action {action.id} has no stack")
        return Attempt(Execution(self._parts, action, stack, self._store.resources.of(stack.id)))

    def _try_again(self, action: ActionRecord, reason: str) -> None:
        """Give back an action that others were in the way of, or end it after too many times."""
        log.warning("action %s: to be begun again: %s", action.id, reason)
        now, limit = self._clock.now(), self._settings.execution_retry_limit
        if action.retries >= limit:
            reason = f"Begun {limit + 1} times, always in vain: {reason}"
            self._give_up(action, reason)
        else:
            pause = min(2.0**action.retries, LONGEST_PAUSE)
            self._insist(action, lambda: self._store_retry(action, reason, now + pause))
            with self._lock:
                self._begins.append(now + pause)
            self._alarm.set()

    def _store_retry(self, action: ActionRecord, reason: str, not_before: float) -> None:
        with self._store.transaction():
            self._store.moves.requeue(action, reason, self._clock.now(), not_before)

    def _give_up(self, action: ActionRecord, reason: str) -> None:
        """End an action that no worker can complete."""
        self._insist(action, lambda: self._termination.give_up(action, reason, self._settings.lease_seconds))

    def _insist(self, action: ActionRecord, write: Callable[[], None]) -> None:
        """Write what becomes of an action, as soon as the database takes that."""
        while not self._stopping.is_set():
            try:
                write()
                return
            except Fenced:
                return
            except DatabaseUnavailable as error:
                log.error("action %s: cannot be written yet: %s", action.id, error)
                self._stopping.wait(SWEEP)

    # -- looking after -----------------------------------------------------------------------------

    def _pass_controls_on(self) -> None:
        with self._lock:
            running = dict(self._running)
        if not running:
            return
        asked = self._store.claims.controls(self.owner)
        for action_id, (_, execution) in running.items():
            if asked.get(action_id) is not execution.control:
                execution.notify()
                self._rouse(action_id)

    def _look_for_lost(self) -> None:
        """What was ended by force, or is another engine's by now, hears of it."""
        with self._lock:
            running = dict(self._running)
        held = set(self._store.claims.held_by(self.owner))
        for action_id, (_, execution) in running.items():
            if action_id not in held:
                execution.notify()
                self._rouse(action_id)

    def _lease_loop(self) -> None:
        """Keep what is carried out here, whatever the sweep has to wait for."""
        self._store.database.use_request_limits()  # all leases would run out while one row is held
        renewed = self._clock.now()
        while not self._stopped.is_set():
            try:
                now = self._clock.now()
                if now - renewed >= self._settings.lease_seconds / 3:
                    self._renew_leases(now)
                    renewed = now
                    self._forget_ended()
            except DatabaseUnavailable as error:
                log.warning("cannot renew leases: %s", error)
            except Exception:
                # Whatever it was, leases have to be renewed.
                log.exception("cannot renew leases")
            self._stopped.wait(SWEEP)
        self._store.close()

    def _sweep_loop(self) -> None:
        beaten = 0.0
        while not self._stopped.is_set():
            try:
                now = self._clock.now()
                if now - beaten >= REPORT:
                    beaten = now
                    with self._store.transaction():
                        self._store.services.heartbeat(
                            ServiceRecord(self.owner, socket.gethostname(), "heat-engine", self._began, now)
                        )
                for see_to in self._due:
                    see_to()
                self._retention.sweep()
                self._look_at_nested()
                self._look_for_lost()
                self._store.moves.wake_parked(now)
                self._termination.time_out()
            except DatabaseUnavailable as error:
                log.warning("cannot sweep: %s", error)
            except Exception:
                # There is more to look after than what went wrong.
                log.exception("cannot sweep")
            self._stopped.wait(SWEEP)
        self._store.close()

    def _renew_leases(self, now: float) -> None:
        with self._claiming:
            with self._lock:
                ours = {action_id for action_id, _ in self._claimed} | set(self._resting)
            if not ours.issuperset(self._store.claims.held_by(self.owner)):
                # The answer to a claim was lost: nobody here knows that it was made.
                reason = "its worker has not heard that it has it"
                with self._store.transaction():
                    self._store.claims.release(self.owner, now, reason, keeps=ours)
        failed: DatabaseUnavailable | None = None
        for action_id in ours:
            try:
                with self._store.transaction():
                    self._store.claims.heartbeat(self.owner, action_id, now + self._settings.lease_seconds)
            except DatabaseUnavailable as error:  # a process that is frozen may hold this one
                failed = error
        if failed is not None:
            raise failed

    def _forget_ended(self) -> None:
        """What has let go of its action here may have been gone on with, and ended, by another engine."""
        with self._lock:
            waiting = [action_id for action_id in self._begun if action_id not in self._running]
        for action in self._store.actions.ended(waiting):
            with self._lock:
                self._begun.pop(action.id, None)
