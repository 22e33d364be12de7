"""Cron lines: fields, zones, and the changes of clocks."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from math import inf
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from heatlite.core.cron import Cron, read_cron, read_line, read_zone
from tests.tables import table


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def starts(cron: Cron, moment: float, count: int) -> list[str]:
    """Return the next starts as clocks of the zone show them."""
    found = list[str]()
    while len(found) < count:
        following = cron.next_after(moment)
        assert following is not None
        assert following > moment
        moment = following
        found.append(datetime.fromtimestamp(moment, cron.zone).isoformat(timespec="minutes"))
    return found


@table(
    ("line", "zone", "now", "expected"),
    [
        # Sleep and wake: the same time on clocks before and after each change.
        ("0 20 * * mon-fri", "Europe/Vienna", "2026-10-23T12:00+00:00",
         ["2026-10-23T20:00+02:00", "2026-10-26T20:00+01:00", "2026-10-27T20:00+01:00"]),
        ("0 7 * * *", "Europe/Vienna", "2027-03-27T00:00+00:00",
         ["2027-03-27T07:00+01:00", "2027-03-28T07:00+02:00", "2027-03-29T07:00+02:00"]),
        ("0 20 * * *", "Asia/Kathmandu", "2026-11-29T00:00+00:00",
         ["2026-11-29T20:00+05:45", "2026-11-30T20:00+05:45"]),
        ("0 7 * * *", "Australia/Lord_Howe", "2026-10-02T21:00+00:00",
         ["2026-10-04T07:00+11:00", "2026-10-05T07:00+11:00"]),
        ("0 7 * * *", "Pacific/Apia", "2011-12-28T20:00+00:00",
         ["2011-12-29T07:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T07:00+14:00"]),
        # A time that clocks skip is the first moment after the gap.
        ("30 2 * * *", "Europe/Vienna", "2027-03-27T00:00+00:00",
         ["2027-03-27T02:30+01:00", "2027-03-28T03:00+02:00", "2027-03-29T02:30+02:00"]),
        ("0,30 2 * * *", "Europe/Vienna", "2027-03-27T12:00+00:00",
         ["2027-03-28T03:00+02:00", "2027-03-29T02:00+02:00"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00+00:00",
         ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"]),
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T00:00+00:00",
         ["2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00"]),
        # A time that they show twice is the first.
        ("30 2 * * *", "Europe/Vienna", "2026-10-24T12:00+00:00",
         ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
        ("30 2 * * *", "Europe/Vienna", "2026-10-25T01:10+00:00", ["2026-10-26T02:30+01:00"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00+00:00",
         ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"]),
        # With a wildcard, hourly stays hourly.
        ("*/30 * * * *", "Europe/Vienna", "2026-10-25T00:00+00:00",
         ["2026-10-25T02:30+02:00", "2026-10-25T02:00+01:00", "2026-10-25T02:30+01:00", "2026-10-25T03:00+01:00"]),
        ("*/30 * * * *", "Europe/Vienna", "2027-03-28T00:30+00:00",
         ["2027-03-28T03:00+02:00", "2027-03-28T03:30+02:00"]),
        ("0 * * * *", "Europe/Vienna", "2026-10-24T23:59+00:00",
         ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"]),
        ("*/30 2 * * *", "Australia/Lord_Howe", "2026-04-04T00:00+00:00",
         ["2026-04-05T02:00+10:30", "2026-04-05T02:30+10:30", "2026-04-06T02:00+10:30"]),
        ("*/30 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00+00:00",
         ["2026-04-05T01:00+11:00", "2026-04-05T01:30+11:00", "2026-04-05T01:30+10:30", "2026-04-06T01:00+10:30"]),
        ("0 * * * *", "Asia/Kathmandu", "2026-11-29T00:00+00:00",
         ["2026-11-29T06:00+05:45", "2026-11-29T07:00+05:45"]),
        # Days.
        ("0 0 29 2 *", "UTC", "2026-11-22T12:00+00:00", ["2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"]),
        ("0 0 1,15 * mon", "UTC", "2026-11-22T12:00+00:00", ["2026-11-23T00:00+00:00", "2026-11-30T00:00+00:00"]),
        ("0 0 * * 7", "UTC", "2026-11-22T12:00+00:00", ["2026-11-29T00:00+00:00"]),
        ("0 0 L * *", "UTC", "2026-11-22T12:00+00:00", ["2026-11-30T00:00+00:00", "2026-12-31T00:00+00:00"]),
    ],
)  # fmt: skip
def test_the_next_starts(line: str, zone: str, now: str, expected: list[str]) -> None:
    cron = read_cron(line, read_zone(zone))
    assert starts(cron, at(now), len(expected)) == expected
    for start in map(at, expected):
        assert [cron.last_until(start), cron.last_until(start + 0.5), cron.next_after(start - 0.5)] == [start] * 3


CHANGES = [
    ("Europe/Vienna", "2026-10-25"), ("Europe/Vienna", "2027-03-28"), ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"), ("Australia/Lord_Howe", "2026-10-04"), ("Australia/Lord_Howe", "2026-04-05"),
    ("Pacific/Apia", "2011-12-30"), ("Africa/Cairo", "2026-04-24"), ("Africa/Cairo", "2026-10-30"),
]  # fmt: skip
LINES = ("30 2 * * *", "15 1,2,3 * * *", "*/30 * * * *", "0 0 * * *", "45 1 * * *", "0-59/20 2 * * *", "*/20 1,2 * * *")
HOUR = 3600


@cache
def minutes(zone: str, begin: int, end: int) -> list[tuple[int, datetime]]:
    """Return each minute with the time that clocks of the zone show."""
    local = ZoneInfo(zone)
    moments = range(begin, end, 60)
    return [(moment, datetime.fromtimestamp(moment, local).replace(tzinfo=None, fold=0)) for moment in moments]


def times(line: str, begin: datetime, end: datetime) -> Iterator[datetime]:
    for one in CronSim(line, begin - timedelta(seconds=1)):
        if one > end:
            return
        yield one


def starts_by_minutes(line: str, zone: str, begin: int, end: int, follows_clocks: bool) -> set[int]:
    """Return the starts by the law, from what clocks show in each minute."""
    shown = minutes(zone, begin, end)
    at_time: dict[datetime, list[int]] = {}
    for moment, local in shown:
        at_time.setdefault(local, []).append(moment)
    found = set[int]()
    for time in times(line, shown[0][1], shown[-1][1]):
        moments = at_time.get(time, [])
        if follows_clocks:
            found.update(moments)
        else:
            found.add(moments[0] if moments else next(moment for moment, local in shown if local > time))
    return found


@pytest.mark.slow
@table(
    ("zone", "day", "line", "follows_clocks"),
    [(zone, day, line, follows) for zone, day in CHANGES for line in LINES for follows in (False, True)],
)
def test_starts_around_each_change_of_the_clock(zone: str, day: str, line: str, follows_clocks: bool) -> None:
    noon, cron = int(at(f"{day}T12:00+00:00")), Cron(line, ZoneInfo(zone), follows_clocks)
    begin, end = noon - 36 * HOUR, noon + 36 * HOUR
    expected = starts_by_minutes(line, zone, begin - 86400, end + 86400, follows_clocks)
    found, moment = list[int](), float(begin)
    while (moment := cron.next_after(moment) or inf) <= end:
        found.append(int(moment))
    assert found == sorted(one for one in expected if begin < one <= end)
    for moment in range(begin, end, 95 * 60):
        assert cron.next_after(moment) == min(one for one in expected if one > moment)
        assert cron.last_until(moment) == max(one for one in expected if one <= moment)


@table(
    ("line", "starts"),
    [
        ("0 0 30 2 *", False), ("0 0 30,31 2 *", False), ("0 0 31 2,4,6,9,11 *", False), ("0 0 31 apr */2", False),
        ("0 0 */31 2 mon#5", False), ("0 0 29 2 *", True), ("0 0 29-31 2 *", True), ("0 0 31 4,5 *", True),
        ("0 0 */30 2 *", True), ("0 0 30 2 sat", True), ("0 2 * * sat", True), ("* * * * *", True),
    ],
)  # fmt: skip
def test_a_day_that_never_comes_has_no_start(line: str, starts: bool) -> None:
    cron = read_cron(line, read_zone("Europe/Vienna"))
    assert cron.ever_starts is starts
    assert (cron.next_after(0.0) is not None) is starts


@table(
    ("line", "field"),
    [
        ("", "0 fields"), ("* * * *", "4 fields"), ("* * * * * *", "6 fields"), ("60 * * * *", "no minute"),
        ("* 24 * * *", "no hour"), ("* * 0 * *", "no day of month"), ("* * * 13 *", "no month"),
        ("* * * * 8", "no day of week"), ("5-1 * * * *", "no minute"), ("*/0 * * * *", "no minute"),
        ("* * * * foo", "no day of week"), ("1-a * * * *", "no minute"), ("*-5 * * * *", "no minute"),
        ("1,,2 * * * *", "no minute"), ("-1 * * * *", "no minute"), (f"{'9' * 5000} * * * *", "no minute"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_cron_is_refused(line: str, field: str) -> None:
    with pytest.raises(ValueError, match=f"cron.*{field}"):
        read_line(line)


@table("name", ["", "Mars/Olympus", "../../etc/passwd", "Europe", "a" * 300, "a\0b"])
def test_a_zone_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        read_zone(name)


@pytest.mark.slow
def test_starts_are_those_of_debians_cron() -> None:
    """Sleep and wake over the changes of 2026 and 2027, leap days, kinds of days."""
    rows = [one for one in Path(__file__).with_name("debian_cron.txt").read_text().splitlines() if one[0] != "#"]
    wrong = []
    for row in rows:
        zone, line, begins, hours, minutes = row.split("|")
        begin, cron = datetime.fromisoformat(begins).timestamp(), read_cron(line, read_zone(zone))
        expected = [begin + 60 * int(one) for one in minutes.split()]
        found, end = [], begin + 3600 * int(hours)
        while (at := cron.next_after(found[-1] if found else begin - 1)) is not None and at < end:
            found.append(at)
        back, before = list[float](), end - 1
        while (last := cron.last_until(before)) is not None and last >= begin:
            back, before = [last, *back], last - 1
        if not found == back == expected:
            wrong.append(row)
    assert len(rows) > 100
    assert wrong == []
