"""Backups of a SQLite database: copies, refusals and restores."""

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from store_behaviour import a_stack, insert

from heatlite.core.config import BadSetting
from heatlite.store.admin.backup import backup, restore
from heatlite.store.database.engine_lock import engine_of
from heatlite.store.errors import BadBackup, EngineRunning, MissingKey, SchemaMismatch, UnreadableSecret
from heatlite.store.secrets.cipher import new_key
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.store.store import Store
from tests.databases import sqlite


def filled(folder: Path, *names: str, keys: tuple[str, ...] = ()) -> str:
    """The URL of a database with these stacks, whose environments are encrypted."""
    folder.mkdir(exist_ok=True)
    url = sqlite(folder)
    store = Store.open(url, keys)
    with store.transaction():
        store.templates.put({}, {}, "0" * 64)
    insert(store, *(a_stack(name, environment={"parameters": {"p": name}}, sealed=True) for name in names))
    store.close()
    return url


def stacks(url: str, keys: tuple[str, ...] = ()) -> dict[str, object]:
    """Name → the parameter that was encrypted."""
    store = Store.open(url, keys)
    store.encryption.check()
    found = {}
    for summary in store.stacks.list("acme", StackQuery()):
        record = store.stacks.get(summary.id)
        assert record is not None
        found[record.name] = record.environment["parameters"]
    store.close()
    return found


def files(folder: Path) -> set[str]:
    locks = (".engine", ".upgrade", ".turn", ".waiting")
    return {path.name for path in folder.iterdir() if not path.name.endswith(locks)}


def test_a_backup_has_the_database_and_its_key_for_their_owner_only(tmp_path: Path) -> None:
    url = filled(tmp_path / "one", "a", "b")
    before = os.umask(0)
    try:
        made = backup(url, (), tmp_path / "copy", overwrite=False)
    finally:
        os.umask(before)
    assert made.key == tmp_path / "copy.key"
    assert files(tmp_path) == {"one", "copy", "copy.key"}
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("copy", "copy.key")] == [0o600, 0o600]
    (tmp_path / "two").mkdir()
    done = restore(f"sqlite:///{tmp_path}/two/heatlite.db", (), tmp_path / "copy", force=False)
    assert (done.found, done.installed, done.aside) == ([], True, None)
    assert stacks(f"sqlite:///{tmp_path}/two/heatlite.db") == {"a": {"p": "a"}, "b": {"p": "b"}}


def test_a_backup_overwrites_only_when_it_is_told_to(tmp_path: Path) -> None:
    url = filled(tmp_path / "one", "a")
    backup(url, (), tmp_path / "copy", overwrite=False)
    filled(tmp_path / "one", "b")
    for taken in ("copy", "copy.key"):
        content = (tmp_path / taken).read_bytes()
        with pytest.raises(BadBackup, match=rf"{taken} exists\..*--force"):
            backup(url, (), tmp_path / "copy", overwrite=False)
        assert (tmp_path / taken).read_bytes() == content
        (tmp_path / taken).unlink()
    backup(url, (), tmp_path / "copy", overwrite=True)
    restore(f"sqlite:///{tmp_path}/two/heatlite.db", (), tmp_path / "copy", force=False)
    assert sorted(stacks(f"sqlite:///{tmp_path}/two/heatlite.db")) == ["a", "b"]


def test_keys_of_the_setting_are_not_copied_and_a_restore_needs_them(tmp_path: Path) -> None:
    keys = (new_key(),)
    url = filled(tmp_path / "one", "a", keys=keys)
    assert backup(url, keys, tmp_path / "copy", overwrite=False).key is None
    target = f"sqlite:///{tmp_path}/two/heatlite.db"
    for others, error in (((new_key(),), UnreadableSecret), ((), MissingKey)):
        with pytest.raises(error, match="encryption_keys"):
            restore(target, others, tmp_path / "copy", force=False)
    assert files(tmp_path / "two") == set()
    restore(target, keys, tmp_path / "copy", force=False)
    assert [*stacks(target, keys)] == ["a"]


