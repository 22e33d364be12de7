"""The store: one object with a room for each kind of row."""

from contextlib import AbstractContextManager
from pathlib import Path

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.json import JsonMap
from heatlite.store import exclusive, migrate
from heatlite.store.actions import Actions
from heatlite.store.database import Database, Dialect
from heatlite.store.events import Events
from heatlite.store.mail import Mail
from heatlite.store.resources import Resources
from heatlite.store.services import Services
from heatlite.store.sinks import Sinks
from heatlite.store.snapshots import Snapshots
from heatlite.store.software import SoftwareConfigs, SoftwareDeployments
from heatlite.store.stacks import Stacks, Templates
from heatlite.store.suppressed import SuppressedRequests


class Store:
    """What heatlite remembers.

    Every method of a room is one query, or takes part in this thread's open transaction; changes are
    made in a transaction only. A database that is away, locked or full: DatabaseUnavailable, and
    nothing was written.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.templates = Templates(database)
        self.stacks = Stacks(database)
        self.resources = Resources(database)
        self.events = Events(database)
        self.actions = Actions(database)
        self.snapshots = Snapshots(database)
        self.suppressed = SuppressedRequests(database)
        self.services = Services(database)
        self.mail = Mail(database)
        self.sinks = Sinks(database)
        self.software_configs = SoftwareConfigs(database)
        self.software_deployments = SoftwareDeployments(database)

    @classmethod
    def open(cls, url: str) -> "Store":
        """The store at ``sqlite:///path``, ``postgresql://…`` or ``mysql://…``; its tables may be missing yet.

        A SQLite file is made if need be, and its folder, both for their owner only: what stacks are given may be
        secret. Raises BadSetting for another URL, MissingDriver, SchemaMismatch when a newer heatlite has been at it,
        DatabaseUnavailable.
        """
        database = Database(url)
        if database.path is not None:
            try:
                database.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not database.path.exists():
                    database.path.touch(mode=0o600)  # SQLite gives the files beside it the same mode
            except OSError as error:
                raise DatabaseUnavailable(reason=str(error)) from error
        try:
            migrate.check_known(database)
        except Exception:
            database.close()
            raise
        return cls(database)

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

    def lock_engine(self, info: JsonMap) -> exclusive.EngineLock | None:
        """Be the one engine of a SQLite database; None on a server, where leases do. Raises EngineRunning."""
        if self.database.dialect is not Dialect.SQLITE:
            return None
        return exclusive.acquire(Path(f"{self.database.path}.engine"), info)
