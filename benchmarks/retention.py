"""Deletion of a million old events beside running work."""

import time

from benchmarks.actions import installation
from benchmarks.cases import Bench
from benchmarks.lifecycle import Stack, template
from heatlite.core.ids import random_id
from heatlite.store.database.database import Database

EVENTS = 1_000_000
BATCH = 100_000
DAYS = 400
"""Age of the events, beyond the default limit of their age."""
INSERT = (
    "INSERT INTO event (stack_id, resource_name, resource_type, physical_id, verb, status, status_reason, created_at,"
    " properties) WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?)"
    " SELECT ?, 'r' || x, 'OS::Heat::Value', '', 'CREATE', 'COMPLETE', '', ?, '{}' FROM n"
)


def retention(bench: Bench) -> None:
    """Measure the deletion of a million events, and creates beside it.

    The old events are the first ones, as events are stored by age.
    """
    with installation(bench, "SQLite", None) as running:
        database = Database(running.database)
        bench.say(f"{EVENTS} old events")
        stack_id, old = random_id(), time.time() - DAYS * 86_400
        for _ in range(EVENTS // BATCH):
            with database.transaction():
                database.write(INSERT, (BATCH, stack_id, old))
        began = time.perf_counter()
        while database.read("SELECT 1 FROM event WHERE stack_id = ? LIMIT 1", (stack_id,)):
            bench.add("create_beside_retention", Stack(running.client, bench.new_name()).create(template(10)))
            time.sleep(0.05)
        bench.add("retention_seconds", time.perf_counter() - began)
        for _ in range(20):
            bench.add("create_after_retention", Stack(running.client, bench.new_name()).create(template(10)))
        database.close()
