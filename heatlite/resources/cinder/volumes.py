"""Volumes."""

from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from heatlite.clients.cloud import CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap, dump
from heatlite.plugin import Change, ReplaceResource, Schema, prop
from heatlite.plugin.cloud import WentToError
from heatlite.resources.cinder import attaching
from heatlite.resources.cinder.base import CinderVolume

SETTLED = ("available", "in-use")
AT_SERVERS = ("in-use", "attaching", "detaching", "reserved")
"""What a volume is while a server has it."""
OWN_METADATA = ("readonly", "attached_mode", "src_backup_id")
"""What the service shows among the metadata that it was given."""


WITHOUT_SERVERS = ("extend", "restore", "set_readonly")
"""Steps for which a volume has to be taken from its servers (Heat)."""


class VolumeProps(Schema):
    availability_zone: str | None = prop(doc="Where it is to lie.")
    size: int | None = prop(update=True, between=(1, None), doc="Its size in GiB; it may grow in place.")
    snapshot_id: str | None = prop(find="cinder.snapshot", doc="The volume snapshot it begins as, by name or id.")
    backup_id: str | None = prop(
        update=True, find="cinder.backup", doc="The backup it begins as, by name or id; a new one is restored in place."
    )
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="What it is for.")
    volume_type: str | None = prop(update=True, find="cinder.vtype", doc="Its volume type, by name or id.")
    metadata: dict[str, Json] = prop({}, update=True, api="", doc="Keys and values that are kept with it.")
    imageRef: str | None = prop(hidden=True, means="image", api="", doc="An old name of image.")  # noqa: N815 - Heat's
    image: str | None = prop(find="glance.image", api="imageRef", doc="The image it begins as, by name or id.")
    source_volid: str | None = prop(find="cinder.volume", doc="The volume it begins as a copy of, by name or id.")
    scheduler_hints: dict[str, Json] | None = prop(
        api="OS-SCH-HNT:scheduler_hints", doc="What the service is to mind when it looks for a place."
    )
    read_only: bool | None = prop(update=True, api="", doc="Whether servers may only read it.")
    multiattach: bool = prop(False, hidden=True, api="", doc="Without effect: what a volume bears, its type says.")

    def fault(self) -> str | None:
        sources = [name for name in SOURCES if getattr(self, name) is not None]
        if self.backup_id is not None:
            return None
        if len(sources) > 1:
            return f"only one of {', '.join(SOURCES)} may be given, not {', '.join(sources)}"
        if self.size is None and not {"snapshot_id", "source_volid"} & set(sources):
            return "size is needed, unless backup_id, snapshot_id or source_volid says it"
        return None


SOURCES = ("snapshot_id", "source_volid", "image")


