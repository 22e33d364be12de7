"""Readings that hold: a parameter has the value that it got from an output."""

from collections.abc import Iterable, Mapping, Sequence

from heatlite.core.errors import CircularDependencyException, HTTPBadRequest
from heatlite.core.json import as_map, same
from heatlite.core.status import Verb
from heatlite.engine.admission.claims import NewDefinition
from heatlite.features.parameter_sources.store.records import Reading
from heatlite.features.parameter_sources.store.store import ReadingStore
from heatlite.store.records import StackRecord
from heatlite.store.store import Store


def holding(found: Sequence[Reading], stacks: Mapping[str, StackRecord]) -> list[Reading]:
    """Return those readings that hold in the definitions of live stacks.

    They are in the order of parameters. `found` has the newest ones first. An undo or a rollback brings back the
    reading of an earlier value.
    """
    first: dict[tuple[str, str], Reading] = {}
    for one in found:
        stack = stacks.get(one.reader_id)
        if stack is None or stack.deleted_at is not None:
            continue
        given = as_map(stack.environment.get("parameters"))
        if one.parameter in given and same(given[one.parameter], one.value):
            first.setdefault((one.reader_id, one.parameter), one)
    return sorted(first.values(), key=lambda one: one.parameter)


def of_stack(store: Store, stack: StackRecord) -> list[Reading]:
    """Return the readings that hold in the definition of a stack."""
    return holding(store.of(ReadingStore).of_readers([stack.id]), {stack.id: stack})


def of_owner(store: Store, stack: StackRecord) -> list[tuple[Reading, StackRecord]]:
    """Return what live stacks have from a stack, with these stacks, by their names."""
    found = store.of(ReadingStore).of_owner(stack.id)
    readers = store.stacks.of_ids(sorted({one.reader_id for one in found})) if found else {}
    pairs = [(one, readers[one.reader_id]) for one in holding(found, readers)]
    return sorted(pairs, key=lambda pair: (pair[1].name, pair[0].parameter))


def require_root(store: Store, stack: StackRecord) -> StackRecord:
    """Return a root stack. Raises HTTPBadRequest for a nested one."""
    if stack.root_id is not None:
        root = store.stacks.name_of(stack.root_id)
        raise HTTPBadRequest(f"Stack {stack.name} is nested. Values are read from and by its root, {root}.")
    return stack


def refuse_cycle(store: Store, reader: StackRecord, owners: Iterable[StackRecord]) -> None:
    """Raise CircularDependencyException if an owner has a value from the reader.

    It may have it from others, which have it from the reader.
    """
    paths: dict[str, tuple[str, ...]] = {owner.id: (reader.id, owner.id) for owner in owners}
    seen = dict(paths)
    while paths:
        if reader.id in paths:
            stacks = {**store.stacks.of_ids(paths[reader.id]), reader.id: reader}
            raise CircularDependencyException(cycle=" → ".join(_name(reader, stacks[one]) for one in paths[reader.id]))
        ids = sorted(paths)
        found = holding(store.of(ReadingStore).of_readers(ids), store.stacks.of_ids(ids))
        following = {one.owner_id: (*paths[one.reader_id], one.owner_id) for one in found if one.owner_id not in seen}
        seen |= following
        paths = following


def _name(reader: StackRecord, stack: StackRecord) -> str:
    """Return the name of a stack, as readers of a project may know it."""
    return stack.name if stack.project == reader.project else "a stack of another project"


def refuse_old_cycle(store: Store, given: NewDefinition) -> None:
    """Raise CircularDependencyException if an earlier definition closes a cycle.

    Such are those of undos and restores. All others have read what they name.
    """
    if given.action.inputs.request is None and given.action.verb is not Verb.RESTORE:
        return
    owners = store.stacks.of_ids(sorted({one.owner_id for one in of_stack(store, given.stack)}))
    if owners:
        store.of(ReadingStore).lock(store)
        refuse_cycle(store, given.stack, [*owners.values()])
