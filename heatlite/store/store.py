"""The store: one object with a room for each kind of row."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from heatlite.core.errors import DatabaseUnavailable
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
from heatlite.store.admin.consistency import Inconsistency, inconsistencies
from heatlite.store.admin.rotation import Rotated, rotate, seal_tree
from heatlite.store.database import engine_lock
from heatlite.store.database.database import Database, Dialect
from heatlite.store.listeners import Listeners
from heatlite.store.nodes.node_actions import NodeActions
from heatlite.store.nodes.nodes import Nodes, Orchestrations
from heatlite.store.nodes.playbooks import Playbooks
from heatlite.store.records import StackRecord
from heatlite.store.secrets.accounts import Accounts
from heatlite.store.secrets.credentials import Credentials
from heatlite.store.secrets.field_encryption import Sealing
from heatlite.store.stacks.events import Events
from heatlite.store.stacks.messages import Mail
from heatlite.store.stacks.resources import Resources
from heatlite.store.stacks.sizes import StackSizes
from heatlite.store.stacks.snapshots import Snapshots
from heatlite.store.stacks.software import SoftwareConfigs, SoftwareDeployments
from heatlite.store.stacks.stacks import Stacks, Templates
from heatlite.store.stacks.suppressed import SuppressedRequests
from heatlite.store.stacks.webhooks import Sinks


class Store:
    """What heatlite remembers.

    Every method of a room is one query, or takes part in this thread's open transaction; changes are
    made in a transaction only. A database that is away, locked or full: DatabaseUnavailable, and
    nothing was written.
    """

    def __init__(self, database: Database, keys: Sequence[str] = ()) -> None:
        self.database = database
        self.sealing = sealing = Sealing(database, keys)
        self.templates = Templates(sealing)
        self.stacks = Stacks(sealing)
        self.resources = Resources(sealing)
        self.events = Events(sealing)
        self.action_list = ActionList(sealing)
        self.snapshots = Snapshots(sealing)
        self.suppressed = SuppressedRequests(sealing)
        self.services = Services(database)
        self.mail = Mail(sealing)
        self.sinks = Sinks(database)
        self.software_configs = SoftwareConfigs(sealing)
        self.software_deployments = SoftwareDeployments(sealing)
        self.credentials = Credentials(sealing)
        self.nodes = Nodes(sealing)
        self.node_actions = NodeActions(sealing)
        self.orchestrations = Orchestrations(sealing)
        actions = ActionTable(sealing)
        self.actions = Actions(actions)
        self.dependencies = Dependencies(sealing, actions)
        self.queue = ActionQueue(actions, self.dependencies)
        self.moves = Moves(actions, self.dependencies, self.queue, self.orchestrations.hurry)
        self.controls = Controls(actions, self.moves)
        self.claims = Claims(actions)
        self.playbooks = Playbooks(sealing)
        self.accounts = Accounts(sealing)
        self.stack_sizes = StackSizes(database)
        self.migrations: Sequence[migrate.Migration] = ()
        """As they were when the store was opened."""

    @classmethod
    def open(cls, url: str, keys: Sequence[str] = (), lease: float | None = None) -> "Store":
        """The store at ``sqlite:///path``, ``postgresql://…`` or ``mysql://…``; its tables may be missing yet.

        `keys` are those of the setting `encryption_keys`; they are looked at when they are first needed. `lease` is
        that of the workers, in seconds: nothing waits for a server longer than it allows (None: without limit).
        A SQLite file is made if need be, and its folder, both for their owner only: what stacks are given may be
        secret. Raises BadSetting for another URL, MissingDriver, SchemaMismatch when a newer heatlite has been at it,
        DatabaseUnavailable.
        """
        database = Database(url, lease)
        if database.path is not None:
            try:
                database.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not database.path.exists():
                    database.path.touch(mode=0o600)  # SQLite gives the files beside it the same mode
            except OSError as error:
                raise DatabaseUnavailable(reason=str(error)) from error
        try:
            found = migrate.check_known(database)
        except Exception:
            database.close()
            raise
        store = cls(database, keys)
        store.migrations = found
        return store

    @property
    def listeners(self) -> Listeners:
        """The listeners in use."""
        return self.database.listeners

    def listen(self, listeners: Listeners) -> None:
        """Make all further calls to `listeners`, in place of those given before."""
        self.database.listeners = listeners

    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing; an inner one joins the outer one. See `Database.transaction`."""
        return self.database.transaction()

    def close(self) -> None:
        """Close this thread's connection; the next use opens another."""
        self.database.close()

    def upgrade(self) -> list[str]:
        """Bring the tables up to date and tell which migrations that took."""
        return migrate.upgrade(self.database)

    def status(self) -> list[migrate.Migration]:
        """The migrations, applied or not."""
        return migrate.status(self.database)

    def rotate_keys(self) -> Rotated:
        """Encrypt all secrets with the first key, see `rotation.rotate`; then leave nothing behind of what was there.

        Needs a key.
        """
        done = rotate(self.sealing)
        if self.database.dialect is Dialect.SQLITE:
            try:
                # What was overwritten still lies in free pages and in the log of writes.
                self.database.read("VACUUM")
                ((busy, _, _),) = self.database.read("PRAGMA wal_checkpoint(TRUNCATE)")
                done.wiped = not busy
            except DatabaseUnavailable:
                done.wiped = False
        return done

    def seal_tree(self, stack: StackRecord) -> None:
        """Something in the stack's tree has become a secret, see `rotation.seal_tree`."""
        seal_tree(self.sealing, stack.root_id or stack.id)

    def inconsistencies(self, now: float, grace: float) -> list[Inconsistency]:
        """What should not be: see `consistency.inconsistencies`."""
        return inconsistencies(self.database, now, grace)

    def lock_engine(self, info: JsonMap) -> engine_lock.EngineLock | None:
        """Be the one engine of a SQLite database; None on a server, where leases do. Raises EngineRunning."""
        if self.database.dialect is not Dialect.SQLITE:
            return None
        return engine_lock.acquire(Path(f"{self.database.path}.engine"), info)
