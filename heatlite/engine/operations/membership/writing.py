"""Commit of members that enter or leave a group with their objects.

One transaction writes rows, definition, size and an action that has ended. So a crash leaves all of it or nothing, and
there is nothing to cancel. No object is touched. What else follows, such as members in the places of those that left,
is an action of its own.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, convert
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData, ActionInputs, ActionOutputs, MemberChange
from heatlite.core.context import Context
from heatlite.core.errors import InvalidStackState
from heatlite.core.status import Cause, Result, Status, Verb, state
from heatlite.engine.admission.base import StackOperations
from heatlite.engine.execution.members_result import with_members
from heatlite.engine.operations.asked import GroupChange
from heatlite.engine.planning.group_members import balancing
from heatlite.engine.preview.preview import StackPreview, stand_in
from heatlite.engine.preview.preview_views import plan_entry
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.group_requests import Adjustment, JoinRequest, Leave, ResizeRequest, body_of
from heatlite.engine.state.requests import PlannedResource, ShownPlan
from heatlite.engine.state.unit_of_work import operation_event, stack_event
from heatlite.engine.steps.children import Children, Order
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.plugin.groups import SizedGroup
from heatlite.plugin.nested import ChildStack
from heatlite.plugin.schema import Schema
from heatlite.store.feature_store import ObjectNews
from heatlite.store.records import ActionRecord, EventRecord, ResourceRecord, StackRecord
from heatlite.template.environment import Environment


class FoundGroup(Struct, frozen=True):
    """A group as a request finds it."""

    owner: StackRecord
    """The stack that has the group."""
    group: ResourceRecord
    nested: StackRecord
    rows: Sequence[ResourceRecord]
    """The rows of its nested stack."""
    resources: ResourceFactory
    """Those of the owner."""
    resource: SizedGroup[Schema]
    """Its `data` are what the operation makes of them."""


class NewStack(Struct, frozen=True):
    """The nested stack of a member with several objects."""

    member: ResourceRecord
    """The row of the group's nested stack that has it."""
    order: Order
    rows: Sequence[ResourceRecord]

    @property
    def missing(self) -> list[ResourceRecord]:
        """Resources without an object, which an action has to make."""
        assert self.order.definition is not None
        resources, names = self.order.definition.resources, {row.name for row in self.rows}
        return [stand_in(resources[name], self.order.stack) for name in sorted(resources.keys() - names)]


class MembershipDraft(Struct, frozen=True):
    """A change of a group's members, as it is planned and written."""

    place: FoundGroup
    order: Order
    """The new definition of the nested stack, with the action."""
    plan: ShownPlan
    gone: Sequence[ResourceRecord] = ()
    """Rows that leave."""
    new: Sequence[ResourceRecord] = ()
    """Rows that enter."""
    events: Sequence[EventRecord] = ()
    to_make: tuple[str, ...] = ()
    """Names of members that an action of its own makes."""
    waits: Mapping[str, str] = {}
    """Members that do not leave at once, each with what the plan says of it."""
    stacks: Sequence[NewStack] = ()
    """Nested stacks of members that enter."""

    @property
    def group(self) -> ResourceRecord:
        """The row of the group afterwards."""
        return replace(self.place.group, data=dict(self.place.resource.data))

    @property
    def rows(self) -> list[ResourceRecord]:
        """The rows of the nested stack afterwards."""
        gone = {row.id for row in self.gone}
        return [row for row in (*self.place.rows, *self.new) if row.id not in gone]

    @property
    def has_more(self) -> bool:
        """True if an action has to follow.

        Definition and rows have other names, or a pool takes new members.
        """
        assert self.order.definition is not None
        names = {row.name for row in self.rows}
        if self.order.definition.resources.keys() != names or any(one.missing for one in self.stacks):
            return True
        return bool(self.new) and balancing(self.place.group) is not None


