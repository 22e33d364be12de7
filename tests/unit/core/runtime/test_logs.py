"""Ids in log lines, and one line for each record."""

import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime import logs


class Lines(logging.Handler):
    """Keeps what would be written."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.addFilter(logs.CarryIds())
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def written() -> Iterator[list[dict[str, object]]]:
    """Return the JSON record of the logger ``my.plugin``."""
    handler, log = Lines(logs.JSONFormatter()), logging.getLogger("my.plugin")
    found: list[dict[str, object]] = []
    handler.emit = lambda record: found.append(json.loads(handler.format(record)))  # type: ignore[method-assign]
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield found
    log.removeHandler(handler)


log = logging.getLogger("my.plugin")


def ids(line: dict[str, object]) -> dict[str, object]:
    return {name: line[name] for name in logs.IDS if name in line}


def test_records_carry_what_they_are_about(written: list[dict[str, object]]) -> None:
    log.info("before")
    with logs.about(action_id="a", stack_id="s", request_id=None):
        log.info("outside")
        with pytest.raises(ValueError, match="fails"), logs.about(resource="db", stack_id="nested"):
            log.info("inside")
            raise ValueError("fails")
        log.info("outside again")
        log.info("given", extra={"action_id": "another"})
    log.info("after")
    assert [ids(line) for line in written] == [
        {},
        {"action_id": "a", "stack_id": "s"},
        {"action_id": "a", "stack_id": "nested", "resource": "db"},
        {"action_id": "a", "stack_id": "s"},
        {"action_id": "another", "stack_id": "s"},
        {},
    ]


def test_a_request_inherits_nothing_and_leaves_nothing(written: list[dict[str, object]]) -> None:
    """Requests follow each other in a thread; an inner one restores the ids."""
    with logs.about(action_id="left behind"):
        outer = logs.begin(request_id="req-1", global_request_id="req-0")
        inner = logs.begin(request_id="req-2", global_request_id=None)
        log.info("replayed")
        logs.end(inner)
        log.info("the request")
        logs.end(outer)
    log.info("unowned")
    assert [ids(line) for line in written] == [
        {"request_id": "req-2"},
        {"request_id": "req-1", "global_request_id": "req-0"},
        {},
    ]


def test_threads_work_for_whom_they_are_asked_by(written: list[dict[str, object]]) -> None:
    """Each call has the ids of its own caller, though one thread makes them all."""
    with logs.LoggingPool(1) as pool, ThreadPoolExecutor(8) as callers:

        def ask(number: int) -> None:
            with logs.about(action_id=str(number)):
                assert [*pool.map(lambda text: log.info("%s", text), [number, number])] == [None, None]

        assert len([*callers.map(ask, range(40))]) == 40
        pool.submit(log.info, "unowned").result()
    assert len(written) == 81
    assert ids(written.pop()) == {}
    assert all(ids(line) == {"action_id": line["message"]} for line in written)


def test_a_thread_of_its_own_has_no_ids(written: list[dict[str, object]]) -> None:
    with logs.about(action_id="a"):
        thread = threading.Thread(target=log.info, args=("elsewhere",))
        thread.start()
        thread.join()
    assert ids(written[0]) == {}


def a_record(message: str, **more: object) -> logging.LogRecord:
    record = logging.LogRecord("my.plugin", logging.WARNING, __file__, 1, message, (), None)
    record.created = 1_800_000_000.25
    record.__dict__.update(more)
    return record


ANYTHING = st.text(st.characters(exclude_categories=()))


@given(ANYTHING, ANYTHING, ANYTHING)
def test_a_record_is_one_line_of_json(message: str, stack: str, name: str) -> None:
    line = logs.JSONFormatter().format(a_record(message, stack_id=stack, resource=name))
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == {
        "time": "2027-01-15T08:00:00.250Z",
        "level": "WARNING",
        "logger": "my.plugin",
        "message": message,
        "stack_id": stack,
        "resource": name,
        "process": a_record("").process,
    }


def test_a_traceback_is_text_within_the_line(written: list[dict[str, object]]) -> None:
    try:
        raise LookupError("what went wrong")
    except LookupError:
        log.exception("it failed")
    shown = str(written[0]["exception"])
    assert shown.startswith("Traceback (most recent call last):\n")
    assert shown.endswith("\nLookupError: what went wrong")
    assert datetime.fromisoformat(str(written[0]["time"])).tzinfo is UTC


@given(ANYTHING)
def test_no_id_breaks_a_line_of_text(name: str) -> None:
    line = logs.TextFormatter().format(a_record("message", request_id="req-1", resource=name))
    assert len(line.splitlines()) == 1
    assert line.endswith("] message")


@given(ANYTHING)
def test_no_text_of_a_user_breaks_a_line_of_text(name: str) -> None:
    record = a_record("signal to %s", request_id="req-1")
    record.args = (name,)
    line = logs.TextFormatter().format(record)
    assert len(line.splitlines()) == 1
    assert line.endswith(f"signal to {name}") or not name.isprintable()


def test_a_traceback_stays_as_it_is_written() -> None:
    record = a_record("it\nfailed", request_id="req-1")
    record.exc_text = "Traceback\n  line"
    assert logs.TextFormatter().format(record).endswith("it\\nfailed\nTraceback\n  line")


def test_text_shows_the_ids_that_there_are() -> None:
    def shown(**more: object) -> str:
        return logs.TextFormatter().format(a_record("message", **more)).partition("[WARNING] ")[2]

    assert shown() == "message"
    assert shown(request_id="req-1", stack_id="s") == "[request_id=req-1 stack_id=s] message"


def test_an_unexpected_error_is_logged_and_ends_there(caplog: pytest.LogCaptureFixture) -> None:
    with logs.logged(logging.getLogger("a"), "%s has failed", "it") as work:
        raise ValueError("why")
    assert work.failed
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [("ERROR", "it has failed")]
    assert "ValueError: why" in caplog.text


@pytest.mark.parametrize("error", [DatabaseUnavailable(reason="away"), KeyboardInterrupt()])
def test_a_foreseen_error_and_the_end_of_a_process_leave(
    caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    work = logs.logged(logging.getLogger("a"), "it has failed")
    with pytest.raises(type(error)), work:
        raise error
    assert not work.failed
    assert caplog.records == []


def test_work_without_an_error_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with logs.logged(logging.getLogger("a"), "it has failed") as work:
        pass
    assert not work.failed
    assert caplog.records == []
