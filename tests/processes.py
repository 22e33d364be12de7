"""Processes that tests start with a function of Python, or freeze."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerContext
from pathlib import Path

from tests.waiting import eventually


def fresh(*modules: str) -> ForkServerContext:
    """Return a context for processes with `modules` imported and without threads.

    A process of tests has threads. A child that it forks inherits locks that no thread will release there.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    return context


def descendants(process: int) -> list[int]:
    """A process and all that it has started, parents first (proc(5))."""
    found = [process]
    for one in found:
        with suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def freeze(process: int) -> list[int]:
    """Stop a process and its descendants, and return when none of their threads runs.

    A thread that waits for a processor may take the signal late, and the others run on until then. Returns all that
    are stopped, to be continued with SIGCONT.
    """
    frozen: list[int] = []
    while left := [one for one in descendants(process) if one not in frozen]:
        for one in left:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGSTOP)
            eventually(lambda one=one: stands_still(one), "the process stands still")  # type: ignore[misc]
        frozen += left
    return frozen


@contextmanager
def frozen(process: int) -> Iterator[None]:
    """In the block a process and its descendants stand still."""
    processes = freeze(process)
    try:
        yield
    finally:
        for one in processes:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)


def stands_still(process: int) -> bool:
    """Return True if each thread is stopped, or has ended."""
    try:
        threads = [*Path(f"/proc/{process}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return True
    for thread in threads:
        with suppress(FileNotFoundError, ProcessLookupError):
            if (thread / "stat").read_text().rpartition(") ")[2][0] not in "TZX":
                return False
    return True
