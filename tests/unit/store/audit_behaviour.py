"""Rows of the audit log, on every database.

Test modules take these tests over; they bring `store`.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime.bulkhead import waits
from heatlite.core.runtime.timer import Timer
from heatlite.store import audit
from heatlite.store.audit import AuditOutcome, AuditQuery, AuditRecord
from heatlite.store.store import Store
from heatlite.store.writes import late_writes
from tests.waiting import eventually


@pytest.fixture
def timer(store: Store) -> Iterator[Timer]:
    """The timer that writes repeats."""
    made = Timer(Clock(), store.close)
    store.late_writes.use(made)
    yield made
    made.stop()


def record(number: int, **more: Any) -> AuditRecord:
    given: dict[str, Any] = {"user": None, "outcome": AuditOutcome.REFUSED, "status": 401, **more}
    return AuditRecord(
        request_id=f"req-{number}", project="demo", time=100.0 * number, user_id="", address=f"10.0.0.{number}",
        method="POST", path="/v1/demo/stacks", operation="stacks:create", **given,
    )  # fmt: skip


def test_a_row_is_committed_with_the_first_change(store: Store) -> None:
    entry = store.audit.begin(lambda: record(1, user="mary", outcome=AuditOutcome.DONE, status=None))
    with pytest.raises(ZeroDivisionError), store.transaction():
        raise ZeroDivisionError
    assert store.audit.page("demo", AuditQuery()) == []
    with store.transaction():
        assert store.audit.page("demo", AuditQuery()) == []
    assert [one.outcome for one in store.audit.page("demo", AuditQuery())] == [AuditOutcome.DONE]
    entry.close()
    with store.transaction():
        pass
    assert len(store.audit.page("demo", AuditQuery())) == 1


def test_refusals_without_a_caller_are_limited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_UNKNOWN", 3)
    for number in range(1, 6):
        store.audit.begin(partial(record, number)).close()
    store.audit.begin(lambda: record(0, user="mary", status=409)).close()
    assert sorted(store.audit.over_limit(10)) == ["req-1", "req-2"]
    with store.transaction():
        store.audit.remove(store.audit.over_limit(10))
    assert store.audit.over_limit(10) == []
    assert store.audit.older_than(301.0, 10) == ["req-0", "req-3"]


def test_equal_refusals_of_a_minute_are_counted(store: Store) -> None:
    def refused(number: int, time: float, **more: Any) -> AuditRecord:
        return replace(record(number, user="mary", status=409, **more), time=time, address="10.0.0.1")

    cases = [
        refused(1, 61.0), refused(2, 90.0), refused(3, 119.0), refused(4, 120.0), refused(5, 119.0, reason="another"),
        refused(6, 119.0, outcome=AuditOutcome.DONE),
    ]  # fmt: skip
    for case in cases:
        store.audit.begin(partial(replace, case)).close()
    found = store.audit.page("demo", AuditQuery())
    assert [(one.request_id, one.times, one.last_time) for one in found] == [
        ("req-4", 1, 120.0), ("req-6", 1, 119.0), ("req-5", 1, 119.0), ("req-1", 3, 119.0)
    ]  # fmt: skip


def test_the_last_request_is_the_one_that_was_repeated_last(store: Store) -> None:
    requests = [
        record(1, user="mary", status=409, stack_id="s"),
        record(2, user="mary", status=None, stack_id="s", outcome=AuditOutcome.DONE),
        record(3, user="mary", status=409, stack_id="s"),
    ]
    for second, one in enumerate(requests):
        store.audit.begin(partial(replace, one, time=120.0 + second, address="10.0.0.1")).close()
    store.audit.flush()
    last = store.audit.last_of_stack("demo", "s", 0.0)
    assert last is not None
    assert (last.outcome, last.times, last.last_time) == (AuditOutcome.REFUSED, 2, 122.0)


@pytest.mark.usefixtures("timer")
def test_repeats_are_written_later(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeat neither reads nor writes; the log of this process shows it at once."""
    monkeypatch.setattr(late_writes, "WRITE_SECONDS", 3600.0)
    refused = [replace(record(1, user="kate", status=409), request_id=f"req-{number}") for number in range(5)]

    def stored() -> list[tuple[int]]:
        return list(store.database.read("SELECT times FROM audit"))

    with ThreadPoolExecutor(1) as pool:
        store.audit.begin(lambda: refused[0]).close()
        with store.transaction():
            pool.submit(lambda: store.audit.begin(lambda: refused[1]).close()).result()
    assert stored() == [(1,)]
    assert [one.times for one in store.audit.page("demo", AuditQuery())] == [2]
    for one in refused[2:4]:
        store.audit.begin(partial(replace, one)).close()
    assert stored() == [(2,)]
    store.late_writes.end()
    assert stored() == [(4,)]
    monkeypatch.setattr(late_writes, "WRITE_SECONDS", 0.0)
    store.audit.begin(lambda: refused[4]).close()
    eventually(lambda: stored() == [(5,)], "the repeat is written")


@pytest.mark.usefixtures("timer")
def test_a_repeat_is_kept_until_the_database_takes_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Event()

    def unavailable(_: AuditRecord) -> None:
        tried.set()
        raise DatabaseUnavailable(reason="full")

    monkeypatch.setattr(late_writes, "WRITE_SECONDS", 0.0)
    for number in (1, 2):
        store.audit.begin(lambda number=number: replace(record(1, user="luke"), request_id=f"r{number}")).close()  # type: ignore[misc]
        monkeypatch.setattr(store.audit, "insert", unavailable)
    assert tried.wait(240)
    store.late_writes.end()
    monkeypatch.undo()
    assert [one.times for one in store.audit.page("demo", AuditQuery())] == [2]


