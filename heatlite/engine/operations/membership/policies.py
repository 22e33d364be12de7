"""Policies that a group gets, changes and loses while it runs."""

from collections.abc import Callable

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from heatlite.clients.clouds import Clouds
from heatlite.core.actions.payloads import ActionInputs, ActionOutputs
from heatlite.core.context import Context
from heatlite.core.errors import EntityNotFound, InvalidValue
from heatlite.core.json import Json
from heatlite.core.status import Result, Verb
from heatlite.engine.admission.base import Parts, StackOperations
from heatlite.engine.admission.claims import NO_CLAIMS, PlanMoved, PreparedRequest, tries_again
from heatlite.engine.operations.asked import GroupChange
from heatlite.engine.operations.groups import Groups
from heatlite.engine.planning.group_members import can_have_address
from heatlite.engine.planning.group_policies import (
    LoadBalancing,
    StoredPolicy,
    ZonePlacement,
    policy,
    stored,
    types,
)
from heatlite.engine.preview.preview import check_protected
from heatlite.engine.preview.preview_views import detailed_plan, plan_entry, shown_plan
from heatlite.engine.state.group_requests import AttachPolicy, DetachPolicy, PolicyRequest, UpdatePolicy, body_of
from heatlite.engine.state.requests import PlannedResource, PropertyChange, ShownPlan
from heatlite.engine.state.unit_of_work import operation_event
from heatlite.plugin.groups import POLICIES
from heatlite.plugin.resource import ResourceType
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord

MOST_POLICIES = 20
"""Policies of a group."""


class PolicyChange(Struct, frozen=True):
    """A change of a policy of a group."""

    group: ResourceRecord
    """The row of the group, as it becomes."""
    name: str
    before: StoredPolicy | None
    after: StoredPolicy | None

    @property
    def moves_members(self) -> bool:
        """True if members may enter or leave a pool by it."""
        policy = self.after or self.before
        return policy is not None and policy.type == LoadBalancing.type_name

    @property
    def entry(self) -> PlannedResource:
        """The entry of the group in the plan of its nested stack."""
        old, new = _told(self.before), _told(self.after)
        change = PropertyChange(f"policies.{self.name}", old, new, is_open=False, replaces=False, because_of=())
        if old == new:
            return plan_entry((), self.group, "keep")
        return plan_entry((), self.group, "update", differences=(change,))


