"""Writers of one SQLite file, in several threads and processes."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from heatlite.core.errors import CommitUnanswered, DatabaseUnavailable
from heatlite.core.runtime.bulkhead import MustWait, waits
from heatlite.store.database.database import Database
from heatlite.store.database.sqlite import group_commit, turns
from heatlite.store.database.sqlite.backend import SqliteBackend
from tests.processes import fresh, frozen
from tests.waiting import eventually

INSERT = "INSERT INTO note (writer) VALUES (?)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "heatlite.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    with closing(Database(f"sqlite:///{path}")) as database:
        with database.transaction():
            database.write("CREATE TABLE note (id integer PRIMARY KEY, writer text)")
        yield database


def write(database: Database, writer: str = "here") -> None:
    with database.transaction():
        database.write(INSERT, (writer,))


def written(database: Database, writer: str = "%") -> int:
    ((count,),) = database.read("SELECT COUNT(*) FROM note WHERE writer LIKE ?", (writer,))
    return int(count)


def _hold(url: str, holds: Event, ends: Event) -> None:
    database = Database(url)
    with database.transaction():
        database.write(INSERT, ("holder",))
        holds.set()
        ends.wait(240)
    database.close()


def _write_for_ever(url: str, writer: str, threads: int) -> None:
    database = Database(url)

    def run() -> None:
        while True:
            write(database, writer)

    for _ in range(threads):
        threading.Thread(target=run).start()


def _fork_in_turn(url: str, holds: Event) -> None:
    """Fork while another thread writes. The child lives on."""
    database = Database(url)
    begun = threading.Event()

    def hold() -> None:
        with database.transaction():
            begun.set()
            threading.Event().wait(240)

    threading.Thread(target=hold, daemon=True).start()
    begun.wait(240)
    if os.fork() == 0:
        holds.set()
    signal.pause()


@contextmanager
def process(target: Callable[..., None], *args: object) -> Iterator[int]:
    """Run a process in the block; yield its number."""
    found = fresh("tests.unit.store.test_writers").Process(target=target, args=args)
    found.start()
    assert found.pid is not None
    try:
        yield found.pid
    finally:
        found.kill()
        found.join()


@contextmanager
def holder(database: Database) -> Iterator[tuple[int, Event]]:
    """A process in a transaction, until the event is set."""
    holds, ends = fresh().Event(), fresh().Event()
    with process(_hold, database.url, holds, ends) as number:
        assert holds.wait(240)
        yield number, ends


def test_a_writer_waits_for_that_of_another_process(database: Database) -> None:
    with holder(database) as (_, ends), ThreadPoolExecutor(1) as pool:
        later = pool.submit(write, database)
        assert not later.done()
        ends.set()
        later.result()
    assert (written(database, "holder"), written(database, "here")) == (1, 1)


def test_who_must_not_wait_gets_no_turn(database: Database) -> None:
    noted: list[str] = []
    with pytest.raises(MustWait), waits(allowed=False):
        database.before_commit(lambda: noted.append("of the first"))
        write(database)
    assert written(database) == 0
    write(database)
    assert (written(database), noted) == (1, [])


def test_a_stopped_writer_ends_the_wait_of_others(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BUSY_SECONDS", 1)
    with holder(database) as (number, ends):
        with frozen(number):
            for _ in range(2):
                with pytest.raises(DatabaseUnavailable, match="locked"):
                    write(database)
            assert written(database) == 0, "reading goes on"
        monkeypatch.setattr(turns, "BUSY_SECONDS", 240)
        ends.set()
        write(database)


def test_a_killed_writer_frees_the_turn(database: Database) -> None:
    with holder(database) as (number, _), ThreadPoolExecutor(1) as pool:
        later = pool.submit(write, database)
        os.kill(number, signal.SIGKILL)
        later.result()
    assert (written(database, "holder"), written(database, "here")) == (0, 1)


def test_a_process_that_is_stopped_while_it_waits_holds_up_nobody(database: Database) -> None:
    with process(_write_for_ever, database.url, "there", 1) as number, ExitStack() as transaction:
        transaction.enter_context(database.transaction())
        eventually(lambda: _waits_for_lock(number), "the process waits")
        with frozen(number):
            transaction.close()
            for _ in range(5):
                write(database)


def _waits_for_lock(number: int) -> bool:
    """Return True if the process waits for the lock of a file (/proc/locks)."""
    return any(f" {number} " in line for line in Path("/proc/locks").read_text().splitlines() if "-> FLOCK" in line)


def test_the_child_of_a_writer_does_not_keep_its_turn(database: Database) -> None:
    holds = fresh().Event()
    with process(_fork_in_turn, database.url, holds) as number:
        assert holds.wait(240)
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        os.kill(number, signal.SIGKILL)
        try:
            write(database)
        finally:
            for child in children:
                os.kill(int(child), signal.SIGKILL)


@pytest.mark.parametrize(("here", "there"), [(1, 1), (4, 1), (1, 4)])
def test_no_process_starves(here: int, there: int, database: Database) -> None:
    """Count turns: both get theirs, whatever the number of writers.

    A busy machine makes the shares uneven.
    """
    with process(_write_for_ever, database.url, "there", there):
        eventually(lambda: written(database, "there") > 0, "the other process writes")
        before = written(database, "there")
        stop = threading.Event()

        def run() -> None:
            while not stop.is_set():
                write(database)

        with ThreadPoolExecutor(here) as pool:
            try:
                running = [pool.submit(run) for _ in range(here)]
                eventually(lambda: _both(database, before) >= 100, "both have a hundred turns")
            finally:
                stop.set()
            for one in running:
                one.result()
        counts = written(database, "here"), written(database, "there") - before
    assert max(counts) < 50 * min(counts)


def _both(database: Database, before: int) -> int:
    return min(written(database, "here"), written(database, "there") - before)


WAITER = """
import sys
from heatlite.store.database.database import Database
from heatlite.store.database.sqlite import turns
turns.BUSY_SECONDS = 240
database = Database(sys.argv[1])
database.read("SELECT 1")
print("ready", flush=True)
try:
    with database.transaction():
        pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
