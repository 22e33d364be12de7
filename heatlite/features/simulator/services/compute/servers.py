"""Servers: creation, changes, locks, deletion."""

import base64
import binascii
import re
from typing import Final, cast

from heatlite.clients.cloud import CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.services.compute import disks, interfaces
from heatlite.features.simulator.services.compute.catalog import (
    MAX_SIZE,
    ZONE,
    embedded,
    flavor_of,
    host_for,
    leave_groups,
    limits,
    refuse_too_many,
    zones,
)
from heatlite.features.simulator.services.compute.states import SERVER, TASK, free, server_of, start, within
from heatlite.features.simulator.simulation import ADMIN, SimulatedProject, Verb

CREATE: Final = "compute.create_server"
NO_HOST: Final = "No valid host was found. "
MAX_USER_DATA: Final = 65_535
"""Maximum length of encoded user data, in characters."""


def _made(view: SimulatedProject, thing: JsonMap) -> None:
    flavor = flavor_of(view, CREATE, thing.pop("flavorRef", None))
    image = thing.pop("imageRef", None) or None
    wanted = cast(list[JsonMap], thing.pop("block_device_mapping_v2", None) or [])
    networks = thing.pop("networks", None)
    _refuse_nonsense(view, thing, image, wanted)
    if image is not None:
        wanted = disks.given_by(view, image, wanted)
    refuse_too_many(view, CREATE, flavor)
    thing.update(
        flavor=embedded(flavor),
        image={"id": image} if image else "",
        tenant_id=thing["project_id"],
        addresses={},
        config_drive="True" if thing.get("config_drive") else "",
        _hints=thing.pop("scheduler_hints", None),
        _files=thing.pop("personality", None),
        _password=thing.pop("adminPass", None) or "simulated",
    )
    thing["OS-EXT-SRV-ATTR:user_data"] = thing.pop("user_data", None)
    thing["OS-EXT-AZ:availability_zone"] = str(thing.pop("availability_zone", None) or ZONE).partition(":")[0]
    thing["OS-EXT-SRV-ATTR:instance_name"] = f"instance-{len(view.simulation.all(SERVER)) + 1:08x}"
    thing["created"] = thing["updated"] = thing.pop("created_at")
    thing["security_groups"] = thing.get("security_groups") or [{"name": "default"}]
    host = host_for(view, CREATE, thing)
    nics = interfaces.planned(view, CREATE, thing, networks)
    thing["_host"] = host
    if host is None or cast(int, flavor["ram"]) > MAX_SIZE:
        view.simulation.later(thing, {"status": "ERROR", TASK: None, "fault": {"code": 500, "message": NO_HOST}})
        return
    thing[TASK] = "spawning"
    view.simulation.later(thing, {"status": "ACTIVE", TASK: None})
    view.simulation.going = ""  # a scripted status applies to the server, not to its volumes and ports
    disks.furnish_server(view, CREATE, thing, wanted)
    interfaces.plug_in(view, CREATE, thing, nics)


def _refuse_nonsense(view: SimulatedProject, thing: JsonMap, image: Json, disks_: list[JsonMap]) -> None:
    if image is not None and not _usable_image(view, image):
        raise CloudError(CREATE, "Can not find requested image", 400)
    if image is None and not any(one.get("boot_index") in (0, "0") for one in disks_):
        raise CloudError(CREATE, "Missing imageRef attribute", 400)
    key = thing.get("key_name")
    if key is not None and key not in {one["name"] for one in view.things("compute.keypair")}:
        raise CloudError(CREATE, "Invalid key_name provided.", 400)
    zone = thing.get("availability_zone")
    if zone and str(zone).partition(":")[0] not in zones(view):
        raise CloudError(CREATE, "The requested availability zone is not available", 400)
    most = cast(int, limits(view, view.project)["metadata_items"])
    if len(cast(JsonMap, thing["metadata"])) > most >= 0:
        text = f"Maximum number of metadata items exceeds {most}"
        raise CloudError(CREATE, text, 403)
    _refuse_user_data(CREATE, thing.get("user_data"))
    for name, value in cast(JsonMap, thing["metadata"]).items():
        if not isinstance(value, str) or len(value) > 255:
            text = f"Invalid input for field/attribute {name}. Value: {value}. It is no text of at most 255 characters"
            raise CloudError(CREATE, text, 400)


