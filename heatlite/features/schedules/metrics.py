"""Counters of schedules."""

from heatlite.core.runtime.meter import Count
from heatlite.features.schedules.store.records import OccurrenceResult

OCCURRENCES = Count(
    "heatlite_schedule_occurrences",
    "Occurrences of schedules, by result.",
    ("result",),
    tuple((one.value,) for one in OccurrenceResult),
)
