"""Builds the server's object graph, with `api/components.py`."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from heatlite.api.middleware import CHANGES, CREATES, OPERATIONS
from heatlite.api.routes import App, Routes
from heatlite.clients.clouds import CloudProvider, Clouds, DomainAdmin
from heatlite.core.actions.decisions import Decision
from heatlite.core.clock import Clock
from heatlite.core.config import SIMULATED, Auth, BadSetting, Settings
from heatlite.core.errors import Conflict
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.core.runtime.meter import Meter
from heatlite.core.runtime.timer import Timer
from heatlite.core.status import ENDED_ACTIONS, ActionStatus
from heatlite.core.wire.why import WayOut
from heatlite.engine.admission.admission import Admission
from heatlite.engine.admission.base import Parts
from heatlite.engine.admission.claims import Examiner, NewDefinition
from heatlite.engine.admission.inputs import Supplier
from heatlite.engine.admission.offered_types import OfferedTypes
from heatlite.engine.admission.preparation import Preparation
from heatlite.engine.dispatch import Dispatcher
from heatlite.engine.dispatch.hints import Hint, Hints
from heatlite.engine.dispatch.slots import Slots
from heatlite.engine.execution.action_log import report_moves
from heatlite.engine.execution.worker import Worker
from heatlite.engine.operations.scheduled_actions import ScheduledActions
from heatlite.engine.operations.software_configs import Software
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.outbound.file_containers import Folders
from heatlite.engine.outbound.regions import Regions, endpoints
from heatlite.engine.outbound.self_auth import SelfAuth
from heatlite.engine.outbound.webhooks import WebhookDelivery
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.guarding import Guarding
from heatlite.engine.state.recorded_clouds import StackClouds
from heatlite.engine.types.agent_accounts import Accounts
from heatlite.engine.types.mailbox import StoredMailbox
from heatlite.engine.types.outputs import StackReader
from heatlite.engine.types.resource_factory import EngineServices
from heatlite.engine.types.template_types import TemplateTypes
from heatlite.feature import Work, active, finders, installation, of_inactive, off, registry, stating
from heatlite.plugin.ports import Services
from heatlite.plugin.registry import Registry
from heatlite.store.database.backend import backend_of
from heatlite.store.database.engine_lock import EngineLock
from heatlite.store.listeners import NO_LISTENERS, Listeners, Moved, ignore
from heatlite.store.records import ActionRecord
from heatlite.store.store import Store
from heatlite.template.parameters.constraints import looked_up

if TYPE_CHECKING:
    from heatlite.engine.dispatch.distributed import CeleryDispatcher
    from heatlite.engine.operations.membership.member_moves import MemberMoves
    from heatlite.engine.state.requests import StackAction
    from heatlite.engine.why.reading import More

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
    works: Mapping[str, Work] = {}
    """By feature."""
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
        elif hint is Hint.WORK and about in self.works:
            self.works[about].wake()

    def close(self) -> None:
        """Release unfinished actions, and close the database."""
        if self.dispatcher is not None:
            self.dispatcher.worker = None
        for work in self.works.values():
            work.stop()
        if self.worker is not None:
            self.worker.stop()
        if self.sinks is not None:
            self.sinks.stop()
        if self.timer is not None:
            self.timer.stop()
        if self.dispatcher is not None:
            self.dispatcher.close()
        self.components.streams.close()
        self.store.late_writes.end()
        self.store.close()
        if self.lock is not None:
            self.lock.close()


def _create_app(components: Components, on_demand: bool = False) -> App:
    """Create the application. Raises BadSetting, MissingLibrary."""
    features = active(components.settings)

    def add_features(routes: Routes) -> None:
        for one in features:
            one.add_routes(routes, components)

    options: dict[str, dict[str, Sequence[str]]] = {}
    for one in features:
        for some, given in ((OPERATIONS, one.options), (CHANGES, one.change_options), (CREATES, one.create_options)):
            for rule in some:
                options.setdefault(rule, {}).update(given)
    return create_app(components, add_features, off(components.settings), options, on_demand)


def rules(settings: Settings) -> Mapping[str, frozenset[str]]:
    """Return the rules of the features that are on, with the roles that may."""
    return {rule: roles for one in active(settings) for rule, roles in one.rules().items()}


def rules_off(settings: Settings) -> list[str]:
    """Return the rules of the features that are off. Imports their statements."""
    return of_inactive(settings, lambda one: one.rules())


def reader(settings: Settings, one_command: bool = False) -> Embedded:
    """Create the application without an engine, for reading.

    `one_command`: see `embedded`.
    """
    store, clock, meter = open_store(settings), Clock(), Meter()
    components = _components(settings, store, clock, meter, works=False)
    listeners = replace(
        NO_LISTENERS,
        action_moves=_action_moves(components),
        decided=_decided(components),
        committed=components.streams.wake,
    )
    store.listen(listeners)
    return Embedded(cache(partial(_create_app, components, one_command)), components, meter)


def api(settings: Settings, clock: Clock | None = None, hints: Hints | None = None) -> Embedded:
    """Create the application for engines in other processes.

    `hints` wake the engine of this server, if it has one. Raises BadSetting, MissingLibrary.
    """
    store, clock = open_store(settings), clock or Clock()
    check_keys(store, warns=hints is None)
    meter = metering(settings, store, clock, hints)
    components = _components(settings, store, clock, meter, hints=hints)
    dispatcher, timer = _dispatcher(settings, store), Timer(clock, store.close)
    store.late_writes.use(timer)
    listeners = _listeners(components, meter, dispatcher, ignore, ignore, hints)
    store.listen(listeners if hints is None else hints.for_engine(listeners))
    return Embedded(cache(partial(_create_app, components)), components, meter, dispatcher, timer)


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
    clock, features = clock or Clock(), active(settings)
    for one in features:
        one.check_engine(settings)
    store = open_store(settings)
    check_keys(store, url is not None or hints is not None, not one_command or bool(settings.encryption_keys))
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
            for kept in store.features:
                kept.engine_started()
            store.services.remove([engine.id for engine in store.services.list()])
    components = _components(settings, store, clock, meter, begins=hints is None)
    dispatcher = _dispatcher(settings, store)
    others = [sweep for one in features for sweep in one.sweeps(components, one_command)]
    if slots is None:
        slots = Slots(settings.engine_slots, lambda: dispatcher.claim_filter)
    sweeps: tuple[Callable[[], None], ...] = (
        components.maintenance.expire_locks,
        components.scheduled_actions.sweep,
        components.scheduled_actions.sweep_requests,
        *others,
        partial(due, components),
    )
    timer = Timer(clock, store.close)
    store.late_writes.use(timer)
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
        cache(partial(_guarding, components)),
    )
    sinks = WebhookDelivery(store, clock, settings.webhook_hosts, components.types.installation.event_sinks, timer)
    found = ((one.name, one.work(components, timer)) for one in features)
    works = {name: work for name, work in found if work is not None}

    def work_due(feature: str) -> None:
        if feature in works:
            works[feature].wake()

    store.listen(_listeners(components, meter, dispatcher, work_due, worker.deliver, hints))
    worker.start()
    sinks.start()
    for work in works.values():
        work.start(one_command)
    dispatcher.worker = worker
    make_app = cache(partial(_create_app, components, one_command))
    return Embedded(make_app, components, meter, dispatcher, timer, worker, sinks, works, lock)


def _guarding(components: Components) -> Guarding | None:
    """Return the part of the feature that guards updates, if it is on."""
    found = (one.guarding(components) for one in active(components.settings))
    return next((one for one in found if one is not None), None)


def _action_moves(components: Components) -> Moved:
    """Return the listener that lets features take part in moves of actions.

    With the end of an action that has waited for them, members leave their group.
    """
    taking_part = [one.action_moves for one in stating(active(components.settings), "action_moves")]

    def moves(action: ActionRecord, after: ActionStatus, reason: str) -> None:
        if action.data.state_before is not None and after in ENDED_ACTIONS:
            components.leaving.complete(action, after is ActionStatus.SUCCEEDED)
        for take_part in taking_part:
            take_part(components, action, after, reason)

    return moves


def _decided(components: Components) -> Callable[[Decision], None]:
    """Return the listener that tells features of decisions about work of others."""
    features = active(components.settings)

    def decided(decision: Decision) -> None:
        for one in features:
            one.decided(components, decision)

    return decided


def _listeners(
    components: Components,
    meter: Meter,
    dispatcher: Dispatcher,
    work_due: Callable[[str], None],
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
        action_moves=_action_moves(components),
        decided=_decided(components),
        work_due=work_due,
        message_stored=message_stored,
        committed=committed,
        database_unavailable=meter.database_unavailable,
    )


def _dispatcher(settings: Settings, store: Store) -> Dispatcher:
    """Create the dispatcher, which announces actions to workers.

    Raises BadSetting, MissingLibrary.
    """
    if settings.broker is None:
        return Dispatcher()
    return distributed()(settings, settings.broker, store.stacks.name_of)


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
    types = replace(
        installation(settings),
        regions=frozenset(endpoints(settings)),
        max_nested_stack_depth=settings.max_nested_stack_depth,
        max_resources_per_stack=settings.max_resources_per_stack,
        cloud=settings.cloud or "",
    )
    return registry(settings, types)


def _components(
    settings: Settings,
    store: Store,
    clock: Clock,
    meter: Meter,
    works: bool = True,
    begins: bool = False,
    hints: Hints | None = None,
) -> Components:
    """Create all components.

    Without `works`, they only read, and need no valid cloud. `begins`: a run of an engine begins with them.
    """
    types, features = installed_types(settings), active(settings)
    definitions = Definitions(store, types)
    public_url = settings.public_url or f"http://{settings.address}"
    software = Software(store, clock, settings)
    provider = cloud_provider(settings, store.database.path)
    if provider is not None and begins:
        provider.begin()
    if provider is not None and works:
        provider.open()
    clouds = Clouds(None, clock.now)
    if provider is not None:
        clouds = provider.clouds(clock, store.credentials.of, finders(settings))
    stack_clouds = StackClouds(store, types, clouds, definitions)

    @cache
    def examiners() -> Sequence[Examiner]:
        found = (one.examiner(components) for one in features)
        return [one for one in found if one is not None]

    @cache
    def facts() -> "Sequence[More]":
        return [partial(one.why, components) for one in features]

    @cache
    def stack_actions() -> "Mapping[str, StackAction]":
        return {key: action for one in features for key, action in one.stack_actions(components).items()}

    @cache
    def member_moves() -> "MemberMoves | None":
        return next((one for one in (each.member_moves(components) for each in features) if one is not None), None)

    def ways_out(error: Conflict) -> Sequence[WayOut]:
        return [way for one in features for way in one.ways_out(error)]

    taking_part = [one.defined for one in stating(features, "defined")]

    def defined(definition: NewDefinition) -> None:
        for take_part in taking_part:
            take_part(components, definition)

    guarding = cache(lambda: _guarding(components))
    admission = Admission(store, clock, settings, stack_clouds, examiners, defined, guarding)
    accounts = _accounts(settings, store, provider, clouds) if works else None
    cipher = None if settings.auth is Auth.NONE else store.encryption.cipher
    self_auth = None if cipher is None else SelfAuth(cipher, clock)
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

    @cache
    def suppliers() -> Sequence[Supplier]:
        found = (one.supplier(components) for one in features)
        return [one for one in found if one is not None]

    preparation = Preparation(
        store, types, settings, definitions, containers, clouds, offer, regions, has_accounts, suppliers
    )
    scheduled_actions = ScheduledActions(
        store,
        clock,
        settings,
        admission,
        lambda action, stack: components.scheduled.begin(action, stack),
        lambda author, stack: components.author_now(author, stack),
    )
    max_duration = inf if settings.auth is Auth.NONE else MAX_DURATION
    streams = Streams(store, settings.max_event_streams, max_duration=max_duration, hints=hints)
    parts = Parts(store, clock, settings, definitions, admission, reader)
    stacks = Stacks(parts, preparation, scheduled_actions, clouds, stack_clouds)

    @cache
    def access() -> AccessControl:
        others = [kind for one in features for kind in one.credentials(store, clock)]
        of_features, of_others = rules(settings), partial(rules_off, settings)
        return create_access_control(settings, clock, of_features, self_auth, accounts, others, of_others)

    components = Components(
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
        scheduled_actions=scheduled_actions,
        stacks=stacks,
        software=software,
        streams=streams,
        self_auth=self_auth,
        accounts=accounts,
        access=access,
        has_engine=_has_engine(hints),
        further=[one.body for one in features if one.body is not None],
        facts=facts,
        stack_actions=stack_actions,
        member_moves=member_moves,
        ways_out=ways_out,
    )
    return components


def _has_engine(hints: Hints | None) -> Callable[[], bool]:
    return (lambda: True) if hints is None else hints.has_engine


def cloud_provider(settings: Settings, database: Path | None) -> CloudProvider | None:
    """Return the cloud that the settings name, if any.

    `database` is the SQLite file, None for a server. Raises BadSetting.
    """
    if settings.cloud is None:
        return None
    for feature in active(settings):
        found = feature.cloud(settings, database)
        if found is not None:
            return found
    if settings.cloud == SIMULATED:
        raise BadSetting(f"cloud: the simulated cloud is not there. Features that are off: {', '.join(off(settings))}.")
    from heatlite.clients.openstack_cloud import OpenStackCloud

    tables = (one.rest() for one in active(settings))
    return OpenStackCloud(settings.cloud, settings, [one for one in tables if one is not None])


@contextmanager
def asking(settings: Settings, project: str) -> Iterator[Registry]:
    """Yield the types.

    Within the context, templates are checked against the configured cloud.
    The checks cover names of objects and required services. Raises BadSetting, MissingLibrary.
    """
    types = installed_types(settings)
    provider = cloud_provider(settings, backend_of(settings.database).path)
    clock = Clock()
    clouds = Clouds(None, clock.now)
    if provider is not None:
        clouds = provider.clouds(clock, lambda _: None, finders(settings))
    with looked_up(clouds.of(project).missing):
        yield types.offering(OfferedTypes(types, clouds).availability(project))


def stack_domain(settings: Settings) -> DomainAdmin | None:
    """Return the administrator of the domain of agents' accounts.

    None: there is no domain. Raises BadSetting.
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
    auth_url = settings.keystone.get("www_authenticate_uri") or settings.keystone.get("auth_url", "")
    return DomainAdmin("id" if settings.stack_user_domain_id else "name", domain, admin, password, auth_url)


def _accounts(settings: Settings, store: Store, provider: CloudProvider | None, clouds: Clouds) -> Accounts | None:
    """Create the accounts of agents; None without a stack domain. Raises BadSetting."""
    admin = stack_domain(settings)
    if admin is None or provider is None:
        return None
    if store.encryption.cipher is None:
        raise BadSetting(f"A stack domain stores secrets. {NO_CIPHER}")
    return Accounts(store, provider.stack_domain(clouds, admin))


def metering(settings: Settings, store: Store, clock: Clock, hints: Hints | None = None) -> Meter:
    """Return the meter of this process. Raises MissingLibrary."""
    meter = Meter()
    if settings.metrics:
        try:
            from heatlite.api.metrics import ProcessMetrics
        except ImportError as error:
            raise MissingLibrary("The setting metrics", error.name, "server") from error
        meter = ProcessMetrics(store, clock, _has_engine(hints))
    return meter
