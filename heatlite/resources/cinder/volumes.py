"""The type of volumes."""

from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from heatlite.clients.cloud import CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap, dump
from heatlite.plugin import Change, ReplaceResource, Schema, prop
from heatlite.plugin.cloud import UNFINISHED, WentToError
from heatlite.plugin.naming import keys_as_given
from heatlite.resources.cinder import attaching
from heatlite.resources.cinder.base import CinderVolume

SETTLED = ("available", "in-use")
AT_SERVERS = ("in-use", "attaching", "detaching", "reserved")
"""States of a volume that a server uses."""
OWN_METADATA = ("readonly", "attached_mode", "src_backup_id")
"""Metadata keys that the service adds to the user's own."""


WITHOUT_SERVERS = ("extend", "restore", "set_readonly")
"""Update steps for which a volume must be detached from its servers, as in Heat."""


class VolumeProps(Schema):
    availability_zone: str | None = prop(blank=True, doc="Its availability zone.")
    size: int | None = prop(update=True, between=(1, None), doc="Its size in GiB; it may grow in place.")
    snapshot_id: str | None = prop(find="cinder.snapshot", doc="The volume snapshot to create it from, by name or id.")
    backup_id: str | None = prop(
        update=True,
        find="cinder.backup",
        doc="The backup to create it from, by name or id; a changed one is restored in place.",
    )
    name: str | None = prop(blank=True, update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    volume_type: str | None = prop(update=True, find="cinder.vtype", doc="Its volume type, by name or id.")
    metadata: dict[str, Json] = prop({}, update=True, api="", doc="Its metadata.")
    imageRef: str | None = prop(hidden=True, means="image", api="", doc="An old name of image.")  # noqa: N815 - Heat's
    image: str | None = prop(find="glance.image", api="imageRef", doc="The image to create it from, by name or id.")
    source_volid: str | None = prop(find="cinder.volume", doc="The volume to copy, by name or id.")
    scheduler_hints: dict[str, Json] | None = prop(api="OS-SCH-HNT:scheduler_hints", doc="Hints for the scheduler.")
    read_only: bool | None = prop(update=True, api="", doc="True if servers may only read it.")
    multiattach: bool = prop(False, hidden=True, api="", doc="Without effect: the volume type decides.")

    def fault_sources(self) -> str | None:
        if len(sources := self.given(*SOURCES)) > 1 and self.backup_id is None:
            return f"only one of {', '.join(SOURCES)} may be given, not {', '.join(sources)}"
        return None

    def fault_size(self) -> str | None:
        if self.size is None and self.backup_id is None and self.snapshot_id is None and self.source_volid is None:
            return "size is needed, unless backup_id, snapshot_id or source_volid says it"
        return None


SOURCES = ("snapshot_id", "source_volid", "image")


class Volume(CinderVolume[VolumeProps], type="OS::Cinder::Volume"):
    """A block storage volume that servers can attach.

    Changes of the size, of the backup to restore and of the read-only flag happen in place. An attached volume is
    detached from its servers during such a change and attached again afterwards. A volume that a server boots from
    cannot be detached: it is extended in place, a backup to restore replaces it, and the read-only flag cannot change.
    With ``deletion_policy: Snapshot`` the volume is backed up before it is deleted; snapshots of the stack are backups,
    too. A maintenance lock of level ``all`` makes the volume read-only. The service does not allow that while the
    volume is attached; the reason of the lock then says so.
    """

    shown = {
        "availability_zone": (str, "Its availability zone."),
        "size": (str, "Its size in GiB."),
        "snapshot_id": (str, "The volume snapshot that it was created from."),
        "status": (str, "Its state in the service, such as available or in-use."),
        "volume_type": (str, "The name of its volume type."),
        "bootable": (str, "True if a server can boot from it."),
        "created_at": (str, "The time of its creation."),
        "encrypted": (str, "True if it is encrypted."),
        "source_volid": (str, "The volume that it was copied from."),
    }

    def attribute(self, name: str) -> Json:
        value = super().attribute(name)
        return value if value is None or isinstance(value, str) or name not in self.shown else str(value)

    def attr_display_name(self) -> str | None:
        """Its name."""
        return cast(str | None, self.fetched.get("name"))

    def attr_display_description(self) -> str | None:
        """Its description."""
        return cast(str | None, self.fetched.get("description"))

    def attr_metadata(self) -> str:
        """Its metadata, as JSON."""
        return dump(self.fetched.get("metadata") or {})

    def attr_metadata_values(self) -> dict[str, Json]:
        """Its metadata."""
        return cast(dict[str, Json], self.fetched.get("metadata") or {})

    def attr_attachments(self) -> str:
        """Its attachments to servers, as JSON; attachments_list has them as a list."""
        return dump(self.fetched.get("attachments") or [])

    def attr_attachments_list(self) -> list[Json]:
        """Its attachments to servers."""
        return cast(list[Json], self.fetched.get("attachments") or [])

    def attr_multiattach(self) -> bool:
        """True if several servers may attach it."""
        return bool(self.fetched.get("multiattach"))

    # -- creating ------------------------------------------------------------------------------------

    def create_args(self) -> JsonMap:
        args = self.sent()
        if self.props.metadata:
            args["metadata"] = texts(self.props.metadata)
        if self.props.backup_id is not None:  # the backup replaces the source of the original volume
            for source in ("snapshot_id", "source_volid", "imageRef"):
                args.pop(source, None)
        return args

    def handle_create(self) -> Json:
        if self.props.backup_id is not None or self.props.read_only is not None:
            self.data[UNFINISHED] = True
        return super().handle_create()

    def check_create_complete(self, token: Json) -> bool | float:
        if not self.is_ready():
            return False
        if self.props.backup_id is not None and self.fetched["bootable"] != "true" and self._should_boot():
            self.service("set_volume_bootable_status", self.physical_id, True)
        if self.props.read_only is not None and _is_read_only(self.fetched) is not self.props.read_only:
            self.service("set_volume_readonly", self.physical_id, self.props.read_only)
        self.data.pop(UNFINISHED, None)
        return True

    def _should_boot(self) -> bool:
        """True if a server can boot from the backup.

        An image is given, or the backed-up volume is bootable.
        """
        if self.props.image is not None:
            return True
        with suppress(CloudNotFound):
            of = self.map(self.service("get_backup", self.props.backup_id))["volume_id"]
            return bool(self.map(self.service("get_volume", of))["bootable"] == "true")
        return False

    # -- updating ------------------------------------------------------------------------------------

    def needs_replace_failed(self) -> bool:
        """Return False if the volume itself is healthy and finished, as in Heat."""
        if UNFINISHED in self.data:
            return True
        try:
            return self.status_of(self.fetch()) in ("ERROR", "DELETING", "ERROR_DELETING")
        except CloudNotFound:
            return True

    def needs_replace(self, change: Change) -> bool:
        """True if the type is removed, or a backup is restored to a smaller size.

        A volume cannot lose its type, nor shrink.
        """
        if "volume_type" in change.changed and change.after.get("volume_type") is None:
            return True
        restores = "backup_id" in change.changed and change.after.get("backup_id") is not None
        return restores and bool(_shrinking(change.before.get("size"), change.after.get("size")))

    def objection(self, change: Change) -> str:
        return _shrinking(change.before.get("size"), change.after.get("size"))

    def handle_update(self, change: Change) -> Json:
        thing = self.fetch()
        size = self.props.size
        text = _shrinking(thing["size"], size) if "size" in change.changed else ""
        if text:
            raise CloudError("block_storage.extend_volume", text)
        wanted = {
            "restore": "backup_id" in change.changed and self.props.backup_id is not None,
            "extend": "size" in change.changed and size is not None,
            "retype": "volume_type" in change.changed,
            "set_readonly": "read_only" in change.changed and not self._is_done("set_readonly", thing, asked=False),
        }
        steps = [step for step, is_wanted in wanted.items() if is_wanted]
        parts = "joined" in self.data or not set(steps).isdisjoint(WITHOUT_SERVERS)
        server = attaching.booted_by(self.cloud, thing) if parts else None
        if "restore" in steps and (server is not None or self.status_of(thing) == "ERROR_RESTORING"):
            raise ReplaceResource  # the service restores only to available volumes
        if server is not None and "set_readonly" in steps:
            text = f"read_only cannot change while server {server} boots from volume {self.physical_id}"
            raise CloudError("block_storage.set_volume_readonly", f"{text}: leave it as it was, and update again")
        args = self.sent(change.changed & {"name", "description"})
        if args.get("name", "") is None:
            args["name"] = self.physical_name
        if args:
            self.service("update_volume", self.physical_id, **args)
        if "metadata" in change.changed:
            self._set_metadata(cast(JsonMap, thing.get("metadata") or {}))
        self._plan(steps, stays=server is not None)
        return None

    def _set_metadata(self, before: JsonMap) -> None:
        after = texts(self.props.metadata)
        dropped = [key for key in before if key not in after and key not in OWN_METADATA]
        if dropped:
            self.service("delete_volume_metadata", self.physical_id, cast(Json, dropped))
        if after:
            self.service("set_volume_metadata", self.physical_id, **after)

    def _is_done(self, step: str, thing: JsonMap, asked: bool) -> bool:
        match step:
            case "extend":
                return cast(int, thing["size"]) >= cast(int, self.props.size)
            case "retype":
                return self._is_of_type(thing)
            case "set_readonly":
                return _is_read_only(thing) is bool(self.props.read_only)
            case _:
                return asked

    def _begin(self, step: str) -> None:
        match step:
            case "extend":
                self.service("extend_volume", self.physical_id, self.props.size)
            case "retype":
                self.service("retype_volume", self.physical_id, self.props.volume_type)
            case "set_readonly":
                self.data.pop("was_read_only", None)  # left by an unlock that could not restore the flag
                self.service("set_volume_readonly", self.physical_id, bool(self.props.read_only))
            case _:
                self.service("restore_backup", self.props.backup_id, self.physical_id)

    def _is_of_type(self, thing: JsonMap) -> bool:
        """True if the volume has the wanted type.

        The service names the type, and names can move to another type, so the name is read each time.
        """
        kind = self.map(self.service("get_type", self.props.volume_type))
        return kind["name"] == thing["volume_type"]

    # An update in place is a list of steps in `data`: the first is begun, awaited and removed. The servers
    # that the volume was detached from are kept there, too, so that a retry after a crash attaches it again.

    def _plan(self, steps: list[str], stays: bool) -> None:
        """Store the steps for `check_update_complete`.

        Detach the volume from its servers during steps that need that, unless it `stays` attached.
        """
        self.data["steps"] = cast(Json, steps)
        self.data.pop("asked", None)
        if stays:
            self.data.pop("joined", None)
            return
        joined = [[one["server_id"], one["device"]] for one in attaching.attachments(self.fetch())]
        if joined and not set(steps).isdisjoint(WITHOUT_SERVERS):
            self.data.setdefault("joined", cast(Json, joined))
        if "joined" in self.data:
            self.data["steps"] = ["part", *steps, "join"]

    def check_update_complete(self, token: Json) -> bool | float:
        steps = cast(list[str], list(cast(list[Json], self.data.get("steps", []))))
        while steps:
            if not self._step(steps[0]):
                return False
            steps.pop(0)
            self.data["steps"] = cast(Json, steps)
            self.data.pop("asked", None)
        return True

    def _step(self, step: str) -> bool:
        """Begin a step, or check if it is done. Raises CloudError if it failed."""
        if step in ("part", "join"):
            return self._part() if step == "part" else self._join()
        thing = self.fetch()
        if self.status_of(thing) in self.broken:
            raise WentToError(self.why(thing, step))
        if thing["status"] not in SETTLED:
            return False
        asked = self.data.get("asked") == step
        if self._is_done(step, thing, asked):
            return True
        if asked:
            raise CloudError(f"block_storage.{step}_volume", f"volume {self.physical_id} is as it was before")
        self._begin(step)
        self.data["asked"] = step
        return False

    def _part(self) -> bool:
        joined = cast(list[list[str]], self.data["joined"])
        if self.data.get("asked") != "part":
            for server, _ in joined:
                attaching.detach(self.cloud, server, str(self.physical_id))
            self.data["asked"] = "part"
            return False
        return all(attaching.is_detached(self.cloud, server, str(self.physical_id)) for server, _ in joined)

    def _join(self) -> bool:
        """Attach the volume to those of its servers that are still there."""
        while joined := cast(list[list[str]], self.data["joined"]):
            server, device = joined[0]
            if self.data.get("asked") != f"join {server}":
                try:
                    attaching.attach(self.cloud, server, str(self.physical_id), device)
                except CloudNotFound:
                    self.fetch()  # the volume is there, so the server is gone
                else:
                    self.data["asked"] = f"join {server}"
                    return False
            elif not attaching.is_attached(self.cloud, server, str(self.physical_id)):
                return False
            self.data["joined"] = cast(Json, joined[1:])
        del self.data["joined"]
        return True

    # -- snapshots of the stack ----------------------------------------------------------------------

    def handle_snapshot(self, name: str) -> Json:
        backup = self.data["backup_id"] = self._back_up(name)
        return backup

    def check_snapshot_complete(self, token: Json) -> bool | float:
        return self._is_backed_up(str(token))

    def handle_delete_snapshot(self) -> None:
        backup = self.data.get("backup_id")
        if backup is not None:
            with suppress(CloudNotFound):
                self.service("delete_backup", backup)

    @classmethod
    def restored(cls, properties: JsonMap, saved: JsonMap) -> JsonMap:
        """Return the properties with the snapshot's backup as the one to restore."""
        return {**properties, "backup_id": saved["backup_id"]} if saved.get("backup_id") else properties

    # -- how it is -----------------------------------------------------------------------------------

    def is_as_given(self, name: str, live: Json) -> bool:
        if name == "volume_type":
            return self.is_called(name, live, "block_storage.get_type")
        return super().is_as_given(name, live)

    def live_properties(self) -> Mapping[str, Json] | None:
        live = super().live_properties()
        if live is None:
            return None
        found, given = dict(live), self.facts.properties
        if given.get("read_only") is not None:
            found["read_only"] = _is_read_only(self.fetched)
        if given.get("metadata"):
            own = cast(JsonMap, self.fetched.get("metadata") or {})
            metadata = {key: value for key, value in own.items() if key not in OWN_METADATA}
            asked = cast(JsonMap, given["metadata"])
            found["metadata"] = keys_as_given(asked, metadata, is_text_of)
        return found

    # -- the maintenance lock ------------------------------------------------------------------------

    def handle_lock(self) -> Json:
        self.data.setdefault("was_read_only", _is_read_only(self.fetch()))
        return None

    def check_lock_complete(self, token: Json) -> bool | float:
        self._flag(True)
        return True

    def handle_unlock(self) -> Json:
        was = self.data.get("was_read_only")
        return None if was is None else self._flag(bool(was))

    def check_unlock_complete(self, token: Json) -> bool | float:
        """Forget the original flag if it was restored: otherwise the next unlock needs it."""
        if token is not False:
            self.data.pop("was_read_only", None)
        return True

    def _flag(self, read_only: bool) -> bool:
        """Set or clear the read-only flag. True if the volume has it as wanted.

        The service refuses the change while a server has the volume.
        """
        thing = self.fetch()
        if _is_read_only(thing) is read_only:
            return True
        if thing["status"] in AT_SERVERS:
            why = f"volume {self.physical_id} is {thing['status']}, and the service changes only one that is available"
            stays = "writable, though it is locked" if read_only else "read-only until an unlock when no server has it"
            self.note = f"{why}: it stays {stays}"
            return False
        self.service("set_volume_readonly", self.physical_id, read_only)
        return True


def _shrinking(before: object, after: object) -> str:
    """Return the reason why a volume cannot change its size.

    "" if it can, or if a size is unknown.
    """
    if not (isinstance(before, int) and isinstance(after, int) and after < before):
        return ""
    return f"a volume cannot shrink: it has {before} GiB, and size is {after}"


def texts(values: Mapping[str, Json]) -> JsonMap:
    """Return metadata as the service stores it: text unchanged, other values as JSON."""
    return {key: value if isinstance(value, str) else dump(value) for key, value in values.items()}


def is_text_of(text: Json, value: Json) -> bool:
    """Return True if the service stores a value of metadata as a text."""
    return text == (value if isinstance(value, str) else dump(value))


def _is_read_only(thing: JsonMap) -> bool:
    metadata = thing.get("metadata")
    return isinstance(metadata, dict) and str(metadata.get("readonly", "")).lower() == "true"
