"""Actions as tasks in the thread pool of a Celery worker, without a broker."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from heatlite.core.config import Settings
from heatlite.core.status import ActionStatus, Kind, Verb
from heatlite.store.records import ActionRecord

pytest.importorskip("celery", reason="celery is not installed (extra `distributed`)")

from celery.app.trace import build_tracer, setup_worker_optimizations
from celery.concurrency.thread import TaskPool
from celery.worker import state

from heatlite.engine.dispatch.distributed import SPARE_THREADS, TASK, application
from heatlite.engine.dispatch.program import CelerySlots

SECONDS = 240


@dataclass
class Controller:
    """The parts of a Celery worker that slots use."""

    app: Any
    pool: Any
    hostname: str = "worker@test"
    consumer: Any = field(default_factory=lambda: SimpleNamespace(event_dispatcher=None))


@pytest.fixture
def slots() -> Iterator[CelerySlots]:
    """Two slots."""
    settings = Settings("sqlite:///unused", worker_zone="north")
    app = application(settings, "memory://")
    pool = TaskPool(2 + SPARE_THREADS, app=app)
    pool.start()
    made: list[CelerySlots] = []

    @app.task(name=TASK, shared=False)  # type: ignore[untyped-decorator]  # Celery has no types
    def take(action_id: str, **_shown: str) -> None:
        made[0].perform(action_id, lambda: taken.append(action_id))

    setup_worker_optimizations(app, "worker@test")
    task = app.tasks[TASK]
    task.__trace__ = build_tracer(TASK, task, app.loader, "worker@test", app=app)
    made.append(CelerySlots(Controller(app, pool), settings, task))
    taken.clear()
    state.reset_state()
    yield made[0]
    made[0].close()
    pool.stop()
    state.reset_state()


taken: list[str] = []


def action(action_id: str) -> ActionRecord:
    return ActionRecord(action_id, "stack", "stack", "demo", Verb.CREATE, ActionStatus.RUNNING, "anybody", 0.0)


def test_as_many_run_as_there_are_slots_and_a_spare_thread_takes_messages(slots: CelerySlots) -> None:
    begun, goes_on = threading.Semaphore(0), threading.Event()
    ran: list[str] = []

    def call(name: str) -> None:
        begun.release()
        assert goes_on.wait(SECONDS)
        ran.append(name)

    for name in "abc":
        slots.submit(action(name), lambda name=name: call(name))  # type: ignore[misc]
    assert slots.limit == 2
    assert begun.acquire(timeout=SECONDS)
    assert begun.acquire(timeout=SECONDS)
    assert {one.id for one in state.active_requests} == {"a", "b"}
    assert not begun.acquire(blocking=False), "the third waits"
    arrived = slots._controller.pool.apply_async(slots.perform, ("message", lambda: taken.append("message")))
    arrived.wait(SECONDS)
    assert taken == ["message"]
    goes_on.set()
    assert begun.acquire(timeout=SECONDS)
    slots.close()
    assert sorted(ran) == ["a", "b", "c"]


def test_a_revoked_action_runs_nevertheless_since_it_has_to_stop_in_good_order(slots: CelerySlots) -> None:
    ran = threading.Event()
    state.revoked.add("a")
    slots.submit(action("a"), ran.set)
    assert ran.wait(SECONDS)
    assert list(slots.revoked()) == ["a"]
    slots.forget_revoked("a")
    assert list(slots.revoked()) == []


def test_a_task_that_celery_fails_does_not_keep_the_action_from_running(
    slots: CelerySlots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if `revoke --terminate` came between submission and start."""

    def fail(*_: object) -> None:
        raise NotImplementedError("threads cannot be killed")

    monkeypatch.setattr("celery.worker.request.Request.on_accepted", fail)
    ran = threading.Event()
    slots.submit(action("a"), ran.set)
    assert ran.wait(SECONDS)
    slots.close()


def test_a_fault_of_a_call_frees_its_slot(slots: CelerySlots) -> None:
    def fail() -> None:
        raise RuntimeError("a fault of ours")

    for name in "abc":
        slots.submit(action(name), fail)
    ran = threading.Event()
    slots.submit(action("d"), ran.set)
    assert ran.wait(SECONDS)


def test_closed_slots_run_nothing_more(slots: CelerySlots) -> None:
    slots.close()
    slots.submit(action("a"), lambda: taken.append("a"))
    slots.perform("b", lambda: taken.append("b"))
    assert taken == []


def test_queues_are_the_kinds_and_zones_to_claim(slots: CelerySlots) -> None:
    queues = slots._controller.app.amqp.queues
    assert (slots.claim_filter.kinds, slots.claim_filter.zones) == ({Kind.STACK, Kind.CHECK}, {"north"})
    queues.select(["heatlite.check", "heatlite.check.south"])
    assert (slots.claim_filter.kinds, slots.claim_filter.zones) == ({Kind.CHECK}, {"south"})
    queues.select([])
