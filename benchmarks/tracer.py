"""Counters of SQL statements, SQLite's steps, and function calls in this process.

They hardly depend on the load of the machine. Periodic jobs are left out, and so is `uncounted` work.
"""

import itertools
import operator
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from heatlite.core.runtime.timer import Job

WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
PERIODIC = frozenset({"sweep", "leases", "sinks", "orchestrations"})
"""Jobs of the timer whose work depends on the elapsed time."""


class _ThreadState(threading.local):
    counts: bool = True
    in_transaction: bool = False

    def __init__(self) -> None:
        self.is_periodic = False
        """True while a periodic job runs."""
        self.looks_for_work = threading.current_thread().name == "timer"
        """True in a thread of the timer. The jobs that are not periodic look for work now and then.

        Their statements count in transactions only.
        """


class _Steps:
    """The steps that SQLite makes for one connection.

    The handler is no Python function, so it adds no calls.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._left = itertools.repeat(0, sys.maxsize)
        self._before = self._now()
        connection.set_progress_handler(self._left.__next__, 1)

    def _now(self) -> int:
        return sys.maxsize - operator.length_hint(self._left)

    def take(self) -> int:
        """Return the steps since the last call."""
        before, self._before = self._before, self._now()
        return self._before - before


class Tracer:
    """Counts statements of all connections and function calls of all threads."""

    def __init__(self, calls: bool = False) -> None:
        """`calls`: count function calls, too, which takes as much time as the work."""
        self._with_calls = calls
        self._state = _ThreadState()
        self._statements: Counter[str] = Counter()
        self._steps: dict[int, list[_Steps]] = {}
        """Thread → its connections."""
        self._calls: Counter[int] = Counter()
        """Thread → calls."""
        self._kept_steps = 0
        self._processor_time = 0.0

    def install(self) -> None:
        """Trace this thread, and each connection and thread that begins from now on."""
        connect = sqlite3.connect

        def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **options)
            if str(arguments[0]).endswith(".cloud"):  # the simulated cloud stands for another server
                return connection
            connection.set_trace_callback(self._statement)
            if not self._state.looks_for_work:
                self._steps.setdefault(threading.get_ident(), []).append(_Steps(connection))
            return connection

        sqlite3.connect = traced  # type: ignore[assignment]  # it has overloads
        call = Job.call

        def call_job(job: Job) -> float:
            self._state.is_periodic = job.name in PERIODIC
            return call(job)

        Job.call = call_job  # type: ignore[method-assign, assignment]
        if self._with_calls:
            threading.setprofile(self._begin_thread)
            sys.setprofile(self._event)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Count nothing in this thread."""
        self._state.counts = False
        sys.setprofile(None)
        own = self._steps.get(threading.get_ident(), [])
        counted = sum(steps.take() for steps in own)
        try:
            yield
        finally:
            for steps in own:
                steps.take()
            self._kept_steps += counted
            self._state.counts = True
            if self._with_calls:
                sys.setprofile(self._event)

    def take(self) -> dict[str, int]:
        """Return the counts since the last call. Processor time is in milliseconds."""
        before, self._processor_time = self._processor_time, time.process_time()
        statements, self._statements = self._statements, Counter()
        calls, self._calls = self._calls, Counter()
        kept, self._kept_steps = self._kept_steps, 0
        return {
            "statements": statements.total(),
            "writes": sum(statements[word] for word in WRITES),
            "commits": statements["COMMIT"],
            "steps": kept + sum(steps.take() for each in list(self._steps.values()) for steps in each),
            **({"calls": calls.total()} if self._with_calls else {}),
            "processor_ms": round((self._processor_time - before) * 1000),
        }

    def _statement(self, sql: str) -> None:
        state = self._state
        word = sql.lstrip().split(None, 1)[0].upper().rstrip(";")
        if word in ("BEGIN", "COMMIT", "ROLLBACK"):
            state.in_transaction = word == "BEGIN"
        elif state.looks_for_work and not state.in_transaction:
            return
        if state.counts and not state.is_periodic:
            self._statements[word] += 1

    def _begin_thread(self, _frame: FrameType, _event: str, _argument: object) -> None:
        """Decide at a thread's first event whether its calls count."""
        sys.setprofile(None)
        if not self._state.looks_for_work:
            sys.setprofile(self._event)

    def _event(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename != __file__:
            self._calls[threading.get_ident()] += 1
