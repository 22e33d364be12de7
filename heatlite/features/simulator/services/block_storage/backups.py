"""Snapshots and backups of volumes in simulated block storage."""

from typing import cast

from heatlite.clients.cloud import CloudError
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.services.block_storage.common import BACKUP, SNAPSHOT, VOLUME, busy, in_state
from heatlite.features.simulator.services.block_storage.quotas import room
from heatlite.features.simulator.services.block_storage.volumes import VOLUMES
from heatlite.features.simulator.simulation import SimulatedProject, Verb


def _snapshot_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "block_storage.create_snapshot"
    volume = view.thing(VOLUME, thing["volume_id"], verb)
    in_state(verb, volume, "volume", ("available", "in-use"))
    thing["size"] = volume["size"]
    thing.pop("force", None)
    room(view, verb, "snapshots", "gigabytes", cast(int, thing["size"]))


def _backup_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "block_storage.create_backup"
    volume = view.thing(VOLUME, thing["volume_id"], verb)
    forced = bool(thing.pop("force", False))
    thing.pop("incremental", None)
    in_state(verb, volume, "volume", ("available", "in-use") if forced else ("available",))
    thing["size"] = volume["size"]
    room(view, verb, "backups", "backup_gigabytes", cast(int, thing["size"]))
    busy(view, volume, "backing-up")


def _restore_backup(view: SimulatedProject, key: Json, volume: Json = None, name: Json = None) -> Json:
    verb = "block_storage.restore_backup"
    backup = view.thing(BACKUP, key, verb)
    in_state(verb, backup, "backup", ("available",))
    if volume is None:
        name = name or f"restore_backup_{backup['id']}"
        thing = cast(JsonMap, VOLUMES.create(view, name=name, backup_id=backup["id"]))
    else:
        thing = view.thing(VOLUME, volume, verb)
        in_state(verb, thing, "volume", ("available",))
        if cast(int, thing["size"]) < cast(int, backup["size"]):
            text = f"volume size {thing['size']} is too small to restore backup of size {backup['size']}."
            raise CloudError(verb, f"Invalid volume: {text}", 400)
        busy(view, thing, "restoring-backup")
    return {"backup_id": backup["id"], "volume_id": thing["id"]}


def _snapshot_removed(_view: SimulatedProject, thing: JsonMap) -> None:
    in_state("block_storage.delete_snapshot", thing, "snapshot", ("available", "error"))


def _backup_removed(_view: SimulatedProject, thing: JsonMap) -> None:
    in_state("block_storage.delete_backup", thing, "backup", ("available", "error"))


COLLECTIONS: list[Collection] = [
    Collection(
        SNAPSHOT,
        {"name": None, "description": None, "metadata": {}},
        required=("volume_id",),
        status=("creating", "available"),
        deleting="deleting",
        made=_snapshot_made,
        removed=_snapshot_removed,
    ),
    Collection(
        BACKUP,
        {"name": None, "description": None, "fail_reason": None, "container": "volumebackups", "snapshot_id": None},
        required=("volume_id",),
        status=("creating", "available"),
        deleting="deleting",
        made=_backup_made,
        removed=_backup_removed,
    ),
]

VERBS: dict[str, Verb] = {
    "block_storage.restore_backup": _restore_backup,
}
