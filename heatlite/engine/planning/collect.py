"""Plan a converge: collect facts, decide, and order the steps.

Facts are evaluated definitions, answers of types and observations; `decide` and `planner` judge them. Previews and
walks collect them here, so both decide alike.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from heatlite.core.errors import HeatliteError, StackValidationFailed
from heatlite.core.json import JsonMap, as_map, canonical, same
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.decide import choose, is_refused
from heatlite.engine.planning.facts import (
    Choice,
    HolderFacts,
    Involvement,
    NestedFacts,
    ObjectRelations,
    Questions,
    RowFacts,
    Wanted,
)
from heatlite.engine.planning.group_members import pool_change
from heatlite.engine.planning.plan import IN_PLACE, NEW_OBJECT, Outcome, Plan, Reason, ResourceDecision
from heatlite.engine.planning.planner import by_name, keeps_object, ordered, plan_converge
from heatlite.engine.planning.visible_inputs import visible_inputs
from heatlite.engine.state.left_out import PutBack
from heatlite.engine.state.protected import Protected
from heatlite.engine.state.values import current_last
from heatlite.engine.types.differences import ignored_parts, with_live, with_stored
from heatlite.engine.types.observation import observe
from heatlite.engine.types.resource_factory import NestedView, ResourceFactory, Values, inherited
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.nested import StackResource
from heatlite.plugin.ports import Change
from heatlite.plugin.resource import ResourceType
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.definitions.definitions import ResourceDefinition
from heatlite.template.document import Definition
from heatlite.template.expression import UNKNOWN, Bounded, Scope, has_unknown
from heatlite.template.ignored import IGNORE_DRIFT, ignored


class PlannedValues(Values):
    """Template values during planning.

    Values that a step will make or change are UNKNOWN.
    """

    def __init__(self, resources: ResourceFactory, to_make: Iterable[str] = ()) -> None:
        self.chosen: dict[str, ResourceRecord] = {}
        super().__init__(resources, self.chosen)
        self.to_make: set[str] = set(to_make)
        self.to_change: set[str] = set()

    def record(self, name: str, decision: ResourceDecision | None) -> None:
        """Take note of the decision about a resource; None: it has no row yet."""
        if decision is None or not keeps_object(decision):
            self.to_make.add(name)
            return
        self.chosen[name] = decision.row
        if decision.outcome in IN_PLACE:
            self.to_change.add(name)

    def reference(self, name: str) -> object:
        """Return UNKNOWN for a resource that gets a new object."""
        return UNKNOWN if name in self.to_make else super().reference(name)

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        """Return UNKNOWN for a resource that gets a new object or is changed."""
        if name in self.to_make or name in self.to_change:
            return UNKNOWN
        return super().attribute(name, attribute, path)

    def is_affected(self, name: str) -> bool:
        """Return True for a resource that gets a new object or is changed."""
        return name in self.to_make or name in self.to_change or super().is_affected(name)


def converge(definition: Definition, rows: Iterable[ResourceRecord], values: PlannedValues) -> Plan:
    """Collect the facts of each resource, decide, and plan to converge the stack.

    `values` record each decision, because the values of later resources depend on it.
    """
    rows = list(rows)
    named, selection = by_name(rows), values.resources.selection
    gone = frozenset() if selection is None else frozenset(selection.gone or ())
    choices: dict[str, Choice | None] = {}
    for name in ordered(definition.resources):
        existing = named.get(name)
        if existing is not None:
            existing = [row for row in existing if row.id not in gone] or None
        if existing is None and selection is not None and selection.omits(name):
            continue
        if existing is None:
            choice = None
        elif selection is not None and selection.leaves(name):
            # Not evaluated: it may need what is left out, too.
            choice = Choice(ResourceDecision(Outcome.KEEP, max(existing, key=current_last), Reason.OUTSIDE))
        else:
            try:
                choice = choose_row(definition, name, existing, values)
            except Exception as error:  # noqa: BLE001 - types and functions may raise anything; the step logs it
                # The step meets the same error and fails with it, unless the missing values are known by then.
                text = error.message if isinstance(error, HeatliteError) else f"{type(error).__name__}: {error}"
                decision = ResourceDecision(Outcome.UPDATE, existing[-1], Reason.NOT_EVALUATED, text)
                choice = Choice(decision)
            choice = _in_place(choice, definition.resources[name])
        choices[name] = choice
        values.record(name, None if choice is None else choice.decision)
    return plan_converge(definition, rows, choices, relations(values.resources))


def _in_place(choice: Choice, wanted: ResourceDefinition) -> Choice:
    """Return the choice, for what is put back without another object."""
    if not isinstance(wanted, PutBack) or wanted.own.is_gone:
        return choice
    decision = choice.decision
    if decision.outcome in (Outcome.KEEP, Outcome.UPDATE) and decision.reason is not Reason.NOT_EVALUATED:
        return choice
    return Choice(ResourceDecision(Outcome.KEEP, decision.row, Reason.OUTSIDE))


def choose_row(definition: Definition, name: str, rows: Iterable[ResourceRecord], values: Values) -> Choice:
    """Evaluate a resource, collect the facts of its rows (at least one), and decide.

    Raises errors of functions, schemas, types and observations.
    """
    resources, current_first = values.resources, sorted(rows, key=current_last, reverse=True)
    restricted, above = definition.environment.restricted_actions(name), replaced_above(resources.stack)
    resources.remember_restored(name, current_first)
    while True:
        wanted = evaluate(definition, name, resources, values, current_first[0])
        candidates = [_restricted(collect(row, wanted, resources, values.rows), values) for row in current_first]
        decision = choose(candidates, restricted, above)
        keeps_restored = wanted.restored is None or resources.saved(name) is not None
        if keeps_restored or decision.outcome not in {*NEW_OBJECT, Outcome.REBUILD}:
            return Choice(decision, wanted)
        resources.drop_restored(name)


def evaluate(
    definition: Definition, name: str, resources: ResourceFactory, values: Scope, row: ResourceRecord | None = None
) -> Wanted:
    """Evaluate the definition of one resource. Raises errors of functions and schemas.

    What the object of its `row` has already is not checked again.
    """
    wanted = definition.resources[name]
    if isinstance(wanted, PutBack):
        own = wanted.own
        kind, replacement = resources.type_named(own.mapped_type), definition.environment.replacement(name)
        return Wanted(
            kind, own.properties, own.metadata, {}, replacement, definition, own.external_id, restored=own.restored
        )
    kind = resources.kind(definition, name)
    wanted.refill()
    # An adopted object need not be described completely.
    whole = wanted.external_id is None
    budget = Bounded(values, resources.resource_data)
    properties = _section("properties", budget.resolved(wanted.properties))
    if row is not None and _is_checked(row, wanted, kind) and same(properties, row.properties):
        properties = row.properties
    else:
        properties = kind.schema.coerce(properties, whole)
    restored: JsonMap | None = None
    saved, kept = resources.saved(name), resources.restored_before(name)
    if saved is not None or kept:
        properties, restored = _restored(kind, properties, saved, kept)
    metadata = _section("metadata", budget.resolved(wanted.metadata)) if wanted.metadata else {}
    policy: JsonMap = {}
    replacement = definition.environment.replacement(name)
    if wanted.update_policy:
        policy = dict(_section("update_policy", budget.resolved(wanted.update_policy)))
        replacement = replacement.refined(policy.pop("replacement", None))
        policy.pop(IGNORE_DRIFT, None)
    external_id, size = wanted.external_id, budget.size
    return Wanted(kind, properties, metadata, policy, replacement, definition, external_id, size, restored)


def _is_checked(row: ResourceRecord, wanted: ResourceDefinition, kind: ResourceType) -> bool:
    """Return whether the schema of the wanted type has passed a row's properties."""
    is_made = row.status is Status.COMPLETE and row.verb is not Verb.INIT and row.external_id is None
    return is_made and row.mapped_type == wanted.mapped_type and not issubclass(kind, StackResource)


