"""Decide which members leave a group and how many join it.

Pure: facts and a request in, a change out.
"""

from collections.abc import Mapping, Sequence
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.errors import InvalidValue
from heatlite.core.group_sizes import adjusted, within
from heatlite.engine.planning.group_policies import StoredPolicy, decide
from heatlite.engine.state.group_requests import (
    Adjustment,
    Criteria,
    DeleteMembers,
    FollowTemplate,
    Leave,
    NewLimits,
    ResizeRequest,
    ScaleIn,
    ScaleOut,
    SizeRequest,
)
from heatlite.plugin.groups import Decisions, MemberFacts

KINDS = {
    Adjustment.EXACT_CAPACITY: "exact_capacity",
    Adjustment.CHANGE_IN_CAPACITY: "change_in_capacity",
    Adjustment.CHANGE_IN_PERCENTAGE: "percent_change_in_capacity",
}


class GroupFacts(Struct, frozen=True):
    """Facts of a group."""

    name: str
    members: Sequence[MemberFacts]
    """In the order in which they leave, where a request names no criterion."""
    low: int
    high: int
    asked: int | None
    """The size that the template asks for; None: it leaves the size open."""
    policies: Mapping[str, StoredPolicy] = {}


class MembersChange(Struct, frozen=True):
    """The members that leave, in this order, and the number of new ones."""

    leaving: tuple[str, ...] = ()
    joining: int = 0
    decided: Decisions = Decisions("")
    """The decisions of the group's policies."""


def change_members(request: SizeRequest | Leave, group: GroupFacts, random: Random) -> MembersChange:
    """Return the change that a request asks for.

    The request decides the count; the policies of the group decide the rest. Raises InvalidValue for limits and for
    members that are not there, and what policies raise.
    """
    criteria, grace = None, None
    if isinstance(request, ScaleIn):
        criteria = None if request.criteria is None else request.criteria.value
    if isinstance(request, ScaleIn | DeleteMembers):
        grace = request.grace_period
    asked = Decisions(request.operation.value, group.members, criteria=criteria, grace_period=grace)
    if isinstance(request, DeleteMembers | Leave):
        leaving = named(request.members, group)
        if request.reduce:
            within_limits(len(group.members) - len(leaving), group, strict=True)
        creation = 0 if request.reduce else len(leaving)
        asked = replace(asked, candidates=leaving, deletion=len(leaving), creation=creation)
    else:
        difference = _size(request, group) - len(group.members)
        asked = replace(asked, creation=max(0, difference), deletion=max(0, -difference))
    fallback = Criteria.OLDEST_FIRST if isinstance(request, ScaleIn) else None
    decided = decide(asked, group.policies, random, fallback)
    if isinstance(request, ScaleIn | DeleteMembers):
        decided = replace(decided, grace_period=decided.grace_period or 0)
    return MembersChange(decided.candidates, decided.creation, decided)


def named(references: Sequence[str], group: GroupFacts) -> tuple[str, ...]:
    """Return the names of members given by name or physical id.

    Raises InvalidValue naming all faults.
    """
    names = {member.name for member in group.members}
    by_id = {member.physical_id: member.name for member in group.members if member.physical_id is not None}
    found = [one if one in names else by_id.get(one) for one in references]
    unknown = [one for one, name in zip(references, found, strict=True) if name is None]
    if unknown:
        raise InvalidValue(f"Group {group.name} has no member {', '.join(unknown)}.")
    known = [name for name in found if name is not None]
    doubled = sorted({name for name in known if known.count(name) > 1})
    if doubled:
        raise InvalidValue(f"Member {', '.join(doubled)} of group {group.name} is named twice.")
    return tuple(known)


def _size(request: ResizeRequest | NewLimits | FollowTemplate | ScaleOut | ScaleIn, group: GroupFacts) -> int:
    present = len(group.members)
    match request:
        case FollowTemplate():
            return within(present if group.asked is None else group.asked, group.low, group.high)
        case NewLimits():
            return within(present, group.low, group.high)
        case ResizeRequest():
            size = adjusted(present, request.number, KINDS[request.adjustment_type], request.min_step)
        case ScaleOut():
            size = present + request.count
        case ScaleIn():
            size = present - request.count
    return within_limits(size, group, request.strict)


def within_limits(size: int, group: GroupFacts, strict: bool) -> int:
    """Return the size within the limits. Raises InvalidValue beyond them if `strict`."""
    cut = within(size, group.low, group.high)
    if strict and cut != size:
        raise InvalidValue(
            f"Group {group.name} would have {size} members, but its limits are {group.low} and {group.high}. Change"
            " them in the template or by min_size and max_size, or send strict: false (heatlite: --best-effort)."
        )
    return cut
