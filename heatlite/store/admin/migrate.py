"""Migrations: series of numbered scripts, and a table of those applied.

The core has a series, and each feature may have one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import peewee
from msgspec import Struct

from heatlite.store.database import engine_lock
from heatlite.store.database.database import Database
from heatlite.store.errors import EngineRunning, SchemaMismatch
from heatlite.store.feature_store import FeatureStore, Series

if TYPE_CHECKING:
    from heatlite.store.admin.runner import SeriesRunner

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


CORE = Series("", Path(__file__).parent)


class MigrationScript(Struct, frozen=True):
    """A migration. `known` is False for one of a newer program."""

    name: str
    applied: bool
    known: bool


def status(database: Database, features: Sequence[Series]) -> list[MigrationScript]:
    """Return the migrations of the core and of features, in order.

    Leaves out those of other features: these are off, or not installed. Raises SchemaMismatch before 0.1.0.
    """
    applied = _applied(database)
    if replaced := applied & REPLACED:
        if replaced < REPLACED:
            raise SchemaMismatch(
                f"The tables are those of a development version before 0.1.0 (last migration: {max(replaced)})."
                " Run `heatlite db upgrade` of heatlite 0.1.0 first, then that of this version."
            )
        applied = applied - REPLACED | {FIRST}
    steps = []
    for one in (CORE, *features):
        known = _scripts(one)
        names = known.union(filter(one.has, applied))
        steps += [MigrationScript(name, applied=name in applied, known=name in known) for name in sorted(names)]
    return steps


def _applied(database: Database) -> set[str]:
    """Return the names of the applied migrations, of whatever series."""
    with _errors(database):
        if TABLE not in database.tables():
            return set()
        return {str(name) for (name,) in database.read(f"SELECT name FROM {TABLE}")}


def begun(database: Database, features: Sequence[Series]) -> list[Series]:
    """Return those of some series of which the database has migrations."""
    applied = _applied(database)
    return [one for one in features if any(map(one.has, applied))]


def are_behind(database: Database, features: Sequence[Series]) -> bool:
    """Return whether the database has a part of the migrations of a series."""
    applied = _applied(database) if features else set()
    return any(any(map(one.has, applied)) and not _scripts(one) <= applied for one in features)


def whole(database: Database, stores: Sequence[type[FeatureStore]]) -> list[type[FeatureStore]]:
    """Return those of some stores whose tables are as this program knows them."""
    applied = _applied(database)
    return [
        one for one in stores if one.series is None or _scripts(one.series) == {*filter(one.series.has, applied)}
    ]


def lost(database: Database, known: Sequence[Series]) -> list[str]:
    """Return the features with migrations in the database, but those of some series."""
    applied = {name.rpartition(".")[0] for name in _applied(database)}
    return sorted(applied - {CORE.feature} - {one.feature for one in known})


@cache
def _scripts(series: Series) -> frozenset[str]:
    """Return the recorded names of the scripts of this program."""
    return frozenset(series.recorded(path.stem) for path in series.scripts.glob("[0-9]*.py"))


def check_known(database: Database, features: Sequence[Series]) -> list[MigrationScript]:
    """Return what `status` does.

    Raises SchemaMismatch for a migration of a newer program.
    """
    found = status(database, features)
    unknown = [migration.name for migration in found if not migration.known]
    if unknown:
        raise SchemaMismatch(
            f"The database is newer than this program, which does not know {', '.join(unknown)}."
            " Install the heatlite that made it; for a name with a dot, the package of that feature."
        )
    return found


def upgrade(database: Database, features: Sequence[Series]) -> list[str]:
    """Apply the missing migrations and return their names.

    Of several processes one applies them, the others wait. A new SQLite file gets its tables at once: scripts take
    along the rows that others may have. Raises EngineRunning while an engine uses a SQLite file without them.
    """
    with _errors(database), database.backend.migrating(database):
        steps = check_known(database, features)
        if all(step.applied for step in steps):
            return []
        if database.path is not None:
            engine = engine_lock.holder(database.path)
            if engine is not None:
                raise EngineRunning(engine)  # of an older program, which needs the tables as they are
        done: list[str] = []
        is_new = database.path is not None and not database.tables()
        for one in (CORE, *features):
            own = [step for step in steps if one.has(step.name)]
            if is_new and one.schema.exists():
                done += _create(database, one)
                continue
            runner = _runner(database, one)
            if one is CORE and own[0].applied:
                runner.fake(FIRST)  # peewee looks for this name, and 0.1.0 has recorded others
            done += runner.up()
        return done


def _runner(database: Database, series: Series) -> "SeriesRunner":
    from heatlite.store.admin.runner import SeriesRunner  # most commands of the command line do without peewee's

    return SeriesRunner(database.peewee, series)


def _create(database: Database, series: Series) -> list[str]:
    """Create the tables that a series would make, in one transaction.

    It takes a fifth of the time. The series of the core makes the tables of the features of version 0.1.0, too.
    """
    names = sorted(_scripts(series))
    with database.transaction():
        for statement in series.schema.read_text("utf-8").splitlines():
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
