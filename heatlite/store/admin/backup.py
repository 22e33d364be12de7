"""Back up and restore a SQLite database, with the file of its key beside it.

Database servers have tools of their own; for them this module only names the tools.
"""

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from heatlite.core.config import BadSetting
from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.admin import migrate
from heatlite.store.admin.consistency import Inconsistency, inconsistencies
from heatlite.store.database import engine_lock
from heatlite.store.database.backend import BUSY_SECONDS
from heatlite.store.database.database import Database
from heatlite.store.database.ownership import give_to_owner
from heatlite.store.database.sqlite.turns import Turns
from heatlite.store.errors import BadBackup, MissingKey, UnreadableSecret
from heatlite.store.feature_store import FeatureStore, present, series_of
from heatlite.store.secrets.cipher import key_file
from heatlite.store.secrets.field_encryption import FieldEncryption


class Backup(Struct, frozen=True):
    """The files of a backup."""

    database: Path
    key: Path | None
    """None if the database has no key file. Its keys, if any, are in the setting `encryption_keys`."""


class RestoreResult(Struct, frozen=True):
    """Result of a restore."""

    found: Sequence[Inconsistency]
    """Findings of `heatlite fsck` in the backup."""
    installed: bool
    aside: Path | None = None
    """New name of the former database, with its key beside it; None if there was none."""


def backup(url: str, keys: Sequence[str], target: Path, overwrite: bool) -> Backup:
    """Copy a SQLite database to `target`, and its key file to ``target.key``.

    Both files are readable by their owner only. The copy is consistent even while an engine writes. `keys` is the
    setting `encryption_keys`; if it is set, the key file is not in use and not copied. Raises BadSetting for a database
    server and a missing folder, BadBackup if there is nothing to copy, `target` exists and `overwrite` is False, or it
    cannot be written. Raises DatabaseUnavailable.
    """
    source = _file(url)
    if not source.is_file():
        raise BadBackup(f"There is no database {source}.")
    key = key_file(source)
    copied_key = _key_of(target) if not keys and key.is_file() else None
    if not target.parent.is_dir():
        raise BadSetting(f"There is no folder {target.parent}. Create it, or choose another one.")
    for path in (target, _key_of(target)):
        if any(path.exists() and used.exists() and path.samefile(used) for used in (source, key)):
            raise BadBackup(f"{path} is a file of the database itself. Choose another name.")
        if path.exists() and not path.is_file():
            raise BadBackup(f"{path} is no file. Choose another name.")
        if path.exists() and not overwrite:
            raise BadBackup(f"{path} exists. Choose another name, or add --force to overwrite it.")
    try:
        with _new_file(target) as (new, install), _new_file(_key_of(target)) as (new_key, install_key):
            _copy(source, new)
            if copied_key is not None:
                new_key.write_bytes(key.read_bytes())
                install_key()
            else:
                _key_of(target).unlink(missing_ok=True)
            install()
    except OSError as error:
        raise BadBackup(f"The backup cannot be written: {error}") from error
    except sqlite3.OperationalError as error:
        raise DatabaseUnavailable(reason=f"{source} cannot be copied to {target}: {error}") from error
    return Backup(target, copied_key)


def restore(
    url: str,
    keys: Sequence[str],
    source: Path,
    force: bool,
    features: Sequence[type[FeatureStore]] = (),
    off: Sequence[type[FeatureStore]] = (),
) -> RestoreResult:
    """Check a backup and install it as the SQLite database at `url`.

    The former database is kept beside it. The checks cover the file (``PRAGMA integrity_check``), its tables, which are
    upgraded, the key, and the rules of `heatlite fsck`. After a finding of fsck the backup is installed only with
    `force`. Raises BadSetting for a database server, EngineRunning, BadBackup, SchemaMismatch for a backup of a newer
    heatlite, UnreadableSecret for a wrong key, DatabaseUnavailable.
    """
    database = _file(url)
    target, own_key = Path(os.path.realpath(database)), key_file(database)  # a link stays, and its key beside it
    if not source.is_file():
        raise BadBackup(f"There is no backup {source}.")
    key = _key_of(source) if not keys and _key_of(source).is_file() else None
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = engine_lock.acquire(target, {"pid": os.getpid()})
        with closing(lock), _new_file(target) as (new, install), _new_file(own_key) as (new_key, install_key):
            _copy(source, new)
            found = _check(new, source, keys, key, features, off)
            if found and not force:
                return RestoreResult(found, installed=False)
            if key is not None:
                new_key.write_bytes(key.read_bytes())
                _check_place(target, own_key, new_key)
            owner = target if target.exists() else target.parent
            for file in (new, new_key):
                give_to_owner(file, owner)
            with Turns(target).turn(lambda: None):
                aside = _set_aside(target, own_key)
                if key is not None:
                    install_key()
                install()
    except (OSError, sqlite3.OperationalError) as error:
        raise DatabaseUnavailable(reason=f"{target}: {error}") from error
    return RestoreResult(found, True, aside)


