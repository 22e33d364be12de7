"""Simulated block storage service (Cinder)."""

import string
from collections.abc import Iterable
from typing import Final, cast

from heatlite.clients.cloud import CloudError, CloudNotFound, OverQuota
from heatlite.core.clock import to_text
from heatlite.core.json import Json, JsonMap
from heatlite.simulated.collection import Collection
from heatlite.simulated.simulation import Verb, View

VOLUME: Final = "block_storage.volume"
SNAPSHOT: Final = "block_storage.snapshot"
BACKUP: Final = "block_storage.backup"
TYPE: Final = "block_storage.type"
QOS: Final = "block_storage.qos_spec"
QUOTA: Final = "block_storage.quota_set"

DEFAULT_TYPE: Final = "__DEFAULT__"
PUBLIC: Final = "os-volume-type-access:is_public"

LIMITS: Final = ("volumes", "snapshots", "backups", "gigabytes", "backup_gigabytes", "per_volume_gigabytes", "groups")
"""Quotas of a project; unlimited (-1) by default."""

DELETABLE: Final = ("available", "error", "error_restoring", "error_extending", "error_managing")


# -- volumes -----------------------------------------------------------------------------------------


def _volume_made(view: View, thing: JsonMap) -> None:
    verb = "block_storage.create_volume"
    least = _from_a_source(view, thing, verb)
    size = thing.get("size") or least
    if not isinstance(size, int) or size <= 0:
        raise CloudError(verb, f"Invalid input received: Volume size '{size}' must be an integer greater than 0", 400)
    if size < least:
        raise CloudError(verb, f"Invalid input received: Volume size '{size}'GB cannot be smaller than {least}GB.", 400)
    kind = _type_named(view, thing.get("volume_type") or DEFAULT_TYPE, verb)
    _room(view, verb, "volumes", "gigabytes", size)
    thing.update(size=size, volume_type=kind["name"], encrypted=bool(kind.get("_encryption")))
    thing.update(multiattach=_spec(kind, "multiattach") == "<is> True")
    thing["metadata"] = _texts(verb, thing["metadata"])


def _from_a_source(view: View, thing: JsonMap, verb: str) -> int:
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
        _in_state(verb, source, "snapshot", ("available",))
        least = cast(int, source["size"])
        thing["bootable"] = view.thing(VOLUME, source["volume_id"], verb)["bootable"]
    if volume is not None:
        source = view.thing(VOLUME, volume, verb)
        _in_state(verb, source, "volume", ("available", "in-use"))
        least, thing["bootable"] = cast(int, source["size"]), source["bootable"]
    if backup is not None:
        source = view.thing(BACKUP, backup, verb)
        _in_state(verb, source, "backup", ("available",))
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


def _volume_changed(_view: View, _thing: JsonMap, attributes: JsonMap) -> None:
    if "metadata" in attributes:
        attributes["metadata"] = _texts("block_storage.update_volume", attributes["metadata"])


def _volume_removed(view: View, thing: JsonMap) -> None:
    if thing["status"] not in DELETABLE or thing["attachments"] or has_snapshots(view, thing):
        raise CloudError(
            "block_storage.delete_volume",
            "Invalid volume: Volume status must be available or error or error_restoring or error_extending or "
            "error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a "
            "transfer, or be disassociated from snapshots after volume transfer.",
            400,
        )


def has_snapshots(view: View, volume: JsonMap) -> bool:
    """True if a volume has snapshots, which prevent its deletion."""
    return any(one["volume_id"] == volume["id"] for one in view.simulation.all(SNAPSHOT).values())


def _extend_volume(view: View, key: Json, size: Json) -> Json:
    verb = "block_storage.extend_volume"
    thing = view.thing(VOLUME, key, verb)
    _in_state(verb, thing, "volume", ("available", "in-use"))
    new, old = cast(int, size), cast(int, thing["size"])
    if new <= old:
        text = f"New size for extend must be greater than current size. (current: {old}, extended: {new})."
        raise CloudError(verb, f"Invalid input received: {text}", 400)
    _room(view, verb, None, "gigabytes", new - old)
    return _busy(view, thing, "extending", size=size)


def _retype_volume(view: View, key: Json, new_type: Json) -> Json:
    verb = "block_storage.retype_volume"
    thing = view.thing(VOLUME, key, verb)
    _in_state(verb, thing, "volume", ("available", "in-use"))
    kind = _type_named(view, new_type, verb)
    if kind["name"] == thing["volume_type"]:
        text = f"Invalid input received: New volume_type same as original: {kind['id']}."
        raise CloudError(verb, text, 400)
    return _busy(view, thing, "retyping", volume_type=kind["name"])


