"""Migrations: numbered scripts, and a table of those applied."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import peewee
from msgspec import Struct

from heatlite.store.database import engine_lock
from heatlite.store.database.database import Database
from heatlite.store.errors import EngineRunning, SchemaMismatch

if TYPE_CHECKING:
    from playhouse.migrations import Runner

SCRIPTS = Path(__file__).parent / "migrations"
SCHEMA = SCRIPTS.with_name("schema.sql")
"""The tables that the scripts make on SQLite, a statement a line. `tools.schema` writes it."""
TABLE = "schema_migration"
"""Name of peewee's table of applied migrations."""
FIRST = "0001_version_0_1_0"
"""Script that makes the tables of version 0.1.0."""
REPLACED = frozenset((
    "0001_initial", "0002_trees", "0003_software", "0004_sinks", "0005_snapshots", "0006_before_lock", "0007_actions",
    "0008_secrets", "0009_nodes", "0010_accounts", "0011_unused_templates", "0012_before_check", "0013_protection",
    "0014_health", "0015_suppressed", "0016_cloud", "0017_moved_in", "0018_takeovers", "0019_stack_size",
))  # fmt: skip
"""Scripts in place of which `FIRST` came. Databases of 0.1.0 have their names."""


class Migration(Struct, frozen=True):
    """A migration. `known` is False for one of a newer program."""

    name: str
    applied: bool
    known: bool


def status(database: Database) -> list[Migration]:
    """Return all migrations in order. Raises SchemaMismatch before 0.1.0."""
    applied: set[str] = set()
    with _errors(database):
        if TABLE in database.tables():
            applied = {str(name) for (name,) in database.read(f"SELECT name FROM {TABLE}")}
    if replaced := applied & REPLACED:
        if replaced < REPLACED:
            raise SchemaMismatch(
                f"The tables are those of a development version before 0.1.0 (last migration: {max(replaced)})."
                " Run `heatlite db upgrade` of heatlite 0.1.0 first, then that of this version."
            )
        applied = applied - REPLACED | {FIRST}
    known = _scripts()
    return [Migration(name, applied=name in applied, known=name in known) for name in sorted(known | applied)]


@cache
def _scripts() -> frozenset[str]:
    """Return the names of the migrations of this program."""
    return frozenset(path.stem for path in SCRIPTS.glob("[0-9]*.py"))


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

    Of several processes one applies them, the others wait. An empty SQLite file gets all tables at once.
    Raises EngineRunning while an engine uses a SQLite file without them.
    """
    with _errors(database), database.backend.migrating(database):
        steps = check_known(database)
        if all(step.applied for step in steps):
            return []
        if database.path is not None:
            engine = engine_lock.holder(database.path)
            if engine is not None:
                raise EngineRunning(engine)  # of an older program, which needs the tables as they are
            if not database.tables():
                return _create(database)
        runner = _runner(database)
        if steps[0].applied:
            runner.fake(FIRST)  # peewee looks for this name, and 0.1.0 has recorded others
        applied: list[str] = runner.up()
        return applied


def _runner(database: Database) -> "Runner":
    from playhouse.migrations import Runner  # most commands of the command line do without

    return Runner(database.peewee, str(SCRIPTS))


def _create(database: Database) -> list[str]:
    """Create the tables that all migrations would make, in one transaction.

    It takes a fifth of the time, and makes the tables of all features, also of those that are not installed.
    """
    names = sorted(_scripts())
    with database.transaction():
        for statement in SCHEMA.read_text("utf-8").splitlines():
            database.write(statement)
        for name in names:
            database.write(f"INSERT INTO {TABLE} (name, applied) VALUES (?, datetime('now', 'localtime'))", (name,))
    return names


@contextmanager
def _errors(database: Database) -> Iterator[None]:
    try:
        yield
    except peewee.PeeweeException as error:
        found = database.translate_error(error)
        if isinstance(found, peewee.ProgrammingError):
            reason = str(error).partition("\n")[0]
            found = SchemaMismatch(
                f"The tables are not those of an older heatlite: {reason}. A backup is restored into an empty database."
            )
        raise found from error
