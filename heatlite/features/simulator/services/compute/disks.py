"""Volumes of servers."""

from typing import Final, cast

from heatlite.clients.cloud import CloudError, CloudNotFound, OverQuota
from heatlite.core.json import Json, JsonMap, dump, parse
from heatlite.features.simulator.services.block_storage import volumes
from heatlite.features.simulator.services.block_storage.common import VOLUME
from heatlite.features.simulator.services.compute.states import SERVER, free, server_of
from heatlite.features.simulator.simulation import SimulatedProject, Verb

ATTACHED: Final = "os-extended-volumes:volumes_attached"
ROOT: Final = "/dev/vda"
"""Device name of the boot volume."""


def furnish_server(view: SimulatedProject, verb: str, server: JsonMap, wanted: list[JsonMap]) -> None:
    """Attach a new server's volumes, creating those from an image or a snapshot.

    Raises CloudError.
    """
    _refuse_too_large(verb, cast(JsonMap, server["flavor"]), wanted)
    for one in wanted:
        source, kind = one.get("uuid"), one.get("source_type")
        if one.get("destination_type") == "local":
            continue
        if kind == "volume":
            try:
                volume = view.thing(VOLUME, source, verb)
            except CloudNotFound as error:
                text = f"Block Device Mapping is Invalid: failed to get volume {source}."
                raise CloudError(verb, text, 400) from error
            if one.get("boot_index") in (0, "0") and volume["bootable"] != "true":
                raise CloudError(verb, f"Block Device {source} is not bootable.", 400)
        else:
            given: JsonMap = {"image": {"imageRef": source}, "snapshot": {"snapshot_id": source}}.get(str(kind), {})
            if one.get("volume_type") is not None:
                given["volume_type"] = one["volume_type"]
            given |= {"name": "", "size": one.get("volume_size")}
            volume = cast(JsonMap, view.simulation.verbs["block_storage.create_volume"](view, **given))
            volume.pop("_then", None)  # the volume is ready at once: the server's build time includes it
            volume["status"] = "available"
        device, is_root = one.get("device_name"), one.get("boot_index") in (0, "0")
        if device is not None:
            device = f"/dev/{str(device).removeprefix('/dev/')}"
        elif is_root:
            device = ROOT
        goes_with_it = bool(one.get("delete_on_termination"))
        _give(view, verb, server, volume["id"], device, goes_with_it)["_root"] = is_root


def _refuse_too_large(verb: str, flavor: JsonMap, wanted: list[JsonMap]) -> None:
    """Reject local disks that are larger than the flavor allows."""
    local = [one for one in wanted if one.get("source_type") == "blank" and one.get("destination_type") == "local"]
    swap = sum(cast(int, one.get("volume_size") or 0) for one in local if one.get("guest_format") == "swap")
    rest = sum(cast(int, one.get("volume_size") or 0) for one in local if one.get("guest_format") != "swap")
    if rest > cast(int, flavor["ephemeral"]):
        text = "Ephemeral disks requested are larger than the instance type allows. If no size is given in one block "
        raise CloudError(verb, f"{text}device mapping, flavor ephemeral size will be used.", 400)
    if swap > cast(int, flavor["swap"]):
        raise CloudError(verb, "Swap drive requested is larger than instance type allows.", 400)


def _give(
    view: SimulatedProject, verb: str, server: JsonMap, volume: Json, device: Json, goes_with_it: bool
) -> JsonMap:
    found = volumes.attach(view, verb, volume, server["id"], device)
    attached: JsonMap = {"id": volume, "delete_on_termination": goes_with_it, "_device": found}
    cast(list[Json], server[ATTACHED]).append(attached)
    return attached


def release(view: SimulatedProject, server: JsonMap) -> None:
    """Detach the volumes of a deleted server, and delete those marked for it.

    A marked volume remains if it has other attachments or snapshots.
    """
    for one in cast(list[JsonMap], server[ATTACHED]):
        try:
            volume = view.thing(VOLUME, one["id"])
        except CloudNotFound:
            continue
        volume.pop("_then", None)
        left = [to for to in cast(list[JsonMap], volume["attachments"]) if to["server_id"] != server["id"]]
        volume.update(status="in-use" if left else "available", attachments=cast(Json, left))
        if one["delete_on_termination"] and not left and not volumes.has_snapshots(view, volume):
            view.drop(VOLUME, volume)
        else:
            view.put(VOLUME, volume)


