"""Images of servers: created, checked and deleted with their volume snapshots."""

from contextlib import suppress
from typing import Any

from heatlite.clients.cloud import CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import CloudResource
from heatlite.resources.nova import disks


class Images:
    """The images that save one server.

    The server's `data` holds two ids. `snapshot_image_id`: the image. `snapshot_boot`: the snapshot of the boot volume.
    """

    def __init__(self, server: CloudResource[Any]) -> None:
        self._server = server
        self._cloud = server.cloud

    def _image(self, image: str) -> JsonMap:
        return self._server.map(self._cloud.call("image.get_image", image))

    def _status(self, snapshot: Json) -> Json:
        return self._server.map(self._cloud.call("block_storage.get_snapshot", snapshot))["status"]

    def save(self, name: str) -> None:
        """Save the server as an image, unless an interrupted attempt has created that."""
        found = self._cloud.call("image.find_image", name)
        if not isinstance(found, dict):
            found = self._server.map(self._server.service("create_server_image", self._server.physical_id, name))
        self._server.data["snapshot_image_id"] = found["id"]

    def is_saved(self, image: str) -> bool:
        """True if the image and its volume snapshots are complete.

        Raises CloudError if one failed.
        """
        thing = self._image(image)
        made_of = disks.of_image(thing)
        self._server.data["snapshot_boot"] = next(
            (one["snapshot_id"] for one in made_of if one.get("boot_index") == 0), None
        )
        status = str(thing.get("status")).lower()
        if status in ("killed", "deleted", "error"):
            raise CloudError("image.get_image", f"the image {image} of the server is {status}")
        return status == "active" and all(self._is_there(one["snapshot_id"]) for one in made_of)

    def _is_there(self, snapshot: Json) -> bool:
        """True if a volume snapshot in an image is available.

        Raises CloudError if it failed.
        """
        status = self._status(snapshot)
        if status == "error":
            text = f"the snapshot {snapshot} of the server's volume went to error"
            raise CloudError("block_storage.create_snapshot", text)
        return bool(status == "available")

    def delete(self, image: str) -> None:
        """Delete an image and the volume snapshots in it, if they are there."""
        with suppress(CloudNotFound):
            for one in disks.of_image(self._image(image)):
                self._delete_volume_snapshot(one["snapshot_id"])
            self._cloud.call("image.delete_image", image)

    def _delete_volume_snapshot(self, snapshot: Json) -> None:
        """Delete a volume snapshot in an image: otherwise its volume could not be deleted."""
        with suppress(CloudNotFound):
            if self._status(snapshot) != "deleting":
                self._cloud.call("block_storage.delete_snapshot", snapshot)
