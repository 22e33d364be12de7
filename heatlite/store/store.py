"""The store: the database behind one attribute for each kind of row."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, TypeVar

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
from heatlite.store.feature_store import FeatureStore
from heatlite.store.large_values import LargeValues, ProjectValues
from heatlite.store.limit_locks import LimitLocks
from heatlite.store.listeners import Listeners
from heatlite.store.records import HealthNote, StackRecord
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
from heatlite.store.stacks.templates import Templates
from heatlite.store.stacks.tree_health import TreeHealth
from heatlite.store.stacks.webhooks import Webhooks

if TYPE_CHECKING:
    from heatlite.store.admin.consistency import Inconsistency
    from heatlite.store.admin.rotation import RotationResult

T = TypeVar("T", bound=FeatureStore)


class Store:
    """All persistent state of heatlite.

    A method of an attribute is one query, or takes part in this thread's open transaction. Rows change in transactions
    only. If the database is unreachable, locked or full, methods raise DatabaseUnavailable and write nothing.
    """

    def __init__(self, database: Database, keys: Sequence[str] = ()) -> None:
        self.database = database
        self.encryption = encryption = FieldEncryption(database, keys)
        self.limit_locks = LimitLocks(database)
        self.templates = Templates(encryption)
        self.large_values = LargeValues(encryption)
        self.project_values = ProjectValues(encryption)
        self.features = features = list[FeatureStore]()
        """The stores of features in use, see `of`."""
        self.stacks = Stacks(encryption, self.large_values, features)
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
        self.actions = Actions(actions)
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
        self.audit = AuditLog(encryption)
        self.migrations: Sequence[migrate.Migration] = ()
        """State of the migrations when the store was opened."""

    @classmethod
    def open(cls, url: str, keys: Sequence[str] = (), lease: float | None = None) -> "Store":
        """Open the store at ``sqlite:///path``, ``postgresql://…`` or ``mysql://…``.

        Its tables may not exist yet. `keys` is the setting `encryption_keys`, checked on first use. `lease` is the
        lease of the workers in seconds; time limits for a server derive from it (None: no limits). A missing SQLite
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
            found = migrate.check_known(database)
            undo.pop_all()
        store = cls(database, keys)
        store.migrations = found
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

    def resource_marked(self, root_id: str, is_unhealthy: bool, now: float) -> None:
        """Wake all that looks at the marks of a tree."""
        for one in self.features:
            one.resource_marked(root_id, is_unhealthy, now)

    def health_of(self, resource_ids: Sequence[str]) -> list[HealthNote]:
        """Return the notes of features on the health of resources."""
        return [note for one in self.features for note in one.health_of(resource_ids)]

    def health_in(self, root_id: str) -> list[HealthNote]:
        """Return the notes of features on the health of a tree's resources."""
        return [note for one in self.features for note in one.health_in(root_id)]

    def close(self) -> None:
        """Close this thread's connection; the next use opens another."""
        self.database.close()

    def upgrade(self) -> list[str]:
        """Apply the missing migrations and return their names."""
        return migrate.upgrade(self.database)

    def status(self) -> list[migrate.Migration]:
        """Return all migrations, applied or not."""
        return migrate.status(self.database)

    def rotate_keys(self) -> "RotationResult":
        """Encrypt all secrets with the first key, and wipe the old ones.

        Needs a key.
        """
        from heatlite.store.admin.rotation import rotate

        done = rotate(self.encryption)
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
        return inconsistencies(self.database, now, grace, self.features) + missing

    def lock_engine(self, info: JsonMap) -> engine_lock.EngineLock | None:
        """Take the engine lock of a SQLite database; None on a server.

        Raises EngineRunning.
        """
        if self.database.path is None:
            return None
        return engine_lock.acquire(self.database.path, info)