def _refuse_user_data(verb: str, given: Json) -> None:
    if given is None:
        return
    try:
        base64.b64decode(str(given), validate=True)
    except binascii.Error as error:
        raise CloudError(verb, "Userdata content cannot be decoded", 400) from error
    if len(str(given)) > MAX_USER_DATA:
        raise CloudError(verb, f"Invalid input for field/attribute user_data. It is longer than {MAX_USER_DATA}", 400)


def _usable_image(view: SimulatedProject, key: Json) -> bool:
    try:
        return view.thing("image.image", key)["status"] == "active"
    except CloudNotFound:
        return False


SERVERS = Collection(
    SERVER,
    {
        "status": "BUILD", "metadata": {}, "tags": [], "key_name": None, "locked": False, "locked_reason": None,
        "accessIPv4": "", "accessIPv6": "", "description": None, "OS-DCF:diskConfig": "MANUAL", "fault": None,
        "os-extended-volumes:volumes_attached": [], TASK: None,
    },
    required=("name", "flavorRef", "networks"),
    made=_made,
)  # fmt: skip


# -- reading -----------------------------------------------------------------------------------------


def _shown(view: SimulatedProject, thing: JsonMap) -> JsonMap:
    """Return a server as the API shows it, with its addresses."""
    return {**thing, "addresses": interfaces.addresses(view, thing)}


def _get(view: SimulatedProject, key: Json) -> Json:
    return _shown(view, server_of(view, "compute.get_server", key))


def _find(view: SimulatedProject, name_or_id: Json, ignore_missing: bool = True, **query: Json) -> Json:
    found = SERVERS.find(view, name_or_id, ignore_missing=ignore_missing, **query)
    return _shown(view, found) if isinstance(found, dict) else found


def _list(view: SimulatedProject, **query: Json) -> Json:
    """List servers. The name is a regular expression, as in the service."""
    query = {key: value for key, value in query.items() if key not in ("details", "all_projects")}
    name = re.compile(str(query.pop("name", None) or ""))
    found = cast(list[JsonMap], SERVERS.list(view, **query))
    return [_shown(view, one) for one in found if name.search(str(one["name"]))]


# -- changing ----------------------------------------------------------------------------------------


def _update(view: SimulatedProject, key: Json, **attributes: Json) -> Json:
    return SERVERS.update(view, server_of(view, "compute.update_server", key)["id"], **attributes)


def _set_metadata(view: SimulatedProject, key: Json, metadata: Json) -> Json:
    thing = free(view, "compute.set_server_metadata", key)
    cast(JsonMap, thing["metadata"]).update(cast(JsonMap, metadata))
    return view.put(SERVER, thing)


def _delete_metadata(view: SimulatedProject, key: Json, keys: Json) -> Json:
    verb = "compute.delete_server_metadata"
    thing = free(view, verb, key)
    for name in cast(list[str], keys):
        if cast(JsonMap, thing["metadata"]).pop(name, None) is None:
            raise CloudNotFound(verb, "Metadata item was not found")
    view.put(SERVER, thing)
    return None


def _set_tags(view: SimulatedProject, key: Json, tags: Json) -> Json:
    thing = server_of(view, "compute.set_server_tags", key)
    thing["tags"] = tags
    return view.put(SERVER, thing)


def _change_password(view: SimulatedProject, key: Json, password: Json) -> Json:
    thing = within(view, "compute.change_server_password", key, "changePassword", "ACTIVE")
    thing["_password"] = password
    view.put(SERVER, thing)
    return None


def _resize(view: SimulatedProject, key: Json, flavor_id: Json) -> Json:
    verb = "compute.resize_server"
    thing = within(view, verb, key, "resize", "ACTIVE", "SHUTOFF")
    flavor = flavor_of(view, verb, flavor_id)
    before = cast(JsonMap, thing["flavor"])
    if flavor["name"] == before["original_name"]:
        raise CloudError(verb, "When resizing, instances must change flavor!", 400)
    refuse_too_many(view, verb, flavor, before)
    if cast(int, flavor["ram"]) > MAX_SIZE:
        raise CloudError(verb, NO_HOST, 400)
    becomes: JsonMap = {"status": "VERIFY_RESIZE", "flavor": embedded(flavor), "_before": before}
    start(view, thing, "resize_prep", becomes, "RESIZE")
    return None


