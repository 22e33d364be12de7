"""Statement of the feature rules."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heatlite.core.config import FeatureSettings, Settings
from heatlite.core.json import JsonMap
from heatlite.feature import Feature, is_active

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.cli.client import Client, Object, Stack
    from heatlite.cli.session import PlanFacts
    from heatlite.core.errors import Problem
    from heatlite.engine.admission.claims import Examiner
    from heatlite.engine.why.tree import ExplainedTree, Told
    from heatlite.template.source.loader import SourceText


class RulesSettings(FeatureSettings, frozen=True):
    """Settings of rules."""

    secret_fields = frozenset({"rule_secret"})
    rule_hosts: tuple[str, ...] = ()
    """Hosts that the endpoints of rules may have; none: rules have no endpoints. As in `template_hosts`."""
    rule_secret: str | None = None
    """Secret that signs what endpoints are sent (X-Heatlite-Signature); None: it is not signed."""


class RulesFeature(Feature):
    """Rules that judge plans before anything is made."""

    name = "rules"
    settings = RulesSettings
    commands = {"Templates": {"heatlite.features.rules.commands": ()}}
    extends = {"validate": ("heatlite.features.rules.commands",)}

    def examiner(self, components: "Components") -> "Examiner | None":
        if not is_active(components.settings, "change_policy"):
            return None  # no document has rules
        from heatlite.features.rules.examiner import RuleExaminer

        return RuleExaminer(components.store, components.clock, components.settings, components.meter)

    def planned(self, client: "Client", stack: "Stack | None", facts: "Object") -> "PlanFacts":
        from heatlite.features.rules.plan_lines import planned

        return planned(facts)

    def why(self, components: "Components", tree: "ExplainedTree", told: "Sequence[Told]") -> "Sequence[Told]":
        if tree.last_request is None:
            return told
        from heatlite.features.rules.why import facts

        return [*told, *facts(tree)]

    def problems(self, document: "SourceText") -> "Sequence[Problem] | None":
        if "change_policy" not in document.data:
            return None
        from heatlite.features.rules.checks import problems

        return problems(document)

    def policy_faults(self, settings: Settings, policy: JsonMap) -> Sequence[str]:
        from heatlite.features.rules.checks import faults_of

        return faults_of(settings, policy)


feature = RulesFeature()
