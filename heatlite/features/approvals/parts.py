"""The objects of approvals that routes and the engine share."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from heatlite.core.actions.decisions import Decider
from heatlite.feature import active

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.features.approvals.examiner import ApprovalExaminer
    from heatlite.features.approvals.operations import Approvals


def operations(core: "Components") -> "Approvals":
    """Return the operations. Get them by `Components.of`."""
    from heatlite.features.approvals.operations import Approvals

    @cache
    def deciders() -> Mapping[str, Decider]:
        return {name: found for one in active(core.settings) for name, found in one.deciders(core).items()}

    return Approvals(core.store, core.clock, core.settings, lambda: core.scheduled, core.meter, deciders)


def examiner(core: "Components") -> "ApprovalExaminer":
    """Return the examiner. Get it by `Components.of`."""
    from heatlite.features.approvals.examiner import ApprovalExaminer

    return ApprovalExaminer(core.store, core.clock, core.settings, lambda: core.scheduled, core.meter)