def _set_volume_readonly(view: View, key: Json, readonly: Json = True) -> Json:
    verb = "block_storage.set_volume_readonly"
    thing = view.thing(VOLUME, key, verb)
    if thing["status"] != "available":
        text = "status must be available to update readonly flag, but current status is"
        raise CloudError(verb, f"Invalid volume: Volume {thing['id']} {text}: {thing['status']}.", 400)
    cast(JsonMap, thing["metadata"])["readonly"] = str(bool(readonly))
    view.put(VOLUME, thing)
    return None


def _set_volume_bootable(view: View, key: Json, bootable: Json) -> Json:
    thing = view.thing(VOLUME, key, "block_storage.set_volume_bootable_status")
    thing["bootable"] = str(bool(bootable)).lower()
    view.put(VOLUME, thing)
    return None


def _set_volume_metadata(view: View, key: Json, **metadata: Json) -> Json:
    verb = "block_storage.set_volume_metadata"
    thing = view.thing(VOLUME, key, verb)
    cast(JsonMap, thing["metadata"]).update(_texts(verb, metadata))
    return view.put(VOLUME, thing)


def _delete_volume_metadata(view: View, key: Json, keys: Json = None) -> Json:
    verb = "block_storage.delete_volume_metadata"
    thing = view.thing(VOLUME, key, verb)
    metadata = cast(JsonMap, thing["metadata"])
    for name in cast(list[str], list(metadata) if keys is None else keys):
        if metadata.pop(name, None) is None:
            raise CloudNotFound(verb, f"Volume {thing['id']} has no metadata with key {name}.")
    view.put(VOLUME, thing)
    return None


def attach(view: View, verb: str, key: Json, server: Json, device: Json = None) -> str:
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


def detach(view: View, verb: str, key: Json, server: Json) -> bool:
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


# -- snapshots and backups ---------------------------------------------------------------------------


def _snapshot_made(view: View, thing: JsonMap) -> None:
    verb = "block_storage.create_snapshot"
    volume = view.thing(VOLUME, thing["volume_id"], verb)
    _in_state(verb, volume, "volume", ("available", "in-use"))
    thing["size"] = volume["size"]
    thing.pop("force", None)
    _room(view, verb, "snapshots", "gigabytes", cast(int, thing["size"]))


def _backup_made(view: View, thing: JsonMap) -> None:
    verb = "block_storage.create_backup"
    volume = view.thing(VOLUME, thing["volume_id"], verb)
    forced = bool(thing.pop("force", False))
    thing.pop("incremental", None)
    _in_state(verb, volume, "volume", ("available", "in-use") if forced else ("available",))
    thing["size"] = volume["size"]
    _room(view, verb, "backups", "backup_gigabytes", cast(int, thing["size"]))
    _busy(view, volume, "backing-up")


def _restore_backup(view: View, key: Json, volume: Json = None, name: Json = None) -> Json:
    verb = "block_storage.restore_backup"
    backup = view.thing(BACKUP, key, verb)
    _in_state(verb, backup, "backup", ("available",))
    if volume is None:
        name = name or f"restore_backup_{backup['id']}"
        thing = cast(JsonMap, VOLUMES.create(view, name=name, backup_id=backup["id"]))
    else:
        thing = view.thing(VOLUME, volume, verb)
        _in_state(verb, thing, "volume", ("available",))
        if cast(int, thing["size"]) < cast(int, backup["size"]):
            text = f"volume size {thing['size']} is too small to restore backup of size {backup['size']}."
            raise CloudError(verb, f"Invalid volume: {text}", 400)
        _busy(view, thing, "restoring-backup")
    return {"backup_id": backup["id"], "volume_id": thing["id"]}


def _snapshot_removed(_view: View, thing: JsonMap) -> None:
    _in_state("block_storage.delete_snapshot", thing, "snapshot", ("available", "error"))


def _backup_removed(_view: View, thing: JsonMap) -> None:
    _in_state("block_storage.delete_backup", thing, "backup", ("available", "error"))


# -- types and their attributes ----------------------------------------------------------------------


def _type_made(_view: View, thing: JsonMap) -> None:
    thing["is_public"] = thing.setdefault(PUBLIC, True)


def _type_changed(view: View, thing: JsonMap, attributes: JsonMap) -> None:
    for volume in view.simulation.all(VOLUME).values() if "name" in attributes else ():
        if volume["volume_type"] == thing["name"]:
            volume["volume_type"] = attributes["name"]
            view.put(VOLUME, volume)
    if "is_public" in attributes:
        attributes[PUBLIC] = attributes["is_public"]