class Volume(CinderVolume[VolumeProps], type="OS::Cinder::Volume"):
    """A block storage volume, which servers can have attached.

    A size, a restored backup and the read-only flag change in place; a volume that is attached is taken from its
    servers meanwhile, and given back. From a server that boots from it nobody can take it: then it grows where it is, a
    backup becomes a new volume, and the read-only flag cannot change. With ``deletion_policy: Snapshot`` a backup of it
    is made before it is deleted; snapshots of the stack are backups, too. A maintenance lock of level ``all`` makes it
    read-only, except while it is attached: the service does not allow that, and the reason of the lock says so.
    """

    shown = {
        "availability_zone": (str, "Where it lies."),
        "size": (str, "Its size in GiB."),
        "snapshot_id": (str, "The volume snapshot it began as."),
        "status": (str, "What the service says it is, such as available or in-use."),
        "volume_type": (str, "The name of its volume type."),
        "bootable": (str, "Whether a server can start from it."),
        "created_at": (str, "When it was made."),
        "encrypted": (str, "Whether what is on it is encrypted."),
        "source_volid": (str, "The volume it began as a copy of."),
    }

    def attribute(self, name: str) -> Json:
        value = super().attribute(name)
        return value if value is None or isinstance(value, str) or name not in self.shown else str(value)

    def attr_display_name(self) -> str | None:
        """Its name."""
        return cast(str | None, self.seen.get("name"))

    def attr_display_description(self) -> str | None:
        """What it is for."""
        return cast(str | None, self.seen.get("description"))

    def attr_metadata(self) -> str:
        """Keys and values that are kept with it, as JSON."""
        return dump(self.seen.get("metadata") or {})

    def attr_metadata_values(self) -> dict[str, Json]:
        """Keys and values that are kept with it."""
        return cast(dict[str, Json], self.seen.get("metadata") or {})

    def attr_attachments(self) -> str:
        """Which servers have it, as JSON; attachments_list gives it as a list."""
        return dump(self.seen.get("attachments") or [])

    def attr_attachments_list(self) -> list[Json]:
        """Which servers have it."""
        return cast(list[Json], self.seen.get("attachments") or [])

    def attr_multiattach(self) -> bool:
        """Whether several servers may have it."""
        return bool(self.seen.get("multiattach"))

    # -- creating ------------------------------------------------------------------------------------

    def create_args(self) -> JsonMap:
        args = self.sent()
        if self.props.metadata:
            args["metadata"] = texts(self.props.metadata)
        if self.props.backup_id is not None:  # whatever the volume that it is of began as
            for source in ("snapshot_id", "source_volid", "imageRef"):
                args.pop(source, None)
        return args

    def check_create_complete(self, token: Json) -> bool | float:
        if not self.is_ready():
            return False
        if self.props.backup_id is not None and self.seen["bootable"] != "true" and self._should_boot():
            self.service("set_volume_bootable_status", self.physical_id, True)
        if self.props.read_only is not None and _is_read_only(self.seen) is not self.props.read_only:
            self.service("set_volume_readonly", self.physical_id, self.props.read_only)
        return True

    def _should_boot(self) -> bool:
        """Whether a server can start from what is in the backup: that tells an image, or the volume that it is of."""
        if self.props.image is not None:
            return True
        with suppress(CloudNotFound):
            of = self.map(self.service("get_backup", self.props.backup_id))["volume_id"]
            return bool(self.map(self.service("get_volume", of))["bootable"] == "true")
        return False

    # -- updating ------------------------------------------------------------------------------------

    def needs_replace_failed(self) -> bool:
        """Not where the volume itself is well (Heat)."""
        try:
            return self.status_of(self.fetch()) in ("ERROR", "DELETING", "ERROR_DELETING")
        except CloudNotFound:
            return True

    def needs_replace(self, change: Change) -> bool:
        """A volume cannot be made to have no type, nor shrink; but a backup of a smaller one becomes a new volume."""
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
            "set_readonly": "read_only" in change.changed,
        }
        steps = [step for step, is_wanted in wanted.items() if is_wanted]
        parts = "joined" in self.data or not set(steps).isdisjoint(WITHOUT_SERVERS)
        server = attaching.booted_by(self.cloud, thing) if parts else None
        if "restore" in steps and (server is not None or self.status_of(thing) == "ERROR_RESTORING"):
            raise ReplaceResource  # the service restores only what is available
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
                self.data.pop("was_read_only", None)  # what an unlock could not put back
                self.service("set_volume_readonly", self.physical_id, bool(self.props.read_only))
            case _:
                self.service("restore_backup", self.props.backup_id, self.physical_id)

    def _is_of_type(self, thing: JsonMap) -> bool:
        """The name may have been another type's a moment ago, so nothing that is remembered will do."""
        kind = self.map(self.service("get_type", self.props.volume_type))
        return kind["name"] == thing["volume_type"]

    # An update in place is a list of steps in `data`: the first of them is begun, waited for and struck off. Which
    # servers the volume is taken from meanwhile is kept there too, so that they have it again whatever happens.

    def _plan(self, steps: list[str], stays: bool) -> None:
        """Have `check_update_complete` take these steps; those that a volume in use does not bear, without its
        servers, unless it `stays` where it is."""
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
        """Take a step, or see whether it is done. Raises CloudError where it came to nothing."""
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
        for server, device in cast(list[list[str]], self.data["joined"]):
            if self.data.get("asked") != f"join {server}":
                attaching.attach(self.cloud, server, str(self.physical_id), device)
                self.data["asked"] = f"join {server}"
                return False
            if not attaching.is_attached(self.cloud, server, str(self.physical_id)):
                return False
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
            self.service("delete_backup", backup)

    @classmethod
    def restored(cls, properties: JsonMap, saved: JsonMap) -> JsonMap:
        """The backup that the snapshot of the stack has made is restored."""
        return {**properties, "backup_id": saved["backup_id"]} if saved.get("backup_id") else properties

    # -- how it is -----------------------------------------------------------------------------------

    def live_properties(self) -> Mapping[str, Json] | None:
        live = super().live_properties()
        if live is None:
            return None
        found, given = dict(live), self.facts.properties
        if given.get("volume_type") is not None and self._is_of_type(self.seen):
            found["volume_type"] = given["volume_type"]
        if given.get("read_only") is not None:
            found["read_only"] = _is_read_only(self.seen)
        if given.get("metadata"):
            own = cast(JsonMap, self.seen.get("metadata") or {})
            seen = {key: value for key, value in own.items() if key not in OWN_METADATA}
            asked = cast(JsonMap, given["metadata"])
            found["metadata"] = asked if seen == texts(asked) else seen
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
        """Where the flag could not be put back, what it was is known to the next unlock."""
        if token is not False:
            self.data.pop("was_read_only", None)
        return True

    def _flag(self, read_only: bool) -> bool:
        """Make it read-only, or writable; whether it is so then. The service refuses that while a server has it."""
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
    """Why a volume of a size, if it is known, cannot have another one; "": it can."""
    if not (isinstance(before, int) and isinstance(after, int) and after < before):
        return ""
    return f"a volume cannot shrink: it has {before} GiB, and size is {after}"


def texts(values: Mapping[str, Json]) -> JsonMap:
    """Values as the service keeps them: text as it is, everything else as JSON."""
    return {key: value if isinstance(value, str) else dump(value) for key, value in values.items()}


def _is_read_only(thing: JsonMap) -> bool:
    metadata = thing.get("metadata")
    return isinstance(metadata, dict) and str(metadata.get("readonly", "")).lower() == "true"
