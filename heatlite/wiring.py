"""Builds the object graph. The one module that sees every room."""

import logging
import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from heatlite.api.app import App, create_app
from heatlite.api.handler import Rooms
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import Conflict, Invalid
from heatlite.engine.definitions import Definitions
from heatlite.engine.stacks import Stacks
from heatlite.engine.worker import Worker
from heatlite.plugin.registry import Registry
from heatlite.resources import BUILTIN
from heatlite.store.errors import EngineRunning
from heatlite.store.exclusive import EngineLock
from heatlite.store.migrate import Migration
from heatlite.store.store import Store

log = logging.getLogger(__name__)


class EngineBusy(Conflict):
    """Another process is the engine of this SQLite database."""

    text = (
        "Another heatlite (process {pid}) works on {database}{url}. Use that one, stop it, or give another database"
        " with --database."
    )


class NotLoopback(Invalid):
    """Without authentication only this machine may connect."""

    text = (
        "Refusing to listen on {host}: nobody is asked who they are, so only this machine may connect."
        " Use --host 127.0.0.1."
    )


@dataclass(frozen=True, slots=True)
class Embedded:
    """A whole heatlite in this process: the application, and an engine behind it."""

    app: App
    stacks: Stacks
    store: Store
    worker: Worker
    lock: EngineLock | None

    def close(self) -> None:
        """Give unfinished actions back and let go of the database."""
        self.worker.stop()
        self.store.close()
        if self.lock is not None:
            self.lock.close()


def open_store(settings: Settings) -> Store:
    """The store, its tables up to date where it is a SQLite file (others are upgraded by `heatlite db upgrade`)."""
    store = Store.open(settings.database)
    if store.database.path is not None:
        store.upgrade()
    return store


def embedded(settings: Settings, url: str | None = None, clock: Clock | None = None) -> Embedded:
    """Start an engine in this process. Raises EngineBusy if the database has one already.

    `url` is where this process can be reached, for whoever comes later; None: nowhere.
    """
    clock = clock or Clock()
    store = open_store(settings)
    lock = _lock_engine(store, url)
    if lock is not None:
        # Whoever has the lock is alone, so no running action has an owner any more.
        with store.transaction():
            store.actions.reclaim_all(clock.now())
    types = Registry(BUILTIN)
    definitions = Definitions(store)
    stacks = Stacks(store, types, clock, settings, definitions)
    worker = Worker(store, types, clock, settings, definitions, stacks)
    stacks.wake = worker.wake
    rooms = Rooms(stacks=stacks, definitions=definitions, store=store, types=types, clock=clock)
    app = create_app(rooms, settings.public_url, settings.max_json_body_size)
    worker.start()
    return Embedded(app, stacks, store, worker, lock)


def _lock_engine(store: Store, url: str | None) -> EngineLock | None:
    try:
        return store.lock_engine({"pid": os.getpid(), "url": url})
    except EngineRunning as error:
        at = error.info.get("url")
        raise EngineBusy(
            pid=error.info.get("pid", "unknown"), database=store.database.path, url=f" and serves {at}" if at else ""
        ) from error


def running_server(settings: Settings) -> str | None:
    """The address of the server that works on this database; None if there is none."""
    if not settings.database.startswith("sqlite:///") or not Path(settings.database[10:]).exists():
        return None
    store = Store.open(settings.database)
    try:
        lock = store.lock_engine({"pid": os.getpid(), "url": None})
    except EngineRunning as error:
        url = error.info.get("url")
        return str(url) if url else None
    if lock is not None:
        lock.close()
    return None


def check_servable(settings: Settings) -> None:
    """Raise what would keep a server from starting: NotLoopback, EngineBusy, a database that cannot be opened."""
    if settings.host != "localhost" and not _is_loopback(settings.host):
        raise NotLoopback(host=settings.host)
    store = open_store(settings)
    lock = _lock_engine(store, None)
    if lock is not None:
        lock.close()
    store.close()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def upgrade(settings: Settings) -> list[str]:
    """Bring the database up to date; the names of the migrations that were run."""
    return Store.open(settings.database).upgrade()


def migration_status(settings: Settings) -> list[Migration]:
    """Which migrations there are and which have run."""
    return Store.open(settings.database).status()


def types() -> Registry:
    """The resource types of this installation."""
    return Registry(BUILTIN)
