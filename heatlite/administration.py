"""Administration of the database: open, upgrade, back up, restore, check, keys."""

import logging
import os
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from heatlite.core.clock import Clock
from heatlite.core.config import BadSetting, Settings
from heatlite.core.errors import Conflict, Invalid, abbreviated
from heatlite.core.json import JsonMap
from heatlite.core.wire.why import WayOut
from heatlite.feature import of_active, of_inactive, series_off
from heatlite.store.admin import migrate
from heatlite.store.database.backend import backend_of
from heatlite.store.database.engine_lock import EngineLock
from heatlite.store.database.limits import Pace
from heatlite.store.errors import EngineRunning
from heatlite.store.feature_store import FeatureStore
from heatlite.store.store import Store

if TYPE_CHECKING:
    from heatlite.store.admin.backup import Backup, RestoreResult
    from heatlite.store.admin.consistency import Inconsistency
    from heatlite.store.admin.migrate import MigrationScript
    from heatlite.store.admin.rotation import RotationResult

log = logging.getLogger(__name__)

NO_CIPHER = (
    "Secrets cannot be encrypted: that needs keys (encryption_keys; `heatlite keys new` prints one; a SQLite database"
    " has its own) and cryptography, of the extra server."
)


class EngineBusy(Conflict):
    """Another process already runs the engine of this SQLite database."""

    text = (
        "Another heatlite (process {pid}) uses {database}{url}. Use that one, stop it, or choose another database with"
        " --database."
    )
    ways = (WayOut(text="stop that process, or choose another database"),)


MOST_NAMED = 3
"""Missing migrations that the error names."""


class NotUpgraded(Invalid):
    """The tables are older than this version of heatlite."""

    text = "The database is not up to date. Missing migrations: {missing}. Run `heatlite db upgrade` first."


class NoDatabase(Invalid):
    """A command on an existing database found none."""

    text = "There is no database {database}."


def open_store(settings: Settings) -> Store:
    """Open the store with its tables up to date.

    Upgrades a SQLite file. Raises EngineBusy if an older engine runs on it, NotUpgraded for a database server: its
    operator decides when to upgrade.
    """
    keys, lease = settings.encryption_keys, settings.lease_seconds
    store = Store.open(settings.database, keys, lease, _feature_stores(settings), partial(_stores_off, settings))
    missing = [step.name for step in store.migrations if not step.applied]
    if store.database.path is not None:
        if missing or migrate.are_behind(store.database, series_off(settings)):
            _upgrade(store)
    elif missing:
        raise NotUpgraded(missing=abbreviated(missing, MOST_NAMED))
    return store


def _feature_stores(settings: Settings) -> Sequence[type[FeatureStore]]:
    """Return the stores of the features that are on."""
    return of_active(settings, lambda one: one.stores())


def _stores_off(settings: Settings) -> Sequence[type[FeatureStore]]:
    """Return the stores of the installed features that are off."""
    return of_inactive(settings, lambda one: one.stores())


def _open_existing(settings: Settings) -> Store:
    """Open the store of a database that exists: a new one would seem to be sound.

    Raises NoDatabase, and errors of `open_store`.
    """
    path = backend_of(settings.database).path
    if path is not None and not path.exists():
        raise NoDatabase(database=path)
    return open_store(settings)


def _upgrade(store: Store) -> list[str]:
    try:
        return store.upgrade()
    except EngineRunning as error:
        store.close()
        raise busy(error.info, str(store.database.path)) from error


def check_keys(store: Store, warns: bool = True, reads_file: bool = True) -> None:
    """Check that the keys fit the stored secrets, before they encrypt anything.

    Logs a warning if there is no key. Without `reads_file` the first secret reads, or makes, a key file. Raises
    BadSetting, UnreadableSecret.
    """
    if reads_file and store.encryption.cipher is None and warns:
        log.warning(
            "%s Credentials of clients are not stored; hidden parameters and values made from them are stored in clear"
            " text.",
            NO_CIPHER,
        )
    store.encryption.check()


def lock_engine(store: Store, url: str | None) -> EngineLock | None:
    """Make this process the only engine of a SQLite database. Raises EngineBusy."""
    try:
        return store.lock_engine({"pid": os.getpid(), "url": url})
    except EngineRunning as error:
        raise busy(error.info, str(store.database.path)) from error


def hold_engine(settings: Settings, url: str) -> EngineLock | None:
    """Take the engine lock for this process and its children. Raises EngineBusy."""
    with closing(Store.open(settings.database)) as store:
        lock = lock_engine(store, url)
    if lock is not None:
        lock.share()
    return lock


def busy(engine: JsonMap, database: str) -> EngineBusy:
    """Return the error that names the running engine, as its lock describes it."""
    url = engine.get("url")
    return EngineBusy(pid=engine.get("pid", "unknown"), database=database, url=f" and serves {url}" if url else "")


def upgrade(settings: Settings) -> list[str]:
    """Run the missing migrations. Returns their names. Raises EngineBusy."""
    with closing(_opened(settings)) as store:
        return _upgrade(store)


def migration_status(settings: Settings) -> "list[MigrationScript]":
    """List the migrations, and whether each is applied."""
    with closing(_opened(settings)) as store:
        return store.status()


def _opened(settings: Settings) -> Store:
    """Open the store, whatever its tables are."""
    return Store.open(settings.database, features=_feature_stores(settings), off=partial(_stores_off, settings))


def back_up(settings: Settings, target: Path, overwrite: bool) -> "Backup":
    """Copy the SQLite database, see `backup.backup`."""
    from heatlite.store.admin import backup

    return backup.backup(settings.database, settings.encryption_keys, target, overwrite)


def restore(settings: Settings, source: Path, force: bool) -> "RestoreResult":
    """Replace the SQLite database by a backup, see `backup.restore`.

    Raises EngineBusy.
    """
    from heatlite.store.admin import backup

    try:
        features, off = _feature_stores(settings), _stores_off(settings)
        return backup.restore(settings.database, settings.encryption_keys, source, force, features, off)
    except EngineRunning as error:
        raise busy(error.info, settings.database) from error


def reencrypt(settings: Settings) -> "RotationResult":
    """Encrypt all stored secrets with the first key.

    Raises BadSetting without a key, NoDatabase.
    """
    store = _open_existing(settings)
    try:
        if store.encryption.cipher is None:
            raise BadSetting(NO_CIPHER)
        with store.database.limits_of(Pace.MAINTENANCE):
            return store.reencrypt()
    finally:
        store.close()


def inconsistencies(settings: Settings) -> "list[Inconsistency]":
    """List broken invariants of the database. Raises NotUpgraded, NoDatabase."""
    store = _open_existing(settings)
    try:
        # A takeover follows an expired lease within a second; a slow worker may take as long as a lease.
        with store.database.limits_of(Pace.MAINTENANCE):
            return store.inconsistencies(Clock().now(), settings.lease_seconds)
    finally:
        store.close()
