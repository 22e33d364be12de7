"""Answers about schedules."""

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.features.schedules.store.records import LastOccurrence, ScheduleRecord


def wanted(record: ScheduleRecord) -> JsonMap:
    """Return a schedule as a request gives it."""
    return {
        "name": record.name,
        "cron": record.cron,
        "timezone": record.timezone,
        "do": {record.task.value: record.options},
        "starts_at": to_text(record.starts_at),
        "ends_at": to_text(record.ends_at),
        "enabled": record.enabled,
        "window": record.window,
    }


def schedule(record: ScheduleRecord) -> JsonMap:
    """Return a schedule."""
    return {
        "id": record.id,
        **wanted(record),
        "created_by": record.created_by,
        "next_at": to_text(record.next_at),
        "last": last(record.last),
    }


def last(occurrence: LastOccurrence | None) -> JsonMap | None:
    """Return the last occurrence of a schedule."""
    if occurrence is None:
        return None
    return {
        "due": to_text(occurrence.due),
        "at": to_text(occurrence.at),
        "result": occurrence.result.value,
        "code": occurrence.code,
        "action_id": occurrence.action_id,
    }
