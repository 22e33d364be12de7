"""Volumes."""

from collections.abc import Mapping
from typing import ClassVar, TypeVar, cast

from heatlite.clients.cloud import CloudError, CloudNotFound, CloudUnavailable
from heatlite.core.json import Json, JsonMap, dump
from heatlite.plugin import Change, CloudResource, Schema, ServiceConflict, prop
from heatlite.plugin.cloud import WentToError
from heatlite.resources.cinder import attaching

P_co = TypeVar("P_co", bound=Schema, covariant=True)

SETTLED = ("available", "in-use")
AT_SERVERS = ("in-use", "attaching", "detaching", "reserved")
"""What a volume is while a server has it."""
NO_BACKUPS = "cinder-backup"
"""What the service names in its 503 where it has nobody who makes backups: to wait for that is in vain."""
OWN_METADATA = ("readonly", "attached_mode", "src_backup_id")
"""What the service shows among the metadata that it was given."""


class CinderVolume(CloudResource[P_co]):
    """What volumes are by whatever name a template knows them: made, kept, saved and removed."""

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
            raise ServiceConflict(str(error)) from error
        return None

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
    servers meanwhile, and given back. With ``deletion_policy: Snapshot`` a backup of it is made before it is deleted;
    snapshots of the stack are backups, too. A maintenance lock of level ``all`` makes it read-only, except while it is
    attached: the service does not allow that, and the reason of the lock says so.
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
        return args

    def check_create_complete(self, token: Json) -> bool | float:
        if not self.is_ready():
            return False
        if self.props.read_only is not None and _is_read_only(self.seen) is not self.props.read_only:
            self.service("set_volume_readonly", self.physical_id, self.props.read_only)
        return True

    # -- updating ------------------------------------------------------------------------------------

    def needs_replace_failed(self) -> bool:
        """Not where the volume itself is well (Heat)."""
        try:
            return self.status_of(self.fetch()) in ("ERROR", "DELETING", "ERROR_DELETING")
        except CloudNotFound:
            return True

    def needs_replace(self, change: Change) -> bool:
        """A volume cannot be made to have no type."""
        return "volume_type" in change.changed and change.after.get("volume_type") is None

    def handle_update(self, change: Change) -> Json:
        thing = self.fetch()
        size = self.props.size
        if "size" in change.changed and size is not None and size < cast(int, thing["size"]):
            text = f"a volume cannot shrink: it has {thing['size']} GiB, and size is {size}"
            raise CloudError("block_storage.extend_volume", text)
        args = self.sent(change.changed & {"name", "description"})
        if args.get("name", "") is None:
            args["name"] = self.physical_name
        if args:
            self.service("update_volume", self.physical_id, **args)
        if "metadata" in change.changed:
            self._set_metadata(cast(JsonMap, thing.get("metadata") or {}))
        wanted = {
            "restore": "backup_id" in change.changed and self.props.backup_id is not None,
            "extend": "size" in change.changed and size is not None,
            "retype": "volume_type" in change.changed,
            "set_readonly": "read_only" in change.changed,
        }
        self._plan([step for step, is_wanted in wanted.items() if is_wanted])
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
        return self._finders.id_of("cinder.vtype", str(thing["volume_type"])) == self.props.volume_type

    # An update in place is a list of steps in `data`: the first of them is begun, waited for and struck off. Which
    # servers the volume is taken from meanwhile is kept there too, so that they have it again whatever happens.

    def _plan(self, steps: list[str]) -> None:
        """Have `check_update_complete` take these steps; those that a volume in use does not bear, without its
        servers."""
        self.data["steps"] = cast(Json, steps)
        self.data.pop("asked", None)
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


def texts(values: Mapping[str, Json]) -> JsonMap:
    """Values as the service keeps them: text as it is, everything else as JSON."""
    return {key: value if isinstance(value, str) else dump(value) for key, value in values.items()}


def _is_read_only(thing: JsonMap) -> bool:
    metadata = thing.get("metadata")
    return isinstance(metadata, dict) and str(metadata.get("readonly", "")).lower() == "true"
