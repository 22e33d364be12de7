"""Supervisor: a process that runs one command and outlives the agent.

It limits the command's output, records the result, and can end the command with all its descendants. As a child
subreaper (prctl(2)) it becomes the parent of orphaned descendants, even after a double fork. Without subreaper (not
Linux) only the command's process group can be ended. If the supervisor itself is killed, the mark in their environment
identifies the processes.

The folder holds `order` (Order as JSON), then `claim` and `result` (Result as JSON, written atomically). `claim` holds
the supervisor's pid and is locked while it lives. Only the process that creates it runs the command.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import selectors
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import PIPE, Popen
from typing import TypedDict

ORDER, CLAIM, RESULT, OUTPUT, STDIN = "order", "claim", "result", "output", "stdin"
"""Files in the folder; OUTPUT is followed by a dot and a name."""

MARK = "HEATLITE_AGENT_COMMAND"
"""Environment variable of a command and its descendants; its value is the folder."""

TIME_LIMIT, ASKED = "time limit", "asked to"
"""Reasons for which the supervisor ends a command."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LOOK = 2.0
"""Seconds between two checks that the folder exists."""
_DRAIN = 1.0
"""Seconds to read, after the command's end, from descendants that hold its output open."""
_DRAIN_SHORT = 0.1
"""The same for a command that is meant to leave processes running (`stays`)."""


class Order(TypedDict):
    """Command to run, with its limits."""

    command: list[str]
    environment: dict[str, str]
    outputs: list[str]
    """Names of files to read afterwards: OUTPUT.NAME."""
    seconds: float
    memory: int
    """Bytes of address space for each process."""
    file_size: int
    """Bytes of each file written."""
    output: int
    """Bytes kept of each stream and of each output."""
    grace: float
    """Seconds from TERM to KILL."""
    stays: bool
    """True if processes that the command leaves running belong to it and can be ended later."""


class Result(TypedDict):
    """Result of the command."""

    status: int | None
    """Exit status; None if a signal ended the command or it could not be started."""
    error: str
    """Reason for a missing exit status."""
    ended: str | None
    """TIME_LIMIT or ASKED if the supervisor ended the command."""
    stdout: str
    stderr: str
    outputs: dict[str, str]


class Tail:
    """Buffer that keeps the beginning and the end of a stream."""

    def __init__(self, limit: int) -> None:
        """Create a buffer. `limit` is the number of bytes to keep."""
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = False

    def add(self, data: bytes) -> None:
        """Append data of the stream."""
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self._dropped = True

    def text(self, limit: int) -> str:
        """Return the kept text, at most `limit` bytes in UTF-8."""
        whole = _decode(bytes(self._head + self._tail))
        if not self._dropped and len(whole.encode()) <= limit:
            return whole
        notice = "\n[… the middle is left out …]\n"
        room = (limit - len(notice.encode())) // 2
        head, tail = _decode(bytes(self._head)), _decode(bytes(self._tail))
        return clip(head, room) + notice + clip(tail, room, from_end=True)


def clip(text: str, limit: int, from_end: bool = False) -> str:
    """Shorten a text to `limit` bytes in UTF-8."""
    data = text.encode()
    if len(data) <= limit:
        return text
    return (data[-limit:] if from_end else data[:limit]).decode(errors="ignore")


def main(folder: Path) -> int:
    """Fork a supervisor that executes the order in the folder.

    Returns 0 once it has started, or if another supervisor has the claim; otherwise the system's error number, or 1.
    """
    try:
        reads, writes = os.pipe()
        child = os.fork()
    except OSError as error:
        return _refused(error)
    if child:
        os.close(writes)
        with os.fdopen(reads) as pipe:
            report = pipe.read()
        if report == "begun":
            return 0
        return _refused(OSError(int(report), os.strerror(int(report))) if report else "the supervisor died")
    os.close(reads)
    os.setsid()
    claim = None
    try:
        claim = _claim(folder)
        order: Order = json.loads((folder / ORDER).read_text())
        # Otherwise a machine that loses power now would start the command again.
        sync(folder / ORDER)
        sync(folder)
    except OSError as error:
        if claim is not None:
            (folder / CLAIM).unlink(missing_ok=True)
        os.write(writes, str(error.errno or errno.EIO).encode())
        os._exit(1)
    with contextlib.suppress(BrokenPipeError):  # the agent has timed out, and will find the claim
        os.write(writes, b"begun")
    os.close(writes)
    if claim is not None:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        _Supervisor(folder, order).run()
    os._exit(0)


