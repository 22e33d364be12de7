"""A lock that one process can have, and that the kernel takes back when the process dies (flock)."""

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
"""Seconds. Somebody may just be looking who has the lock (`holder`), which takes it for a moment."""


class EngineLock:
    """The right to be the engine of a SQLite database, until `close` or the end of this process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        reference = weakref.ref(self)

        def forget() -> None:
            found = reference()
            if found is not None:
                found._drop()

        # A child would keep the lock beyond its parent's death, so it drops its copy of the
        # descriptor; that leaves the parent's lock alone.
        os.register_at_fork(after_in_child=forget)

    def close(self) -> None:
        """Let go."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._drop()

    def _drop(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def acquire(path: Path, info: JsonMap) -> EngineLock:
    """Take the lock and leave `info` (pid, url) in the file for whoever comes too late.

    Raises EngineRunning with what the holder wrote; DatabaseUnavailable when the file cannot be made.
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
    """What the engine of a SQLite database wrote about itself; None if there is none, or on a server.

    Raises DatabaseUnavailable.
    """
    kind, _, path = url.partition(":///")
    return holder(Path(f"{path}.engine")) if kind == "sqlite" else None


def holder(path: Path) -> JsonMap | None:
    """What the process wrote that has the lock; None if nobody has it. Raises DatabaseUnavailable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:  # another user's, or below what is no folder
        raise DatabaseUnavailable(reason=str(error)) from error
    try:
        # Shared: two that look do not see each other.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> JsonMap:
    """What the holder wrote; nothing while it is about to write."""
    text = os.pread(descriptor, 65536, 0)
    try:
        found: JsonMap = json.loads(text)
    except ValueError:
        return {}
    return found