def _confirm(view: SimulatedProject, key: Json) -> Json:
    """Confirm a resize, even of a locked server."""
    verb = "compute.confirm_server_resize"
    thing = within(view, verb, key, "confirmResize", "VERIFY_RESIZE", locked_too=True)
    if thing.get("_before") is None:
        raise CloudError(verb, "Instance has not been resized.", 400)
    thing["_before"] = None
    start(view, thing, None, {"status": "ACTIVE"})
    return None


def _revert(view: SimulatedProject, key: Json) -> Json:
    thing = within(view, "compute.revert_server_resize", key, "revertResize", "VERIFY_RESIZE", locked_too=True)
    start(view, thing, None, {"status": "ACTIVE", "flavor": thing["_before"], "_before": None}, "REVERT_RESIZE")
    return None


def _rebuild(view: SimulatedProject, key: Json, image: Json, preserve_ephemeral: bool = False, **given: Json) -> Json:
    verb = "compute.rebuild_server"
    thing = within(view, verb, key, "rebuild", "ACTIVE", "SHUTOFF", "ERROR")
    if not _usable_image(view, image):
        raise CloudError(verb, f"Cannot find image {image} for instance {thing['id']}", 400)
    _refuse_user_data(verb, given.get("user_data"))
    becomes: JsonMap = {"status": "ACTIVE", "fault": None}
    for name, kept in (("name", "name"), ("metadata", "metadata"), ("key_name", "key_name"),
                       ("user_data", "OS-EXT-SRV-ATTR:user_data"), ("admin_password", "_password")):  # fmt: skip
        if name in given:
            becomes[kept] = given[name]
    thing["image"] = {"id": image}
    thing["_rebuilt"] = cast(int, thing.get("_rebuilt") or 0) + 1
    thing["_ephemeral_kept"] = preserve_ephemeral
    start(view, thing, "rebuilding", becomes, "REBUILD")
    return _shown(view, thing)


def _suspend(view: SimulatedProject, key: Json) -> Json:
    thing = within(view, "compute.suspend_server", key, "suspend", "ACTIVE")
    start(view, thing, "suspending", {"status": "SUSPENDED"})
    return None


def _resume(view: SimulatedProject, key: Json) -> Json:
    thing = within(view, "compute.resume_server", key, "resume", "SUSPENDED")
    start(view, thing, "resuming", {"status": "ACTIVE"})
    return None


def _stop(view: SimulatedProject, key: Json) -> Json:
    start(view, within(view, "compute.stop_server", key, "stop", "ACTIVE"), "powering-off", {"status": "SHUTOFF"})
    return None


def _start(view: SimulatedProject, key: Json) -> Json:
    start(view, within(view, "compute.start_server", key, "start", "SHUTOFF"), "powering-on", {"status": "ACTIVE"})
    return None


def _reboot(view: SimulatedProject, key: Json, reboot_type: Json) -> Json:
    is_hard = reboot_type == "HARD"
    statuses = ("ACTIVE", "SHUTOFF", "SUSPENDED", "ERROR") if is_hard else ("ACTIVE",)
    thing = within(view, "compute.reboot_server", key, "reboot", *statuses)
    start(view, thing, "rebooting", {"status": "ACTIVE", "fault": None}, "HARD_REBOOT" if is_hard else "REBOOT")
    return None


def _reset_state(view: SimulatedProject, key: Json, state: Json) -> Json:
    thing = server_of(view, "compute.reset_server_state", key)
    thing.pop("_then", None)
    thing.update({"status": "ERROR" if state == "error" else "ACTIVE", TASK: None})
    view.put(SERVER, thing)
    return None


# -- locks -------------------------------------------------------------------------------------------


def _lock(view: SimulatedProject, key: Json, locked_reason: Json = None) -> Json:
    """Lock a server. No effect if it is locked already, as in the service."""
    thing = server_of(view, "compute.lock_server", key)
    if not thing["locked"]:
        thing.update(locked=True, locked_reason=locked_reason, _locked_by=view.project)
        view.put(SERVER, thing)
    return None


