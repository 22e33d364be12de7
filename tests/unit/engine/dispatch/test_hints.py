"""Hints between the processes of a server."""

import queue
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite.engine.dispatch.hints import ENGINE, STREAMS, Hint, Hints, receive


@pytest.fixture
def hints(tmp_path: Path) -> Iterator[Hints]:
    made = Hints(tmp_path)
    yield made
    made.close()


def test_hints_arrive(hints: Hints, tmp_path: Path) -> None:
    found: queue.SimpleQueue[tuple[Hint, str]] = queue.SimpleQueue()
    stop = receive(hints.inbox(ENGINE), lambda hint, about: found.put((hint, about)))
    assert hints.has_engine()
    hints.tell_engine(Hint.ACTION)
    hints.tell_engine(Hint.MESSAGE, "an address\nof messages")
    assert [found.get(timeout=30) for _ in range(2)] == [(Hint.ACTION, ""), (Hint.MESSAGE, "an address\nof messages")]
    stop()
    assert not hints.has_engine()
    assert found.empty()
    assert [*tmp_path.iterdir()] == []


def test_a_hint_to_nobody_or_to_one_who_does_not_listen_waits_for_nothing(hints: Hints) -> None:
    hints.tell_engine(Hint.WORK)
    assert not hints.has_engine()
    inbox = hints.inbox(ENGINE)
    for _ in range(10_000):
        hints.tell_engine(Hint.MESSAGE, "a" * 2000)
    assert hints.has_engine()
    inbox.close()


def test_streams_of_other_processes_are_woken(hints: Hints, tmp_path: Path) -> None:
    hints.committed()
    killed, open_ = hints.inbox(f"{STREAMS}1"), hints.inbox(f"{STREAMS}2")
    killed.socket.close()
    hints.committed()
    assert open_.socket.recv(100).decode() == Hint.COMMITTED
    assert [path.name for path in tmp_path.iterdir()] == [f"{STREAMS}2"]
    again = hints.inbox(f"{STREAMS}2")  # as after a kill
    hints.committed()
    assert again.socket.recv(100).decode() == Hint.COMMITTED
    open_.socket.close()
    again.close()


def test_a_commit_does_not_fail_without_the_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hints = Hints(tmp_path / "gone")
    hints.committed()
    assert "not woken" in caplog.text
    hints.close()


@pytest.mark.parametrize("wrong", [b"\xc3", b"unknown", b"message \xff"])
def test_hints_go_on_after_one_that_cannot_be_read(
    hints: Hints, tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: bytes
) -> None:
    found: queue.SimpleQueue[tuple[Hint, str]] = queue.SimpleQueue()
    stop = receive(hints.inbox(ENGINE), lambda hint, about: found.put((hint, about)))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(wrong, str(tmp_path / ENGINE))
    hints.tell_engine(Hint.ACTION)
    assert found.get(timeout=30) == (Hint.ACTION, "")
    assert "a hint has no effect" in caplog.text
    stop()
