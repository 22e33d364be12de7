"""Compare what is with what is wanted. Pure: rows and a definition in, a plan out; nothing is written or called.

`decide` is the one place where a resource is kept, changed in place or replaced. The executor asks it again with the
values that are known by then, a preview asks it with unknown ones: the same answer for the same facts.
The order of the tests is Heat's (heat-engine §6).
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from heatlite.core.errors import HeatliteError, ResourceActionRestricted, StackValidationFailed
from heatlite.core.json import JsonMap, canonical, dump
from heatlite.core.status import Status, Verb, state
from heatlite.engine.planning.plan import Decision, Outcome, Plan, Step, waiting
from heatlite.engine.planning.visible_inputs import in_sight
from heatlite.engine.state.protected import Protected
from heatlite.engine.state.template_types import TemplateResource
from heatlite.engine.state.values import NestedView, PlannedValues, Resources, inherited, type_code
from heatlite.plugin.nested import StackResource
from heatlite.plugin.ports import Change
from heatlite.plugin.resource import ResourceType
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.document import Definition, ResourceDefinition, referring
from heatlite.template.expression import UNKNOWN, Bounded, Scope, fields, has_unknown, requires
from heatlite.template.replacement import DELETE_FIRST, KEEP, REBUILD, Replacement
from heatlite.template.types import Referred


@dataclass(frozen=True, slots=True)
class Wanted:
    """A resource definition with its values filled in, as far as they are known."""

    kind: ResourceType
    properties: JsonMap
    metadata: JsonMap
    update_policy: JsonMap
    replacement: Replacement
    """How it is replaced, if it has to be."""
    definition: Definition
    """Where it is defined."""
    external_id: str | None = None
    size: int = 0
    """About how many characters of JSON properties, metadata and policy are."""


def evaluate(definition: Definition, name: str, resources: Resources, values: Scope) -> Wanted:
    """Fill in the values of one resource. Raises what the functions and the schema say of bad ones."""
    wanted = definition.resources[name]
    kind = resources.kind(definition, name)
    wanted.refill()
    # What is taken over is as it is, and not all of it has to be said.
    whole = wanted.external_id is None
    budget = Bounded(values, resources.resource_data)
    properties = kind.schema.coerce(_section("properties", budget.resolved(wanted.properties)), whole)
    saved = resources.saved(name)
    if saved is not None:
        with type_code():
            properties = kind.schema.coerce(kind.restored(properties, saved))
    metadata = _section("metadata", budget.resolved(wanted.metadata))
    policy: JsonMap = {}
    replacement = definition.environment.replacement(name)
    if wanted.update_policy:
        policy = dict(_section("update_policy", budget.resolved(wanted.update_policy)))
        replacement = replacement.refined(policy.pop("replacement", None))
    return Wanted(kind, properties, metadata, policy, replacement, definition, wanted.external_id, budget.size)


def _section(name: str, value: object) -> JsonMap:
    """A section as a map; null is an empty one. One that a function makes as a whole may be anything, or UNKNOWN."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        what = "are not known yet" if value is UNKNOWN else f"have to be a map, not {type(value).__name__}"
        raise StackValidationFailed(f"The {name} {what}.")
    return value


