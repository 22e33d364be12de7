"""Attempts: started executions of actions, and those that wait without a thread."""

import heapq
import itertools
import math
import threading
from collections import defaultdict
from collections.abc import Collection

from heatlite.core.status import Result
from heatlite.engine.execution.execution import Execution
from heatlite.store.records import ActionRecord


class AttemptEnded(Exception):
    """The attempt has ended with `result`. None: it stopped for another engine."""

    def __init__(self, result: Result | None) -> None:
        self.result = result


class Attempt:
    """A started execution. Hold `lock` while it advances."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.lock = threading.Lock()
        self._steps = execution.execute()

    def advance(self) -> float | None:
        """Run until the execution has to wait.

        Returns the time (seconds since the epoch) to continue at the latest. None: continue when the action is claimed
        again. Raises AttemptEnded at the end. After any other error the attempt cannot continue.
        """
        try:
            return next(self._steps)
        except StopIteration as end:
            raise AttemptEnded(end.value) from None


class WaitingAttempts:
    """Attempts without a thread, by the time to continue. Not safe for threads.

    Hold a lock. No call takes longer for many that wait.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[float, ActionRecord, Attempt]] = {}
        self._times: list[tuple[float, int, str]] = []
        """Heap of times and action ids. An entry counts only if the attempt still has that time."""
        self._sequence = itertools.count()
        self._by_address: defaultdict[str, set[str]] = defaultdict(set)
        """Address of a mailbox → actions that wait for a message there."""
        self._awaiting_nested: set[str] = set()

    def __contains__(self, action_id: str) -> bool:
        return action_id in self._waiting

    @property
    def ids(self) -> Collection[str]:
        """The ids of the actions."""
        return self._waiting.keys()

    @property
    def awaiting_nested(self) -> Collection[str]:
        """Actions that wait for nested stacks, in which another process may work."""
        return self._awaiting_nested

    @property
    def awaits_messages(self) -> bool:
        """True if an attempt waits for a message."""
        return bool(self._by_address)

    def add(self, action: ActionRecord, attempt: Attempt, until: float) -> None:
        """Add an attempt that continues at `until`, in seconds since the epoch."""
        self._waiting[action.id] = until, action, attempt
        self._push(until, action.id)
        if attempt.execution.walker.awaits_nested:
            self._awaiting_nested.add(action.id)
        for address in attempt.execution.walker.awaited_addresses:
            self._by_address[address].add(action.id)

    def wake(self, action_id: str) -> None:
        """Let an attempt continue now, if it waits."""
        found = self._waiting.get(action_id)
        if found is not None:
            self._waiting[action_id] = 0.0, *found[1:]
            self._push(0.0, action_id)

    def deliver(self, addresses: Collection[str]) -> None:
        """Let the attempts continue that wait for a message at one of the addresses."""
        for address in addresses:
            for action_id in self._by_address.get(address, ()):
                self._waiting[action_id][2].execution.walker.deliver()
                self.wake(action_id)

    def take_due(self, now: float) -> list[tuple[ActionRecord, Attempt]]:
        """Remove and return the attempts whose time has come."""
        due = []
        while self._times and self._times[0][0] <= now:
            until, _, action_id = heapq.heappop(self._times)
            found = self._waiting.get(action_id)
            if found is not None and found[0] == until:
                self._remove(action_id)
                due.append(found[1:])
        return due

    def next_time(self) -> float:
        """Return the earliest time to continue; infinity if there is none."""
        while self._times:
            until, _, action_id = self._times[0]
            found = self._waiting.get(action_id)
            if found is not None and found[0] == until:
                return until
            heapq.heappop(self._times)
        return math.inf

    def _push(self, until: float, action_id: str) -> None:
        if until < math.inf:
            heapq.heappush(self._times, (until, next(self._sequence), action_id))

    def _remove(self, action_id: str) -> None:
        attempt = self._waiting.pop(action_id)[2]
        self._awaiting_nested.discard(action_id)
        for address in attempt.execution.walker.awaited_addresses:
            actions = self._by_address[address]
            actions.discard(action_id)
            if not actions:
                del self._by_address[address]
