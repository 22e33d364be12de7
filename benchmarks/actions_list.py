"""Pages of the list of actions, out of a million, on each reachable database.

The rows are made within the database, and the application answers in this process, without an engine: what is measured
is the way from a request to its answer.
"""

import itertools
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import falcon.testing

from benchmarks.actions import SERVERS, fresh_database
from benchmarks.cases import Bench
from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.errors import HeatliteError
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from heatlite.store.store import Store
from heatlite.store.tables.actions import Action

ROWS = 1_000_000
STACKS = 20_000
PAGE = 100
LOOKS = 3
"""Number of requests for each page."""
VERBS = ("CREATE", "UPDATE", "UPDATE", "UPDATE", "UPDATE", "CHECK", "CHECK", "CHECK", "LOCK", "UNLOCK")
STATUSES = {0: "CANCELLED", 1: "FAILED", 2: "FAILED", 3: "FAILED"}
"""Of a thousand actions; all others have succeeded, and none of a million runs."""
CONTEXT = '{"roles":["admin","member","reader"],"request_id":"req-6d1f0a58-41c7-4f0e-8a57-0b9f1d2c3e4f"}'
OUTPUTS = '{"result":"OK","stack_status":"UPDATE_COMPLETE"}'


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


def fill(database: Database) -> None:
    """Put a million actions into an empty table."""

    def text(*parts: str) -> str:
        is_mariadb = database.backend.dialect is Dialect.MARIADB
        return f"concat({', '.join(parts)})" if is_mariadb else f"({' || '.join(parts)})"

    def digits(number: str, width: int) -> str:
        return f"substr(cast(1{'0' * width} + {number} as char({width + 1})), 2, {width})"

    def uuid(number: str) -> str:
        """Eight digits that lie anywhere, then the number itself."""
        return text(digits(f"({number} * 1999) % 99999989", 8), "'-0000-4000-8000-'", digits(number, 12))

    stack = f"((i * 1999) % {STACKS})"
    verb = "CASE i % 10 " + " ".join(f"WHEN {at} THEN '{name}'" for at, name in enumerate(VERBS)) + " END"
    status = (
        "CASE (i / 10) % 1000 " + " ".join(f"WHEN {at} THEN '{name}'" for at, name in STATUSES.items())
        + " ELSE 'SUCCEEDED' END"
    )  # fmt: skip
    if database.backend.dialect is Dialect.MARIADB:
        status = status.replace("i / 10", "i DIV 10")
    values = {
        **{field.name: _literal(field.default) for field in Action._meta.sorted_fields if field.default is not None},
        "seq": "i",
        "id": uuid("i"),
        "stack_id": uuid(stack),
        "root_id": uuid(stack),
        "project": "'demo'",
        "verb": verb,
        "status": status,
        "requested_by": "'anonymous'",
        "created_at": "1.7e9 + i",
        "updated_at": "1.7e9 + i",
        "started_at": "1.7e9 + i",
        "finished_at": "1.7e9 + i",
        "deadline": "1.7e9 + i",
        "inputs": "'{}'",
        "outputs": f"'{OUTPUTS}'",
        "context": f"'{CONTEXT}'",
        "status_reason": "'Stack UPDATE completed successfully'",
        "attempt": "1",
        "name": text("'stack_'", f"lower({verb})", "'_'", f"substr({uuid(stack)}, 29, 8)"),
        "parent_id": f"CASE WHEN i % 10 = 9 THEN {uuid('(i - 1)')} END",
    }
    tens = " UNION ALL ".join(f"SELECT {digit}{' AS n' if digit == 0 else ''}" for digit in range(10))
    places = "fedcba"
    number = " + ".join(f"{place}.n * {10**at}" for at, place in enumerate(reversed(places)))
    numbers = f"SELECT {number} + 1 AS i FROM {', '.join(f'd AS {place}' for place in places)}"
    columns = database.quote(*values)
    insert = (
        f"INSERT INTO action ({columns}) WITH d AS ({tens}), numbers AS ({numbers}) "
        f"SELECT {', '.join(values.values())} FROM numbers"
    )
    with Action.bind_ctx(database.peewee):
        # To sort a million keys is quicker than to put them in one by one.
        of_table = " ON action" if database.backend.dialect is Dialect.MARIADB else ""
        for index in database.peewee.get_indexes("action"):
            if index.columns != ["seq"]:  # its primary key
                database.peewee.execute_sql(f"DROP INDEX {database.quote(index.name)}{of_table}")
        with database.transaction():
            database.write(insert if database.backend.dialect is Dialect.SQLITE else insert.replace("%", "%%"))
        Action.create_table()
    if database.backend.dialect is Dialect.POSTGRESQL:
        database.peewee.execute_sql("ANALYZE action")  # as autovacuum does, which knows of the rows a minute later


def _asked(store: Store) -> Iterator[tuple[str, dict[str, str]]]:
    """Requests by their names in the table."""
    columns = "id, name, stack_id"
    some = [store.database.read(f"SELECT {columns} FROM action WHERE seq = {at * ROWS // 4 + 1}")[0] for at in range(4)]
    yield "newest first", {}
    for key, direction in itertools.product(("name", "target", "action", "created_at", "status"), ("asc", "desc")):
        yield "each sort key, each way", {"sort": f"{key}:{direction}"}
    for key, values in (
        ("name", (some[2][1], ",".join(one[1] for one in some))),
        ("target", (some[2][2], ",".join(one[2] for one in some))),
        ("action", ("STACK_UPDATE", "STACK_LOCK", "STACK_SNAPSHOT", "STACK_UPDATE,STACK_LOCK")),
        ("status", ("SUCCEEDED", "FAILED", "CANCELLED", "RUNNING", "FAILED,SUCCEEDED")),
    ):
        for value in values:
            yield f"only some: {key}", {key: value}
    yield "only some: action and status", {"action": "STACK_CHECK", "status": "FAILED"}


def _measure(bench: Bench, database: str, url: str) -> None:
    store = Store.open(url)
    store.upgrade()
    fill(store.database)
    reader = wiring.reader(Settings(database=url))
    client = falcon.testing.TestClient(reader.app, headers={"Host": "127.0.0.1"})
    markers = [store.database.read(f"SELECT id FROM action WHERE seq = {at * ROWS // 4 + 1}")[0][0] for at in range(4)]
    for text, query in _asked(store):
        for marker in ({}, *({"marker": marker} for marker in markers)):
            path = f"/v1/demo/actions?{urlencode({**query, **marker, 'limit': PAGE})}"
            for _ in range(LOOKS):
                began = time.perf_counter()
                answer = client.simulate_get(path)
                seconds = time.perf_counter() - began
                if answer.status_code != 200:
                    raise RuntimeError(f"{path}: {answer.status}: {answer.text[:500]}")
                bench.add(f"actions_page_ms.{text}.{database}", seconds * 1000)
    reader.close()
    store.close()


def actions_list(bench: Bench) -> None:
    """Pages of 100 out of a million actions by order and filter, first and last."""
    for database in ("SQLite", *SERVERS):
        bench.say(f"a million actions: {database}")
        try:
            with fresh_database(bench, database) as url:
                _measure(bench, database, url)
        except HeatliteError as error:
            bench.say(f"  not measured: {error.message}")
