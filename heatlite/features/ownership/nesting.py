"""Nested stacks that move as a whole, with all that is in them."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from heatlite.core.errors import HTTPBadRequest
from heatlite.engine.operations.redefining.tree import DefinedStack, DefinedTree, Draft, Path, RowChanges
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.environment import file_of, names_template


def require_apart(steps: Sequence[tuple[StackRecord, StackRecord, Mapping[str, Sequence[DefinedStack]]]]) -> None:
    """Raise HTTPBadRequest if something in a nested stack moves beside it.

    `steps` have the stack that resources leave, the one that they enter, and the nested stacks by name.
    """
    whole = {one.stack.id: name for _, _, below in steps for name, levels in below.items() for one in levels}
    for source, target, _ in steps:
        for one in (source, target):
            if one.id in whole:
                text = "moves with all that is in it: move that by a request of its own"
                raise HTTPBadRequest(f"{whole[one.id]} {text}.")


def enter(tree: DefinedTree, draft: Draft, moved: ResourceRecord, below: Sequence[DefinedStack], place: Path) -> None:
    """Set the stacks nested in a resource that enters a tree at a place.

    Groups keep their members.
    """
    types = {row.physical_id: row.mapped_type for row in (moved, *(row for one in below for row in one.rows))}
    for one in below:
        path = (*place, *one.path[len(below[0].path) :])
        tree.take_in(replace(one, path=path))
        if not names_template(types[one.stack.id]):
            draft.set_members(path, one.definition.template.document)
        draft.set(path, RowChanges(one.rows, changed=one.rows))


def mapped_otherwise(source: DefinedStack, target: DefinedStack, names: Mapping[str, str]) -> Iterator[str]:
    """Yield types that the environment of another stack maps to something else."""
    for old, new in names.items():
        kind = source.definition.resources[old].type
        here, there = source.definition.mapping.target(old, kind), target.definition.mapping.target(new, kind)
        if (here.name, here.file) != (there.name, there.file):
            yield f"resource_registry, which maps {kind} of {source.full(old)} to {here.name}"


def files(
    source: DefinedStack, rows: Sequence[ResourceRecord], below: Sequence[DefinedStack], tree: DefinedTree
) -> dict[str, str]:
    """Return the files that nested stacks need in another tree.

    Raises HTTPBadRequest for one that is another file there.
    """
    have, there = source.definition.template.files, tree.level(()).definition.template.files
    kinds = [row.mapped_type for row in (*rows, *(row for one in below for row in one.rows))]
    todo, found = {file_of(kind) for kind in kinds if names_template(kind)}, dict[str, str]()
    while todo:
        name = todo.pop()
        if name in have and name not in found:
            found[name] = have[name]
            todo |= {other for other in have if other in have[name]}
    other = [name for name, text in found.items() if there.get(name, text) != text]
    if other:
        raise HTTPBadRequest(f"Stack {tree.root.name} has other files of these names: {', '.join(sorted(other))}.")
    return {name: text for name, text in found.items() if name not in there}
