"""R, the floor: the same rows and events straight into SQLite, without engine.

Our tables and our durability (WAL, synchronous=FULL); everything else is independent of heatlite: prepared statements,
200 rows to a commit. Each resource has 4 state writes (made, in progress, physical id, complete) and 2 events.
"""

import sqlite3
import time
from pathlib import Path

from heatlite.store.store import Store

ROWS_PER_COMMIT = 200

INSERT = (
    "INSERT INTO resource (id, stack_id, name, type, mapped_type, verb, status, status_reason, created_at, updated_at,"
    " physical_name, physical_id, properties, metadata, data, token, requires, uses, deletion_policy,"
    " description, before_lock)"
    " VALUES (?, ?, ?, 'OS::Heat::Value', 'OS::Heat::Value', 'INIT', 'COMPLETE', '', ?, NULL, ?, NULL, ?, '{}', '{}',"
    " NULL, '[]', '[]', 'Delete', '', NULL)"
)
STATE = "UPDATE resource SET verb = 'CREATE', status = ?, status_reason = ?, updated_at = ? WHERE id = ?"
PHYSICAL = "UPDATE resource SET physical_id = ?, updated_at = ? WHERE id = ?"
EVENT = (
    "INSERT INTO event (stack_id, resource_name, resource_type, physical_id, verb, status, status_reason, created_at,"
    " properties) VALUES (?, ?, 'OS::Heat::Value', ?, 'CREATE', ?, 'state changed', ?, ?)"
)


def seconds(count: int, folder: Path) -> float:
    """Seconds of the life of `count` resources up to COMPLETE.

    With a folder, all calls use one database.
    """
    path = folder / "floor.db"
    if not path.exists():
        store = Store.open(f"sqlite:///{path}")
        store.upgrade()
        store.close()
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA synchronous = full")
        began = time.perf_counter()
        for start in range(0, count, ROWS_PER_COMMIT):
            _write(connection, range(start, min(start + ROWS_PER_COMMIT, count)), f"{time.time_ns():027d}")
        return time.perf_counter() - began
    finally:
        connection.close()


def _write(connection: sqlite3.Connection, numbers: range, run: str) -> None:
    stack, now, text = f"{run}-00000000", time.time(), "state changed"
    rows = [(f"{run}-{number:08d}", f"r{number}", f"s-r{number}-x", f'{{"value":"v{number}"}}') for number in numbers]
    _commit(connection, (INSERT, [(key, stack, name, now, real, given) for key, name, real, given in rows]))
    _commit(
        connection,
        (STATE, [("IN_PROGRESS", text, now, key) for key, _, _, _ in rows]),
        (EVENT, [(stack, name, None, "IN_PROGRESS", now, given) for _, name, _, given in rows]),
    )
    _commit(connection, (PHYSICAL, [(real, now, key) for key, _, real, _ in rows]))
    _commit(
        connection,
        (STATE, [("COMPLETE", text, now, key) for key, _, _, _ in rows]),
        (EVENT, [(stack, name, real, "COMPLETE", now, given) for _, name, real, given in rows]),
    )


def _commit(connection: sqlite3.Connection, *batches: tuple[str, list[tuple[object, ...]]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for sql, rows in batches:
        connection.executemany(sql, rows)
    connection.execute("COMMIT")
