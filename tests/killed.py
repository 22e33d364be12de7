"""Kills of a thread at each of its statements that change a database."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from itertools import count
from typing import Any

import pytest

from heatlite.store.database.database import Database

WRITES = ("write", "write_many", "send", "_commit")
"""The ways in which the store changes a database."""
MOST = 200


class Killed(BaseException):
    """The end of the thread, which nothing may catch."""


def killed_at_each_write(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> Iterator[int]:
    """Yield after each try of `work` that was killed, one write later each time.

    Ends after the try that was not.

    Its transaction is rolled back, as the database does it for a connection that is gone. Between two tries the caller
    prepares the next one.
    """
    here, kept = threading.get_ident(), {name: getattr(Database, name) for name in WRITES}
    for limit in range(1, MOST):
        writes = count(1)

        def counted(name: str) -> Callable[..., Any]:
            def write(*given: Any) -> Any:
                if threading.get_ident() == here and next(writes) == limit:  # noqa: B023 - called at once
                    raise Killed
                return kept[name](*given)

            return write

        with monkeypatch.context() as patch:
            for name in WRITES:
                patch.setattr(Database, name, counted(name))
            with suppress(Killed):
                copy_context().run(work)  # with what a request leaves in its context at its end
                return
        yield limit
    raise AssertionError(f"more than {MOST} writes")
