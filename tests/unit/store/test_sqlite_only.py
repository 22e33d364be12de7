"""Properties of a database in a file: locks, a full disk, one engine."""

import fcntl
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing.synchronize import Event
from pathlib import Path

import peewee
import pytest
from store_behaviour import a_resource, a_stack, an_event, insert

from heatlite.core.config import BadSetting
from heatlite.core.errors import DatabaseUnavailable, DatabaseUnusable, Invalid
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.store.database import engine_lock
from heatlite.store.database.backend import BUSY_SECONDS
from heatlite.store.database.database import Database
from heatlite.store.database.engine_lock import engine_of
from heatlite.store.errors import EngineRunning
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.store.store import Store
from tests.databases import claim_one
from tests.processes import fresh
from tests.tables import table


def test_a_full_disk_writes_nothing(store: Store) -> None:
    insert(store, a_stack("before"))
    pages = store.database.read("PRAGMA page_count")[0][0]
    store.database.read(f"PRAGMA max_page_count = {pages + 20}")
    with pytest.raises(DatabaseUnavailable, match="full"), store.transaction():
        store.stacks.insert(a_stack("half"))
        store.events.append_many([an_event()])
        store.resources.insert_many([a_resource(f"r{number}", description="x" * 1000) for number in range(1000)])
    assert [found.name for found in store.stacks.list("acme", StackQuery())] == ["before"]
    assert store.resources.of("s1") == []
    assert store.database.read("SELECT COUNT(*) FROM event") == [(0,)]
    insert(store, a_stack("after"))  # a little still fits, and the connection works


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "heatlite.db-wal").mkdir()
    with pytest.raises(DatabaseUnavailable, match=f"{tmp_path}/heatlite.db: (unable to open|disk I/O)"):
        Store.open(f"sqlite:///{tmp_path}/heatlite.db")


