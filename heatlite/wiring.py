"""Builds the object graph. The one module that sees every room."""

import logging
import os
import socket
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path

from heatlite.api.app import App, create_app
from heatlite.api.handler import Rooms
from heatlite.api.streams import Streams
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import Conflict, Invalid
from heatlite.core.json import JsonMap
from heatlite.engine.containers import Folders
from heatlite.engine.definitions import Definitions
from heatlite.engine.gate import Gate
from heatlite.engine.handover import Handover
from heatlite.engine.health import Health
from heatlite.engine.mailbox import StoredMailbox
from heatlite.engine.maintenance import Maintenance
from heatlite.engine.prepare import Preparation
from heatlite.engine.reading import Reading
from heatlite.engine.regions import Regions, endpoints
from heatlite.engine.scope import Surroundings
from heatlite.engine.signals import Signals
from heatlite.engine.sinks import Sinks
from heatlite.engine.snapshots import Snapshots
from heatlite.engine.software import Software
from heatlite.engine.stacks import Stacks
from heatlite.engine.template_types import TemplateTypes
from heatlite.engine.worker import Worker
from heatlite.plugin.installation import read_installation
from heatlite.plugin.ports import Services
from heatlite.plugin.registry import Registry
from heatlite.resources import BUILTIN
from heatlite.store.errors import EngineRunning
from heatlite.store.exclusive import EngineLock, engine_of
from heatlite.store.migrate import Migration
from heatlite.store.store import Store

log = logging.getLogger(__name__)


class EngineBusy(Conflict):
    """Another process is the engine of this SQLite database."""

    text = (
        "Another heatlite (process {pid}) works on {database}{url}. Use that one, stop it, or give another database"
        " with --database."
    )


class NotUpgraded(Invalid):
    """The tables are older than this program."""

    text = "The database is not up to date: {missing} has not been applied. Run `heatlite db upgrade` on it first."


class NotLoopback(Invalid):
    """Without authentication only this machine may connect."""

    text = (
        "Refusing to listen on {host}: nobody is asked who they are, so only this machine may connect."
        " Use --host 127.0.0.1."
    )


class NoPort(Conflict):
    """The address to listen on is taken, or not ours to take."""

    text = "Cannot listen on {host}, port {port}: {reason}. Choose another port with --port."


@dataclass(frozen=True, slots=True)
class Embedded:
    """A heatlite in this process: the application, and an engine behind it unless it is only for reading."""

    app: App
    rooms: Rooms
    worker: Worker | None = None
    sinks: Sinks | None = None
    lock: EngineLock | None = None

    @property
    def store(self) -> Store:
        """What is known."""
        return self.rooms.store

    @property
    def stacks(self) -> Stacks:
        """The use cases of stacks."""
        return self.rooms.stacks

    def close(self) -> None:
        """Give unfinished actions back and let go of the database."""
        if self.worker is not None:
            self.worker.stop()
        if self.sinks is not None:
            self.sinks.stop()
        self.rooms.streams.close()
        self.store.close()
        if self.lock is not None:
            self.lock.close()


def open_store(settings: Settings) -> Store:
    """The store, its tables up to date. Those of a SQLite file are brought up to date here.

    On a database server that is an operator's decision: raises NotUpgraded until it was taken.
    """
    store = Store.open(settings.database)
    if store.database.path is not None:
        store.upgrade()
        return store
    missing = [step.name for step in store.status() if not step.applied]
    if missing:
        raise NotUpgraded(missing=", ".join(missing))
    return store


def reader(settings: Settings) -> Embedded:
    """The application without an engine: it shows what is there, whoever works on it, and starts nothing."""
    store, clock = open_store(settings), Clock()
    rooms = _rooms(settings, store, clock, Gate(store, clock, settings))
    return Embedded(_application(settings, rooms), rooms)


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
            store.sinks.reclaim_all()
    gate = Gate(store, clock, settings)
    rooms = _rooms(settings, store, clock, gate)
    worker = Worker(store, rooms.surroundings, clock, settings, rooms.definitions, rooms.maintenance)
    gate.wake = worker.wake
    store.database.committed = rooms.streams.wake
    app = _application(settings, rooms)
    sinks = Sinks(store, clock, settings.webhook_hosts, rooms.types.installation.event_sinks)
    worker.start()
    sinks.start()
    return Embedded(app, rooms, worker, sinks, lock)


def installed_types(settings: Settings) -> Registry:
    """The types that there are, and how the installation maps them. Raises BadEnvironmentFile and BadSetting."""
    installation = replace(
        read_installation(Path(settings.environment_dir)),
        regions=frozenset(endpoints(settings)),
        max_nested_stack_depth=settings.max_nested_stack_depth,
    )
    return Registry(BUILTIN, installation)


def _rooms(settings: Settings, store: Store, clock: Clock, gate: Gate) -> Rooms:
    types = installed_types(settings)
    definitions = Definitions(store, types)
    public_url = settings.public_url or f"http://{settings.address}"
    software = Software(store, clock, settings)
    services = Services(
        StoredMailbox(store),
        public_url,
        software,
        Regions(endpoints(settings), public_url),
        settings.max_resources_per_stack,
        settings.stack_action_timeout,
        settings.client_retry_limit,
    )
    surroundings = Surroundings(types, clock.now, services, store, definitions, TemplateTypes(types))
    reading = Reading(store, surroundings, definitions)
    containers = None
    if settings.files_containers is not None:
        folder = Path(settings.files_containers)
        containers = Folders(folder, settings.max_template_size, settings.max_json_body_size)
    preparation = Preparation(store, types, settings, definitions, containers)
    return Rooms(
        stacks=Stacks(store, clock, settings, definitions, preparation, gate, reading),
        handover=Handover(store, clock, settings, gate),
        snapshots=Snapshots(store, clock, settings, gate, preparation, definitions, surroundings),
        maintenance=Maintenance(store, clock, gate),
        health=Health(store, clock, definitions, gate, reading),
        signals=Signals(store, clock, settings, definitions, gate, reading),
        software=software,
        reading=reading,
        definitions=definitions,
        store=store,
        types=types,
        surroundings=surroundings,
        streams=Streams(store, settings.max_event_streams),
        clock=clock,
    )


def _application(settings: Settings, rooms: Rooms) -> App:
    return create_app(rooms, settings.public_url, settings.max_json_body_size)


def _lock_engine(store: Store, url: str | None) -> EngineLock | None:
    try:
        return store.lock_engine({"pid": os.getpid(), "url": url})
    except EngineRunning as error:
        raise _busy(error.info, str(store.database.path)) from error


def _busy(engine: JsonMap, database: str) -> EngineBusy:
    url = engine.get("url")
    return EngineBusy(pid=engine.get("pid", "unknown"), database=database, url=f" and serves {url}" if url else "")


def check_servable(settings: Settings) -> None:
    """Raise what would keep a server from starting: NotLoopback, EngineBusy, NoPort, a database that does not open."""
    if settings.host != "localhost" and not _is_loopback(settings.host):
        raise NotLoopback(host=settings.host)
    store = open_store(settings)
    engine = engine_of(settings.database)
    store.close()
    if engine is not None:
        raise _busy(engine, settings.database)
    _check_port(settings)


def _check_port(settings: Settings) -> None:
    """Ask for the port as gunicorn will, which tries for seconds and then blames nobody."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            raise NoPort(host=settings.host, port=settings.port, reason=error.strerror) from error


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
