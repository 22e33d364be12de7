"""The supervisor of a server's processes, with children that note what happens."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.waiting import eventually

GRACE = 60
"""Seconds for a stop, unless the test is about their end."""


class Supervised:
    """A supervisor as a process of its own."""

    def __init__(self, folder: Path, first: str, second: str, grace: float) -> None:
        self._notes = folder / "notes"
        self._notes.touch()
        program = [sys.executable, "-m", "tests.unit.serving.supervised", str(folder), first, second, str(grace)]
        self._process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)

    @property
    def notes(self) -> list[str]:
        """Lines that the children have written."""
        return self._notes.read_text().splitlines()

    def pids(self, name: str) -> list[int]:
        """Processes of a child so far."""
        return [int(line.split()[1]) for line in self.notes if line.startswith(f"{name} ") and line.endswith("runs")]

    def await_start(self, name: str, number: int = 1) -> int:
        eventually(lambda: len(self.pids(name)) >= number, f"{name} runs")
        return self.pids(name)[number - 1]

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> tuple[int, str]:
        """Wait for the end. Returns the exit code and the log."""
        out, _ = self._process.communicate(timeout=60)
        return self._process.returncode, out

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()


Start = Callable[..., Supervised]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Supervised] = []

    def start(first: str = "waits", second: str = "waits", grace: float = GRACE) -> Supervised:
        started.append(Supervised(tmp_path, first, second, grace))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError, FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_children_stop_one_after_another(start: Start, number: signal.Signals) -> None:
    supervised = start()
    for name in ("first", "second"):
        supervised.await_start(name)
    supervised.send(number)
    assert supervised.ended() == (0, "")
    assert supervised.notes[2:] == ["second stops", "first stops"]


@pytest.mark.slow
def test_a_child_that_ends_is_started_again(start: Start) -> None:
    supervised = start()
    other = supervised.await_start("second")
    for number in (1, 2, 3):
        os.kill(supervised.await_start("first", number), signal.SIGKILL)
    supervised.await_start("first", 4)
    supervised.send(signal.SIGTERM)
    code, out = supervised.ended()
    assert (code, supervised.pids("second")) == (0, [other])
    assert out.splitlines() == [
        f"first has ended (killed by SIGKILL); another one starts in {pause} s" for pause in (0.1, 0.2, 0.4)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("ways", [("fails", "waits"), ("waits", "fails")])
def test_a_child_that_cannot_start_ends_all(start: Start, ways: tuple[str, str]) -> None:
    supervised = start(*ways)
    assert supervised.ended() == (2, "")
    assert not any(is_alive(pid) for name in ("first", "second") for pid in supervised.pids(name))


@pytest.mark.slow
def test_a_second_signal_ends_all_at_once(start: Start) -> None:
    supervised = start("waits", "stays")
    pids = [supervised.await_start(name) for name in ("first", "second")]
    supervised.send(signal.SIGTERM)
    supervised.send(signal.SIGINT)
    assert supervised.ended() == (0, "")
    assert not any(map(is_alive, pids))


def test_a_child_that_does_not_stop_is_killed(start: Start) -> None:
    supervised = start("waits", "stays", grace=0.2)
    for name in ("first", "second"):
        supervised.await_start(name)
    supervised.send(signal.SIGTERM)
    assert supervised.ended() == (0, "")


def test_children_end_with_a_killed_supervisor(start: Start) -> None:
    supervised = start("stays", "stays")
    pids = [supervised.await_start(name) for name in ("first", "second")]
    supervised.kill()
    eventually(lambda: not any(map(is_alive, pids)), "they have ended")


@pytest.mark.slow
def test_a_reload_is_passed_on(start: Start) -> None:
    supervised = start("waits", "is reloaded")
    for name in ("first", "second"):
        supervised.await_start(name)

    def is_reloaded() -> bool:
        supervised.send(signal.SIGHUP)
        return "second is reloaded" in supervised.notes

    eventually(is_reloaded, "it is reloaded")
    supervised.send(signal.SIGTERM)
    assert supervised.ended()[0] == 0
    assert len(supervised.pids("first")) == len(supervised.pids("second")) == 1


