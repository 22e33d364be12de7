"""Members that an action has added, removed or replaced, for its outputs."""

from collections.abc import Sequence

from msgspec.structs import replace

from heatlite.core.action_payloads import ActionOutputs, GroupSizes
from heatlite.core.status import Verb
from heatlite.engine.state.values import current_rows
from heatlite.store.records import ActionRecord, ResourceRecord
from heatlite.store.store import Store


def with_members(
    outputs: ActionOutputs, store: Store, action: ActionRecord, rows: Sequence[ResourceRecord]
) -> ActionOutputs:
    """Add the members that the action has added, removed and replaced to outputs.

    `rows` are those of the action's stack after its last change.
    """
    data = action.data
    if data.replacement is not None:
        before = data.replacement.objects
        after = {path: _object_at(store, rows, path.split("/")) for path in data.replacement.names}
        changed = {path: (before.get(path), new) for path, new in after.items() if new != before.get(path)}
        return replace(outputs, replaced=changed)
    if action.inputs.asked is None:
        return outputs
    present = {row.name: row.physical_id for row in rows if row.verb not in (Verb.INIT, Verb.DELETE)}
    left = {row.name for row in rows}
    joined = () if data.creation is None else data.creation.names
    gone = {} if data.deletion is None else data.deletion.objects
    added = {name: present[name] for name in joined if name in present}
    removed = {name: physical_id for name, physical_id in gone.items() if name not in left}
    size = GroupSizes(len(left) - len(added) + len(removed), len(left))
    return replace(outputs, size=size, added=added, removed=removed, replaced={})


def _object_at(store: Store, rows: Sequence[ResourceRecord], path: Sequence[str]) -> str | None:
    """Return the physical id of the resource at a path below a stack with `rows`."""
    for row in current_rows([row for row in rows if row.name == path[0]]):
        if len(path) == 1 or row.physical_id is None:
            return row.physical_id
        return _object_at(store, store.resources.by_name(row.physical_id, [path[1]]), path[1:])
    return None
