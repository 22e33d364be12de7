"""Builds the server's object graph, with `api/components.py`."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from heatlite.administration import NO_CIPHER, EngineBusy, check_keys, lock_engine, open_store
from heatlite.api.access.authentication import AccessControl
from heatlite.api.access.factory import create_access_control
from heatlite.api.app import create_app
from heatlite.api.components import Components
from heatlite.api.event_streams import MAX_DURATION, Streams
from heatlite.api.routes import App
from heatlite.clients.clouds import Clouds
from heatlite.core.clock import Clock
from heatlite.core.config import SIMULATED, Auth, BadSetting, Settings
from heatlite.core.extras import MissingLibrary
from heatlite.core.json import JsonMap
from heatlite.core.meter import Meter
from heatlite.core.status import ActionStatus
from heatlite.core.timer import Timer
from heatlite.engine.admission.admission import Admission
from heatlite.engine.admission.offered_types import OfferedTypes
from heatlite.engine.admission.preparation import Preparation
from heatlite.engine.dispatch import Dispatcher
from heatlite.engine.dispatch.hints import Hint, Hints
from heatlite.engine.dispatch.local import LocalDispatcher, Slots
from heatlite.engine.execution.action_log import report_moves
from heatlite.engine.execution.worker import Worker
from heatlite.engine.operations.schedule import Schedule
from heatlite.engine.operations.software_configs import Software
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.outbound.file_containers import Folders
from heatlite.engine.outbound.regions import Regions, endpoints
from heatlite.engine.outbound.self_auth import SelfAuth
from heatlite.engine.outbound.webhooks import WebhookDelivery
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.recorded_clouds import StackClouds
from heatlite.engine.types.agent_accounts import Accounts
from heatlite.engine.types.mailbox import StoredMailbox
from heatlite.engine.types.outputs import StackReader
from heatlite.engine.types.resource_factory import EngineServices
from heatlite.engine.types.template_types import TemplateTypes
from heatlite.features.healing.parts import Healing
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.nodes.agents.on_demand import OnDemandOrchestrator
from heatlite.plugin.installation import read_installation
from heatlite.plugin.ports import Services
from heatlite.plugin.registry import Registry
from heatlite.resources import BUILTIN
from heatlite.store.database.engine_lock import EngineLock
from heatlite.store.listeners import NO_LISTENERS, Listeners, Moved, ignore
from heatlite.store.records import ActionRecord
from heatlite.store.store import Store
from heatlite.template.parameters.constraints import looked_up

if TYPE_CHECKING:
    from heatlite.engine.dispatch.distributed import CeleryDispatcher
    from heatlite.features.simulator.simulation import Scenario

log = logging.getLogger(__name__)


class Embedded(Struct, frozen=True):
    """The server of this process: the application, and usually an engine."""

    make_app: Callable[[], App]
    """Creates the application at the first call. A worker process never calls it."""
    components: Components
    meter: Meter
    dispatcher: Dispatcher | None = None
    timer: Timer | None = None
    worker: Worker | None = None
    sinks: WebhookDelivery | None = None
    orchestrator: OnDemandOrchestrator | None = None
    lock: EngineLock | None = None

    @property
    def app(self) -> App:
        """The application. The first use raises BadSetting."""
        return self.make_app()

    @property
    def store(self) -> Store:
        """The store."""
        return self.components.store

    @property
    def stacks(self) -> Stacks:
        """The operations on stacks."""
        return self.components.stacks

    def take(self, hint: Hint, about: str) -> None:
        """Act on a hint of another process of this server."""
        if hint is Hint.ACTION and self.worker is not None:
            self.worker.wake()
        elif hint is Hint.MESSAGE and self.worker is not None:
            self.worker.deliver(about)
        elif hint is Hint.NODES and self.orchestrator is not None:
            self.orchestrator.wake()

    def close(self) -> None:
        """Release unfinished actions, and close the database."""
        if self.dispatcher is not None:
            self.dispatcher.detach()
        if self.orchestrator is not None:
            self.orchestrator.stop()
        if self.worker is not None:
            self.worker.stop()
        if self.sinks is not None:
            self.sinks.stop()
        if self.timer is not None:
            self.timer.stop()
        if self.dispatcher is not None:
            self.dispatcher.close()
        self.components.streams.close()
        self.components.admission.suppressed.close()
        self.store.audit.close()
        self.store.close()
        if self.lock is not None:
            self.lock.close()


def _create_app(components: Components, settings: Settings, meter: Meter, on_demand: bool = False) -> App:
    """Create the application, with the dashboard if configured.

    Raises BadSetting, MissingLibrary.
    """
    access = create_access_control(
        settings, components.clock, components.self_auth, components.accounts, components.store
    )
    app = create_app(components, settings, meter, access, on_demand)
    if settings.ui:
        dashboard()(app, access, components.store, components.clock, settings)
    return app


def reader(settings: Settings, one_command: bool = False) -> Embedded:
    """Create the application without an engine, for reading.

    `one_command`: see `embedded`.
    """
    store, clock, meter = open_store(settings), Clock(), Meter()
    components = _components(settings, store, clock, meter, works=False)
    store.listen(replace(NO_LISTENERS, run_moved=_run_moved(components), committed=components.streams.wake))
    return Embedded(cache(partial(_create_app, components, settings, meter, one_command)), components, meter)


def api(settings: Settings, clock: Clock | None = None, hints: Hints | None = None) -> Embedded:
    """Create the application for engines in other processes.

    `hints` wake the engine of this server, if it has one. Raises BadSetting, MissingLibrary.
    """
    store, clock = open_store(settings), clock or Clock()
    check_keys(store, warns=hints is None)
    meter = metering(settings, store, clock, hints)
    components = _components(settings, store, clock, meter, hints=hints)
    dispatcher = _dispatcher(settings, store)
    listeners = _listeners(components, meter, dispatcher, ignore, ignore, hints)
    store.listen(listeners if hints is None else hints.for_engine(listeners))
    return Embedded(cache(partial(_create_app, components, settings, meter)), components, meter, dispatcher)


def embedded(
    settings: Settings,
    url: str | None = None,
    clock: Clock | None = None,
    one_command: bool = False,
    slots: Slots | None = None,
    due: Callable[[Components], None] = lambda _: None,
    hints: Hints | None = None,
) -> Embedded:
    """Start an engine in this process.

    Raises EngineBusy if the database has one, BadSetting.
    `hints` wake the event streams of this server's other processes. The supervisor of these holds the engine lock.
    `slots` run the actions; without them the engine has threads of its own. `due` is called once a second.
    `url` is the address of this server, which the lock tells to later processes; None without a server.
    With `one_command`, parts that most commands do without are created when they are first needed.
    """
    clock = clock or Clock()
    if settings.node_certificate or settings.node_authority:
        from heatlite.features.nodes.agents.client import Agents

        Agents(settings).check()
    store = open_store(settings)
    check_keys(store, warns=url is not None or hints is not None)
    meter = metering(settings, store, clock)
    try:
        lock = None if hints is not None else lock_engine(store, url)
    except EngineBusy:
        store.close()
        raise
    if store.database.path is not None:
        # This engine is the only one now, so no running action has an owner.
        with store.transaction():
            store.claims.expire_all(clock.now())
            store.webhooks.expire_all()
            store.orchestrations.expire_all()
            store.services.remove([engine.id for engine in store.services.list()])
    if hints is None:
        begin_simulation(settings, store.database.path)
    components = _components(settings, store, clock, meter)
    dispatcher = _dispatcher(settings, store)
    heal = partial(_heal_if_any, components) if one_command else components.of(Healing).loop.sweep
    if slots is None:
        slots = Slots(settings.engine_slots, lambda: dispatcher.claim_filter)
    sweeps = (components.maintenance.expire_locks, components.schedule.sweep, heal, partial(due, components))
    timer = Timer(clock, store.close)
    worker = Worker(
        store,
        components.engine_services,
        clock,
        settings,
        components.definitions,
        sweeps,
        meter,
        slots,
        timer,
    )
    sinks = WebhookDelivery(store, clock, settings.webhook_hosts, components.types.installation.event_sinks, timer)
    orchestrator = OnDemandOrchestrator(components, timer)
    store.listen(_listeners(components, meter, dispatcher, orchestrator.wake, worker.deliver, hints))
    worker.start()
    sinks.start()
    if not one_command or store.orchestrations.exist():
        orchestrator.wake()
    dispatcher.attach(worker)
    make_app = cache(partial(_create_app, components, settings, meter, one_command))
    return Embedded(make_app, components, meter, dispatcher, timer, worker, sinks, orchestrator, lock)


def _heal_if_any(components: Components) -> None:
    """Sweep, once there is an incident or a healing policy."""
    if components.store.of(HealingStore).incidents.exist():
        components.of(Healing).loop.sweep()


def _run_moved(components: Components) -> Moved:
    """Return the listener for runs of playbooks."""

    def moved(action: ActionRecord, after: ActionStatus, reason: str) -> None:
        from heatlite.features.nodes.operations import NodeOperations

        components.of(NodeOperations).ledger.run_moved(action, after, reason)

    return moved


def _listeners(
    components: Components,
    meter: Meter,
    dispatcher: Dispatcher,
    orchestration_due: Callable[[], None],
    message_stored: Callable[[str], None],
    hints: Hints | None,
) -> Listeners:
    """Return the listeners of a process that changes the database."""

    def committed() -> None:
        meter.committed()
        components.streams.wake()
        if hints is not None:
            hints.committed()

    return Listeners(
        action_announced=dispatcher.announce,
        action_moved=report_moves(meter),
        run_moved=_run_moved(components),
        orchestration_due=orchestration_due,
        message_stored=message_stored,
        committed=committed,
        database_unavailable=meter.database_unavailable,
    )


def _dispatcher(settings: Settings, store: Store) -> Dispatcher:
    """Create the dispatcher, which announces actions to workers.

    Raises BadSetting, MissingLibrary.
    """
    if settings.broker is None:
        dispatcher: Dispatcher = LocalDispatcher()
    else:
        dispatcher = distributed()(settings, settings.broker, store.stacks.name_of)
    return dispatcher


def dashboard() -> Callable[[App, AccessControl, Store, Clock, Settings], None]:
    """Return the function that mounts the dashboard. Raises MissingLibrary."""
    try:
        from heatlite.features.dashboard.app import mount
    except ImportError as error:
        raise MissingLibrary("The setting ui", error.name, "server") from error
    return mount


def distributed() -> "type[CeleryDispatcher]":
    """Return the dispatcher class for several processes. Raises MissingLibrary."""
    try:
        from heatlite.engine.dispatch.distributed import CeleryDispatcher
    except ImportError as error:
        raise MissingLibrary("The setting broker", error.name, "distributed") from error
    return CeleryDispatcher


def installed_types(settings: Settings) -> Registry:
    """Return the resource types, as the installation maps them.

    Raises BadEnvironmentFile, BadSetting.
    """
    installation = replace(
        read_installation(Path(settings.environment_dir)),
        regions=frozenset(endpoints(settings)),
        max_nested_stack_depth=settings.max_nested_stack_depth,
        cloud=settings.cloud or "",
    )
    return Registry(BUILTIN, installation)


def _components(
    settings: Settings,
    store: Store,
    clock: Clock,
    meter: Meter,
    works: bool = True,
    hints: Hints | None = None,
) -> Components:
    """Create all components.

    Without `works`, they only read, and need no valid cloud.
    """
    types = installed_types(settings)
    definitions = Definitions(store, types)
    public_url = settings.public_url or f"http://{settings.address}"
    software = Software(store, clock, settings)
    clouds = _clouds(settings, store.database.path, clock, works, store.credentials.of)
    stack_clouds = StackClouds(store, types, clouds)
    admission = Admission(store, clock, settings, stack_clouds)
    accounts = _accounts(settings, store, clouds) if works else None
    cipher = store.encryption.cipher
    self_auth = None if settings.auth is Auth.NONE or cipher is None else SelfAuth(cipher, clock)
    regions = Regions(endpoints(settings), public_url, self_auth)
    services = Services(
        StoredMailbox(store, clock),
        public_url,
        software,
        regions,
        settings.time_limit,
        settings.max_resources_per_stack,
        settings.client_retry_limit,
        clouds,
        accounts,
    )
    engine_services = EngineServices(
        types,
        clock.now,
        services,
        store,
        definitions,
        TemplateTypes(types),
        stack_clouds,
        accounts,
        settings.max_resource_data,
        settings.max_stack_data,
    )
    reader = StackReader(store, engine_services, definitions)
    containers = None
    if settings.files_containers is not None:
        folder = Path(settings.files_containers)
        containers = Folders(folder, settings.max_template_size, settings.max_json_body_size)
    offer = OfferedTypes(types, clouds)
    has_accounts = accounts is not None
    preparation = Preparation(store, types, settings, definitions, containers, clouds, offer, regions, has_accounts)
    schedule = Schedule(store, clock, settings, admission)
    max_duration = inf if settings.auth is Auth.NONE else MAX_DURATION
    streams = Streams(store, settings.max_event_streams, max_duration=max_duration, hints=hints)
    stacks = Stacks(
        store, clock, settings, definitions, preparation, admission, reader, schedule, clouds, stack_clouds
    )
    return Components(
        store=store,
        clock=clock,
        settings=settings,
        meter=meter,
        types=types,
        definitions=definitions,
        admission=admission,
        preparation=preparation,
        offer=offer,
        engine_services=engine_services,
        reader=reader,
        schedule=schedule,
        stacks=stacks,
        software=software,
        streams=streams,
        self_auth=self_auth,
        accounts=accounts,
        has_engine=_has_engine(hints),
    )


def _has_engine(hints: Hints | None) -> Callable[[], bool]:
    return (lambda: True) if hints is None else hints.has_engine


def _clouds(
    settings: Settings,
    database: Path | None,
    clock: Clock,
    opens: bool,
    credential_of: Callable[[str], JsonMap | None] = lambda _: None,
) -> Clouds:
    """Create the clouds for resources. `database` is the SQLite file or None.

    Raises BadSetting, MissingLibrary.
    """
    if settings.cloud is None:
        return Clouds(None, clock.now)
    if settings.cloud != SIMULATED:
        from heatlite.clients.connection import Connections
        from heatlite.clients.trusts import Trusts

        connections = Connections(settings.cloud, settings.cloud_timeout)
        if opens:
            connections.open()
        # With Keystone tokens, stacks act on behalf of their users through trusts.
        trusts = Trusts(connections) if settings.auth is Auth.KEYSTONE else None
        return Clouds(settings.cloud, clock.now, connections.of, trusts, credential_of)
    from heatlite.features.simulator.services import simulate

    scenario = check_simulation(settings, database)
    assert database is not None
    return Clouds(SIMULATED, clock.now, simulate(scenario, clock, _simulated(database)).view)


def check_simulation(settings: Settings, database: Path | None) -> "Scenario":
    """Return the behaviour of the simulated cloud. `database` is as for `_clouds`.

    Raises BadSetting.
    """
    if database is None:
        raise BadSetting("cloud: the simulated cloud needs a SQLite database; a database server needs a real cloud.")
    from heatlite.features.simulator.scenario import read_scenario
    from heatlite.features.simulator.simulation import Scenario

    return read_scenario(Path(settings.simulation)) if settings.simulation is not None else Scenario()


def begin_simulation(settings: Settings, database: Path | None) -> None:
    """Let the faults of a simulated cloud begin anew. `database`: see `_clouds`."""
    if settings.cloud == SIMULATED and database is not None:
        from heatlite.features.simulator import simulation

        simulation.begin(_simulated(database))


@contextmanager
def asking(settings: Settings, project: str) -> Iterator[Registry]:
    """Yield the types.

    Within the context, templates are checked against the configured cloud.
    The checks cover names of objects and required services. Raises BadSetting, MissingLibrary.
    """
    types = installed_types(settings)
    clouds = _clouds(settings, _file(settings) if settings.cloud == SIMULATED else None, Clock(), opens=True)
    with looked_up(clouds.of(project).missing):
        yield types.offering(OfferedTypes(types, clouds).availability(project))


def stack_domain(settings: Settings) -> tuple[str, str, str] | None:
    """Return the domain of agents' accounts, its administrator and the password.

    None: there is none. Raises BadSetting.
    """
    domain = settings.stack_user_domain_id or settings.stack_user_domain_name
    admin, password = settings.stack_domain_admin, settings.stack_domain_admin_password
    if domain is None and admin is None and password is None:
        return None
    if domain is None or admin is None or password is None:
        raise BadSetting(
            "A stack domain needs stack_user_domain_name or stack_user_domain_id, stack_domain_admin and"
            " stack_domain_admin_password."
        )
    if settings.auth is not Auth.KEYSTONE or settings.cloud is None:
        raise BadSetting("stack_user_domain_name and stack_user_domain_id need auth = keystone, and a cloud.")
    return domain, admin, password


def _accounts(settings: Settings, store: Store, clouds: Clouds) -> Accounts | None:
    """Create the accounts of agents; None without a stack domain. Raises BadSetting."""
    found = stack_domain(settings)
    if found is None or settings.cloud is None:
        return None
    domain, admin, password = found
    if store.encryption.cipher is None:
        raise BadSetting(f"A stack domain stores secrets. {NO_CIPHER}")
    from heatlite.clients.connection import Connections
    from heatlite.clients.stack_domain import StackDomain, administered, as_agent

    keystone = settings.keystone
    auth_url = keystone.get("www_authenticate_uri") or keystone.get("auth_url", "")
    if settings.cloud == SIMULATED:
        from heatlite.features.simulator.simulation import ADMIN

        return Accounts(
            store,
            StackDomain(
                lambda: clouds.of(ADMIN).cloud, lambda *user: clouds.of(user[-1]).cloud, domain, auth_url, None
            ),
        )
    connections = Connections(settings.cloud, settings.cloud_timeout)
    key = "id" if settings.stack_user_domain_id else "name"
    connect = partial(administered, connections, admin, password, {key: domain})
    return Accounts(store, StackDomain(connect, partial(as_agent, connections), domain, auth_url, connections.region))


def _simulated(database: Path) -> Path:
    """Return the file of the simulated cloud for a database."""
    return database.with_suffix(".cloud")


def simulated_objects(settings: Settings, project: str) -> dict[str, int]:
    """Count the objects of a project in the simulated cloud by kind.

    Kinds without objects have 0.
    """
    path = _file(settings)
    from heatlite.features.simulator.services import OBJECTS
    from heatlite.features.simulator.simulation import count

    return {} if path is None else {**dict.fromkeys(OBJECTS, 0), **count(_simulated(path), project)}


def _file(settings: Settings) -> Path | None:
    """Return the file of a SQLite database, or None."""
    store = Store.open(settings.database)
    store.close()
    return store.database.path


def metering(settings: Settings, store: Store, clock: Clock, hints: Hints | None = None) -> Meter:
    """Return the meter of this process. Raises MissingLibrary."""
    meter = Meter()
    if settings.metrics:
        try:
            from heatlite.metrics import Metrics
        except ImportError as error:
            raise MissingLibrary("The setting metrics", error.name, "server") from error
        meter = Metrics(store, clock, _has_engine(hints))
    return meter