class GroupPolicies(StackOperations):
    """Changes the policies of groups.

    Each change is an action, which has ended. That of a policy for load balancing moves the members.
    """

    def __init__(self, parts: Parts, groups: Groups, clouds: Clouds) -> None:
        super().__init__(parts)
        self._groups = groups
        self._clouds = clouds

    def of(self, row: ResourceRecord) -> dict[str, StoredPolicy] | None:
        """Return the policies of a group by name; None if it has none."""
        return stored(row.data.get(POLICIES)) or None

    @tries_again
    def change(self, context: Context, stack: StackRecord, name: str, asked: PolicyRequest) -> ActionRecord:
        """Attach, update or detach a policy, and return the action.

        Raises as `_changed`, `_with_ids`, `_settling`, `Admission.examine` and `Admission.admitted`.
        """
        group = self._groups.group(stack, name)
        asked = self._with_ids(context, group, asked)
        body, path = body_of(asked), f"/resources/{name}/actions"
        request = self._admission.precheck(context, asked.operation, stack, "POST", path, body, target=group.name)
        members = self._groups.members_of(group)
        moves = self._changed(context, stack, members, name, asked).moves_members
        claims = self._admission.examine(self._asked(context, stack, members, name, asked)) if moves else NO_CLAIMS
        with self._admission.admitted(request, on=members) as nested:
            changed, now = self._changed(context, stack, nested, name, asked), self._clock.now()
            if changed.moves_members != moves:
                raise PlanMoved(stack_name=stack.name)
            settling = self._settling(context, stack, nested, changed, asked) if moves else None
            if settling is not None:
                claims.look(settling.preview)
            self._store.resources.save_many([changed.group])
            reason = f"Policy {asked.name}: {asked.operation} by {context.user}"
            self._store.events.append_many([operation_event(changed.group, asked.operation, reason, now)])
            if settling is None:
                action = self._new_action(context, nested, asked)
                return self._admission.record_done(context, action, ActionOutputs(result=Result.OK))
            self._groups.settle(context, settling)
            claims.take(settling.order.action, settling.order.stack, settling.preview)
            return settling.order.action

    def plan(self, context: Context, stack: StackRecord, name: str, asked: PolicyRequest) -> ShownPlan:
        """Return the plan of `change`: the policy, and who enters or leaves a pool.

        Writes nothing. Raises as `change`, but passes locks and actions.
        """
        group = self._groups.group(stack, name)
        members = self._groups.members_of(group)
        asked = self._with_ids(context, group, asked)
        changed = self._changed(context, stack, members, name, asked)
        if not changed.moves_members:
            return self._groups.placed(stack, name, detailed_plan([changed.entry], {}))
        going = self._asked(context, stack, members, name, asked)
        plan = self._groups.placed(stack, name, going.shown(going.preview()))
        return replace(plan, details=self._admission.shown(going))

    def _asked(
        self, context: Context, stack: StackRecord, members: StackRecord, name: str, asked: PolicyRequest
    ) -> PreparedRequest:
        """Return a request that moves members, as features examine it."""

        def changed() -> PolicyChange:
            return self._changed(context, stack, members, name, asked)

        going = self._groups.examined(
            context,
            stack,
            self._groups.group(stack, name),
            members,
            asked,
            lambda: self._settling(context, stack, members, changed(), asked),
        )
        return replace(
            going, shown=lambda preview: detailed_plan([changed().entry, *shown_plan(preview).resources], {})
        )

    def _settling(
        self, context: Context, stack: StackRecord, nested: StackRecord, changed: PolicyChange, asked: PolicyRequest
    ) -> GroupChange:
        """Return the change that moves the members.

        Raises DeletionProtected if it would also remove a protected object.
        """
        found = self._groups.settling(stack, changed.group, self._new_action(context, nested, asked))
        assert found.order.definition is not None
        check_protected(found.order.definition, found.within)
        return found

    def _new_action(self, context: Context, nested: StackRecord, asked: PolicyRequest) -> ActionRecord:
        return self._admission.new_action(context, nested, Verb.UPDATE, convert(body_of(asked), ActionInputs))

    def _with_ids(self, context: Context, group: ResourceRecord, asked: PolicyRequest) -> PolicyRequest:
        """Return a request with ids in place of names of objects (`GroupPolicy.finds`).

        Raises InvalidValue for an object that the caller does not see, NoCloud, CloudUnavailable.
        """
        if isinstance(asked, DetachPolicy):
            return asked
        given, kept = {**(asked.options or {})}, stored(group.data.get(POLICIES)).get(asked.name)
        kind = types().get(asked.type if isinstance(asked, AttachPolicy) else "" if kept is None else kept.type)
        for option, constraint in ({} if kind is None else kind.finds).items():
            value = given.get(option)
            if isinstance(value, str):
                finders = self._clouds.asked_by(context)
                if fault := finders.missing(constraint, value):
                    raise InvalidValue(f"options.{option}: {fault}")
                given[option] = finders.id_of(constraint, value)
        return asked if asked.options is None else replace(asked, options=given)

    def _changed(
        self, context: Context, stack: StackRecord, nested: StackRecord, name: str, asked: PolicyRequest
    ) -> PolicyChange:
        """Return a group after a request.

        Raises InvalidValue for a name that is taken, another type or member, EntityNotFound, HTTPBadRequest for
        options.
        """
        group, now = self._groups.group(stack, name), self._clock.now()
        policies = stored(group.data.get(POLICIES))
        before, after = policies.pop(asked.name, None), None
        if isinstance(asked, AttachPolicy):
            after = self._attached(context, group, asked, stored(group.data.get(POLICIES)), now)
        elif before is None:
            raise EntityNotFound(entity="Policy", name=asked.name)
        elif isinstance(asked, UpdatePolicy):
            after = _updated(before, asked, context.user, now)
        if after is not None:
            self._check(asked.name, after, stack, group, nested)
            policies[asked.name] = after
        changed = replace(group, data={**group.data, POLICIES: to_builtins(policies)})
        return PolicyChange(changed, asked.name, before, after)

    def _check(
        self, name: str, after: StoredPolicy, stack: StackRecord, group: ResourceRecord, nested: StackRecord
    ) -> None:
        if policy(after) is None:
            raise InvalidValue(f"Policy {name} has the type {after.type}, which no installed package has.")
        if after.type == ZonePlacement.type_name:
            self._require(lambda kind: kind.obeys_placement, "is made in no zone", stack, group, nested)
        elif after.type == LoadBalancing.type_name:
            self._require(can_have_address, "has no address for a pool", stack, group, nested)

    def _attached(
        self,
        context: Context,
        group: ResourceRecord,
        asked: AttachPolicy,
        policies: dict[str, StoredPolicy],
        now: float,
    ) -> StoredPolicy:
        """Return a new policy.

        Raises InvalidValue for its name, its type, or one too many.
        """
        kind = types().get(asked.type)
        if kind is None:
            raise InvalidValue(f"There is no policy type {asked.type}; there are: {', '.join(sorted(types()))}.")
        if asked.name in policies:
            raise InvalidValue(f"Group {group.name} has a policy {asked.name} already. Use update_policy.")
        if any(one.type == asked.type for one in policies.values()):
            raise InvalidValue(f"Group {group.name} has a policy of type {asked.type} already: one decides.")
        if len(policies) >= MOST_POLICIES:
            raise InvalidValue(f"Group {group.name} has {MOST_POLICIES} policies. Detach one first.")
        priority = kind.priority if asked.priority is None else asked.priority
        return StoredPolicy(asked.type, priority, asked.enabled, dict(asked.options), context.user, now)

    def _require(
        self,
        obeys: Callable[[ResourceType], bool],
        cause: str,
        stack: StackRecord,
        group: ResourceRecord,
        nested: StackRecord,
    ) -> None:
        """Raise InvalidValue for members of a type that does not obey a policy."""
        resources = self.reader.resources_of(nested)
        kinds = {row.type for row in self._store.resources.of(nested.id) if not obeys(resources.type_of(row))}
        if kinds:
            raise InvalidValue(
                f"Members of group {group.name} of stack {stack.name} have the type {', '.join(sorted(kinds))}, which"
                f" {cause}."
            )


def _updated(before: StoredPolicy, asked: UpdatePolicy, user: str, now: float) -> StoredPolicy:
    return StoredPolicy(
        before.type,
        before.priority if asked.priority is None else asked.priority,
        before.enabled if asked.enabled is None else asked.enabled,
        before.options if asked.options is None else dict(asked.options),
        user,
        now,
    )


def _told(policy: StoredPolicy | None) -> Json:
    """Return a policy as plans show it: what it decides by, and not since when."""
    if policy is None:
        return None
    options = dict(policy.options)
    return {"type": policy.type, "priority": policy.priority, "enabled": policy.enabled, "options": options}
