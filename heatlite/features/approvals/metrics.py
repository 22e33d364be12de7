"""Counters of approvals."""

from heatlite.core.runtime.meter import Count
from heatlite.features.approvals.store.records import ApprovalState, Subject

APPROVALS = Count(
    "heatlite_approvals",
    "Approvals that came into a state, by subject and state.",
    ("subject", "state"),
    tuple((subject.value, state.value) for subject in Subject for state in ApprovalState),
)
