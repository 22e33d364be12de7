"""Volumes and their attachments in simulated block storage."""

import string
from typing import Final, cast

from heatlite.clients.cloud import CloudError, CloudNotFound
from heatlite.core.clock import to_text
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.services.block_storage.common import BACKUP, SNAPSHOT, VOLUME, busy, in_state, texts
from heatlite.features.simulator.services.block_storage.quotas import room_for_volume
from heatlite.features.simulator.services.block_storage.types import DEFAULT_TYPE, spec, type_named
from heatlite.features.simulator.simulation import SimulatedProject, Verb

DELETABLE: Final = ("available", "error", "error_restoring", "error_extending", "error_managing")


def _volume_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "block_storage.create_volume"
    least = _from_a_source(view, thing, verb)
    size = thing.get("size") or least
    if not isinstance(size, int) or size <= 0:
        raise CloudError(verb, f"Invalid input received: Volume size '{size}' must be an integer greater than 0", 400)
    if size < least:
        raise CloudError(verb, f"Invalid input received: Volume size '{size}'GB cannot be smaller than {least}GB.", 400)
    kind = type_named(view, thing.get("volume_type") or DEFAULT_TYPE, verb)
    room_for_volume(view, verb, kind["name"], size, size, is_new=True)
    thing.update(size=size, volume_type=kind["name"], encrypted=bool(kind.get("_encryption")))
    thing.update(multiattach=spec(kind, "multiattach") == "<is> True")
    thing["metadata"] = texts(verb, thing["metadata"])


def _from_a_source(view: SimulatedProject, thing: JsonMap, verb: str) -> int:
    """Copy attributes from the source of a new volume.

    Returns the minimum size in GiB.
    """
    least = 0
    snapshot, volume, backup = thing.get("snapshot_id"), thing.get("source_volid"), thing.pop("backup_id", None)
    if [snapshot, volume, backup, thing.get("imageRef")].count(None) < 3:
        text = "May specify only one of backup, imageRef, snapshot, source volume"
        raise CloudError(verb, f"Invalid input received: {text}", 400)
    if snapshot is not None:
        source = view.thing(SNAPSHOT, snapshot, verb)
        in_state(verb, source, "snapshot", ("available",))
        least = cast(int, source["size"])
        thing["bootable"] = view.thing(VOLUME, source["volume_id"], verb)["bootable"]
    if volume is not None:
        source = view.thing(VOLUME, volume, verb)
        in_state(verb, source, "volume", ("available", "in-use"))
        least, thing["bootable"] = cast(int, source["size"]), source["bootable"]
    if backup is not None:
        source = view.thing(BACKUP, backup, verb)
        in_state(verb, source, "backup", ("available",))
        least = cast(int, source["size"])
        thing["metadata"] = {**cast(JsonMap, thing["metadata"]), "src_backup_id": source["id"]}
    image = thing.pop("imageRef", None)
    if image is not None:
        found = view.thing("image.image", image, verb)
        least = cast(int, found.get("min_disk") or 0)
        if thing.get("size") is None:
            raise CloudError(verb, "Invalid input received: Volume size 'None' must be an integer", 400)
        thing["bootable"] = "true"
        thing["volume_image_metadata"] = {"image_id": found["id"], "image_name": found.get("name")}
    return least


def _volume_changed(_view: SimulatedProject, _thing: JsonMap, attributes: JsonMap) -> None:
    if "metadata" in attributes:
        attributes["metadata"] = texts("block_storage.update_volume", attributes["metadata"])


def _volume_removed(view: SimulatedProject, thing: JsonMap) -> None:
    if thing["status"] not in DELETABLE or thing["attachments"] or has_snapshots(view, thing):
        raise CloudError(
            "block_storage.delete_volume",
            "Invalid volume: Volume status must be available or error or error_restoring or error_extending or "
            "error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a "
            "transfer, or be disassociated from snapshots after volume transfer.",
            400,
        )


def has_snapshots(view: SimulatedProject, volume: JsonMap) -> bool:
    """True if a volume has snapshots, which prevent its deletion."""
    return any(one["volume_id"] == volume["id"] for one in view.simulation.all(SNAPSHOT).values())


def _extend_volume(view: SimulatedProject, key: Json, size: Json) -> Json:
    verb = "block_storage.extend_volume"
    thing = view.thing(VOLUME, key, verb)
    in_state(verb, thing, "volume", ("available", "in-use"))
    new, old = cast(int, size), cast(int, thing["size"])
    if new <= old:
        text = f"New size for extend must be greater than current size. (current: {old}, extended: {new})."
        raise CloudError(verb, f"Invalid input received: {text}", 400)
    room_for_volume(view, verb, thing["volume_type"], new, new - old, is_new=False)
    return busy(view, thing, "extending", size=size)


def _retype_volume(view: SimulatedProject, key: Json, new_type: Json) -> Json:
    verb = "block_storage.retype_volume"
    thing = view.thing(VOLUME, key, verb)
    in_state(verb, thing, "volume", ("available", "in-use"))
    kind = type_named(view, new_type, verb)
    if kind["name"] == thing["volume_type"]:
        text = f"Invalid input received: New volume_type same as original: {kind['id']}."
        raise CloudError(verb, text, 400)
    return busy(view, thing, "retyping", volume_type=kind["name"])


