"""Faults of change policies that only other features see."""

from collections.abc import Sequence

from msgspec import to_builtins

from heatlite.core.config import Settings
from heatlite.feature import is_active, of_active
from heatlite.features.change_policy.document import PolicyKeys, faults_of_rules, rules_of


def faults_of(settings: Settings, policy: PolicyKeys) -> Sequence[str]:
    """Return the faults of a policy whose form is right."""
    rules = rules_of(policy)
    if not rules:
        return ()
    if not is_active(settings, "rules"):
        return ["rules: the feature rules is off. Add it to `features` in the settings."]
    keys = to_builtins(policy)
    return [*faults_of_rules(rules), *of_active(settings, lambda one: one.policy_faults(settings, keys))]
