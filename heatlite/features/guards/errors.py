"""Refusals of guards."""

from heatlite.core.errors import Conflict


class GuardFiring(Conflict):
    """An alert stands that would take the update back."""

    text = (
        "{source} reports what the guard looks for: {summary}. Nobody could tell whether the update of stack"
        " {stack_name} did it. Nothing was done. Update again when it is over, or without that alert in the guard."
    )
