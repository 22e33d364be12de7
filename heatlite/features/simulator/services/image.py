"""Simulated image service (Glance)."""

import hashlib
from typing import Final, cast

from heatlite.clients.cloud import CloudConflict, CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.simulation import SimulatedProject, Verb

IMAGE: Final = "image.image"
SIZE: Final = 16_300_544
"""Size of every image in bytes."""


def _image_made(view: SimulatedProject, thing: JsonMap) -> None:
    if thing["visibility"] == "public" and not view.is_admin:
        _refuse("create_image", "You are not authorized to complete publicize_image action.", 403)
    thing.setdefault("owner", view.project)
    _split(thing, thing)


def _image_changed(view: SimulatedProject, thing: JsonMap, attributes: JsonMap) -> None:
    if attributes.get("visibility") == "public" and not view.is_admin:
        _refuse("update_image", "You are not authorized to complete publicize_image action.", 403)
    _split(attributes, thing)


def _split(attributes: JsonMap, thing: JsonMap) -> None:
    """Move unknown attributes to the properties, as the SDK shows them.

    Null removes one.
    """
    properties = {**cast(JsonMap, thing.get("properties") or {})}
    for name in [name for name in attributes if name not in KNOWN and not name.startswith("_")]:
        value = attributes.pop(name)
        if value is None:
            properties.pop(name, None)
        elif isinstance(value, str):
            properties[name] = value
        else:
            _refuse("update_image", f"Provided object does not match schema 'image': {value!r} is no string.", 400)
    attributes["properties"] = properties


def _image_removed(_view: SimulatedProject, thing: JsonMap) -> None:
    if thing["protected"]:
        _refuse("delete_image", f"Image {thing['id']} is protected and cannot be deleted.", 403)


def _import_image(view: SimulatedProject, key: Json, method: Json = "glance-direct", uri: Json = None) -> Json:
    verb = "image.import_image"
    thing = view.thing(IMAGE, key, verb)
    if thing["status"] != "queued":
        raise CloudConflict(verb, f"Image with status {thing['status']} cannot be target for import")
    if method != "web-download" or not str(uri).startswith(("http://", "https://")):
        _refuse("import_image", f"URI for {method} does not pass filtering: {uri}", 400)
    digest = hashlib.md5(str(uri).encode(), usedforsecurity=False).hexdigest()
    thing["status"] = "importing"
    properties = {**cast(JsonMap, thing["properties"]), "os_glance_failed_import": ""}
    becomes: JsonMap = {"status": "active", "size": SIZE, "checksum": digest, "properties": properties}
    view.simulation.later(thing, becomes)
    becomes = cast(JsonMap, cast(JsonMap, thing["_then"])["becomes"])
    if becomes["status"] != "active":  # a scripted fault: the import can be repeated
        properties["os_glance_failed_import"] = "simulated"
        becomes.update(status="queued", size=None, checksum=None)
    view.put(IMAGE, thing)
    return None


def _deactivate_image(view: SimulatedProject, key: Json) -> Json:
    return _turn(view, key, "active", "deactivated")


def _reactivate_image(view: SimulatedProject, key: Json) -> Json:
    return _turn(view, key, "deactivated", "active")


def _turn(view: SimulatedProject, key: Json, before: str, after: str) -> Json:
    thing = view.thing(IMAGE, key, "image.deactivate_image")
    if thing["status"] not in (before, after):
        _refuse("deactivate_image", f"Image status transition from {thing['status']} to {after} is not allowed", 403)
    thing["status"] = after
    view.put(IMAGE, thing)
    return None


def _add_tag(view: SimulatedProject, key: Json, tag: Json) -> Json:
    thing = view.thing(IMAGE, key, "image.add_tag")
    tags = cast(list[Json], thing["tags"])
    thing["tags"] = [*tags, *([] if tag in tags else [tag])]
    view.put(IMAGE, thing)
    return None


def _remove_tag(view: SimulatedProject, key: Json, tag: Json) -> Json:
    thing = view.thing(IMAGE, key, "image.remove_tag")
    if tag not in cast(list[Json], thing["tags"]):
        raise CloudNotFound("image.remove_tag", f"Failed to find tag {tag} of image {thing['id']}")
    thing["tags"] = [one for one in cast(list[Json], thing["tags"]) if one != tag]
    view.put(IMAGE, thing)
    return None


def _members(view: SimulatedProject, key: Json) -> Json:
    thing = view.thing(IMAGE, key, "image.members")
    return [
        {"id": one, "member": one, "status": "pending"}
        for one in cast(list[Json], thing.get("_members", []))
    ]


def _add_member(view: SimulatedProject, key: Json, member: Json) -> Json:
    thing = view.thing(IMAGE, key, "image.add_member")
    if thing["visibility"] != "shared":
        _refuse("add_member", f"Only shared images have members: {thing['id']} is {thing['visibility']}.", 403)
    members = cast(list[Json], thing.setdefault("_members", []))
    if member in members:
        raise CloudConflict("image.add_member", f"Member {member} is duplicated for image {thing['id']}")
    members.append(member)
    view.put(IMAGE, thing)
    return {"id": member, "member": member, "status": "pending"}


def _remove_member(view: SimulatedProject, member: Json, image: Json, ignore_missing: bool = True) -> Json:
    thing = view.thing(IMAGE, image, "image.remove_member")
    members = cast(list[Json], thing.get("_members", []))
    if member not in members:
        if ignore_missing:
            return None
        raise CloudNotFound("image.remove_member", f"{member} not found in the member list of image {thing['id']}")
    members.remove(member)
    view.put(IMAGE, thing)
    return None


def _refuse(verb: str, text: str, status: int) -> None:
    raise CloudError(f"image.{verb}", text, status)


DEFAULTS: Final[JsonMap] = {
    "name": None, "status": "queued", "visibility": "shared", "protected": False, "tags": [], "min_disk": 0,
    "min_ram": 0, "os_hidden": False, "size": None, "checksum": None, "container_format": None, "disk_format": None,
}  # fmt: skip
KNOWN: Final = frozenset(DEFAULTS) | {
    "id", "owner", "created_at", "updated_at", "virtual_size", "properties", "project_id", "architecture", "kernel_id",
    "ramdisk_id", "os_distro", "os_version", "os_type",
}  # fmt: skip
"""Attributes known to the service or the SDK; others are properties."""

COLLECTIONS: list[Collection] = [
    Collection(IMAGE, DEFAULTS, made=_image_made, changed=_image_changed, removed=_image_removed)
]

VERBS: dict[str, Verb] = {
    "image.import_image": _import_image,
    "image.deactivate_image": _deactivate_image,
    "image.reactivate_image": _reactivate_image,
    "image.add_tag": _add_tag,
    "image.remove_tag": _remove_tag,
    "image.members": _members,
    "image.add_member": _add_member,
    "image.remove_member": _remove_member,
}


def furnish(view: SimulatedProject) -> None:
    """Create the image that every trial cloud has."""
    made = view.call(
        "image.create_image", name="cirros", visibility="public", disk_format="qcow2", container_format="bare"
    )
    assert isinstance(made, dict)
    url = "https://download.cirros-cloud.net/0.6.3/cirros-0.6.3-x86_64-disk.img"
    view.call("image.import_image", made["id"], method="web-download", uri=url)
