"""Processes that only read, beside the engine's process.

Such a process answers a request from the database, if it can. Otherwise the engine's process answers: it alone writes,
asks clouds, counts failed logins and feeds event streams.
"""

import threading


class NeedsEngine(BaseException):
    """The engine's process has to answer the request.

    Not an Exception: no handler of errors may turn it into an answer.
    """


class _Thread(threading.local):
    only_reads = False


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
