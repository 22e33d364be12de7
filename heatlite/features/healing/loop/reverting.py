"""Plans of reverts of drift, and what they say about incidents.

Objects are read before the transaction, as `examining` says. A revert never replaces.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.status import Status
from heatlite.engine.operations.repairs import RepairPlan
from heatlite.features.healing.loop.examining import ExaminedIncident, NotObserved
from heatlite.features.healing.loop.scene import Scene
from heatlite.features.healing.rules.brakes import Held
from heatlite.features.healing.rules.incident import REVERT_LOOK, held_by
from heatlite.features.healing.store.records import IncidentRecord
from heatlite.features.healing.terms import Brake


class Judged(Struct, frozen=True):
    """The plan of a revert, and the brake that it shows."""

    plan: RepairPlan | None
    """None: the row is not whole, so nothing is planned."""
    held: Brake | None
    """Brake that only the plan shows."""


def judged(scene: Scene, known: ExaminedIncident, wanted: Sequence[str], incidents: Sequence[IncidentRecord]) -> Judged:
    """Plan the revert of a member's incidents.

    `wanted` are all paths whose objects the caller needs. Raises NotObserved until they were read.
    """
    places = [scene.place(one) for one in incidents]
    if any(place is None or place.row.status is not Status.COMPLETE for place in places):
        return Judged(None, Brake.RESTRICTED)
    if known.observed is None or known.paths != frozenset(wanted):
        raise NotObserved(scene.tree.root, wanted)
    plan = known.observed.plan([one.path for one in incidents])
    if plan.unseen:
        return Judged(plan, Brake.CANNOT_LOOK)
    if plan.refused or plan.protected:
        return Judged(plan, Brake.RESTRICTED)
    if plan.spreads:
        return Judged(plan, Brake.SPREADS)
    return Judged(plan, None if plan.reverted else Brake.DISPUTED)


def held_by_plan(incident: IncidentRecord, brake: Brake, now: float) -> IncidentRecord:
    """Return an incident that its plan holds.

    An object that does not differ counts as healthy until a check finds that, too.
    """
    needs = brake if brake is Brake.DISPUTED else incident.needs_resolved
    held = held_by(replace(incident, needs_resolved=needs), [Held(brake)], now)
    return replace(held, due=now + REVERT_LOOK)
