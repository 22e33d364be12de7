"""Migrations: numbered scripts, and a table of those applied."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import peewee
from playhouse.migrations import Runner

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.database.database import Database, Dialect
from heatlite.store.errors import SchemaMismatch

SCRIPTS = Path(__file__).parent / "migrations"
LOCK_SECONDS = 60
LOCK_NUMBER = 0x6865_6174
"""Key of PostgreSQL's advisory lock: "heat"."""


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration. `known` is False for one of a newer program."""

    name: str
    applied: bool
    known: bool


def status(database: Database) -> list[Migration]:
    """Return all migrations in order."""
    with _errors(database):
        return [
            Migration(found.name, applied=found.applied is not None, known=found.path is not None)
            for found in Runner(database.peewee, str(SCRIPTS)).status()
        ]


def check_known(database: Database) -> list[Migration]:
    """Return all migrations. Raises SchemaMismatch for one of a newer program."""
    found = status(database)
    unknown = [migration.name for migration in found if not migration.known]
    if unknown:
        raise SchemaMismatch(
            f"The database is newer than this program, which does not know {', '.join(unknown)}."
            " Install the heatlite that made it."
        )
    return found


def upgrade(database: Database) -> list[str]:
    """Apply the missing migrations and return their names.

    Of several processes one applies them, the others wait.
    """
    with _errors(database), _alone(database):
        check_known(database)
        applied: list[str] = Runner(database.peewee, str(SCRIPTS)).up()
        return applied


def downgrade(database: Database) -> list[str]:
    """Revert the last migration, with its data."""
    with _errors(database), _alone(database):
        reverted: list[str] = Runner(database.peewee, str(SCRIPTS)).down()
        return reverted


@contextmanager
def _errors(database: Database) -> Iterator[None]:
    try:
        yield
    except peewee.PeeweeException as error:
        raise database.translate_error(error) from error


@contextmanager
def _alone(database: Database) -> Iterator[None]:
    """Lock the migrations of this database."""
    if database.path is not None:
        descriptor = os.open(f"{database.path}.upgrade", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
    elif database.dialect is Dialect.POSTGRESQL:
        database.read("SELECT pg_advisory_lock(%s)", (LOCK_NUMBER,))
        try:
            yield
        finally:
            database.read("SELECT pg_advisory_unlock(%s)", (LOCK_NUMBER,))
    else:
        # The name is the server's, not the database's, and at most 64 characters long.
        name = "heatlite." + hashlib.sha256(str(database.peewee.database).encode()).hexdigest()[:32]
        ((held,),) = database.read("SELECT GET_LOCK(%s, %s)", (name, LOCK_SECONDS))
        if held != 1:
            raise DatabaseUnavailable(reason=f"another process has been migrating for {LOCK_SECONDS} s")
        try:
            yield
        finally:
            database.read("SELECT RELEASE_LOCK(%s)", (name,))
