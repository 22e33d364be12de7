"""Commands, each run by a supervisor process that outlives the agent."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from heatlite.agent import supervise
from heatlite.agent.settings import Limits
from heatlite.agent.supervise import Order, Result

_ROOT = Path(__file__).absolute().parents[2]
"""Import path of heatlite: a folder, or the agent's zip file."""

_PROGRAM = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
from heatlite.agent import supervise
sys.exit(supervise.main(pathlib.Path(sys.argv[2])))
"""

_PATIENCE = 60
"""Seconds that a supervisor may take to start."""


class Command:
    """A command that runs, or has run, in its own folder.

    The state is in the folder only, so that another process of the agent can take over.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has_begun(self) -> bool:
        """True if the command was ever started; it is never started twice."""
        return (self.folder / supervise.CLAIM).exists()

    def start(
        self,
        command: Sequence[str],
        limits: Limits,
        environment: Mapping[str, str] | None = None,
        stdin: str = "",
        outputs: Sequence[str] = (),
        stays: bool = False,
    ) -> bool:
        """Start the command. `environment` is added to the agent's own.

        `outputs` are names of files that the command may write at output_path(), a dot and the name. `stays` is as in
        Order. Returns False if the supervisor is slow, so that only has_begun() will show it. Raises OSError if the
        folder cannot be written or no process can be started.
        """
        _make(self.folder)
        order: Order = {
            "command": list(command),
            "environment": {**os.environ, **(environment or {}), supervise.MARK: str(self.folder)},
            "outputs": list(outputs),
            "seconds": limits.seconds,
            "memory": limits.memory_mib * 1024 * 1024,
            "file_size": limits.file_mib * 1024 * 1024,
            "output": limits.output_kib * 1024,
            "grace": limits.grace_seconds,
            "stays": stays,
        }
        self.write(supervise.STDIN, stdin)
        self.write(supervise.ORDER, json.dumps(order))
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_ROOT), str(self.folder)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_PATIENCE,
                start_new_session=True, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False  # a second supervisor cannot start the command again
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else f"exit status {done.returncode}"
            raise OSError(max(done.returncode, 0), f"the supervisor did not start: {reason}")
        return True

    def write(self, name: str, text: str, mode: int = 0o600) -> Path:
        """Write a file into the folder, accessible for its owner only."""
        _make(self.folder)
        file = self.folder / name
        with open(file, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, mode)) as stream:
            stream.write(text)
        return file

    def output_path(self) -> str:
        """Return the path prefix of output files; a dot and the output's name follow."""
        return str(self.folder / supervise.OUTPUT)

    def is_alive(self) -> bool:
        """True if the supervisor is alive."""
        return self._supervisor() is not None

    def result(self) -> Result | None:
        """Return the result; None while the command runs, or if its supervisor died first."""
        try:
            result: Result = json.loads((self.folder / supervise.RESULT).read_text())
        except FileNotFoundError:
            return None
        return result

    def end(self) -> bool:
        """Ask the command and all its descendants to end. Returns at once.

        Returns True if processes are still alive.
        """
        if self.is_alive():
            self._signal(signal.SIGTERM)
            return True
        if self.result() is not None and not self._stays():
            return False  # processes that the ended command has left running are not killed
        # The supervisor was killed, or its folder was removed.
        return supervise.kill(lambda: supervise.marked(self.folder))

    def forget(self) -> None:
        """Remove the folder. Processes that the command has left running are not killed."""
        if self.is_alive():
            self._signal(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _stays(self) -> bool:
        try:
            order: Order = json.loads((self.folder / supervise.ORDER).read_text())
        except FileNotFoundError:
            return True  # the command has removed it, and is ended for that
        return order["stays"]

    def _signal(self, what: signal.Signals) -> None:
        process = self._supervisor()
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, what)

    def _supervisor(self) -> int | None:
        """Return the supervisor's pid, if it is alive.

        The supervisor holds a lock, so another process with a reused pid cannot be mistaken for it.
        """
        try:
            with (self.folder / supervise.CLAIM).open("rb") as claim:
                try:
                    fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(claim.read())
        except FileNotFoundError:
            pass
        return None


def _make(folder: Path) -> None:
    """Create a folder and its missing parents, so that they survive a loss of power."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        supervise.sync(folder.parent)
