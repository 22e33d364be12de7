"""The findings of rules on an operation."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from time import thread_time
from typing import Final

from msgspec import UNSET, UnsetType

from heatlite.features.change_policy.effective import About, Occasion, PlacedRule, PlanRule, RuleResult
from heatlite.features.rules.endpoints import Answers, EndpointAnswer, EndpointVerdict, printable
from heatlite.features.rules.expressions import Bound, Variables, joined
from heatlite.features.rules.scene import RuleScene, SeenResource
from heatlite.features.rules.wire import Finding

MOST_SECONDS: Final = 5.0
"""Seconds of a processor for the expressions of an operation."""
LATE = f"the rules of this plan take more than {MOST_SECONDS:g} seconds of a processor"


class Judgement:
    """Findings, and the number of rules that could not be evaluated."""

    def __init__(self, changes: bool) -> None:
        """`changes` is False for a plan without changes, which needs no approval."""
        self.findings: list[Finding] = []
        self.errors = 0
        self._changes = changes

    def add(self, placed: PlacedRule, result: bool | str, path: str | None) -> None:
        """Add what a rule says about a resource, or about the plan. A text is its error."""
        rule = placed.rule
        if result is True:
            self._add_finding(placed, rule.then, path, rule.message)
        elif isinstance(result, str):
            self.errors += 1
            effect = rule.then if rule.on_error is UNSET else rule.on_error
            self._add_finding(placed, effect, path, f"{rule.message} (the rule could not be evaluated: {result})")

    def add_answer(self, placed: PlacedRule, answer: EndpointAnswer | str) -> None:
        """Add what the endpoint of a rule says. A text is its error."""
        if isinstance(answer, str):
            self.add(placed, answer, None)
        elif answer.result is not EndpointVerdict.PASS:
            result = RuleResult(answer.result)
            message = placed.rule.message if isinstance(answer.message, UnsetType) else printable(answer.message)
            if not answer.findings:
                self._add_finding(placed, result, None, message)
            for one in answer.findings:
                self._add_finding(placed, result, printable(one.path), printable(one.message))

    def _add_finding(self, placed: PlacedRule, result: RuleResult, path: str | None, message: str) -> None:
        self.findings.append(Finding(placed.rule.name, placed.origin, result, path, message))

    @property
    def reasons(self) -> Sequence[str]:
        """The rules by which the plan needs an approval, as reasons of it."""
        found = [f"rule:{one.name}" for one in self.findings if one.result is RuleResult.APPROVE]
        return [*dict.fromkeys(found)] if self._changes else ()

    @property
    def strictest(self) -> RuleResult | None:
        """The strictest result; None if no rule applies."""
        ranks = [*RuleResult]
        return max((one.result for one in self.findings), key=ranks.index, default=None)


def judged(rules: Sequence[PlacedRule], occasion: Occasion, seen: RuleScene, answers: Answers) -> Judgement:
    """Ask all rules of an occasion. `answers` are those of their endpoints.

    Findings are in the order of the plan. Those on the whole plan come first. Rules on resources that are left when
    the time is over cannot be evaluated: each has one finding.
    """
    end = thread_time() + MOST_SECONDS
    found = Judgement(bool(seen.resources) or occasion is Occasion.DELETE)
    asked = [one for one in rules if occasion in one.rule.on]
    about_plan = [one for one in asked if one.rule.for_ is About.PLAN]
    variables = Variables(seen.plan, seen.user, seen.now)
    bound = Bound(variables)
    for rule in about_plan:
        if rule.rule.endpoint:
            found.add_answer(rule, answers[rule])
        else:
            found.add(rule, LATE if thread_time() >= end else bound.result(rule.rule.expression), None)
    about_resources = [one for one in asked if one.rule.for_ is About.RESOURCE]
    by_type: dict[tuple[str, str], tuple[list[PlacedRule], str, Variables]] = {}
    for number, one in enumerate(seen.resources if about_resources else ()):
        if thread_time() >= end:
            left = seen.resources[number:]
            for rule in (one for one in about_resources if any(_is_about(one, each) for each in left)):
                found.add(rule, LATE, None)
            break
        if one.types not in by_type:
            mine = [rule for rule in about_resources if _is_about(rule, one)]
            at_once = joined([rule.rule.expression for rule in mine])
            by_type[one.types] = mine, at_once, variables.named_in(at_once)
        mine, at_once, named = by_type[one.types]
        bound = Bound(named, one.variable)
        if mine and bound.result(at_once) is not False:  # few rules strike, so most resources need one evaluation
            for rule in mine:
                found.add(rule, bound.result(rule.rule.expression), one.path)
    return found


def may_ask(rule: PlanRule) -> bool:
    """Return whether an approval may be the effect of a rule.

    An endpoint may always want one.
    """
    return bool(rule.endpoint) or RuleResult.APPROVE in (rule.then, rule.on_error)


def _is_about(placed: PlacedRule, resource: SeenResource) -> bool:
    patterns = placed.rule.types
    return not patterns or any(fnmatchcase(name, one) for one in patterns for name in resource.types)
