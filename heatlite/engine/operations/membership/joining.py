"""Existing objects that become members of a group."""

from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData, MemberChange
from heatlite.core.context import Context
from heatlite.core.errors import ImportDiffers, InvalidValue, PlanChanged
from heatlite.engine.admission.admission import Admission
from heatlite.engine.admission.claims import ChangeKind, PreparedRequest, tries_again
from heatlite.engine.operations.groups import Groups, later_change
from heatlite.engine.operations.membership.entrants import Entrant, EntrantReader, Entrants
from heatlite.engine.operations.membership.next_plans import NextPlans
from heatlite.engine.operations.membership.writing import FoundGroup, MembershipDraft, MembershipWriter
from heatlite.engine.planning.group_changes import within_limits
from heatlite.engine.preview.preview_views import detailed_plan, plan_entry
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.group_requests import DifferenceMode, JoinRequest, body_of
from heatlite.engine.state.requests import ShownPlan
from heatlite.engine.types.adopted_objects import AdoptedObjects, LiveObject
from heatlite.engine.types.type_calls import type_code
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store

JOINED = "Joined group {}"


class Joins:
    """Takes existing objects into groups without a changing call of their cloud."""

    def __init__(
        self, store: Store, admission: Admission, groups: Groups, writer: MembershipWriter, next_plans: NextPlans
    ) -> None:
        self._store = store
        self._next_plans = next_plans
        self._admission = admission
        self._groups = groups
        self._writer = writer
        self._objects = EntrantReader(writer)

    @tries_again
    def join(self, context: Context, stack: StackRecord, name: str, asked: JoinRequest) -> ActionRecord:
        """Make objects members of a group. Returns as `MembershipWriter.write`.

        Reads the objects before its transaction. Raises InvalidValue for limits and names, PlanChanged without the
        digest of the plan as it is now, ImportDiffers, ObjectOwned, the errors of `existing_objects`, and as
        `Admission.admitted`.
        """
        group = self._groups.group(stack, name)
        body, path = body_of(asked), f"/resources/{name}/actions"
        request = self._admission.precheck(context, Operation.JOIN, stack, "POST", path, body, target=group.name)
        nested = self._groups.members_of(group)
        draft, entry = self._draft(context, stack, name, nested, asked)
        if context.scheduled is None and asked.plan_digest != draft.plan.digest:  # an approval names its plan instead
            raise PlanChanged(stack_name=stack.name)
        if asked.changes is DifferenceMode.REFUSE:
            _require_equal(entry)
        examined = self._asked(context, stack, draft, asked, self._groups.path(stack, name))
        claims = self._admission.examine(examined)
        cloud = self._admission.clouds.first(stack, [one.row.mapped_type for one in entry.objects])
        request = replace(request, cloud=request.cloud or cloud)
        with self._admission.admitted(request, on=nested) as now:
            place = draft.place
            is_same = now == place.nested and self._groups.group(stack, name) == place.group
            if not is_same or self._store.resources.of(now.id) != place.rows:
                raise PlanChanged(stack_name=stack.name)
            self._require_free(place, entry, self._groups.path(stack, name))
            claims.look(examined.preview)
            action = self._writer.write(context, draft)
            claims.take(action, draft.order.stack)
            return action

    def plan(self, context: Context, stack: StackRecord, name: str, asked: JoinRequest) -> ShownPlan:
        """Return the plan of `join`, with what the next update does then.

        Writes nothing. Raises as `join`, but passes locks and actions, and lists differences.
        """
        self._admission.require_cloud(stack)
        nested = self._groups.members_of(self._groups.group(stack, name))
        draft, entry = self._draft(context, stack, name, nested, asked)
        path = self._groups.path(stack, name)
        self._require_free(draft.place, entry, path)
        added = self._admission.shown(self._asked(context, stack, draft, asked, path))
        return replace(draft.plan, details={**draft.plan.details, **added})

    def _asked(
        self, context: Context, stack: StackRecord, draft: MembershipDraft, asked: JoinRequest, path: tuple[str, ...]
    ) -> PreparedRequest:
        return PreparedRequest(
            context,
            draft.place.nested,
            (),
            lambda: self._writer.preview(draft),
            change=ChangeKind.JOIN,
            content=lambda: body_of(asked),
            later=lambda: later_change(path[-1], asked),
            addressed=stack,
            path=lambda: "/".join(path),
            shown=lambda _: draft.plan,
        )

    def _require_free(self, place: FoundGroup, entry: Entrants, group: tuple[str, ...]) -> None:
        resources = self._writer.reader.resources_of(place.nested)
        found = {
            "/".join((*group, *one.path)): LiveObject(one.wanted.kind, one.seen.physical_id, one.seen.physical_name)
            for one in entry.objects
        }
        AdoptedObjects(self._store, resources).require_unowned(found)

    def _draft(
        self, context: Context, stack: StackRecord, name: str, nested: StackRecord, asked: JoinRequest
    ) -> tuple[MembershipDraft, Entrants]:
        """Read the objects, and return the change with the plan of it."""
        place = self._writer.place(stack, self._groups.group(stack, name), nested)
        resource = place.resource
        with type_code():
            facts = self._groups.facts(resource, nested, resource.limits)
            size = len(facts.members) + len(asked.members)
            within_limits(size, facts, strict=True)
            names = self._groups.names_of(resource, asked.members)
            if len({*names}) < len(names):
                raise InvalidValue(f"Group {name}: two new members have the same name.")
            resource.admit(names)
            resource.set_size(size, context.user)
            child = resource.having([*resource.definitions, *names])
        order = self._writer.order(context, place, child, asked, ActionData(creation=MemberChange.of(tuple(names))))
        entry = self._objects.read(place, order, dict(zip(names, asked.members, strict=True)))
        rows = [one.row for one in entry.objects] + [one.member for one in entry.stacks]
        events = [self._writer.event(row, Operation.JOIN, JOINED.format(name)) for row in rows]
        draft = MembershipDraft(
            place, order, detailed_plan((), {}), new=entry.members, events=events, stacks=entry.stacks
        )
        return replace(draft, plan=self._plan(draft, entry, self._groups.path(stack, name))), entry

    def _plan(self, draft: MembershipDraft, entry: Entrants, path: tuple[str, ...]) -> ShownPlan:
        """Return the plan of what enters, and of the next update of the tree.

        If an action of its own has to follow, that is the update of the group.
        """
        entries = [plan_entry((*path, *one.path), one.row, "join", _cause(one)) for one in entry.objects]
        stacks = {(*path, one.member.name) for one in entry.stacks}
        entries += [
            plan_entry((*path, one.member.name), replace(one.member, physical_id=None), "join") for one in entry.stacks
        ]
        found = self._next_plans.of(draft, path)
        entries += [one for one in found.at_once if one.path not in stacks]
        return detailed_plan(entries, {}, found.later)


def _require_equal(entry: Entrants) -> None:
    """Raise ImportDiffers if an object differs from the definition of a member."""
    found = [f"{'/'.join(one.path)} ({', '.join(one.seen.differing)})" for one in entry.objects if one.differs]
    if found:
        raise ImportDiffers(
            f"Objects differ from the definition of the members: {'; '.join(found)}. Change them, or send changes:"
            " list to have the next update do that."
        )


def _cause(one: Entrant) -> str:
    return f"not verified: {', '.join(one.seen.unverified)}" if one.seen.unverified else ""
