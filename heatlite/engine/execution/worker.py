"""Worker: claims actions, runs each in a slot, renews leases.

The claim loop waits for wake-ups by the dispatcher and polls once a second, so a lost wake-up costs a second.
"""

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from heatlite.core import logs
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.ids import new_id
from heatlite.core.masking import hiding
from heatlite.core.meter import Meter
from heatlite.core.status import Control, Result
from heatlite.core.timer import Timer
from heatlite.engine.dispatch.local import Slots
from heatlite.engine.execution.action_log import about_action
from heatlite.engine.execution.attempts import Attempt, AttemptEnded, WaitingAttempts
from heatlite.engine.execution.execution import Execution, Parts
from heatlite.engine.execution.final_writes import FinalWrites
from heatlite.engine.execution.retention import Retention
from heatlite.engine.execution.sweep import POLL_INTERVAL, Sweep, renew_leases, run_cleanup
from heatlite.engine.execution.termination import Termination
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.types.resource_factory import EngineServices
from heatlite.store.actions.claims import max_takeovers
from heatlite.store.database.limits import Pace
from heatlite.store.errors import Fenced, UnreadableSecret
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

CLOCK_DIFFERENCE = 10.0
"""Seconds by which the clocks of two processes may differ without a late delivery of messages."""

TAKEOVER_INTERVAL = 2.0
"""Seconds between claims of two actions that were taken over without progress.

If one of them ends the worker, no attempt of another ends with it.
"""

TAKEN_OVER = (
    "Taken over {} times without progress: each engine that carried it out ended or froze."
    " Fix the cause, then retry or delete the stack."
)

_Read: TypeAlias = tuple[Callable[[], StackRecord | None], Callable[[], list[ResourceRecord]]]
"""Calls that return an action's stack and the rows of its resources, read with the claim."""


