"""What all volumes are, by whatever name a template knows them."""

from typing import ClassVar, TypeVar, cast

from heatlite.clients.cloud import CloudError, CloudNotFound, CloudUnavailable
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import CloudResource, Schema, ServiceConflict

P_co = TypeVar("P_co", bound=Schema, covariant=True)

NO_BACKUPS = "cinder-backup"
"""What the service names in its 503 where it has nobody who makes backups: to wait for that is in vain."""
SNAPSHOT_FOR = "snapshot for "
"""How the compute service names the snapshots of volumes that an image is made of; the image's name follows."""


class CinderVolume(CloudResource[P_co]):
    """How volumes are made, kept, saved and removed."""

    kind = "block_storage.volume"
    ready = frozenset({"AVAILABLE", "IN-USE"})
    broken = frozenset({"ERROR", "ERROR_DELETING", "ERROR_EXTENDING", "ERROR_RESTORING", "ERROR_BACKING-UP"})
    snapshot_on_delete: ClassVar[bool] = True

    # -- deleting ------------------------------------------------------------------------------------

    def handle_delete(self) -> Json:
        if self.physical_id is None:
            return None
        try:
            thing = self.fetch()
            if thing["status"] == "deleting":
                return None
            self.service("delete_volume", self.physical_id)
        except CloudNotFound:
            return None
        except CloudError as error:
            if error.status != 400:
                raise
            # The service calls it a bad request where a volume is at work, attached, or has snapshots.
            kept_by = self._kept_by()
            if kept_by:
                raise CloudError(error.verb, kept_by, error.status, error.request_id) from error
            raise ServiceConflict(str(error)) from error
        return None

    def _kept_by(self) -> str:
        """Why the volume cannot go, however long one waits, and what to do; "": it may go later."""
        found = cast(list[JsonMap], self.service("snapshots", volume_id=self.physical_id))
        # Those that the service has made for itself, and counts for nobody, it removes, too.
        left = [one for one in found if one["status"] != "deleting" and one.get("consumes_quota") is not False]
        if not left:
            return ""
        named = ", ".join(map(self._named, left))
        return (
            f"volume {self.physical_id} is not deleted as long as it has snapshots: {named}. Delete the images and"
            " snapshots if nobody needs them any more, and try again; or leave the volume behind: with deletion_policy"
            " Retain, or heatlite down --force"
        )

    def _named(self, snapshot: JsonMap) -> str:
        """A snapshot, and the image that is made of it, if one is."""
        name = str(snapshot.get("name") or "")
        found = f"snapshot {snapshot['id']}" + (f" ({name})" if name else "")
        if not name.startswith(SNAPSHOT_FOR):
            return found
        try:
            images = cast(list[JsonMap], self.cloud.call("image.images", name=name.removeprefix(SNAPSHOT_FOR)))
        except CloudError:
            return found  # there is a failure to tell of already
        made = [str(image["id"]) for image in images if str(snapshot["id"]) in str(image.get("properties"))]
        return found + "".join(f", of which the image {one} is made" for one in made)

    def handle_snapshot_delete(self) -> Json:
        if self.physical_id is None:
            return None
        self.data.pop("saved", None)
        try:
            return {"backup": self._back_up(self.physical_name)}
        except CloudNotFound:
            return None

    def check_delete_complete(self, token: Json) -> bool | float:
        if isinstance(token, dict) and not self.data.get("saved"):
            if not self._is_backed_up(str(token["backup"])):
                return False
            self.handle_delete()
            self.data["saved"] = True
        return super().check_delete_complete(token)

    def _back_up(self, name: str) -> str:
        """The id of a backup of that name, which may have been begun already."""
        found = cast(list[JsonMap], self.service("backups", name=name))
        own = [one for one in found if one["volume_id"] == self.physical_id and one["name"] == name]
        if own:
            return str(own[0]["id"])
        try:  # `force`: attached, too.
            made = self.map(self.service("create_backup", volume_id=self.physical_id, name=name, force=True))
        except CloudUnavailable as error:
            if NO_BACKUPS not in error.reason:
                raise
            text = f"the cloud has no backup service, and a volume is saved as a backup only: {error.reason}"
            raise CloudError(error.verb, text, error.status, error.request_id) from error
        return str(made["id"])

    def _is_backed_up(self, backup: str) -> bool:
        thing = self.map(self.service("get_backup", backup))
        if thing["status"] == "error":
            reason = thing.get("fail_reason") or "the service gives no reason"
            raise CloudError("block_storage.create_backup", f"backup {backup} went to error: {reason}")
        return bool(thing["status"] == "available") and self.fetch()["status"] != "backing-up"