def sync(path: Path) -> None:
    """Write a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refused(why: OSError | str) -> int:
    """Print why no supervisor has started. Returns the exit status."""
    print(why, file=sys.stderr)
    return why.errno or 1 if isinstance(why, OSError) else 1


def _claim(folder: Path) -> int | None:
    """Create the claim atomically, with its lock and content.

    Returns its open file; None if it exists already.
    """
    own = folder / f"{CLAIM}.{os.getpid()}"
    file = os.open(own, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.write(file, str(os.getpid()).encode())
        os.link(own, folder / CLAIM)
    except FileExistsError:
        return None
    finally:
        own.unlink()
    return file


class _Supervisor:
    def __init__(self, folder: Path, order: Order) -> None:
        self._folder = folder
        self._order = order
        self._asked = False
        self._status: int | None = None
        """Status as returned by wait(2)."""
        self._selector = selectors.DefaultSelector()
        self._wakes, waker = os.pipe()
        for end in (self._wakes, waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in (signal.SIGHUP, signal.SIGINT):
            signal.signal(ignored, lambda *_: None)  # the command would inherit SIG_IGN
        self._selector.register(self._wakes, selectors.EVENT_READ)

    def run(self) -> None:
        order = self._order
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._reaps = self._libc is not None and self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        deadline = time.monotonic() + order["seconds"]
        streams = {"stdout": Tail(order["output"]), "stderr": Tail(order["output"])}
        try:
            with (self._folder / STDIN).open("rb") as stdin:
                self._child = Popen(
                    order["command"], stdin=stdin, stdout=PIPE, stderr=PIPE, env=order["environment"],
                    cwd=self._folder, start_new_session=True, preexec_fn=self._confine,
                )  # fmt: skip
        except (OSError, ValueError) as error:
            self._write(self._result(streams, None, f"could not start {order['command'][0]}: {error}"))
            return
        for name, pipe in (("stdout", self._child.stdout), ("stderr", self._child.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, streams[name])
        ended = self._follow(deadline)
        self._write(self._result(streams, ended, ""))
        if order["stays"] and ended is None:
            self._stay(deadline)

    def _follow(self, deadline: float) -> str | None:
        """Wait until the command has ended. Returns the reason if the supervisor ended it."""
        ended = None
        while self._status is None and ended is None:
            self._pump(min(_LOOK, deadline - time.monotonic()))
            ended = self._reason(deadline)
        if ended is not None:
            self._end_all()
        drained = time.monotonic() + (_DRAIN_SHORT if self._order["stays"] else _DRAIN)
        while len(self._selector.get_map()) > 1 and (left := drained - time.monotonic()) > 0:
            self._pump(left)
            if ended is None and (ended := self._reason(deadline)) is not None:
                self._end_all()
        return ended

    def _stay(self, deadline: float) -> None:
        """Wait until no descendant of the command is left."""
        while self._descendants():
            self._pump(min(_LOOK, deadline - time.monotonic()))
            if self._reason(deadline) is not None:
                self._end_all()

    def _reason(self, deadline: float) -> str | None:
        if self._asked or not (self._folder / CLAIM).exists():
            return ASKED  # once the folder is removed, no result can be read any more
        return TIME_LIMIT if time.monotonic() >= deadline else None

    def _pump(self, seconds: float) -> None:
        """Read output and reap dead children, waiting at most that long for either."""
        for key, _ in self._selector.select(max(0.0, seconds)):
            try:
                data = os.read(key.fd, 65536)
            except BlockingIOError:
                continue
            if key.fd != self._wakes:
                key.data.add(data)
                if not data:
                    self._selector.unregister(key.fileobj)
        self._reap()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (died := os.waitpid(-1, os.WNOHANG))[0]:
                if died[0] == self._child.pid:
                    self._status = died[1]

    def _end_all(self) -> None:
        """Send TERM, and KILL after the grace period, to the command and its descendants."""
        for process in self._descendants():
            _send(process, signal.SIGTERM)
        grace = time.monotonic() + self._order["grace"]
        while self._descendants() and (left := grace - time.monotonic()) > 0:
            self._pump(min(left, 0.2))
        pause = 0.05
        while kill(self._descendants):
            self._pump(pause)
            pause = min(1.0, 2 * pause)

    def _descendants(self) -> set[int]:
        """Return the living processes of the command; negative numbers are process groups."""
        self._reap()
        if not self._reaps:
            group = self._child.pid
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return set()
            return {-group}
        parents = {}
        for process in _processes():
            with contextlib.suppress(OSError):
                # Format: "pid (name) state parent …"; the name may contain any character.
                fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    parents[process] = int(fields[1])
        found: set[int] = set()
        newest = {os.getpid()}
        while newest:
            newest = {process for process, parent in parents.items() if parent in newest}
            found |= newest
        return found

    def _confine(self) -> None:
        """Set resource limits in the child, before the command starts."""
        for what, limit in (
            (resource.RLIMIT_AS, self._order["memory"]),
            (resource.RLIMIT_FSIZE, self._order["file_size"]),
            (resource.RLIMIT_CORE, 0),
        ):
            most = resource.getrlimit(what)[1]
            limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
            resource.setrlimit(what, (limit, limit))
        if self._libc is not None:
            # Without its supervisor the command would be unsupervised, so it dies with it.
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def _result(self, streams: Mapping[str, Tail], ended: str | None, error: str) -> Result:
        limit = self._order["output"]
        code: int | None = None
        if self._status is not None and os.WIFSIGNALED(self._status):
            number = os.WTERMSIG(self._status)
            error = f"ended by signal {number} ({signal.strsignal(number)})"
        elif self._status is not None:
            code = os.waitstatus_to_exitcode(self._status)
        return {
            "status": code,
            "error": error,
            "ended": ended,
            "stdout": streams["stdout"].text(limit),
            "stderr": streams["stderr"].text(limit),
            "outputs": {
                name: text
                for name in self._order["outputs"]
                if (text := _read(self._folder / f"{OUTPUT}.{name}", limit)) is not None
            },
        }

    def _write(self, result: Result) -> None:
        """Write the result; retry until the disk has room."""
        file = self._folder / f"{RESULT}.new"
        while True:
            try:
                with file.open("w") as stream:
                    json.dump(result, stream)
                    stream.flush()
                    os.fsync(stream.fileno())
                file.replace(self._folder / RESULT)
            except OSError:
                if not self._folder.exists():
                    return
                time.sleep(1)
            else:
                return

    def _ask(self, *_: object) -> None:
        self._asked = True


def kill(living: Callable[[], set[int]]) -> bool:
    """Send KILL to all processes that `living` finds, until it finds no more.

    So processes forked meanwhile are found, too. Returns True if there were any; they may take time to die.
    """
    # Stopped processes cannot fork: once no new process is found, all are caught.
    stopped: set[int] = set()
    while new := living() - stopped:
        for process in new:
            _send(process, signal.SIGSTOP)
        stopped |= new
    for process in stopped:
        _send(process, signal.SIGKILL)
    return bool(stopped)


def marked(folder: Path) -> set[int]:
    """Return the living processes that carry the mark of a folder.

    Their parent may have died. Misses processes that have replaced their environment; returns an empty set without
    /proc.
    """
    mark = os.fsencode(f"{MARK}={folder}")
    found = set()
    for process in _processes():
        with contextlib.suppress(OSError):  # the process has died, or belongs to another user
            if process != os.getpid() and mark in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                found.add(process)
    return found


def _processes() -> list[int]:
    """Return the pids of all processes; none without /proc."""
    try:
        return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal()]
    except FileNotFoundError:
        return []


def _send(process: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, what)


def _decode(data: bytes) -> str:
    # Some databases reject NUL in text.
    return data.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def _read(file: Path, limit: int) -> str | None:
    """Return the beginning and the end of a file; None without a regular file."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        kept = Tail(limit)
        while data := stream.read(65536):
            kept.add(data)
    return kept.text(limit)
