"""Orders to the nested stacks of an execution's resources.

An order is the nested stack's new row and an action derived from the execution's own. It is written in the commit that
writes its resource's state, so that neither exists without the other. Then the resource waits for the action's end.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from sys import maxsize

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData, ActionInputs, MemberChange
from heatlite.core.actions.repairs import Selection
from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable, InvalidStackState, NotFound, RequestLimitExceeded
from heatlite.core.ids import random_id
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.core.json import size as json_size
from heatlite.core.status import ActionStatus, Cause, Control, LockLevel, Needs, Status, Verb
from heatlite.engine.calls.step_execution import NestedOperation
from heatlite.engine.planning.child_definition import begun_child, check_immutable, child_template, follows, made_anew
from heatlite.engine.planning.collect import facade_row, with_anew
from heatlite.engine.planning.group_members import choose_leaving, decided_on
from heatlite.engine.planning.stack_data_budget import StackDataBudget
from heatlite.engine.state.conflict_rules import Operation, locked_error, maintenance_refusal
from heatlite.engine.state.definitions import Definitions, pseudo_parameters
from heatlite.engine.state.left_out import KEPT, OwnDefinition, PutBack, below, left_out_below, own_definition
from heatlite.engine.state.retained import retained_in_tree
from heatlite.engine.state.unit_of_work import stack_event, with_state
from heatlite.engine.types.resource_factory import ResourceFactory, inherited
from heatlite.engine.types.template_types import TemplateResource
from heatlite.plugin.groups import SizedGroup
from heatlite.plugin.handlers import Unhealthy
from heatlite.plugin.nested import ChildStack, StackResource
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.stacks.sizes import DefinitionSize
from heatlite.store.store import Store
from heatlite.template.document import Definition, Template

ADOPTION = "adoption"
"""The author of a group's size that an adoption has found."""

_FAILED_RESOURCE = re.compile(r"(?:Resource \w+ failed: )?(\w+): (resources\..*)", re.DOTALL)


@contextmanager
def _unchanged_by_outages(resource: Resource[Schema]) -> Iterator[None]:
    """Restore the data of a resource if the database is away: the caller asks again."""
    before = deepcopy(resource.data)
    try:
        yield
    except DatabaseUnavailable:
        resource.data.clear()
        resource.data.update(before)
        raise


class Order(Struct, frozen=True):
    """An order to a nested stack."""

    stack: StackRecord
    """The row after the action is queued."""
    action: ActionRecord
    is_new: bool = False
    template: Template | None = None
    """The new template; None: unchanged."""
    definition: Definition | None = None
    pause: float = 0.0
    """Seconds to wait before the order is placed."""
    size: int | None = None
    """The new size of its definition (`_definition_size`); None: unchanged."""


