"""Reports of a worker program about records of Celery."""

import logging
import sys

import pytest

pytest.importorskip("celery", reason="celery is not installed (extra `distributed`)")

from heatlite.core.config import Settings
from heatlite.core.status import WorkKind
from heatlite.engine.dispatch.program import Outages, WorkerProgram
from tests.tables import table


def record(name: str, text: str, error: Exception | None = None) -> logging.LogRecord:
    info = None
    if error is not None:
        try:
            raise error
        except Exception:  # noqa: BLE001 - any
            info = sys.exc_info()
    return logging.LogRecord(name, logging.ERROR, __file__, 1, text, None, info)


def connected() -> Outages:
    made = Outages((ConnectionError,))
    made.ended()
    return made


@table(
    ("name", "text", "error", "is_shown"),
    [
        ("celery.worker.request", "Couldn't ack 7", BrokenPipeError(32, "Broken pipe"), False),
        ("celery.worker.consumer.consumer", "lost", ConnectionResetError(104, "reset"), False),
        ("celery.bootsteps", "Error on stopping Hub", ValueError("something else"), True),
        ("celery.worker.request", "Couldn't ack 7", None, True),
        ("heatlite.store", "lost", ConnectionResetError(104, "reset"), True),
    ],
)
def test_what_celery_says_of_a_lost_connection_is_not_shown(
    name: str, text: str, error: Exception | None, is_shown: bool
) -> None:
    assert connected().filter(record(name, text, error)) is is_shown


def test_an_outage_is_reported_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    outages = Outages((ConnectionError,))
    for _ in range(3):
        assert not outages.filter(record("celery.worker", "Cannot connect: refused.\nTrying again"))
    assert not outages.filter(record("kombu", "later", ConnectionResetError(104, "reset")))
    outages.ended()
    assert not outages.filter(record("celery.worker", "lost", ConnectionResetError(104, "reset")))
    assert not outages.filter(record("celery.worker", "Cannot connect: refused."))
    told = "cannot reach the broker; polling once a second meanwhile: "
    assert caplog.messages == [f"{told}Cannot connect: refused.", f"{told}[Errno 104] reset"]


def test_queues_are_the_kinds_and_zones_to_claim() -> None:
    """The option -Q selects them, as do `add_consumer` and `cancel_consumer`."""

    def unused(_: object) -> None:
        raise AssertionError

    program = WorkerProgram(Settings("sqlite:///unused", worker_zone="north"), "memory://", unused)  # type: ignore[arg-type]
    queues = program.app.amqp.queues
    found = program.claim_filter()
    assert (found.kinds, found.zones) == ({WorkKind.STACK, WorkKind.CHECK}, {"north"})
    queues.select(["heatlite.check", "heatlite.check.south"])
    found = program.claim_filter()
    assert (found.kinds, found.zones) == ({WorkKind.CHECK}, {"south"})
