"""Views of a preview: Heat's five lists, the tree of a create, the plan's digest.

Secrets are redacted.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from msgspec import UNSET, Struct, UnsetType, to_builtins
from msgspec.structs import replace

from heatlite.core.actions.repairs import RepairPart, Selection
from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, JsonMap, as_map, canonical
from heatlite.core.redaction.masking import MASK
from heatlite.core.status import Verb
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.planning.planner import ordered
from heatlite.engine.preview.preview import PreviewItem, StackPreview
from heatlite.engine.preview.redaction import Redaction, shown
from heatlite.engine.state.requests import (
    ChangedResource,
    PlannedResource,
    PreviewResource,
    PreviewTree,
    PropertyChange,
    ResourceChanges,
    ShownPlan,
)
from heatlite.engine.state.values import without_unknown
from heatlite.engine.types.differences import ignored_parts, with_stored
from heatlite.engine.types.resource_factory import bounded
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ResourceRecord
from heatlite.template.expression import fields, has_unknown, requires
from heatlite.template.ignored import ignored
from heatlite.template.replacement import CREATE_FIRST, DELETE_FIRST, REBUILD

_SHOWN_AS = {Outcome.PROTECT: Outcome.REFUSE}
"""Outcomes that a plan shows alike."""

_LISTS = {
    Outcome.KEEP: "unchanged",
    Outcome.CREATE: "added",
    Outcome.REPLACE: "replaced",
    Outcome.DELETE: "deleted",
}
"""Heat's lists by outcome; all other outcomes belong to `updated`."""


class ChosenPart(Struct, frozen=True):
    """The part of a plan that an update does."""

    selection: Selection
    parts: Mapping[str, RepairPart]
    """By path."""
    causes: Mapping[str, str]
    """By path, why a plan lists a resource that is left out although it would change."""
    left_out: tuple[str, ...]
    """The outermost paths of these, as long as the update has them outside."""
    entries: Mapping[str, PreviewItem]
    """By path, the same resources in the plan of the whole update."""

    def items(self, preview: StackPreview, nested: bool) -> Iterator[PreviewItem]:
        """Yield the items of the update, and those of deletions that are left out."""
        seen = set[str]()
        for item in preview.items(nested):
            seen.add("/".join(item.path))
            yield item
        for path in self.left_out:
            gone = self.entries.get(path)
            if gone is not None and path not in seen and (nested or len(gone.path) == 1):
                yield replace(gone, outcome=Outcome.KEEP, level=None, after=())

    def shown(self, entry: PlannedResource) -> PlannedResource:
        """Return the entry of a plan with its part."""
        path = "/".join(entry.path)
        if path not in self.parts:
            return entry
        return replace(entry, selection=self.parts[path], cause=self.causes.get(path, entry.cause))


def changes(
    preview: StackPreview, nested: bool = False, plan: bool = False, chosen: ChosenPart | None = None
) -> ResourceChanges:
    """Return Heat's five lists, with `nested` of the whole tree; the plan if asked.

    `chosen` is what a restricted update touches.
    """
    found: dict[str, list[PreviewResource]] = {}
    for item in preview.items(nested) if chosen is None else chosen.items(preview, nested):
        if not item.is_leftover:
            found.setdefault(_LISTS.get(item.outcome, "updated"), []).append(_resource(item))
    lists = {kind: tuple(found.get(kind, ())) for kind in (*_LISTS.values(), "updated")}
    return ResourceChanges(**lists, plan=shown_plan(preview, chosen) if plan else None)


def tree(preview: StackPreview) -> tuple[PreviewTree, ...]:
    """Return the resources that a create makes.

    A nested stack's resource is replaced by those within.
    """
    return tuple(_branch(preview, name) for name in ordered(preview.definition.resources))


def _branch(preview: StackPreview, name: str) -> PreviewTree:
    child = preview.child(name)
    return _resource(preview.item(name)) if child is None else tree(child)


def not_taken_back(plan: ShownPlan) -> list[Json]:
    """Return the paths of what changes at once.

    A rollback does not take it back, but makes it again.
    """
    return ["/".join(one.path) for one in plan.resources if _changes_at_once(one)]


