"""Servers as processes of their own, and what they use."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.client import Client

CHECKOUT = Path(__file__).resolve().parent.parent
STARTUP = 30.0
"""Seconds that a server may take until it answers."""


def environment(folder: Path) -> dict[str, str]:
    """The environment of a process of this checkout, without the user's settings."""
    foreign = ("HEATLITE_", "OS_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {
        **kept,
        "PYTHONPATH": str(CHECKOUT),
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
    }


@dataclass(frozen=True, slots=True)
class Checkout:
    """The source of a heatlite, with the Python of its own `.venv` if there is one."""

    folder: Path
    prefix: str = ""
    """Begin of the names of its samples."""

    def command(self, *words: str) -> list[str]:
        """Return a command of this heatlite. It needs `variables`."""
        own = self.folder / ".venv" / "bin" / "python"
        python = str(own) if own.exists() and self.folder != CHECKOUT else sys.executable
        return [python, "-P", "-m", "heatlite", *words]

    @property
    def variables(self) -> dict[str, str]:
        """Variables of the environment that its processes need."""
        return {"PYTHONPATH": str(self.folder)}


class Process:
    """A process and its children, from entering to leaving.

    `settings` are variables of its environment.
    """

    def __init__(self, command: Sequence[str], folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._command = list(command)
        self._folder = folder
        self._settings = settings or {}
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        variables = {**environment(self._folder), **self._settings}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, env=variables, stdout=log, stderr=log, start_new_session=True
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @property
    def pids(self) -> list[int]:
        """The server's process and all below it."""
        assert self._process is not None
        out = [self._process.pid]
        for pid in out:
            for children in _of_threads(pid, "children"):
                out += map(int, children.split())
        return out

    def threads(self) -> int:
        """Number of threads."""
        return sum(_number(Path(f"/proc/{pid}/status"), "Threads:") for pid in self.pids)

    def memory(self) -> float:
        """Megabytes of memory (10^6 bytes): the sum of the proportional set sizes (PSS)."""
        return sum(_number(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") for pid in self.pids) * 1024 / 1e6

    def peak(self) -> float:
        """The most megabytes of resident memory that the largest of the processes has had."""
        return max(_number(Path(f"/proc/{pid}/status"), "VmHWM:") for pid in self.pids) * 1024 / 1e6

    def processor_time(self) -> float:
        """Return processor seconds of the live threads, by the scheduler's nanoseconds."""
        times = (times for pid in self.pids for times in _of_threads(pid, "schedstat"))
        return sum(int(one.split()[0]) for one in times) / 1e9

    def processor(self) -> float:
        """Seconds of processor time used so far."""
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


class Server(Process):
    """A server. `path` is what it answers when it is up."""

    def __init__(
        self, command: Sequence[str], port: int, folder: Path, path: str, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(command, folder, settings)
        self.port = port
        self._path = path

    def __enter__(self) -> Self:
        super().__enter__()
        assert self._process is not None
        ends = time.monotonic() + STARTUP
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > ends:
                self.__exit__(None, None, None)
                raise RuntimeError(f"{self._command[0]} does not serve:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.01)
        return self

    def _answers(self) -> bool:
        client = Client(self.port)
        try:
            return client.send("GET", self._path)[0] < 500
        except OSError:
            return False
        finally:
            client.close()


def _of_threads(pid: int, name: str) -> Iterator[str]:
    """Yield a file of each thread of a process, unless it has ended meanwhile."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            yield (task / name).read_text()


def _number(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise LookupError(f"{path} has no {name}")


def run(command: Sequence[str], folder: Path, settings: Mapping[str, str] | None = None) -> str:
    """Return the output of a process.

    Raises RuntimeError with its errors if it fails.
    """
    variables = {**environment(folder), **(settings or {})}
    done = subprocess.run(list(command), env=variables, capture_output=True, text=True, cwd=CHECKOUT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:4])} … failed ({done.returncode}):\n{done.stderr[-2000:]}")
    return done.stdout
