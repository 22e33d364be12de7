"""Attach volumes to servers and detach them.

The compute service does the work and the block storage service reports the progress, so several types share this
module. All functions are idempotent.
"""

import re

from heatlite.clients.cloud import Cloud, CloudError, CloudNotFound
from heatlite.core.json import JsonMap, as_maps
from heatlite.plugin import ServiceConflict

ROOT = "OS-EXT-SRV-ATTR:root_device_name"
FIRST = re.compile(r"/dev/[a-z]*a")
"""The default name of the device that a server without an image boots from."""


def attach(cloud: Cloud, server: str, volume: str, device: str | None) -> None:
    """Begin to attach a volume to a server, at `device` if that is given.

    Raises CloudError.
    """
    try:
        cloud.call("compute.get_volume_attachment", server, volume)
    except CloudNotFound:
        wanted: JsonMap = {} if device is None else {"device": device}
        cloud.call("compute.create_volume_attachment", server, volume=volume, **wanted)


def is_attached(cloud: Cloud, server: str, volume: str) -> bool:
    """True if the volume is attached. Raises CloudError if the attachment failed."""
    thing = of(cloud, volume)
    status, is_attached = str(thing["status"]), _attachment(thing, server)
    failure = f"volume {volume} could not be attached to server {server}"
    if status.startswith("error"):
        raise CloudError("compute.create_volume_attachment", f"{failure}: its status is {status}")
    if status in ("available", "in-use") and not is_attached:
        try:
            cloud.call("compute.get_volume_attachment", server, volume)
        except CloudNotFound as error:
            text = f"{failure}: the compute service has given it up"
            raise CloudError("compute.create_volume_attachment", text) from error
    return is_attached and status == "in-use"


def detach(cloud: Cloud, server: str, volume: str) -> None:
    """Begin to detach a volume from a server; does nothing if either is gone.

    Raises CloudError.
    """
    try:
        thing = of(cloud, volume)
        if thing["status"] in ("attaching", "reserved"):
            raise ServiceConflict(f"volume {volume} is being attached: its status is {thing['status']}")
        if _attachment(thing, server) and thing["status"] != "detaching":
            cloud.call("compute.delete_volume_attachment", server, volume)
    except CloudNotFound:
        return


def is_detached(cloud: Cloud, server: str, volume: str) -> bool:
    """True if the volume is detached.

    Raises CloudError if the server keeps the volume.
    """
    try:
        thing = of(cloud, volume)
    except CloudNotFound:
        return True
    if not _attachment(thing, server):
        return thing["status"] in ("available", "in-use")
    if thing["status"] == "detaching":
        return False
    try:
        cloud.call("compute.get_volume_attachment", server, volume)
    except CloudNotFound:
        # The server or the attachment is gone; the block storage service will notice that, too.
        return False
    text = f"server {server} does not release volume {volume}: its status is {thing['status']} again"
    raise CloudError("compute.delete_volume_attachment", text)


def booted_by(cloud: Cloud, thing: JsonMap) -> str | None:
    """Return the server that boots from a volume, or None. Raises CloudError.

    Such a volume cannot be detached.
    """
    for one in attachments(thing):
        device = str(one.get("device"))
        try:
            server = cloud.call("compute.get_server", one["server_id"])
        except CloudNotFound:
            continue
        assert isinstance(server, dict)
        root = server.get(ROOT)  # shown to administrators only
        if not server.get("image") and (device == root if root else FIRST.fullmatch(device)):
            return str(one["server_id"])
    return None


def of(cloud: Cloud, volume: str) -> JsonMap:
    """Return the current state of a volume. Raises CloudNotFound, CloudError."""
    found = cloud.call("block_storage.get_volume", volume)
    assert isinstance(found, dict)
    return found


def attachments(thing: JsonMap) -> list[JsonMap]:
    """Return the attachments of a volume: maps with ``server_id`` and ``device``."""
    return as_maps(thing.get("attachments"))


def _attachment(thing: JsonMap, server: str) -> bool:
    return any(one.get("server_id") == server for one in attachments(thing))
