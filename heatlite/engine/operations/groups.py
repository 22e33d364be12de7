"""Operations on the members of groups: resize, scale, delete, replace, recover."""

import math
from collections.abc import Sequence
from random import Random

from msgspec import convert
from msgspec.structs import replace

from heatlite.core.action_payloads import ActionData, ActionInputs, MemberChange
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import ActionCooldown, HTTPBadRequest, InvalidValue
from heatlite.core.json import JsonMap
from heatlite.core.repairs import RepairStep, Selection
from heatlite.core.status import Cause, Status, Verb
from heatlite.engine.admission.admission import Admission
from heatlite.engine.operations.repairs import Repairs
from heatlite.engine.planning.group_changes import GroupFacts, MemberFacts, MembersChange, change_members, named
from heatlite.engine.planning.tree_budget import TreeBudget
from heatlite.engine.preview.preview import check_protected
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.group_requests import (
    DeleteMembers,
    FollowTemplate,
    ScaleIn,
    ScaleOut,
    SizeRequest,
    body_of,
)
from heatlite.engine.state.values import current_rows
from heatlite.engine.steps.children import Children
from heatlite.engine.types.outputs import StackReader
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.groups import SizedGroup
from heatlite.plugin.schema import Schema
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store


class Groups:
    """Changes the members of groups."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        definitions: Definitions,
        admission: Admission,
        reader: StackReader,
        repairs: Repairs,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._definitions = definitions
        self._admission = admission
        self._reader = reader
        self._repairs = repairs
        self._random = Random()

    # -- size ----------------------------------------------------------------------------------------

    def change(self, context: Context, stack: StackRecord, name: str, request: SizeRequest) -> ActionRecord:
        """Enqueue a change of a group's members, and return its action.

        The stack that has the group is not held: groups of a stack scale side by side. Raises InvalidValue for limits
        and members, ActionCooldown, DeletionProtected, and as `admitted`.
        """
        group = self._group_row(stack, name)
        body, path = body_of(request), f"/resources/{name}/actions"
        prechecked = self._admission.precheck(context, request.operation, stack, "POST", path, body, target=group.name)
        with self._admission.admitted(prechecked, on=self._members_of(group)) as nested:
            group = self._group_row(stack, group.name)
            resources = self._reader.resources_of(stack)
            resource = resources.make(group)
            assert isinstance(resource, SizedGroup)
            with type_code():
                self._check_cooldown(resource, request)
                before = self._facts(resource, nested)
                change = change_members(request, before, self._random)
                joining = tuple(resource.new_names(change.joining, change.leaving))
                self._remember(resource, request, before, change, context.user)
                stays = [one for one in resource.definitions if one not in change.leaving]
                child = resource.having([*stays, *joining])
            action = self._action(context, nested, request, body)
            data = _data(request, change, joining, before)
            most = self._settings.max_resources_per_stack
            children = Children(
                self._store, self._clock, self._definitions, resources, action, most, TreeBudget(resources)
            )
            order = children.resize(group, resource, self._definitions.of(stack), child, data)
            assert order.definition is not None
            check_protected(order.definition, resources.within(order.stack))
            children.write([order])
            context.queued.append(action.id)
            self._store.resources.save_many([replace(group, data=dict(resource.data))])
        return action

    def _group_row(self, stack: StackRecord, name: str) -> ResourceRecord:
        """Return the row of a group.

        Raises ResourceNotFound, and HTTPBadRequest for another type.
        """
        row = self._reader.resource(stack, name)
        if not issubclass(self._reader.resources_of(stack).type_of(row), SizedGroup):
            raise HTTPBadRequest(f"Resource {row.name} of type {row.type} is no group.")
        return row

    def _members_of(self, group: ResourceRecord) -> StackRecord:
        """Return the nested stack of a group. Raises HTTPBadRequest while there is none."""
        nested = None if group.physical_id is None else self._store.stacks.get(group.physical_id)
        if nested is None:
            raise HTTPBadRequest(f"Group {group.name} has no members yet: it was not created.")
        return nested

    def _check_cooldown(self, resource: SizedGroup[Schema], request: SizeRequest) -> None:
        if isinstance(request, ScaleIn | ScaleOut) and not request.ignore_cooldown:
            left = math.ceil(resource.cooldown_left())
            if left > 0:
                error = ActionCooldown(group=resource.name, seconds=left)
                error.retry_after = left
                raise error

    def _facts(self, resource: SizedGroup[Schema], nested: StackRecord) -> GroupFacts:
        rows = {row.name: row for row in current_rows(self._store.resources.of(nested.id))}
        limits, names = resource.size_limits(), resource.leaving_order()
        members = [_member(resource, name, rows.get(name)) for name in names]
        return GroupFacts(resource.name, members, limits.low, limits.high, resource.asked_size())

    def _remember(
        self,
        resource: SizedGroup[Schema],
        request: SizeRequest,
        before: GroupFacts,
        change: MembersChange,
        user: str,
    ) -> None:
        """Keep the new size for the next update, and begin the cooldown of a scaling."""
        size = len(before.members) - len(change.leaving) + change.joining
        if isinstance(request, FollowTemplate):
            resource.forget_size()
        elif not isinstance(request, DeleteMembers) or request.reduce:
            resource.set_size(size, user)
        if isinstance(request, ScaleIn | ScaleOut):
            by = request.count if isinstance(request, ScaleOut) else -request.count
            resource.begin_cooldown(resource.size_limits().cooldown, f"change_in_capacity : {by}")

    def _action(self, context: Context, nested: StackRecord, request: SizeRequest, body: JsonMap) -> ActionRecord:
        """Return the record of the action, which begins after the grace period."""
        action = self._admission.new_action(context, nested, Verb.UPDATE, convert(body, ActionInputs))
        grace = request.grace_period if isinstance(request, ScaleIn | DeleteMembers) else 0
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
        row = self._reader.resource(stack, name)
        is_group = issubclass(self._reader.resources_of(stack).type_of(row), SizedGroup)
        members = self._members_of(row) if is_group else None
        return self._repairs.check(context, stack, row.name, members, believes_absence)

    # -- repairs -------------------------------------------------------------------------------------

    def replace_members(self, context: Context, stack: StackRecord, name: str, members: Sequence[str]) -> ActionRecord:
        """Enqueue a repair of the root that replaces members, under the same names.

        They need no mark.

        Raises InvalidValue for members that are not there or are named twice, and as `Repairs.begin`.
        """
        group = self._group_row(stack, name)
        nested = self._members_of(group)
        resource = self._reader.resources_of(stack).make(group)
        assert isinstance(resource, SizedGroup)
        with type_code():
            names = named(members, self._facts(resource, nested))
        body: JsonMap = {"replace_members": {"members": [*members]}}
        return self._repair(context, nested, names, RepairStep.REPLACE, body, of_group=True)

    def recover(self, context: Context, stack: StackRecord, name: str, step: RepairStep, body: JsonMap) -> ActionRecord:
        """Enqueue a repair of a resource, or of the marked members of a group.

        Raises InvalidValue where nothing is marked, or the type cannot do the step, and as `Repairs.begin`.
        """
        row = self._reader.resource(stack, name)
        if not issubclass(self._reader.resources_of(stack).type_of(row), SizedGroup):
            return self._repair(context, stack, (row.name,), step, body, of_group=False)
        nested = self._members_of(row)
        rows = current_rows(self._store.resources.of(nested.id))
        marked = tuple(one.name for one in rows if (one.verb, one.status) == (Verb.CHECK, Status.FAILED))
        if not marked:
            raise InvalidValue(f"No member of group {row.name} is marked unhealthy: there is nothing to recover.")
        return self._repair(context, nested, marked, step, body, of_group=True)

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
        above = self._store.stacks.ancestors(stack)
        lineage = [stack, *above]
        start = "".join(f"{one.parent_resource}/" for one in reversed(lineage) if one.parent_resource is not None)
        selection = Selection({f"{start}{name}": step for name in names})
        root = next(one for one in lineage if one.root_id is None)
        asked = start.rstrip("/") if of_group else start + names[0]
        path = f"/resources/{asked}/actions"
        return self._repairs.begin(context, root, selection, Cause.REQUEST, path=path, body=body)


def _member(resource: SizedGroup[Schema], name: str, row: ResourceRecord | None) -> MemberFacts:
    """Return the facts of a member; one that was never made counts as failed."""
    if row is None:
        return MemberFacts(name, None, 0.0, failed=True)
    failed = row.status is Status.FAILED or row.verb is Verb.INIT
    return MemberFacts(name, row.physical_id, row.created_at, failed, resource.is_outdated(name))


def _data(request: SizeRequest, change: MembersChange, joining: tuple[str, ...], before: GroupFacts) -> ActionData:
    """Return the decisions, which a takeover reads instead of deciding again."""
    objects = {one.name: one.physical_id for one in before.members if one.name in change.leaving}
    criteria = request.criteria.value if isinstance(request, ScaleIn) else None
    grace = request.grace_period if isinstance(request, ScaleIn | DeleteMembers) else None
    return ActionData(
        creation=MemberChange.of(joining) if joining else None,
        deletion=MemberChange.of(change.leaving, criteria, grace, objects) if change.leaving else None,
    )
