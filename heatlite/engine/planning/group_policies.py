"""The chain of policies of a group. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Annotated, Final

from msgspec import Meta, Struct, convert, to_builtins
from msgspec.structs import replace

from heatlite.core.json import AnyMap, Json
from heatlite.core.validation import convert as checked
from heatlite.engine.state.group_requests import Criteria, Grace
from heatlite.plugin.groups import Decisions, GroupPolicy, MemberFacts, further_types


class StoredPolicy(Struct, frozen=True):
    """A policy of a group, as the group's `data` and answers have it."""

    type: str
    priority: int
    enabled: bool
    options: AnyMap
    by: str
    at: float


class Zone(Struct, frozen=True, forbid_unknown_fields=True):
    """A zone with its share of the members."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    weight: Annotated[int, Meta(ge=1, le=1000)] = 100


class ZoneOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `zone_placement`."""

    zones: Annotated[tuple[Zone, ...], Meta(min_length=1, max_length=50)]


class DeletionOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `deletion`."""

    criteria: Criteria = Criteria.OLDEST_FIRST
    grace_period: Grace = 0


class PoolOptions(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Options of `load_balancing`."""

    pool: Annotated[str, Meta(min_length=1, max_length=255)]
    protocol_port: Annotated[int, Meta(ge=1, le=65535)]
    subnet: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    weight: Annotated[int, Meta(ge=0, le=256)] = 1


class ZonePlacement(GroupPolicy):
    """Decides in which zone the next member is made, and which zone gives one up.

    Zones have members by their weights. Failed members leave first, then those of other zones.
    """

    type_name = "zone_placement"
    priority = 300
    options = ZoneOptions

    def __init__(self, options: Struct) -> None:
        assert isinstance(options, ZoneOptions)
        self._weights = {one.name: one.weight for one in options.zones}

    def pre_op(self, decided: Decisions) -> Decisions:
        count = Counter(one.zone for one in decided.remaining)
        given_up = Counter[str](one.zone for one in decided.members if one.name in decided.candidates)
        failed = [one.zone for one in decided.remaining if one.failed]
        for number in range(min(decided.deletion - len(decided.candidates), len(decided.remaining))):
            zone = failed[number] if number < len(failed) else self._fullest(count)
            count[zone] -= 1
            given_up[zone] += 1
        zones = list[str]()
        for _ in range(decided.creation):
            zone = min(self._weights, key=lambda one: ((count[one] + 1) / self._weights[one], one))
            count[zone] += 1
            zones.append(zone)
        return replace(decided, zones=tuple(zones), gives_up=dict(given_up))

    def _fullest(self, count: Mapping[str, int]) -> str:
        """Return the zone with the most members for its weight.

        One without a weight is fuller than all others.
        """
        used = [zone for zone, number in count.items() if number > 0]
        return max(used, key=lambda one: (one not in self._weights, count[one] / self._weights.get(one, 1), one))


class Deletion(GroupPolicy):
    """Chooses the members that leave, by a criterion.

    From each zone as many as it gives up. A criterion of the request goes first.
    """

    type_name = "deletion"
    priority = 400
    options = DeletionOptions

    def __init__(self, options: Struct, random: Random | None = None) -> None:
        assert isinstance(options, DeletionOptions)
        self._options = options
        self._random = random or Random()

    def pre_op(self, decided: Decisions) -> Decisions:
        criteria = decided.criteria or self._options.criteria.value
        grace = self._options.grace_period if decided.grace_period is None else decided.grace_period
        decided = replace(decided, criteria=criteria, grace_period=grace)
        return chosen(decided, ordered(decided.remaining, Criteria(criteria), self._random))