def decide(
    row: ResourceRecord, wanted: Wanted, resources: Resources, chosen: Mapping[str, ResourceRecord]
) -> Decision:
    """What one existing row needs to become what is wanted; `chosen` as in `choose`."""
    kind = wanted.kind
    if row.verb is Verb.INIT:
        return Decision(Outcome.CREATE, row)
    if row.verb is Verb.DELETE:
        return Decision(Outcome.REPLACE, row, cause="its deletion has begun")
    if row.external_id is not None or wanted.external_id is not None:
        return _decide_external(row, wanted)
    if issubclass(kind, TemplateResource):
        kind = TemplateResource  # another template is an update, as in Heat
    if resources.type_of(row) is not kind:
        return Decision(Outcome.REPLACE, row, cause=f"type changed from {row.type}")
    made = resources.finished(row) or resources.made(row) and row.metadata == wanted.metadata
    if made and not kind.schema.diff(row.properties, wanted.properties):
        return Decision(Outcome.KEEP, row)
    if issubclass(kind, StackResource):
        return _decide_nested(row, wanted, resources, chosen)
    if kind.anew_with_update and resources.outdated(row):
        return Decision(Outcome.REPLACE, row, cause="every update makes a new one")
    if row.status is Status.FAILED:
        if row.verb is Verb.CHECK:
            return Decision(Outcome.REPLACE, row, cause=f"unhealthy: {row.status_reason}")
        with type_code():
            needs_replace = resources.make(row).needs_replace_failed()
        if needs_replace:
            return Decision(Outcome.REPLACE, row, cause=f"{row.verb} failed: {row.status_reason}")
    if row.verb is Verb.CREATE and row.status is Status.IN_PROGRESS:
        return Decision(Outcome.CONTINUE, row)
    if row.status is Status.IN_PROGRESS and row.token is not None and "rebuild" in row.token:
        return Decision(Outcome.REPLACE, row, cause="its rebuild was cut off")
    before = resources.before(row)
    if before is None:
        return Decision(Outcome.REPLACE, row, cause="its object is gone")
    changed = kind.schema.diff(before, wanted.properties)
    if changed:
        followed = _followed(row, wanted, changed, chosen)
        fixed = changed & kind.schema.immutable
        if fixed:
            return _decide_immutable(row, fixed, followed)
        change = Change(changed, before, wanted.properties, row.metadata != wanted.metadata, followed)
        with type_code():
            needs_replace = resources.make(row).needs_replace(change)
        if needs_replace:
            return Decision(Outcome.REPLACE, row, changed, "the type asks for it")
        if not changed <= kind.schema.updatable or not kind.has("update"):
            return Decision(Outcome.REPLACE, row, changed, "a property changed that cannot be changed in place")
        with type_code():
            objection = resources.make(row).objection(change)
        if objection:
            return Decision(Outcome.REFUSE, row, changed, objection)
    # Where the object is already as it is wanted, the row still has to be told.
    stale = before is not row.properties and bool(kind.schema.diff(row.properties, wanted.properties))
    cut_off = row.verb is Verb.UPDATE and row.status is Status.IN_PROGRESS
    if changed or stale or cut_off or row.metadata != wanted.metadata:
        return Decision(Outcome.UPDATE, row, changed, "the definition changed", before)
    if kind.always_updated:
        return Decision(Outcome.UPDATE, row, changed, "every update updates it", before)
    return Decision(Outcome.KEEP, row)


def _followed(
    row: ResourceRecord, wanted: Wanted, changed: frozenset[str], chosen: Mapping[str, ResourceRecord]
) -> frozenset[str]:
    """The changed properties that name something, as before, which is made anew."""
    anew = {name for name in row.requires if name not in chosen or chosen[name].id not in row.uses}
    if not anew:
        return frozenset()
    written = wanted.definition.resources[row.name].properties
    given = fields(written)
    parts = {key: written if given is None else given.get(key) for key in changed}
    return frozenset(key for key, part in parts.items() if not anew.isdisjoint(requires(part)))


def _decide_immutable(row: ResourceRecord, fixed: frozenset[str], followed: frozenset[str]) -> Decision:
    """A template may not change an immutable property; what a property names may be made anew, and this with it."""
    if not fixed <= followed:
        return Decision(Outcome.REFUSE, row, fixed, _unsupported(row, fixed))
    return Decision(Outcome.REPLACE, row, fixed, "what it is made for is made anew")


def _unsupported(row: ResourceRecord, names: Iterable[str]) -> str:
    return f"Update to properties {', '.join(sorted(names))} of {row.name} ({row.type}) is not supported."


def _decide_external(row: ResourceRecord, wanted: Wanted) -> Decision:
    """An object that is not ours is never changed; where it was not found well it is looked at again."""
    if row.external_id != wanted.external_id:
        return Decision(Outcome.REFUSE, row, frozenset({"external_id"}), _unsupported(row, {"external_id"}))
    if row.verb is Verb.CHECK and row.status is Status.IN_PROGRESS:
        return Decision(Outcome.CONTINUE, row)
    return Decision(Outcome.KEEP if row.status is Status.COMPLETE else Outcome.CREATE, row)