def _unlock(view: SimulatedProject, key: Json) -> Json:
    """Unlock a server. Only an administrator removes an administrator's lock."""
    verb = "compute.unlock_server"
    thing = server_of(view, verb, key)
    if thing.get("_locked_by") == ADMIN != view.project:
        rule = "os_compute_api:os-lock-server:unlock:unlock_override"
        raise CloudError(verb, f"Policy doesn't allow {rule} to be performed.", 403)
    thing.update(locked=False, locked_reason=None, _locked_by=None)
    view.put(SERVER, thing)
    return None


# -- images, deletion --------------------------------------------------------------------------------


def _save(view: SimulatedProject, key: Json, name: Json, metadata: Json = None, **_: Json) -> Json:
    verb = "compute.create_server_image"
    thing = within(view, verb, key, "createImage", "ACTIVE", "SHUTOFF", "SUSPENDED", locked_too=True)
    base = cast(JsonMap, thing["image"] or {}).get("id")
    image: JsonMap = {
        "id": view.simulation.new_id("image.image"),
        "name": name,
        "status": "queued",
        "visibility": "private",
        "protected": False,
        "owner": view.project,
        "project_id": view.project,
        "min_disk": cast(JsonMap, thing["flavor"])["disk"],
        "min_ram": 0,
        "tags": [],
        "container_format": "bare",
        "disk_format": "qcow2",
        "properties": {"image_type": "snapshot", "base_image_ref": base, **cast(JsonMap, metadata or {})},
    }
    if disks.boots_from_volume(thing):
        image.update(status="active", size=0, disk_format="raw", properties=disks.saved(view, verb, thing, name))
        return view.put("image.image", image)
    view.simulation.later(image, {"status": "active"})
    view.simulation.going = ""
    start(view, thing, "image_snapshot", {"status": thing["status"]})
    return view.put("image.image", image)


def _delete(view: SimulatedProject, key: Json, **_: Json) -> Json:
    verb = "compute.delete_server"
    thing = server_of(view, verb, key)
    free(view, verb, key)
    if thing[TASK] == "deleting":
        return None
    simulation = view.simulation
    thing[TASK] = "deleting"
    if simulation.going:
        simulation.later(thing, {TASK: None})
    else:
        interfaces.unplug_all(view, thing)
        disks.release(view, thing)
        leave_groups(view, thing)
        simulation.later(thing, None)
    view.put(SERVER, thing)
    return None


CONSOLES: Final = {"novnc": "vnc", "spice-html5": "spice"}


def _console(view: SimulatedProject, key: Json, console_type: Json, **_: Json) -> Json:
    verb = "compute.create_console"
    thing = server_of(view, verb, key)
    if console_type not in CONSOLES:
        raise CloudError(verb, f"Unavailable console type {console_type}.", 400)
    url = f"http://127.0.0.1:6080/vnc_auto.html?path=%3Ftoken%3D{thing['id']}"
    return {"type": console_type, "protocol": CONSOLES[str(console_type)], "url": url}


def _actions(view: SimulatedProject, key: Json, **_: Json) -> Json:
    """List the actions on a server; the simulation knows its creation only."""
    thing = server_of(view, "compute.server_actions", key)
    text = None if thing.get("fault") is None else "Error"
    return [{"action": "create", "request_id": f"req-{thing['id']}", "message": text, "start_time": thing["created"]}]


VERBS: dict[str, Verb] = {
    "compute.get_server": _get,
    "compute.find_server": _find,
    "compute.servers": _list,
    "compute.update_server": _update,
    "compute.delete_server": _delete,
    "compute.set_server_metadata": _set_metadata,
    "compute.delete_server_metadata": _delete_metadata,
    "compute.set_server_tags": _set_tags,
    "compute.change_server_password": _change_password,
    "compute.resize_server": _resize,
    "compute.confirm_server_resize": _confirm,
    "compute.revert_server_resize": _revert,
    "compute.rebuild_server": _rebuild,
    "compute.suspend_server": _suspend,
    "compute.resume_server": _resume,
    "compute.stop_server": _stop,
    "compute.start_server": _start,
    "compute.reboot_server": _reboot,
    "compute.reset_server_state": _reset_state,
    "compute.lock_server": _lock,
    "compute.unlock_server": _unlock,
    "compute.create_server_image": _save,
    "compute.create_console": _console,
    "compute.server_actions": _actions,
}
