"""Due times of schedules, and which of several due occurrences count."""

from datetime import datetime

from msgspec.structs import replace

from heatlite.core.clock import to_text
from heatlite.features.schedules.due import judged, latest_due, next_due
from heatlite.features.schedules.store.records import ScheduledTask, ScheduleRecord
from tests.tables import table


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


NOON = at("2026-11-23T12:00+00:00")
"""A Monday."""
DAILY = ScheduleRecord(
    id="1",
    project="p",
    stack_id="s",
    name="n",
    cron="0 20 * * *",
    timezone="UTC",
    task=ScheduledTask.CHECK,
    options={},
    window=3600, enabled=True, created_by="mia", author={}, since=NOON,
)  # fmt: skip


def due(task: ScheduledTask, name: str, cron: str, window: int = 3600, since: float = NOON) -> ScheduleRecord:
    record = replace(DAILY, id=name, name=name, task=task, cron=cron, window=window, since=since)
    return replace(record, next_at=next_due(record))


@table(
    ("changes", "expected"),
    [
        ({}, "2026-11-23T20:00:00Z"),
        ({"timezone": "Europe/Vienna"}, "2026-11-23T19:00:00Z"),
        ({"enabled": False}, None),
        ({"since": at("2026-11-23T20:00+00:00")}, "2026-11-24T20:00:00Z"),
        ({"starts_at": at("2026-12-01T20:00+00:00")}, "2026-12-01T20:00:00Z"),
        ({"starts_at": at("2026-12-01T20:00+00:00") + 0.5}, "2026-12-02T20:00:00Z"),
        ({"starts_at": at("2026-11-01T20:00+00:00")}, "2026-11-23T20:00:00Z"),
        ({"ends_at": at("2026-11-23T20:00+00:00")}, "2026-11-23T20:00:00Z"),
        ({"ends_at": at("2026-11-23T19:59+00:00")}, None),
        ({"cron": "0 0 30 2 *"}, None),
    ],
)
def test_the_next_due_time(changes: dict[str, object], expected: str | None) -> None:
    assert to_text(next_due(replace(DAILY, **changes))) == expected


def test_of_many_missed_the_latest_is_due() -> None:
    record = replace(DAILY, next_at=at("2026-11-23T20:00+00:00"))
    assert latest_due(record, at("2026-11-30T19:00+00:00")) == at("2026-11-29T20:00+00:00")
    bounded = replace(record, ends_at=at("2026-11-25T21:00+00:00"))
    assert latest_due(bounded, at("2026-11-30T19:00+00:00")) == at("2026-11-25T20:00+00:00")


SLEEP, WAKE = due(ScheduledTask.SUSPEND, "sleep", "0 20 * * *"), due(ScheduledTask.RESUME, "wake", "0 7 * * *")


@table(
    ("found", "now", "missed", "counting"),
    [
        ([SLEEP], "2026-11-23T20:00+00:00", [], ["sleep 23T20:00"]),
        # Off for a week: the later of both, however late.
        ([SLEEP, WAKE], "2026-11-30T19:00+00:00", ["sleep 29T20:00"], ["wake 30T07:00"]),
        ([SLEEP, WAKE], "2026-11-30T21:00+00:00", ["wake 30T07:00"], ["sleep 30T20:00"]),
        # Others within their window only.
        ([due(ScheduledTask.CHECK, "c", "0 20 * * *")], "2026-11-23T21:00:00.4+00:00", [], ["c 23T20:00"]),
        ([due(ScheduledTask.CHECK, "c", "0 20 * * *")], "2026-11-23T21:02+00:00", ["c 23T20:00"], []),
        ([due(ScheduledTask.CHECK, "c", "0 20 * * *", 0)], "2026-11-23T20:01+00:00", [], ["c 23T20:00"]),
        ([due(ScheduledTask.CHECK, "c", "0 20 * * *", 0)], "2026-11-23T20:02+00:00", ["c 23T20:00"], []),
        (
            [due(ScheduledTask.CHECK, "c", "0 * * * *"), SLEEP],
            "2026-11-23T20:30+00:00",
            [],
            ["sleep 23T20:00", "c 23T20:00"],
        ),
    ],
)
def test_which_occurrences_count(
    found: list[ScheduleRecord], now: str, missed: list[str], counting: list[str]
) -> None:
    shown = [[f"{one.name} {str(to_text(nominal))[8:16]}" for one, nominal in part] for part in judged(found, at(now))]
    assert shown == [missed, counting]
