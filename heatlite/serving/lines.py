"""Waiting lines: kinds of requests wait apart for the threads of a process.

Used in the event loop only.
"""

import asyncio
import math
import re
from collections import deque
from collections.abc import Iterator
from enum import Enum, auto

from heatlite.core.errors import Overloaded

MAX_WAIT = 2.0
"""Seconds that a request may wait. One that would wait longer is refused at once."""
MARGIN = 1.3
"""Factor of an estimated wait. Others may slow it down while it lasts."""
MAX_WAITING = 1000
"""Maximum length of a line. It holds while the time of an answer is unknown."""
RESERVED = 2
"""Threads that only requests of the kind AHEAD use."""
ROUNDS = 3
"""Rounds of the event loop for a request: it accepts the connection, reads, and answers."""
WEIGHT = 0.1
"""Weight of the last request in the average time of an answer."""
DEAR_SECONDS = 0.05
"""Processor time from which an answer to a read is dear."""
QUICK_SECONDS = 0.01
"""Processor time up to which an answer needs no thread: to change threads takes as long."""
MAX_NOTED = 10_000
"""Dear requests, and quick ones, that are remembered."""
AT_ONCE = 16
"""Quick requests that the event loop answers in a row. It looks after all connections after them."""
URGENT = re.compile(rb'\s*\{\s*"(?:lock|unlock|cancel_\w+)"\s*:')
"""Start of the body of an action that goes ahead: it ends what others wait for."""
MAX_URGENT = 4096
"""Bytes of such a body."""


class RequestKind(Enum):
    """Kinds of requests. Each has a line."""

    AHEAD = auto()
    """Locks and cancels: they pass all others."""
    READ = auto()
    DEAR = auto()
    """Reads whose last answer took long, such as long lists."""
    WRITE = auto()
    QUICK = auto()
    """Requests that the event loop itself answers."""


def is_urgent(target: str, body: bytes) -> bool:
    """Return True for the POST of an action that goes ahead."""
    return target.endswith("/actions") and len(body) <= MAX_URGENT and URGENT.match(body) is not None


class LastAnswers:
    """Cost of the last answers to requests. Safe for threads.

    Requests are known by a number, their hash.
    """

    def __init__(self) -> None:
        self._dear: set[int] = set()
        self._quick: set[int] = set()

    def was_dear(self, request: int) -> bool:
        """Return True if the last answer took long."""
        return request in self._dear

    def was_quick(self, request: int) -> bool:
        """Return True if there was an answer, and it took a moment."""
        return request in self._quick

    def note(self, request: int, seconds: float, waited: bool) -> None:
        """Note the processor time of an answer, and whether its thread waited or wrote."""
        for noted, belongs in (
            (self._dear, seconds >= DEAR_SECONDS), (self._quick, seconds < QUICK_SECONDS and not waited),
        ):  # fmt: skip
            if not belongs:
                noted.discard(request)
            elif request not in noted:
                if len(noted) >= MAX_NOTED:
                    noted.clear()
                noted.add(request)


class _Line:
    def __init__(self, most: int) -> None:
        self.most = most
        """Maximum number of requests that are answered at once."""
        self.busy = 0
        """Requests that are answered now."""
        self.waiting: deque[asyncio.Future[None]] = deque()
        """Requests that wait."""
        self.seconds = 0.0
        """Average time of an answer."""

    @property
    def is_open(self) -> bool:
        return self.busy < self.most

    def wait(self) -> float:
        """Return the seconds until the answer to a further request is complete."""
        if self.is_open and not self.waiting:
            return 0.0
        return self.seconds * (1 + (len(self.waiting) + 1) / max(1, self.busy))


class Lines:
    """The lines before a pool of `threads` + `RESERVED` threads.

    Reads and writes leave each other a thread. Dear reads get a quarter of them.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self.lag = 0.0
        """Seconds by which the event loop is late."""
        self.size = threads + RESERVED
        """Threads of the pool."""
        most = max(1, threads - 1)
        self._lines = {
            RequestKind.AHEAD: _Line(self.size),
            RequestKind.READ: _Line(most),
            RequestKind.WRITE: _Line(most),
            RequestKind.DEAR: _Line(max(1, threads // 4)),
            RequestKind.QUICK: _Line(AT_ONCE),
        }
        self._next = deque([RequestKind.READ, RequestKind.WRITE, RequestKind.DEAR])
        """Turns of the lines."""

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return sum(len(line.waiting) for line in self._lines.values())

    async def enter(self, kind: RequestKind) -> None:
        """Wait for a thread, or for the event loop.

        Call `leave` afterwards. Raises Overloaded.
        """
        line = self._lines[kind]
        if kind is RequestKind.QUICK and line.is_open and not line.waiting:
            line.busy += 1
            return
        # To refuse a quick request takes most of the time that its answer takes.
        wait = MARGIN * line.wait() + (0.0 if kind is RequestKind.QUICK else ROUNDS * self.lag)
        if kind is not RequestKind.AHEAD and (wait > MAX_WAIT or len(line.waiting) >= MAX_WAITING):
            raise _overloaded(wait)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append(turn)
        self._admit()
        try:
            async with asyncio.timeout(None if kind is RequestKind.AHEAD else MAX_WAIT):
                await self._come(turn, kind)
        except TimeoutError:
            raise _overloaded(MAX_WAIT) from None

    async def _come(self, turn: "asyncio.Future[None]", kind: RequestKind) -> None:
        """Wait for a turn. Leaves the line if the wait is cancelled."""
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the thread came at the same moment
                self._end(kind)
            elif turn in (waiting := self._lines[kind].waiting):
                waiting.remove(turn)
            raise

    def leave(self, kind: RequestKind, seconds: float) -> None:
        """Let the next one begin after an answer that took `seconds`."""
        line = self._lines[kind]
        line.seconds += (seconds - line.seconds) * (WEIGHT if line.seconds else 1.0)
        self._end(kind)

    def _end(self, kind: RequestKind) -> None:
        self._lines[kind].busy -= 1
        self._admit()

    def _admit(self) -> None:
        """Let requests begin that wait."""
        for kind in self._open():
            line = self._lines[kind]
            turn = line.waiting.popleft()
            if not turn.done():  # else it ends in this moment
                line.busy += 1
                turn.set_result(None)

    def _open(self) -> Iterator[RequestKind]:
        """Yield the kind of each request that may begin now."""
        ahead, quick = self._lines[RequestKind.AHEAD], self._lines[RequestKind.QUICK]
        while quick.waiting and quick.is_open:
            yield RequestKind.QUICK
        while True:
            if ahead.waiting and self._busy() < self.size:
                yield RequestKind.AHEAD
                continue
            if self._busy() >= self._threads:
                return
            for kind in self._next:
                if self._lines[kind].waiting and self._lines[kind].is_open:
                    break
            else:
                return
            self._next.remove(kind)
            self._next.append(kind)
            yield kind

    def _busy(self) -> int:
        """Return the number of threads in use."""
        return sum(line.busy for kind, line in self._lines.items() if kind is not RequestKind.QUICK)


def _overloaded(seconds: float) -> Overloaded:
    return Overloaded("many requests", max(1, math.ceil(seconds)))