def _decide_nested(
    row: ResourceRecord, wanted: Wanted, resources: Resources, chosen: Mapping[str, ResourceRecord]
) -> Decision:
    """A nested stack that is there is always updated: its members decide (heat-engine §6, §11)."""
    nested = resources.nested(row.physical_id)
    if nested is None:
        return Decision(Outcome.REPLACE, row, cause="its nested stack is gone")
    if nested.stack.locked and row.status is Status.COMPLETE and _stands(row, wanted, nested, resources):
        return Decision(Outcome.KEEP, row)
    if is_marked(row, nested):
        return Decision(Outcome.REPLACE, row, cause=f"unhealthy: {row.status_reason}")
    if row.verb in (Verb.CREATE, Verb.ADOPT) and row.status is Status.IN_PROGRESS:
        return Decision(Outcome.CONTINUE, row)
    changed = wanted.kind.schema.diff(row.properties, wanted.properties)
    fixed = changed & wanted.kind.schema.immutable
    if fixed:
        return _decide_immutable(row, fixed, _followed(row, wanted, changed, chosen))
    if not changed <= wanted.kind.schema.updatable:
        return Decision(Outcome.REPLACE, row, changed, "a property changed that cannot be changed in place")
    cause = "the definition changed" if changed or row.metadata != wanted.metadata else "its members decide"
    return Decision(Outcome.UPDATE, row, changed, cause)


def is_marked(row: ResourceRecord, nested: NestedView) -> bool:
    """Whether the resource of a nested stack is marked itself.

    Where the nested stack's own check has failed, its members are to be replaced.
    """
    if (row.verb, row.status) != (Verb.CHECK, Status.FAILED):
        return False
    if row.health is not None and row.health.marked:
        return True
    return (nested.stack.before_lock or state(nested.action, nested.status)) != state(Verb.CHECK, Status.FAILED)


def described(row: ResourceRecord, wanted: Wanted) -> ResourceRecord:
    """The row with what its nested stack can ask about it (resource_facade)."""
    policy = wanted.definition.resources[row.name].deletion_policy
    return replace(row, metadata=wanted.metadata, deletion_policy=policy)


def _stands(row: ResourceRecord, wanted: Wanted, nested: NestedView, resources: Resources) -> bool:
    """True if the nested stack's definition stays as it is, but for files and defaults that it does not name."""
    resource = resources.make(row, wanted.properties, wanted.kind, wanted.update_policy)
    assert isinstance(resource, StackResource)
    with type_code():
        goal = resource.goal()
    if any(map(has_unknown, (goal.template, goal.parameters, wanted.metadata, wanted.update_policy))):
        return False
    definition = wanted.definition
    environment, facade = inherited(definition, described(row, wanted), wanted.update_policy, goal.parameters)
    known = {key: value for key, value in (nested.stack.inherited or {}).items() if key != ANEW}
    if canonical({"facade": facade, "without": sorted(environment.without)}) != canonical(known):
        return False
    if canonical(goal.template) != canonical(nested.template):
        return False
    has = in_sight(nested.template, nested.definition.environment, nested.definition.template.files)
    return canonical(in_sight(goal.template, environment, definition.template.files)) == canonical(has)


def choose(
    rows: Sequence[ResourceRecord],
    wanted: Wanted,
    resources: Resources,
    restricted: frozenset[str],
    chosen: Mapping[str, ResourceRecord],
) -> Decision:
    """Which of the rows of one name stands for it: the newest that need not be replaced, else the newest.

    So a retry goes on with the newest object, and a rollback or a return to an earlier template takes the old object
    back that was still waiting for its clean-up. A replacement of what is protected is PROTECT. What the environment
    has `restricted` is RESTRICT. `chosen` are the rows that stand for the names that come before.
    """
    decisions = [decide(row, wanted, resources, chosen) for row in sorted(rows, key=lambda row: row.id, reverse=True)]
    kept = (decision for decision in decisions if decision.outcome is not Outcome.REPLACE)
    decision = next(kept, decisions[0])
    if decision.outcome is Outcome.KEEP and _is_joined_anew(decision.row, wanted, chosen, resources.stack):
        cause, before = "what it is joined to is made anew", resources.before(decision.row) or {}
        decision = Decision(Outcome.UPDATE, decision.row, cause=cause, before=before)
    protected = resources.protected(decision.row) if decision.outcome is Outcome.REPLACE else None
    if protected is not None:
        cause = f"it would be replaced ({decision.cause}), but {protected.text}"
        return replace(decision, outcome=Outcome.PROTECT, cause=cause)
    if decision.outcome in restricted:
        cause = ResourceActionRestricted(action=decision.outcome.value).message
        return replace(decision, outcome=Outcome.RESTRICT, cause=cause)
    if decision.outcome is not Outcome.REPLACE:
        return decision
    if _can_rebuild(decision.row, wanted, resources):
        return replace(decision, outcome=Outcome.REBUILD)
    return replace(decision, deletes_first=deletes_first(decision.row, wanted, resources))


