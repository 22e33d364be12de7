"""Statement of the feature quota."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from heatlite.core.config import BadSetting, FeatureSettings, Settings
from heatlite.core.status import LIVE_ACTIONS, ActionStatus
from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.cli.client import Client, Object, Stack
    from heatlite.cli.session import PlanFacts
    from heatlite.engine.admission.claims import Examiner
    from heatlite.engine.why.tree import ExplainedTree, Told
    from heatlite.store.records import ActionRecord

MODES = ("refuse", "warn", "off")


class QuotaSettings(FeatureSettings, frozen=True):
    """Settings of quotas."""

    quota_check: str = "refuse"
    """Effect of a quota that does not suffice: refuse, warn, or off (limits are not read)."""
    quota_cache_seconds: float = 30.0
    """Seconds for which limits and usage are remembered. A refusal reads again."""

    def check(self, settings: Settings) -> None:
        if self.quota_check not in MODES:
            raise BadSetting(f"quota_check: {self.quota_check!r} is none of {', '.join(MODES)}.")
        if not 0 <= self.quota_cache_seconds <= 3600:
            raise BadSetting("quota_cache_seconds: a number from 0 to 3600.")


class QuotaFeature(Feature):
    """Compares plans with the quotas of the cloud."""

    name = "quota"
    settings = QuotaSettings
    routes = "heatlite.features.quota.api.routes"
    rows = ("heatlite.features.quota.store.store:QuotaStore",)
    options = {"quota_check": MODES}

    def examiner(self, components: "Components") -> "Examiner | None":
        if components.settings.cloud is None:
            return None  # there are no quotas
        from heatlite.features.quota.parts import Quotas

        return components.of(Quotas).examiner

    def why(self, components: "Components", tree: "ExplainedTree", told: "Sequence[Told]") -> "Sequence[Told]":
        from heatlite.features.quota.why import facts

        return facts(tree, told)

    def planned(self, client: "Client", stack: "Stack | None", facts: "Object") -> "PlanFacts":
        from heatlite.features.quota.plan_lines import planned

        return planned(facts)

    def action_moves(
        self, components: "Components", action: "ActionRecord", after: ActionStatus, reason: str
    ) -> None:
        if after not in LIVE_ACTIONS and action.parent_id is None:
            from heatlite.features.quota.store.store import QuotaStore, lock_place

            store = components.store
            failed, now = after is not ActionStatus.SUCCEEDED, components.clock.now()
            store.of(QuotaStore).release(action.id, failed, now, partial(lock_place, store))


feature = QuotaFeature()
