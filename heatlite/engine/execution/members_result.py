"""Resources that an action has added, removed, replaced or put back, as outputs."""

from collections.abc import Sequence

from msgspec import to_builtins
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionOutputs, GroupSizes
from heatlite.core.errors import HeatliteError
from heatlite.core.json import JsonMap
from heatlite.core.status import Result, Status, Verb
from heatlite.engine.planning.group_policies import chain, policy, stored
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.groups import POLICIES
from heatlite.store.records import ActionRecord, ResourceRecord
from heatlite.store.store import Store


def with_members(
    outputs: ActionOutputs, store: Store, action: ActionRecord, rows: Sequence[ResourceRecord]
) -> ActionOutputs:
    """Add what the action has added, removed, replaced and put back to outputs.

    `rows` are those of the action's stack after its last change.
    """
    data = action.data
    if data.retained and outputs.result is Result.OK:
        return replace(outputs, retained=data.retained)
    is_restricted = action.inputs.heal is not None and None in action.inputs.heal.steps.values()
    if action.inputs.converge or is_restricted:
        since = action.started_at or action.created_at
        ended = {row.name for row in rows if _is_updated(row, since)}
        reverted = tuple(path for path in data.reverted if "/" in path or path in ended)
        outputs = replace(outputs, reverted=reverted)
    if data.replacement is not None:
        before = data.replacement.objects
        found = {path: _row_at(store, rows, path.split("/")) for path in data.replacement.names}
        after = {path: None if row is None else row.physical_id for path, row in found.items()}
        changed = {path: (before.get(path), new) for path, new in after.items() if new != before.get(path)}
        return replace(outputs, replaced=changed)
    if action.inputs.asked is None:
        is_change = (data.creation, data.deletion) != (None, None)
        return replace(outputs, policies=_told(store, action, outputs) or None) if is_change else outputs
    if data.state_before is not None and outputs.result is Result.OK and data.deletion is not None:
        rows = [row for row in rows if row.name not in data.deletion.names]  # they leave with the action's end
    present = {row.name: row.physical_id for row in rows if row.verb not in (Verb.INIT, Verb.DELETE)}
    left = {row.name for row in rows}
    joined = () if data.creation is None else data.creation.names
    gone = {} if data.deletion is None else data.deletion.objects
    added = {name: present[name] for name in joined if name in present}
    removed = {name: physical_id for name, physical_id in gone.items() if name not in left}
    size = GroupSizes(len(left) - len(added) + len(removed), len(left))
    outputs = replace(outputs, size=size, added=added, removed=removed, replaced={})
    return replace(outputs, policies=_told(store, action, outputs) or None)


def _told(store: Store, action: ActionRecord, outputs: ActionOutputs) -> dict[str, JsonMap]:
    """Return what the policies of the group say after its change, by name."""
    nested, found = store.stacks.get(action.stack_id), dict[str, JsonMap]()
    if nested is None or nested.parent_id is None or nested.parent_resource is None:
        return found
    rows = current_rows(store.resources.by_name(nested.parent_id, [nested.parent_resource]))
    for name, one in chain(stored(rows[0].data.get(POLICIES)) if rows else {}):
        try:
            with type_code():
                kind = policy(one)
                told = {} if kind is None else kind.post_op(to_builtins(action.data), str(outputs.result))
        except HeatliteError as error:
            told = {"error": error.message}  # the members have changed
        if told:
            found[name] = told
    return found


def _is_updated(row: ResourceRecord, since: float) -> bool:
    if (row.verb, row.status) != (Verb.UPDATE, Status.COMPLETE):
        return False
    return row.updated_at is not None and row.updated_at >= since


def _row_at(store: Store, rows: Sequence[ResourceRecord], path: Sequence[str]) -> ResourceRecord | None:
    """Return the row of the resource at a path below a stack with `rows`."""
    for row in current_rows([row for row in rows if row.name == path[0]]):
        if len(path) == 1:
            return row
        below = () if row.physical_id is None else store.resources.by_name(row.physical_id, [path[1]])
        return _row_at(store, below, path[1:])
    return None
