"""Needs of a plan: what its operation adds to the usage of quotas. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from heatlite.core.errors import HeatliteError
from heatlite.core.json import JsonMap
from heatlite.engine.planning.decide import is_retained
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.group_members import asked_place, placed_at
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.preview.preview import PreviewItem, StackPreview
from heatlite.engine.steps.pools import POOL_MEMBER
from heatlite.features.quota.store.records import Parts
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

Needs: TypeAlias = tuple[Need, ...]
NOTHING: Final[tuple[Needs, Needs]] = ((), ())


class PlanNeeds(Struct, frozen=True):
    """Needs of a plan."""

    amounts: Mapping[str, int]
    """By kind; those of unknown amount have at least this."""
    unknown: frozenset[str] = frozenset()
    """Kinds of which the operation alone brings an amount."""
    limits_changed: Mapping[str, frozenset[str]] = {}
    """By kind, the projects whose limit the definition sets, by name or id."""
    parts: tuple[Parts, ...] = ()
    """Resources that get a new object."""
    freed: Mapping[str, int] = {}
    """By kind, the amounts of objects that are deleted at the end."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are needed, in order."""
        return tuple(sorted({*self.amounts, *self.unknown}))


def needs_of(preview: StackPreview, find: Find) -> PlanNeeds:
    """Return the needs of a plan of a whole tree."""
    total, freed, unknown, parts = dict[str, int](), Counter[str](), set[str](), list[Parts]()
    limits: dict[str, set[str]] = {}
    alike: dict[tuple[Needs, Needs], list[PreviewItem]] = {}
    ending, entering = list[PreviewItem](), 0
    for item in preview.changes():
        if item.outcome in ENDS:
            ending.append(item)
        entering += _enters_pool(item)
        change = _of_item(item, find)
        if change[0]:
            alike.setdefault(change, []).append(item)
    for (after, before), items in alike.items():
        for need in after:
            if need.limited_project:
                limits.setdefault(need.kind, set()).add(need.limited_project)
            elif not need.known:
                unknown.add(need.kind)
        grown = _difference(added(after), added(before))
        for kind, amount in grown.items():
            known = total.get(kind, 0)
            total[kind] = max(known, amount) if kind == LARGEST else known + amount * len(items)
        new = {"/".join(item.path): item.row.id for item in items if item.outcome in NEW} if grown else {}
        if new:
            parts.append(Parts(grown, new))
    for kind, amount in added(_needs(preview.resources.type_named(POOL_MEMBER), {}, find)).items() if entering else ():
        total[kind] = total.get(kind, 0) + amount * entering
    for item in ending if total else ():
        freed.update(_freed(item, preview, find))
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


def _of_item(item: PreviewItem, find: Find) -> tuple[Needs, Needs]:
    """Return the needs of a resource after the operation, and before it.

    The latter only as far as they make room in time.
    """
    level, row = item.level, item.row
    if level is None:  # deleted at the end, or left as it is
        return NOTHING
    wanted = _wanted(level, item)
    if wanted is None or wanted.external_id is not None:
        return NOTHING
    after = _needs(wanted.kind, wanted.properties, find)
    if not after or not row.physical_id:
        return after, ()
    if issubclass(wanted.kind, StackResource):
        return NOTHING  # its members count
    if row.external_id is None and _gives_way(item, level):
        seen = level.resources.observed(row)  # it may be smaller than what is stored
        before = seen if isinstance(seen, dict) else row.properties
        return after, _needs(level.resources.type_of(row), before, find)
    return after, ()


def _wanted(level: StackPreview, item: PreviewItem) -> Wanted | None:
    """Return the values of a resource that is made or changed.

    None for others, and while the values are not known.
    """
    if item.outcome not in MADE and (item.outcome is not Outcome.UPDATE or level.is_unchanged(item.name)):
        return None
    try:
        return level.wanted(item.path[-1])
    except HeatliteError:
        return None


def _enters_pool(item: PreviewItem) -> bool:
    """Return whether the object enters a pool, as a policy of its group says.

    A new one enters before the former one leaves, unless that is gone by then.
    """
    if item.level is None or item.level.resources.stack.parent_id is None:
        return False
    row = item.row if _gives_way(item, item.level) else placed_at(item.row, ())
    place = asked_place(row, item.level.resources)
    return place is not None and place.lb_member is None


def _gives_way(item: PreviewItem, level: StackPreview) -> bool:
    """Return whether the former object is changed, or gone before the new one is made."""
    if item.outcome is not Outcome.REPLACE:
        return True
    step = level.step(item.name)
    return level.is_deleted_first or step is not None and (step.deletes_first or step.outcome is Outcome.REBUILD)


def _needs(kind: ResourceType, properties: JsonMap, find: Find) -> Needs:
    """Return the needs of an object; none where the code of its type fails."""
    if not kind.counts:
        return ()
    try:
        return (*kind.needs(properties, find),)
    except Exception:  # noqa: BLE001 - types are plugins, which may raise anything
        return ()
