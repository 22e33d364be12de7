"""Counters of schedules."""

from heatlite.core.runtime.meter import Count
from heatlite.features.schedules.store.records import Result

OCCURRENCES = Count(
    "heatlite_schedule_occurrences",
    "Occurrences of schedules, by result.",
    ("result",),
    tuple((one.value,) for one in Result),
)