class Worker:
    """One engine. Call `start` once; `stop` releases unfinished actions."""

    def __init__(
        self, store: Store, engine_services: EngineServices, clock: Clock, settings: Settings, definitions: Definitions,
        due: Sequence[Callable[[], None]], meter: Meter, slots: Slots, timer: Timer
    ) -> None:
        """Create a worker. It calls each of `due` once a second.

        They may raise DatabaseUnavailable.
        """
        self.owner = new_id()
        self._store = store
        self._clock = clock
        self._settings = settings
        self._meter = meter
        self._retention = Retention(store, clock, settings)
        self._handlers = logs.Pool(settings.handler_threads, "handler")
        self._slots = slots
        self._cleanup_threads = logs.Pool(settings.handler_threads, "late")
        self._stopping = threading.Event()
        self._parts = Parts(
            store, engine_services, clock, settings, definitions,
            self._handlers, self._run_cleanup, self._stopping, meter,
        )
        self._termination = Termination(store, clock)
        self._final_writes = FinalWrites(store, clock, settings, self._termination, self._stopping)
        self._lacks_slot = False
        """True if an action may have found no free slot since the claim loop was woken last."""
        self._claimed: set[tuple[str, int]] = set()
        """Ids and attempts that occupy a slot; both of one action may overlap for a moment."""
        self._read_ahead: dict[tuple[str, int], _Read] = {}
        """Those of claimed actions, until they are executed."""
        self._running: dict[str, tuple[int, Execution]] = {}
        """Action id → number of the attempt and its execution."""
        self._attempts: dict[str, Attempt] = {}
        """Action id → attempt that has not ended: it runs, or waits without a slot."""
        self._waiting = WaitingAttempts()
        """Attempts without a slot."""
        self._controlled: dict[str, Control] = {}
        """Controls of running actions when they were read last."""
        self._messages_since = clock.now()
        """Time up to which messages were delivered."""
        self._retry_times: list[float] = []
        """Times at which requeued actions may be claimed again."""
        self._lock = threading.Lock()
        self._claiming = threading.Lock()
        """Held during a claim, so that another thread cannot take the free slot."""
        self._began = self._renewed_at = clock.now()
        self._takeovers_from = self._began
        """Time from which actions taken over without progress may be claimed again."""
        jobs: tuple[Callable[[], object], ...] = (
            # First: the others may wait for rows that such a client holds.
            partial(store.services.end_frozen_clients, settings.lease_seconds),
            *due,
            self._retention.sweep,
            self._recheck_nested,
            self._deliver_messages,
            self._recheck_controls,
            self._notify_lost,
            lambda: store.moves.wake_parked(clock.now()),
            self._termination.time_out,
        )
        self._claims = timer.job("claims", self._claim_all)
        self._alarm = timer.job("alarm", self._continue_due)
        self._leases = timer.job("leases", self._keep_leases)
        self._sweep = timer.job("sweep", Sweep(store, clock, self.owner, jobs).poll)

    def start(self) -> None:
        """Start the jobs."""
        for job in (self._claims, self._alarm, self._leases, self._sweep):
            job.start()

    def wake(self) -> None:
        """Look for claimable actions and for controls (from any thread)."""
        self._claims.wake()

    def take(self, action_id: str) -> None:
        """Claim this action and run it in a slot, if one is free (from any thread).

        The claim loop finds the rest in the table later.
        """
        with self._lock:
            is_full = len(self._claimed) >= self._slots.limit
            self._lacks_slot = self._lacks_slot or is_full
        if not is_full:
            self._slots.submit(partial(self._take, action_id))

    def active(self) -> list[ActionRecord]:
        """Return the actions that have a slot."""
        with self._lock:
            running = ((execution.action, attempt) for attempt, execution in self._running.values())
            return [action for action, attempt in running if (action.id, attempt) in self._claimed]

    def stop(self) -> None:
        """Stop claiming, release running actions at their next tick, and wait for that."""
        with self._claiming:
            self._stopping.set()
        with self._lock:
            for _, execution in self._running.values():
                execution.walker.drain()
        self._claims.stop()
        self._alarm.stop()
        self._slots.close()
        self._leases.stop()
        self._sweep.stop()
        try:
            with self._store.transaction():
                self._store.claims.release(self.owner, self._clock.now(), "its worker has stopped")
                self._store.services.remove([self.owner])
        except DatabaseUnavailable as error:
            log.warning("cannot release running actions; other engines take them over when their leases end: %s", error)
        self._handlers.shutdown(wait=True)
        self._cleanup_threads.shutdown(wait=True)

    # -- claiming ----------------------------------------------------------------------------------

    def _take(self, action_id: str) -> None:
        try:
            for action in self._claim(action_id):
                self._run(action)
        except DatabaseUnavailable as error:  # `_run` raises none
            log.warning("cannot claim action %s: %s", action_id, error)

    def _claim_all(self) -> float:
        """Notify of controls and start actions while slots are free.

        Returns the pause until the next look.
        """
        self._forward_controls()
        while actions := self._claim():
            for action in actions:
                self._slots.submit(partial(self._run, action))
        now = self._clock.now()
        with self._lock:
            self._retry_times = [begins for begins in self._retry_times if begins > now]
            self._claims.at(min(self._retry_times, default=math.inf))
        return POLL_INTERVAL

    def _claim(self, action_id: str | None = None) -> Sequence[ActionRecord]:
        """Claim the named action, or the next ones. Empty: there is none, or no free slot."""
        with self._claiming:
            with self._lock:
                free = self._slots.limit - len(self._claimed)
                self._lacks_slot = self._lacks_slot or free <= 0
                if self._stopping.is_set() or free <= 0:
                    return ()
            now, lease, limits = self._clock.now(), self._settings.lease_seconds, self._slots.claim_filter()
            limit = max_takeovers(now - self._began) if now >= self._takeovers_from else 0
            claim_many, kinds, zones = self._store.claims.claim_many, limits.kinds, limits.zones
            claim = partial(claim_many, free, self.owner, now, lease, action_id, kinds, zones, limit)
            if action_id is None:
                actions, reads = claim(), {}
            else:
                stack, rows = self._store.stacks.send_get, self._store.resources.send_of
                with self._store.transaction():  # so that one round trip claims and reads
                    actions = claim()
                    reads = {(one.id, one.attempt): (stack(one.stack_id), rows(one.stack_id)) for one in actions}
            self._read_ahead.update(reads)  # committed: without its commit a claim's number comes again
            for action in actions:
                if action.takeovers:
                    self._takeovers_from = now + TAKEOVER_INTERVAL
                if action.attempt == 1:
                    submitted = max(action.created_at, action.not_before or 0.0)
                    self._meter.action_begun(action.verb, self._clock.now() - submitted)
            with self._lock:
                self._claimed.update((action.id, action.attempt) for action in actions)
            return actions

    def _run(self, action: ActionRecord, attempt: Attempt | None = None) -> None:
        """Start an action, or continue an `attempt` that has waited."""
        with about_action(action):
            self._execute(action, attempt)

    def _execute(self, action: ActionRecord, attempt: Attempt | None) -> None:
        waits = False
        read = self._read_ahead.pop((action.id, action.attempt), None)
        try:
            if action.takeovers > self._settings.takeover_limit:
                log.error("action %s: taken over too often without progress", action.id)
                self._final_writes.give_up(action, TAKEN_OVER.format(self._settings.takeover_limit))
                return
            attempt = attempt or self._attempt(action, read)
            with attempt.lock:
                with self._lock:
                    self._running[action.id] = action.attempt, attempt.execution
                    self._attempts[action.id] = attempt
                    if self._stopping.is_set():
                        attempt.execution.walker.drain()
                try:
                    with hiding(attempt.execution.mask):
                        until = attempt.advance()
                except Exception:
                    self._forget(attempt)
                    raise
                if until is not None:
                    waits = True
                    self._wait(action, attempt, until)
        except AttemptEnded as ended:
            if ended.result is Result.RETRY and attempt is not None:
                self._retry_at(self._final_writes.requeue(action, attempt.execution.reason))
        except Fenced:
            log.warning("action %s: taken over by another engine, or ended by force", action.id)
        except UnreadableSecret as error:
            self._retry_at(self._final_writes.leave(action, error.message))
        except DatabaseUnavailable as error:
            self._retry_at(self._final_writes.requeue(action, error.message))
        except Exception:
            # An internal error must not leave the stack IN_PROGRESS forever.
            log.exception("action %s: internal error", action.id)
            broken = None if attempt is None else attempt.execution
            self._retry_at(self._final_writes.end_broken(action, broken))
        finally:
            if not waits:
                now = self._clock.now()
                # The claim has set updated_at.
                self._meter.attempt_ended(action.verb, now - (action.updated_at or now))
                with self._lock:
                    if self._running.get(action.id, (None,))[0] == action.attempt:
                        del self._running[action.id]
                    self._claimed.discard((action.id, action.attempt))
                    parent = self._running.get(action.parent_id or "")
                    lacks_slot, self._lacks_slot = self._lacks_slot, False
                if parent is not None:
                    parent[1].walker.nudge()
                    self._wake_attempt(parent[1].action.id)
                if lacks_slot:  # else each READY action was announced to a worker with a free one
                    self._claims.wake()

    def _run_cleanup(self, call: Callable[[], None]) -> None:
        """Run the long clean-up of an ended attempt in a thread of its own."""
        self._cleanup_threads.submit(run_cleanup, self._store, call)

    def _forget(self, attempt: Attempt) -> None:
        """Drop a broken attempt: the next claim starts a new one."""
        with self._lock:
            if self._attempts.get(attempt.execution.action.id) is attempt:
                del self._attempts[attempt.execution.action.id]

    def _wait(self, action: ActionRecord, attempt: Attempt, until: float) -> None:
        """Free the slot until then. The lease is renewed meanwhile."""
        with self._lock:
            self._waiting.add(action, attempt, 0.0 if attempt.execution.walker.is_nudged else until)
            was_full = len(self._claimed) >= self._slots.limit
            self._claimed.discard((action.id, action.attempt))
            self._alarm.at(self._waiting.next_time())
        if was_full:  # otherwise no action has waited for a slot
            self._claims.wake()

    def _recheck_nested(self) -> None:
        """Continue attempts that wait for nested stacks: other processes send no wake-up."""
        with self._lock:
            for action_id in tuple(self._waiting.awaiting_nested):
                self._waiting.wake(action_id)
            self._alarm.at(self._waiting.next_time())

    def deliver(self, address: str) -> None:
        """Continue the attempts that wait for a message at the address (from any thread)."""
        with self._lock:
            self._waiting.deliver((address,))
            self._alarm.at(self._waiting.next_time())

    def _deliver_messages(self) -> None:
        """Continue the attempts for which another process has stored a message.

        Each look goes back over the last one, since the clocks of processes differ.
        """
        with self._lock:
            awaits = self._waiting.awaits_messages
        since, self._messages_since = self._messages_since, self._clock.now()
        if not awaits:
            return
        try:
            addresses = self._store.messages.changed_since(since - CLOCK_DIFFERENCE)
        except DatabaseUnavailable:
            self._messages_since = since
            raise
        with self._lock:
            self._waiting.deliver(addresses)
            self._alarm.at(self._waiting.next_time())

    def _wake_attempt(self, action_id: str) -> None:
        """Continue a waiting action now."""
        with self._lock:
            self._waiting.wake(action_id)
            self._alarm.at(self._waiting.next_time())

    def _continue_due(self) -> float:
        """Continue the attempts whose time has come."""
        with self._lock:
            due = self._waiting.take_due(self._clock.now())
            self._claimed.update((action.id, action.attempt) for action, _ in due)
            self._alarm.at(self._waiting.next_time())
        for action, attempt in due:
            self._slots.submit(partial(self._run, action, attempt))
        return math.inf

    def _attempt(self, action: ActionRecord, read: _Read | None) -> Attempt:
        """Return the attempt that parked here, or a new one.

        A takeover gets a new one. It is new, too, if another engine has continued the action since.
        """
        with self._lock:
            known = self._attempts.pop(action.id, None)
        if known is not None and known.execution.action.attempt + 1 == action.attempt:
            with known.lock:  # its last thread may not have returned yet
                known.execution.resume(action)
            return known
        stack = self._store.stacks.get(action.stack_id) if read is None else read[0]()
        if stack is None:
            raise LookupError(f"action {action.id} has no stack")
        rows = self._store.resources.of(stack.id) if read is None else read[1]()
        return Attempt(Execution(self._parts, action, stack, rows))

    def _retry_at(self, moment: float | None) -> None:
        if moment is not None:
            with self._lock:
                self._retry_times.append(moment)
            self._claims.at(moment)

    # -- looking after -----------------------------------------------------------------------------

    def _forward_controls(self) -> None:
        """Notify the executions whose control has changed since the last look."""
        with self._lock:
            if not self._running:
                return
        asked = self._store.claims.controls(self.owner)
        with self._lock:
            changed = asked.keys() | self._controlled.keys()
            executions = [self._running[action_id][1] for action_id in changed if action_id in self._running]
            self._controlled = asked
        self._notify_changed(executions, asked)

    def _recheck_controls(self) -> None:
        """Notify every execution whose control differs from its row's.

        An attempt may read the row at any time.
        """
        with self._lock:
            executions = [execution for _, execution in self._running.values() if execution.control is not None]
        if executions:
            self._notify_changed(executions, self._store.claims.controls(self.owner))

    def _notify_changed(self, executions: Iterable[Execution], asked: Mapping[str, Control]) -> None:
        for execution in executions:
            if asked.get(execution.action.id) is not execution.control:
                execution.walker.notify()
                self._wake_attempt(execution.action.id)

    def _notify_lost(self) -> None:
        """Notify executions whose action was ended by force or taken over."""
        with self._lock:
            running = dict(self._running)
        if self._store.claims.count_held_by(self.owner) >= len(running):
            return
        held = set(self._store.claims.held_by(self.owner))
        for action_id, (_, execution) in running.items():
            if action_id not in held:
                execution.walker.notify()
                self._wake_attempt(action_id)

    def _keep_leases(self) -> float:
        """Renew leases when a third of their time is over."""
        now = self._clock.now()
        # Also once the clock was set back: what is claimed since has a lease by the new time.
        if not 0 <= now - self._renewed_at < self._settings.lease_seconds / 3:
            self._renew_leases(now)
            self._renewed_at = now
            self._forget_ended()
        return POLL_INTERVAL

    def _renew_leases(self, now: float) -> None:
        with self._claiming:
            with self._lock:
                own = {action_id for action_id, _ in self._claimed} | set(self._waiting.ids)
            if not own.issuperset(self._store.claims.held_by(self.owner)):
                # The answer to a claim was lost: no thread of this worker runs the action.
                reason = "its worker did not receive the claim"
                with self._store.transaction():
                    self._store.claims.release(self.owner, now, reason, keeps=own)
        if own:
            # Waiting for one locked row would let all leases expire.
            with self._store.database.limits_of(Pace.REQUEST):
                renew_leases(self._store, self.owner, own, now + self._settings.lease_seconds)

    def _forget_ended(self) -> None:
        """Drop parked attempts whose action another engine has continued and ended."""
        with self._lock:
            waiting = [action_id for action_id in self._attempts if action_id not in self._running]
        for action in self._store.actions.ended(waiting):
            with self._lock:
                self._attempts.pop(action.id, None)
