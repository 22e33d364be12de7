"""Members that leave a group, while their objects stay."""

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random

from msgspec import convert
from msgspec.structs import replace

from heatlite.core.clock import to_text
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionConflict,
    DeletionProtected,
    InvalidStackState,
    InvalidValue,
    NestedMember,
    PlanChanged,
)
from heatlite.core.status import Cause, Status, Verb
from heatlite.core.wire.why import Holder
from heatlite.engine.admission.admission import Admission
from heatlite.engine.admission.caller_context import restore_context
from heatlite.engine.admission.claims import ChangeKind, PreparedRequest, tries_again
from heatlite.engine.operations.groups import Groups, later_change
from heatlite.engine.operations.membership.next_plans import NextPlans
from heatlite.engine.operations.membership.writing import FoundGroup, MembershipDraft, MembershipWriter, further
from heatlite.engine.planning.group_changes import change_members
from heatlite.engine.planning.group_members import decisions, places, pool_change
from heatlite.engine.preview.preview_views import detailed_plan, plan_entry
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.group_requests import Leave, body_of
from heatlite.engine.state.requests import PlannedResource, ShownPlan
from heatlite.engine.state.ways_out import unprotect
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store

LEFT_ALIVE = "Left group {}; its object stays, and no stack has it"


class Leaving:
    """Takes members out of groups without a call of their cloud."""

    def __init__(
        self, store: Store, admission: Admission, groups: Groups, writer: MembershipWriter, next_plans: NextPlans
    ) -> None:
        self._store = store
        self._next_plans = next_plans
        self._admission = admission
        self._groups = groups
        self._writer = writer

    @tries_again
    def leave(self, context: Context, stack: StackRecord, name: str, asked: Leave) -> ActionRecord:
        """Let members leave a group. Returns as `MembershipWriter.write`.

        Those with a lifecycle hook leave at its end, and those in a pool once they are out of it. Raises InvalidValue
        for limits and members, NestedMember, DeletionProtected, PlanChanged, InvalidStackState, and as
        `Admission.examine` and `Admission.admitted`.
        """
        group = self._groups.group(stack, name)
        body, path = body_of(asked), f"/resources/{name}/actions"
        request = self._admission.precheck(
            context, Operation.LEAVE, stack, "POST", path, body, target=group.name
        )
        members = self._groups.members_of(group)
        claims = self._admission.examine(self._asked(context, stack, name, members, asked))
        with self._admission.admitted(request, on=members) as nested:
            draft = self._draft(context, stack, name, nested, asked)
            if context.scheduled is None and asked.plan_digest not in (None, draft.plan.digest):
                raise PlanChanged(stack_name=stack.name)
            claims.look(lambda: self._writer.preview(draft))
            action = self._writer.wait(context, draft) if draft.waits else self._writer.write(context, draft)
            claims.take(action, draft.order.stack)
            return action

    def complete(self, action: ActionRecord, is_done: bool) -> None:
        """Let members leave that an action has drained.

        They are out of their pool, and have waited for their lifecycle hooks. If it has failed, they enter the pool
        again. Call in the transaction that ends it.
        """
        nested, asked = self._store.stacks.get(action.stack_id), convert(action.inputs.leave, Leave)
        owner = None if nested is None or nested.parent_id is None else self._store.stacks.get(nested.parent_id)
        if nested is None or owner is None or nested.parent_resource is None or nested.verb is Verb.DELETE:
            return  # the group is being deleted
        context = restore_context(action)
        if is_done:
            draft = self._draft(context, owner, nested.parent_resource, nested, asked)
            self._writer.write(context, draft, is_recorded=True)
            return
        resources = self._writer.reader.resources_of(nested)
        if any(pool_change(row, resources) for row in self._store.resources.of(nested.id)):
            group = self._groups.group(owner, nested.parent_resource)
            again = self._admission.new_action(context, nested, Verb.UPDATE, action.inputs)
            back = self._groups.settling(owner, group, replace(again, cause=Cause.DERIVED))
            self._groups.settle(context, back)

    def plan(self, context: Context, stack: StackRecord, name: str, asked: Leave) -> ShownPlan:
        """Return the plan of `leave`, with what the next update does then.

        The digest leaves that out. Writes nothing. Raises as `leave`, but passes locks and actions.
        """
        nested = self._groups.members_of(self._groups.group(stack, name))
        draft = self._draft(context, stack, name, nested, asked)
        added = self._admission.shown(self._asked(context, stack, name, nested, asked))
        later = self._next_plans.of(draft, self._groups.path(stack, name)).later
        return replace(draft.plan, details={**draft.plan.details, **added}, later=tuple(later))

    def _asked(
        self, context: Context, stack: StackRecord, name: str, nested: StackRecord, asked: Leave
    ) -> PreparedRequest:
        return PreparedRequest(
            context,
            nested,
            self._store.resources.types(stack.root_id or stack.id),
            cache(lambda: self._writer.preview(self._draft(context, stack, name, nested, asked))),
            change=ChangeKind.SCALE,
            content=lambda: body_of(asked),
            later=lambda: later_change(name, asked),
            addressed=stack,
            path=lambda: "/".join(self._groups.path(stack, name)),
        )

    def _draft(
        self, context: Context, stack: StackRecord, name: str, nested: StackRecord, asked: Leave
    ) -> MembershipDraft:
        place = self._writer.place(stack, self._groups.group(stack, name), nested)
        resource = place.resource
        with type_code():
            facts = self._groups.facts(resource, nested, resource.limits)
            change = change_members(asked, facts, Random())
            rows = self._leaving(place, change.leaving)
            joining = tuple(resource.new_names(change.joining, change.leaving))
            if asked.reduce:
                resource.set_size(len(facts.members) - len(rows), context.user)
            child = resource.having([*(one for one in resource.definitions if one not in change.leaving), *joining])
        environment = self._writer.environment(place)
        waits = dict[str, str]()
        for row in rows:
            if row.status is Status.COMPLETE and environment.lifecycle_timeout(row.name) is not None:
                waits[row.name] = "its object stays; it waits for its lifecycle hook"
            elif places(row):
                waits[row.name] = "its object stays; it leaves its pool first"
        data = replace(decisions(change, joining, facts), creation=None)
        order = self._writer.order(context, place, child, asked, data)
        draft = MembershipDraft(place, order, detailed_plan((), {}), gone=rows, to_make=joining, waits=waits)
        events = [self._writer.event(row, Operation.LEAVE, LEFT_ALIVE.format(name)) for row in rows]
        return replace(draft, plan=detailed_plan([*_entries(draft, self._groups.path(stack, name))], {}), events=events)

    def _leaving(self, place: FoundGroup, names: Sequence[str]) -> list[ResourceRecord]:
        """Return the rows of leaving members, in this order.

        Raises the error of the first that may not leave.
        """
        found = [_leaver(place, name) for name in names]
        held = self._store.held_resources([row.id for row in found])
        for row in found:
            text = f"Member {row.name} of group {place.group.name}"
            if row.protection is not None:
                by, since = row.protection.by, to_text(row.protection.at)
                raise DeletionProtected(
                    f"{text} is protected by {by}. Unprotect it first.",
                    holder=Holder(kind="resource", id=row.id, by=by, since=since),
                    way_out=[unprotect(place.nested, row.name)],
                )
            if row.id in held:
                raise ActionConflict(f"{text} cannot leave now: {held[row.id]}")
        return found


def _leaver(place: FoundGroup, name: str) -> ResourceRecord:
    """Return the row of a member with an object.

    Raises InvalidValue, InvalidStackState, NestedMember.
    """
    rows, text = [row for row in place.rows if row.name == name], f"Member {name} of group {place.group.name}"
    if not rows or rows[-1].physical_id is None or rows[-1].verb in (Verb.INIT, Verb.DELETE):
        raise InvalidValue(f"{text} has no object that could stay.")
    (row, *others) = rows
    if others or row.status is Status.IN_PROGRESS:
        raise InvalidStackState(f"{text} is being replaced. Update stack {place.owner.name}, then try again.")
    if issubclass(place.resources.type_of(row), StackResource):
        raise NestedMember(f"{text} is a nested stack, which is no object that could stay. Name a stack by into.")
    return row


def _entries(draft: MembershipDraft, path: tuple[str, ...]) -> Iterator[PlannedResource]:
    """Yield the plan: who leaves, and what an action of its own makes and deletes."""
    for row in draft.gone:
        yield plan_entry((*path, row.name), row, "leave", draft.waits.get(row.name, "its object stays"))
    yield from further(draft, path)