class MembershipWriter(StackOperations):
    """Makes the order of a changed group, and commits the change."""

    def place(self, owner: StackRecord, group: ResourceRecord, nested: StackRecord) -> FoundGroup:
        """Return a group as it is now.

        Raises InvalidStackState if its last operation has failed: rows and definition differ.
        """
        verb, status = nested.state_without_lock
        if status is Status.FAILED and verb is not Verb.CHECK:
            text = f"Group {group.name} is {state(verb, status)}. Update stack {owner.name}, then try again."
            raise InvalidStackState(text)
        resources = self.reader.resources_of(owner)
        resource = resources.make(group)
        assert isinstance(resource, SizedGroup)
        return FoundGroup(owner, group, nested, self._store.resources.of(nested.id), resources, resource)

    def order(
        self, context: Context, place: FoundGroup, child: ChildStack, request: JoinRequest | Leave, data: ActionData
    ) -> Order:
        """Return the order for a new definition of a group. Reads the database only."""
        inputs = convert(body_of(request), ActionInputs)
        action = self._admission.new_action(context, place.nested, Verb.UPDATE, inputs)
        children = self.children_of(action, place.resources)
        return children.resize(place.group, place.resource, self._definitions.of(place.owner), child, data)

    def environment(self, place: FoundGroup) -> Environment:
        """Return the environment of a group's nested stack."""
        return self._definitions.of(place.nested).environment

    def event(self, row: ResourceRecord, operation: Operation, reason: str) -> EventRecord:
        """Return the event of a member that enters or leaves."""
        return operation_event(row, operation, reason, self._clock.now())

    def preview(self, draft: MembershipDraft) -> StackPreview:
        """Return the plan of the group's nested stack. Members that leave go in it."""
        place = draft.place
        children = self.children_of(draft.order.action, place.resources)
        return GroupChange(children, draft.order, place.group, place.resources).preview()

    def wait(self, context: Context, draft: MembershipDraft) -> ActionRecord:
        """Enqueue the action that waits until members are drained.

        Until its end only the state of the group's stack changes.
        """
        nested, action = draft.place.nested, draft.order.action
        before = (nested.verb, nested.status, nested.status_reason)
        action = replace(action, data=replace(action.data, state_before=before))
        self._admission.set_in_progress(nested, Verb.UPDATE)
        self._admission.enqueue_action(context, action)
        return action

    def write(self, context: Context, draft: MembershipDraft, is_recorded: bool = False) -> ActionRecord:
        """Commit a change, in the transaction that holds the nested stack.

        Returns its action, which has ended, or the one that does what else follows. `is_recorded`: the transaction ends
        an action for it.
        """
        store, place, now = self._store, draft.place, self._clock.now()
        nested, rows = place.nested, draft.rows
        news = ObjectNews(nested.project, nested.root_id or nested.id, now, gone=[row.id for row in draft.gone])
        seen = store.objects_seen(news)
        store.resources.delete_many(news.gone)
        store.resources.insert_many(draft.new)
        store.resources.save_many([draft.group])
        action = draft.order.action
        if not is_recorded:
            outputs = ActionOutputs(result=Result.OK, stack_status=state(Verb.UPDATE, Status.COMPLETE))
            action = self._admission.record_done(context, action, with_members(outputs, store, action, rows))
        more = self._more(context, draft) if draft.has_more else None
        children = self.children_of(action, place.resources)
        children.write_definitions([draft.order])
        stack = draft.order.stack
        events = [stack_event(stack, now), *seen, *draft.events]
        if more is None:
            stack = _at_end(stack, nested)
            events.append(stack_event(stack, now))
        else:
            store.queue.enqueue_children([more])
            context.queued.append(more.id)
        store.stacks.save(stack)
        store.events.append_many(events)
        self._record_size(stack, rows)
        for one in draft.stacks:
            self._write_stack(one, children)
        return action if more is None else more

    def _write_stack(self, new: NewStack, children: Children) -> None:
        """Write the nested stack of a member that enters."""
        store, stack = self._store, new.order.stack
        store.stacks.insert_many([stack])
        children.write_definitions([new.order])
        store.resources.insert_many(new.rows)
        store.events.append_many([stack_event(stack, self._clock.now())])
        self._record_size(stack, new.rows)

    def _more(self, context: Context, draft: MembershipDraft) -> ActionRecord:
        """Return the action that makes and deletes what else the definition asks for."""
        place = draft.place
        resize = ResizeRequest(
            Adjustment.EXACT_CAPACITY, len(place.resource.definitions) + _growth(draft), strict=False
        )
        inputs = convert(body_of(resize), ActionInputs)
        action = self._admission.new_action(context, place.nested, Verb.UPDATE, inputs)
        creation = MemberChange.of(draft.to_make) if draft.to_make else None
        data = ActionData(creation=creation, placement=draft.order.action.data.placement)
        return replace(action, cause=Cause.DERIVED, data=data)


def _growth(draft: MembershipDraft) -> int:
    return len(draft.new) + len(draft.to_make) - len(draft.gone)


def _at_end(begun: StackRecord, before: StackRecord) -> StackRecord:
    """Return the nested stack after the change. A failed check is not forgotten."""
    verb, status, reason = Verb.UPDATE, Status.COMPLETE, "Stack UPDATE completed successfully"
    if before.status is not Status.COMPLETE:
        verb, status, reason = before.verb, before.status, before.status_reason
    return replace(begun, verb=verb, status=status, status_reason=reason)


def further(draft: MembershipDraft, path: tuple[str, ...]) -> Iterator[PlannedResource]:
    """Yield the plan of what an action of its own makes and deletes afterwards.

    New members of scaling groups have no name yet.
    """
    definition = draft.order.definition
    assert definition is not None
    present = {row.name: row for row in draft.rows}
    number = 0
    for name, wanted in definition.resources.items():
        if name in present:
            continue
        number += 1
        shown_as = name if name.isdecimal() else f"new_{number}"
        row = stand_in(wanted, draft.place.nested)
        yield plan_entry((*path, shown_as), row, "create", "it takes the place of a member, or belongs to one")
    for name, row in present.items():
        if name not in definition.resources:
            yield plan_entry((*path, name), row, "delete", "it belongs to a member that leaves")
