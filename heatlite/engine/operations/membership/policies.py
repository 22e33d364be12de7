"""Policies that a group gets, changes and loses while it runs."""

from collections.abc import Callable

from msgspec import convert, to_builtins
from msgspec.structs import replace

from heatlite.clients.clouds import Clouds
from heatlite.core.actions.payloads import ActionInputs, ActionOutputs
from heatlite.core.context import Context
from heatlite.core.errors import EntityNotFound, InvalidValue
from heatlite.core.status import Result, Verb
from heatlite.engine.admission.base import Parts, StackOperations
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
from heatlite.engine.state.group_requests import AttachPolicy, DetachPolicy, PolicyRequest, UpdatePolicy, body_of
from heatlite.engine.state.unit_of_work import operation_event
from heatlite.plugin.groups import POLICIES
from heatlite.plugin.resource import ResourceType
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord

MOST_POLICIES = 20
"""Policies of a group."""


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

    def change(self, context: Context, stack: StackRecord, name: str, asked: PolicyRequest) -> ActionRecord:
        """Attach, update or detach a policy, and return the action.

        Raises InvalidValue for a name that is taken, another type or member, EntityNotFound, HTTPBadRequest for
        options, and as `_with_ids` and `Admission.admitted`.
        """
        group = self._groups.group(stack, name)
        if not isinstance(asked, DetachPolicy):
            asked = self._with_ids(context, group, asked)
        body, path = body_of(asked), f"/resources/{name}/actions"
        request = self._admission.precheck(context, asked.operation, stack, "POST", path, body, target=group.name)
        members = self._groups.members_of(group)
        with self._admission.admitted(request, on=members) as nested:
            group, now = self._groups.group(stack, name), self._clock.now()
            before = stored(group.data.get(POLICIES))
            changed = self._changed(context, stack, group, nested, asked, now)
            group = replace(group, data={**group.data, POLICIES: to_builtins(changed)})
            self._store.resources.save_many([group])
            reason = f"Policy {asked.name}: {asked.operation} by {context.user}"
            self._store.events.append_many([operation_event(group, asked.operation, reason, now)])
            action = self._admission.new_action(context, nested, Verb.UPDATE, convert(body, ActionInputs))
            if {**before, **changed}[asked.name].type == LoadBalancing.type_name:
                return self._groups.settle(context, stack, group, action)
            return self._admission.record_done(context, action, ActionOutputs(result=Result.OK))

    def _with_ids(
        self, context: Context, group: ResourceRecord, asked: AttachPolicy | UpdatePolicy
    ) -> AttachPolicy | UpdatePolicy:
        """Return a request with ids in place of names of objects (`GroupPolicy.finds`).

        Raises InvalidValue for an object that the caller does not see, NoCloud, CloudUnavailable.
        """
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
        self,
        context: Context,
        stack: StackRecord,
        group: ResourceRecord,
        nested: StackRecord,
        asked: PolicyRequest,
        now: float,
    ) -> dict[str, StoredPolicy]:
        """Return the policies of a group after a request."""
        policies = stored(group.data.get(POLICIES))
        before = policies.get(asked.name)
        if isinstance(asked, AttachPolicy):
            policies[asked.name] = after = self._attached(context, group, asked, policies, now)
        elif before is None:
            raise EntityNotFound(entity="Policy", name=asked.name)
        elif isinstance(asked, DetachPolicy):
            del policies[asked.name]
            return policies
        else:
            policies[asked.name] = after = _updated(before, asked, context.user, now)
        if policy(after) is None:
            raise InvalidValue(f"Policy {asked.name} has the type {after.type}, which no installed package has.")
        if after.type == ZonePlacement.type_name:
            self._require(lambda kind: kind.obeys_placement, "is made in no zone", stack, group, nested)
        elif after.type == LoadBalancing.type_name:
            self._require(can_have_address, "has no address for a pool", stack, group, nested)
        return policies

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
