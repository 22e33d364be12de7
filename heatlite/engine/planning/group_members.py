"""Facts of the members of groups, and decisions of policies on them."""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import TypeGuard

from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData, MemberChange, MemberPlacement, Placement
from heatlite.core.json import as_map
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.group_changes import GroupFacts, MembersChange
from heatlite.engine.planning.group_policies import decide, stored
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.resource_factory import NestedView
from heatlite.plugin.groups import PLACEMENT, POLICIES, Decisions, MemberFacts, SizedGroup, SizeLimits
from heatlite.plugin.nested import ChildStack, StackResource
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord, StackRecord


def facts_of(resource: SizedGroup[Schema], rows: Iterable[ResourceRecord], limits: SizeLimits) -> GroupFacts:
    """Return the facts of a group and its members.

    `rows` are those of its nested stack.
    """
    known = {row.name: row for row in current_rows(rows)}
    members = [_member(resource, name, known.get(name)) for name in resource.leaving_order()]
    policies = stored(resource.data.get(POLICIES))
    return GroupFacts(resource.name, members, limits.low, limits.high, resource.asked_size(), policies)


def _member(resource: SizedGroup[Schema], name: str, row: ResourceRecord | None) -> MemberFacts:
    """Return the facts of a member; one that was never made counts as failed."""
    if row is None:
        return MemberFacts(name, None, 0.0, failed=True)
    failed = row.status is Status.FAILED or row.verb is Verb.INIT
    return MemberFacts(name, row.physical_id, row.created_at, failed, resource.is_outdated(name), zone_of(row))


def zone_of(row: ResourceRecord) -> str:
    """Return the zone of a member: that of a policy, else that of its definition."""
    placed = row.data.get(PLACEMENT)
    zone = placed.get("zone") if isinstance(placed, dict) else row.properties.get("availability_zone")
    return zone if isinstance(zone, str) else ""


def drawing(nested: StackRecord) -> Random:
    """Return what draws members of a group.

    It draws alike while the group stays as it is, so that a plan holds.
    """
    return Random(f"{nested.id} {nested.updated_at}")


def _is_decided(resource: Resource[Schema]) -> TypeGuard[SizedGroup[Schema]]:
    """Return whether policies decide on the members of a resource."""
    return isinstance(resource, SizedGroup) and bool(resource.data.get(POLICIES))


def choose_leaving(resource: StackResource[Schema], undone_since: Callable[[], float | None] = lambda: None) -> None:
    """Have the policies of a group choose who leaves it in an update.

    Members that the template names leave in any case. A rollback of what was begun at `undone_since`, and a restore,
    bring back what was there.
    """
    if not _is_decided(resource) or resource.facts.recorded:
        return
    view = resource.nested
    if not isinstance(view, NestedView):
        return
    since = undone_since()
    if since is not None:
        resource.let_stay(since)
        return
    named, present = resource.named_leaving(), len(resource.definitions)
    left = present - len(named)
    number = left - min(left, resource.next_size())
    if not number:
        resource.let_leave(())
        return
    facts = facts_of(resource, view.rows, resource.limits)
    asked = Decisions(Operation.RESIZE.value, facts.members, deletion=len(named) + number, candidates=tuple(named))
    resource.let_leave(decide(asked, facts.policies, drawing(view.stack)).candidates)


def by_policies(
    resource: SizedGroup[Schema], view: NestedView, child: ChildStack
) -> tuple[ChildStack, ActionData | None]:
    """Return what the policies of a group make of a signal.

    It asks for the size of `child`. Without policies that stays as it is.
    """
    facts = facts_of(resource, view.rows, resource.limits)
    if not facts.policies:
        return child, None
    more = len(as_map(child.template["resources"])) - len(facts.members)
    asked = Decisions(Operation.RESIZE.value, facts.members, creation=max(0, more), deletion=max(0, -more))
    decided = decide(asked, facts.policies, drawing(view.stack))
    change = MembersChange(decided.candidates, decided.creation, decided)
    joining = tuple(resource.new_names(change.joining, change.leaving))
    stays = [one for one in resource.definitions if one not in change.leaving]
    return resource.having([*stays, *joining]), decisions(change, joining, facts)


def decided_on(resource: StackResource[Schema], view: NestedView | None, data: ActionData) -> ActionData:
    """Return what the policies of a group add to a change by an update.

    `data` has the names of the members that it makes and deletes.
    """
    creation, deletion = data.creation, data.deletion
    if not _is_decided(resource) or view is None or (creation, deletion) == (None, None):
        return data
    joining, leaving = () if creation is None else creation.names, () if deletion is None else deletion.names
    facts = facts_of(resource, view.rows, resource.limits)
    asked = Decisions(
        Operation.RESIZE.value, facts.members, creation=len(joining), deletion=len(leaving), candidates=leaving
    )
    decided = replace(decide(asked, facts.policies, drawing(view.stack)), candidates=leaving)
    return decisions(MembersChange(leaving, len(joining), decided), joining, facts)


def decisions(change: MembersChange, joining: tuple[str, ...], before: GroupFacts) -> ActionData:
    """Return the decisions, which a takeover reads instead of deciding again."""
    decided = change.decided
    objects = {one.name: one.physical_id for one in before.members if one.name in change.leaving}
    creation, deletion, placement = None, None, None
    if joining:
        creation = MemberChange.of(joining, zones=Counter(decided.zones))
    if change.leaving:
        gone = (change.leaving, decided.criteria, decided.grace_period, objects, decided.gives_up)
        deletion = MemberChange.of(*gone)
    if joining and decided.zones:
        places = tuple(MemberPlacement(name, zone) for name, zone in zip(joining, decided.zones, strict=True))
        placement = Placement(len(places), places)
    return ActionData(creation, deletion, placement, dict(decided.further))
