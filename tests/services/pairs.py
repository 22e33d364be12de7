"""The table `pair` on a server, behind a relay that counts round trips."""

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager

from benchmarks.relay import Relay
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from tests.databases import SERVERS

ADD = "INSERT INTO pair (id, text, ratio, is_on) VALUES (?, ?, ?, ?)"


@contextmanager
def relayed(dialect: Dialect) -> Iterator[Relay]:
    """A relay to a server with the table."""
    name = f"heatlite_pairs_{secrets.token_hex(4)}"
    with SERVERS[dialect].database(name) as url, Relay(url) as relay:
        with closing(Database(url)) as owner:
            owner.peewee.execute_sql(
                "CREATE TABLE pair (id integer PRIMARY KEY, text varchar(20), ratio double precision, is_on boolean)"
            )
        yield relay


def rows(database: Database) -> list[object]:
    """The rows, by id."""
    return [*database.read("SELECT * FROM pair ORDER BY id")]