def _changes_at_once(planned: PlannedResource) -> bool:
    if planned.action == "replace":
        return planned.order in (DELETE_FIRST, REBUILD)
    return planned.action == "update" and bool(planned.differences or planned.metadata_differs)


def shown_plan(preview: StackPreview, chosen: ChosenPart | None = None) -> ShownPlan:
    """Return the plan of the whole tree and its digest.

    The digest is the SHA-256 of the shown resources without their health.
    """
    if chosen is None:
        resources = tuple(planned(item) for item in preview.items(nested=True))
    else:
        resources = tuple(chosen.shown(planned(item)) for item in chosen.items(preview, nested=True))
    done = [replace(item, health=None) for item in resources]
    digest = hashlib.sha256(canonical(to_builtins(done)).encode()).hexdigest()
    return ShownPlan(resources, digest)


def changed_resources(preview: StackPreview) -> Iterator[ChangedResource | None]:
    """Yield each resource of a tree that changes, with all of its properties.

    None stands for one that stays as it is, and for one whose object stays.
    """
    for item in preview.items(nested=True):
        if item.outcome is Outcome.KEEP or item.leaves_object:
            yield None
        elif item.level is None:
            row, old = item.row, _old_of_removed(preview, item)
            action = _SHOWN_AS.get(item.outcome, item.outcome).value
            yield ChangedResource(item.path, action, row, row.type, row.mapped_type, (), {}, old, ())
        elif item.outcome is Outcome.CREATE:
            yield _changed(item, item.level, item.outcome.value, None)
        else:
            plan = planned(item)
            changed = tuple(one.name for one in plan.differences)
            is_kept = plan.action == Outcome.KEEP.value
            yield None if is_kept else _changed(item, item.level, plan.action, changed)


def detailed_plan(
    resources: Sequence[PlannedResource], details: JsonMap, later: Sequence[PlannedResource] = ()
) -> ShownPlan:
    """Return a plan with further keys, such as the edits of a definition.

    `later` are changes of the result by the next update. The digest covers all of it.
    """
    done, left = ([to_builtins(replace(item, health=None)) for item in part] for part in (resources, later))
    digest = hashlib.sha256(canonical([done, details, left]).encode()).hexdigest()
    return ShownPlan(tuple(resources), digest, details, tuple(later))


def plan_entry(
    path: tuple[str, ...],
    row: ResourceRecord,
    action: str,
    cause: str = "",
    differences: tuple[PropertyChange, ...] = (),
    moved_from: str | UnsetType = UNSET,
) -> PlannedResource:
    """Return the entry of a resource in the plan of an operation that plans no steps."""
    return PlannedResource(
        path=path,
        type=row.type,
        physical_id=row.physical_id,
        action=action,
        cause=cause,
        order=None,
        after=(),
        differences=differences,
        metadata_differs=False,
        is_protected=row.protection is not None,
        health=row.health,
        moved_from=moved_from,
    )


# -- items of Heat's lists ---------------------------------------------------------------------------


def _resource(item: PreviewItem) -> PreviewResource:
    if item.level is not None:
        return _future_resource(item, item.level)
    row = item.row
    if item.outcome is Outcome.PROTECT:
        row = replace(row, status_reason=item.cause)
    if item.stack.sealed:
        row = replace(row, metadata=dict.fromkeys(row.metadata, MASK))  # Its hidden parts are not computed here.
    return PreviewResource(item.stack, row, (), {})


def _future_resource(item: PreviewItem, level: StackPreview) -> PreviewResource:
    wanted, row = level.definition.resources[item.name], item.row
    properties, metadata = _section(level, wanted.properties), _section(level, wanted.metadata)
    row = replace(row, properties=properties, metadata=metadata)
    if item.outcome in (Outcome.RESTRICT, Outcome.PROTECT):
        row = replace(row, status_reason=item.cause)
    kind = level.resources.kind(level.definition, item.name)
    row = replace(row, properties=kind.schema.masked(row.properties))
    attributes: dict[str, Json] = dict.fromkeys(kind.attribute_names - {"show"})
    nested = row.physical_id if issubclass(kind, StackResource) else None
    return PreviewResource(item.stack, row, tuple(level.required_by.get(item.name, ())), attributes, nested)