def _restored(
    kind: ResourceType, given: JsonMap, saved: JsonMap | None, kept: Sequence[JsonMap]
) -> tuple[JsonMap, JsonMap | None]:
    """Return the properties with those of a restore, and the record of these.

    What a restore has put there stays with the object until the definition asks for other values: an update would undo
    the restore. A new object is made as the definition says, since the snapshot may be deleted by then.
    """
    if saved is None:
        for one in kept:
            asked, put = as_map(one.get("asked")), as_map(one.get("put"))
            if all(same(given.get(key), value) for key, value in asked.items()):
                return kind.schema.coerce({**given, **put}), one
        return given, None
    with type_code():
        properties = kind.schema.coerce(kind.restored(given, saved))
    changed = kind.schema.diff(given, properties)
    asked, put = ({key: found.get(key) for key in sorted(changed)} for found in (given, properties))
    return properties, {"asked": asked, "put": put} if changed else None


def _section(name: str, value: object) -> JsonMap:
    """Return a section as a map; null is an empty one.

    Raises StackValidationFailed for any other value.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        what = "are not known yet" if value is UNKNOWN else f"must be a map, not {type(value).__name__}"
        raise StackValidationFailed(f"The {name} {what}.")
    return value


def collect(
    row: ResourceRecord, wanted: Wanted, resources: ResourceFactory, chosen: Mapping[str, ResourceRecord]
) -> RowFacts:
    """Collect the facts of one row, with the questions for expensive ones."""
    is_done = _is_finished(row, resources) or _is_made(row, resources) and row.metadata == wanted.metadata
    asked = _Asked(row, wanted, resources)
    # What a refused deletion has changed before it was refused is changed back.
    observed = observe(resources.make(row)) if is_refused(row) else resources.observed(row)
    if observed is not row.properties and isinstance(observed, dict):
        schema = resources.type_of(row).schema
        parts = ignored_parts(schema, row.properties, observed, ignored(wanted.definition, row.name))
        observed = with_stored(row.properties, observed, parts)
    return RowFacts(row, wanted, resources.type_of(row), chosen, observed, is_done, asked)


def keeping_ignored(
    row: ResourceRecord, wanted: Wanted, resources: ResourceFactory, before: JsonMap
) -> tuple[JsonMap, JsonMap]:
    """Return the properties of an observed object before and after an update.

    Both have the live values of ignored differences: a handler may write a property as a whole. `before` has the stored
    ones.
    """
    live = resources.observed(row)
    if not isinstance(live, dict):
        return before, wanted.properties
    schema = resources.type_of(row).schema
    parts = ignored_parts(schema, row.properties, live, ignored(wanted.definition, row.name))
    start, goal = (with_live(row.properties, live, parts, one) for one in (before, wanted.properties))
    return start, goal


class _Asked(Questions):
    """Asks the type of a row, the store and the clock of its operation."""

    __slots__ = ("_resources", "_row", "_wanted")

    def __init__(self, row: ResourceRecord, wanted: Wanted, resources: ResourceFactory) -> None:
        self._row, self._wanted, self._resources = row, wanted, resources

    def is_outdated(self) -> bool:
        """Return True if the row is older than the running update.

        In a rollback: if it is of the undone update, and the earlier one is still there.
        """
        since, stack = self._resources.undone_since(), self._resources.stack
        if since is not None:
            return self._row.created_at >= since and self._resources.has_other(self._row)
        return stack.verb is Verb.UPDATE and self._row.created_at < (stack.updated_at or 0.0)

    def nested(self) -> NestedFacts | None:
        view = self._resources.nested(self._row.physical_id)
        if view is None:
            return None
        stays = partial(_definition_stays, self._row, self._wanted, view, self._resources)
        return NestedFacts(view.stack.locked, view.stack.state_without_lock, stays)

    def needs_replace(self, change: Change) -> bool:
        with type_code():
            return self._resources.make(self._row).needs_replace(change)

    def needs_replace_failed(self) -> bool:
        with type_code():
            return self._resources.make(self._row).needs_replace_failed()

    def outlasts_refusal(self) -> bool:
        with type_code():
            return self._resources.make(self._row).outlasts_refusal()

    def keeps_joined(self) -> bool:
        name, users = self._row.name, self._wanted.definition.resources.values()
        return self._wanted.kind.keeps_joined and any(name in user.requires and self._joins(user) for user in users)

    def _joins(self, user: ResourceDefinition) -> bool:
        kind, joined = self._resources.type_named(user.mapped_type), self._row.mapped_type
        if not issubclass(kind, StackResource):
            return joined in kind.joins
        rows = self._resources.rows_of(user.name)
        return any(joined in member.joins for row in rows for member in self._resources.members(row))

    def objection(self, change: Change) -> str:
        with type_code():
            return self._resources.make(self._row).objection(change)

    def excludes(self) -> bool:
        with type_code():
            return self._resources.make(self._row).excludes(self._wanted.properties)

    def protection(self) -> Protected | None:
        return self._resources.protected(self._row)


def _restricted(facts: RowFacts, values: Values) -> RowFacts:
    """Add the resource's part in a restricted update."""
    selection, row = values.resources.selection, facts.row
    if selection is None:
        return facts
    step = selection.step(row.name)
    if step is not None:
        return replace(facts, involvement=Involvement.SELECTED, step=step, asked=selection.cause)
    if not selection.is_repair and not selection.leads_to(row.name):
        return facts
    if selection.reverts(row.name):
        return replace(facts, involvement=Involvement.REVERTED)
    if selection.leads_to(row.name):
        return replace(facts, involvement=Involvement.LEADS)
    used = facts.wanted.definition.resources[row.name].requires
    follows = selection.compares or any(map(values.is_affected, used))
    is_well = row.status is Status.COMPLETE and row.verb not in (Verb.INIT, Verb.DELETE)
    if row.status is Status.IN_PROGRESS or follows and is_well:
        return replace(facts, involvement=Involvement.FOLLOWS)
    return replace(facts, involvement=Involvement.OUTSIDE)