class Children:
    """Creates and writes the orders of one execution."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        definitions: Definitions,
        resources: ResourceFactory,
        action: ActionRecord,
        most_resources: int,
        budget: StackDataBudget,
    ) -> None:
        self._store = store
        self._clock = clock
        self._definitions = definitions
        self._resources = resources
        self._action = action
        self._most_resources = most_resources
        self._deepest = resources.types.installation.max_nested_stack_depth
        self._budget = budget
        self._room: int | None = None
        """Number of resources that may still be added to the tree; None: not read yet."""
        self._has_left_out_retained = False
        self._placed: list[Order] = []
        self._templates: dict[int, tuple[Mapping[str, Json], Template, str]] = {}
        """Templates by the identity of their document: each is read once for many nested stacks."""

    # -- making orders -------------------------------------------------------------------------------

    def converge(
        self, operation: NestedOperation, definition: Definition, urgent: bool, deadline: float | None
    ) -> Order | None:
        """Return the order of a create's or update's next round; None after the last.

        Raises the error that fails the resource.
        """
        resource = operation.resource
        assert isinstance(resource, StackResource)
        with _unchanged_by_outages(resource):
            nested = resource.facts.nested = self._resources.viewer(resource.physical_id)
            own = own_definition(operation.row, self._resources.kept)
            if own is not None and isinstance(definition.resources[operation.row.name], PutBack):
                return self._put_back(operation, own, deadline)
            if operation.verb is Verb.ADOPT:
                child = self._adopted(operation, resource)
            elif self._only_leads(operation) and (leads := nested()) is not None:
                child = None if operation.round > 0 else replace(resource.goal(), template=leads.template)
            else:
                if operation.round == 0:
                    since = partial(self._store.actions.unreached_since, self._resources.root_id)
                    choose_leaving(resource, self._resources.undone_since() is not None, since)
                child = resource.child(operation.round)
            if child is None:
                return None
            view = nested()
            before = None if view is None else view.stack
            if before is not None and before.lock is not None:
                raise locked_error(Operation.UPDATE, before)  # Only a rollback reaches this line.
            assert operation.wanted is not None
            row = facade_row(operation.row, operation.wanted)
            stack, template, bound, size = self._bound(row, resource, definition, child, before)
            stack = stack if own is None else own.kept_by(stack)
            if not isinstance(resource, TemplateResource):
                urgent = True  # another round may follow
            inputs = self._inputs(operation)
            action = self._derived(stack, urgent, deadline, inputs)
            if before is not None and not isinstance(resource, TemplateResource):
                action = replace(action, data=self._membership(before, bound))
            action = replace(action, data=decided_on(resource, view, action.data))
            grace = 0 if action.data.deletion is None else action.data.deletion.grace_period
            return Order(stack, action, view is None, template, bound, max(child.pause, grace or 0), size)

    def _put_back(self, operation: NestedOperation, own: OwnDefinition, deadline: float | None) -> Order | None:
        """Return the order that gives a nested stack its own definition again."""
        if operation.round > 0:
            return None
        resource, view = operation.resource, self._resources.nested(operation.resource.physical_id)
        resource.data.clear()
        resource.data.update({**own.data, KEPT: operation.row.data[KEPT]})
        before, now = None if view is None else view.stack, self._clock.now()
        stack = own.given_to(begun_child(self._resources.stack, operation.row, before, now, self._deepest))
        definition = self._definitions.of(stack)
        template = definition.template
        size = _definition_size(stack, None if isinstance(resource, TemplateResource) else template)
        action = self._derived(stack, True, deadline, self._inputs(operation))
        return Order(stack, action, before is None, template, definition, size=size)

    def _inputs(self, operation: NestedOperation) -> ActionInputs:
        """Return the inputs of a derived action, taken from those of its parent's."""
        own = self._action.inputs
        keeps_old = own.leaves_old and operation.verb is Verb.UPDATE
        kept = below(operation.row, self._resources.kept)
        if operation.cleans_after is not None:
            return ActionInputs(cleans_after=operation.cleans_after)
        if operation.verb is Verb.DELETE:
            return ActionInputs(abandon=keeps_objects(self._action), force=own.force)
        if own.resources is not None and self._resources.stack.verb is not Verb.ROLLBACK:
            entries = as_map(self._entry(operation).get("resources"))
            return ActionInputs(resources=entries, keeps_old=keeps_old, kept=kept)
        selection = own.heal
        if selection is not None:
            within = selection.below(operation.row.name, compares=not self._only_leads(operation))
            return ActionInputs(heal=within if operation.verb is Verb.UPDATE else None)
        return ActionInputs(
            converge=own.converge,
            level=own.level,
            snapshot=own.snapshot,
            selection=self._chosen_below(operation),
            keeps_old=keeps_old,
            kept=kept,
        )

    def _chosen_below(self, operation: NestedOperation) -> Selection | None:
        """Return what an update of the definition selects in a nested stack.

        None: it does all there.
        """
        selection = self._resources.selection
        if selection is None or selection.is_repair or operation.verb not in (Verb.CREATE, Verb.UPDATE):
            return None
        within = selection.below(operation.row.name)
        return within if within.steps or within.outside else None

    def _only_leads(self, operation: NestedOperation) -> bool:
        """Return True if an update brings only a repair within: the definition stays."""
        row, wanted = operation.row, operation.wanted
        is_restricted = self._action.inputs.heal is not None and operation.verb is Verb.UPDATE
        return is_restricted and wanted is not None and not follows(row, wanted)

    def _entry(self, operation: NestedOperation) -> JsonMap:
        """Return the recorded entry of the resource, in an adoption or a restore."""
        entry, resource = as_map((self._action.inputs.resources or {}).get(operation.row.name)), operation.resource
        return resource.recorded(entry) if isinstance(resource, StackResource) else entry

    def _adopted(self, operation: NestedOperation, resource: StackResource[Schema]) -> ChildStack | None:
        """Return the child in one round, with its recorded members.

        The type might give the members new names. A group keeps the size to which it was scaled before.
        """
        if operation.round > 0:
            return None
        goal, template = resource.goal(), self._entry(operation).get("template")
        if not isinstance(template, dict):
            return goal
        members = template.get("resources")
        if isinstance(resource, SizedGroup) and isinstance(members, dict):
            asked = resource.asked_size()
            if resource.remembered_size(asked) is None and asked is not None and len(members) != asked:
                resource.set_size(len(members), ADOPTION)
        return replace(goal, template=template, pause=0.0)

    def resize(
        self,
        row: ResourceRecord,
        resource: Resource[Schema],
        definition: Definition,
        child: ChildStack,
        data: ActionData | None = None,
    ) -> Order:
        """Return the order by which a signal resizes a nested stack.

        The action itself is the update; the parent takes no part. Raises the error that makes it impossible.
        """
        view = self._resources.nested(row.physical_id)
        if view is None:
            raise InvalidStackState(f"The stack of resource {row.name} was deleted meanwhile.")
        stack, template, bound, size = self._bound(row, resource, definition, child, view.stack)
        root, names = self._store.stacks.place(self._resources.stack)
        inputs = replace(self._action.inputs, selection=left_out_below(root, (*names, row.name), bound))
        action = replace(self._action, inputs=inputs, data=data or self._membership(view.stack, bound))
        return Order(stack, action, False, template, bound, size=size)

    def adopted(self, row: ResourceRecord, resource: StackResource[Schema], definition: Definition) -> Order:
        """Return the nested stack of a new row, as an adoption has left it.

        Its objects exist, and nothing begins there. Raises the error that makes it impossible.
        """
        stack, template, bound, size = self._bound(row, resource, definition, resource.goal(), None)
        stack = with_state(stack, Verb.ADOPT, Status.COMPLETE, "Stack ADOPT completed successfully")
        return Order(stack, self._action, True, template, bound, size=size)

    def _membership(self, before: StackRecord, after: Definition) -> ActionData:
        """Return which members a change of a group creates and deletes."""
        earlier = self._definitions.of(before).resources
        created = tuple(name for name in after.resources if name not in earlier)
        deleted = tuple(name for name in earlier if name not in after.resources)
        return ActionData(MemberChange.of(created) if created else None, MemberChange.of(deleted) if deleted else None)

    def _bound(
        self,
        row: ResourceRecord,
        resource: Resource[Schema],
        definition: Definition,
        child: ChildStack,
        before: StackRecord | None,
    ) -> tuple[StackRecord, Template, Definition, int | None]:
        """Return the new row of the nested stack, its template, definition and size.

        The size is None if it does not change.
        """
        stack = begun_child(self._resources.stack, row, before, self._clock.now(), self._deepest)
        environment, facade = inherited(definition, row, resource.facts.update_policy, child.parameters)
        earlier = None if before is None else self._definitions.of(before)
        template, address = self._template(child.template, definition, earlier)
        bound = template.bind(environment, pseudo_parameters(stack), types=self._resources.types, facade=facade)
        without: list[Json] = [*sorted(environment.without)]
        anew = made_anew(row, definition, self._resources.chosen, self._resources.stack)
        stack = replace(
            stack,
            template_id=address,
            environment=environment.to_dict(),
            inherited=with_anew({"facade": facade, "without": without}, anew),
            # Secrets of a tree are known at its creation, except those of templates that types generate.
            sealed=stack.sealed or bool(template.hidden) or self._resources.may_have_accounts(bound),
        )
        known = held = 0
        makes_template = not isinstance(resource, TemplateResource)
        if before is not None and earlier is not None:
            known = len(earlier.resources)
            check_immutable(earlier, bound)
            held = _definition_size(before, earlier.template if makes_template else None)
        self._take_room(len(bound.resources) - known)
        size = _definition_size(stack, template if makes_template else None)
        self._budget.take_definition(row.id, size - held)
        return stack, template, bound, None if before is not None and size == held else size

    def _template(
        self, document: Mapping[str, Json], definition: Definition, earlier: Definition | None
    ) -> tuple[Template, str]:
        """The nested template, with the parent's files, and its address in the store."""
        known = self._templates.get(id(document))
        if known is None:
            template = child_template(document, definition, earlier)
            address = self._store.templates.address(template.document, template.files)
            known = self._templates[id(document)] = document, template, address
        return known[1], known[2]

    def _take_room(self, more: int) -> None:
        """Count new resources.

        Raises RequestLimitExceeded if the tree would have too many.
        """
        if self._room is None:
            root = self._resources.stack.root_id or self._resources.stack.id
            self._room = self._most_resources - self._store.resources.count_in_tree(root)
        if more > self._room and not self._has_left_out_retained:  # few trees are so full
            self._room += self._store.resources.count(retained_in_tree(self._store, self._resources.stack))
            self._has_left_out_retained = True
        if more > self._room:
            raise RequestLimitExceeded(message=f"Maximum resources per stack exceeded: {self._most_resources}.")
        self._room -= max(0, more)

    def forward(self, operation: NestedOperation, deadline: float | None) -> Order | None:
        """Return the order that passes the operation on to the nested stack.

        None if there is nothing to do. Raises NotFound.
        """
        verb, inputs = operation.verb, self._inputs(operation)
        view = self._resources.nested(operation.resource.physical_id)
        if view is None:
            if verb in (Verb.DELETE, Verb.LOCK, Verb.UNLOCK):
                return None
            missing = NotFound(entity="nested stack", name=operation.resource.physical_id or operation.row.name)
            if verb is Verb.CHECK:
                raise Unhealthy(missing.message) from missing
            raise missing
        own = view.stack.lock
        if verb in (Verb.LOCK, Verb.UNLOCK):
            verb = self._action.verb  # A change of the lock's level unlocks resources, but never a stack.
            if own is not None and own.level is LockLevel.ALL:
                return None  # The nested stack's own lock holds all its resources already.
            if own is not None and verb is Verb.UNLOCK:
                verb, inputs = Verb.LOCK, ActionInputs(level=own.level)
        error = maintenance_refusal(Operation.DELETE, view.stack) if verb is Verb.DELETE else None
        if error is not None:
            raise error
        stack = with_state(view.stack, verb, Status.IN_PROGRESS, f"Stack {verb} started")
        if verb is Verb.DELETE:
            stack = replace(stack, updated_at=self._clock.now(), lock=None)
        return Order(stack, self._derived(stack, False, deadline, inputs))

    def _derived(self, stack: StackRecord, urgent: bool, deadline: float | None, inputs: ActionInputs) -> ActionRecord:
        return ActionRecord(
            id=random_id(),
            stack_id=stack.id,
            root_id=stack.root_id or stack.id,
            project=stack.project,
            verb=stack.verb,
            status=ActionStatus.INIT,
            requested_by=self._action.requested_by,
            created_at=self._clock.now(),
            cause=Cause.DERIVED,
            inputs=inputs,
            context=self._action.context,
            zone=self._action.zone,
            timeout=self._action.timeout,
            deadline=deadline,
            parent_id=self._action.id,
            urgent=urgent,
        )

    # -- writing orders ------------------------------------------------------------------------------

    def place(self, order: Order) -> None:
        """Queue the order for the next commit."""
        self._placed.append(order)

    @property
    def placed(self) -> bool:
        """True if there are orders to write."""
        return bool(self._placed)

    def take(self) -> list[Order]:
        """Return the orders that are not written yet, and count them as written."""
        orders, self._placed = self._placed, []
        return orders

    def write(self, orders: Sequence[Order]) -> None:
        """Write orders. Call in a transaction."""
        now = self._clock.now()
        self._store.stacks.insert_many([order.stack for order in orders if order.is_new])
        self._store.stacks.save_many([order.stack for order in orders if not order.is_new])
        self.write_definitions(orders)
        self._store.events.append_many([stack_event(order.stack, now) for order in orders])
        self._store.queue.enqueue_children([order.action for order in orders if order.action.verb is not Verb.DELETE])
        for order in orders:
            if order.action.verb is Verb.DELETE:
                holder = self._abort(order.stack)
                self._store.queue.enqueue(order.action, [] if holder is None else [(holder, Needs.END)])

    def write_definitions(self, orders: Sequence[Order]) -> None:
        """Write the definitions of orders, whose stacks are stored. Call in a transaction."""
        templates = {order.stack.template_id: order for order in orders if order.template is not None}
        for address, order in templates.items():
            assert order.template is not None
            self._store.templates.put(order.template.document, order.template.files, address, order.stack.sealed)
        self._store.stack_sizes.record_definitions(
            [
                DefinitionSize(order.stack.id, order.stack.root_id or order.stack.id, order.size, order.is_new)
                for order in orders
                if order.size is not None
            ]
        )

    def _abort(self, stack: StackRecord) -> str | None:
        """Abort the actions on a nested stack before its deletion.

        Returns the id of the running one.
        """
        self._store.controls.cancel_queued([stack.id], "the stack is deleted", self._clock.now())
        holder = None
        for action in self._store.actions.live([stack.id]):
            self._store.controls.signal(action.id, Control.ABORT, self._clock.now())
            holder = action.id
        return holder

    def written(self, orders: Sequence[Order]) -> None:
        """Cache the definitions of committed orders, so that no step binds them again."""
        for order in orders:
            if order.definition is not None:
                self._definitions.keep(order.stack, order.definition)

    # -- what came of them ---------------------------------------------------------------------------

    def ended(self, action_ids: Sequence[str]) -> list[ActionRecord]:
        """Return the actions that have ended."""
        return self._store.actions.ended(action_ids)

    def derived(self, operation: NestedOperation) -> str | None:
        """Return the id of the action that an earlier attempt has ordered, ended or not."""
        stack_id = operation.resource.physical_id
        action = None if stack_id is None else self._store.actions.last_child(self._action.id, stack_id)
        is_same = action is not None and action.inputs.cleans_after == operation.cleans_after
        return action.id if action is not None and is_same else None

    def running(self) -> list[str]:
        """Return the ids of unfinished actions on nested stacks, ordered by any attempt."""
        return [child.id for child in self._store.actions.children(self._action.id)]

    def stop(self, action_ids: Sequence[str], control: Control) -> None:
        """Ask actions to stop."""
        with self._store.transaction():
            for action_id in action_ids:
                self._store.controls.signal(action_id, control, self._clock.now())


def _definition_size(stack: StackRecord, template: Template | None) -> int:
    """Return the size of a nested stack's definition, in characters of JSON.

    It counts the `template` only if no other stack has it.
    """
    return json_size([stack.environment, stack.inherited, None if template is None else template.document], maxsize)


def keeps_objects(action: ActionRecord) -> bool:
    """True if the action forgets objects instead of deleting them.

    It abandons the stack, or undoes an adoption.
    """
    return action.inputs.abandon or action.verb is Verb.ADOPT


def nested_failure(name: str, reason: str) -> str:
    """Return the failure of a resource whose nested stack failed, as Heat does.

    It has the path to the root cause: ``ValueError: resources.group.resources.0: no room`` for resource 0 in the nested
    stack of `group`.
    """
    found = _FAILED_RESOURCE.fullmatch(reason)
    if found is not None:
        return f"{found[1]}: resources.{name}.{found[2]}"
    return f"ResourceFailure: resources.{name}: {reason}"
