"""Facts of the members of groups, decisions on them, and their places in pools.

A policy `load_balancing` says in which pool of a load balancer members are to be. The `data` of a member's row say
where it is, and where it may be since a call that was interrupted. The walk makes them equal.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import TypeGuard

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData, MemberChange, MemberPlacement, Placement
from heatlite.core.errors import HeatliteError
from heatlite.core.json import JsonMap, as_map
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.group_changes import GroupFacts, MembersChange
from heatlite.engine.planning.group_policies import LoadBalancing, PoolOptions, StoredPolicy, decide, stored
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.resource_factory import NestedView, ResourceFactory
from heatlite.engine.types.type_calls import ask
from heatlite.plugin.groups import (
    LOADBALANCERS,
    PLACEMENT,
    POLICIES,
    Decisions,
    MemberFacts,
    SizedGroup,
    SizeLimits,
)
from heatlite.plugin.nested import ChildStack, StackResource
from heatlite.plugin.resource import Resource, ResourceType
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


def choose_leaving(
    resource: StackResource[Schema], undoes: bool = False, since: Callable[[], float] = lambda: math.inf
) -> None:
    """Have the policies of a group choose who leaves it in an update.

    Members that the template names leave in any case. A rollback, and a restore, bring back what was there. `undoes`:
    it is a rollback. `since`: the start of the updates that a rollback undoes.
    """
    if not _is_decided(resource) or resource.facts.recorded:
        return
    view = resource.nested
    if not isinstance(view, NestedView):
        return
    if undoes:
        resource.let_stay(since())
        return
    named, present = resource.named_leaving(), len(resource.definitions)
    left = present - len(named)
    number = left - min(left, resource.next_size())
    if not number:
        resource.let_leave((), since())
        return
    facts = facts_of(resource, view.rows, resource.limits)
    asked = Decisions(Operation.RESIZE.value, facts.members, deletion=len(named) + number, candidates=tuple(named))
    resource.let_leave(decide(asked, facts.policies, drawing(view.stack)).candidates, since())


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


# -- places in pools ---------------------------------------------------------------------------------

CHANGES_POOL = "it enters or leaves the pool of a load balancer"
"""The cause of a step that changes nothing else."""


class NoAddress(HeatliteError):
    """A member has no address for a pool."""

    text = "{reason}"


class Place(Struct, frozen=True, omit_defaults=True):
    """A place of a member in a pool."""

    pool: str
    protocol_port: int
    subnet: str | None = None
    weight: int = 1
    address: str = ""
    lb_member: str | None = None
    """The id of the pool's member; None: it is not known yet."""

    @property
    def spot(self) -> tuple[str, int, str | None]:
        """All of it that stays, but for the address."""
        return self.pool, self.protocol_port, self.subnet

    @property
    def key(self) -> tuple[str, int, str]:
        """The part by which the service tells members apart."""
        return self.pool, self.protocol_port, self.address


def places(row: ResourceRecord) -> list[Place]:
    """Return where a member is, or may be."""
    found = row.data.get(LOADBALANCERS)
    return [] if found is None else convert(found, list[Place])


def placed_at(row: ResourceRecord, found: Iterable[Place]) -> ResourceRecord:
    """Return the row of a member with other places."""
    data = {key: value for key, value in row.data.items() if key != LOADBALANCERS}
    listed = to_builtins([*found])
    return replace(row, data={**data, LOADBALANCERS: listed} if listed else data)


def balancing(group: ResourceRecord | None) -> StoredPolicy | None:
    """Return the policy for load balancing of a group; None: there is none."""
    policies = {} if group is None else stored(group.data.get(POLICIES))
    return next((one for one in policies.values() if one.type == LoadBalancing.type_name), None)


def to_verify(data: JsonMap) -> JsonMap:
    """Return the data of a row whose object may have another address now."""
    if LOADBALANCERS not in data:
        return data
    found = convert(data[LOADBALANCERS], list[Place])
    return {**data, LOADBALANCERS: to_builtins([replace(one, lb_member=None) for one in found])}


def can_have_address(kind: ResourceType) -> bool:
    """Return whether members of a type may have an address for a pool."""
    return bool(kind.address_attribute) or issubclass(kind, StackResource)


def asked_place(row: ResourceRecord, resources: ResourceFactory) -> Place | None:
    """Return where a member is to be, with what is known of it; None: in no pool.

    A policy that is not enabled leaves it where it is.
    """
    policy = balancing(resources.above) if can_have_address(resources.type_of(row)) else None
    if policy is None:
        return None
    found = places(row)
    if not policy.enabled:
        return found[0] if found else None
    asked = convert(to_builtins(convert(policy.options, PoolOptions)), Place)
    same = next((one for one in found if one.spot == asked.spot), asked)
    return replace(asked, address=same.address, lb_member=same.lb_member)


def pool_change(row: ResourceRecord, resources: ResourceFactory) -> str:
    """Return why a member as its definition says needs a step; "": it needs none."""
    asked = asked_place(row, resources)
    is_placed = asked is None or asked.lb_member is not None
    return "" if is_placed and places(row) == ([] if asked is None else [asked]) else CHANGES_POOL


def address_of(row: ResourceRecord, resources: ResourceFactory) -> str:
    """Return the address of a member.

    A nested stack has that of its only machine. Raises NoAddress, and the errors of its type.
    """
    kind = resources.type_of(row)
    within = resources.members(row) if issubclass(kind, StackResource) else [resources.make(row)]
    machines = [one for one in within if one.address_attribute]
    if len(machines) != 1:
        raise NoAddress(reason=f"A pool needs the address of one server, and it has {len(machines)}.")
    found = ask(lambda: machines[0].attribute(machines[0].address_attribute))
    if not isinstance(found, str) or not found:
        raise NoAddress(reason="A pool needs its address, and its server has none.")
    return found
