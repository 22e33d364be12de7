"""A sweep of an engine for due schedules, where there are many and none is due."""

import time

from benchmarks.cases import Bench
from heatlite.administration import open_store
from heatlite.core.clock import DAY
from heatlite.core.config import Settings
from heatlite.features.schedules.store.store import SchedulesStore

SCHEDULES = 10_000
SWEEPS = 500
INSERT = (
    "INSERT INTO schedule (id, project, stack_id, name, cron, timezone, task, options, window, enabled, created_by,"
    " author, since, next_at) WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?)"
    " SELECT 's' || x, 'p', 't' || (x / 10), 'n' || x, '0 20 * * *', 'UTC', 'suspend', '{}', 3600, 1, 'mia', '{}', ?,"
    " ? + x FROM n"
)


def schedules(bench: Bench) -> None:
    """Measure the sweep that each engine does every second.

    In milliseconds, and in percent of a processor.
    """
    now = time.time()
    store = open_store(Settings(database=f"sqlite:///{bench.new_folder()}/heat.db"))
    with store.transaction():
        store.database.write(INSERT, (SCHEDULES, now, now + DAY))
    due = store.of(SchedulesStore).due
    for _ in range(SWEEPS):
        began, used = time.perf_counter(), time.process_time()
        assert due(now) == []
        bench.add("schedules_sweep", (time.perf_counter() - began) * 1000)
        bench.add("schedules_processor_percent", (time.process_time() - used) * 100)
    store.close()