@pytest.mark.slow
def test_what_is_written_meanwhile_is_whole_or_not_there(tmp_path: Path) -> None:
    """One transaction writes two stacks; no backup has one of them without the other."""
    url = filled(tmp_path / "one")
    store, ends = Store.open(url), threading.Event()
    written = []

    def write() -> None:
        while not ends.is_set():
            number = len(written)
            insert(store, *(a_stack(f"{number}{side}", environment={"parameters": {}}) for side in "lr"))
            written.append(number)
        store.close()

    writer = threading.Thread(target=write)
    writer.start()
    copied = 0
    for number in range(5):
        while len(written) <= copied:
            pass
        sure = len(written)
        backup(url, (), tmp_path / f"copy{number}", overwrite=False)
        restore(f"sqlite:///{tmp_path}/two/heatlite.db", (), tmp_path / f"copy{number}", force=False)
        names = stacks(f"sqlite:///{tmp_path}/two/heatlite.db")
        copied = len(names) // 2
        left, right = ({name[:-1] for name in names if name.endswith(side)} for side in "lr")
        assert left == right
        assert copied >= sure, "what was committed before is in it"
    ends.set()
    writer.join()
    store.close()


def test_the_database_of_before_is_kept_and_can_be_restored(tmp_path: Path) -> None:
    old = filled(tmp_path / "one", "old")
    backup(filled(tmp_path / "two", "new"), (), tmp_path / "copy", overwrite=False)
    reader = Store.open(old)  # as of a process that died, the log is not written back yet
    insert(reader, a_stack("logged", environment={"parameters": {}}))
    done = restore(old, (), tmp_path / "copy", force=False)
    reader.close()
    assert done.aside is not None
    assert [*stacks(old)] == ["new"]
    assert files(tmp_path / "one") == {"heat.db", "heatlite.key", done.aside.name, f"{done.aside.name}.key"}
    back = restore(old, (), done.aside, force=False)
    assert back.aside is not None
    assert sorted(stacks(old)) == ["logged", "old"]


def test_a_damaged_database_is_set_aside_with_its_log(tmp_path: Path) -> None:
    url = filled(tmp_path / "one", "a")
    backup(url, (), tmp_path / "copy", overwrite=False)
    (tmp_path / "one" / "heat.db").write_bytes(b"nothing of use" * 1000)
    (tmp_path / "one" / "heat.db-wal").write_bytes(b"perhaps")
    done = restore(url, (), tmp_path / "copy", force=False)
    assert done.aside is not None
    assert Path(f"{done.aside}-wal").read_bytes() == b"perhaps"
    assert [*stacks(url)] == ["a"]


def test_nothing_is_restored_while_an_engine_runs(tmp_path: Path) -> None:
    url = filled(tmp_path / "one", "a")
    backup(url, (), tmp_path / "copy", overwrite=False)
    with closing(Store.open(url)) as store:
        lock = store.lock_engine({"pid": 42})
    assert lock is not None
    with pytest.raises(EngineRunning):
        restore(url, (), tmp_path / "copy", force=False)
    lock.close()
    assert restore(url, (), tmp_path / "copy", force=False).installed


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4096:] = b"\xff" * len(content[4096:])
    file.write_bytes(content)


