"""Findings of rules, as answers have them."""

from msgspec import field

from heatlite.core.wire.base import Answer
from heatlite.features.change_policy.effective import PolicyOrigin, RuleResult


class Finding(Answer, frozen=True):
    """A rule that strikes."""

    name: str
    """Name of the rule."""
    from_: PolicyOrigin = field(name="from")
    """Place of the rule: ``operator`` or ``project``."""
    result: RuleResult
    """Effect: ``deny``, ``approve`` or ``warn``."""
    path: str | None
    """Path of the resource; ``null`` for a rule on the whole plan."""
    message: str
    """The message of the rule. If it could not be evaluated, it names the error."""
