"""Volumes are given to servers and taken away again.

The compute service does it and the block storage service tells how far it is, so several types need it. Everything here
bears being done twice.
"""

import re

from heatlite.clients.cloud import Cloud, CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import ServiceConflict

ROOT = "OS-EXT-SRV-ATTR:root_device_name"
FIRST = re.compile(r"/dev/[a-z]*a")
"""The device that a server without an image boots from, unless somebody has called it otherwise."""


def attach(cloud: Cloud, server: str, volume: str, device: str | None) -> None:
    """Begin to attach a volume to a server; `device` is where the server is to see it. Raises CloudError."""
    try:
        cloud.call("compute.get_volume_attachment", server, volume)
    except CloudNotFound:
        wanted: JsonMap = {} if device is None else {"device": device}
        cloud.call("compute.create_volume_attachment", server, volume=volume, **wanted)


def is_attached(cloud: Cloud, server: str, volume: str) -> bool:
    """Whether what `attach` began is done. Raises CloudError where it will not be."""
    thing = of(cloud, volume)
    status, there = str(thing["status"]), _attachment(thing, server)
    failure = f"volume {volume} could not be attached to server {server}"
    if status.startswith("error"):
        raise CloudError("compute.create_volume_attachment", f"{failure}: its status is {status}")
    if status in ("available", "in-use") and not there:
        try:
            cloud.call("compute.get_volume_attachment", server, volume)
        except CloudNotFound as error:
            text = f"{failure}: the compute service has given it up"
            raise CloudError("compute.create_volume_attachment", text) from error
    return there and status == "in-use"


def detach(cloud: Cloud, server: str, volume: str) -> None:
    """Begin to take a volume from a server; gone, on either side, is well. Raises CloudError."""
    try:
        thing = of(cloud, volume)
        if thing["status"] in ("attaching", "reserved"):
            raise ServiceConflict(f"volume {volume} is being attached: its status is {thing['status']}")
        if _attachment(thing, server) and thing["status"] != "detaching":
            cloud.call("compute.delete_volume_attachment", server, volume)
    except CloudNotFound:
        return


def is_detached(cloud: Cloud, server: str, volume: str) -> bool:
    """Whether what `detach` began is done. Raises CloudError where the server keeps the volume."""
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
        # The server, or what joins both, is gone: the block storage service will see that too.
        return False
    text = f"server {server} does not let go of volume {volume}: its status is {thing['status']} again"
    raise CloudError("compute.delete_volume_attachment", text)


def booted_by(cloud: Cloud, thing: JsonMap) -> str | None:
    """The server that boots from a volume, from which nobody takes it; None: there is none. Raises CloudError."""
    for one in attachments(thing):
        device = str(one.get("device"))
        try:
            server = cloud.call("compute.get_server", one["server_id"])
        except CloudNotFound:
            continue
        assert isinstance(server, dict)
        root = server.get(ROOT)  # administrators alone are told
        if not server.get("image") and (device == root if root else FIRST.fullmatch(device)):
            return str(one["server_id"])
    return None


def of(cloud: Cloud, volume: str) -> JsonMap:
    """A volume as it is now. Raises CloudNotFound, CloudError."""
    found = cloud.call("block_storage.get_volume", volume)
    assert isinstance(found, dict)
    return found


def attachments(thing: JsonMap) -> list[JsonMap]:
    """Which servers have a volume: maps with ``server_id`` and ``device``."""
    found: Json = thing.get("attachments")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _attachment(thing: JsonMap, server: str) -> bool:
    return any(one.get("server_id") == server for one in attachments(thing))