def _set_volume_readonly(view: SimulatedProject, key: Json, readonly: Json = True) -> Json:
    verb = "block_storage.set_volume_readonly"
    thing = view.thing(VOLUME, key, verb)
    if thing["status"] != "available":
        text = "status must be available to update readonly flag, but current status is"
        raise CloudError(verb, f"Invalid volume: Volume {thing['id']} {text}: {thing['status']}.", 400)
    cast(JsonMap, thing["metadata"])["readonly"] = str(bool(readonly))
    view.put(VOLUME, thing)
    return None


def _set_volume_bootable(view: SimulatedProject, key: Json, bootable: Json) -> Json:
    thing = view.thing(VOLUME, key, "block_storage.set_volume_bootable_status")
    thing["bootable"] = str(bool(bootable)).lower()
    view.put(VOLUME, thing)
    return None


def _set_volume_metadata(view: SimulatedProject, key: Json, **metadata: Json) -> Json:
    verb = "block_storage.set_volume_metadata"
    thing = view.thing(VOLUME, key, verb)
    cast(JsonMap, thing["metadata"]).update(texts(verb, metadata))
    return view.put(VOLUME, thing)


def _delete_volume_metadata(view: SimulatedProject, key: Json, keys: Json = None) -> Json:
    verb = "block_storage.delete_volume_metadata"
    thing = view.thing(VOLUME, key, verb)
    metadata = cast(JsonMap, thing["metadata"])
    for name in cast(list[str], list(metadata) if keys is None else keys):
        if metadata.pop(name, None) is None:
            raise CloudNotFound(verb, f"Volume {thing['id']} has no metadata with key {name}.")
    view.put(VOLUME, thing)
    return None


def attach(view: SimulatedProject, verb: str, key: Json, server: Json, device: Json = None) -> str:
    """Attach a volume to a server, on behalf of the compute service.

    Returns the device.

    Raises CloudNotFound; CloudError if the volume is attached already or not available.
    """
    thing = view.thing(VOLUME, key, verb)
    attachments = cast(list[JsonMap], thing["attachments"])
    allowed = ("available", "in-use") if thing["multiattach"] else ("available",)
    if thing["status"] not in allowed or any(one["server_id"] == server for one in attachments):
        text = f"volume {thing['id']} is already attached or not available: its status is {thing['status']}"
        raise CloudError(verb, f"Invalid volume: {text}.", 400)
    taken = {
        one["device"]
        for volume in view.simulation.all(VOLUME).values()
        for one in cast(list[JsonMap], volume["attachments"])
        if one["server_id"] == server
    }
    free = (found for letter in string.ascii_lowercase[1:] if (found := f"/dev/vd{letter}") not in taken)
    found = str(device or next(free, "/dev/vdaa"))
    made: JsonMap = {
        "id": thing["id"],
        "attachment_id": view.simulation.new_id("block_storage.attachment"),
        "volume_id": thing["id"],
        "server_id": server,
        "device": found,
        "attached_at": to_text(view.simulation.clock.now()),
        "host_name": "simulated",
    }
    thing["status"] = "attaching"
    view.simulation.later(thing, {"status": "in-use", "attachments": [*attachments, made]})
    view.put(VOLUME, thing)
    return found


def detach(view: SimulatedProject, verb: str, key: Json, server: Json) -> bool:
    """Detach a volume from a server.

    Returns False if a scripted fault will prevent it.

    Raises CloudNotFound; CloudError if the volume is busy.
    """
    thing = view.thing(VOLUME, key, verb)
    attachments = cast(list[JsonMap], thing["attachments"])
    left = [one for one in attachments if one["server_id"] != server]
    if len(left) == len(attachments):
        raise CloudNotFound(verb, f"volume_id not found: {thing['id']}")
    if thing["status"] != "in-use":
        text = f"Invalid volume: Volume must be attached in order to detach: its status is {thing['status']}."
        raise CloudError(verb, text, 400)
    thing["status"] = "detaching"
    view.simulation.later(thing, {"status": "in-use" if left else "available", "attachments": cast(Json, left)})
    becomes = cast(JsonMap, cast(JsonMap, thing["_then"])["becomes"])
    lets_go = "fault" not in becomes
    if not lets_go:  # a scripted fault
        becomes["attachments"] = cast(Json, attachments)
    view.put(VOLUME, thing)
    return lets_go


VOLUMES: Final = Collection(
    VOLUME,
    {
        "name": None, "description": None, "metadata": {}, "availability_zone": "nova", "bootable": "false",
        "encrypted": False, "multiattach": False, "attachments": [], "snapshot_id": None, "source_volid": None,
        "replication_status": None, "consistencygroup_id": None, "user_id": None,
    },
    status=("creating", "available"),
    deleting="deleting",
    made=_volume_made,
    changed=_volume_changed,
    removed=_volume_removed,
)  # fmt: skip

VERBS: dict[str, Verb] = {
    "block_storage.extend_volume": _extend_volume,
    "block_storage.retype_volume": _retype_volume,
    "block_storage.set_volume_readonly": _set_volume_readonly,
    "block_storage.set_volume_bootable_status": _set_volume_bootable,
    "block_storage.set_volume_metadata": _set_volume_metadata,
    "block_storage.delete_volume_metadata": _delete_volume_metadata,
}
