"""Comparison of needs with limits: does it fit? Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from heatlite.features.quota.limits import UNLIMITED, LimitsReading, QuotaLimit
from heatlite.features.quota.needs import LARGEST, PlanNeeds
from heatlite.features.quota.store.records import Reservation


class QuotaState(StrEnum):
    """Result for a plan."""

    FITS = "fits"
    SHORT = "short"
    UNKNOWN = "unknown"
    """Limits of a kind that it needs are not known, and the others suffice."""


class KindState(Struct, frozen=True):
    """One kind of a quota."""

    kind: str
    """Service and name, such as `compute.cores`; the names are those of the properties of the quota types."""
    limit: int | None
    """Limit of the project; -1: unlimited; null: not known."""
    used: int | None
    """Usage, of the whole project; null: not known."""
    reserved: int
    """Amount that running actions will still take."""
    needed: int
    """Amount that the operation adds. Of the largest volume, its size."""
    known: bool
    """False: the operation alone brings the amount, which is at least this."""
    short: int
    """Amount that is missing; 0 if it fits."""
    holders: tuple[str, ...] = ()
    """Actions that have reserved."""


class Assessment(Struct, frozen=True):
    """Result of a comparison of needs with limits."""

    state: QuotaState
    kinds: tuple[KindState, ...]
    causes: Mapping[str, str]
    """By service, why its limits are not known."""
    read_at: float | None

    @property
    def shortages(self) -> tuple[KindState, ...]:
        """The kinds that do not suffice."""
        return tuple(one for one in self.kinds if one.short)


class HeldRoom(Struct, frozen=True):
    """Room that others will take, or have taken since the usage was read."""

    holder: str
    """Text that names them."""
    amounts: Mapping[str, int]


def still_taken(one: Reservation, reading: LimitsReading) -> dict[str, int]:
    """Return the amounts of a reservation without those of objects that the usage has."""
    made, amounts = reading.before.made.get(one.action_id, frozenset()), Counter(one.amounts)
    for part in one.parts:
        count = len(made.intersection(part.paths))
        for kind, amount in part.amounts.items():
            amounts[kind] -= amount * count
    return {kind: amount for kind, amount in amounts.items() if amount > 0 and kind != LARGEST}


def assess(
    needs: PlanNeeds, reading: LimitsReading, held: Sequence[HeldRoom], own: frozenset[str] = frozenset()
) -> Assessment:
    """Compare needs with a reading.

    `own` are the kinds whose limit the definition itself sets.
    """
    kinds, causes = list[KindState](), dict(reading.causes)
    for kind in needs.kinds:
        service = kind.partition(".")[0]
        if service in reading.left_out:
            continue
        limit = None if kind in own else reading.limits.get(kind)
        if limit is None and kind not in own and service not in causes and not is_of_type(kind):
            causes[service] = f"it tells no limit of {kind.partition('.')[2]}"
        if limit is None and kind in own:
            causes.setdefault(service, "the definition sets limits of this project")
        if limit is not None or not is_of_type(kind):
            kinds.append(_compared(kind, needs, limit, held))
    state = QuotaState.SHORT if any(one.short for one in kinds) else QuotaState.FITS
    if state is QuotaState.FITS and any(one.limit is None for one in kinds):
        state = QuotaState.UNKNOWN
    shown = {one.kind.partition(".")[0] for one in kinds}
    causes = {service: cause for service, cause in causes.items() if service in shown}
    return Assessment(state, tuple(kinds), causes, reading.read_at)


def is_of_type(kind: str) -> bool:
    """Return whether a kind is that of a volume type.

    Without a limit of its own there is none.
    """
    return kind.startswith(("block_storage.volumes_", "block_storage.gigabytes_"))


def _compared(kind: str, needs: PlanNeeds, limit: QuotaLimit | None, held: Sequence[HeldRoom]) -> KindState:
    holders = [one for one in held if one.amounts.get(kind) and kind != LARGEST]
    reserved, needed = sum(one.amounts[kind] for one in holders), needs.amounts.get(kind, 0)
    short = 0
    if limit is not None and limit.limit != UNLIMITED and limit.limit >= 0 and needed:
        others = 0 if kind == LARGEST else limit.used + reserved
        short = max(0, others + needed - limit.limit)
    return KindState(
        kind,
        None if limit is None else limit.limit,
        None if limit is None else limit.used,
        reserved,
        needed,
        kind not in needs.unknown,
        short,
        tuple(one.holder for one in holders),
    )
