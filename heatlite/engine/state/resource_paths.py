"""Paths from the root of a stack tree to its resources."""

from collections.abc import Iterable, Iterator
from functools import cache

from msgspec import Struct

from heatlite.engine.state.values import current_rows
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store


class ResourcePath(Struct, frozen=True):
    """The resources and the stacks from a root to a resource; as many of both."""

    rows: tuple[ResourceRecord, ...]
    """The last one is the resource."""
    stacks: tuple[StackRecord, ...]

    @property
    def path(self) -> str:
        """Names from the root to the resource: ``web/2/server``."""
        return "/".join(one.name for one in self.rows)


def paths_to(store: Store, rows: Iterable[ResourceRecord]) -> Iterator[ResourcePath]:
    """Yield the paths of the rows, without those that are not current in a live tree.

    Reads the stacks above the rows, and one resource of each, once.
    """

    @cache
    def stack_of(stack_id: str) -> StackRecord | None:
        return store.stacks.get(stack_id)

    @cache
    def current(stack_id: str, name: str) -> ResourceRecord | None:
        return next(iter(current_rows(store.resources.by_name(stack_id, [name]))), None)

    for row in rows:
        below, stacks = list[ResourceRecord](), list[StackRecord]()
        stack, name = stack_of(row.stack_id), row.name
        while stack is not None and stack.deleted_at is None:
            found = current(stack.id, name)
            if found is None or (found.physical_id != stacks[0].id if stacks else found.id != row.id):
                break
            below.insert(0, found)
            stacks.insert(0, stack)
            if stack.parent_id is None:
                yield ResourcePath(tuple(below), tuple(stacks))
                break
            name, stack = stack.parent_resource or "", stack_of(stack.parent_id)
