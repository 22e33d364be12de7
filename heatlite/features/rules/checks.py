"""Faults of rules, found when they are stored."""

from collections.abc import Iterator, Sequence

from msgspec import convert

from heatlite.core.config import Settings
from heatlite.core.errors import HTTPBadRequest, Problem
from heatlite.core.json import JsonMap
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.engine.outbound.egress import EgressHosts
from heatlite.feature import is_active
from heatlite.features.change_policy.effective import (
    About,
    Occasion,
    PlanRule,
    ProjectDocument,
    RuleResult,
    of_yaml,
    read_document,
    rules_of,
)
from heatlite.features.rules.addresses import fault_of, hosts_of
from heatlite.features.rules.expressions import fault
from heatlite.features.rules.feature import RulesSettings
from heatlite.template.source.loader import SourceText

NO_APPROVALS = "approve needs the feature approvals, which is off. Use deny or warn."
NO_REPAIR = "approve is not for heal: repairs need no approval. Leave heal out of `on`."


def faults_of(settings: Settings, policy: JsonMap) -> Sequence[str]:
    """Return the faults of the rules of a policy.

    Raises HTTPBadRequest without the library.
    """
    try:
        rules, hosts = convert(policy.get("rules", ()), tuple[PlanRule, ...]), hosts_of(settings.of(RulesSettings))
        return [*_faults(rules, is_active(settings, "approvals"), hosts)]
    except MissingLibrary as error:
        raise HTTPBadRequest(f"rules: {error.message}") from None


def problems(document: SourceText) -> list[Problem]:
    """Return the problems of a file with a change policy of a project."""
    try:
        policy = read_document(of_yaml(document.data), ProjectDocument)
        found = [*_faults(rules_of(policy), has_approvals=True, hosts=None)]
    except (HTTPBadRequest, MissingLibrary) as error:
        found = [error.message]
    return [Problem((), text, error="HTTPBadRequest", source=document.name) for text in found]


def _faults(rules: Sequence[PlanRule], has_approvals: bool, hosts: EgressHosts | None) -> Iterator[str]:
    for place, rule in enumerate(rules):
        if rule.endpoint:
            key, found = "url", fault_of(rule.endpoint, hosts)
        else:
            key, found = "when", fault(rule.expression, rule.for_ is About.RESOURCE)
        if found is not None:
            yield f"rules[{place}].{key} ({rule.name}): {found}."
        for key, result in (("then", rule.then), ("on_error", rule.on_error)):
            if result is RuleResult.APPROVE and not has_approvals:
                yield f"rules[{place}].{key} ({rule.name}): {NO_APPROVALS}"
            elif result is RuleResult.APPROVE and Occasion.HEAL in rule.on:
                yield f"rules[{place}].{key} ({rule.name}): {NO_REPAIR}"
