"""The type of servers."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

from heatlite.clients.cloud import CloudError, CloudNotFound
from heatlite.core.errors import NotFound
from heatlite.core.json import Json, JsonMap, dump
from heatlite.plugin import Change, CloudResource, ReplaceResource, Resource, Schema, ServiceConflict, prop
from heatlite.plugin.signing import Node
from heatlite.resources.neutron.base import asked
from heatlite.resources.nova import disks, networks, user_data
from heatlite.resources.nova.disks import Disk, DiskV2
from heatlite.resources.nova.networks import Nic, Ports
from heatlite.resources.software.targets import TargetProps, collect_config, polls_heat, target_metadata

CONSOLES: Final = ("novnc", "xvpvnc", "spice-html5", "rdp-html5", "serial", "webmks")
GONE: Final = frozenset({"DELETED", "SOFT_DELETED"})
IDLE: Final = frozenset({"ACTIVE", "SHUTOFF"})
TASK: Final = "OS-EXT-STS:task_state"
VOLUMES: Final = "os-extended-volumes:volumes_attached"
GOES_WITH_IT: Final = "delete_on_termination"


class ServerProps(TargetProps):
    name: str | None = prop(update=True, api="", doc="Its name.")
    image: str | None = prop(
        update=True,
        find="glance.image",
        api="",
        doc="The image that it boots, by name or id; default: it boots from a volume.",
    )
    image_update_policy: str = prop(
        "REBUILD",
        update=True,
        one_of=("REBUILD", "REPLACE", "REBUILD_PRESERVE_EPHEMERAL"),
        api="",
        doc="The effect of another image: rebuild or replace the server.",
    )
    flavor: str = prop(update=True, find="nova.flavor", api="", doc="The flavor, by name or id.")
    flavor_update_policy: str = prop(
        "RESIZE",
        update=True,
        one_of=("RESIZE", "REPLACE"),
        api="",
        doc="The effect of another flavor: resize or replace the server.",
    )
    key_name: str | None = prop(find="nova.keypair", doc="The key pair for logins.")
    admin_pass: str | None = prop(update=True, api="adminPass", secret=True, doc="The administrator's password.")
    admin_user: str | None = prop(hidden=True, api="", doc="The user created at its first boot.")
    availability_zone: str | None = prop(doc="Its availability zone.")
    security_groups: list[Json] = prop([], api="", doc="The security groups of its ports, by names or ids.")
    networks: list[Nic] | None = prop(update=True, api="", doc="Its networks; default: the only network.")
    block_device_mapping: list[Disk] | None = prop(api="", doc="Its volumes.")
    block_device_mapping_v2: list[DiskV2] | None = prop(api="", doc="Its disks.")
    config_drive: bool | None = prop(doc="True if it gets its user data and metadata on a config drive.")
    diskConfig: str | None = prop(  # noqa: N815 - Heat's name
        one_of=("AUTO", "MANUAL"), api="OS-DCF:diskConfig", doc="The partitioning of its disk."
    )
    metadata: dict[str, Json] = prop({}, update=True, api="", doc="Its metadata in the compute service.")
    tags: list[str] | None = prop(update=True, doc="Its tags.")
    scheduler_hints: dict[str, Json] | None = prop(api="", doc="Hints for the scheduler.")
    reservation_id: str | None = prop(api="", doc="Its reservation: a hint for the scheduler.")
    personality: dict[str, Json] = prop({}, api="", doc="Files for its first boot, by path.")
    user_data: str = prop(
        "", update=True, api="", doc="Instructions for its first boot: a text, or the id of a software config."
    )
    user_data_format: str = prop(
        "HEAT_CFNTOOLS",
        one_of=("HEAT_CFNTOOLS", "RAW", "SOFTWARE_CONFIG"),
        api="",
        doc="The format of user_data: unchanged, or with files for heat-cfntools or the deployment agent.",
    )
    user_data_update_policy: str = prop(
        "REPLACE",
        update=True,
        one_of=("REPLACE", "IGNORE", "REBUILD"),
        api="",
        doc="The effect of another user_data: replace, ignore or rebuild.",
    )

    def fault(self) -> str | None:
        text = super().fault() or disks.fault(
            self.image, self.block_device_mapping or (), self.block_device_mapping_v2 or ()
        )
        return text or networks.fault(self.networks or ())


class Server(CloudResource[ServerProps], Node[ServerProps], type="OS::Nova::Server", kind="compute.server"):
    """A virtual machine.

    A change of the flavor resizes it and a change of the image rebuilds it, unless flavor_update_policy and
    image_update_policy say otherwise. With ``deletion_policy: Snapshot`` an image of it is created before it is
    deleted; snapshots of the stack are images, too. A maintenance lock of level ``all`` locks it in the compute
    service; the unlock restores the previous state.
    """

    # Create, resize, rebuild and delete happen in steps; no handler waits for the service. `data` holds
    # the ports (`Ports`), the remaining update steps (`todo`), and the state before a lock (`was_locked`).

    name_limit = 53
    snapshot_on_delete = True
    kept_when_well = True
    ready = frozenset({"ACTIVE"})
    broken = frozenset({"ERROR"}) | GONE
    unwell = frozenset({"SHUTOFF", "PAUSED", "SUSPENDED", "SHELVED", "SHELVED_OFFLOADED", "RESCUE"})
    after = frozenset({"OS::Neutron::Subnet"})
    joins = frozenset({"OS::Neutron::Subnet", "OS::Neutron::Trunk"})
    shown = {
        "name": (str, "Its name."),
        "accessIPv4": (str, "The IPv4 address for access to it, if one has been set."),
        "accessIPv6": (str, "The IPv6 address for access to it, if one has been set."),
        "tags": (list, "Its tags."),
    }

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:  # noqa: ARG003
        """True for the subnets of its networks, as in Heat: without them the server would have no address."""
        nics, network = own.get("networks"), asked(other, "network")
        if network is None or not isinstance(nics, Sequence):
            return False
        return any(isinstance(nic, Mapping) and network in (nic.get("network"), nic.get("uuid")) for nic in nics)

    @property
    def _ports(self) -> Ports:
        return Ports(self)

    # -- requests ------------------------------------------------------------------------------------

    def identity(self) -> JsonMap:
        given = self.facts.properties.get("name")
        return {"name": self.physical_name} if given is None else {"name": given, "description": self.physical_name}

    def create_args(self) -> JsonMap:
        props = self.props
        args = {**self.sent(), "flavorRef": props.flavor, "imageRef": props.image or "", "tags": props.tags or []}
        args["metadata"] = texts(props.metadata)
        args["networks"] = self._ports.wanted(self._specs(self.facts.properties))
        if not self._ports.nics and props.security_groups:
            args["security_groups"] = [{"name": name} for name in props.security_groups]
        text = self._user_data()
        if text:
            args["user_data"] = user_data.encoded(text)
        hints = dict(props.scheduler_hints or {})
        if props.reservation_id is not None:
            hints["reservation"] = props.reservation_id
        if hints:
            args["scheduler_hints"] = hints
        mapping = disks.mapping(props.image, props.block_device_mapping or (), props.block_device_mapping_v2 or ())
        if mapping:
            args["block_device_mapping_v2"] = mapping
        if props.personality:
            files = props.personality.items()
            args["personality"] = [{"path": path, "contents": user_data.encoded(str(text))} for path, text in files]
        return args

    def _user_data(self) -> str:
        props = self.props
        text = self._text(props.user_data)
        url = f"{self.facts.services.public_url.rstrip('/')}/v1/"
        return user_data.in_format(props.user_data_format, text, self._first_metadata(), url, props.admin_user)

    def _first_metadata(self) -> JsonMap:
        """Return the initial metadata for an agent on the server."""
        software = self.props.user_data_format == "SOFTWARE_CONFIG"
        return self.live_metadata() if software else self.metadata

    def _text(self, text_or_id: str) -> str:
        """Return the text, or the content of a software config if it is the id of one."""
        if len(text_or_id) != len("00000000-0000-0000-0000-000000000000"):
            return text_or_id
        try:
            config = self.facts.services.software.config(self.facts.project, text_or_id).config
        except NotFound:
            return text_or_id
        return config if isinstance(config, str) else dump(config)

    def _specs(self, properties: Mapping[str, object]) -> list[JsonMap]:
        """Return the networks in coerced properties, with ids instead of names."""
        given = cast(Json, properties.get("networks"))
        return cast(list[JsonMap], self.resolved({"networks": given})["networks"]) if given else []

    def _groups(self) -> list[Json] | None:
        """Return the ids of the security groups; None for the default of ports."""
        names = self.props.security_groups
        return [self._finders.id_of("neutron.security_group", str(name)) for name in names] or None

    def wants_account(self) -> bool:
        return polls_heat(self.facts) and self.facts.properties.get("user_data_format") == "SOFTWARE_CONFIG"

    # -- create --------------------------------------------------------------------------------------

    def find(self) -> str | None:
        found = super().find()
        self._cut_off = found is None
        if found is not None:
            self._ports.remember(self._specs(self.facts.properties), found)
        return found

    _cut_off = False
    """True if an earlier attempt to create it was interrupted and left no server."""

    def handle_create(self) -> Json:
        self.draw_key()
        specs = self._specs(self.facts.properties)
        if specs and specs[0].get("allocate_network") is None:
            self._ports.prepare(specs, self._groups(), self._cut_off)
        if self._ports.ready():
            self._make()
        return None

    def _make(self) -> None:
        made = self.map(self.service("create_server", **{**self.create_args(), **self.identity()}))
        self.physical_id = str(made["id"])

    def check_create_complete(self, token: Json) -> bool | float:
        if self.physical_id is not None:
            return self.is_ready()
        if self._ports.ready():
            self.physical_id = super().find()  # an earlier check may have been interrupted after the request
            if self.physical_id is None:
                self._make()
        return False

    # -- update --------------------------------------------------------------------------------------

    def needs_replace(self, change: Change) -> bool:
        changed, after = change.changed, change.after
        if "flavor" in changed and self._policy(after, "flavor_update_policy") == "REPLACE":
            return True
        if "image" in changed:
            has_image = change.before.get("image") is not None and after.get("image") is not None
            if not has_image or self._policy(after, "image_update_policy") == "REPLACE":
                return True
        return "user_data" in changed and self._policy(after, "user_data_update_policy") == "REPLACE"

    def _policy(self, properties: Mapping[str, object], name: str) -> object:
        return self.schema.fields[name].given(properties)

    def handle_update(self, change: Change) -> Json:
        self.draw_key()
        changed, props = change.changed, self.props
        todo: list[Json] = []
        if "user_data" in changed and props.user_data_update_policy == "REBUILD" or "image" in changed:
            todo.append("rebuild")
        if "flavor" in changed:
            todo.append("flavor")
        if "networks" in changed:
            before, after = self._specs(change.before), self._specs(change.after)
            self._ports.change(before, after, self._groups())
            todo.append("networks")
        else:
            self._ports.readdress()
            if not changed and not change.metadata_changed:
                todo.append("networks")  # `let_go` may have detached a port
        self.data["todo"] = todo
        if "name" in changed:
            self.service("update_server", self.physical_id, **self.identity())
        if "metadata" in changed:
            self._set_metadata(change)
        if "tags" in changed:
            self.service("set_server_tags", self.physical_id, cast(Json, props.tags or []))
        if "admin_pass" in changed and props.admin_pass is not None and "rebuild" not in todo:
            self.service("change_server_password", self.physical_id, props.admin_pass)
        return None

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other server is to have one of the same volumes."""
        return bool(disks.volumes_of(self.facts.properties) & disks.volumes_of(properties))

    def takes(self, other: Resource[Schema]) -> bool:
        """True for a volume that is deleted with the server."""
        return other.physical_id in disks.volumes_of(self.facts.properties, deleted=True)

    def let_go(self, gone: Resource[Schema]) -> None:
        """Release a trunk's parent port, or the addresses of the server's own ports in a subnet."""
        if gone.type_name == "OS::Neutron::Trunk":
            self._ports.leave(gone.facts.properties["port"])
        else:
            for user in self.facts.users():
                if user.type_name == "OS::Nova::FloatingIPAssociation":
                    user.let_go(self)
            self._ports.let_go(gone.physical_id)

    def _set_metadata(self, change: Change) -> None:
        before = cast(JsonMap, change.before.get("metadata") or {})
        gone = sorted(before.keys() - self.props.metadata.keys())
        if gone:
            with suppress(CloudNotFound):  # the keys are gone already
                self.service("delete_server_metadata", self.physical_id, cast(Json, gone))
        if self.props.metadata:
            self.service("set_server_metadata", self.physical_id, texts(self.props.metadata))

    def check_update_complete(self, token: Json) -> bool | float:
        """Take the next remaining step, once the service has finished the previous one."""
        todo = cast(list[Json], self.data.get("todo") or [])
        if not todo:
            return True
        thing = self._seen = self.fetch()
        status = self.status_of(thing)
        if status == "ERROR" and self.data.get("doing") is None and todo[0] != "rebuild" or status in GONE:
            raise CloudError("compute.get_server", f"its status is {self.why(thing, 'update')}")
        if thing.get(TASK) is not None:
            return False
        if getattr(self, f"_step_{todo[0]}")(thing, status):
            self.data["todo"], self.data["doing"] = todo[1:], None
            return len(todo) == 1
        return False

    def _step_rebuild(self, thing: JsonMap, status: str) -> bool:
        """Begin the rebuild, or check if it is done; `doing` holds the step begun."""
        if self.data.get("doing") == "rebuild":
            if status == "ERROR":
                raise CloudError("compute.rebuild_server", f"its status is {self.why(thing, 'rebuild')}")
            return status in IDLE
        if status not in IDLE and status != "ERROR":
            return False
        self.service("rebuild_server", self.physical_id, self._rebuild_image(), **self._rebuild_args())
        self.data["doing"] = "rebuild"
        return False

    def _rebuild_image(self) -> str:
        """Return the new image.

        Raises ReplaceResource for a server that boots from a volume.
        """
        if self.props.image is not None:
            return self.props.image
        raise ReplaceResource  # before 2.93 Nova cannot rebuild a volume-backed server; later it wipes the volume

    def _rebuild_args(self) -> JsonMap:
        props = self.props
        args: JsonMap = {}
        if props.image_update_policy == "REBUILD_PRESERVE_EPHEMERAL":
            args["preserve_ephemeral"] = True
        if props.admin_pass is not None:
            args["admin_password"] = props.admin_pass
        text = self._user_data() if self.data.get("anew") or props.user_data_update_policy == "REBUILD" else ""
        if text:
            args["user_data"] = user_data.encoded(text)
        return args

    def _step_flavor(self, thing: JsonMap, status: str) -> bool:
        """Resize and confirm. True if both are done."""
        if status == "VERIFY_RESIZE":
            if self.data.get("doing") != "confirm":
                self._confirm()
            return False
        if status not in IDLE:
            if status == "ERROR":
                raise CloudError("compute.resize_server", f"its status is {self.why(thing, 'resize')}")
            return False
        if self._flavor_name(thing) == self.map(self.service("get_flavor", self.props.flavor))["name"]:
            return True
        if self.data.get("doing") is not None:
            raise CloudError("compute.resize_server", f"the server has its old flavor: {self.why(thing, 'resize')}")
        self.service("resize_server", self.physical_id, self.props.flavor)
        self.data["doing"] = "flavor"
        return False

    def _confirm(self) -> None:
        self.data["doing"] = "confirm"
        try:
            self.service("confirm_server_resize", self.physical_id)
        except CloudError as error:
            if error.status not in (400, 409):
                raise
            # An interrupted attempt has confirmed it: its status will tell.

    @staticmethod
    def _flavor_name(thing: JsonMap) -> Json:
        flavor = cast(JsonMap, thing["flavor"])
        return flavor.get("original_name") or flavor.get("name")

    def _step_networks(self, _thing: JsonMap, _status: str) -> bool:
        return self._ports.changed()

    def handle_rebuild(self, change: Change) -> Json:
        """Rebuild the server.

        Raises ReplaceResource if only a new server can take the changed properties.
        """
        try:
            self.fetch()
        except CloudNotFound as error:
            raise ReplaceResource from error
        if change.changed - self.schema.updatable or self.props.image is None:
            raise ReplaceResource
        self.data["anew"] = True
        self.handle_update(change)
        todo = cast(list[Json], self.data["todo"])
        self.data["todo"] = ["rebuild", *(step for step in todo if step != "rebuild")]
        return None

    def check_rebuild_complete(self, token: Json) -> bool | float:
        done = self.check_update_complete(token)
        if done is True:
            self.data.pop("anew", None)
        return done

    # -- delete --------------------------------------------------------------------------------------

    def handle_delete(self) -> Json:
        if self.facts.properties.get("image") is None:
            self._await_snapshots()
        return super().handle_delete()

    def _await_snapshots(self) -> None:
        """Raise ServiceConflict while snapshots of the server's volumes are being deleted.

        A volume that is deleted with its server would stay forever if it still had snapshots then.
        """
        for one in cast(list[JsonMap], self.seen.get(VOLUMES) or []):
            found = self.cloud.call("block_storage.snapshots", volume_id=one["id"]) if one.get(GOES_WITH_IT) else None
            left = cast(list[JsonMap], found or [])
            if left and all(snapshot["status"] == "deleting" for snapshot in left):
                raise ServiceConflict(f"a snapshot of volume {one['id']}, which goes with the server, is being deleted")

    def handle_snapshot_delete(self) -> Json:
        if self.physical_id is None or self.status_of(self.seen) not in IDLE:
            return self.handle_delete()
        self._save(self.physical_name)
        return {"image": self.data["snapshot_image_id"]}

    def check_delete_complete(self, token: Json) -> bool | float:
        if isinstance(token, dict) and not self.data.get("saved"):
            if not self._is_saved(str(token["image"])):
                return False
            self.data["saved"] = True
            self.handle_delete()
            return False
        if self.physical_id is not None and not self._is_gone():
            return False
        self._ports.release()
        return True

    def _is_gone(self) -> bool:
        try:
            thing = self.fetch()
        except CloudNotFound:
            return True
        status = self.status_of(thing)
        if status == "ERROR" and thing.get(TASK) is None and self.data.get("delete_seen"):
            raise CloudError("compute.delete_server", f"its status is {self.why(thing, 'delete')}")
        self.data["delete_seen"] = True
        return status in GONE

    # -- check, suspend, resume ----------------------------------------------------------------------

    def handle_suspend(self) -> Json:
        if self.status_of(self.fetch()) != "SUSPENDED":
            self.service("suspend_server", self.physical_id)
        return None

    def check_suspend_complete(self, token: Json) -> bool | float:
        return self._has_become("SUSPENDED")

    def handle_resume(self) -> Json:
        if self.status_of(self.fetch()) != "ACTIVE":
            self.service("resume_server", self.physical_id)
        return None

    def check_resume_complete(self, token: Json) -> bool | float:
        return self._has_become("ACTIVE")

    def _has_become(self, status: str) -> bool:
        thing = self.fetch()
        if self.status_of(thing) in self.broken:
            raise CloudError("compute.get_server", f"its status is {self.why(thing, 'work')}")
        return self.status_of(thing) == status and thing.get(TASK) is None

    # -- snapshots -----------------------------------------------------------------------------------

    def handle_snapshot(self, name: str) -> Json:
        self.data.pop("snapshot_image_id", None)
        props = self.props
        mapping = props.block_device_mapping or (), props.block_device_mapping_v2 or ()
        boot = disks.boots_from(*mapping) if props.image is None else None
        if boot is not None and boot.volume_id is not None:
            # A snapshot of that volume would block the volume's replacement, which restoring it needs.
            self.note = f"It boots from volume {boot.volume_id}, which is saved by itself, if it is of the stack"
        else:
            self._save(name)
        return None

    def _save(self, name: str) -> None:
        """Save the server as an image of that name, unless an interrupted attempt has created that."""
        found = self.cloud.call("image.find_image", name)
        if not isinstance(found, dict):
            found = self.map(self.service("create_server_image", self.physical_id, name))
        self.data["snapshot_image_id"] = found["id"]

    def check_snapshot_complete(self, token: Json) -> bool | float:
        image = self.data.get("snapshot_image_id")
        return image is None or self._is_saved(str(image))

    def _is_saved(self, image: str) -> bool:
        thing = self.map(self.cloud.call("image.get_image", image))
        made_of = disks.of_image(thing)
        self.data["snapshot_boot"] = next((one["snapshot_id"] for one in made_of if one.get("boot_index") == 0), None)
        status = str(thing.get("status")).lower()
        if status in ("killed", "deleted", "error"):
            raise CloudError("image.get_image", f"the image {image} of the server is {status}")
        return status == "active" and all(self._is_there(one["snapshot_id"]) for one in made_of)

    def _is_there(self, snapshot: Json) -> bool:
        """True if a volume snapshot in an image is available.

        Raises CloudError if it failed.
        """
        status = self.map(self.cloud.call("block_storage.get_snapshot", snapshot))["status"]
        if status == "error":
            text = f"the snapshot {snapshot} of the server's volume went to error"
            raise CloudError("block_storage.create_snapshot", text)
        return bool(status == "available")

    def handle_delete_snapshot(self) -> None:
        image = self.data.get("snapshot_image_id")
        if image is not None:
            with suppress(CloudNotFound):
                for one in disks.of_image(self.map(self.cloud.call("image.get_image", image))):
                    self._delete_volume_snapshot(one["snapshot_id"])
                self.cloud.call("image.delete_image", image)

    def _delete_volume_snapshot(self, snapshot: Json) -> None:
        """Delete a volume snapshot in an image: otherwise its volume could not be deleted."""
        with suppress(CloudNotFound):
            if self.map(self.cloud.call("block_storage.get_snapshot", snapshot))["status"] != "deleting":
                self.cloud.call("block_storage.delete_snapshot", snapshot)

    @classmethod
    def restored(cls, properties: JsonMap, saved: JsonMap) -> JsonMap:
        """Return the properties with the saved image.

        Without an image, with the snapshot of the boot volume.
        """
        image, snapshot = saved.get("snapshot_image_id"), saved.get("snapshot_boot")
        if image is None:
            return properties
        if properties.get("image") is not None:
            return {**properties, "image": image}
        return properties if snapshot is None else disks.restored(properties, str(snapshot))

    # -- locks ---------------------------------------------------------------------------------------

    def handle_lock(self) -> Json:
        if "was_locked" not in self.data:
            self.data["was_locked"] = bool(self.fetch().get("locked"))
        return None

    def check_lock_complete(self, token: Json) -> bool | float:
        if not self.data.get("was_locked"):
            reason = f"The stack {self.facts.stack_name} is locked"[:255]
            self.service("lock_server", self.physical_id, locked_reason=reason)
        return True

    def handle_unlock(self) -> Json:
        if self.data.get("was_locked") is False:
            with suppress(CloudNotFound):
                self.service("unlock_server", self.physical_id)
        return None

    def check_unlock_complete(self, token: Json) -> bool | float:
        self.data.pop("was_locked", None)
        return True

    # -- attributes and live state -------------------------------------------------------------------

    def live_metadata(self) -> JsonMap:
        return {**target_metadata(self), **self.agent_metadata()}

    def live_properties(self) -> Mapping[str, Json] | None:
        try:
            thing = self.fetch()
        except CloudNotFound:
            return None
        given = self.facts.properties
        live: JsonMap = {}
        for name in ("name", "tags", "key_name"):
            if given.get(name) is not None and thing.get(name) is not None:
                live[name] = thing[name]
        if "tags" in live and sorted(cast(list[str], live["tags"])) == sorted(self.props.tags or ()):
            live["tags"] = given["tags"]  # the service does not keep their order
        if given.get("metadata") is not None:
            known = cast(JsonMap, thing.get("metadata") or {})
            live["metadata"] = given["metadata"] if known == texts(self.props.metadata) else known
        flavor = self._flavor_name(thing)
        wanted = self.map(self.service("get_flavor", self.props.flavor))["name"]
        live["flavor"] = given["flavor"] if flavor == wanted else flavor
        image = cast(JsonMap, thing.get("image") or {}).get("id")
        if given.get("image") is not None and image is not None:
            live["image"] = given["image"] if image == self.props.image else image
        return live

    def why(self, thing: JsonMap, what: str) -> str:
        """Return the service's error message with the id of the request concerned."""
        fault = thing.get("fault")
        said = str(fault.get("message")).strip() if isinstance(fault, dict) else "the service gives no reason"
        request = self._request()
        return f"{self.status_of(thing)}: {said}" + (f" (request {request})" if request else "")

    def _request(self) -> Json:
        """Return the id of the latest request on the server, if the service tells."""
        try:
            actions = cast(list[JsonMap], self.service("server_actions", self.physical_id))
        except CloudError:
            return None  # the caller already reports a failure
        newest = sorted(actions, key=lambda action: str(action.get("start_time")))
        return newest[-1].get("request_id") if newest else None

    def attr_addresses(self) -> dict[str, Json]:
        """Its addresses by network name and by network id, each with its port, network and subnets."""
        found: dict[str, Json] = {}
        ports = {
            (str(fixed["ip_address"]), str(one["mac_addr"])): one
            for one in self._interfaces()
            for fixed in cast(list[JsonMap], one["fixed_ips"])
        }
        by_mac = {mac: one for (_, mac), one in ports.items()}
        for name, addresses in self._addresses().items():
            shown: list[Json] = []
            network: Json = None
            for one in addresses:
                mac = str(one.get("OS-EXT-IPS-MAC:mac_addr"))
                port = ports.get((str(one["addr"]), mac)) or by_mac.get(mac)
                more: JsonMap = {"port": None, "network": None, "subnets": None}
                if port is not None:
                    network = port["net_id"]
                    more = {"port": port["port_id"], **self._surroundings(port)}
                shown.append({**one, **more})
            found[name] = shown
            if network is not None:
                found[str(network)] = shown
        return found

    def _surroundings(self, port: JsonMap) -> JsonMap:
        """Return the network and the subnets of a port."""
        subnets = [one["subnet_id"] for one in cast(list[JsonMap], port["fixed_ips"])]
        return {
            "network": self.cloud.call("network.get_network", port["net_id"]),
            "subnets": [self.cloud.call("network.get_subnet", one) for one in subnets],
        }

    def _addresses(self) -> dict[str, list[JsonMap]]:
        return cast(dict[str, list[JsonMap]], self.seen.get("addresses") or {})

    def _interfaces(self) -> list[JsonMap]:
        try:
            return self._ports.interfaces() if self.physical_id is not None else []
        except CloudNotFound:
            return []

    def attr_networks(self) -> dict[str, Json]:
        """Its addresses as lists of texts, by network name and by network id."""
        found: dict[str, Json] = {}
        ids = {str(one["mac_addr"]): str(one["net_id"]) for one in self._interfaces()}
        for name, addresses in self._addresses().items():
            listed: list[Json] = [one["addr"] for one in addresses]
            found[name] = listed
            for one in addresses:
                network = ids.get(str(one.get("OS-EXT-IPS-MAC:mac_addr")))
                if network is not None:
                    found[network] = listed
        return found

    def attr_first_address(self) -> Json:
        """Its first address.

        Prefer networks, which also tells the network of each address.
        """
        listed = [one["addr"] for addresses in self._addresses().values() for one in addresses]
        return listed[0] if listed else ""

    def attr_instance_name(self) -> str | None:
        """Its name on its host, shown to administrators only."""
        return cast(str | None, self.seen.get("OS-EXT-SRV-ATTR:instance_name"))

    def attr_console_urls(self) -> dict[str, Json]:
        """The URLs of its consoles by type.

        Only the types that the template names are requested.
        """
        return {kind: self._console(kind) for kind in CONSOLES}

    def attribute_at(self, name: str, path: Sequence[object]) -> Json:
        if name == "console_urls" and path:
            return self._console(str(path[0])) if path[0] in CONSOLES and len(path) == 1 else None
        return super().attribute_at(name, path)

    def _console(self, kind: str) -> str:
        try:
            return str(self.map(self.service("create_console", self.physical_id, kind))["url"])
        except CloudError as error:
            return f"The console cannot be had: {error.reason}"

    def shown_attributes(self) -> Sequence[str]:
        """Leave the consoles out: their URLs grant access."""
        return [name for name in super().shown_attributes() if name != "console_urls"]

    def attr_os_collect_config(self) -> dict[str, Json]:
        """The configuration of the agent os-collect-config, with credentials if there is a stack domain."""
        return collect_config(self) if self.props.user_data_format == "SOFTWARE_CONFIG" else {}


def texts(metadata: Mapping[str, Json]) -> JsonMap:
    """Return metadata as the service stores it: text unchanged, other values as JSON."""
    return {name: value if isinstance(value, str) else dump(value) for name, value in metadata.items()}
