"""Reasons of a large stack that is well, and of one that has failed."""

import time
from collections.abc import Callable

from msgspec.structs import replace

from benchmarks.cases import Bench
from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord

RESOURCES = 10_000
FAILED = 100
LOOKS = 50


def why(bench: Bench) -> None:
    """Measure the reasons of a stack, in milliseconds of a processor."""
    server = wiring.api(Settings(database=f"sqlite:///{bench.new_folder()}/heat.db"))
    store, now = server.store, time.time()
    stack = StackRecord("s", "s", "p", "mia", "t", {}, Verb.CREATE, Status.COMPLETE, "", now)
    kind = "OS::Heat::Value"
    rows = [
        ResourceRecord(
            f"{number:05}", "s", f"r{number}", kind, kind, Verb.CREATE, Status.COMPLETE, "state changed", now,
            physical_id=str(number), properties={"value": "v" * 200},
        )
        for number in range(RESOURCES)
    ]
    with store.transaction():
        store.stacks.insert(stack)
        store.resources.insert_many(rows)
    reasons, caller = server.components.reasons, Context("p")
    _measure(bench, "why_well", lambda: reasons.of_stack(caller, stack))
    with store.transaction():
        failed = [replace(row, status=Status.FAILED, status_reason="no space") for row in rows[:FAILED]]
        store.resources.save_many(failed)
        waiting = ActionRecord("a", "s", "s", "p", Verb.CHECK, ActionStatus.INIT, "mia", now)
        store.queue.enqueue(waiting)
    _measure(bench, "why_failed", lambda: reasons.of_stack(caller, stack))
    server.close()


def _measure(bench: Bench, name: str, look: Callable[[], object]) -> None:
    for _ in range(LOOKS):
        began = time.thread_time()
        look()
        bench.add(name, (time.thread_time() - began) * 1000)
