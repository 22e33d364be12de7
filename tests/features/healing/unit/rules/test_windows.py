"""Windows: cron lines, zones, and the changes of clocks."""

from datetime import datetime

from heatlite.features.healing.rules.windows import Window, next_start, opened_at, read_window
from tests.tables import table


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def window(cron: str, zone: str = "UTC", duration: int = 3600) -> Window:
    return read_window(cron, zone, duration)


STARTS = [
    ("0 2 * * sat", "UTC", "2026-11-22T12:00+00:00", "2026-11-28T02:00+00:00"),
    ("0 2 * * sat", "Europe/Vienna", "2026-11-22T12:00+00:00", "2026-11-28T01:00+00:00"),
    ("*/20 * * * *", "UTC", "2026-11-22T12:00+00:00", "2026-11-22T12:20+00:00"),
    # Clocks skip the time: the first moment after the gap.
    ("30 2 29 3 *", "Europe/Vienna", "2026-03-28T12:00+00:00", "2026-03-29T03:00+02:00"),
    ("30 2 8 3 *", "America/New_York", "2026-03-07T12:00+00:00", "2026-03-08T03:00-04:00"),
    ("15 2 4 10 *", "Australia/Lord_Howe", "2026-10-03T00:00+00:00", "2026-10-04T02:30+11:00"),
    # Clocks show the time twice: the first of both.
    ("30 2 25 10 *", "Europe/Vienna", "2026-10-24T12:00+00:00", "2026-10-25T02:30+02:00"),
    ("30 1 1 11 *", "America/New_York", "2026-10-31T12:00+00:00", "2026-11-01T01:30-04:00"),
    # Of a line with a wildcard, too.
    ("30 * 29 3 *", "Europe/Vienna", "2026-03-29T01:00+01:00", "2026-03-29T01:30+01:00"),
    ("30 * 29 3 *", "Europe/Vienna", "2026-03-29T01:30+01:00", "2026-03-29T03:00+02:00"),
    ("*/30 * 25 10 *", "Europe/Vienna", "2026-10-25T02:30+02:00", "2026-10-25T03:00+01:00"),
    ("45 1 5 4 *", "Australia/Lord_Howe", "2026-04-04T00:00+00:00", "2026-04-05T01:45+11:00"),
]


@table(("cron", "zone", "now", "start"), STARTS)
def test_the_next_start(cron: str, zone: str, now: str, start: str) -> None:
    assert window(cron, zone).cron.next_after(at(now)) == at(start)


@table(("cron", "zone", "now", "start"), STARTS)
def test_it_is_open_from_the_start_for_its_duration(cron: str, zone: str, now: str, start: str) -> None:
    opens, begin = window(cron, zone, 600), at(start)
    assert [opens.opened_at(begin + after) == begin for after in (-1, 0, 599, 600)] == [False, True, True, False]


def test_a_time_that_occurs_twice_opens_once() -> None:
    vienna = window("30 2 25 10 *", "Europe/Vienna")
    assert vienna.opened_at(at("2026-10-25T02:30+01:00")) is None
    assert vienna.cron.next_after(at("2026-10-25T02:30+02:00")) == at("2027-10-25T02:30+02:00")


def test_a_long_window_is_open_for_days() -> None:
    long = window("0 0 * * mon", duration=604_800)
    assert long.opened_at(at("2026-11-22T23:59:59+00:00")) == at("2026-11-16T00:00+00:00")


def test_of_several_windows_one_is_enough() -> None:
    windows = [window("0 2 * * sat"), window("0 3 * * sun", duration=60)]
    assert opened_at(windows, at("2026-11-22T03:00:30+00:00")) == at("2026-11-22T03:00+00:00")
    assert next_start(windows, at("2026-11-22T03:00:30+00:00")) == at("2026-11-28T02:00+00:00")
    assert opened_at([], 0.0) is None and next_start([], 0.0) is None
