"""The store: the database behind one attribute for each kind of row."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import peewee

from heatlite.core.differences import Differences
from heatlite.core.errors import DatabaseUnavailable, DatabaseUnusable
from heatlite.core.json import JsonMap
from heatlite.store.actions.actions import Actions
from heatlite.store.actions.claims import Claims
from heatlite.store.actions.controls import Controls
from heatlite.store.actions.dependencies import Dependencies
from heatlite.store.actions.listing import ActionList
from heatlite.store.actions.moves import Moves
from heatlite.store.actions.queue import ActionQueue
from heatlite.store.actions.services import Services
from heatlite.store.actions.table import ActionTable
from heatlite.store.admin import migrate
from heatlite.store.audit import AuditLog
from heatlite.store.counts import Counts
from heatlite.store.database import engine_lock
from heatlite.store.database.database import Database
from heatlite.store.database.ownership import give_to_owner
from heatlite.store.feature_store import (
    FeatureStore,
    Moved,
    ObjectNews,
    Series,
    StackFilter,
    merged,
    present,
    series_of,
)
from heatlite.store.listeners import Listeners
from heatlite.store.records import EventRecord, HealthNote, StackRecord
from heatlite.store.secrets.access_keys import AccessKeys
from heatlite.store.secrets.accounts import Accounts
from heatlite.store.secrets.credentials import Credentials
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.stacks.adoptions import Adoptions
from heatlite.store.stacks.events import Events
from heatlite.store.stacks.messages import Messages
from heatlite.store.stacks.overview import Overview
from heatlite.store.stacks.resources import Resources
from heatlite.store.stacks.sizes import StackSizes
from heatlite.store.stacks.snapshots import Snapshots
from heatlite.store.stacks.software import SoftwareConfigs, SoftwareDeployments
from heatlite.store.stacks.stacks import Stacks
from heatlite.store.stacks.suppressed import SuppressedRequests
from heatlite.store.stacks.templates import Templates, holders_of
from heatlite.store.stacks.tree_health import TreeHealth
from heatlite.store.stacks.webhooks import Webhooks
from heatlite.store.writes.large_values import LargeValues, ProjectValues
from heatlite.store.writes.late_writes import LateWrites
from heatlite.store.writes.limit_locks import LimitLocks

if TYPE_CHECKING:
    from heatlite.store.admin.consistency import Inconsistency
    from heatlite.store.admin.rotation import RotationResult

log = logging.getLogger(__name__)

LOST = (
    "The database has tables of features that this program cannot read: %s. Their rows are left as they are, with all"
    " large values and templates; a rotation of keys leaves them out. Install the features so that they can be loaded,"
    " and run `heatlite db upgrade`."
)

T = TypeVar("T", bound=FeatureStore)
Kinds: TypeAlias = Callable[[], Sequence[type[FeatureStore]]]


class Store:
    """All persistent state of heatlite.

    A method of an attribute is one query, or takes part in this thread's open transaction. Rows change in transactions
    only. If the database is unreachable, locked or full, methods raise DatabaseUnavailable and write nothing.
    """

    def __init__(self, database: Database, keys: Sequence[str] = (), off: Kinds = lambda: ()) -> None:
        self.database = database
        self._off = off
        self._stores_off: Sequence[FeatureStore] | None = None
        self.encryption = encryption = FieldEncryption(database, keys, self._tables_off)
        self.limit_locks = LimitLocks(database)
        self.templates = Templates(encryption, self._template_holders, self.features_lost)
        self.large_values = LargeValues(encryption, self._tree_holders, self.features_lost)
        self.project_values = ProjectValues(encryption, self._holders, self.features_lost)
        self.features = features = list[FeatureStore]()
        """The stores of features in use, see `of`."""
        self.stacks = Stacks(encryption, self.large_values, features, self.stores_off)
        self.resources = Resources(encryption, self.large_values, features)
        self.events = Events(encryption, self.large_values)
        self.overview = Overview(database, features)
        self.action_list = ActionList(encryption)
        self.snapshots = Snapshots(encryption)
        self.suppressed = SuppressedRequests(encryption)
        self.services = Services(database)
        self.messages = Messages(encryption)
        self.adoptions = Adoptions(database)
        self.webhooks = Webhooks(database)
        self.software_configs = SoftwareConfigs(encryption, self.project_values)
        self.software_deployments = SoftwareDeployments(encryption, self.project_values)
        self.credentials = Credentials(encryption)
        actions = ActionTable(encryption)
        self.actions = Actions(actions, features, self.stores_off)
        self.dependencies = Dependencies(encryption, actions, features)
        self.queue = ActionQueue(actions, self.dependencies)
        self.moves = Moves(actions, self.dependencies, self.queue, self.wake_tree)
        self.controls = Controls(actions, self.moves)
        self.claims = Claims(actions)
        self.accounts = Accounts(encryption)
        self.access_keys = AccessKeys(encryption)
        self.stack_sizes = StackSizes(database)
        self.tree_health = TreeHealth(database, features)
        self.counts = Counts(database)
        self.late_writes = LateWrites()
        self.audit = AuditLog(encryption, self.late_writes)
        self.migrations: Sequence[migrate.MigrationScript] = ()
        """State of the migrations when the store was opened."""

    @classmethod
    def open(
        cls,
        url: str,
        keys: Sequence[str] = (),
        lease: float | None = None,
        features: Sequence[type[FeatureStore]] = (),
        off: Kinds = lambda: (),
    ) -> "Store":
        """Open the store at ``sqlite:///path``, ``postgresql://…`` or ``mysql://…``.

        Its tables may not exist yet. `keys` is the setting `encryption_keys`, checked on first use. `lease` is the
        lease of the workers in seconds; time limits for a server derive from it (None: no limits). The stores of
        `features` are in use at once; `off` returns those of features that are off, see `stores_off`. A missing SQLite
        file is created with its folder, both readable by their owner only. Raises BadSetting for another URL,
        MissingLibrary, SchemaMismatch if a newer heatlite has changed the tables, DatabaseUnavailable.
        """
        database = Database(url, lease)
        if database.path is not None:
            try:
                database.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not database.path.exists():
                    database.path.touch(mode=0o600)  # SQLite gives the files beside it the same mode
                    give_to_owner(database.path, database.path.parent)
            except OSError as error:
                raise DatabaseUnusable(path=database.path, reason=str(error), way="Correct that") from error
        with ExitStack() as undo:
            undo.callback(database.close)
            found = migrate.check_known(database, series_of(features))
            undo.pop_all()
        store = cls(database, keys, off)
        store.migrations = found
        for kind in features:
            store.of(kind)
        return store

    def of(self, kind: type[T]) -> T:
        """Return the store of a feature. It is in use from the first call on."""
        for one in self.features:
            if isinstance(one, kind):
                return one
        made = kind(self.encryption, self.project_values)
        self.features.append(made)
        self.encryption.add_tables(kind.tables)
        return made

    def stores_off(self) -> Sequence[FeatureStore]:
        """Return the stores of features that are off, if their tables are there.

        They have to be as this program knows them, see `features_lost`. The first call imports the stores. Their rows
        go with stacks, and keep secrets and large values.
        """
        if self._stores_off is None:
            kinds = migrate.whole(self.database, present(self.database, self._off()))
            self._stores_off = [kind(self.encryption, self.project_values) for kind in kinds]
            if self.features_lost():
                log.warning(LOST, ", ".join(self.features_lost()))
        return self._stores_off

    def features_lost(self) -> Sequence[str]:
        """Return the features with tables that this program cannot read.

        Nothing is done to their rows.
        """
        return migrate.lost(self.database, series_of((*self.features, *self.stores_off())))

    def _tables_off(self) -> list[type[peewee.Model]]:
        return [model for one in self.stores_off() for model in one.tables]

    def _holders(self) -> list[type[peewee.Model]]:
        return [model for one in (*self.features, *self.stores_off()) for model in one.holders]

    def _template_holders(self) -> list[type[peewee.Model]]:
        return holders_of(model for one in (*self.features, *self.stores_off()) for model in one.tables)

    def _tree_holders(self) -> list[type[peewee.Model]]:
        return [model for one in (*self.features, *self.stores_off()) for model in one.tree_holders]

    @property
    def listeners(self) -> Listeners:
        """The listeners in use."""
        return self.database.listeners

    def listen(self, listeners: Listeners) -> None:
        """Make all further calls to `listeners`, in place of those given before."""
        self.database.listeners = listeners

    def transaction(self) -> AbstractContextManager[None]:
        """Open a transaction, see `Database.transaction`."""
        return self.database.transaction()

    def wake_tree(self, root_id: str, now: float) -> None:
        """Wake all that waits for a change of a tree."""
        for one in self.features:
            one.tree_changed(root_id, now)

    def tree_checked(self, root_id: str, now: float) -> None:
        """Wake all that looks at what a check of a tree has found."""
        for one in self.features:
            one.tree_checked(root_id, now)

    def resource_marked(self, root_id: str, is_unhealthy: bool, now: float) -> None:
        """Wake all that looks at the marks of a tree."""
        for one in self.features:
            one.resource_marked(root_id, is_unhealthy, now)

    def move_resources(self, moved: Moved) -> None:
        """Change the places of resources in all rows.

        In a transaction that holds their stacks. Rows of resources that go to another stack are saved afterwards.
        """
        moved.change_root(self.database, "stack", stack="id")
        for table in ("stack_size", "action", "suppressed"):
            moved.change_root(self.database, table)
        moved.rename(self.database, "resource", "name")
        if moved.source == moved.target:
            moved.rename(self.database, "stack", "parent_resource", stack="parent_id")
        self.events.move(moved)
        moved.rename(self.database, "account", "resource_name", root="root_id")
        for one in (*self.features, *self.stores_off()):
            one.resources_moved(moved)

    def objects_seen(self, news: ObjectNews) -> list[EventRecord]:
        """Tell features facts about objects. Returns the events of what follows from them."""
        return [event for one in self.features for event in one.objects_seen(news)] if news else []

    def differences(self, project: str, root_id: str, stack_id: str) -> dict[str, Differences]:
        """Return what features know to differ in the objects of a stack, by row."""
        return {key: some for one in self.features for key, some in one.differences(project, root_id, stack_id).items()}

    def held_resources(self, resource_ids: Sequence[str]) -> dict[str, str]:
        """Return why features keep resources where they are, by id."""
        found: dict[str, str] = {}
        for one in self.features:
            found.update(one.held(resource_ids))
        return found

    def health_of(self, resource_ids: Sequence[str]) -> list[HealthNote]:
        """Return the notes of features on the health of resources."""
        return [note for one in self.features for note in one.health_of(resource_ids)]

    def health_in(self, root_id: str) -> list[HealthNote]:
        """Return the notes of features on the health of a tree's resources."""
        return [note for one in self.features for note in one.health_in(root_id)]

    @property
    def stack_filters(self) -> Mapping[str, StackFilter]:
        """The filters of features for lists of stacks, by the key of the query."""
        return {key: found for one in self.features for key, found in one.stack_filters.items()}

    def resource_facts(self, resource_ids: Sequence[str]) -> Mapping[str, JsonMap]:
        """Return the keys that features add to resources, by id."""
        # Most features have none, and each look at a resource asks.
        stating = [one for one in self.features if type(one).resource_facts is not FeatureStore.resource_facts]
        return merged([one.resource_facts(resource_ids) for one in stating])

    def close(self) -> None:
        """Close this thread's connection; the next use opens another."""
        self.database.close()

    def upgrade(self) -> list[str]:
        """Apply the missing migrations and return their names."""
        return migrate.upgrade(self.database, self._series())

    def status(self) -> list[migrate.MigrationScript]:
        """Return the migrations, applied or not.

        These are those of the core, of features in use, and of features that are off but have tables.
        """
        return migrate.status(self.database, self._series())

    def _series(self) -> list[Series]:
        begun = migrate.begun(self.database, series_of(self._off()))
        return [*dict.fromkeys((*series_of(self.features), *begun))]

    def reencrypt(self) -> "RotationResult":
        """Encrypt all secrets with the first key, and wipe the old ones.

        Needs a key.
        """
        from heatlite.store.admin.rotation import rotate

        done = rotate(self.encryption)
        done.lost = tuple(self.features_lost())
        try:
            done.wiped = self.database.backend.wipe(self.database)
        except DatabaseUnavailable:
            done.wiped = False
        return done

    def seal_tree(self, stack: StackRecord) -> None:
        """Seal the tree of a stack, see `rotation.seal_tree`."""
        from heatlite.store.admin.rotation import seal_tree

        seal_tree(self.encryption, stack.root_id or stack.id)

    def inconsistencies(self, now: float, grace: float) -> "list[Inconsistency]":
        """Return the rows that break a rule, see `consistency.inconsistencies`."""
        from heatlite.store.admin.consistency import Inconsistency, inconsistencies

        missing = [
            Inconsistency("a row has its large values", owners, owner, part_id)
            for owners, values in (("stack", self.large_values), ("project", self.project_values))
            for owner, part_id in values.missing()
        ]
        return inconsistencies(self.database, now, grace, self.features, self.stores_off()) + missing

    def lock_engine(self, info: JsonMap) -> engine_lock.EngineLock | None:
        """Take the engine lock of a SQLite database; None on a server.

        Raises EngineRunning.
        """
        if self.database.path is None:
            return None
        return engine_lock.acquire(self.database.path, info)
