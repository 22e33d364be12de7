"""Windows: cron lines, zones, and the changes of clocks."""

from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from heatlite.features.healing.rules.windows import Window, next_start, opened_at, parse_cron
from tests.tables import table


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def window(cron: str, zone: str = "UTC", duration: int = 3600) -> Window:
    return Window(parse_cron(cron), duration, ZoneInfo(zone))


STARTS = [
    ("0 2 * * sat", "UTC", "2026-11-22T12:00+00:00", "2026-11-28T02:00+00:00"),
    ("0 2 * * sat", "Europe/Vienna", "2026-11-22T12:00+00:00", "2026-11-28T01:00+00:00"),
    ("*/20 * * * *", "UTC", "2026-11-22T12:00+00:00", "2026-11-22T12:20+00:00"),
    ("0 0 29 2 *", "UTC", "2026-11-22T12:00+00:00", "2028-02-29T00:00+00:00"),
    ("0 0 1,15 * mon", "UTC", "2026-11-22T12:00+00:00", "2026-11-23T00:00+00:00"),
    ("0 0 1,15 * *", "UTC", "2026-11-22T12:00+00:00", "2026-12-01T00:00+00:00"),
    ("30 8-10/2 * jan-mar 1-5", "UTC", "2026-11-22T12:00+00:00", "2027-01-01T08:30+00:00"),
    ("0 0 * * 7", "UTC", "2026-11-22T12:00+00:00", "2026-11-29T00:00+00:00"),
    # Clocks skip the time: the first moment after the gap.
    ("30 2 29 3 *", "Europe/Vienna", "2026-03-28T12:00+00:00", "2026-03-29T03:00+02:00"),
    ("30 2 8 3 *", "America/New_York", "2026-03-07T12:00+00:00", "2026-03-08T03:00-04:00"),
    ("15 2 4 10 *", "Australia/Lord_Howe", "2026-10-03T00:00+00:00", "2026-10-04T02:30+11:00"),
    # Clocks show the time twice: the first of both.
    ("30 2 25 10 *", "Europe/Vienna", "2026-10-24T12:00+00:00", "2026-10-25T02:30+02:00"),
    ("30 1 1 11 *", "America/New_York", "2026-10-31T12:00+00:00", "2026-11-01T01:30-04:00"),
    ("45 1 5 4 *", "Australia/Lord_Howe", "2026-04-04T00:00+00:00", "2026-04-05T01:45+11:00"),
]


@table(("cron", "zone", "now", "start"), STARTS)
def test_the_next_start(cron: str, zone: str, now: str, start: str) -> None:
    assert window(cron, zone).next_start(at(now)) == at(start)


@table(("cron", "zone", "now", "start"), STARTS)
def test_it_is_open_from_the_start_for_its_duration(cron: str, zone: str, now: str, start: str) -> None:
    opens, begin = window(cron, zone, 600), at(start)
    assert [opens.opened_at(begin + after) == begin for after in (-1, 0, 599, 600)] == [False, True, True, False]


CHANGES = [
    ("Europe/Vienna", "2026-03-29"), ("Europe/Vienna", "2026-10-25"), ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"), ("Australia/Lord_Howe", "2026-10-04"), ("Australia/Lord_Howe", "2026-04-05"),
]  # fmt: skip
CRONS = ("30 2 * * *", "15 1,2,3 * * *", "*/30 * * * *", "0 0 * * *", "45 1 * * sun", "0-59/20 2 * * sat,sun")


@cache
def minutes(zone: str, begin: int, end: int) -> list[tuple[int, datetime]]:
    """Return each minute with the time that clocks of the zone show."""
    local = ZoneInfo(zone)
    moments = range(begin, end, 60)
    return [(moment, datetime.fromtimestamp(moment, local).replace(tzinfo=None, fold=0)) for moment in moments]


def starts_by_minutes(cron: str, zone: str, begin: int, end: int) -> set[int]:
    """Return the starts by the rule.

    A start is the first minute that shows a time, or the first one after the gap.
    """
    read, shown = parse_cron(cron), minutes(zone, begin, end)
    first: dict[datetime, int] = {}
    for moment, local in shown:
        first.setdefault(local, moment)
    found, wanted, last = set[int](), shown[0][1], shown[-1][1]
    while wanted <= last:
        if read.on(wanted.date()) and wanted.hour in read.hours and wanted.minute in read.minutes:
            found.add(first.get(wanted) or next(moment for moment, local in shown if local > wanted))
        wanted += timedelta(minutes=1)
    return found


@pytest.mark.full
@table(("zone", "day", "cron"), [(zone, day, cron) for zone, day in CHANGES for cron in CRONS])
def test_starts_around_each_change_of_the_clock(zone: str, day: str, cron: str) -> None:
    noon, opens = int(at(f"{day}T12:00+00:00")), window(cron, zone, 60)
    begin, end = noon - 36 * 3600, noon + 36 * 3600
    expected = {one for one in starts_by_minutes(cron, zone, begin - 86400, end + 86400) if begin < one <= end}
    found, moment = set[int](), float(begin)
    while (moment := opens.next_start(moment) or float("inf")) <= end:
        found.add(int(moment))
    assert found == expected
    assert all(opens.opened_at(start) == start for start in found)


def test_a_time_that_occurs_twice_opens_once() -> None:
    vienna = window("30 2 25 10 *", "Europe/Vienna")
    assert vienna.opened_at(at("2026-10-25T02:30+01:00")) is None
    assert vienna.next_start(at("2026-10-25T02:30+02:00")) == at("2027-10-25T02:30+02:00")


def test_a_long_window_is_open_for_days() -> None:
    long = window("0 0 * * mon", duration=604_800)
    assert long.opened_at(at("2026-11-22T23:59:59+00:00")) == at("2026-11-16T00:00+00:00")


def test_of_several_windows_one_is_enough() -> None:
    windows = [window("0 2 * * sat"), window("0 3 * * sun", duration=60)]
    assert opened_at(windows, at("2026-11-22T03:00:30+00:00")) == at("2026-11-22T03:00+00:00")
    assert next_start(windows, at("2026-11-22T03:00:30+00:00")) == at("2026-11-28T02:00+00:00")
    assert opened_at([], 0.0) is None and next_start([], 0.0) is None


@table(
    ("cron", "opens"),
    [
        ("0 0 30 2 *", False), ("0 0 30,31 2 *", False), ("0 0 31 2,4,6,9,11 *", False), ("0 0 31 apr */2", False),
        ("0 0 29 2 *", True), ("0 0 29-31 2 *", True), ("0 0 31 4,5 *", True), ("0 0 */30 2 *", True),
        ("0 0 30 2 sat", True), ("0 2 * * sat", True), ("* * * * *", True),
    ],
)  # fmt: skip
def test_a_day_that_never_comes_has_no_start(cron: str, opens: bool) -> None:
    assert parse_cron(cron).ever_starts is opens
    assert (window(cron).next_start(0.0) is not None) is opens


@table(
    "cron",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *",
     "*/0 * * * *", "* * * * foo", "1-a * * * *", "*-5 * * * *", "1,,2 * * * *", "-1 * * * *"],
)  # fmt: skip
def test_a_line_that_is_no_cron_is_refused(cron: str) -> None:
    with pytest.raises(ValueError, match="cron"):
        parse_cron(cron)
