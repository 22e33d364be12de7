"""Lines of `heatlite plan` and `up` about rules."""

from collections.abc import Iterator, Sequence

from msgspec import convert

from heatlite.cli.client import Object, objects
from heatlite.cli.session import PlanFacts
from heatlite.features.change_policy.effective import RuleResult
from heatlite.features.rules.wire import Finding


def planned(facts: Object) -> PlanFacts:
    """Return the findings of a plan, and whether one denies it."""
    if "rules" not in facts:
        return PlanFacts()  # there are no rules, or an older server
    findings = [convert(one, Finding) for one in objects(facts, "rules")]
    is_denied = any(one.result is RuleResult.DENY for one in findings)
    return PlanFacts([*lines(findings)], is_denied, is_denied)


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield findings as lines of a plan."""
    for one in findings:
        place = f"  {one.path}" if one.path is not None else ""
        yield f"! {one.result.value} {one.name}{place}: {one.message}"
