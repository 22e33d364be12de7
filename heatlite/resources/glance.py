"""Types of the image service."""

from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from heatlite.clients.cloud import CloudConflict, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop
from heatlite.plugin.cloud import WentToError
from heatlite.resources.cinder.volumes import texts

ID = "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"


class WebImageProps(Schema):
    name: str | None = prop(doc="Its name.")
    id: str | None = prop(doc="Its id; left out: the service draws one.")
    visibility: str = prop(
        "private", update=True, one_of=("public", "private", "community", "shared"), doc="Who may see and use it."
    )
    protected: bool = prop(False, update=True, doc="Whether it cannot be deleted.")
    min_disk: int = prop(0, between=(0, None), doc="The least disk in GiB that a server of it needs.")
    min_ram: int = prop(0, between=(0, None), doc="The least memory in MiB that a server of it needs.")
    disk_format: str = prop(
        one_of=("ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop"),
        doc="In which form the disk is.",
    )
    container_format: str = prop(
        one_of=("ami", "ari", "aki", "bare", "ovf", "ova", "docker"), doc="What the disk is wrapped in."
    )
    tags: list[Json] | None = prop(update=True, doc="Its tags.")
    extra_properties: dict[str, Json] = prop({}, update=True, api="", doc="Properties beyond those that have a name.")
    architecture: str | None = prop(update=True, doc="What processors it is for, such as x86_64.")
    kernel_id: str | None = prop(update=True, pattern=ID, doc="The image of the kernel that it starts with.")
    os_distro: str | None = prop(update=True, doc="The distribution that is on it.")
    os_version: str | None = prop(update=True, doc="The version of that.")
    owner: str | None = prop(update=True, doc="The project that is to own it; only administrators may say so.")
    ramdisk_id: str | None = prop(update=True, pattern=ID, doc="The image of the memory disk that it starts with.")
    location: str = prop(api="", doc="The URL that the service fetches it from.")
    active: bool = prop(True, update=True, api="", doc="Whether servers can be made of it.")
    members: list[str] | None = prop(update=True, api="", doc="The projects that a shared image is shared with, by id.")


class WebImage(CloudResource[WebImageProps], type="OS::Glance::WebImage", kind="image.image"):
    """An image that the image service downloads from the web.

    A maintenance lock of level ``all`` protects it from deletion; the unlock restores the previous protection.
    """

    support_status = SupportStatus(version="12.0.0")
    ready = frozenset({"ACTIVE", "DEACTIVATED"})
    broken = frozenset({"KILLED", "DELETED", "ERROR"})

    # -- creating ------------------------------------------------------------------------------------

    def create_args(self) -> JsonMap:
        # Protect the image only after its creation: a failed attempt has to be deletable.
        args = {**self.sent(), **texts(self.props.extra_properties)}
        args.pop("protected", None)
        return args

    def check_create_complete(self, token: Json) -> bool | float:
        thing = self._seen = self.fetch()
        status = self.status_of(thing)
        if status == "QUEUED":
            if "imports" not in self.data:
                with suppress(CloudConflict):  # an earlier import request was accepted, but its answer was lost
                    self.service("import_image", self.physical_id, method="web-download", uri=self.props.location)
                self.data["imports"] = True
            elif cast(JsonMap, thing.get("properties") or {}).get("os_glance_failed_import"):
                # After a failed download the service resets the image to "queued" and waits for another import.
                raise WentToError(f"the image service could not fetch {self.props.location}")
            return False
        if not self.is_ready():
            return False
        if self.props.protected and not thing.get("protected"):
            self.service("update_image", self.physical_id, protected=True)
        self._share()
        self._activate(status)
        return True

    def _activate(self, status: str) -> None:
        if self.props.active is not (status == "ACTIVE"):
            self.service("reactivate_image" if self.props.active else "deactivate_image", self.physical_id)

    def _share(self) -> None:
        """Share the image with exactly the projects in `members`."""
        if self.props.members is None and "members" not in (self.facts.before or {}):
            return
        answer = cast(list[JsonMap], self.service("members", self.physical_id))
        there, wanted = [str(one["member"]) for one in answer], self.props.members or []
        for member in wanted:
            if member not in there:
                with suppress(CloudConflict):
                    self.service("add_member", self.physical_id, member=member)
        for member in there:
            if member not in wanted:
                self.service("remove_member", member, self.physical_id)

    # -- updating ------------------------------------------------------------------------------------

    def update_args(self, change: Change) -> JsonMap:
        args = self.sent(change.changed - {"tags"})
        if "extra_properties" in change.changed:
            after = texts(self.props.extra_properties)
            before = cast(JsonMap, change.before.get("extra_properties") or {})
            args.update({key: None for key in before if key not in after}, **after)
        return args

    def handle_update(self, change: Change) -> Json:
        super().handle_update(change)
        if "tags" in change.changed:
            there = cast(list[Json], self.fetch().get("tags") or [])
            wanted = self.props.tags or []
            for tag in there:
                if tag not in wanted:
                    with suppress(CloudNotFound):
                        self.service("remove_tag", self.physical_id, tag)
            for tag in wanted:
                self.service("add_tag", self.physical_id, tag)
        if "members" in change.changed:
            self._share()
        if "active" in change.changed:
            self._activate(self.status_of(self.fetch()))
        return None

    # -- deleting ------------------------------------------------------------------------------------

    def check_delete_complete(self, token: Json) -> bool | float:
        return True  # the service deletes images at once

    # -- how it is -----------------------------------------------------------------------------------

    def live_properties(self) -> Mapping[str, Json] | None:
        live = super().live_properties()
        if live is None:
            return None
        found, given = dict(live), self.facts.properties
        thing = self.fetch()
        if given.get("active") is not None:
            found["active"] = self.status_of(thing) == "ACTIVE"
        if given.get("extra_properties"):
            asked = cast(JsonMap, given["extra_properties"])
            own = cast(JsonMap, thing.get("properties") or {})  # the service adds properties of its own
            seen = {key: own[key] for key in asked if key in own}
            found["extra_properties"] = asked if seen == texts(asked) else seen
        return found

    # -- the maintenance lock ------------------------------------------------------------------------

    def handle_lock(self) -> Json:
        self.data.setdefault("was_protected", bool(self.fetch().get("protected")))
        return None

    def check_lock_complete(self, token: Json) -> bool | float:
        self.service("update_image", self.physical_id, protected=True)
        return True

    def handle_unlock(self) -> Json:
        was = self.data.get("was_protected")
        if was is not None:
            self.service("update_image", self.physical_id, protected=was)
        return None

    def check_unlock_complete(self, token: Json) -> bool | float:
        self.data.pop("was_protected", None)
        return True