ANEW = "anew"
"""In what a nested stack has from its parent: the types of what was made anew of that which it uses."""


def made_anew(stack: StackRecord) -> list[str]:
    """The types of what was made anew above a nested stack."""
    found = (stack.inherited or {}).get(ANEW)
    return [str(one) for one in found] if isinstance(found, list) else []


def _is_joined_anew(
    row: ResourceRecord, wanted: Wanted, chosen: Mapping[str, ResourceRecord], stack: StackRecord
) -> bool:
    """Whether something that the object is joined to (`Resource.joins`) is another object since it was joined."""
    if not wanted.kind.joins or row.external_id is not None or not wanted.kind.has("update"):
        return False
    if not wanted.kind.joins.isdisjoint(made_anew(stack)):
        return True
    if row.verb is Verb.UPDATE and row.status is Status.FAILED:
        return True  # nobody knows what it has been joined to
    resources = wanted.definition.resources
    names = [name for name in resources[row.name].requires if name in row.requires]
    joined = [name for name in names if resources[name].mapped_type in wanted.kind.joins]
    return any(name not in chosen or chosen[name].id not in row.uses for name in joined)


def _can_rebuild(row: ResourceRecord, wanted: Wanted, resources: Resources) -> bool:
    """Whether the object is to be made anew in place, and can be."""
    return (
        wanted.replacement.order == REBUILD
        and row.physical_id is not None
        and row.verb is not Verb.DELETE
        and resources.type_of(row) is wanted.kind
        and wanted.kind.has("rebuild")
    )


def deletes_first(row: ResourceRecord, wanted: Wanted, resources: Resources) -> bool:
    """Whether the object of a row that is replaced goes before the new one is made: somebody has said so, or nobody has
    said which goes first and the type knows that both cannot be there. What is retained stays."""
    order = wanted.replacement.order
    if _is_retained(row):
        return False
    if order not in (None, REBUILD) or resources.type_of(row) is not wanted.kind:
        return order == DELETE_FIRST
    with type_code():
        return resources.make(row).excludes(wanted.properties)


def by_name(rows: Iterable[ResourceRecord]) -> dict[str, list[ResourceRecord]]:
    """Rows of a stack, oldest first, by resource name."""
    names: dict[str, list[ResourceRecord]] = {}
    for row in rows:
        names.setdefault(row.name, []).append(row)
    return names


def used_by(definition: ResourceDefinition, chosen: Mapping[str, ResourceRecord]) -> tuple[str, ...]:
    """Ids of the rows that the definition's references lead to now."""
    return tuple(sorted(chosen[name].id for name in definition.requires if name in chosen))


def bookkeeping_differs(
    row: ResourceRecord, definition: ResourceDefinition, chosen: Mapping[str, ResourceRecord]
) -> bool:
    """Whether the row must be rewritten although the object stays as it is: what only heatlite itself looks at."""
    return (
        row.deletion_policy != definition.deletion_policy
        or row.description != definition.description
        or row.type != definition.type
        or frozenset(row.requires) != definition.requires
        or row.uses != used_by(definition, chosen)
    )