def _section(level: StackPreview, section: object) -> JsonMap:
    """Return the future value of a section, with hidden parameters masked.

    Unknown parts are null.
    """
    budget = bounded(level.values)
    try:
        value = without_unknown(budget.resolved(section))
    except HeatliteError:
        # The function may succeed once its values are known.
        return {}
    level.count(budget.size)
    return as_map(level.mask.json(value))


# -- items of a plan ---------------------------------------------------------------------------------


def planned(item: PreviewItem) -> PlannedResource:
    """Return the entry of an item in a plan, with secrets masked."""
    found = _planned_whole(item) if item.level is None else _planned_change(item, item.level)
    if not item.blocks:
        return found
    blocks = f"it blocks the deletion of {', '.join(item.blocks)}"
    return replace(found, cause=f"{found.cause}, and {blocks}" if found.cause else blocks)


def _planned_whole(item: PreviewItem) -> PlannedResource:
    row = item.row
    return PlannedResource(
        path=item.path,
        type=row.type,
        physical_id=row.physical_id,
        action=_SHOWN_AS.get(item.outcome, item.outcome).value,
        cause=item.cause,
        order=None,
        after=item.after,
        differences=(),
        metadata_differs=False,
        is_protected=row.protection is not None,
        health=row.health,
    )


def _planned_change(item: PreviewItem, level: StackPreview) -> PlannedResource:
    name, outcome, cause, row = item.name, item.outcome, item.cause, item.row
    order: str | None = None
    differences: tuple[PropertyChange, ...] = ()
    metadata_differs = False
    if outcome is Outcome.KEEP or outcome is Outcome.UPDATE and level.is_unchanged(name):
        outcome, cause = Outcome.KEEP, ""
    else:
        if outcome in (Outcome.REFUSE, Outcome.PROTECT):
            cause = level.mask.text(cause)
        try:
            wanted = level.wanted(name)
        except HeatliteError as error:
            cause = _error_text(level, name, error.message)
        else:
            level.child(name)
            if name in level.errors:
                cause = _error_text(level, name, level.errors[name])
            is_new = outcome is Outcome.CREATE or not issubclass(wanted.kind, level.resources.type_of(row))
            differences = _given(level, wanted, name) if is_new else _differences(level, wanted, row)
            metadata_differs = outcome is not Outcome.CREATE and row.metadata != wanted.metadata
            if outcome is Outcome.REPLACE and not level.replaced_rows:
                order = _order(level, name)
            if not differences and not metadata_differs:
                outcome = _without_differences(outcome, row)
    if differences:
        mask = level.secret_mask(name)
        differences = tuple(replace(one, old=mask.json(one.old), new=mask.json(one.new)) for one in differences)
    return PlannedResource(
        path=item.path,
        type=level.definition.resources[name].type,
        physical_id=row.physical_id,
        action=_SHOWN_AS.get(outcome, outcome).value,
        cause=cause,
        order=order,
        after=_after(level, name),
        differences=differences,
        metadata_differs=metadata_differs,
        is_protected=row.protection is not None,
        health=row.health,
    )


def _without_differences(outcome: Outcome, row: ResourceRecord) -> Outcome:
    """Return the outcome to show of an object that is as wanted: it may be taken back."""
    return Outcome.KEEP if outcome is Outcome.UPDATE and row.verb is Verb.DELETE else outcome


def _old_of_removed(preview: StackPreview, item: PreviewItem) -> JsonMap:
    """Return the stored properties of an object that goes.

    The definition of its stack is not evaluated for them.
    """
    if item.stack.sealed:
        return dict.fromkeys(item.row.properties, MASK)
    return preview.resources.type_of(item.row).schema.masked(item.row.properties)


