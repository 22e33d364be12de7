"""Plan operations: compare rows with the definition and return the steps.

Pure: nothing is read, called or written.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from heatlite.core.actions.repairs import Selection
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.facts import Choice, ObjectRelations, Wanted
from heatlite.engine.planning.plan import NEW_OBJECT, Outcome, Plan, Reason, ResourceDecision, Step, waiting
from heatlite.engine.planning.replacement_order import order_replacements
from heatlite.engine.state.protected import Protected
from heatlite.store.records import ResourceRecord
from heatlite.template.definitions.definitions import ResourceDefinition
from heatlite.template.document import Definition
from heatlite.template.expression import fields, has_unknown, walk
from heatlite.template.functions.references import GetResource
from heatlite.template.replacement import KEEP


def plan_converge(
    definition: Definition,
    rows: Iterable[ResourceRecord],
    choices: Mapping[str, Choice | None],
    relations: ObjectRelations,
) -> Plan:
    """Plan to make a stack what its definition says.

    The clean-up is another plan (`plan_deletions`).

    `choices` has each name of the definition, after the names that it requires; None: there is no row for it.
    """
    chosen = {name: one.decision.row for name, one in choices.items() if one and keeps_object(one.decision)}
    steps: dict[str, Step] = {}
    kept: dict[str, ResourceRecord] = {}
    for name, choice in choices.items():
        wanted = definition.resources[name]
        requires = tuple([key for key in wanted.requires if key in steps])
        if choice is None:
            steps[name] = Step(name, name, Outcome.CREATE, requires)
            continue
        decision = choice.decision
        row = decision.row
        ask = relations.pool_change if decision.outcome is Outcome.KEEP else None
        pool_change = "" if ask is None else ask(row)
        is_settled = not requires and not pool_change and _is_settled(decision, definition, wanted, chosen)
        if decision.reason is Reason.OUTSIDE or is_settled:
            kept[name] = row
        else:
            outcome, cause = decision.outcome, decision.cause
            if pool_change:
                outcome, cause = Outcome.UPDATE, cause or pool_change
            steps[name] = Step(name, name, outcome, requires, row, cause, decision.deletes_first)
    keeping = {name for name, one in choices.items() if one and one.wanted and one.wanted.replacement.name == KEEP}
    certain = _certain_replacements(definition, choices, relations)
    steps, refused = order_replacements(steps, certain, rows, kept.values(), keeping, relations)
    return Plan(steps, kept, refused)


def keeps_object(decision: ResourceDecision) -> bool:
    """Return True if the chosen row keeps its object."""
    return decision.outcome not in NEW_OBJECT


def _is_settled(
    decision: ResourceDecision, definition: Definition, wanted: ResourceDefinition, chosen: Mapping[str, ResourceRecord]
) -> bool:
    """Return True if the resource needs no step: not even a hook or a changed row."""
    if decision.outcome is not Outcome.KEEP or decision.row.status is not Status.COMPLETE:
        return False
    return not bookkeeping_differs(decision.row, wanted, chosen) and not definition.environment.hooks(wanted.name)


def _certain_replacements(
    definition: Definition, choices: Mapping[str, Choice | None], relations: ObjectRelations
) -> list[ResourceDecision]:
    """Return the certain replacements: no unknown value can prevent them."""
    found: list[ResourceDecision] = []
    renewed = set[str]()

    def has_new_reference(name: str) -> bool:
        if name in renewed or name not in choices or choices[name] is not None:
            return name in renewed
        # No property can have had the reference of a resource without an object, unless that lasts or was there before.
        made = definition.resources[name]
        return made.external_id is None and not relations.lasts(made.mapped_type)

    for name, choice in choices.items():
        if choice is None or choice.wanted is None or choice.decision.outcome is not Outcome.REPLACE:
            continue
        if _is_certain(choice.decision, choice.wanted, has_new_reference):
            found.append(choice.decision)
            if not choice.wanted.kind.lasting_reference:
                renewed.add(name)
    return found


def _is_certain(decision: ResourceDecision, wanted: Wanted, has_new_reference: Callable[[str], bool]) -> bool:
    """Return True if a known property has changed, or one with a new reference."""
    known = [key for key in decision.changed if not has_unknown(wanted.properties.get(key))]
    if known or not decision.changed:
        return True
    written = wanted.definition.resources[decision.row.name].properties
    given = fields(written)
    parts = [written] if given is None else [given.get(key) for key in decision.changed]
    return any(has_new_reference(name) for part in parts for name in _references(part))


def _references(value: object) -> Iterator[str]:
    """Return the names of the resources whose reference a value, or a text in it, has."""
    return (one.resource for one in walk(value) if isinstance(one, GetResource))


def by_name(rows: Iterable[ResourceRecord]) -> dict[str, list[ResourceRecord]]:
    """Group the rows of a stack by resource name, in their order."""
    names: dict[str, list[ResourceRecord]] = {}
    for row in rows:
        names.setdefault(row.name, []).append(row)
    return names


def used_by(definition: ResourceDefinition, chosen: Mapping[str, ResourceRecord]) -> tuple[str, ...]:
    """Return the ids of the rows that the definition refers to."""
    requires = definition.requires
    return tuple(sorted([chosen[name].id for name in requires if name in chosen])) if requires else ()


def bookkeeping_differs(
    row: ResourceRecord, definition: ResourceDefinition, chosen: Mapping[str, ResourceRecord]
) -> bool:
    """Return True if fields of the row differ that do not concern the object."""
    return (
        row.deletion_policy != definition.deletion_policy
        or row.description != definition.description
        or row.type != definition.type
        or frozenset(row.requires) != definition.requires
        or row.uses != used_by(definition, chosen)
    )


def protected(
    plan: Plan, rows: Iterable[ResourceRecord], protection: Callable[[ResourceRecord], Protected | None]
) -> list[str]:
    """Explain each protected object that the plan, or its clean-up, would remove.

    `protection` returns the protection of a row's object.
    """
    found = [f"resources.{one.name}: {one.cause}" for one in plan.steps.values() if one.outcome is Outcome.PROTECT]
    stay = {row.id for row in plan.kept.values()}
    stay |= {step.row.id for step in plan.steps.values() if step.row is not None and step.outcome is not Outcome.DELETE}
    for row in rows:
        keeps = None if row.id in stay else protection(row)
        if keeps is not None:
            found.append(f"resources.{row.name}: {unremovable(keeps)}")
    return found


def unremovable(keeps: Protected) -> str:
    """Return the explanation that a protected resource is not deleted."""
    return f"it would be deleted, but {keeps.text}"


def plan_deletions(rows: Iterable[ResourceRecord], keep: Iterable[str], goes_on: bool = False) -> Plan:
    """Plan to delete the rows whose ids are not in `keep`, dependents first.

    The deletion of a stack and the clean-up of an update use it. With `goes_on` a failure stops no other step.
    """
    keep = frozenset(keep)
    return Plan(_reverse([row for row in rows if row.id not in keep], Outcome.DELETE), {}, goes_on=goes_on)


def removable(
    rows: Iterable[ResourceRecord],
    selection: Selection | None,
    plan: Plan,
    chosen: Mapping[str, ResourceRecord],
    phase: str,
) -> list[ResourceRecord]:
    """Return the rows that the clean-up may delete.

    After a repair these are the rows of replaced resources only. An earlier attempt may have replaced them: such a row
    was created in the same `phase`. An update of the definition keeps what it leaves out, and what that uses.
    """
    if selection is None or selection.compares:
        return [*rows]
    if not selection.is_repair:
        held = _held_outside([*rows], selection)
        return [row for row in rows if row.id not in held]
    names = {step.name for step in plan.steps.values() if step.outcome is Outcome.REPLACE}
    names |= {name for name, row in chosen.items() if row.verb is Verb.CREATE and row.moved_in == phase}
    return [row for row in rows if row.name in names or selection.step(row.name) is not None]


def _held_outside(rows: Sequence[ResourceRecord], selection: Selection) -> set[str]:
    """Return the ids of the rows that an update leaves out, with those they use."""
    gone = selection.gone or ()
    return _with_used(rows, (row.id for row in rows if selection.leaves(row.name) and row.id not in gone))


def _with_used(rows: Sequence[ResourceRecord], of: Iterable[str]) -> set[str]:
    """Return the ids of some rows, with those they use."""
    known = {row.id: row for row in rows}
    todo, held = [*of], set[str]()
    while todo:
        key = todo.pop()
        if key in known and key not in held:
            held.add(key)
            todo += known[key].uses
    return held


def passed_over(old: Sequence[ResourceRecord], chosen: Mapping[str, ResourceRecord]) -> list[ResourceRecord]:
    """Return the old rows that are newer than the chosen ones, and that no other uses.

    A failed update has left them. Until they are gone, each is the current row of its name.
    """
    newer = [row for row in old if row.name in chosen and row.id > chosen[row.name].id]
    used = _with_used(old, {row.id for row in old}.difference(row.id for row in newer))
    return [row for row in newer if row.id not in used]


def plan_check(rows: Iterable[ResourceRecord]) -> Plan:
    """Check each resource, requirements first. A failure stops no other step."""
    todo = [row for row in rows if row.verb not in (Verb.INIT, Verb.DELETE)]
    return Plan(_forward(todo, Outcome.CHECK), {}, goes_on=True)


def plan_snapshot(rows: Iterable[ResourceRecord]) -> Plan:
    """Take a snapshot of each resource, requirements first."""
    return Plan(_forward([row for row in rows if row.verb is not Verb.INIT], Outcome.SNAPSHOT), {})


def plan_suspend(rows: Iterable[ResourceRecord]) -> Plan:
    """Suspend each resource that is not suspended yet, dependents first."""
    todo = [row for row in rows if row.verb is not Verb.INIT and not _is(row, Verb.SUSPEND)]
    return Plan(_reverse(todo, Outcome.SUSPEND), {})


def plan_resume(rows: Iterable[ResourceRecord]) -> Plan:
    """Resume each resource that is not resumed yet, requirements first."""
    todo = [row for row in rows if row.verb is not Verb.INIT and not _is(row, Verb.RESUME)]
    return Plan(_forward(todo, Outcome.RESUME), {})


def _is(row: ResourceRecord, done: Verb) -> bool:
    now = row.state_without_lock
    return now.verb is done and now.status is Status.COMPLETE


def plan_lock(rows: Iterable[ResourceRecord]) -> Plan:
    """Lock each resource that is not locked yet, dependents first.

    A failure stops no other step.
    """
    todo = [
        row
        for row in rows
        if row.verb not in (Verb.INIT, Verb.DELETE) and (row.verb is not Verb.LOCK or row.status is not Status.COMPLETE)
    ]
    return Plan(_reverse(todo, Outcome.LOCK), {}, goes_on=True)


def plan_unlock(rows: Iterable[ResourceRecord], optional: bool = False) -> Plan:
    """Unlock each locked resource, requirements first. A failure stops no other step."""
    todo = [row for row in rows if row.is_locked]
    return Plan(_forward(todo, Outcome.UNLOCK), {}, goes_on=True, optional=optional)


def plan_nested(rows: Iterable[ResourceRecord], outcome: Outcome) -> Plan:
    """Lock or unlock the nested stacks of unlocked resources.

    A failure stops no other step.
    """
    todo = [row for row in rows if row.verb not in (Verb.INIT, Verb.DELETE) and not row.is_locked]
    return Plan(_forward(todo, outcome), {}, goes_on=True)


def plan_cleaning(rows: Iterable[ResourceRecord], unclean: Collection[str]) -> Plan:
    """Delete the old objects in the nested stacks of some rows, dependents first."""
    return Plan(_reverse([row for row in rows if row.id in unclean], Outcome.CLEAN_UP), {})


def _forward(rows: Sequence[ResourceRecord], outcome: Outcome) -> dict[str, Step]:
    """Return a step for each row, after the steps of the rows that it uses."""
    ids = {row.id for row in rows}
    return _steps(rows, outcome, {row.id: [key for key in row.uses if key in ids] for row in rows})


def _reverse(rows: Sequence[ResourceRecord], outcome: Outcome) -> dict[str, Step]:
    """Return a step for each row, after the steps of the rows that use it."""
    users: dict[str, list[str]] = {}
    for row in rows:
        for key in row.uses:
            users.setdefault(key, []).append(row.id)
    return _steps(rows, outcome, {row.id: users.get(row.id, []) for row in rows})


def _steps(rows: Sequence[ResourceRecord], outcome: Outcome, requires: Mapping[str, list[str]]) -> dict[str, Step]:
    """Return a step for each row.

    Rows that use each other in a cycle do not wait for each other. So each stack can be deleted, even with inconsistent
    rows.
    """
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
    """Return the names in dependency order, else in the template's order.

    There are no cycles.
    """
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