def plan_converge(definition: Definition, rows: Iterable[ResourceRecord], values: PlannedValues) -> Plan:
    """What to create, keep, update and replace so that the stack is what its definition says.

    `values` are those of a plan that is to be made: they learn of each step.

    Clean-up comes after, from the rows as they are then (`plan_cleanup`).
    """
    named = by_name(rows)
    resources, chosen = values.resources, values.chosen
    steps: dict[str, Step] = {}
    kept: dict[str, ResourceRecord] = {}
    going: list[Decision] = []
    anew, keeping = set[str](), set[str]()
    for name in ordered(definition.resources):
        wanted = definition.resources[name]
        existing = named.get(name)
        requires = tuple(key for key in wanted.requires if key in steps)
        if existing is None:
            steps[name] = Step(name, name, Outcome.CREATE, requires)
            values.to_make.add(name)
            continue
        try:
            restricted = definition.environment.restricted_actions(name)
            filled = evaluate(definition, name, resources, values)
            decision = choose(existing, filled, resources, restricted, chosen)
        except HeatliteError as error:
            # When its turn comes, the step meets the same error and fails with it; or all is known by then.
            decision = Decision(Outcome.UPDATE, existing[-1], cause=error.message)
        else:
            if decision.outcome is Outcome.REPLACE and _is_certain(decision, filled, anew):
                if not filled.kind.lasting_reference:
                    anew.add(name)
                going.append(decision)
            if filled.replacement.name == KEEP:
                keeping.add(name)
        row = decision.row
        if decision.outcome in (Outcome.CREATE, Outcome.REPLACE, Outcome.CONTINUE):
            values.to_make.add(name)
        else:
            chosen[name] = row
        if decision.outcome is Outcome.KEEP and row.status is Status.COMPLETE and not requires:
            if not bookkeeping_differs(row, wanted, chosen) and not definition.environment.hooks(name):
                kept[name] = row
                continue
        elif decision.outcome in (Outcome.UPDATE, Outcome.REBUILD):
            values.to_change.add(name)
        steps[name] = Step(name, name, decision.outcome, requires, row, decision.cause, decision.deletes_first)
    every = [row for rows in named.values() for row in rows]
    refused = _clear_the_way(steps, going, every, kept, keeping, resources)
    return Plan(steps, kept, refused)


def _is_certain(decision: Decision, wanted: Wanted, anew: Container[str]) -> bool:
    """Whether a resource is replaced whatever the values are that are not known yet; `anew` are the names of those
    that will have other references."""
    changed = [key for key in decision.changed if not has_unknown(wanted.properties.get(key))]
    if changed or not decision.changed:
        return True
    given = referring(wanted.definition.resources[decision.row.name].properties)
    return any(name in anew for key in decision.changed for name in _references(given.get(key)))


def _references(value: object) -> Iterator[str]:
    """The names of the resources whose references stand in a value."""
    if isinstance(value, Referred):
        yield value.name
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)


def _clear_the_way(
    steps: dict[str, Step],
    going: Sequence[Decision],
    rows: Sequence[ResourceRecord],
    kept: Mapping[str, ResourceRecord],
    keeping: Container[str],
    resources: Resources,
) -> dict[str, str]:
    """Add a deletion for each row that blocks one whose object goes first and does not stay itself; what is made anew
    under one of the names in `keeping` has the physical name of the old object. `going` are replaced for certain.

    Tell which of those cannot go, by name, and why: their steps refuse.
    """
    if not going:
        return {}
    staying = {step.row.id for step in steps.values() if step.row is not None and step.outcome is not Outcome.REPLACE}
    staying |= {row.id for row in kept.values()}
    made = [row for row in rows if row.physical_id is not None and row.external_id is None]
    users: dict[str, list[ResourceRecord]] = {}
    for row in made:
        for key in row.uses:
            users.setdefault(key, []).append(row)
    by_id = {row.id: row for row in made}
    waiting_for: dict[str, list[str]] = {}
    refused: dict[str, str] = {}
    for decision in going:
        row = decision.row
        for user in users.get(row.id, ()):
            holders = users.get(user.id, ()) if row.mapped_type in resources.type_of(user).joins else ()
            if user.id in staying and any(_takes(holder, user, resources) for holder in holders):
                refused[row.name] = _held(row, user, f"{user.name} cannot leave it for another")
    ready = [decision.row for decision in going if decision.deletes_first and decision.row.id in by_id]
    while ready:
        row = ready.pop()
        if row.id in waiting_for:
            continue
        needs: list[str] = []
        waiting_for[row.id] = needs
        for user in users.get(row.id, ()):
            blocking_by = _blocker(row, user, resources)
            if blocking_by is None:
                continue
            kind = resources.type_of(user)
            if user.id not in staying and not _is_retained(user):
                needs.append(user.id)
                ready.append(user)
            elif row.mapped_type not in kind.joins:
                refused[row.name] = _held(row, user, f"{blocking_by} needs it, and stays")
        for used in (by_id[key] for key in row.uses if key in by_id):
            if used.id in staying and _takes(row, used, resources):
                refused[row.name] = _held(row, used, f"{used.name} goes with it, and stays in the stack")
    held = {row.id: refused[row.name] for row in made if row.name in refused}
    while held:
        # What waits for one that cannot go cannot go either.
        held = {key: cause for key, needs in waiting_for.items() for need, cause in held.items() if need in needs}
        refused |= {by_id[key].name: cause for key, cause in held.items()}
    blocking = {need for needs in waiting_for.values() for need in needs}
    for key, needs in waiting_for.items():
        row = by_id[key]
        step = steps.get(row.name)
        if key in blocking:
            keeps = row.name in keeping
            steps[key] = Step(key, row.name, Outcome.DELETE, tuple(needs), row, keeps_name=keeps)
            if step is not None and step.row is row:
                steps[row.name] = replace(step, deletes_first=True)
        elif step is not None:
            steps[row.name] = replace(step, requires=(*step.requires, *needs))
    for name, cause in refused.items():
        steps[name] = replace(steps[name], outcome=Outcome.REFUSE, cause=cause)
    return refused


