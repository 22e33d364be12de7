"""Nested stacks that have outlived their resource (deletion policy Retain)."""

from heatlite.store.records import StackRecord
from heatlite.store.store import Store


def retained_in_tree(store: Store, stack: StackRecord) -> list[str]:
    """Return the ids of the stacks in a stack's tree that belong to no resource.

    Limits of the tree do not count them. Empty if the stack itself is one of them.
    """
    root = stack if stack.root_id is None else store.stacks.get(stack.root_id)
    nested = [] if root is None else store.stacks.descendants(root)
    retained = {one.id for one in nested} - {one.id for one in store.resources.attached(nested)}
    return [] if stack.id in retained else [*retained]
