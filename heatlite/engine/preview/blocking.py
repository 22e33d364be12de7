"""Joined objects that keep the old one of a replacement in use, in a whole tree."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, dump
from heatlite.engine.planning.decide import is_retained
from heatlite.engine.planning.plan import Outcome
from heatlite.plugin.resource import ResourceType
from heatlite.store.records import ResourceRecord

if TYPE_CHECKING:
    from heatlite.engine.preview.preview import PreviewItem

KEEPS = frozenset({Outcome.KEEP, Outcome.UPDATE})


def telling(
    items: "Sequence[PreviewItem]", type_of: Callable[[ResourceRecord], ResourceType]
) -> "Iterator[PreviewItem]":
    """Yield the items of a tree, with the old objects that joined ones block.

    These old ones are deleted after their replacement is made.
    """
    old = [one for one in items if _goes_last(one) and type_of(one.row).keeps_joined]
    if not old:
        yield from items
        return
    for item in items:
        kind = type_of(item.row)
        held = ["/".join(one.path) for one in old if item.outcome in KEEPS and _blocks(item, kind, one)]
        yield replace(item, blocks=tuple(sorted(held))) if held else item


def _goes_last(item: "PreviewItem") -> bool:
    level, row = item.level, item.row
    if item.outcome is not Outcome.REPLACE or level is None or row.physical_id is None or row.external_id is not None:
        return False
    step = level.step(item.name)
    is_first = step is None or step.outcome is Outcome.REBUILD or step.deletes_first or level.is_deleted_first
    return not is_first and not is_retained(row)


def _blocks(item: "PreviewItem", kind: ResourceType, old: "PreviewItem") -> bool:
    """Return True if an object stays joined to an old one."""
    row, other = item.row, old.row
    if other.mapped_type not in kind.joins or row.physical_id is None or item.is_leftover:
        return False
    naming = [name for name, value in row.properties.items() if f'"{other.physical_id}"' in dump(value)]
    is_joined = other.id in row.uses or kind.comes_after(row.properties, other.mapped_type, other.properties)
    return bool(naming or is_joined) and not (naming and all(_changes(item, name, row.properties) for name in naming))


def _changes(item: "PreviewItem", name: str, stored: "dict[str, Json]") -> bool:
    try:
        return item.level is not None and item.level.wanted(item.name).properties.get(name) != stored[name]
    except HeatliteError:
        return False
