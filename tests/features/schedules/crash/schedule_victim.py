"""A process that begins what is due, and ends itself at a chosen commit."""

import os
import time
from datetime import UTC, datetime

from msgspec.structs import replace

from heatlite.core.clock import DAY
from heatlite.features.schedules.due import next_due
from heatlite.features.schedules.operations import WantedSchedule
from heatlite.features.schedules.parts import Schedules
from heatlite.features.schedules.store.records import ScheduledTask, ScheduleRecord
from heatlite.features.schedules.store.store import SchedulesStore
from heatlite.wiring import Embedded
from tests.crash.fast_engine import LEASE, FastClock, count_transactions, start
from tests.crash.scenarios import CALLER, create, file, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb
from tests.databases import whole

TASKS = {"sleep": ScheduledTask.SUSPEND, "look": ScheduledTask.CHECK}


def prepare(database: str, files: str) -> None:
    """Make the stack with paused schedules, and end without a connection."""
    os.environ["EXAMPLE_FILES"] = files
    store = whole(database)
    store.upgrade()
    store.close()
    server = start(database, LEASE)
    create(server, template(a=file("a", slow=0)))
    settle(server)
    month = datetime.fromtimestamp(FastClock().now() - 40 * DAY, UTC).month
    for name, task in TASKS.items():
        wanted = WantedSchedule(
            name, f"0 0 1 {month} *", "UTC", task, {}, 60, enabled=False, starts_at=None, ends_at=None
        )
        server.components.of(Schedules).operations.add(CALLER, stack_of(server), wanted)
    server.close()
    os._exit(0)


def of_stack(server: Embedded) -> dict[str, ScheduleRecord]:
    """The schedules, by name."""
    return {one.name: one for one in server.store.of(SchedulesStore).of_stack(stack_of(server).id)}


def fall_due(server: Embedded) -> None:
    """Enable the schedules, as if they had been so for a year without an engine."""
    rows = server.store.of(SchedulesStore)
    for record in of_stack(server).values():
        if not record.enabled:
            since = FastClock().now() - 370 * DAY
            due = replace(record, enabled=True, since=since)
            with server.store.transaction():
                rows.replace(replace(due, next_at=next_due(due)))


def end(server: Embedded) -> None:
    """Wait until the engine has ended all occurrences, and nothing runs."""
    until = time.monotonic() + 240
    while found := [name for name, one in of_stack(server).items() if one.last is None]:
        assert time.monotonic() < until, found
        time.sleep(0.01)
    settle(server)


def victim(database: str, files: str, commits: int, lease: float = 1e9) -> None:
    """Let the schedules fall due, and die before the chosen commit.

    Exits with SURVIVED if that commit is never reached.
    """
    os.environ["EXAMPLE_FILES"] = files
    server = start(database, lease)
    count_transactions()
    bomb.arm(commits, after=False)
    fall_due(server)
    end(server)
    os._exit(SURVIVED)