def _type_removed(view: View, thing: JsonMap) -> None:
    if any(volume["volume_type"] == thing["name"] for volume in view.simulation.all(VOLUME).values()):
        text = f"Target volume type is still in use: {thing['id']}"
        raise CloudError("block_storage.delete_type", text, 400)


def _type_named(view: View, name_or_id: Json, verb: str) -> JsonMap:
    found = TYPES.find(view, name_or_id)
    if not isinstance(found, dict):
        raise CloudNotFound(verb, f"Volume type with name {name_or_id} could not be found.")
    return found


def _types(view: View, **query: Json) -> Json:
    """List the public types, unless the query asks for others."""
    return TYPES.list(view, **{PUBLIC: True, **query})


def _spec(kind: JsonMap, name: str) -> Json:
    return cast(JsonMap, kind["extra_specs"]).get(name)


def _update_type_extra_specs(view: View, key: Json, **specs: Json) -> Json:
    thing = view.thing(TYPE, key)
    cast(JsonMap, thing["extra_specs"]).update(_texts("block_storage.update_type_extra_specs", specs))
    return view.put(TYPE, thing)


def _delete_type_extra_specs(view: View, key: Json, keys: Json) -> Json:
    thing = view.thing(TYPE, key)
    for name in cast(list[str], keys):
        cast(JsonMap, thing["extra_specs"]).pop(name, None)
    view.put(TYPE, thing)
    return None


def _get_type_access(view: View, key: Json) -> Json:
    thing = view.thing(TYPE, key)
    return [{"volume_type_id": thing["id"], "project_id": one} for one in cast(list[Json], thing.get("_access", []))]


def _add_type_access(view: View, key: Json, project: Json) -> Json:
    thing = view.thing(TYPE, key, "block_storage.add_type_access")
    if thing[PUBLIC]:
        text = "Type access modification is not applicable to public volume type."
        raise CloudError("block_storage.add_type_access", f"Invalid volume type: {text}", 400)
    access = cast(list[Json], thing.setdefault("_access", []))
    if project in access:
        text = f"Volume type access for {thing['id']} / {project} combination already exists."
        raise CloudError("block_storage.add_type_access", text, 409)
    access.append(project)
    view.put(TYPE, thing)
    return None


def _remove_type_access(view: View, key: Json, project: Json) -> Json:
    thing = view.thing(TYPE, key, "block_storage.remove_type_access")
    access = cast(list[Json], thing.get("_access", []))
    if project not in access:
        text = f"Volume type access not found for {thing['id']} / {project} combination."
        raise CloudNotFound("block_storage.remove_type_access", text)
    access.remove(project)
    view.put(TYPE, thing)
    return None


def _create_type_encryption(view: View, volume_type: Json, **attributes: Json) -> Json:
    verb = "block_storage.create_type_encryption"
    thing = view.thing(TYPE, volume_type, verb)
    if "_encryption" in thing:
        raise CloudError(verb, f"Volume type encryption for type {thing['id']} already exists.", 400)
    made: JsonMap = {
        "encryption_id": view.simulation.new_id("block_storage.type_encryption"),
        "volume_type_id": thing["id"],
        "cipher": None,
        "key_size": None,
        "control_location": "front-end",
        **attributes,
    }
    thing["_encryption"] = made
    view.put(TYPE, thing)
    return made


def _get_type_encryption(view: View, volume_type: Json) -> Json:
    return cast(JsonMap, view.thing(TYPE, volume_type).get("_encryption", {}))


def _update_type_encryption(view: View, *, volume_type: Json, **attributes: Json) -> Json:
    thing, found = _encryption(view, "block_storage.update_type_encryption", volume_type)
    found.update(attributes)
    view.put(TYPE, thing)
    return found


def _delete_type_encryption(view: View, *, volume_type: Json) -> Json:
    thing, _ = _encryption(view, "block_storage.delete_type_encryption", volume_type)
    del thing["_encryption"]
    view.put(TYPE, thing)
    return None


def _encryption(view: View, verb: str, volume_type: Json) -> tuple[JsonMap, JsonMap]:
    thing = view.thing(TYPE, volume_type, verb)
    if "_encryption" not in thing:
        raise CloudNotFound(verb, f"Volume type encryption for type {thing['id']} does not exist.")
    return thing, cast(JsonMap, thing["_encryption"])


