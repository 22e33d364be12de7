"""Needs of a plan: what its operation adds to the usage of quotas. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from heatlite.core.errors import HeatliteError
from heatlite.core.json import JsonMap
from heatlite.engine.planning.decide import is_retained
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.preview.preview import PreviewItem, StackPreview
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.needs import Find, Need
from heatlite.plugin.nested import StackResource
from heatlite.plugin.resource import ResourceType

LARGEST = "block_storage.per_volume_gigabytes"
"""The kind that limits the largest object, not the sum."""

MADE = frozenset({Outcome.CREATE, Outcome.CONTINUE, Outcome.REPLACE, Outcome.REBUILD})
"""Outcomes after which an object is there that was not there before, or not like this."""
NEW = (Outcome.CREATE, Outcome.CONTINUE, Outcome.REPLACE)
"""Outcomes after which a resource has another object."""
ENDS = frozenset({Outcome.DELETE, Outcome.REPLACE})
"""Outcomes after which an object is gone."""


class ResourceNeeds(Struct, frozen=True):
    """A resource that needs room."""

    path: str
    """Names from the stack of the action, as ``web/0``."""
    row_id: str
    """The row of a former object; empty without one."""
    amounts: Mapping[str, int]


class PlanNeeds(Struct, frozen=True):
    """Needs of a plan."""

    amounts: Mapping[str, int]
    """By kind; those of unknown amount have at least this."""
    unknown: frozenset[str] = frozenset()
    """Kinds of which the operation alone brings an amount."""
    limits_changed: Mapping[str, frozenset[str]] = {}
    """By kind, the projects whose limit the definition sets, by name or id."""
    parts: tuple[ResourceNeeds, ...] = ()
    """Resources that get a new object."""
    freed: Mapping[str, int] = {}
    """By kind, the amounts of objects that are deleted at the end."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are needed, in order."""
        return tuple(sorted({*self.amounts, *self.unknown}))


def needs_of(preview: StackPreview, find: Find) -> PlanNeeds:
    """Return the needs of a plan of a whole tree."""
    total, freed, unknown, parts = dict[str, int](), Counter[str](), set[str](), list[ResourceNeeds]()
    limits: dict[str, set[str]] = {}
    for item in preview.changes():
        if item.outcome in ENDS:
            freed.update(_freed(item, preview, find))
        after, before = _of_item(item, find)
        if not after:
            continue
        for need in after:
            if need.limited_project:
                limits.setdefault(need.kind, set()).add(need.limited_project)
            elif not need.known:
                unknown.add(need.kind)
        grown = _difference(added(after), added(before)) if before else added(after)
        for kind, amount in grown.items():
            known = total.get(kind, 0)
            total[kind] = max(known, amount) if kind == LARGEST else known + amount
        if grown and item.outcome in NEW:
            parts.append(ResourceNeeds("/".join(item.path), item.row.id, grown))
    changed = {kind: frozenset(projects) for kind, projects in limits.items()}
    return PlanNeeds(total, frozenset(unknown), changed, tuple(parts), dict(freed))


def _freed(item: PreviewItem, preview: StackPreview, find: Find) -> dict[str, int]:
    """Return the amounts of an object that is deleted at the end.

    It may make way for a new one.
    """
    row, level = item.row, item.level
    is_gone = item.outcome is Outcome.DELETE or (
        item.outcome is Outcome.REPLACE and level is not None and not _gives_way(item, level)
    )
    if not is_gone or not row.physical_id or row.external_id is not None or is_retained(row):
        return {}
    return added(_needs(preview.resources.type_of(row), row.properties, find))


def added(needs: Iterable[Need]) -> dict[str, int]:
    """Return the amounts by kind; of `LARGEST` the largest."""
    found = dict[str, int]()
    for one in needs:
        if one.amount:
            known = found.get(one.kind, 0)
            found[one.kind] = max(known, one.amount) if one.kind == LARGEST else known + one.amount
    return found


def _difference(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Return what is added.

    The size of the largest object counts as a whole where it grows.
    """
    found = {}
    for kind, amount in after.items():
        more = amount - before.get(kind, 0)
        if more > 0:
            found[kind] = amount if kind == LARGEST else more
    return found


def _of_item(item: PreviewItem, find: Find) -> tuple[list[Need], list[Need]]:
    """Return the needs of a resource after the operation, and before it.

    The latter only as far as they make room in time.
    """
    level, row = item.level, item.row
    if level is None:  # deleted at the end, or left as it is
        return [], []
    wanted = _wanted(level, item)
    if wanted is None or wanted.external_id is not None:
        return [], []
    after = _needs(wanted.kind, wanted.properties, find)
    if not after or not row.physical_id:
        return after, []
    if issubclass(wanted.kind, StackResource):
        return [], []  # its members count
    if row.external_id is None and _gives_way(item, level):
        seen = level.resources.observed(row)  # it may be smaller than what is stored
        before = seen if isinstance(seen, dict) else row.properties
        return after, _needs(level.resources.type_of(row), before, find)
    return after, []


def _wanted(level: StackPreview, item: PreviewItem) -> Wanted | None:
    """Return the values of a resource that is made or changed.

    None for others, and while the values are not known.
    """
    if item.outcome not in MADE and (item.outcome is not Outcome.UPDATE or level.is_unchanged(item.name)):
        return None
    try:
        return level.wanted(item.name)
    except HeatliteError:
        return None


def _gives_way(item: PreviewItem, level: StackPreview) -> bool:
    """Return whether the former object is changed, or gone before the new one is made."""
    if item.outcome is not Outcome.REPLACE:
        return True
    step = level.step(item.name)
    return level.is_deleted_first or step is not None and (step.deletes_first or step.outcome is Outcome.REBUILD)


def _needs(kind: ResourceType, properties: JsonMap, find: Find) -> list[Need]:
    """Return the needs of an object; none where the code of its type fails."""
    if not kind.counts:
        return []
    try:
        with type_code():
            return [*kind.needs(properties, find)]
    except HeatliteError:
        return []