def _changed(
    item: PreviewItem, level: StackPreview, action: str, changed: tuple[str, ...] | None
) -> ChangedResource:
    """Return a resource that changes. None: all of its properties do."""
    name, row, defined = item.name, item.row, level.definition.resources[item.name]
    types = defined.type, defined.mapped_type
    mask = level.secret_mask(name)
    old: JsonMap = {}
    if row.properties:
        old = _stored(level, name, level.resources.type_of(row).schema.masked(row.properties))
        old = as_map(mask.json(old))
    try:
        evaluated = level.wanted(name)
    except HeatliteError:
        unknown = tuple(sorted(fields(defined.properties) or ()))
        return ChangedResource(item.path, action, row, *types, changed or unknown, {}, old, unknown)
    given = {key: value for key, value in evaluated.properties.items() if value is not None}
    unknown = tuple(sorted(key for key, value in given.items() if has_unknown(value)))
    known: JsonMap = {key: value for key, value in given.items() if key not in unknown}
    new = as_map(mask.json(_redacted(level.redactions()[0], name, evaluated.kind.schema.masked(known))))
    names = tuple(sorted(given)) if changed is None else changed
    return ChangedResource(item.path, action, row, *types, names, new, old, unknown)


def _after(level: StackPreview, name: str) -> tuple[str, ...]:
    """Return the names of the changing resources that come before."""
    step = level.step(name)
    needed = [] if step is None else [key for key in step.requires if key in level.definition.resources]
    return tuple(sorted(key for key in needed if not level.is_unchanged(key)))


def _order(level: StackPreview, name: str) -> str:
    """Return the order of a replacement."""
    step = level.step(name)
    assert step is not None
    if step.outcome is Outcome.REBUILD:
        return REBUILD
    return DELETE_FIRST if step.deletes_first else CREATE_FIRST


def _error_text(level: StackPreview, name: str, error: str) -> str:
    redaction = level.redactions()[0]
    return "" if redaction is None else level.secret_mask(name).text(redaction.error_text(name, error))


def _given(level: StackPreview, wanted: Wanted, name: str) -> tuple[PropertyChange, ...]:
    """Return the properties that a new object is given."""
    given: JsonMap = {key: value for key, value in sorted(wanted.properties.items()) if value is not None}
    redacted = _redacted(level.redactions()[0], name, wanted.kind.schema.masked(given))
    return tuple(
        PropertyChange(key, None, redacted[key], has_unknown(value), False, changing(level, name, key))
        for key, value in given.items()
    )


def _differences(level: StackPreview, wanted: Wanted, row: ResourceRecord) -> tuple[PropertyChange, ...]:
    """Return the properties that get other values."""
    observed = level.resources.observed(row)
    before = row.properties if observed is None or isinstance(observed, HeatliteError) else observed
    schema = wanted.kind.schema
    if before is not row.properties:
        parts = ignored_parts(schema, row.properties, before, ignored(wanted.definition, row.name))
        before = with_stored(row.properties, before, parts)
    names = sorted(schema.diff(before, wanted.properties))
    new: JsonMap = {key: wanted.properties.get(key) for key in names}
    stored = schema.masked({key: row.properties.get(key) for key in names})
    redacted = _redacted(level.redactions()[0], row.name, schema.masked(new))
    old = _stored(level, row.name, stored)
    if before is not row.properties:
        # An observed value is as secret as the stored one.
        observed_values = schema.masked({key: before.get(key) for key in names})
        old = {key: shown(observed_values[key]) if old[key] == shown(stored[key]) else MASK for key in names}
    return tuple(
        PropertyChange(
            key,
            old[key],
            redacted[key],
            has_unknown(new[key]),
            key not in schema.updatable,
            changing(level, row.name, key),
        )
        for key in names
    )


def changing(level: StackPreview, name: str, key: str) -> tuple[str, ...]:
    """Return the names of the changing resources that a property refers to."""
    written = level.definition.resources[name].properties
    given = fields(written)
    used = requires(written if given is None else given.get(key))
    return tuple(sorted({other for other in used if not level.is_unchanged(other)}))


def _stored(level: StackPreview, name: str, properties: JsonMap) -> JsonMap:
    """Return stored properties as they are shown.

    Those of a stack that never had hidden values have none, whatever its definition is by now.
    """
    if level.current is not None and not level.current.stack.sealed:
        return {key: shown(value) for key, value in properties.items()}
    return _redacted(level.redactions()[1], name, properties)


def _redacted(redaction: Redaction | None, name: str, properties: JsonMap) -> JsonMap:
    return dict.fromkeys(properties, MASK) if redaction is None else redaction.shown(name, properties)
