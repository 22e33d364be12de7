"""Counters of rules."""

from heatlite.core.runtime.meter import Count
from heatlite.features.change_policy.effective import RuleResult

RESULTS = Count(
    "heatlite_rule_results",
    "Rules that struck when an operation was requested, by result.",
    ("result",),
    tuple((one.value,) for one in RuleResult),
)
ERRORS = Count("heatlite_rule_errors", "Rules that could not be evaluated when an operation was requested.", (), ((),))