def _is_made(row: ResourceRecord, resources: ResourceFactory) -> bool:
    """Return True if the running phase has converged the object, in any attempt."""
    is_made = row.moved_in == resources.phase and row.status is Status.COMPLETE
    return is_made and row.verb in (Verb.CREATE, Verb.UPDATE, Verb.ADOPT)


def _is_finished(row: ResourceRecord, resources: ResourceFactory) -> bool:
    """Return True if the row was finished by the operation that a retry continues."""
    return resources.finished_before(row) and not resources.any_failed_within(row)


def _definition_stays(row: ResourceRecord, wanted: Wanted, nested: NestedView, resources: ResourceFactory) -> bool:
    """Return True if the nested stack's definition stays the same.

    Files and defaults that it does not name may change.
    """
    resource = resources.make(row, wanted.properties, wanted.kind, wanted.update_policy)
    assert isinstance(resource, StackResource)
    with type_code():
        goal = resource.goal()
    if any(map(has_unknown, (goal.template, goal.parameters, wanted.metadata, wanted.update_policy))):
        return False
    definition = wanted.definition
    environment, facade = inherited(definition, facade_row(row, wanted), wanted.update_policy, goal.parameters)
    known = {key: value for key, value in (nested.stack.inherited or {}).items() if key != _REPLACED_ABOVE}
    if canonical({"facade": facade, "without": sorted(environment.without)}) != canonical(known):
        return False
    if canonical(goal.template) != canonical(nested.template):
        return False
    has = visible_inputs(nested.template, nested.definition.environment, nested.definition.template.files)
    return canonical(visible_inputs(goal.template, environment, definition.template.files)) == canonical(has)


