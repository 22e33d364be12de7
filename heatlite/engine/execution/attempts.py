"""Table of a worker's attempts: a record for each, with its state."""

import heapq
import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from enum import Enum, auto
from math import inf
from typing import TypeAlias

from msgspec import Struct

from heatlite.engine.execution.execution import Execution
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord

Reads: TypeAlias = tuple[Callable[[], StackRecord | None], Callable[[], list[ResourceRecord]]]
"""Calls that return an action's stack and the rows of its resources, read with the claim."""


class AttemptState(Enum):
    """The place of an attempt."""

    CLAIMED = auto()
    """It occupies a slot, and no thread runs it yet."""
    RUNNING = auto()
    """A thread runs it in its slot."""
    WAITING = auto()
    """It has no slot, and continues at its time or at a hint. Its lease is renewed."""
    PARKED = auto()
    """Its action is released. The next claim of this worker continues its execution."""
    ENDED = auto()
    """It has left the table."""


WITH_SLOT = (AttemptState.CLAIMED, AttemptState.RUNNING)
"""States that occupy a slot."""
HELD = (AttemptState.CLAIMED, AttemptState.RUNNING, AttemptState.WAITING)
"""States in which the worker holds the action's lease."""


class Attempt(Struct, eq=False):
    """One attempt at an action, from its claim to its end in this worker."""

    action: ActionRecord
    """The action as claimed."""
    reads: Reads | None = None
    state: AttemptState = AttemptState.CLAIMED
    execution: Execution | None = None
    """None: it has not begun."""
    due: float = inf
    """While it waits: the time to continue, in seconds since the epoch."""
    addresses: frozenset[str] = frozenset()
    """While it waits: the mailboxes whose next message continues it."""
    before: "Attempt | None" = None
    """The attempt before it, whose thread may not have returned yet."""