class LoadBalancing(GroupPolicy):
    """Keeps members in a pool of a load balancer.

    They enter it once they are made, and are out of it before they go. Each member's own walk does that.
    """

    type_name = "load_balancing"
    priority = 500
    options = PoolOptions
    finds = MappingProxyType({"pool": "octavia.pool", "subnet": "neutron.subnet"})

    def __init__(self, options: Struct) -> None:
        assert isinstance(options, PoolOptions)
        self._options = options

    def pre_op(self, decided: Decisions) -> Decisions:
        return replace(decided, further={**decided.further, self.type_name: to_builtins(self._options)})


TYPES: Final[Mapping[str, type[GroupPolicy]]] = {
    one.type_name: one for one in (ZonePlacement, Deletion, LoadBalancing)
}


def types() -> Mapping[str, type[GroupPolicy]]:
    """Return all types of policies, by name."""
    return {**further_types(), **TYPES}


def stored(kept: Json) -> dict[str, StoredPolicy]:
    """Return the policies of a group, by name. `kept` is what its `data` have of them."""
    return convert(kept or {}, dict[str, StoredPolicy])


def policy(one: StoredPolicy, random: Random | None = None) -> GroupPolicy | None:
    """Return a policy. None: its package is not installed any more.

    Raises HTTPBadRequest with all faults of its options.
    """
    kind = types().get(one.type)
    if kind is None:
        return None
    options = checked(one.options, kind.options, "options")
    return Deletion(options, random) if kind is Deletion else kind(options)


def chain(policies: Mapping[str, StoredPolicy]) -> list[tuple[str, StoredPolicy]]:
    """Return the enabled policies in the order in which they decide."""
    enabled = ((name, one) for name, one in policies.items() if one.enabled)
    return sorted(enabled, key=lambda pair: (pair[1].priority, pair[0]))


def decide(
    decided: Decisions, policies: Mapping[str, StoredPolicy], random: Random, fallback: Criteria | None = None
) -> Decisions:
    """Let the policies of a group decide, each after those before it.

    `fallback` is the criterion if none has one; without it the first of `members` leave.
    """
    for _, one in chain(policies):
        found = policy(one, random)
        if found is not None:
            decided = found.pre_op(decided)
    if decided.deletion == len(decided.candidates):
        return decided
    if decided.criteria is None and fallback is not None:
        decided = replace(decided, criteria=fallback.value)
    order = decided.remaining
    if decided.criteria is not None:
        order = ordered(order, Criteria(decided.criteria), random)
    return chosen(decided, order)


def chosen(decided: Decisions, order: Sequence[MemberFacts]) -> Decisions:
    """Return the decisions with all members that leave, the first in an order.

    From each zone as many as it gives up, if that is decided.
    """
    left, names = decided.deletion - len(decided.candidates), list[str]()
    if decided.gives_up:
        quota = Counter(decided.gives_up)
        quota.subtract(one.zone for one in decided.members if one.name in decided.candidates)
        for one in order:
            if quota[one.zone] > 0:
                quota[one.zone] -= 1
                names.append(one.name)
    else:
        names = [one.name for one in order]
    return replace(decided, candidates=(*decided.candidates, *names[:left]))


def ordered(members: Sequence[MemberFacts], criteria: Criteria, random: Random) -> list[MemberFacts]:
    """Return the members in the order in which they leave."""
    drawn = sorted(members, key=lambda one: one.name)
    random.shuffle(drawn)
    place = {member.name: index for index, member in enumerate(drawn)}

    def by_name(member: MemberFacts) -> tuple[int, str]:
        return len(member.name), member.name

    def order(member: MemberFacts) -> tuple[bool, float, float, int, str]:
        match criteria:
            case Criteria.RANDOM:
                return not member.failed, place[member.name], 0.0, *by_name(member)
            case Criteria.YOUNGEST_FIRST:
                return not member.failed, 0.0, -member.created_at, *by_name(member)
            case Criteria.OLDEST_PROFILE_FIRST:
                return not member.failed, float(not member.outdated), member.created_at, *by_name(member)
            case _:
                return not member.failed, 0.0, member.created_at, *by_name(member)

    return sorted(members, key=order)