def facade_row(row: ResourceRecord, wanted: Wanted) -> ResourceRecord:
    """Return the row with the wanted values that ``resource_facade`` shows."""
    policy = wanted.definition.resources[row.name].deletion_policy
    return replace(row, metadata=wanted.metadata, deletion_policy=policy)


_REPLACED_ABOVE = "anew"
"""Key of `StackRecord.inherited`: types of objects that were replaced above the stack, and that it uses."""


def with_anew(inherited: JsonMap, anew: Collection[str]) -> JsonMap:
    """Return what a nested stack inherits, with the types of replaced objects."""
    known = {key: value for key, value in inherited.items() if key != _REPLACED_ABOVE}
    return {**known, _REPLACED_ABOVE: [*sorted(anew)]} if anew else known


def replaced_above(stack: StackRecord) -> frozenset[str]:
    """Return the types of replaced objects above a nested stack that it uses."""
    found = (stack.inherited or {}).get(_REPLACED_ABOVE)
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


def relations(resources: ResourceFactory) -> ObjectRelations:
    """Return functions that ask the types about two objects."""
    return ObjectRelations(
        blocks=lambda row: resources.type_of(row).blocks,
        joins=lambda row: resources.type_of(row).joins,
        takes=partial(_takes, resources),
        lasts=lambda mapped_type: resources.type_named(mapped_type).lasting_reference,
        members=partial(_members, resources),
        pool_change=None if resources.stack.parent_id is None else partial(pool_change, resources=resources),
    )


def _takes(resources: ResourceFactory, row: ResourceRecord, used: ResourceRecord) -> bool:
    with type_code():
        return resources.make(row).takes(resources.make(used))


def _members(resources: ResourceFactory, row: ResourceRecord) -> Iterator[HolderFacts]:
    for member in resources.members(row):
        yield HolderFacts(member.name, member.blocks - member.joins, member.facts.properties)