def _is_retained(row: ResourceRecord) -> bool:
    return row.deletion_policy.lower() == "retain"


def _blocker(row: ResourceRecord, user: ResourceRecord, resources: Resources) -> str | None:
    """What keeps the object of `row` from going: the user's name, or that of something in its nested stack."""
    if row.mapped_type in resources.type_of(user).blocks:
        return user.name
    for member in resources.members(user):
        if row.mapped_type in member.blocks - member.joins and f'"{row.physical_id}"' in dump(member.facts.properties):
            return f"{user.name}.{member.name}"
    return None


def _takes(row: ResourceRecord, used: ResourceRecord, resources: Resources) -> bool:
    with type_code():
        return resources.make(row).takes(resources.make(used))


def _held(row: ResourceRecord, other: ResourceRecord, why: str) -> str:
    return (
        f"{row.name} ({row.type}) cannot be replaced: {why}. Mark {other.name} unhealthy as well, so that both are"
        f" made anew, or remove {other.name} from the template first."
    )


def protected(plan: Plan, rows: Iterable[ResourceRecord], resources: Resources) -> list[str]:
    """Why a plan to converge may not begin: each protected object that it, or the clean-up after it, would remove."""
    found = [f"resources.{one.name}: {one.cause}" for one in plan.steps.values() if one.outcome is Outcome.PROTECT]
    stay = {row.id for row in plan.kept.values()}
    stay |= {step.row.id for step in plan.steps.values() if step.row is not None and step.outcome is not Outcome.DELETE}
    for row in rows:
        keeps = None if row.id in stay else resources.protected(row)
        if keeps is not None:
            found.append(f"resources.{row.name}: {unremovable(keeps)}")
    return found


def unremovable(keeps: Protected) -> str:
    """Why a resource is not deleted."""
    return f"it would be deleted, but {keeps.text}"


def plan_cleanup(rows: Iterable[ResourceRecord], keep: Iterable[str], goes_on: bool = False) -> Plan:
    """Delete every row whose id is not in `keep`, dependents first. With `goes_on` a failure stops nothing."""
    keep = frozenset(keep)
    return Plan(_reverse([row for row in rows if row.id not in keep], Outcome.DELETE), {}, goes_on=goes_on)


def plan_check(rows: Iterable[ResourceRecord]) -> Plan:
    """Check every resource, requirements first; a failure stops nothing."""
    todo = [row for row in rows if row.verb not in (Verb.INIT, Verb.DELETE)]
    return Plan(_forward(todo, Outcome.CHECK), {}, goes_on=True)