with database.transaction():
    database.write("INSERT INTO note (writer) VALUES ('waiter')")
"""


@pytest.mark.slow
def test_the_main_thread_can_be_interrupted(database: Database) -> None:
    with database.transaction():
        waiter = subprocess.Popen(
            [sys.executable, "-c", WAITER, database.url], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
        )
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == b"ready\n"
        eventually(lambda: _waits_for_lock(waiter.pid), "the process waits")
        waiter.send_signal(signal.SIGINT)
        assert waiter.stdout.readline() == b"interrupted\n"
    assert waiter.wait(240) == 0
    assert written(database, "waiter") == 1
    waiter.stdout.close()


def test_a_program_without_turns_is_waited_for(database: Database, path: Path) -> None:
    """An older heatlite, or the program sqlite3."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.2, other.execute, ("COMMIT",)).start()
        write(database)
    assert written(database) == 1


def test_threads_take_turns_in_order(database: Database) -> None:
    order: list[int] = []
    backend = database.backend
    assert isinstance(backend, SqliteBackend)

    def run(number: int) -> None:
        with database.transaction():
            order.append(number)

    with ThreadPoolExecutor(8) as pool, database.transaction():
        for number in range(8):
            pool.submit(run, number)
            eventually(lambda: len(backend._turns._line) > number, "it waits")  # noqa: B023
    assert order == [*range(8)]


# -- the disk ------------------------------------------------------------------------------------


def test_what_has_returned_survives_a_power_cut(
    database: Database, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has the log as it was at the last `fdatasync`."""
    sync, disk = group_commit._sync, tmp_path / "disk"
    disk.mkdir()

    def synced(log: Path) -> None:
        sync(log)
        shutil.copy(path, disk)
        shutil.copy(log, disk)

    monkeypatch.setattr(group_commit, "_sync", synced)
    for number in range(5):
        write(database)
        with closing(sqlite3.connect(disk / path.name)) as kept:
            assert kept.execute("SELECT COUNT(*) FROM note").fetchone() == (number + 1,)
        for file in disk.iterdir():
            file.unlink()


def test_threads_wait_for_the_disk_together(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, wait = group_commit._sync, group_commit.GroupCommit.wait
    begun, ends, calls, waiting = threading.Event(), threading.Event(), list[Path](), list[int]()

    def synced(log: Path) -> None:
        calls.append(log)
        begun.set()
        assert ends.wait(240)
        sync(log)

    def counted(commits: group_commit.GroupCommit) -> None:
        waiting.append(1)
        wait(commits)

    monkeypatch.setattr(group_commit, "_sync", synced)
    monkeypatch.setattr(group_commit.GroupCommit, "wait", counted)
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(write, database)
        assert begun.wait(240)
        others = [pool.submit(write, database) for _ in range(5)]
        eventually(lambda: len(waiting) == 6, "all have committed")
        assert written(database) == 6 and not any(one.done() for one in (first, *others))
        ends.set()
        for one in (first, *others):
            one.result()
    assert len(calls) == 2


def test_a_log_that_the_disk_refuses_goes_to_the_file_itself(
    database: Database, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(log: Path) -> None:
        raise OSError("no disk")

    monkeypatch.setattr(group_commit, "_sync", refused)
    write(database)
    shutil.copy(path, tmp_path / "file")
    with closing(sqlite3.connect(tmp_path / "file")) as file:
        assert file.execute("SELECT COUNT(*) FROM note").fetchone() == (1,)


def test_a_commit_that_is_not_on_the_disk_is_no_answer(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(log: Path) -> None:
        raise OSError("no disk")

    told: list[str] = []
    monkeypatch.setattr(group_commit, "_sync", refused)
    reader = sqlite3.connect(database.path or "", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM note").fetchone()
    database.read("PRAGMA busy_timeout = 10")
    with closing(reader), pytest.raises(CommitUnanswered, match="no disk"), database.transaction():
        database.after_commit(lambda: told.append("committed"))
        database.write(INSERT, ("here",))
    assert told == []