class AttemptTable:
    """The attempts of one worker. Safe for threads."""

    def __init__(self, hint: Callable[[float], None]) -> None:
        """Call `hint` with each time at which an attempt is to continue."""
        self._hint = hint
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)
        """Notified when a thread has returned from an attempt."""
        self._attempts: dict[str, Attempt] = {}
        """Action id → its newest attempt."""
        self._occupied = 0
        """Number of attempts with a slot."""
        self._lacks_slot = False
        """True if an action may have found no free slot since one was freed."""
        self._is_draining = False
        self._times: list[tuple[float, int, Attempt]] = []
        """Heap of times to continue. An entry counts only if the attempt still waits for that time."""
        self._sequence = itertools.count()
        self._by_address: defaultdict[str, set[Attempt]] = defaultdict(set)
        """Address of a mailbox → attempts that wait for a message there."""

    # -- transitions -------------------------------------------------------------------------------

    def claim(self, action: ActionRecord, reads: Reads | None = None) -> Attempt:
        """Add an attempt, CLAIMED."""
        with self._lock:
            attempt = Attempt(action, reads, before=self._attempts.get(action.id))
            self._attempts[action.id] = attempt
            self._occupied += 1
        return attempt

    def begin(self, attempt: Attempt) -> None:
        """Have this thread run an attempt: CLAIMED → RUNNING.

        An attempt without an execution takes that of the one before it, if that one has parked: no other engine has
        continued the action since. Waits until the thread of that attempt has returned.
        """
        with self._lock:
            self._move(attempt, AttemptState.RUNNING, AttemptState.CLAIMED)
            before, attempt.before = attempt.before, None
            if before is not None and before.action.attempt + 1 == attempt.action.attempt:
                self._returned.wait_for(lambda: before.state is not AttemptState.RUNNING)
            if before is not None and before.state is AttemptState.PARKED:
                before.state = AttemptState.ENDED
                if before.execution is not None and before.action.attempt + 1 == attempt.action.attempt:
                    attempt.execution = before.execution
                    attempt.execution.resume(attempt.action)
            self._drain_if_stopping(attempt)

    def start(self, attempt: Attempt, execution: Execution) -> None:
        """Give a RUNNING attempt a new execution."""
        with self._lock:
            self._move(attempt, AttemptState.RUNNING, AttemptState.RUNNING)
            attempt.execution = execution
            self._drain_if_stopping(attempt)

    def wait(self, attempt: Attempt, until: float) -> bool:
        """Free the slot until a time in seconds since the epoch: RUNNING → WAITING.

        Returns True if an action may wait for a slot; so do `park` and `end`.
        """
        with self._lock:
            self._move(attempt, AttemptState.WAITING, AttemptState.RUNNING)
            walker = self._execution(attempt).walker
            attempt.addresses = walker.awaited_addresses
            for address in attempt.addresses:
                self._by_address[address].add(attempt)
            self._set_due(attempt, 0.0 if walker.is_nudged else until)
            return self._free_slot()

    def take_due(self, now: float) -> list[Attempt]:
        """Continue the attempts whose time has come: WAITING → CLAIMED. Returns them."""
        due = []
        with self._lock:
            while self._next_due() <= now:
                attempt = heapq.heappop(self._times)[2]
                self._move(attempt, AttemptState.CLAIMED, AttemptState.WAITING)
                self._occupied += 1
                for address in attempt.addresses:
                    self._by_address[address].discard(attempt)
                    if not self._by_address[address]:
                        del self._by_address[address]
                attempt.due, attempt.addresses = inf, frozenset()
                due.append(attempt)
            if self._next_due() < inf:
                self._hint(self._next_due())
        return due

    def park(self, attempt: Attempt) -> bool:
        """Keep the execution of a released action: RUNNING → PARKED. Returns as `wait`."""
        with self._lock:
            self._move(attempt, AttemptState.PARKED, AttemptState.RUNNING)
            return self._release(attempt)

    def end(self, attempt: Attempt) -> bool:
        """Drop an attempt that has ended: CLAIMED or RUNNING → ENDED. Returns as `wait`."""
        with self._lock:
            self._move(attempt, AttemptState.ENDED, *WITH_SLOT)
            if self._attempts.get(attempt.action.id) is attempt:
                del self._attempts[attempt.action.id]
            return self._release(attempt)

    def drop(self, action_id: str) -> None:
        """Drop an attempt that another engine has continued: PARKED → ENDED."""
        with self._lock:
            attempt = self._attempts.get(action_id)
            if attempt is not None and attempt.state is AttemptState.PARKED:
                attempt.state = AttemptState.ENDED
                del self._attempts[action_id]

    # -- hints -------------------------------------------------------------------------------------

    def wake(self, action_id: str) -> None:
        """Continue an attempt now, if it waits."""
        with self._lock:
            self._wake(self._attempts.get(action_id))

    def deliver(self, addresses: Collection[str]) -> None:
        """Continue the attempts that wait for a message at one of the addresses."""
        with self._lock:
            for address in addresses:
                for attempt in self._by_address.get(address, ()):
                    self._execution(attempt).walker.deliver()
                    self._wake(attempt)

    def wake_for_nested(self) -> None:
        """Continue the attempts that wait for nested stacks.

        Another process may work in these.
        """
        with self._lock:
            for attempt in self._attempts.values():
                if attempt.state is AttemptState.WAITING and self._execution(attempt).walker.awaits_nested:
                    self._wake(attempt)

    def drain(self) -> None:
        """Stop each execution at its next tick, also those that begin from now on."""
        with self._lock:
            self._is_draining = True
            for attempt in self._attempts.values():
                self._drain_if_stopping(attempt)

    # -- questions ---------------------------------------------------------------------------------

    def free_slots(self, limit: int) -> int:
        """Return the number of free slots of `limit`; none after `drain`.

        Without one, note that an action may wait for a slot.
        """
        with self._lock:
            free = max(0, limit - self._occupied)
            self._lacks_slot = self._lacks_slot or free == 0
            return 0 if self._is_draining else free

    def of(self, states: Collection[AttemptState], action_ids: Collection[str] | None = None) -> list[Attempt]:
        """Return the newest attempts in some states. `action_ids` None: of all actions."""
        with self._lock:
            ids = self._attempts if action_ids is None else self._attempts.keys() & action_ids
            return [attempt for attempt in map(self._attempts.__getitem__, ids) if attempt.state in states]

    def executions(self, action_ids: Collection[str] | None = None) -> dict[str, Execution]:
        """Return the begun executions of held actions, by action id. None: of all."""
        attempts = self.of(HELD, action_ids)
        return {one.action.id: one.execution for one in attempts if one.execution is not None}

    @property
    def is_empty(self) -> bool:
        """True if there is no attempt."""
        return not self._attempts

    @property
    def awaits_messages(self) -> bool:
        """True if an attempt waits for a message."""
        return bool(self._by_address)

    # -- with the lock -----------------------------------------------------------------------------

    @staticmethod
    def _execution(attempt: Attempt) -> Execution:
        assert attempt.execution is not None
        return attempt.execution

    @staticmethod
    def _move(attempt: Attempt, state: AttemptState, *allowed: AttemptState) -> None:
        """Give an attempt another state. Raises RuntimeError unless it has an allowed one."""
        if attempt.state not in allowed:
            raise RuntimeError(f"action {attempt.action.id}: {state.name} does not follow {attempt.state.name}")
        attempt.state = state

    def _set_due(self, attempt: Attempt, due: float) -> None:
        attempt.due = due
        if due < inf:
            heapq.heappush(self._times, (due, next(self._sequence), attempt))
            self._hint(due)

    def _next_due(self) -> float:
        """Return the earliest time to continue; infinity if there is none."""
        while self._times:
            due, _, attempt = self._times[0]
            if attempt.state is AttemptState.WAITING and attempt.due == due:
                return due
            heapq.heappop(self._times)
        return inf

    def _wake(self, attempt: Attempt | None) -> None:
        if attempt is not None and attempt.state is AttemptState.WAITING and attempt.due > 0.0:
            self._set_due(attempt, 0.0)

    def _drain_if_stopping(self, attempt: Attempt) -> None:
        if self._is_draining and attempt.execution is not None:
            attempt.execution.walker.drain()

    def _free_slot(self) -> bool:
        self._occupied -= 1
        lacks, self._lacks_slot = self._lacks_slot, False
        return lacks

    def _release(self, attempt: Attempt) -> bool:
        """Free the slot of an attempt, and nudge the attempt that waits for its action."""
        self._returned.notify_all()
        parent = self._attempts.get(attempt.action.parent_id or "")
        if parent is not None and parent.state in HELD and parent.execution is not None:
            parent.execution.walker.nudge()
            self._wake(parent)
        return self._free_slot()
