"""Refusals of rules."""

from collections.abc import Sequence

from heatlite.core.errors import Conflict, Forbidden, abbreviated
from heatlite.core.wire.base import shown
from heatlite.features.change_policy.effective import RuleResult
from heatlite.features.rules.wire import Finding

BECAUSE = "because of a rule of a change policy"
"""Words of each denial, by which the audit log tells it from others."""


class RuleDenied(Forbidden):
    """A rule denies an operation. Nothing was changed."""

    def __init__(self, stack: str, findings: Sequence[Finding]) -> None:
        super().__init__(f"Stack {stack} is left as it is, {BECAUSE}: {told(findings)}")
        self.facts = {"rules": [shown(one) for one in findings]}


class ScalingDenied(Conflict):
    """A rule denies the scaling of a signal."""

    ignored_as = "rule"

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__(f"A rule of a change policy denies the scaling: {told(findings)}")


def told(findings: Sequence[Finding]) -> str:
    """Return the findings that deny, as a text.

    Without any, those that want an approval.
    """
    denying = [one for one in findings if one.result is RuleResult.DENY]
    denying = denying or [one for one in findings if one.result is RuleResult.APPROVE]
    texts = [f"{one.name}{f' at {one.path}' if one.path else ''}: {one.message}" for one in denying]
    return abbreviated(texts, separator="; ")