def test_a_reader_waits_for_repeats_that_another_thread_writes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def fail(_: AuditRecord) -> None:
        begun.set()
        assert goes_on.wait(240)
        raise DatabaseUnavailable(reason="full")

    monkeypatch.setattr(late_writes, "WRITE_SECONDS", 3600.0)
    for number in (1, 2):
        store.audit.begin(lambda number=number: replace(record(1, user="luke"), request_id=f"r{number}")).close()  # type: ignore[misc]
    monkeypatch.setattr(store.audit, "insert", fail)
    with ThreadPoolExecutor(1) as pool:
        writes = pool.submit(store.audit.flush)
        assert begun.wait(240)
        monkeypatch.undo()
        threading.Timer(0.1, goes_on.set).start()
        assert [one.times for one in store.audit.page("demo", AuditQuery())] == [2]
        with pytest.raises(DatabaseUnavailable):
            writes.result()
        pool.submit(store.database.close).result()


def test_refusals_beyond_the_cache_are_written_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_CACHED", 1)
    for turn, path in enumerate("abab"):
        row = replace(record(1, user="jane", status=409), request_id=f"r{turn}", path=path)
        store.audit.begin(partial(replace, row)).close()
    assert [one.times for one in store.audit.page("demo", AuditQuery())] == [2, 2]


def test_refusals_that_must_not_be_written_do_not_stay_in_memory(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that repeats one for days is refused by the event loop only."""
    monkeypatch.setattr(audit, "MAX_CACHED", 3)
    monkeypatch.setattr(late_writes, "WRITE_SECONDS", 3600.0)
    written: list[AuditRecord] = []
    insert = store.audit.insert
    monkeypatch.setattr(store.audit, "insert", lambda row: (written.append(row), insert(row)))
    for minute in range(8):
        row = replace(record(1, user="jane", status=409), request_id=f"r{minute}", time=minute * audit.REPEAT_SECONDS)
        with waits(allowed=False):
            store.audit.begin(partial(replace, row)).close()
        store.audit.flush()
    again = replace(row, request_id="r", time=0.0)
    store.audit.begin(partial(replace, again)).close()
    assert [len(written), written[-1]] == [9, again]  # it was forgotten, so it is written at once


def test_refusals_of_a_caller_have_a_number_of_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """At ever new paths, for ever new reasons, in all projects.

    Further ones are counted by operation and status.
    """
    monkeypatch.setattr(audit, "MAX_DISTINCT", 3)

    def refused(number: int, time: float = 3600.0, **more: Any) -> None:
        of = {"user": "mary", "status": 409, "project": f"p{number}", "path": f"/{number}", "reason": f"r{number}"}
        row = replace(record(number, user="mary"), **{"time": time + number / 10, **of, **more})
        store.audit.begin(lambda: row).close()

    def rows() -> dict[str, int]:
        return dict(store.database.read("SELECT request_id, times FROM audit"))

    refused(0, 3599.0)  # in the hour before
    for number in range(1, 40):
        refused(number)
    for number, operation, status in ((40, "x", 409), (41, "stacks:create", 403), (42, "x", 409)):
        refused(number, operation=operation, status=status)
    for number, other in enumerate(({"user": "rick"}, {"user_id": "another mary"}, {"outcome": AuditOutcome.DONE}), 50):
        refused(number, **other)
    refused(60, 7200.0)
    of_mary = {"req-0": 1, "req-1": 1, "req-2": 1, "req-3": 1, "req-4": 36, "req-40": 2, "req-41": 1, "req-60": 1}
    assert rows() == of_mary | {"req-50": 1, "req-51": 1, "req-52": 1}


def test_a_refusal_after_a_commit_is_counted_as_well(store: Store) -> None:
    def described(number: int, state: dict[str, Any]) -> AuditRecord:
        return replace(record(1, user="m", **state), request_id=f"req-{number}")

    for number in (1, 2):
        state = {"outcome": AuditOutcome.DONE, "status": None}
        entry = store.audit.begin(partial(described, number, state))
        with store.transaction():
            pass
        state |= {"outcome": AuditOutcome.REFUSED, "status": 409}
        entry.close()
    found = store.audit.page("demo", AuditQuery())
    assert [(one.outcome, one.status, one.times) for one in found] == [("refused", 409, 2)]


def test_a_request_within_a_request_keeps_its_own_row(store: Store) -> None:
    outer = store.audit.begin(partial(record, 1, user="m", status=None, outcome=AuditOutcome.DONE))
    inner = store.audit.begin(partial(record, 2, user="m", status=None, outcome=AuditOutcome.DONE))
    with store.transaction():
        pass
    inner.close()
    outer.close(is_kept=False)
    assert [one.request_id for one in store.audit.page("demo", AuditQuery())] == ["req-2"]


def test_equal_refusals_at_once_are_counted(store: Store) -> None:
    at_once, rounds = 8, 10
    barrier = threading.Barrier(at_once)

    def refuse(number: int) -> None:
        for turn in range(rounds):
            name, time = f"req-{turn}-{number}", 600.0 * turn
            barrier.wait(240)
            row = replace(record(1, user="mary", status=409), request_id=name, time=time)
            store.audit.begin(lambda row=row: row).close()  # type: ignore[misc]
        store.database.close()

    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(refuse, number) for number in range(at_once)]:
            done.result()
    assert [one.times for one in store.audit.page("demo", AuditQuery())] == [at_once] * rounds
