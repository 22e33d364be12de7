"""Decide between keeping, changing in place and replacing a resource.

Facts in, decisions out: nothing is written, no argument changes. A fact that is costly is a function, which only a rule
that needs it calls.

The first rule that applies decides; `Reason` has their order, which is Heat's. A preview decides with unknown values,
the walk decides again with known ones: the same facts give the same decision.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from heatlite.core.actions.repairs import RepairStep
from heatlite.core.errors import HeatliteError, ResourceActionRestricted
from heatlite.core.json import JsonMap, as_map
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.facts import Involvement, RowFacts, Wanted
from heatlite.engine.planning.plan import Outcome, Reason, ResourceDecision
from heatlite.engine.types.resource_factory import TRIED
from heatlite.engine.types.template_types import TemplateResource
from heatlite.plugin.nested import StackResource
from heatlite.plugin.ports import Change
from heatlite.plugin.resource import ResourceType
from heatlite.store.records import ResourceRecord
from heatlite.template.expression import fields, requires
from heatlite.template.replacement import DELETE_FIRST, REBUILD

REFUSED = "deletion_refused"
"""Key in the `data` of a row: its deletion has begun when it was well. True: the service has refused it last."""


def choose(
    candidates: Sequence[RowFacts], restricted: frozenset[str], replaced_above: frozenset[str]
) -> ResourceDecision:
    """Return the decision for one resource name.

    It is about the first row that needs no replacement, else about the first. So a retry continues with the newest
    object, and a rollback takes back the old object that still awaits its clean-up. What a failed deletion has left is
    deleted first if it excludes the new object. `candidates` are the rows of the name: the current one, then the
    others, newest first. `restricted` are outcomes that the environment forbids. `replaced_above` are the types of
    objects that were replaced in the parent stacks and are used here. Raises errors of observations and types.
    """
    facts, decision = candidates[0], decide(candidates[0])
    if decision.outcome is Outcome.REPLACE:
        older = ((one, decide(one)) for one in candidates[1:])
        facts, decision = next((pair for pair in older if pair[1].outcome is not Outcome.REPLACE), (facts, decision))
    row = facts.row
    if decision.reason is Reason.OUTSIDE:
        return decision
    if decision.outcome is Outcome.KEEP:
        if facts.wanted.kind.gives_way and candidates[0].row.id > row.id:
            cause = "it takes back what its replacement has taken over"
            return ResourceDecision(Outcome.UPDATE, row, Reason.TAKEN_BACK, cause, before=_before(facts) or {})
        joined = _decide_joined(facts, replaced_above)
        if joined is None:
            return decision
        decision = joined
    protected = facts.ask.protection() if decision.outcome is Outcome.REPLACE else None
    if protected is not None:
        cause = f"it would be replaced ({decision.cause}), but {protected.text}"
        return replace(decision, outcome=Outcome.PROTECT, reason=Reason.PROTECTED, cause=cause)
    if decision.outcome in restricted:
        cause = ResourceActionRestricted(action=decision.outcome.value).message
        return replace(decision, outcome=Outcome.RESTRICT, reason=Reason.RESTRICTED, cause=cause)
    if decision.outcome not in (Outcome.REPLACE, Outcome.CREATE):
        return decision
    return _in_order(facts, decision, candidates)


def _decide_joined(facts: RowFacts, replaced_above: frozenset[str]) -> ResourceDecision | None:
    """Return the update of an object joined to a replaced one; None: it is not."""
    if not _is_joined_replaced(facts, replaced_above):
        return None
    before = _before(facts) or {}
    cause = "an object that it is joined to is replaced"
    if anew := _joined_anew(facts):
        cause = f"it is joined to {', '.join(anew)}, of which there is another object"
    return ResourceDecision(Outcome.UPDATE, facts.row, Reason.JOINED_REPLACED, cause, _joining(facts), before)


def _in_order(facts: RowFacts, decision: ResourceDecision, candidates: Sequence[RowFacts]) -> ResourceDecision:
    """Return the decision to make a new object, with what is deleted first."""
    if decision.outcome is Outcome.REPLACE:
        if _can_rebuild(facts):
            return replace(decision, outcome=Outcome.REBUILD)
        if deletes_first(facts):
            return replace(decision, deletes_first=True)
    for one in candidates:
        if one is not facts and one.row.verb is Verb.DELETE and deletes_first(one):
            cause = decision.cause or "an earlier object is in its way"
            return replace(decision, outcome=Outcome.REPLACE, row=one.row, cause=cause, deletes_first=True)
    return decision


def decide(facts: RowFacts) -> ResourceDecision:
    """Return the decision about one row.

    Raises errors of its observation and of its type.
    """
    row, wanted = facts.row, facts.wanted
    if facts.involvement is Involvement.OUTSIDE:
        return ResourceDecision(Outcome.KEEP, row, Reason.OUTSIDE)
    if row.verb is Verb.INIT:
        return ResourceDecision(Outcome.CREATE, row, Reason.NEVER_MADE)
    if row.verb is Verb.DELETE and not (is_refused(row) and facts.ask.outlasts_refusal()):
        return ResourceDecision(Outcome.REPLACE, row, Reason.DELETION_BEGUN, "its deletion has begun")
    if row.external_id is not None or wanted.external_id is not None:
        return _decide_external(row, wanted)
    # A changed template of a template resource is an update, as in Heat.
    kind = TemplateResource if issubclass(wanted.kind, TemplateResource) else wanted.kind
    if not _is_same_kind(facts.kind, kind):
        return ResourceDecision(Outcome.REPLACE, row, Reason.TYPE_CHANGED, f"type changed from {row.type}")
    if facts.is_done:
        if facts.step is RepairStep.REBOOT or not kind.schema.diff(row.properties, wanted.properties):
            return ResourceDecision(Outcome.KEEP, row, Reason.ALREADY_DONE)
    elif facts.involvement is Involvement.SELECTED:
        return _decide_selected(facts)
    if issubclass(kind, StackResource):
        return _decide_nested(facts)
    return _decide_state(facts) or _decide_change(facts)


def _is_same_kind(now: ResourceType, wanted: ResourceType) -> bool:
    """Return True if the type is the same, perhaps by its old name."""
    return now is wanted or (now.old_name_of != "" and now.old_name_of == wanted.type_name)


def is_refused(row: ResourceRecord) -> bool:
    """Return True if the service has refused to delete the object, which was well."""
    return row.verb is Verb.DELETE and row.status is Status.FAILED and row.data.get(REFUSED) is True


def _decide_external(row: ResourceRecord, wanted: Wanted) -> ResourceDecision:
    """Decide about an object that heatlite does not own."""
    if row.external_id != wanted.external_id:
        changed = frozenset({"external_id"})
        return ResourceDecision(Outcome.REFUSE, row, Reason.EXTERNAL_ID_CHANGED, _unsupported(row, changed), changed)
    if row.verb is Verb.CHECK and row.status is Status.IN_PROGRESS:
        return ResourceDecision(Outcome.CONTINUE, row, Reason.EXTERNAL_CHECK_INTERRUPTED)
    if row.status is Status.COMPLETE:
        return ResourceDecision(Outcome.KEEP, row, Reason.EXTERNAL_WELL)
    return ResourceDecision(Outcome.CREATE, row, Reason.EXTERNAL_NOT_WELL)


def _decide_selected(facts: RowFacts) -> ResourceDecision:
    """Decide about a resource that is to be repaired or replaced, whatever its state."""
    row = facts.row
    if row.verb is Verb.CREATE and row.status is Status.IN_PROGRESS:
        return ResourceDecision(Outcome.CONTINUE, row, Reason.CREATE_INTERRUPTED)
    unhealthy = row.verb is Verb.CHECK and row.status is Status.FAILED
    cause = f"unhealthy: {row.status_reason}" if unhealthy else facts.asked
    if facts.step is RepairStep.REBOOT and facts.wanted.kind.has("reboot"):
        return ResourceDecision(Outcome.REBOOT, row, Reason.SELECTED, f"rebooted: {cause}")
    return ResourceDecision(Outcome.REPLACE, row, Reason.SELECTED, cause)


def _decide_nested(facts: RowFacts) -> ResourceDecision:
    """Decide about a resource that makes a nested stack."""
    row, wanted, nested = facts.row, facts.wanted, facts.ask.nested()
    if nested is None:
        return ResourceDecision(Outcome.REPLACE, row, Reason.NESTED_STACK_GONE, "its nested stack is gone")
    leads = facts.involvement is Involvement.LEADS
    if not leads and nested.locked and row.status is Status.COMPLETE and nested.stays():
        return ResourceDecision(Outcome.KEEP, row, Reason.NESTED_STACK_LOCKED)
    if is_marked(row, nested.state):
        return ResourceDecision(Outcome.REPLACE, row, Reason.UNHEALTHY, f"unhealthy: {row.status_reason}")
    if row.verb in (Verb.CREATE, Verb.ADOPT) and row.status is Status.IN_PROGRESS:
        return ResourceDecision(Outcome.CONTINUE, row, Reason.CREATE_INTERRUPTED)
    schema = wanted.kind.schema
    changed = schema.diff(row.properties, wanted.properties)
    fixed = changed & schema.immutable
    if fixed:
        return _decide_immutable(row, fixed, _followed(facts, changed))
    if not changed <= schema.updatable:
        return _not_updatable(row, changed)
    if changed or row.metadata != wanted.metadata:
        return ResourceDecision(Outcome.UPDATE, row, Reason.DEFINITION_CHANGED, "the definition changed", changed)
    if facts.involvement is Involvement.FOLLOWS and row.status is Status.COMPLETE:
        return ResourceDecision(Outcome.KEEP, row, Reason.UNCHANGED)
    return ResourceDecision(Outcome.UPDATE, row, Reason.MEMBERS_DECIDE, "its members decide")


def _decide_state(facts: RowFacts) -> ResourceDecision | None:
    """Decide by the state of the row and its object; None: the definition decides."""
    row = facts.row
    if facts.wanted.kind.anew_with_update and facts.involvement is Involvement.WHOLE and facts.ask.is_outdated():
        return ResourceDecision(Outcome.REPLACE, row, Reason.EVERY_UPDATE_REPLACES, "every update makes a new one")
    decision = None if row.status is Status.COMPLETE else _decide_unfinished(facts)
    if decision is None and facts.observed is None:
        return ResourceDecision(Outcome.REPLACE, row, Reason.OBJECT_GONE, "its object is gone")
    return decision


def _decide_unfinished(facts: RowFacts) -> ResourceDecision | None:
    """Decide about a row that has failed or is in progress; None: as if it were not."""
    row = facts.row
    if row.status is Status.FAILED and row.verb is Verb.CHECK:
        return ResourceDecision(Outcome.REPLACE, row, Reason.UNHEALTHY, f"unhealthy: {row.status_reason}")
    if row.verb is Verb.ADOPT and row.physical_id is not None:
        return ResourceDecision(
            Outcome.UPDATE, row, Reason.ADOPTION_FAILED, f"its adoption failed: {row.status_reason}"
        )
    if row.status is Status.FAILED and row.verb is not Verb.DELETE and facts.ask.needs_replace_failed():
        return ResourceDecision(Outcome.REPLACE, row, Reason.FAILED, f"{row.verb} failed: {row.status_reason}")
    return _decide_interrupted(row) if row.status is Status.IN_PROGRESS else None


def _decide_interrupted(row: ResourceRecord) -> ResourceDecision | None:
    """Decide about a row in progress; None: as if it were not."""
    if row.verb is Verb.CREATE:
        return ResourceDecision(Outcome.CONTINUE, row, Reason.CREATE_INTERRUPTED)
    if row.verb is Verb.ADOPT:
        return ResourceDecision(Outcome.CREATE, row, Reason.CREATE_INTERRUPTED)  # the row has no id of the object yet
    if row.token is not None and "rebuild" in row.token:
        return ResourceDecision(Outcome.REPLACE, row, Reason.REBUILD_INTERRUPTED, "its rebuild was cut off")
    return None


def _decide_change(facts: RowFacts) -> ResourceDecision:
    """Decide by the difference between the object and its definition."""
    row, wanted, kind = facts.row, facts.wanted, facts.wanted.kind
    before = _before(facts)
    assert before is not None
    changed = kind.schema.diff(before, wanted.properties)
    refusal = _decide_in_place(facts, before, changed) if changed else None
    if refusal is not None:
        return refusal
    start = before
    if TRIED in row.data:
        start = _with_tried(facts, before)
        changed = kind.schema.diff(start, wanted.properties)
    # The object may be as wanted already while the row is not.
    is_observed = before is not row.properties
    stale = is_observed and bool(kind.schema.diff(row.properties, wanted.properties))
    if row.verb is Verb.DELETE:
        cause = "its deletion was refused, so it is taken back"
        return ResourceDecision(Outcome.UPDATE, row, Reason.TAKEN_BACK, cause, changed, start)
    interrupted = row.verb is Verb.UPDATE and row.status is Status.IN_PROGRESS
    if changed or stale or interrupted or row.metadata != wanted.metadata:
        cause = "its object differs" if facts.involvement is Involvement.REVERTED else "the definition changed"
        return ResourceDecision(Outcome.UPDATE, row, Reason.DEFINITION_CHANGED, cause, changed, start, is_observed)
    if kind.always_updated or wanted.properties.get(kind.always_updated_if) is True:
        cause = "every update updates it"
        return ResourceDecision(Outcome.UPDATE, row, Reason.EVERY_UPDATE_UPDATES, cause, changed, start, is_observed)
    return ResourceDecision(Outcome.KEEP, row, Reason.UNCHANGED)


def _with_tried(facts: RowFacts, before: JsonMap) -> JsonMap:
    """Return the properties with tried values in place of those wanted again.

    After a failed update the object may have either. What cannot be changed back in place stays as it is.
    """
    tried, schema, wanted = as_map(facts.row.data[TRIED]), facts.wanted.kind.schema, facts.wanted.properties
    differs = schema.diff(before, wanted)
    for name, value in tried.items():
        if name in schema.fields and name not in differs:
            start = {**before, name: value}
            changed = schema.diff(start, wanted)
            if name in changed and _decide_in_place(facts, start, changed) is None:
                before = start
    return before


def _decide_in_place(facts: RowFacts, before: JsonMap, changed: frozenset[str]) -> ResourceDecision | None:
    """Replace or refuse where a change cannot be made in place; None: it can."""
    row, wanted, kind = facts.row, facts.wanted, facts.wanted.kind
    followed = _followed(facts, changed)
    fixed = changed & kind.schema.immutable
    if fixed:
        return _decide_immutable(row, fixed, followed)
    change = Change(changed, before, wanted.properties, row.metadata != wanted.metadata, followed)
    if facts.ask.needs_replace(change):
        return ResourceDecision(Outcome.REPLACE, row, Reason.TYPE_REPLACES, "the type asks for it", changed)
    if not changed <= kind.schema.updatable | _put_back(row, wanted) or not kind.has("update"):
        return _not_updatable(row, changed)
    objection = facts.ask.objection(change)
    if objection:
        return ResourceDecision(Outcome.REFUSE, row, Reason.TYPE_OBJECTS, objection, changed)
    return None


def _put_back(row: ResourceRecord, wanted: Wanted) -> frozenset[str]:
    """Return properties that the type puts back in place.

    Their definition is as before, so the object differs.
    """
    kind, before = wanted.kind, row.properties
    return frozenset(one for one in kind.puts_back if not kind.schema.fields[one].differs(before, wanted.properties))


def _decide_immutable(row: ResourceRecord, fixed: frozenset[str], followed: frozenset[str]) -> ResourceDecision:
    """Decide about changed immutable properties.

    Replace if only the objects that they name have changed.
    """
    if not fixed <= followed:
        return ResourceDecision(Outcome.REFUSE, row, Reason.IMMUTABLE_CHANGED, _unsupported(row, fixed), fixed)
    return ResourceDecision(
        Outcome.REPLACE, row, Reason.IMMUTABLE_FOLLOWS, "an object that it belongs to is replaced", fixed
    )


def _not_updatable(row: ResourceRecord, changed: frozenset[str]) -> ResourceDecision:
    cause = "a property changed that cannot be changed in place"
    return ResourceDecision(Outcome.REPLACE, row, Reason.NOT_UPDATABLE, cause, changed)


def _unsupported(row: ResourceRecord, names: Iterable[str]) -> str:
    return f"Update to properties {', '.join(sorted(names))} of {row.name} ({row.type}) is not supported."


def _before(facts: RowFacts) -> JsonMap | None:
    """Return the properties that an update starts from.

    Raises the error of the observation.
    """
    if isinstance(facts.observed, HeatliteError):
        raise facts.observed
    return facts.observed


def _followed(facts: RowFacts, changed: frozenset[str]) -> frozenset[str]:
    """Return the changed properties that refer to a resource with a new object."""
    row = facts.row
    renewed = _renewed(row, row.requires, facts.chosen)
    if not renewed:
        return frozenset()
    written = facts.wanted.definition.resources[row.name].properties
    given = fields(written)
    parts = {key: written if given is None else given.get(key) for key in changed}
    return frozenset(key for key, part in parts.items() if not renewed.isdisjoint(requires(part)))


def _renewed(row: ResourceRecord, names: Iterable[str], chosen: Mapping[str, ResourceRecord]) -> set[str]:
    """Return the `names` whose object differs from the one used by the row."""
    return {name for name in names if name not in chosen or chosen[name].id not in row.uses}


def is_marked(row: ResourceRecord, nested_state: tuple[Verb, Status]) -> bool:
    """Return True if the resource of a nested stack is marked unhealthy itself.

    Where the nested stack's own check has failed, its members are replaced instead.
    """
    check_failed = (Verb.CHECK, Status.FAILED)
    if (row.verb, row.status) != check_failed:
        return False
    return nested_state != check_failed or row.health is not None and row.health.marked


def _is_joined_replaced(facts: RowFacts, replaced_above: frozenset[str]) -> bool:
    """Return True if an object that this one joins (`Resource.joins`) was replaced."""
    row, kind = facts.row, facts.wanted.kind
    if not kind.joins or row.external_id is not None:
        return False
    # A failed update may or may not have joined it.
    is_doubted = row.status is Status.FAILED and row.verb is Verb.UPDATE
    is_joined = is_doubted or not kind.joins.isdisjoint(replaced_above) or bool(_joined_anew(facts))
    return is_joined and kind.has("update")


def _joined_anew(facts: RowFacts) -> list[str]:
    """Return the names of joined resources whose object is new, or is taken back."""
    row, resources, joins = facts.row, facts.wanted.definition.resources, facts.wanted.kind.joins
    required, chosen = resources[row.name].requires, facts.chosen
    joined = [name for name in row.requires if name in required and resources[name].mapped_type in joins]
    anew = _renewed(row, joined, chosen)
    return sorted([name for name in joined if name in anew or chosen[name].verb is Verb.DELETE])


def _joining(facts: RowFacts) -> frozenset[str]:
    """Return the updatable properties that name an object that this one joins.

    They are sent again: detaching may have changed them.
    """
    row, kind, resources = facts.row, facts.wanted.kind, facts.wanted.definition.resources
    joined = {name for name in resources[row.name].requires if resources[name].mapped_type in kind.joins}
    given = fields(resources[row.name].properties) or {}
    naming = (key for key, part in given.items() if not joined.isdisjoint(requires(part)))
    return frozenset(naming) & kind.schema.updatable


def _can_rebuild(facts: RowFacts) -> bool:
    """Return True if the object is to be rebuilt in place, and its type supports that."""
    row, wanted = facts.row, facts.wanted
    return (
        REBUILD in (wanted.replacement.order, facts.step)
        and row.physical_id is not None
        and row.verb is not Verb.DELETE
        and facts.kind is wanted.kind
        and wanted.kind.has("rebuild")
    )


def deletes_first(facts: RowFacts) -> bool:
    """Return True if a replacement deletes the old object before making the new one.

    The template or the environment sets the order. Without one, the new object must wait if both exclude each other, or
    if others would stay joined to the old one. A retained object stays.
    """
    order = facts.wanted.replacement.order
    if is_retained(facts.row):
        return False
    if order not in (None, REBUILD) or facts.kind is not facts.wanted.kind:
        return order == DELETE_FIRST
    return facts.ask.excludes() or facts.ask.keeps_joined()


def is_retained(row: ResourceRecord) -> bool:
    """Return True if the object stays when the resource is deleted."""
    return row.deletion_policy.lower() == "retain"
