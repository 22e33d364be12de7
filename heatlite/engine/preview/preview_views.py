"""Views of a preview: Heat's five lists, the tree of a create, the plan's digest.

Secrets are redacted.
"""

import hashlib

from msgspec import to_builtins
from msgspec.structs import replace

from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, JsonMap, as_map, canonical
from heatlite.core.masking import MASK
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.planning.planner import ordered
from heatlite.engine.preview.preview import PreviewItem, StackPreview
from heatlite.engine.preview.redaction import Redaction, shown
from heatlite.engine.state.requests import Changes, Difference, PlannedResource, PreviewResource, PreviewTree, ShownPlan
from heatlite.engine.state.values import without_unknown
from heatlite.engine.types.resource_factory import bounded
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ResourceRecord
from heatlite.template.expression import fields, has_unknown, requires
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


def changes(preview: StackPreview, nested: bool = False, plan: bool = False) -> Changes:
    """Return Heat's five lists, with `nested` of the whole tree; the plan if asked."""
    found: dict[str, list[PreviewResource]] = {}
    for item in preview.items(nested):
        if not item.is_leftover:
            found.setdefault(_LISTS.get(item.outcome, "updated"), []).append(_resource(item))
    lists = {kind: tuple(found.get(kind, ())) for kind in (*_LISTS.values(), "updated")}
    return Changes(**lists, plan=shown_plan(preview) if plan else None)


def tree(preview: StackPreview) -> tuple[PreviewTree, ...]:
    """Return the resources that a create makes.

    A nested stack's resource is replaced by those within.
    """
    return tuple(_branch(preview, name) for name in ordered(preview.definition.resources))


def _branch(preview: StackPreview, name: str) -> PreviewTree:
    child = preview.child(name)
    return _resource(preview.item(name)) if child is None else tree(child)


def shown_plan(preview: StackPreview) -> ShownPlan:
    """Return the plan of the whole tree and its digest.

    The digest is the SHA-256 of everything shown but health.
    """
    resources = tuple(_planned(item) for item in preview.items(nested=True))
    done = [replace(item, health=None) for item in resources]
    digest = hashlib.sha256(canonical(to_builtins(done)).encode()).hexdigest()
    return ShownPlan(resources, digest)


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


def _planned(item: PreviewItem) -> PlannedResource:
    if item.level is not None:
        return _planned_change(item, item.level)
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
    differences: tuple[Difference, ...] = ()
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


def _given(level: StackPreview, wanted: Wanted, name: str) -> tuple[Difference, ...]:
    """Return the properties that a new object is given."""
    given: JsonMap = {key: value for key, value in sorted(wanted.properties.items()) if value is not None}
    redacted = _redacted(level.redactions()[0], name, wanted.kind.schema.masked(given))
    return tuple(
        Difference(key, None, redacted[key], has_unknown(value), False, _changing(level, name, key))
        for key, value in given.items()
    )


def _differences(level: StackPreview, wanted: Wanted, row: ResourceRecord) -> tuple[Difference, ...]:
    """Return the properties that get other values."""
    observed = level.resources.observed(row)
    before = row.properties if observed is None or isinstance(observed, HeatliteError) else observed
    schema = wanted.kind.schema
    names = sorted(schema.diff(before, wanted.properties))
    new_redaction, old_redaction = level.redactions()
    new: JsonMap = {key: wanted.properties.get(key) for key in names}
    stored = schema.masked({key: row.properties.get(key) for key in names})
    redacted = _redacted(new_redaction, row.name, schema.masked(new))
    old = _redacted(old_redaction, row.name, stored)
    if before is not row.properties:
        # An observed value is as secret as the stored one.
        seen = schema.masked({key: before.get(key) for key in names})
        old = {key: shown(seen[key]) if old[key] == shown(stored[key]) else MASK for key in names}
    return tuple(
        Difference(
            key,
            old[key],
            redacted[key],
            has_unknown(new[key]),
            key not in schema.updatable,
            _changing(level, row.name, key),
        )
        for key in names
    )


def _changing(level: StackPreview, name: str, key: str) -> tuple[str, ...]:
    """Return the names of the changing resources that a property refers to."""
    written = level.definition.resources[name].properties
    given = fields(written)
    used = requires(written if given is None else given.get(key))
    return tuple(sorted({other for other in used if not level.is_unchanged(other)}))


def _redacted(redaction: Redaction | None, name: str, properties: JsonMap) -> JsonMap:
    return dict.fromkeys(properties, MASK) if redaction is None else redaction.shown(name, properties)
