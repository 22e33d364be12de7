"""Hints: wake-ups between the processes of one server.

They are datagrams to sockets in a private folder. No hint blocks or fails its sender. A lost one costs a second: the
engine and event streams also look by themselves.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from heatlite.core.runtime.logs import logged
from heatlite.store.listeners import Listeners
from heatlite.store.records import Announcement, ServiceRecord

log = logging.getLogger(__name__)

ENGINE = "engine"
"""Name of the engine's socket."""
STREAMS = "streams-"
"""Begin of the names of the sockets of processes with open event streams."""
MAX_HINT = 4096
"""Bytes of the longest hint, which has an address of messages."""


class Hint(StrEnum):
    """First word of a hint."""

    ACTION = "action"
    """An action became READY, or was sent a control."""
    MESSAGE = "message"
    """A message was stored at the address that follows."""
    WORK = "work"
    """Work of the feature that follows became due."""
    COMMITTED = "committed"
    """A transaction was committed."""


class Inbox:
    """Socket that receives hints, until `close` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Open the socket. Raises OSError."""
        self._path = path
        path.unlink(missing_ok=True)  # of a process that was killed
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self.socket.bind(str(path))
        except OSError:
            self.socket.close()
            raise

    def close(self) -> None:
        """Receive no more."""
        self._path.unlink(missing_ok=True)
        self.socket.close()


class Hints:
    """The channel of a server's processes, which share `folder`. Safe for threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)

    def inbox(self, name: str) -> Inbox:
        """Open an inbox."""
        return Inbox(self.folder / name)

    def tell_engine(self, hint: Hint, about: str = "") -> None:
        """Wake the engine, if there is one."""
        self._send(ENGINE, f"{hint} {about}")

    def for_engine(self, listeners: Listeners) -> Listeners:
        """Return listeners that call these ones, and wake the engine."""

        def announced(announcement: Announcement) -> None:
            self.tell_engine(Hint.ACTION)
            listeners.action_announced(announcement)

        return replace(
            listeners,
            action_announced=announced,
            work_due=partial(self.tell_engine, Hint.WORK),
            message_stored=partial(self.tell_engine, Hint.MESSAGE),
        )

    def has_engine(self) -> bool:
        """Return whether the engine's process is there."""
        return self._send(ENGINE, "")

    def committed(self) -> None:
        """Wake the event streams of other processes."""
        own = f"{STREAMS}{os.getpid()}"
        try:
            others = [one.name for one in self.folder.iterdir() if one.name.startswith(STREAMS) and one.name != own]
        except OSError as error:  # the commit is done, so its caller must not fail
            log.warning("event streams of other processes are not woken: %s", error)
            return
        for name in others:
            if not self._send(name, Hint.COMMITTED):
                (self.folder / name).unlink(missing_ok=True)  # its process was killed

    def follow_commits(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after each commit of another process.

        Returns a function that ends that.
        """
        return receive(self.inbox(f"{STREAMS}{os.getpid()}"), lambda *_: wake())

    def close(self) -> None:
        """Send no more."""
        self._sender.close()

    def _send(self, name: str, hint: str) -> bool:
        """Send a hint. Returns False if no process receives it."""
        try:
            self._sender.sendto(hint.encode(), str(self.folder / name))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:  # the queue is full, so the receiver is awake; or the machine has no memory left
            return True
        return True


def receive(inbox: Inbox, take: Callable[[Hint, str], None]) -> Callable[[], None]:
    """Call `take` with each hint and what it is about, in a thread.

    Returns a function that ends that.
    """
    stopping = threading.Event()

    def run() -> None:
        while not stopping.is_set():
            received = inbox.socket.recv(MAX_HINT)
            with logged(log, "a hint has no effect", passing=()):
                hint, _, about = received.decode().partition(" ")
                if hint:  # else somebody asks whether this process is there
                    take(Hint(hint), about)

    thread = threading.Thread(target=run, name="hints", daemon=True)
    thread.start()

    def stop() -> None:
        stopping.set()
        with suppress(OSError):
            inbox.socket.shutdown(socket.SHUT_RDWR)
        thread.join()
        inbox.close()

    return stop


def is_up(engine: ServiceRecord, now: float, has_engine: Callable[[], bool]) -> bool:
    """Return whether an engine works.

    That of this machine does not if this server has none (`has_engine`), though its last report may be recent.
    """
    return engine.is_up(now) and (engine.host != socket.gethostname() or has_engine())