def _file(url: str) -> Path:
    """Return the file of a SQLite database. Raises BadSetting for a server."""
    database = Database(url)
    if database.path is None:
        dump, load = database.backend.backup_tools
        raise BadSetting(
            f"{database.backend.dialect} has tools of its own: `{dump}` makes a backup while heatlite runs, `{load}`"
            " restores it into an empty database while no process of heatlite runs. Keep the setting `encryption_keys`,"
            " too, in another place: encrypted data cannot be read without these keys."
        )
    return database.path


def _key_of(copy: Path) -> Path:
    return Path(f"{copy}.key")


@contextmanager
def _new_file(path: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Yield an empty file beside `path`, and a call that installs it durably.

    Its name is random: a process that was killed leaves its file, and the next one may have the same id (containers).
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    new = Path(name)

    def install() -> None:
        _sync(new)
        new.replace(path)
        _sync(path.parent)

    try:
        yield new, install
    finally:
        for suffix in ("", "-journal", "-wal", "-shm", ".upgrade", ".turn", ".waiting"):
            Path(f"{new}{suffix}").unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(source: Path, target: Path) -> None:
    """Copy a database in one transaction, and check the copy. Raises BadBackup.

    The copy does not wait for writers.
    """
    try:
        with (
            closing(sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True, timeout=BUSY_SECONDS)) as original,
            closing(sqlite3.connect(target)) as here,
        ):
            original.backup(here)
            here.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
            problems = [str(text) for (text,) in here.execute("PRAGMA integrity_check(10)") if text != "ok"]
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        problems = [str(error)]
    if problems:
        raise BadBackup(f"{source} is damaged: {'; '.join(problems)}")


def _check(
    copy: Path,
    source: Path,
    keys: Sequence[str],
    key: Path | None,
    features: Sequence[type[FeatureStore]],
    off: Sequence[type[FeatureStore]],
) -> list[Inconsistency]:
    """Upgrade a copy, and check it against its keys and the rules of fsck.

    `off` are the stores of features that are off. Its keys are `keys`, else the key in the file `key`, else the key
    file beside the copy.
    """
    keys = [key.read_text("ascii", errors="replace").strip()] if key is not None else keys
    database = Database(f"sqlite:///{copy}")
    try:
        series = [*dict.fromkeys((*series_of(features), *migrate.begun(database, series_of(off))))]
        if not any(step.applied for step in migrate.check_known(database, series)):
            raise BadBackup(f"{source} is no database of heatlite.")
        migrate.upgrade(database, series)
        off = migrate.whole(database, present(database, off))
        encryption = FieldEncryption(database, keys, lambda: [model for kind in off for model in kind.tables])
        for kind in features:
            encryption.add_tables(kind.tables)
        try:
            encryption.check(also_off=True)
        except MissingKey:
            raise MissingKey(path=_key_of(source)) from None
        except UnreadableSecret as error:
            raise (error if key is None else UnreadableSecret(keys=key)) from None
        except BadSetting as error:
            raise (error if key is None else BadBackup(f"{key} has no key: 44 characters of base64.")) from None
        # With time 0, so that an old backup has no overdue leases and waits.
        found = inconsistencies(database, 0.0, 0.0, features, off)
        database.read("PRAGMA journal_mode = DELETE")
        return found
    finally:
        database.close()


def _check_place(database: Path, key: Path, new: Path) -> None:
    """Check that a new key replaces none but that of the database. Raises BadBackup.

    Databases of a folder share a key file.
    """
    if not database.exists() and key.exists() and key.read_bytes() != new.read_bytes():
        raise BadBackup(
            f"{key} is another key than the backup's; databases of this folder may need it. Restore into another"
            " folder, or move this file away."
        )


def _free_name(wanted: str) -> Path:
    names = (Path(wanted if number == 1 else f"{wanted}-{number}") for number in count(1))
    return next(path for path in names if not path.exists())


def _set_aside(database: Path, key: Path) -> Path | None:
    """Link a database and its key under another name; None without a database.

    The original names stay.
    """
    if not database.exists():
        return None
    aside = _free_name(f"{database}.before-restore-{time.strftime('%Y%m%dT%H%M%S')}")
    log, log_aside = Path(f"{database}-wal"), Path(f"{aside}-wal")
    if log.exists():
        shutil.copy2(log, log_aside)  # SQLite deletes the log if the file is no database any more
    busy = 0
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(database, timeout=BUSY_SECONDS)) as connection:
        ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        log_aside.unlink(missing_ok=True)
    if busy:
        raise DatabaseUnavailable(reason=f"{database} is in use")
    os.link(database, aside)
    if key.exists():
        shutil.copy2(key, _key_of(aside))
    for left in (log, Path(f"{database}-shm")):
        left.unlink(missing_ok=True)
    return aside
