"""Write and delete the contents of snapshots."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor as Pool
from functools import partial

from msgspec.structs import replace

from heatlite.core.status import Result, Status, Verb
from heatlite.engine.calls.handlers import drop_saved
from heatlite.engine.calls.stopping import Stopping, aborted_text
from heatlite.engine.execution.final_state import outcome
from heatlite.engine.planning.snapshot_parts import parts
from heatlite.engine.state.stack_document import stack_record
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.store.records import ResourceRecord, SnapshotRecord, StackRecord
from heatlite.store.stacks.snapshots import Snapshots
from heatlite.store.store import Store


def drop_parts(snapshots: Sequence[SnapshotRecord], resources: ResourceFactory, pool: Pool) -> list[str]:
    """Let the types delete their parts of snapshots. Returns the failures."""
    found = [part for snapshot in snapshots for part in parts(snapshot, resources)]
    return [failure for failure in pool.map(drop_saved, found) if failure is not None]


def fail_snapshots(store: Store, stack: StackRecord, reason: str) -> None:
    """Fail the snapshots in progress on a stack.

    Each gets the stack's document: what the types have saved so far is deleted with the snapshot.
    """
    for snapshot in store.snapshots.in_progress(stack.id):
        record = stack_record(store, stack) if snapshot.data is None else snapshot.data
        store.snapshots.save(replace(snapshot, status=Status.FAILED, status_reason=reason, data=record))


def write_snapshot(store: Store, stack: StackRecord, rows: list[ResourceRecord], snapshot_id: str) -> None:
    """Write the contents of a new snapshot.

    A nested stack has none: its root's snapshot holds it.
    """
    snapshot = store.snapshots.get(stack.id, snapshot_id)
    if snapshot is not None:
        record = stack_record(store, stack, rows)
        store.snapshots.save(replace(snapshot, status=stack.status, status_reason=stack.status_reason, data=record))


def delete_snapshot(
    snapshots: Snapshots, snapshot_id: str, resources: ResourceFactory, pool: Pool, stopping: Stopping
) -> tuple[Result, Callable[[], None], str]:
    """Delete the parts of a snapshot, unless the operation stops.

    Returns the result, what writes it, and the reason of a failure.
    """
    snapshot, stop = snapshots.get(resources.stack.id, snapshot_id), stopping.stop
    if stop is not None:
        failures = [aborted_text(Verb.DELETE, stop)]
    else:
        failures = [] if snapshot is None else drop_parts([snapshot], resources, pool)
    if snapshot is None or not failures:
        return Result.OK, partial(snapshots.delete_many, [snapshot_id]), ""
    record = replace(snapshot, status=Status.FAILED, status_reason="; ".join(failures))
    result = outcome(stopping, False) if stop is not None else Result.ERROR
    return result, partial(snapshots.save, record), record.status_reason