def boots_from_volume(server: JsonMap) -> bool:
    return any(one.get("_root") for one in cast(list[JsonMap], server[ATTACHED]))


def given_by(view: SimulatedProject, image: Json, wanted: list[JsonMap]) -> list[JsonMap]:
    """Return the disks of a server, with those of an image made of volume snapshots."""
    mapping = cast(JsonMap, view.thing("image.image", image)["properties"]).get("block_device_mapping")
    if mapping is None:
        return wanted
    of_image = [{**one, "uuid": one["snapshot_id"]} for one in parse(str(mapping))]
    return [*of_image, *(one for one in wanted if (one["source_type"], one.get("boot_index")) != ("image", 0))]


def saved(view: SimulatedProject, verb: str, server: JsonMap, name: Json) -> JsonMap:
    """Return the properties of an image of a server that boots from a volume.

    Such an image has no data: its properties name new snapshots of all the server's volumes. Raises CloudError.
    """
    mapping: list[JsonMap] = []
    for one in cast(list[JsonMap], server[ATTACHED]):
        given: JsonMap = {"volume_id": one["id"], "name": f"snapshot for {name}", "force": True}
        try:
            snapshot = cast(JsonMap, view.simulation.verbs["block_storage.create_snapshot"](view, **given))
        except CloudError as error:
            raise type(error)(verb, error.reason, 403 if isinstance(error, OverQuota) else 400) from error
        mapping.append({
            "source_type": "snapshot",
            "destination_type": "volume",
            "snapshot_id": snapshot["id"],
            "boot_index": 0 if one.get("_root") else None,
            "delete_on_termination": one["delete_on_termination"],
            "volume_size": snapshot["size"],
            "device_name": one["_device"],
        })
    named: JsonMap = {"block_device_mapping": dump(cast(Json, mapping)), "bdm_v2": "True"}
    return {"base_image_ref": "", "root_device_name": ROOT, **named}


# -- verbs -------------------------------------------------------------------------------------------


def _shown(server: JsonMap, one: JsonMap) -> JsonMap:
    return {
        "id": one["id"],
        "volumeId": one["id"],
        "serverId": server["id"],
        "device": one["_device"],
        "delete_on_termination": one["delete_on_termination"],
    }


def _attach(view: SimulatedProject, key: Json, volume: Json, **given: Json) -> Json:
    verb = "compute.create_volume_attachment"
    server = free(view, verb, key)
    made = _give(view, verb, server, volume, given.get("device"), bool(given.get("delete_on_termination")))
    view.put(SERVER, server)
    return _shown(server, made)


def _one(verb: str, server: JsonMap, volume: Json) -> JsonMap:
    for one in cast(list[JsonMap], server[ATTACHED]):
        if one["id"] == volume:
            return one
    raise CloudNotFound(verb, f"Instance {server['id']} is not attached to volume {volume}")


def _detach(view: SimulatedProject, key: Json, volume: Json) -> Json:
    verb = "compute.delete_volume_attachment"
    one = _one(verb, server_of(view, verb, key), volume)
    server = free(view, verb, key)
    if one.get("_root"):
        raise CloudError(verb, "Cannot detach a root device volume", 400)
    if volumes.detach(view, verb, volume, server["id"]):
        server[ATTACHED] = [other for other in cast(list[Json], server[ATTACHED]) if other != one]
        view.put(SERVER, server)
    return None


def _get(view: SimulatedProject, key: Json, volume: Json) -> Json:
    verb = "compute.get_volume_attachment"
    server = server_of(view, verb, key)
    return _shown(server, _one(verb, server, volume))


def _list(view: SimulatedProject, key: Json, **_: Json) -> Json:
    server = server_of(view, "compute.volume_attachments", key)
    return [_shown(server, one) for one in cast(list[JsonMap], server[ATTACHED])]


VERBS: dict[str, Verb] = {
    "compute.create_volume_attachment": _attach,
    "compute.delete_volume_attachment": _detach,
    "compute.get_volume_attachment": _get,
    "compute.volume_attachments": _list,
}