def _qos_made(_view: View, thing: JsonMap) -> None:
    known = {"id", "name", "consumer", "created_at", "specs"}
    thing["specs"] = _texts("block_storage.create_qos_spec", {key: thing[key] for key in thing.keys() - known})
    for key in thing.keys() - known:
        del thing[key]


def _update_qos_spec(view: View, key: Json, **specs: Json) -> Json:
    thing = view.thing(QOS, key, "block_storage.update_qos_spec")
    consumer = specs.pop("consumer", None)
    if consumer is not None:
        thing["consumer"] = consumer
    cast(JsonMap, thing["specs"]).update(_texts("block_storage.update_qos_spec", specs))
    return view.put(QOS, thing)


def _delete_qos_spec_metadata(view: View, key: Json, keys: Json) -> Json:
    verb = "block_storage.delete_qos_spec_metadata"
    thing = view.thing(QOS, key, verb)
    for name in cast(list[str], keys):
        if cast(JsonMap, thing["specs"]).pop(name, None) is None:
            raise CloudError(verb, f"QoS spec {thing['id']} has no spec with key {name}.", 404)
    view.put(QOS, thing)
    return None


def _qos_removed(view: View, thing: JsonMap) -> None:
    if any(kind.get("_qos_specs_id") == thing["id"] for kind in view.simulation.all(TYPE).values()):
        raise CloudError("block_storage.delete_qos_spec", "Qos specs still in use.", 400)


def _associate_qos_spec(view: View, key: Json, vol_type_id: Json) -> Json:
    verb = "block_storage.associate_qos_spec"
    thing, kind = view.thing(QOS, key, verb), view.thing(TYPE, vol_type_id, verb)
    if kind.get("_qos_specs_id") not in (None, thing["id"]):
        text = f"Type {kind['id']} is already associated with another qos specs: {kind['qos_specs_id']}"
        raise CloudError(verb, f"Invalid volume type: {text}", 400)
    kind["_qos_specs_id"] = thing["id"]
    view.put(TYPE, kind)
    return None


def _disassociate_qos_spec(view: View, key: Json, vol_type_id: Json) -> Json:
    verb = "block_storage.disassociate_qos_spec"
    thing, kind = view.thing(QOS, key, verb), view.thing(TYPE, vol_type_id, verb)
    if kind.get("_qos_specs_id") == thing["id"]:
        kind["_qos_specs_id"] = None
        view.put(TYPE, kind)
    return None


def _disassociate_all_qos_spec(view: View, key: Json) -> Json:
    thing = view.thing(QOS, key, "block_storage.disassociate_all_qos_spec")
    for kind in _associated(view, thing):
        kind["_qos_specs_id"] = None
        view.put(TYPE, kind)
    return None


def _qos_spec_associations(view: View, key: Json) -> Json:
    thing = view.thing(QOS, key, "block_storage.qos_spec_associations")
    return [
        {"id": kind["id"], "name": kind["name"], "association_type": "volume_type"} for kind in _associated(view, thing)
    ]


def _associated(view: View, qos: JsonMap) -> list[JsonMap]:
    return [kind for kind in view.simulation.all(TYPE).values() if kind.get("_qos_specs_id") == qos["id"]]


# -- quotas ------------------------------------------------------------------------------------------


def _get_quota_set(view: View, project: Json, usage: bool = False) -> Json:
    limits = _limits(view, project)
    return {**limits, "usage": _usage(view, project)} if usage else limits


def _update_quota_set(view: View, project: Json, **limits: Json) -> Json:
    kept = view.simulation.all(QUOTA).get(str(project), {"id": project, "name": project})
    view.simulation.put(QUOTA, str(project), {**kept, **limits})
    return _limits(view, project)


def _revert_quota_set(view: View, project: Json) -> Json:
    view.simulation.drop(QUOTA, str(project))
    return None


def _limits(view: View, project: Json) -> JsonMap:
    quotas = view.simulation.scenario.quotas
    offered: JsonMap = {name: quotas.get(f"block_storage.{name}", -1) for name in LIMITS}
    own = view.simulation.all(QUOTA).get(str(project), {})
    return {name: own.get(name, offered[name]) for name in LIMITS}


def _usage(view: View, project: Json) -> JsonMap:
    def own(kind: str) -> list[JsonMap]:
        return [one for one in view.simulation.all(kind).values() if one.get("project_id") == project]

    def gigabytes(things: Iterable[JsonMap]) -> int:
        return sum(cast(int, one["size"]) for one in things)

    volumes, snapshots, backups = own(VOLUME), own(SNAPSHOT), own(BACKUP)
    return {
        "volumes": len(volumes),
        "snapshots": len(snapshots),
        "backups": len(backups),
        "gigabytes": gigabytes([*volumes, *snapshots]),
        "backup_gigabytes": gigabytes(backups),
    }


