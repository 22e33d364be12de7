"""Resources for which a snapshot keeps data outside of the store."""

from collections.abc import Iterator

from heatlite.core.json import Json, JsonMap, as_map
from heatlite.core.status import Status, Verb
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord, SnapshotRecord, StackRecord

SAVED_AS = "saved_as"
"""Key in the `data` of a row: the name under which its type has saved the object last."""


def saved_name(physical_name: str, snapshot_id: str) -> str:
    """Return the name under which a type saves an object for a snapshot."""
    return f"{physical_name}-{snapshot_id[-12:]}"


def parts(snapshot: SnapshotRecord, resources: ResourceFactory) -> Iterator[Resource[Schema]]:
    """Yield the snapshot's resources whose types keep data for it, at any depth."""
    for made in _parts((snapshot.data or {}).get("resources"), resources):
        # A snapshot that failed may have the data of an earlier one, where it did not come to save the object.
        is_whole = (snapshot.data or {}).get("status") == Status.COMPLETE
        if is_whole or made.data.get(SAVED_AS) == saved_name(made.physical_name, snapshot.id):
            yield made


def _parts(entries: Json, resources: ResourceFactory) -> Iterator[Resource[Schema]]:
    for entry in entries.values() if isinstance(entries, dict) else ():
        if isinstance(entry, dict):
            yield from _parts(entry.get("resources"), resources)
            row = row_of_entry(entry, resources.stack)
            if row.verb is Verb.SNAPSHOT and resources.type_of(row).has("delete_snapshot"):
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