def plan_snapshot(rows: Iterable[ResourceRecord]) -> Plan:
    """Save every resource, requirements first."""
    return Plan(_forward([row for row in rows if row.verb is not Verb.INIT], Outcome.SNAPSHOT), {})


def plan_suspend(rows: Iterable[ResourceRecord]) -> Plan:
    """Suspend every resource that is not suspended yet, dependents first."""
    todo = [row for row in rows if row.verb is not Verb.INIT and not _is(row, Verb.SUSPEND)]
    return Plan(_reverse(todo, Outcome.SUSPEND), {})


def plan_resume(rows: Iterable[ResourceRecord]) -> Plan:
    """Resume every resource that is not resumed yet, requirements first."""
    todo = [row for row in rows if row.verb is not Verb.INIT and not _is(row, Verb.RESUME)]
    return Plan(_forward(todo, Outcome.RESUME), {})


def _is(row: ResourceRecord, done: Verb) -> bool:
    now = row.state_without_lock
    return now.verb is done and now.status is Status.COMPLETE


def plan_lock(rows: Iterable[ResourceRecord]) -> Plan:
    """Lock every resource that is not locked yet, dependents first; a failure stops nothing."""
    todo = [
        row
        for row in rows
        if row.verb not in (Verb.INIT, Verb.DELETE)
        and (row.verb is not Verb.LOCK or row.status is not Status.COMPLETE)
    ]
    return Plan(_reverse(todo, Outcome.LOCK), {}, goes_on=True)


def plan_unlock(rows: Iterable[ResourceRecord], optional: bool = False) -> Plan:
    """Unlock every resource that was locked, requirements first; a failure stops nothing."""
    todo = [row for row in rows if row.is_locked]
    return Plan(_forward(todo, Outcome.UNLOCK), {}, goes_on=True, optional=optional)


def plan_nested(rows: Iterable[ResourceRecord], outcome: Outcome) -> Plan:
    """Lock or unlock the nested stacks of resources that are not locked themselves; a failure stops nothing."""
    todo = [row for row in rows if row.verb not in (Verb.INIT, Verb.DELETE) and not row.is_locked]
    return Plan(_forward(todo, outcome), {}, goes_on=True)


def _forward(rows: Sequence[ResourceRecord], outcome: Outcome) -> dict[str, Step]:
    """A step per row, each after the steps of the rows that it uses."""
    ids = {row.id for row in rows}
    return _steps(rows, outcome, {row.id: [key for key in row.uses if key in ids] for row in rows})


def _reverse(rows: Sequence[ResourceRecord], outcome: Outcome) -> dict[str, Step]:
    """A step per row, each after the steps of the rows that use it."""
    users: dict[str, list[str]] = {}
    for row in rows:
        for key in row.uses:
            users.setdefault(key, []).append(row.id)
    return _steps(rows, outcome, {row.id: users.get(row.id, []) for row in rows})


def _steps(rows: Sequence[ResourceRecord], outcome: Outcome, requires: Mapping[str, list[str]]) -> dict[str, Step]:
    """Should rows ever use each other in a circle, they do not wait for each other: a stack can always be deleted."""
    steps = {row.id: Step(row.id, row.name, outcome, tuple(requires[row.id]), row) for row in rows}
    open_count, waiting_for = waiting(steps.values())
    ready = [key for key, count in open_count.items() if count == 0]
    while ready:
        key = ready.pop()
        del open_count[key]
        for follower in waiting_for.get(key, ()):
            open_count[follower] -= 1
            if open_count[follower] == 0:
                ready.append(follower)
    for key in open_count:
        steps[key] = replace(steps[key], requires=tuple(need for need in steps[key].requires if need not in open_count))
    return steps


def ordered(definitions: Mapping[str, ResourceDefinition]) -> list[str]:
    """Names so that each comes after what it requires; otherwise in the template's order. There are no cycles."""
    out: list[str] = []
    done: set[str] = set()
    for first in definitions:
        stack = [first]
        while stack:
            name = stack[-1]
            if name in done:
                stack.pop()
                continue
            missing = [need for need in definitions[name].requires if need not in done and need in definitions]
            if missing:
                stack.extend(missing)
            else:
                stack.pop()
                done.add(name)
                out.append(name)
    return out
