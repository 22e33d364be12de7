"""Migrations on databases with a server, and collations of MariaDB."""

import os
from collections.abc import Collection, Iterator
from urllib.parse import urlsplit

import pytest
from migration_behaviour import *  # noqa: F403
from migration_behaviour import before, change, names
from playhouse.schema_diff import diff_models
from store_behaviour import a_resource, a_stack

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from heatlite.store.errors import SchemaMismatch
from heatlite.store.store import Store
from tests.databases import dump, every_model, on

HEALING = "0020_healing"
"""The first migration after 0.1.0."""
EXACT_TEXT = "0034_exact_text"
EXACT = {"utf8mb4_nopad_bin"}
PADDED = "utf8mb4_bin"

only_on_postgresql = pytest.mark.parametrize("server", [on(Dialect.POSTGRESQL)], indirect=True)
only_on_mariadb = pytest.mark.parametrize("server", [on(Dialect.MARIADB)], indirect=True)


def collations(store: Store) -> dict[str, set[str]]:
    """Collations of each table: its own and those of its columns."""
    found: dict[str, set[str]] = {model._meta.table_name: set() for model in every_model()}
    rows = store.database.read(
        "SELECT table_name, table_collation FROM information_schema.tables WHERE table_schema = DATABASE()"
        " UNION SELECT table_name, collation_name FROM information_schema.columns"
        " WHERE table_schema = DATABASE() AND collation_name IS NOT NULL"
    )
    for table, collation in rows:
        if table in found:
            found[table].add(collation)
    return found


def pad(store: Store, tables: Collection[str] | None = None) -> None:
    """Give tables the collations that they had before the migration."""
    for table, found in collations(store).items():
        if found == EXACT and (tables is None or table in tables):
            sql = f"ALTER TABLE {store.database.quote(table)} CONVERT TO CHARACTER SET utf8mb4 COLLATE {PADDED}"
            store.database.peewee.execute_sql(sql)


@pytest.fixture
def weak_url(empty_url: str) -> Iterator[str]:
    """The same database, for a user without rights: PostgreSQL 15 gives none."""
    database, role = Database(empty_url), f"weak_{os.getpid()}"
    for sql in (f"CREATE ROLE {role} LOGIN PASSWORD 'x'", "REVOKE ALL ON SCHEMA public FROM PUBLIC",
                f"GRANT USAGE ON SCHEMA public TO {role}"):  # fmt: skip
        database.peewee.execute_sql(sql)
    parts = urlsplit(empty_url)
    yield parts._replace(netloc=f"{role}:x@{parts.netloc.rpartition('@')[2]}").geturl()
    database.peewee.execute_sql(f"DROP OWNED BY {role}")
    database.peewee.execute_sql(f"DROP ROLE {role}")
    database.close()


@only_on_postgresql
def test_missing_rights_are_told(database: Store, weak_url: str) -> None:
    weak = Store.open(weak_url)
    with pytest.raises(DatabaseUnavailable, match="permission denied for schema public"):
        weak.upgrade()
    weak.close()
    database.upgrade()
    with pytest.raises(DatabaseUnavailable, match="permission denied for table schema_migration"):
        Store.open(weak_url)


@only_on_postgresql
@pytest.mark.usefixtures("spoilt")
def test_tables_of_a_newer_version_are_told(database: Store) -> None:
    """As after a restore of a backup over them."""
    database.upgrade()
    change(database, "DELETE FROM schema_migration WHERE name = ?", "0032_audit_refusals")
    with pytest.raises(SchemaMismatch, match=r"exist.* A backup is restored into an empty database"):
        database.upgrade()


@only_on_mariadb
@pytest.mark.parametrize("since", [None, HEALING])
def test_every_text_is_compared_exactly(database: Store, since: str | None) -> None:
    if since is not None:
        before(database, since)
        pad(database)
    database.upgrade()
    assert collations(database) == {model._meta.table_name: EXACT for model in every_model()}


@only_on_mariadb
def test_an_upgrade_that_was_killed_in_a_migration_continues(database: Store) -> None:
    """MariaDB commits each change of a table at once, so the migration finds it done."""
    database.upgrade()
    change(database, "DELETE FROM schema_migration")
    assert database.upgrade() == names(database)
    assert not diff_models(database.database.peewee, every_model()).add_indexes


@only_on_mariadb
def test_an_upgrade_that_ended_between_two_tables_continues(database: Store, empty_url: str) -> None:
    before(database, EXACT_TEXT)
    older = [table for table, found in collations(database).items() if found]
    database.upgrade()  # the models read the columns of later migrations, too
    change(database, "DELETE FROM schema_migration WHERE name = ?", EXACT_TEXT)
    pad(database, older)
    stack = a_stack("wéb")
    with database.transaction():
        database.stacks.insert(stack)
        database.resources.insert_many([a_resource("db "), a_resource("雲", physical_id="🖥")])
    content = dump(database)
    other = Store.open(empty_url)
    database.database.peewee.execute_sql("SET SESSION lock_wait_timeout = 0")
    with other.transaction():
        other.stacks.get(stack.id)  # keeps the table from being changed
        with pytest.raises(DatabaseUnavailable):
            database.upgrade()
        found = collations(database)
    other.close()
    # The server may need a moment to notice the closed connection.
    database.database.peewee.execute_sql("SET SESSION lock_wait_timeout = 60")
    assert found["action"] == EXACT
    assert found["stack"] == {PADDED}
    assert database.upgrade() == [EXACT_TEXT]
    assert collations(database) == {model._meta.table_name: EXACT for model in every_model()}
    assert dump(database) == content
