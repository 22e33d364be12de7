"""The engine lock of a SQLite database, which the kernel frees with the process."""

import fcntl
import os
import time
import weakref
from pathlib import Path

from heatlite.core.errors import DatabaseUnusable
from heatlite.core.json import JsonMap, dump, parse
from heatlite.store.database.ownership import give_to_owner
from heatlite.store.errors import EngineRunning

PAUSE = 0.02
"""Seconds between attempts."""

ENGINE_SECONDS = 0.1
"""Longest wait for another engine, which may be ending."""

READER_SECONDS = 30.0
"""Longest wait for readers (`holder`). They take the lock for a moment, but a busy machine may stop them in it."""

WRITE_SECONDS = 5.0
"""Longest wait for the info of a new holder, which writes it directly after it takes the lock."""


class EngineLock:
    """The held lock, until `close` or the end of this process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        self._is_shared = False
        reference = weakref.ref(self)

        def forget() -> None:
            found = reference()
            if found is not None and not found._is_shared:
                found._drop()

        # A child would keep the lock beyond its parent's death. It closes its copy of the descriptor, which leaves the
        # parent's lock alone.
        os.register_at_fork(after_in_child=forget)

    def share(self) -> None:
        """Let processes that are forked from now on keep the lock, too."""
        self._is_shared = True

    def close(self) -> None:
        """Release the lock, also for those."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._drop()

    def _drop(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def acquire(database: Path, info: JsonMap) -> EngineLock:
    """Take the lock of a database.

    Writes `info` (pid, url) into its file, for other processes.
    Raises EngineRunning with the holder's info; DatabaseUnusable if the file cannot be created.
    """
    descriptor = open_beside(database, "engine")
    begin = time.monotonic()
    while not lock(descriptor, fcntl.LOCK_EX):
        # Readers share the lock, an engine does not.
        longest = READER_SECONDS if lock(descriptor, fcntl.LOCK_SH) else ENGINE_SECONDS
        if time.monotonic() - begin > longest:
            found = _read(descriptor)
            os.close(descriptor)
            raise EngineRunning(found)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(PAUSE)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, dump(info).encode(), 0)
    return EngineLock(descriptor)


def open_beside(database: Path, suffix: str) -> int:
    """Open a lock file beside a database. Creates a missing one.

    Raises DatabaseUnusable.
    """
    path = _beside(database, suffix)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DatabaseUnusable(path=database, reason=str(error), way="Correct that") from error
    give_to_owner(path, database if database.exists() else database.parent)
    return descriptor


def _beside(database: Path, suffix: str) -> Path:
    """Return the path of a lock file: one for a database and all links to it."""
    return Path(f"{os.path.realpath(database)}.{suffix}")


def engine_of(url: str) -> JsonMap | None:
    """Return the info of the engine of a SQLite database, or None.

    Raises DatabaseUnusable.
    """
    kind, _, path = url.partition(":///")
    return holder(Path(path)) if kind == "sqlite" else None


def holder(database: Path) -> JsonMap | None:
    """Return the info of the holder of a database's lock, or None.

    Raises DatabaseUnusable.
    """
    try:
        descriptor = os.open(_beside(database, "engine"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:  # another user's, or below what is no folder
        raise DatabaseUnusable(path=database, reason=str(error), way="Correct that") from error
    try:
        if lock(descriptor, fcntl.LOCK_SH):  # shared: readers do not see each other
            return None
        end = time.monotonic() + WRITE_SECONDS
        while not (found := _read(descriptor)) and time.monotonic() < end:
            time.sleep(PAUSE)
        return found
    finally:
        os.close(descriptor)


def lock(descriptor: int, mode: int) -> bool:
    """Take the lock at once, or return False."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(descriptor: int) -> JsonMap:
    """Return the holder's info; empty until it is written."""
    text = os.pread(descriptor, 65536, 0)
    try:
        found: JsonMap = parse(text)
    except ValueError:
        return {}
    return found
