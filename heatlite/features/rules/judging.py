"""The findings of rules on an operation."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from msgspec import UNSET

from heatlite.features.change_policy.effective import About, Occasion, PlacedRule, Result, Rule
from heatlite.features.rules.expressions import Bound, joined
from heatlite.features.rules.scene import Scene, SeenResource
from heatlite.features.rules.wire import Finding


class Judgement:
    """Findings, and the number of rules that could not be evaluated."""

    def __init__(self, changes: bool) -> None:
        """`changes` is False for a plan without changes, which needs no approval."""
        self.findings: list[Finding] = []
        self.errors = 0
        self._changes = changes

    @property
    def reasons(self) -> Sequence[str]:
        """The rules by which the plan needs an approval, as reasons of it."""
        found = [f"rule:{one.name}" for one in self.findings if one.result is Result.APPROVE]
        return [*dict.fromkeys(found)] if self._changes else ()

    @property
    def strictest(self) -> Result | None:
        """The strictest result; None if no rule strikes."""
        ranks = [*Result]
        return max((one.result for one in self.findings), key=ranks.index, default=None)


def judged(rules: Sequence[PlacedRule], occasion: Occasion, seen: Scene) -> Judgement:
    """Ask all rules of an occasion.

    Findings are in the order of the plan. Those on the whole plan come first.
    """
    found = Judgement(bool(seen.resources) or occasion is Occasion.DELETE)
    asked = [one for one in rules if occasion in one.rule.on]
    about_plan = [one for one in asked if one.rule.for_ is About.PLAN]
    if about_plan:
        _ask(about_plan, Bound(seen.variables), None, found)
    about_resources = [one for one in asked if one.rule.for_ is About.RESOURCE]
    by_type: dict[tuple[str, str], tuple[list[PlacedRule], str]] = {}
    for one in seen.resources if about_resources else ():
        if one.types not in by_type:
            mine = [rule for rule in about_resources if _is_about(rule, one)]
            by_type[one.types] = mine, joined([rule.rule.when for rule in mine])
        mine, at_once = by_type[one.types]
        bound = Bound(seen.variables, one.variable)
        if mine and bound.result(at_once) is not False:  # few rules strike, so most resources need one evaluation
            _ask(mine, bound, one.path, found)
    return found


def may_ask(rule: Rule) -> bool:
    """Return whether an approval may be the effect of a rule."""
    return Result.APPROVE in (rule.then, rule.on_error)


def _is_about(placed: PlacedRule, resource: SeenResource) -> bool:
    patterns = placed.rule.types
    return not patterns or any(fnmatchcase(name, one) for one in patterns for name in resource.types)


def _ask(rules: Sequence[PlacedRule], bound: Bound, path: str | None, found: Judgement) -> None:
    for placed in rules:
        rule, result = placed.rule, bound.result(placed.rule.when)
        if result is True:
            found.findings.append(Finding(rule.name, placed.origin, rule.then, path, rule.message))
        elif isinstance(result, str):
            found.errors += 1
            effect = rule.then if rule.on_error is UNSET else rule.on_error
            message = f"{rule.message} (the rule could not be evaluated: {result})"
            found.findings.append(Finding(rule.name, placed.origin, effect, path, message))


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield findings as lines of a plan."""
    for one in findings:
        place = f"  {one.path}" if one.path is not None else ""
        yield f"! {one.result.value} {one.name}{place}: {one.message}"
