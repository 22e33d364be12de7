"""Operations on the members of groups: resize, scale, delete, replace, recover."""

import math
from collections.abc import Callable, Sequence
from functools import cache

from msgspec import convert
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionInputs
from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.context import Context
from heatlite.core.errors import ActionCooldown, HTTPBadRequest, InvalidValue
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb
from heatlite.engine.admission.base import Parts, StackOperations
from heatlite.engine.admission.claims import ChangeKind, PreparedRequest, tries_again
from heatlite.engine.operations.asked import GroupChange
from heatlite.engine.operations.repairs import Repairs
from heatlite.engine.planning.group_changes import GroupFacts, MembersChange, change_members, named
from heatlite.engine.planning.group_members import decisions, drawing, facts_of
from heatlite.engine.preview.preview import check_protected
from heatlite.engine.state.group_requests import (
    DeleteMembers,
    FollowTemplate,
    Joining,
    JoinRequest,
    Leave,
    NewLimits,
    PolicyRequest,
    ResizeRequest,
    ScaleIn,
    ScaleOut,
    SizeRequest,
    body_of,
)
from heatlite.engine.state.requests import Later, ShownPlan
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.groups import SizedGroup, SizeLimits
from heatlite.plugin.schema import Schema
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord


class Groups(StackOperations):
    """Changes the members of groups."""

    def __init__(self, parts: Parts, repairs: Repairs) -> None:
        super().__init__(parts)
        self._repairs = repairs

    # -- size ----------------------------------------------------------------------------------------

    @tries_again
    def change(self, context: Context, stack: StackRecord, name: str, request: SizeRequest) -> ActionRecord:
        """Enqueue a change of a group's members, and return its action.

        The stack that has the group is not held: groups of a stack scale side by side. Raises InvalidValue for limits
        and members, ActionCooldown, DeletionProtected, and as `admitted`.
        """
        group = self.group(stack, name)
        body, path = body_of(request), f"/resources/{name}/actions"
        found = None if group.physical_id is None else self._store.stacks.get(group.physical_id)
        prechecked = self._admission.precheck(
            context, request.operation, stack, "POST", path, body, target=group.name, on=found
        )
        members = self.members_of(group)
        going = self.asked_change(context, stack, group, members, request)
        claims = self._admission.examine(going)
        with self._admission.admitted(prechecked, on=members) as nested:
            changed = self._changed(context, stack, group.name, nested, request, body)
            claims.look(changed.preview)
            changed.children.write([changed.order])
            context.queued.append(changed.order.action.id)
            claims.take(changed.order.action, changed.order.stack, changed.preview)
            self._store.resources.save_many([changed.group])
        return changed.order.action

    def plan(self, context: Context, stack: StackRecord, name: str, request: SizeRequest) -> ShownPlan:
        """Return the plan of a change of a group's members.

        Writes nothing. Raises as `change`, but passes locks and actions.
        """
        group = self.group(stack, name)
        going = self.asked_change(context, stack, group, self.members_of(group), request)
        plan = self.placed(stack, name, going.shown(going.preview()))
        return replace(plan, details=self._admission.shown(going))

    def placed(self, stack: StackRecord, name: str, plan: ShownPlan) -> ShownPlan:
        """Return the plan of a group's nested stack with paths from the root on."""
        above = self.path(stack, name)
        return replace(plan, resources=tuple(replace(one, path=(*above, *one.path)) for one in plan.resources))

    def asked_change(
        self, context: Context, stack: StackRecord, group: ResourceRecord, members: StackRecord, request: SizeRequest
    ) -> PreparedRequest:
        """Return the request for a change, as features examine it.

        `members` is the nested stack of the group.
        """
        return self.examined(
            context,
            stack,
            group,
            members,
            request,
            lambda: self._changed(context, stack, group.name, members, request, body_of(request)),
        )

    def examined(
        self,
        context: Context,
        stack: StackRecord,
        group: ResourceRecord,
        members: StackRecord,
        request: SizeRequest | PolicyRequest,
        rehearsed: Callable[[], GroupChange],
    ) -> PreparedRequest:
        """Return the request to update a group's nested stack, as features examine it.

        `rehearsed` returns what it would write.
        """
        known = self._definitions.of(members).resources
        return PreparedRequest(
            context,
            members,
            self._store.resources.types(stack.root_id or stack.id) if known else (),
            cache(lambda: rehearsed().preview()),
            change=ChangeKind.SCALE,
            content=lambda: body_of(request),
            later=lambda: later_change(group.name, request),
            addressed=stack,
            path=lambda: "/".join(self.path(stack, group.name)),
        )

    def _changed(
        self,
        context: Context,
        stack: StackRecord,
        name: str,
        nested: StackRecord,
        request: SizeRequest,
        body: JsonMap,
    ) -> GroupChange:
        """Return what a change of a group's members would write. Raises as `change`."""
        group = self.group(stack, name)
        resources = self.reader.resources_of(stack)
        resource = resources.make(group)
        assert isinstance(resource, SizedGroup)
        with type_code():
            self._check_cooldown(resource, request)
            limits = _limits(resource, request)
            before = self.facts(resource, nested, limits)
            change = change_members(request, before, drawing(nested))
            joining = tuple(resource.new_names(change.joining, change.leaving))
            self._remember(resource, request, before, change, context.user)
            stays = [one for one in resource.definitions if one not in change.leaving]
            child = resource.having([*stays, *joining])
        action = self._action(context, nested, change.decided.grace_period or 0, body)
        data = decisions(change, joining, before)
        children = self.children_of(action, resources)
        order = children.resize(group, resource, self._definitions.of(stack), child, data)
        assert order.definition is not None
        changed = GroupChange(children, order, replace(group, data=dict(resource.data)), resources)
        check_protected(order.definition, changed.within)
        return changed

    def settling(self, stack: StackRecord, group: ResourceRecord, action: ActionRecord) -> GroupChange:
        """Return the change that brings a group's members into its pool, or out of it.

        `group` is its row as it becomes.
        """
        resources = self.reader.resources_of(stack)
        resource = resources.make(group)
        assert isinstance(resource, SizedGroup)
        with type_code():
            child = resource.having([*resource.definitions])
        children = self.children_of(action, resources)
        order = children.resize(group, resource, self._definitions.of(stack), child)
        return GroupChange(children, order, group, resources)

    def settle(self, context: Context, change: GroupChange) -> None:
        """Enqueue the action of such a change, in its transaction."""
        change.children.write([change.order])
        context.queued.append(change.order.action.id)

    def group(self, stack: StackRecord, name: str) -> ResourceRecord:
        """Return the row of a group.

        Raises ResourceNotFound, and HTTPBadRequest for another type.
        """
        row = self.reader.resource(stack, name)
        if not issubclass(self.reader.resources_of(stack).type_of(row), SizedGroup):
            raise HTTPBadRequest(f"Resource {row.name} of type {row.type} is no group.")
        return row

    def path(self, stack: StackRecord, name: str) -> tuple[str, ...]:
        """Return the path of a group of a stack, from the root on."""
        _, above = self._store.stacks.place(stack)
        return (*above, self.reader.resource(stack, name).name)

    def names_of(self, resource: SizedGroup[Schema], members: Sequence[Joining]) -> list[str]:
        """Return the names of new members.

        Those without a name in the request get one of the group.
        """
        given = [one.member for one in members if one.member is not None]
        free = iter(resource.new_names(len(members) - len(given), given))
        return [one.member or next(free) for one in members]

    def members_of(self, group: ResourceRecord) -> StackRecord:
        """Return the nested stack of a group. Raises HTTPBadRequest while there is none."""
        nested = None if group.physical_id is None else self._store.stacks.get(group.physical_id)
        if nested is None or nested.deleted_at is not None:
            gone = "yet: it was not created" if nested is None else "any more: their stack is deleted"
            raise HTTPBadRequest(f"Group {group.name} has no members {gone}.")
        return nested

    def _check_cooldown(self, resource: SizedGroup[Schema], request: SizeRequest) -> None:
        if isinstance(request, ScaleIn | ScaleOut) and not request.ignore_cooldown:
            left = math.ceil(resource.cooldown_left())
            if left > 0:
                error = ActionCooldown(group=resource.name, seconds=left)
                error.retry_after = left
                raise error

    def facts(self, resource: SizedGroup[Schema], nested: StackRecord, limits: SizeLimits) -> GroupFacts:
        """Return the facts of a group and its members."""
        return facts_of(resource, self._store.resources.of(nested.id), limits)

    def _remember(
        self,
        resource: SizedGroup[Schema],
        request: SizeRequest,
        before: GroupFacts,
        change: MembersChange,
        user: str,
    ) -> None:
        """Keep new size and limits for the next update, and begin a cooldown."""
        if isinstance(request, ResizeRequest | NewLimits) and (request.min_size, request.max_size) != (None, None):
            resource.set_limits(before.low, before.high, user)
        size = len(before.members) - len(change.leaving) + change.joining
        if isinstance(request, FollowTemplate):
            resource.forget_size()
            resource.forget_limits()
        elif not isinstance(request, DeleteMembers) or request.reduce:
            resource.set_size(size, user)
        if isinstance(request, ScaleIn | ScaleOut):
            by = request.count if isinstance(request, ScaleOut) else -request.count
            resource.begin_cooldown(resource.size_limits().cooldown, f"change_in_capacity : {by}")

    def _action(self, context: Context, nested: StackRecord, grace: int, body: JsonMap) -> ActionRecord:
        """Return the record of the action, which begins after the grace period."""
        action = self._admission.new_action(context, nested, Verb.UPDATE, convert(body, ActionInputs))
        if not grace:
            return action
        deadline = None if action.deadline is None else action.deadline + grace
        return replace(action, not_before=self._clock.now() + grace, deadline=deadline)

    def check(
        self, context: Context, stack: StackRecord, name: str, believes_absence: bool = False
    ) -> ActionRecord:
        """Enqueue a check of one resource, or of all members of a group.

        `believes_absence`: mark members that are not found, however many. Raises as `admitted`.
        """
        row = self.reader.resource(stack, name)
        is_group = issubclass(self.reader.resources_of(stack).type_of(row), SizedGroup)
        members = self.members_of(row) if is_group else None
        return self._repairs.check(context, stack, row.name, members, believes_absence)

    # -- repairs -------------------------------------------------------------------------------------

    @tries_again
    def replace_members(self, context: Context, stack: StackRecord, name: str, members: Sequence[str]) -> ActionRecord:
        """Enqueue a repair of the root that replaces members, under the same names.

        They need no mark. Without one it is a change of the group, as by an update, and no repair.

        Raises InvalidValue for members that are not there or are named twice, and as `Repairs.request`.
        """
        nested, names = self.named_members(stack, name, members)
        body: JsonMap = {"replace_members": {"members": [*members]}}
        if {*names} <= {*self._marked(nested)}:
            return self._repair(context, nested, names, RepairStep.REPLACE, body, of_group=True)
        root, selection, asked = self.asked_replacement(context, stack, name, members)
        return self._repairs.request(context, root, selection, f"/resources/{asked.path()}/actions", body, asked)

    def asked_replacement(
        self, context: Context, stack: StackRecord, name: str, members: Sequence[str]
    ) -> tuple[StackRecord, Selection, PreparedRequest]:
        """Return the root, what a replacement replaces there, and its request.

        It is as features examine it. That of marked members is a repair. Raises InvalidValue, ResourceNotFound,
        HTTPBadRequest.
        """
        nested, names = self.named_members(stack, name, members)
        root, selection = self._selection(nested, names, RepairStep.REPLACE)
        path, options = "/".join(self.path(stack, name)), {"members": [*members]}
        content: JsonMap = {"resource": path, "replace_members": options}
        asked = replace(
            self._repairs.asked(context, root, selection),
            change=ChangeKind.REPAIR if {*names} <= {*self._marked(nested)} else ChangeKind.SCALE,
            content=lambda: content,
            later=lambda: Later("replace_members", resource=name, options=options),
            addressed=stack,
            path=lambda: path,
        )
        return root, selection, asked

    def named_members(
        self, stack: StackRecord, name: str, members: Sequence[str]
    ) -> tuple[StackRecord, tuple[str, ...]]:
        """Return the nested stack of a group, and the names of members.

        Raises as `asked_replacement`.
        """
        group = self.group(stack, name)
        nested = self.members_of(group)
        resource = self.reader.resources_of(stack).make(group)
        assert isinstance(resource, SizedGroup)
        with type_code():
            return nested, named(members, self.facts(resource, nested, resource.limits))

    def recover(self, context: Context, stack: StackRecord, name: str, step: RepairStep, body: JsonMap) -> ActionRecord:
        """Enqueue a repair of a resource, or of the marked members of a group.

        Raises InvalidValue where nothing is marked, or the type cannot do the step, and as `Repairs.request`.
        """
        row = self.reader.resource(stack, name)
        if not issubclass(self.reader.resources_of(stack).type_of(row), SizedGroup):
            return self._repair(context, stack, (row.name,), step, body, of_group=False)
        nested = self.members_of(row)
        marked = self._marked(nested)
        if not marked:
            raise InvalidValue(f"No member of group {row.name} is marked unhealthy: there is nothing to recover.")
        return self._repair(context, nested, marked, step, body, of_group=True)

    def _marked(self, nested: StackRecord) -> Sequence[str]:
        """Return the names of the members that are marked unhealthy."""
        rows = current_rows(self._store.resources.of(nested.id))
        return tuple(one.name for one in rows if (one.verb, one.status) == (Verb.CHECK, Status.FAILED))

    def _repair(
        self,
        context: Context,
        stack: StackRecord,
        names: Sequence[str],
        step: RepairStep,
        body: JsonMap,
        of_group: bool,
    ) -> ActionRecord:
        """Begin a repair of resources of one stack, which may be nested.

        `of_group`: the stack is that of the group that was asked.
        """
        root, selection = self._selection(stack, names, step)
        first = next(iter(selection.steps))
        asked = first.removesuffix(f"/{names[0]}") if of_group else first
        path = f"/resources/{asked}/actions"
        return self._repairs.request(context, root, selection, path, body)

    def _selection(
        self, stack: StackRecord, names: Sequence[str], step: RepairStep
    ) -> tuple[StackRecord, Selection]:
        """Return the root of a stack, and the selection of its resources."""
        lineage = [stack, *self._store.stacks.ancestors(stack)]
        start = "".join(f"{one.parent_resource}/" for one in reversed(lineage) if one.parent_resource is not None)
        root = next(one for one in lineage if one.root_id is None)
        return root, Selection({f"{start}{name}": step for name in names})


def later_change(group: str, request: SizeRequest | JoinRequest | Leave | PolicyRequest) -> Later:
    """Return a change of a group, to be carried out later."""
    key, body = request.operation.value, body_of(request)
    options = body[key]
    assert isinstance(options, dict)
    return Later(key, resource=group, options=options)


def _limits(resource: SizedGroup[Schema], request: SizeRequest) -> SizeLimits:
    """Return the limits that a request keeps.

    Raises InvalidValue if the lower one is above the other.
    """
    if isinstance(request, FollowTemplate):
        return resource.size_limits()
    now = resource.limits
    if not isinstance(request, ResizeRequest | NewLimits):
        return now
    low = now.low if request.min_size is None else request.min_size
    high = now.high if request.max_size is None else request.max_size
    if low > high:
        raise InvalidValue(f"Group {resource.name} would have the limits {low} and {high}: min_size is above max_size.")
    return SizeLimits(low, high, now.cooldown)