def from_the_future(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("INSERT INTO schema_migration (name, applied) VALUES ('9999_future', '2099-01-01')")


def of_something_else(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE notes (text)")


@pytest.mark.parametrize(
    ("spoil", "error", "reason"),
    [
        (damage, BadBackup, "damaged"),
        (lambda file: file.write_bytes(b"no database" * 100), BadBackup, "damaged: file is not a database"),
        (Path.unlink, BadBackup, "There is no backup"),
        (from_the_future, SchemaMismatch, "9999_future"),
        (of_something_else, BadBackup, "no database of heatlite"),
        (lambda file: Path(f"{file}.key").write_text(new_key()), UnreadableSecret, r"copy\.key lacks the key"),
        (lambda file: Path(f"{file}.key").write_text(""), BadBackup, r"copy\.key has no key"),
        (lambda file: Path(f"{file}.key").unlink(), UnreadableSecret, "lacks the key"),
    ],
)
def test_what_is_no_good_backup_is_refused_and_changes_nothing(
    tmp_path: Path, spoil: object, error: type[Exception], reason: str
) -> None:
    backup(filled(tmp_path / "two", "new"), (), tmp_path / "copy", overwrite=False)
    url = filled(tmp_path / "one", "old")
    spoil(tmp_path / "copy")  # type: ignore[operator]
    before = files(tmp_path / "one")
    with pytest.raises(error, match=reason):
        restore(url, (), tmp_path / "copy", force=True)
    assert files(tmp_path / "one") == before
    assert [*stacks(url)] == ["old"]


def test_what_fsck_finds_is_installed_only_by_force(tmp_path: Path) -> None:
    url = filled(tmp_path / "one", "a")
    with closing(sqlite3.connect(tmp_path / "one" / "heat.db")) as connection, connection:
        connection.execute("UPDATE stack SET template_id = 'gone'")
    backup(url, (), tmp_path / "copy", overwrite=False)
    target = f"sqlite:///{tmp_path}/two/heatlite.db"
    refused = restore(target, (), tmp_path / "copy", force=False)
    assert ([one.rule for one in refused.found], refused.installed) == (["a stack has its template"], False)
    assert files(tmp_path / "two") == set()
    assert restore(target, (), tmp_path / "copy", force=True).installed
    assert [*stacks(target)] == ["a"]


@pytest.mark.parametrize(
    ("url", "tool", "driver"),
    [("postgresql://h/n", "pg_dump", "psycopg"), ("mysql://h/n", "mariadb-dump", "pymysql")],
)
def test_a_server_has_tools_of_its_own(tmp_path: Path, url: str, tool: str, driver: str) -> None:
    pytest.importorskip(driver)
    (tmp_path / "copy").touch()
    for use in (backup, restore):
        with pytest.raises(BadSetting, match=rf"`{tool}.*encryption_keys"):
            use(url, (), tmp_path / "copy", False)


def test_where_there_is_nothing_to_back_up_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(BadBackup, match="no database"):
        backup(f"sqlite:///{tmp_path}/none.db", (), tmp_path / "copy", overwrite=False)
    with pytest.raises(BadSetting, match=r"^There is no folder .*nowhere\. Create it, or choose another one\.$"):
        backup(filled(tmp_path / "one", "a"), (), tmp_path / "nowhere" / "copy", overwrite=False)
    assert files(tmp_path) == {"one"}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The database is not at fault."""
    url = filled(tmp_path / "one", "a")
    (tmp_path / "taken").mkdir()
    with pytest.raises(BadBackup, match=r"taken is no file\. Choose another name\.$"):
        backup(url, (), tmp_path / "taken", overwrite=True)
    with pytest.raises(BadBackup, match=r"^The backup cannot be written: .*'/proc/"):
        backup(url, (), Path("/proc/copy"), overwrite=False)
    assert files(tmp_path) == {"one", "taken"}


def test_no_key_is_made_where_one_is_missing(tmp_path: Path) -> None:
    """A new key would open nothing, and hide that the right one is away."""
    url = filled(tmp_path / "one", "a")
    key = tmp_path / "one" / "heatlite.key"
    content = key.read_text()
    key.unlink()
    store = Store.open(url)
    for use in (store.encryption.check, lambda: store.encryption.encrypt("x"), lambda: store.encryption.cipher):
        with pytest.raises(MissingKey, match=r"heatlite\.key is missing.*from your backup"):
            use()
    assert not key.exists()
    key.write_text(content)
    store.encryption.check()
    store.close()


def test_a_restore_takes_no_key_of_another_database(tmp_path: Path) -> None:
    """The databases of a folder share one key."""
    backup(filled(tmp_path / "two", "new"), (), tmp_path / "copy", overwrite=False)
    url = filled(tmp_path / "one", "old")
    beside = f"sqlite:///{tmp_path}/one/beside.db"
    before = files(tmp_path / "one")
    with pytest.raises(BadBackup, match=r"one/heatlite\.key is another key"):
        restore(beside, (), tmp_path / "copy", force=True)
    assert files(tmp_path / "one") == before
    assert [*stacks(url)] == ["old"]
    backup(url, (), tmp_path / "own", overwrite=False)
    restore(beside, (), tmp_path / "own", force=False)
    assert [*stacks(beside)] == ["old"]


def test_a_backup_is_not_written_over_its_database(tmp_path: Path) -> None:
    url = filled(tmp_path / "one", "a")
    (tmp_path / "link").symlink_to(tmp_path / "one" / "heat.db")
    for target in (tmp_path / "one" / "heat.db", tmp_path / "link", tmp_path / "one" / "heatlite"):
        with pytest.raises(BadBackup, match="of the database itself"):
            backup(url, (), target, overwrite=True)
    assert [*stacks(url)] == ["a"]


def test_the_file_of_a_killed_process_with_the_same_id_hinders_none(tmp_path: Path) -> None:
    """In a container each process may have the id 1."""
    url = filled(tmp_path / "one", "a")
    (tmp_path / f".copy.{os.getpid()}").touch()
    (tmp_path / "one" / f".heat.db.{os.getpid()}").touch()
    backup(url, (), tmp_path / "copy", overwrite=False)
    assert restore(url, (), tmp_path / "copy", force=False).installed


def test_a_link_to_a_database_stays_a_link(tmp_path: Path) -> None:
    """The lock of its engine lies beside the file itself, its key beside the link."""
    url = filled(tmp_path / "one", "a")
    link = tmp_path / "two" / "heatlite.db"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "one" / "heat.db")
    (tmp_path / "one" / "heatlite.key").rename(link.parent / "heatlite.key")
    linked = f"sqlite:///{link}"
    backup(linked, (), tmp_path / "copy", overwrite=False)
    assert [*stacks(linked)] == ["a"]
    with closing(Store.open(url)) as store:
        lock = store.lock_engine({"pid": 42})
    assert lock is not None
    assert engine_of(linked) == {"pid": 42}
    with pytest.raises(EngineRunning):
        restore(linked, (), tmp_path / "copy", force=False)
    lock.close()
    aside = restore(linked, (), tmp_path / "copy", force=False).aside
    assert aside is not None
    assert (link.is_symlink(), files(link.parent)) == (True, {"heatlite.db", "heatlite.key"})
    assert files(tmp_path / "one") == {"heat.db", aside.name, f"{aside.name}.key"}
    assert [*stacks(linked)] == ["a"]


def test_what_root_makes_belongs_to_the_user_of_the_server(tmp_path: Path) -> None:
    folder, owner = tmp_path / "one", os.geteuid() or 12345
    copied = backup(filled(tmp_path / "two", "a"), (), tmp_path / "copy", overwrite=False)
    folder.mkdir()
    os.chown(folder, owner, -1)
    url = f"sqlite:///{folder}/heatlite.db"
    assert restore(url, (), copied.database, force=False).installed
    restored = {path.name for path in folder.iterdir()}
    with closing(Store.open(url)) as store:
        store.upgrade()
    for path in folder.iterdir():
        path.unlink()
    with closing(Store.open(url)) as store:
        store.upgrade()
        store.encryption.encrypt("x")
        lock = store.lock_engine({"pid": 42})
        assert lock is not None
        lock.close()
    assert {path.name for path in folder.iterdir()} >= restored | {"heatlite.db.upgrade"}
    assert {path.stat().st_uid for path in folder.iterdir()} == {owner}
