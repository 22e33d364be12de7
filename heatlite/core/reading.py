"""Processes that only read, beside the engine's process.

Such a process answers a request from the database, if it can. Otherwise the engine's process answers: it alone writes,
asks clouds, counts failed logins and feeds event streams.
"""

import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial


class NeedsEngine(BaseException):
    """The engine's process has to answer the request.

    Not an Exception: no handler of errors may turn it into an answer.
    """


class _Thread(threading.local):
    only_reads = False
    when_answered: tuple[Callable[[], None], ...] = ()
    """Calls to make once the request is answered here."""


_THREAD = _Thread()


def only_read() -> None:
    """Make this thread one that only reads, before it uses the database."""
    _THREAD.only_reads = True


def only_reads() -> bool:
    """True in a thread that only reads."""
    return _THREAD.only_reads


def require_engine() -> None:
    """Raise NeedsEngine in a thread that only reads."""
    if _THREAD.only_reads:
        raise NeedsEngine


def when_answered(call: Callable[[], None]) -> None:
    """Make a call once the request is answered in this process.

    If a reader passes the request on, the engine's process makes it.
    """
    if _THREAD.only_reads:
        _THREAD.when_answered += (partial(copy_context().run, call),)  # its log lines have the ids of the request
    else:
        call()


def end_request(is_answered: bool) -> None:
    """End the request of this thread."""
    calls, _THREAD.when_answered = _THREAD.when_answered, ()
    if is_answered:
        for call in calls:
            call()
