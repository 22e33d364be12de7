"""The engine lock of a SQLite database, which the kernel frees with the process."""

import fcntl
import json
import os
import time
import weakref
from pathlib import Path

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.json import JsonMap, dump
from heatlite.store.errors import EngineRunning

ATTEMPTS = 5
PAUSE = 0.02
"""Seconds between attempts. A reader (`holder`) takes the lock for a moment."""

WRITE_SECONDS = 5.0
"""Longest wait for the info of a new holder, which writes it directly after it takes the lock."""


class EngineLock:
    """The held lock, until `close` or the end of this process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        reference = weakref.ref(self)

        def forget() -> None:
            found = reference()
            if found is not None:
                found._drop()

        # A child would keep the lock beyond its parent's death. It closes its copy of the descriptor, which leaves the
        # parent's lock alone.
        os.register_at_fork(after_in_child=forget)

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._drop()

    def _drop(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def acquire(path: Path, info: JsonMap) -> EngineLock:
    """Take the lock and write `info` (pid, url) into its file, for other processes.

    Raises EngineRunning with the holder's info; DatabaseUnavailable if the file cannot be created.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DatabaseUnavailable(reason=str(error)) from error
    for attempt in range(ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if attempt + 1 == ATTEMPTS:
                found = _read(descriptor)
                os.close(descriptor)
                raise EngineRunning(found) from error
            time.sleep(PAUSE)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, dump(info).encode(), 0)
    return EngineLock(descriptor)


def engine_of(url: str) -> JsonMap | None:
    """Return the info of the engine of a SQLite database, or None.

    Raises DatabaseUnavailable.
    """
    kind, _, path = url.partition(":///")
    return holder(Path(f"{path}.engine")) if kind == "sqlite" else None


def holder(path: Path) -> JsonMap | None:
    """Return the info of the lock's holder, or None. Raises DatabaseUnavailable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:  # another user's, or below what is no folder
        raise DatabaseUnavailable(reason=str(error)) from error
    try:
        # Shared: readers do not see each other.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        end = time.monotonic() + WRITE_SECONDS
        while not (found := _read(descriptor)) and time.monotonic() < end:
            time.sleep(PAUSE)
        return found
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> JsonMap:
    """Return the holder's info; empty until it is written."""
    text = os.pread(descriptor, 65536, 0)
    try:
        found: JsonMap = json.loads(text)
    except ValueError:
        return {}
    return found
