"""Interface of the kinds of database.

Each kind has a folder with the same files: `backend.py`, `connection.py`, `batch.py`. Nothing outside compares kinds.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import peewee
from msgspec import Struct
from peewee import Field

from heatlite.core.config import BadSetting
from heatlite.core.errors import DatabaseUnavailable, Invalid
from heatlite.core.redaction import masking
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.store.database.limits import Limits
from heatlite.store.database.sql import marks
from heatlite.store.database.statements import Connection, Value
from heatlite.store.errors import Duplicate

if TYPE_CHECKING:
    from heatlite.store.database.database import Database

BUSY_SECONDS = 5
"""Seconds that a writer of a SQLite file waits for its turn, and a connection for a program without turns."""


class Dialect(StrEnum):
    """Supported kinds of database."""

    SQLITE = "SQLite"
    POSTGRESQL = "PostgreSQL"
    MARIADB = "MariaDB"


class Columns(Struct, frozen=True):
    """The columns of a batch, with quoted names."""

    table: str
    names: tuple[str, ...]
    fields: tuple["Field[object]", ...]
    given: tuple[int, ...]
    """The places of the columns that a new row has: the database numbers it itself."""
    key: int
    """The place of the key."""
    mutable: tuple[int, ...]
    """The places of the columns that an update writes."""


class Batch(ABC):
    """Statements over rows of a table, by `Database.send`. A row has all columns."""

    def __init__(self, columns: Columns) -> None:
        self._given: Callable[[tuple[Value, ...]], tuple[Value, ...]] | None = None
        if len(columns.given) < len(columns.names):
            self._given = itemgetter(*columns.given)
        self.changed: Callable[[tuple[Value, ...]], tuple[Value, ...]] = itemgetter(*columns.mutable, columns.key)
        """Returns the mutable columns of a row, and its key."""
        names = [columns.names[at] for at in columns.given]
        self._into = f"INSERT INTO {columns.table} ({', '.join(names)})"
        self._row = f"({marks(names)})"
        self._insert = f"{self._into} VALUES {self._row}"
        changes = ", ".join(f"{columns.names[at]} = ?" for at in columns.mutable)
        self._update = f"UPDATE {columns.table} SET {changes} WHERE {columns.names[columns.key]} = ?"

    def given(self, rows: Sequence[tuple[Value, ...]]) -> Sequence[tuple[Value, ...]]:
        """Return what the rows have before the database has numbered them."""
        return rows if self._given is None else [*map(self._given, rows)]

    @abstractmethod
    def insert(self, database: "Database", rows: Sequence[tuple[Value, ...]]) -> None:
        """Add rows in their order."""

    @abstractmethod
    def update(self, database: "Database", rows: Sequence[tuple[Value, ...]]) -> None:
        """Write the mutable columns of existing rows."""


class Backend(ABC):
    """The database of a URL. Raises BadSetting."""

    dialect: ClassVar[Dialect]
    """Its name, for people."""
    batch: ClassVar[type[Batch]]
    library: ClassVar[str]
    """Module of the driver."""
    backup_tools: ClassVar[tuple[str, str]] = ("", "")
    """Commands that make a backup and restore it, if heatlite does not."""
    tables: ClassVar[str]
    """SQL for the names of the tables."""

    has_row_locks: ClassVar[bool] = True
    """False: a transaction locks the whole database."""
    updates_return: ClassVar[bool] = False
    """True if UPDATE … RETURNING saves a round trip."""
    finds_prefixes: ClassVar[bool] = False
    """True if a condition on a column finds an index of its first characters."""
    locks_unmatched_rows: ClassVar[bool] = False
    """True if a SELECT … FOR UPDATE may lock rows that do not match."""
    duplicates_deadlock: ClassVar[bool] = False
    """True if transactions that wait for a row to be inserted deadlock when it is rolled back."""

    mark: ClassVar[str] = "%s"
    """Mark of the driver for a parameter."""
    quotation_mark: ClassVar[str] = '"'
    begin: ClassVar[str] = ""
    """Statement that begins a transaction at once. Without one, statements wait for the next whose answer is needed."""
    for_update: ClassVar[str] = " FOR UPDATE"
    for_update_free: ClassVar[str] = " FOR UPDATE SKIP LOCKED"
    for_reference: ClassVar[str] = " FOR KEY SHARE"
    """Lock of a row against deletion."""
    find_text: ClassVar[str] = "instr"
    """Function that returns the place of a text in another one."""
    on_conflict: ClassVar[str] = "ON CONFLICT ({key}) DO UPDATE SET"
    keep: ClassVar[str] = "ON CONFLICT ({key}) DO NOTHING"
    """Part of an INSERT that leaves a row as it is."""
    counts_kept: ClassVar[bool] = False
    """True if the number of rows counts those left by `keep`."""
    new_value: ClassVar[str] = "excluded.{column}"
    """A value of the INSERT in the part after `on_conflict`."""
    force_index: ClassVar[str] = ""
    """Hint after FROM, with ``{index}``, if the planner needs it for a page of a list."""
    end_frozen_clients: ClassVar[str] = ""
    """Statement that ends connections whose clients froze in a statement, with their age in seconds as parameter."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.path: Path | None = None
        """The file of a SQLite database; None for a server."""
        driver = importlib.import_module(self.library)
        # peewee wraps the driver's errors while it connects; our own statements raise the driver's.
        self._data_errors = (driver.DataError, peewee.DataError, UnicodeEncodeError, OverflowError)
        self._integrity_errors = (driver.IntegrityError, peewee.IntegrityError)
        self._own_errors = (driver.ProgrammingError, peewee.ProgrammingError)
        self.errors = (driver.Error, peewee.PeeweeException, *self._data_errors)
        """All errors of the driver."""

    # -- connections -----------------------------------------------------------------------------

    @abstractmethod
    def connections(self, limits: Limits) -> peewee.Database:
        """Return connections with these time limits, one per thread, opened on first use."""

    @abstractmethod
    def wrap(self, connection: Any, limits: Limits) -> Connection:
        """Return a driver's connection in our form."""

    def given(self) -> dict[str, Any]:
        """Return the parameters in the URL of a server. Raises BadSetting."""
        from playhouse import db_url  # imports the drivers of databases that are not used here

        try:
            found: dict[str, Any] = db_url.parse(self._url, unquote_user=True, unquote_password=True)
        except ValueError:
            # The error's text may contain a part of the password.
            raise BadSetting(
                f"The database URL cannot be read; one looks like {self._url.partition(':')[0]}://user:password@host/name,"
                " with %2F for a / in the password."
            ) from None
        return found

    def renew(self) -> None:  # noqa: B027 - servers have nothing of the kind
        """Replace what a child must not share with its parent after a fork."""

    # -- transactions ----------------------------------------------------------------------------

    def turn(self, given_up: Callable[[], None]) -> AbstractContextManager[None]:  # noqa: ARG002
        """Wait until no other thread or process writes.

        Raises DatabaseUnavailable after calling `given_up`.
        """
        return nullcontext()

    def make_durable(self, database: "Database") -> None:  # noqa: B027 - servers answer a COMMIT after that
        """Wait until the disk has what is committed. Raises CommitUnanswered."""

    # -- statements ------------------------------------------------------------------------------

    def with_marks(self, sql: str) -> str:
        """Return SQL with the marks of the driver in place of ``?``."""
        return sql if self.mark == "?" else _with_marks(sql, self.mark)

    # -- errors ----------------------------------------------------------------------------------

    def translate_error(self, error: Exception) -> Exception:
        """Return the store's error for a driver's.

        - server unreachable, file locked, disk full, missing rights → DatabaseUnavailable
        - SQLite file that is none or is damaged → DatabaseUnusable
        - violation of a unique index → Duplicate
        - a value that the database cannot store (too long, NUL in text) → Invalid
        """
        if isinstance(error, self._integrity_errors):
            return Duplicate(str(error))
        if isinstance(error, self._data_errors):
            return Invalid(f"The database cannot hold a value: {error}")
        found = self.recognize(error, [*_causes(error)])
        if found is not None:
            return found
        if isinstance(error, self._own_errors):
            return error  # a fault in our SQL, or no tables
        return DatabaseUnavailable(reason=str(error))

    def recognize(self, error: Exception, causes: Sequence[BaseException]) -> Exception | None:  # noqa: ARG002
        """Return the store's error for one that only this kind of database has.

        `causes` are the error and those behind it.
        """
        return None

    # -- maintenance -----------------------------------------------------------------------------

    @abstractmethod
    def migrating(self, database: "Database") -> AbstractContextManager[None]:
        """Wait until no other process migrates. Raises DatabaseUnavailable."""

    def wipe(self, database: "Database") -> bool:  # noqa: ARG002
        """Remove overwritten data from the disk; False if another process kept it."""
        return True


def backend_of(url: str) -> Backend:
    """Return the backend of a database URL. Raises BadSetting and MissingLibrary."""
    match url.partition("://")[0]:
        case "sqlite":
            dialect, folder, extra = Dialect.SQLITE, "sqlite", ""
        case "postgresql" | "postgres":
            dialect, folder, extra = Dialect.POSTGRESQL, "postgresql", "postgres"
        case "mysql":
            dialect, folder, extra = Dialect.MARIADB, "mariadb", "mysql"
        case _:
            kind = masking.scheme(url)
            wrong = f"Unknown kind of database: {kind!r}" if kind else "The database is not given as a URL"
            raise BadSetting(f"{wrong}; use sqlite:///, postgresql:// or mysql://.")
    # Other kinds are not imported: their drivers may be missing.
    try:
        found: Backend = importlib.import_module(f"heatlite.store.database.{folder}.backend").BACKEND(url)
    except ImportError as error:
        raise MissingLibrary(dialect, error.name, extra) from error
    return found


@lru_cache(2048)
def _with_marks(sql: str, mark: str) -> str:
    return sql.replace("?", mark)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those behind it: peewee wraps the driver's, some twice."""
    while error is not None:
        yield error
        error = error.__context__
