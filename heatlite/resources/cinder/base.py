"""Base of all volume types: deletion and backups."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, TypeVar, cast

from heatlite.clients.cloud import CloudError, CloudNotFound, CloudUnavailable
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import CloudResource, Schema, ServiceConflict
from heatlite.plugin.cloud import expect_absent
from heatlite.plugin.needs import Find, Need, found, unknown, whole

P_co = TypeVar("P_co", bound=Schema, covariant=True)

NO_BACKUPS = "cinder-backup"
"""The name in the service's 503 answer if the cloud has no backup service. A retry would not help."""
SNAPSHOT_FOR = "snapshot for "
"""Name prefix of the volume snapshots that the compute service creates for an image."""


class CinderVolume(CloudResource[P_co]):
    """Base of the volume types."""

    kind = "block_storage.volume"
    ready = frozenset({"AVAILABLE", "IN-USE"})
    broken = frozenset({"ERROR", "ERROR_DELETING", "ERROR_EXTENDING", "ERROR_RESTORING", "ERROR_BACKING-UP"})
    snapshot_on_delete: ClassVar[bool] = True
    counts = ("block_storage.volumes",)

    @classmethod
    def needs(cls, given: Mapping[str, object], find: Find) -> Iterable[Need]:
        """Return the volume and its size, also those of its type."""
        return volume_needs(given, find)

    # -- deleting ------------------------------------------------------------------------------------

    def handle_delete(self) -> Json:
        if self.physical_id is None:
            return None
        try:
            thing = self.fetch()
            if thing["status"] == "deleting":
                return None
            self.service("delete_volume", self.physical_id)
        except CloudNotFound as error:
            expect_absent(self, error)
        except CloudError as error:
            if error.status != 400:
                raise
            # The service answers 400 if a volume is busy, attached, or has snapshots.
            kept_by = self._kept_by()
            if kept_by:
                raise CloudError(error.verb, kept_by, error.status, error.request_id) from error
            raise ServiceConflict(str(error)) from error
        return None

    def _kept_by(self) -> str:
        """Return the reason why the volume can never be deleted, with advice.

        "" if a retry may succeed.
        """
        found = cast(list[JsonMap], self.service("snapshots", volume_id=self.physical_id))
        # The service removes its own snapshots, which consume no quota, with the volume.
        left = [one for one in found if one["status"] != "deleting" and one.get("consumes_quota") is not False]
        if not left:
            return ""
        named = ", ".join(map(self._named, left))
        return (
            f"volume {self.physical_id} is not deleted as long as it has snapshots: {named}. Delete the images and"
            " snapshots if they are not needed, and try again; or leave the volume behind: with deletion_policy"
            " Retain, or heatlite down --force"
        )

    def _named(self, snapshot: JsonMap) -> str:
        """Return a text with a snapshot and the image made of it, if there is one."""
        name = str(snapshot.get("name") or "")
        found = f"snapshot {snapshot['id']}" + (f" ({name})" if name else "")
        if not name.startswith(SNAPSHOT_FOR):
            return found
        try:
            images = cast(list[JsonMap], self.cloud.call("image.images", name=name.removeprefix(SNAPSHOT_FOR)))
        except CloudError:
            return found  # the caller already reports a failure
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
        """Return the id of a backup of that name; begin the backup unless it exists."""
        found = cast(list[JsonMap], self.service("backups", name=name))
        own = [one for one in found if one["volume_id"] == self.physical_id and one["name"] == name]
        if own:
            return str(own[0]["id"])
        try:  # `force` includes attached volumes
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


SOURCES_OF_SIZE = {
    "snapshot_id": "cinder.snapshot",
    "backup_id": "cinder.backup",
    "source_volid": "cinder.volume",
}
"""Property → the finder of the object whose size a volume without one gets."""


def volume_needs(given: Mapping[str, object], find: Find) -> Iterator[Need]:
    """Yield the needs of a volume with these properties."""
    size = whole(given.get("size"))
    for name, finder in SOURCES_OF_SIZE.items():
        if size is None and given.get(name) is not None:
            size = whole(found(find, finder, given[name]).get("size"))
    kind = given.get("volume_type")
    named = found(find, "cinder.vtype", kind).get("name")
    for suffix in ("", *([f"_{named}"] if named else [])):
        yield Need(f"block_storage.volumes{suffix}")
        gigabytes = f"block_storage.gigabytes{suffix}"
        yield unknown(gigabytes) if size is None else Need(gigabytes, size)
    yield Need("block_storage.per_volume_gigabytes", size or 0, size is not None)
