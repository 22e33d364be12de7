"""Counters of healing."""

from itertools import product

from heatlite.core.runtime.meter import Count, Durations
from heatlite.features.healing.terms import DEFAULT_SOURCES, ReportResult

REPORTS = Count(
    "heatlite_health_reports",
    "Reports of monitoring systems, by result.",
    ("format", "result"),
    tuple(product(DEFAULT_SOURCES, ReportResult)),
)
REPAIRS = Count("heatlite_repairs", "Repairs of members that have ended.", ("step", "result"))
REPAIR_DURATIONS = Durations(
    "heatlite_repair_duration_seconds", "From the begin of a repair of a member to its end.", ("step",)
)
