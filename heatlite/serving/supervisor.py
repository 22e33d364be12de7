"""Supervisor: the parent of a server's processes, which starts again what ends.

It forks them after the modules are loaded, so that they share memory. At the end it stops them one after another.
"""

import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

log = logging.getLogger(__name__)

STABLE_SECONDS = 10.0
"""Life of a process after which its end is no longer counted as a failed start."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
"""Seconds until the next start after failed ones. Each doubles the pause."""

HANDLED = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
OF_CHILDREN = HANDLED - {signal.SIGINT}
PR_SET_PDEATHSIG = 1
"""Option of prctl(2): the signal that a process gets at the end of its parent."""


class Child(Struct):
    """A process of the server, which is started again whenever it ends."""

    name: str
    run: Callable[[], None]
    """Runs in the process until SIGTERM, which is blocked: see `unblock`. It raises what prevents its start."""
    reloads: bool = False
    """True if SIGHUP is passed on to it."""
    pid: int = 0
    """0: it has ended."""
    began: float = 0.0
    failed_starts: int = 0
    due: float = 0.0
    """Time of the next start."""
    was_stable: bool = False
    """True once a process has lived for `STABLE_SECONDS`."""


class Supervisor:
    """Runs children until SIGTERM or SIGINT. A second signal ends all of them at once."""

    def __init__(self, children: Sequence[Child], grace: float, stopping: Callable[[], None]) -> None:
        """Stop the last child first, and allow `grace` seconds for all.

        `stopping` is called before that.
        """
        self._children = children
        self._grace = grace
        self._stopping = stopping

    def run(self) -> int:
        """Return the exit code: that of the first start of a child that failed, or 0."""
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        code: int | None = None
        while code is None:
            for child in self._children:
                if not child.pid and child.due <= time.monotonic():
                    self._start(child)
            number = self._wait(min((one.due for one in self._children if not one.pid), default=None))
            if number == signal.SIGHUP:
                self._reload()
            elif number in (signal.SIGTERM, signal.SIGINT):
                code = 0
            else:
                code = self._reap()
        self._stopping()
        self._stop()
        return code

    def _wait(self, until: float | None) -> int | None:
        """Wait for a signal. Returns None at the time `until`."""
        if until is None:
            return signal.sigwait(HANDLED)
        found = signal.sigtimedwait(HANDLED, max(0.0, until - time.monotonic()))
        return None if found is None else found.si_signo

    def _start(self, child: Child) -> None:
        parent, child.began = os.getpid(), time.monotonic()
        try:
            child.pid = os.fork()
        except OSError as error:  # too many processes, or too little memory
            child.due = child.began + LONGEST_PAUSE
            log.error("%s cannot be started now: %s", child.name, error)
            return
        if not child.pid:
            end_with_parent(parent)
            child.run()
            sys.exit()

    def _reload(self) -> None:
        for child in self._children:
            if child.reloads and child.pid:
                os.kill(child.pid, signal.SIGHUP)

    def _reap(self) -> int | None:
        """Take note of ended processes.

        Returns the exit code of one that could not be started at all.
        """
        for child, status in self._ended():
            code, lived = os.waitstatus_to_exitcode(status), time.monotonic() - child.began
            child.was_stable = child.was_stable or lived >= STABLE_SECONDS
            child.failed_starts = 0 if lived >= STABLE_SECONDS else child.failed_starts + 1
            if code > 0 and child.failed_starts == 1 and not child.was_stable:
                return code  # it has told why
            pause = min(FIRST_PAUSE * 2.0 ** (child.failed_starts - 1), LONGEST_PAUSE) if child.failed_starts else 0.0
            child.due = time.monotonic() + pause
            log.error("%s has ended (%s); another one starts in %.1f s", child.name, _reason(code), pause)
        return None

    def _ended(self) -> list[tuple[Child, int]]:
        """Reap ended processes.

        In a container there may be orphans of children, too.
        """
        found = []
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                for child in self._children:
                    if child.pid == pid:
                        child.pid = 0
                        found.append((child, status))
        return found

    def _stop(self) -> None:
        """Stop the children one after another, the last one first."""
        end = time.monotonic() + self._grace
        for child in reversed(self._children):
            if child.pid:
                os.kill(child.pid, signal.SIGTERM)
            while child.pid:
                number = self._wait(end)
                self._ended()
                if number in (None, signal.SIGTERM, signal.SIGINT):
                    self._kill()

    def _kill(self) -> None:
        """End what runs at once, and wait for that."""
        for child in self._children:
            if child.pid:
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                child.pid = 0


def end_with_parent(parent: int) -> None:
    """Let the kernel end this process together with its parent."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def unblock() -> None:
    """Let signals have their usual effects in a child that handles them itself.

    SIGINT stays blocked: Ctrl-C goes to all processes, and the supervisor stops them in their order.
    """
    for number in OF_CHILDREN:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, OF_CHILDREN)


def _reason(code: int) -> str:
    names = {one.value: one.name for one in signal.Signals}
    return f"exit code {code}" if code >= 0 else f"killed by {names.get(-code, -code)}"
