"""Resources for which a snapshot keeps data outside of the store."""

from collections.abc import Iterator

from heatlite.core.json import Json, JsonMap, as_map
from heatlite.core.status import Status, Verb
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord, SnapshotRecord, StackRecord


def parts(snapshot: SnapshotRecord, resources: ResourceFactory) -> Iterator[Resource[Schema]]:
    """Yield the snapshot's resources whose types keep data for it, at any depth."""
    yield from _parts((snapshot.data or {}).get("resources"), resources)


def _parts(entries: Json, resources: ResourceFactory) -> Iterator[Resource[Schema]]:
    for entry in entries.values() if isinstance(entries, dict) else ():
        if isinstance(entry, dict):
            yield from _parts(entry.get("resources"), resources)
            row = row_of_entry(entry, resources.stack)
            if resources.type_of(row).has("delete_snapshot"):
                yield resources.make(row)


def row_of_entry(entry: JsonMap, stack: StackRecord) -> ResourceRecord:
    """Return a row like that of the resource when the snapshot was taken."""
    physical_id, data = entry["resource_id"], entry["resource_data"]
    return ResourceRecord(
        id="",
        stack_id=stack.id,
        name=str(entry["name"]),
        type=str(entry["type"]),
        mapped_type=str(entry["mapped_type"]),
        verb=Verb(str(entry["action"])),
        status=Status(str(entry["status"])),
        status_reason="",
        created_at=stack.created_at,
        physical_name=str(entry["physical_name"]),
        physical_id=physical_id if isinstance(physical_id, str) else None,
        data=as_map(data),
    )
