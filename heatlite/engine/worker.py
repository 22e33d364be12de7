"""The process loop: claims actions, carries each out in a thread, keeps leases, looks after what is due.

Claiming waits for a wake-up from whoever queued an action, and looks once a second anyway: a lost one costs a second.
"""

import logging
import math
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.ids import new_id
from heatlite.core.status import ActionStatus, Control, Status
from heatlite.engine.breakpoints import waits_at
from heatlite.engine.definitions import Definitions
from heatlite.engine.execution import Execution, Parts
from heatlite.engine.journal import moved, resource_event, stack_event
from heatlite.engine.maintenance import Maintenance
from heatlite.engine.retention import Retention
from heatlite.engine.scope import Surroundings
from heatlite.store.errors import Fenced
from heatlite.store.records import ActionRecord, ServiceRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

SWEEP = 1.0
"""Seconds between two looks at what nobody has called us for: lost wake-ups, controls, expired locks."""


class Attempt:
    """An execution that has begun, and how to go on with it. `lock` is held while it does."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.lock = threading.Lock()
        self._steps = execution.run()

    def go_on(self) -> tuple[bool, float | None]:
        """Do what there is to do. Tells whether there will be more, and when to go on at the latest (seconds since the
        epoch); None: once the action is claimed again. After an error there is nothing to go on with."""
        for until in self._steps:
            return True, until
        return False, None


class Worker:
    """One engine. `start` it once; `stop` gives back what it has not finished."""

    def __init__(
        self, store: Store, surroundings: Surroundings, clock: Clock, settings: Settings, definitions: Definitions,
        maintenance: Maintenance
    ) -> None:
        self.owner = new_id()
        self._store = store
        self._clock = clock
        self._settings = settings
        self._maintenance = maintenance
        self._retention = Retention(store, clock, settings)
        self._handlers = ThreadPoolExecutor(settings.handler_threads, "handler")
        self._slots = ThreadPoolExecutor(settings.engine_slots, "engine")
        self._parts = Parts(store, surroundings, clock, settings, definitions, self._handlers, self.wake)
        self._claimed: set[tuple[str, int]] = set()
        """Actions and attempts that have a slot: an action may be claimed anew before its slot of before is free."""
        self._running: dict[str, tuple[int, Execution]] = {}
        """By action: the attempt, and what carries it out."""
        self._begun: dict[str, Attempt] = {}
        """What has not ended: it runs, or it waits and needs no slot."""
        self._resting: dict[str, tuple[float, ActionRecord, Attempt]] = {}
        """Of what runs: when to go on with what needs no slot until then."""
        self._alarm = threading.Event()
        """Says that `_resting` has changed."""
        self._lock = threading.Lock()
        self._called = threading.Event()
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        """Nothing runs any more, so that no lease has to be renewed."""
        self._began = clock.now()
        self._starters = [
            threading.Thread(target=self._claim_loop, name="claims", daemon=True),
            threading.Thread(target=self._alarm_loop, name="alarm", daemon=True),
        ]
        self._sweeper = threading.Thread(target=self._sweep_loop, name="sweep", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        for thread in (*self._starters, self._sweeper):
            thread.start()

    def wake(self) -> None:
        """There is something to claim, or a control to look at (from any thread)."""
        self._called.set()

    def stop(self) -> None:
        """Claim nothing more, give running actions back at their next tick, and wait for that."""
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
        self._sweeper.join()
        try:
            with self._store.transaction():
                self._store.actions.give_back(self.owner)
                self._store.services.leave(self.owner)
        except DatabaseUnavailable as error:
            log.warning("running actions are not given back; they are taken over when their leases end: %s", error)
        self._handlers.shutdown(wait=True)

    # -- claiming ----------------------------------------------------------------------------------

    def _claim_loop(self) -> None:
        while not self._stopping.is_set():
            self._called.clear()
            try:
                self._pass_controls_on()
                while self._has_free_slot() and (action := self._claim()) is not None:
                    self._slots.submit(self._carry_out, action)
            except DatabaseUnavailable as error:
                log.warning("cannot look for actions: %s", error)
            except Exception:
                # Whatever it was, an engine that claims nothing any more is worse.
                log.exception("cannot look for actions")
            self._called.wait(SWEEP)
        self._store.close()

    def _has_free_slot(self) -> bool:
        with self._lock:
            return not self._stopping.is_set() and len(self._claimed) < self._settings.engine_slots

    def _claim(self) -> ActionRecord | None:
        action = self._store.actions.claim(self.owner, self._clock.now(), self._settings.lease_seconds)
        if action is not None:
            with self._lock:
                self._claimed.add((action.id, action.attempt))
        return action

    def _carry_out(self, action: ActionRecord, attempt: Attempt | None = None) -> None:
        """Begin an action, or go on with an `attempt` at it that has rested."""
        rests = False
        try:
            attempt = attempt or self._attempt(action)
            with attempt.lock:
                with self._lock:
                    self._running[action.id] = action.attempt, attempt.execution
                    self._begun[action.id] = attempt
                    if self._stopping.is_set():
                        attempt.execution.drain()
                goes_on = False
                try:
                    goes_on, until = attempt.go_on()
                finally:
                    if not goes_on:
                        self._forget(attempt)
                if until is not None:
                    rests = True
                    self._rest(action, attempt, until)
        except Fenced:
            log.warning("action %s: another engine has taken it over", action.id)
        except DatabaseUnavailable as error:
            log.warning("action %s: given back: %s", action.id, error)
            self._give_back(action)
        except Exception:
            # A fault of ours: the stack must not stay IN_PROGRESS for good.
            log.exception("action %s: internal error", action.id)
            self._give_up(action)
        finally:
            if not rests:
                with self._lock:
                    if self._running.get(action.id, (None,))[0] == action.attempt:
                        del self._running[action.id]
                    self._claimed.discard((action.id, action.attempt))
                    parent = self._running.get(action.parent_id or "")
                if parent is not None:
                    parent[1].nudge()
                    self._rouse(parent[1].action.id)
            self._called.set()

    def _forget(self, attempt: Attempt) -> None:
        """There is nothing to go on with: whoever claims the action begins anew."""
        with self._lock:
            if self._begun.get(attempt.execution.action.id) is attempt:
                del self._begun[attempt.execution.action.id]

    def _rest(self, action: ActionRecord, attempt: Attempt, until: float) -> None:
        """Free the slot until then. The action stays ours: its lease is renewed."""
        with self._lock:
            self._resting[action.id] = 0.0 if attempt.execution.nudged else until, action, attempt
            self._claimed.discard((action.id, action.attempt))
        self._alarm.set()

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
                first = min((until for until, _, _ in self._resting.values() if until < math.inf), default=None)
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

    def _give_back(self, action: ActionRecord) -> None:
        """Let go of an action that nobody can go on with here, as soon as the database takes that."""
        while not self._stopping.is_set():
            try:
                with self._store.transaction():
                    self._store.actions.give_back(self.owner, action.id)
                return
            except DatabaseUnavailable:
                self._stopping.wait(SWEEP)

    def _give_up(self, action: ActionRecord) -> None:
        """End an action that hit a fault of ours, as soon as the database takes that."""
        while not self._stopping.is_set():
            try:
                self._write_fault(action)
                return
            except Fenced:
                return
            except DatabaseUnavailable as error:
                log.error("action %s: cannot be ended yet: %s", action.id, error)
                self._stopping.wait(SWEEP)

    def _write_fault(self, action: ActionRecord) -> None:
        reason = "Internal error of the engine; its log has the details"
        with self._store.transaction():
            now = self._clock.now()
            lease = self._settings.lease_seconds
            self._store.actions.hold_parent(action)
            control = self._store.actions.hold(action.id, self.owner, action.attempt, now, lease)
            stack = self._store.stacks.get(action.stack_id)
            # A delete that waits for this action has taken the stack's state over, and sees to the rows.
            if stack is not None and stack.status is Status.IN_PROGRESS and control is not Control.ABORT:
                stack = moved(stack, stack.verb, Status.FAILED, reason)
                known = self._store.resources.of(stack.id)
                rows = [
                    replace(row, status=Status.FAILED, status_reason=reason, token=None, updated_at=now)
                    for row in known
                    if row.status is Status.IN_PROGRESS
                ]
                waiting = [replace(row, token=None) for row in known if waits_at(row) is not None]
                self._store.stacks.save(stack)
                self._store.resources.save_many([*rows, *waiting])
                self._store.mail.clear(action.id)
                events = [resource_event(row, now) for row in rows]
                self._store.events.append_many([*events, stack_event(stack, now)])
            for derived in self._store.actions.running_children(action.id):
                self._store.actions.signal(derived, Control.FORCE_CANCEL)  # nobody is left who waits for it
            self._store.snapshots.give_up(action.stack_id, reason)
            self._store.actions.finish(action, ActionStatus.FAILED, reason, now)

    # -- looking after -----------------------------------------------------------------------------

    def _pass_controls_on(self) -> None:
        with self._lock:
            running = dict(self._running)
        if not running:
            return
        for action_id, control in self._store.actions.controls(self.owner).items():
            if action_id in running and running[action_id][1].request(control):
                self._rouse(action_id)

    def _sweep_loop(self) -> None:
        beaten, renewed = 0.0, self._clock.now()
        while not self._stopped.is_set():
            try:
                now = self._clock.now()
                if now - renewed >= self._settings.lease_seconds / 3:
                    renewed = now
                    for action_id in self._store.actions.running(self.owner):
                        with self._store.transaction():
                            self._store.actions.renew(self.owner, action_id, now + self._settings.lease_seconds)
                    self._forget_ended()
                if now - beaten >= self._settings.lease_seconds:
                    beaten = now
                    with self._store.transaction():
                        self._store.services.beat(
                            ServiceRecord(self.owner, socket.gethostname(), "heatlite-engine", self._began, now)
                        )
                self._maintenance.expire_locks()
                self._retention.sweep()
                self._look_at_nested()
                if self._store.actions.wake_parked(now):
                    self._called.set()
            except DatabaseUnavailable as error:
                log.warning("cannot sweep: %s", error)
            except Exception:
                # Leases have to be renewed whatever else goes wrong.
                log.exception("cannot sweep")
            self._stopped.wait(SWEEP)
        self._store.close()

    def _forget_ended(self) -> None:
        """What has let go of its action here may have been gone on with, and ended, by another engine."""
        with self._lock:
            waiting = [action_id for action_id in self._begun if action_id not in self._running]
        for action in self._store.actions.ended(waiting):
            with self._lock:
                self._begun.pop(action.id, None)
