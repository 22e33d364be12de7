"""Counters of quotas."""

from heatlite.core.runtime.meter import Count
from heatlite.features.quota.assessment import QuotaState

EXAMINED = Count(
    "heatlite_quota_examinations",
    "Operations that were compared with quotas, by result.",
    ("state",),
    tuple((one.value,) for one in QuotaState),
)