def _room(view: View, verb: str, number: str | None, gigabytes: str, size: int) -> None:
    """Reject a request that exceeds the project's quota. Raises OverQuota."""
    limits, usage = _limits(view, view.project), _usage(view, view.project)
    if number is not None:
        limit = cast(int, limits[number])
        if 0 <= limit <= cast(int, usage[number]):
            noun = number[:-1].capitalize()
            text = f"{noun}LimitExceeded: Maximum number of {number} allowed ({limit}) exceeded for quota '{number}'."
            raise OverQuota(verb, text, 413)
    limit, used = cast(int, limits[gigabytes]), cast(int, usage[gigabytes])
    if 0 <= limit < used + size:
        text = f"Requested volume or snapshot exceeds allowed {gigabytes} quota. Requested {size}G, quota is {limit}G"
        raise OverQuota(verb, f"{text} and {used}G has been consumed.", 413)


# -- shared helpers ----------------------------------------------------------------------------------


def _in_state(verb: str, thing: JsonMap, noun: str, allowed: tuple[str, ...]) -> None:
    if thing["status"] not in allowed:
        text = f"{noun.capitalize()} {thing['id']} status must be {' or '.join(allowed)}, but current status is"
        raise CloudError(verb, f"Invalid {noun}: {text}: {thing['status']}.", 400)


def _busy(view: View, thing: JsonMap, status: str, **then: Json) -> Json:
    """Keep a volume busy for a while, then restore its status and apply `then`."""
    view.simulation.later(thing, {"status": "in-use" if thing["attachments"] else "available", **then})
    thing["status"] = status
    view.put(VOLUME, thing)
    return None


def _texts(verb: str, values: Json) -> JsonMap:
    found = dict(cast(JsonMap, values or {}))
    for key, value in found.items():
        if not isinstance(value, str):
            raise CloudError(verb, f"Invalid input for field/attribute {key}. Value: {value}. It is not text.", 400)
    return found


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
TYPES: Final = Collection(
    TYPE,
    {"description": None, "extra_specs": {}, "_qos_specs_id": None},
    required=("name",),
    owned=False,
    unique=True,
    made=_type_made,
    changed=_type_changed,
    removed=_type_removed,
)
COLLECTIONS: list[Collection] = [
    VOLUMES,
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
    TYPES,
    Collection(QOS, {"consumer": "back-end"}, required=("name",), owned=False, unique=True, made=_qos_made,
               removed=_qos_removed),
]  # fmt: skip

VERBS: dict[str, Verb] = {
    "block_storage.types": _types,
    "block_storage.extend_volume": _extend_volume,
    "block_storage.retype_volume": _retype_volume,
    "block_storage.set_volume_readonly": _set_volume_readonly,
    "block_storage.set_volume_bootable_status": _set_volume_bootable,
    "block_storage.set_volume_metadata": _set_volume_metadata,
    "block_storage.delete_volume_metadata": _delete_volume_metadata,
    "block_storage.restore_backup": _restore_backup,
    "block_storage.update_type_extra_specs": _update_type_extra_specs,
    "block_storage.delete_type_extra_specs": _delete_type_extra_specs,
    "block_storage.get_type_access": _get_type_access,
    "block_storage.add_type_access": _add_type_access,
    "block_storage.remove_type_access": _remove_type_access,
    "block_storage.create_type_encryption": _create_type_encryption,
    "block_storage.get_type_encryption": _get_type_encryption,
    "block_storage.update_type_encryption": _update_type_encryption,
    "block_storage.delete_type_encryption": _delete_type_encryption,
    "block_storage.update_qos_spec": _update_qos_spec,
    "block_storage.delete_qos_spec_metadata": _delete_qos_spec_metadata,
    "block_storage.associate_qos_spec": _associate_qos_spec,
    "block_storage.disassociate_qos_spec": _disassociate_qos_spec,
    "block_storage.disassociate_all_qos_spec": _disassociate_all_qos_spec,
    "block_storage.qos_spec_associations": _qos_spec_associations,
    "block_storage.get_quota_set": _get_quota_set,
    "block_storage.update_quota_set": _update_quota_set,
    "block_storage.revert_quota_set": _revert_quota_set,
}


def furnish(view: View) -> None:
    """Create the default volume type."""
    view.call("block_storage.create_type", name=DEFAULT_TYPE, description="Default Volume Type")
