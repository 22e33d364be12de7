"""Databases with a server, for tests.

HEATLITE_TEST_POSTGRES_URL and HEATLITE_TEST_MYSQL_URL name a database of a server, by a user who may make others;
without them a server on loopback is tried. What a process of the tests makes there goes when it ends.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import peewee
import pytest

from heatlite.feature import installed
from heatlite.store.actions.claims import ANY_TAKEOVERS
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from heatlite.store.records import ActionRecord
from heatlite.store.store import Store
from heatlite.store.tables import MODELS

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""A folder in memory if possible: tests lose no power, so no disk is needed."""


@dataclass(frozen=True)
class Server:
    """A place for databases. Its methods raise DatabaseUnavailable and MissingLibrary."""

    variable: str
    """The variable of the environment that names it."""
    loopback: str

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """The URL of an empty database of that name, for as long as it is needed."""
        given = os.environ.get(self.variable, self.loopback)
        server = Database(given)
        server.read("SELECT 1")
        server.peewee.execute_sql(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(given)._replace(path=f"/{name}").geturl()
        finally:
            force = " WITH (FORCE)" if server.backend.dialect is Dialect.POSTGRESQL else ""
            server.peewee.execute_sql(f"DROP DATABASE {name}{force}")
            server.close()


SERVERS = {
    Dialect.POSTGRESQL: Server("HEATLITE_TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres"),
    # PyMySQL reads all certificates of the machine for each connection that might be encrypted.
    Dialect.MARIADB: Server("HEATLITE_TEST_MYSQL_URL", "mysql://root@127.0.0.1:3306/mysql?ssl_disabled=true"),
}


def on(*servers: str) -> Any:
    """Return a row for `parametrize` or a fixture, with a marker for each server."""
    return pytest.param(*servers, marks=[getattr(pytest.mark, one.lower()) for one in servers])


EACH_SERVER = [on(Dialect.POSTGRESQL), on(Dialect.MARIADB)]
"""Rows for a fixture that has a database of each server."""


def _is_open(connection: Any) -> bool:
    return bool(getattr(connection, "open", True)) and not getattr(connection, "closed", False)


class _Lent:
    """A connection until it is closed; then it can be used again, once."""

    def __init__(self, connection: Any, free: list[Any]) -> None:
        self._connection = connection
        self._free = free

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.rollback()
            if hasattr(connection, "pgconn"):
                connection.execute("DEALLOCATE ALL")  # the next user knows none of them
        except Exception:  # noqa: BLE001 - each driver has its own: whatever it is, nobody wants this one any more
            if _is_open(connection):  # PyMySQL's may be closed once only
                connection.close()
        else:
            self._free.append(connection)

    def __del__(self) -> None:
        self.close()


@contextmanager
def _kept_connections() -> Iterator[None]:
    """In the block, a closed connection is kept for the next use of that database.

    An engine has one for each of its threads, and to make them takes the server longer than most tests.
    """
    free: dict[str, list[Any]] = {}
    made: list[Any] = []
    """Keeps all of them. The garbage collector takes a cycle apart in any order: it might delete a connection before
    the object that closes it."""

    def lending(connect: Callable[[Any], Any]) -> Callable[[Any], _Lent]:
        def lend(database: Any) -> _Lent:
            found = free.setdefault(f"{database.database} {database.connect_params}", [])
            while found:
                connection = found.pop()
                if _is_open(connection):
                    return _Lent(connection, found)
            connection = connect(database)
            made.append(connection)
            return _Lent(connection, found)

        return lend

    with pytest.MonkeyPatch.context() as patch:
        for kind in (peewee.PostgresqlDatabase, peewee.MySQLDatabase):
            patch.setattr(kind, "_connect", lending(kind._connect))
        yield
    for connection in made:
        if _is_open(connection):
            connection.close()


STORES = [kind for one in installed() for kind in one.stores()]
"""Those of all features."""


def every_model() -> list[type[peewee.Model]]:
    """The tables of the core and of all features."""
    return [*MODELS, *(model for kind in STORES for model in kind.tables)]


def whole(url: str, lease: float | None = None) -> Store:
    """Open a store with the stores of all features."""
    return Store.open(url, lease=lease, features=STORES)


def empty(store: Store) -> None:
    """Leave nothing in the tables.

    What has no rows is not written to: most tables have none.
    """
    known = {model._meta.table_name: model for model in every_model()}
    quote = store.database.quote
    parts = [f"SELECT '{name}', EXISTS (SELECT 1 FROM {quote(name)})" for name in known]
    for name, has_rows in store.database.read(" UNION ALL ".join(parts)):
        if has_rows:
            with store.transaction():
                store.database.change(known[name].delete())


def claim_one(
    store: Store,
    owner: str,
    now: float,
    lease: float,
    action_id: str | None = None,
    max_takeovers: int = ANY_TAKEOVERS,
) -> ActionRecord | None:
    """Claim one action for a worker, None if there is none to be claimed."""
    claimed = store.claims.claim_many(1, owner, now, lease, action_id, max_takeovers=max_takeovers)
    return claimed[0] if claimed else None


def dump(store: Store) -> dict[str, list[str]]:
    """All that the database holds: table → rows."""
    rows = {model: store.database.select(model.select()) for model in every_model()}
    return {model._meta.table_name: sorted(map(repr, found)) for model, found in rows.items()}


@cache
def _upgraded_file() -> bytes:
    """A SQLite database with its tables: migrations take longer than many a test."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "heat.db"
        store = whole(f"sqlite:///{file}")
        store.upgrade()
        store.close()
        return file.read_bytes()


def sqlite(folder: Path, name: str = "heat.db") -> str:
    """The URL of a SQLite database with tables in a folder; existing data stay."""
    file = folder / name
    if not file.exists():
        file.touch(mode=0o600)
        file.write_bytes(_upgraded_file())
    return f"sqlite:///{file}"


@contextmanager
def away(folder: Path) -> Iterator[None]:
    """Keep a SQLite database from being opened, by its folder under another name.

    A file renamed alone would be made anew by the next thread that connects.
    """
    elsewhere = folder.rename(folder.with_name(f"{folder.name}-away"))
    try:
        yield
    finally:
        elsewhere.rename(folder)


class Places:
    """Databases of the engines of this process, one for each folder.

    An engine that starts again in the folder finds its rows, as in a SQLite file. Once the folder is gone, the next one
    gets its emptied database: to make one takes longer than most tests.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._server = SERVERS.get(dialect)
        self._made = ExitStack()
        if self._server is not None:
            self._made.enter_context(_kept_connections())
        self._stores: list[Store] = []
        self._taken: dict[Path, Store] = {}

    @property
    def are_files(self) -> bool:
        """True if these are SQLite files in the folders themselves."""
        return self._server is None

    def url(self, folder: Path) -> str:
        """The database of a folder, with its tables."""
        if self._server is None:
            return sqlite(folder)
        if folder not in self._taken:
            self._taken = {other: store for other, store in self._taken.items() if other.exists()}
            free = [store for store in self._stores if store not in self._taken.values()]
            store = free[0] if free else self._make(self._server)
            empty(store)
            self._taken[folder] = store
        return self._taken[folder].database.url

    def _make(self, server: Server) -> Store:
        name = f"heatlite_engine_{os.getpid()}_{len(self._stores)}"
        store = whole(self._made.enter_context(server.database(name)))
        self._made.callback(store.close)
        store.upgrade()
        self._stores.append(store)
        return store

    def close(self) -> None:
        """Leave nothing on the server."""
        self._made.close()


PLACES = Places(Dialect(os.environ.get("HEATLITE_TEST_ENGINE_DATABASE", Dialect.SQLITE)))
"""The tests of the engine run on each kind of database: HEATLITE_TEST_ENGINE_DATABASE says SQLite, PostgreSQL or
MariaDB."""
