"""Decisions about proposed repairs, for lists of all approvals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heatlite.api.wire import views
from heatlite.core.actions.decisions import Decision, DecisionStep
from heatlite.core.context import Context
from heatlite.core.json import JsonMap
from heatlite.features.healing.parts import Healing
from heatlite.features.healing.store.incidents import decision_of
from heatlite.features.healing.store.store import HealingStore

if TYPE_CHECKING:
    from heatlite.api.components import Components


class RepairDecider:
    """Decides about proposed repairs (`core.actions.decisions.Decider`)."""

    rule = "health:operate"
    by_another = False

    def __init__(self, core: "Components") -> None:
        self._core = core

    def content(self, target: str) -> JsonMap:
        """Return the plan that the incident proposes, if it can still be made."""
        incident = self._core.store.of(HealingStore).incidents.get(target)
        root = None if incident is None else self._core.store.stacks.get(incident.root_id)
        if incident is None or root is None or incident.plan_digest is None:
            return {}
        made = self._core.of(Healing).loop
        plan = made.repairing.proposal(made.scene(root, self._core.clock.now()), incident)
        return {} if plan is None else views.repair(plan)

    def waiting(self, root_id: str | None = None) -> Sequence[Decision]:
        """Return the decisions about proposed repairs."""
        found = self._core.store.of(HealingStore).incidents.proposed(root_id)
        return [decision_of(DecisionStep.ASKED, one) for one in found]

    def approve(self, context: Context, target: str, digest: str) -> None:
        """Begin the repair."""
        self._core.of(Healing).operations.approve(context, target, digest)

    def reject(self, context: Context, target: str, reason: str) -> None:
        """Close the incident."""
        self._core.of(Healing).operations.close(context, target, reason)
