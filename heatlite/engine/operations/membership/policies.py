"""Policies that a group gets, changes and loses while it runs."""

from msgspec import convert, to_builtins
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionInputs, ActionOutputs
from heatlite.core.context import Context
from heatlite.core.errors import EntityNotFound, InvalidValue
from heatlite.core.status import Result, Verb
from heatlite.engine.admission.base import Parts, StackOperations
from heatlite.engine.operations.groups import Groups
from heatlite.engine.planning.group_policies import StoredPolicy, ZonePlacement, policy, stored, types
from heatlite.engine.state.group_requests import AttachPolicy, DetachPolicy, PolicyRequest, UpdatePolicy, body_of
from heatlite.engine.state.unit_of_work import operation_event
from heatlite.plugin.groups import POLICIES
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord

MOST_POLICIES = 20
"""Policies of a group."""


class GroupPolicies(StackOperations):
    """Changes the policies of groups. Each change is an action that has ended."""

    def __init__(self, parts: Parts, groups: Groups) -> None:
        super().__init__(parts)
        self._groups = groups

    def of(self, row: ResourceRecord) -> dict[str, StoredPolicy] | None:
        """Return the policies of a group by name; None if it has none."""
        return stored(row.data.get(POLICIES)) or None

    def change(self, context: Context, stack: StackRecord, name: str, asked: PolicyRequest) -> ActionRecord:
        """Attach, update or detach a policy. No object is changed.

        Raises InvalidValue for a name that is taken, another type or member, EntityNotFound, HTTPBadRequest for
        options, and as `Admission.admitted`.
        """
        group = self._groups.group(stack, name)
        body, path = body_of(asked), f"/resources/{name}/actions"
        request = self._admission.precheck(context, asked.operation, stack, "POST", path, body, target=group.name)
        members = self._groups.members_of(group)
        with self._admission.admitted(request, on=members) as nested:
            group, now = self._groups.group(stack, name), self._clock.now()
            changed = self._changed(context, stack, group, nested, asked, now)
            self._store.resources.save_many([replace(group, data={**group.data, POLICIES: to_builtins(changed)})])
            reason = f"Policy {asked.name}: {asked.operation} by {context.user}"
            self._store.events.append_many([operation_event(group, asked.operation, reason, now)])
            action = self._admission.new_action(context, nested, Verb.UPDATE, convert(body, ActionInputs))
            return self._admission.record_done(context, action, ActionOutputs(result=Result.OK))

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
            self._require_placed(stack, group, nested)
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

    def _require_placed(self, stack: StackRecord, group: ResourceRecord, nested: StackRecord) -> None:
        """Raise InvalidValue for a group with members that no policy can put into a zone."""
        resources = self.reader.resources_of(nested)
        kinds = {row.type for row in self._store.resources.of(nested.id) if not resources.type_of(row).obeys_placement}
        if kinds:
            raise InvalidValue(
                f"Members of group {group.name} of stack {stack.name} have the type {', '.join(sorted(kinds))}, which"
                " is made in no zone."
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