def test_a_page_that_cannot_be_read_is_an_outage(tmp_path: Path) -> None:
    """Also one that is read after the first rows."""
    path = tmp_path / "heatlite.db"
    database = Database(f"sqlite:///{path}")
    with database.transaction():
        database.write("CREATE TABLE page (id integer PRIMARY KEY, text text)")
        database.write_many("INSERT INTO page VALUES (?, ?)", [(number, "x" * 3000) for number in range(100)])
    ((size,),) = database.read("PRAGMA page_size")
    database.read("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    with path.open("r+b") as file:
        file.seek(50 * size)
        file.write(b"\xff" * size)
    assert database.read("SELECT id FROM page LIMIT 1") == [(0,)]
    with pytest.raises(DatabaseUnavailable, match="malformed"):
        database.read("SELECT text FROM page")
    with pytest.raises(RuntimeError, match="nothing was kept"), database.transaction():  # noqa: SIM117 - one within it
        with pytest.raises(DatabaseUnavailable, match="malformed"):
            database.send("SELECT text FROM page").rows()
    database.close()


def test_rows_that_nobody_reads_keep_no_old_state(store: Store) -> None:
    insert(store, a_stack("a"))
    insert(store, a_stack("b"))
    with store.transaction():
        unread = store.database.send("SELECT name FROM stack ORDER BY name")
    assert store.database.path is not None
    with closing(sqlite3.connect(store.database.path, isolation_level=None)) as other:
        other.execute("DELETE FROM stack WHERE name = 'a'")
    assert store.database.read("SELECT name FROM stack") == [("b",)]
    insert(store, a_stack("c"))
    assert unread.rows() == [("a",), ("b",)]


def test_a_file_locked_by_another_process_writes_nothing(store: Store) -> None:
    assert isinstance(store.database.peewee, peewee.SqliteDatabase)
    insert(store, a_stack("before"))
    store.database.peewee.timeout = 0.05  # not the five seconds of every day
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with store.transaction():
            locked.set()
            done.wait(240)
        store.close()

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait(240)
    with pytest.raises(DatabaseUnavailable, match="locked"):
        insert(store, a_stack("refused"))
    assert [found.name for found in store.stacks.list("acme", StackQuery())] == ["before"]  # reading goes on
    done.set()
    holder.join()
    insert(store, a_stack("after"))
    assert store.stacks.count("acme", StackQuery()) == 2


def _two_writers(url: str, waits: Event) -> None:
    """Hold the turn in one thread, for half a second; write in another one meanwhile."""
    store = Store.open(url)
    holds = threading.Event()

    def hold() -> None:
        with store.transaction():
            holds.set()
            time.sleep(0.5)
            waits.set()
            time.sleep(0.5)
        store.close()

    holder = threading.Thread(target=hold)
    holder.start()
    holds.wait()
    insert(store, a_stack("second"))
    holder.join()
    store.close()


@pytest.mark.slow
def test_a_thread_waits_while_the_process_runs(store: Store, url: str) -> None:
    """Time in which the whole process stands still does not count."""
    waits = fresh().Event()
    process = fresh("tests.unit.store.test_sqlite_only").Process(target=_two_writers, args=(url, waits))
    process.start()
    assert waits.wait(240)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(BUSY_SECONDS + 1)
    os.kill(process.pid, signal.SIGCONT)
    process.join(240)
    assert process.exitcode == 0
    assert [found.name for found in store.stacks.list("acme", StackQuery())] == ["second"]


def test_an_idle_worker_takes_no_lock(store: Store) -> None:
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with store.transaction():
            locked.set()
            done.wait(240)
        store.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(240)
    assert claim_one(store, "me", 1.0, 1.0) is None
    assert holder.is_alive(), "it has waited for the lock"
    done.set()
    holder.join()
    holder.join()


@table("url", ["sqlite:///", "sqlite://x", "sqlite:///:memory:", "oracle://x/y", "heatlite.db"])
def test_a_url_that_names_no_database_is_refused(url: str) -> None:
    with pytest.raises(BadSetting, match=r"sqlite:///"):
        Store.open(url)


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_broken_url_of_a_server_is_refused_without_telling_the_password(scheme: str) -> None:
    with pytest.raises(Invalid) as refused:  # also where the driver is not installed
        Store.open(f"{scheme}://mia:sec/ret@db.example/heat")
    assert "sec" not in refused.value.message


@table(
    ("scheme", "library", "extra"),
    [("postgresql", "psycopg", "postgres"), ("mysql", "pymysql", "mysql")],
)
def test_a_missing_driver_is_named(scheme: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = {"postgresql": "postgresql", "mysql": "mariadb"}[scheme]
    for module in ("backend", "batch", "connection"):
        monkeypatch.delitem(sys.modules, f"heatlite.store.database.{folder}.{module}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingLibrary, match=rf"{library}, which is not installed: .*\[{extra}\]"):
        Store.open(f"{scheme}://mia:secret@db.example/heat")


def test_folder_and_files_are_made_for_their_owner(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "two"
    store = Store.open(f"sqlite:///{folder}/heatlite.db")
    store.upgrade()
    kept = [*folder.iterdir()]
    assert [path.stat().st_mode & 0o777 for path in (folder, *kept)] == [0o700, *[0o600] * len(kept)]
    assert {path.name for path in kept} >= {"heatlite.db", "heatlite.db-wal", "heatlite.db.upgrade"}
    store.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    url = f"sqlite:///{tmp_path}/file/heatlite.db"
    for use in (Store.open, engine_of):
        with pytest.raises(DatabaseUnusable, match=r"/file.*\. Correct that, or give another with --database\."):
            use(url)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "heatlite.db").write_text("not a database " * 100)
    with pytest.raises(DatabaseUnusable, match=r"heatlite\.db cannot be used: file is not a database\. .* db restore"):
        Store.open(f"sqlite:///{tmp_path}/heatlite.db")


# -- one engine ----------------------------------------------------------------------------------


def test_the_second_engine_is_told_who_the_first_is(store: Store, url: str) -> None:
    lock = store.lock_engine({"pid": 42, "url": "http://127.0.0.1:8004"})
    assert lock is not None
    with closing(Store.open(url)) as second, pytest.raises(EngineRunning) as caught:
        second.lock_engine({"pid": 43})
    assert caught.value.info == {"pid": 42, "url": "http://127.0.0.1:8004"}
    lock.close()
    lock.close()
    again = store.lock_engine({"pid": 44})
    assert again is not None
    with pytest.raises(EngineRunning) as caught:
        store.lock_engine({})
    assert caught.value.info == {"pid": 44}
    again.close()


def test_the_info_of_a_new_holder_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_lock, "WRITE_SECONDS", 240.0)
    url = f"sqlite:///{tmp_path}/heatlite.db"
    found: list[object] = []
    reading = threading.Thread(target=lambda: found.append(engine_of(url)))
    with (tmp_path / "heatlite.db.engine").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        reading.start()
        reading.join(0.1)
        lock.write('{"url": "http://127.0.0.1:8004"}')
        lock.flush()
        reading.join(240)
    assert found == [{"url": "http://127.0.0.1:8004"}]


def test_an_engine_waits_for_readers_that_stand_still(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_lock, "READER_SECONDS", 240.0)
    (tmp_path / "heatlite.db.engine").touch()
    with (tmp_path / "heatlite.db.engine").open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        threading.Timer(0.5, fcntl.flock, (reader, fcntl.LOCK_UN)).start()
        lock = store.lock_engine({"pid": 42})
    assert lock is not None
    lock.close()


HOLDER = """
import sys, time
from heatlite.store.store import Store
lock = Store.open(sys.argv[1]).lock_engine({"pid": 1})
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_the_kernel_frees_the_lock_of_a_dead_engine(store: Store, url: str) -> None:
    root = str(Path(__file__).parents[3])
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, url],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": root},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(EngineRunning):
        store.lock_engine({})
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    lock = store.lock_engine({})
    assert lock is not None
    lock.close()


@pytest.mark.slow
def test_a_child_neither_keeps_the_lock_nor_lets_it_go(store: Store) -> None:
    lock = store.lock_engine({"pid": 1})
    assert lock is not None
    child_is_up, tell = os.pipe()
    wait, go_on = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go_on)
        os.write(tell, b"x")
        os.read(wait, 1)  # live on until the parent has looked
        os._exit(0)
    os.close(wait)
    os.read(child_is_up, 1)
    with pytest.raises(EngineRunning):
        store.lock_engine({})
    # As the death of this process would: without a word to the kernel.
    lock._drop()
    again = store.lock_engine({})  # although the child still runs
    assert again is not None
    again.close()
    for descriptor in (go_on, tell, child_is_up):
        os.close(descriptor)
    os.waitpid(child, 0)


@pytest.mark.slow
def test_a_thread_that_outlives_its_database_leaves_no_connection(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'heat.db'}")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(database.read, "SELECT 1").result()
        connection = pool.submit(database.peewee.connection).result()
        del database
        gc.collect()
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            pool.submit(connection.execute, "SELECT 1").result()


@pytest.mark.slow
def test_the_garbage_collector_closes_connections(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """Python 3.13 warns of an open connection that it finds beside its database."""
    gc.collect()  # what other tests have left
    recwarn.clear()
    database = Database(f"sqlite:///{tmp_path / 'heat.db'}")
    database.read("SELECT 1")
    cycle = [database]
    cycle.append(cycle)  # type: ignore[arg-type]
    unraisable: list[str] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda found: unraisable.append(str(found.exc_value))
    try:
        del database, cycle
        gc.collect()
    finally:
        sys.unraisablehook = before
    assert unraisable == [] and list(recwarn) == []
