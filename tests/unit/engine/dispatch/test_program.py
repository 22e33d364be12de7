"""Reports of a worker program about records of Celery."""

import logging
import sys

import pytest

pytest.importorskip("celery", reason="celery is not installed (extra `distributed`)")

from celery import bootsteps
from celery.worker import loops, request
from celery.worker.consumer import consumer

from heatlite.engine.dispatch.program import OUTAGE_LOGGERS, Outages


def record(level: int, text: str, error: Exception | None = None) -> logging.LogRecord:
    info = None
    if error is not None:
        try:
            raise error
        except Exception:  # noqa: BLE001 - any
            info = sys.exc_info()
    return logging.LogRecord("celery", level, __file__, 1, text, None, info)


@pytest.mark.parametrize(
    ("text", "error", "is_shown"),
    [
        ("Couldn't ack 7", BrokenPipeError(32, "Broken pipe"), False),
        ("Error cleaning up after event loop", ConnectionResetError(104, "reset"), False),
        ("Error on stopping Hub", ConnectionResetError(104, "reset"), False),
        ("Error on stopping Hub", ValueError("something else"), True),
        ("Couldn't ack 7", None, True),
        ("Frequent restarts detected", None, False),
    ],
)
def test_what_follows_from_an_outage_is_not_reported(text: str, error: Exception | None, is_shown: bool) -> None:
    assert Outages((ConnectionError,)).filter(record(logging.CRITICAL, text, error)) is is_shown


def test_a_warning_of_a_lost_connection_stays() -> None:
    assert Outages((ConnectionError,)).filter(record(logging.WARNING, "lost", ConnectionResetError()))


def test_celery_reports_outages_by_these_loggers() -> None:
    modules = (bootsteps, consumer, loops, request)
    assert sorted(one.logger.name for one in modules) == sorted(OUTAGE_LOGGERS)
