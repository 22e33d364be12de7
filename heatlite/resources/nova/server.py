"""The type of servers."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

from heatlite.clients.cloud import CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap, as_maps
from heatlite.plugin import Change, CloudResource, ReplaceResource, Resource, Schema, ServiceConflict
from heatlite.plugin.needs import Find, Need
from heatlite.plugin.signing import KEY
from heatlite.resources.heat.software.configs import text_of
from heatlite.resources.neutron.base import asked
from heatlite.resources.neutron.ports import LEAD_HERE
from heatlite.resources.nova import disks, user_data
from heatlite.resources.nova.attachments import VOLUMES
from heatlite.resources.nova.changes import HALTED, IDLE, TASK, ServerChanges
from heatlite.resources.nova.images import Images
from heatlite.resources.nova.needs import server_needs
from heatlite.resources.nova.running_server import GONE, RunningServer
from heatlite.resources.nova.server_properties import placed, texts

GOES_WITH_IT: Final = "delete_on_termination"


class Server(RunningServer, type="OS::Nova::Server", kind="compute.server"):
    """A virtual machine.

    A change of the flavor resizes it and a change of the image rebuilds it, unless flavor_update_policy and
    image_update_policy say otherwise. With ``deletion_policy: Snapshot`` an image of it is created before it is
    deleted; snapshots of the stack are images, too. A maintenance lock of level ``all`` locks it in the compute
    service; the unlock restores the previous state.
    """

    # Create, resize, rebuild and delete happen in steps; no handler waits for the service. `data` holds
    # the ports (`Ports`), the remaining update steps (`todo`), and the state before a lock (`was_locked`).

    counts = ("compute.instances",)
    obeys_placement = True
    address_attribute = "first_address"
    name_limit = 53
    snapshot_on_delete = True
    kept_when_well = True
    gives_way = True  # its ports
    puts_back = frozenset({"security_groups", *disks.FORMS})
    after = frozenset({"OS::Neutron::Subnet"})
    joins = frozenset({"OS::Neutron::Subnet", "OS::Neutron::Trunk"})

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:  # noqa: ARG003
        """True for the subnets of its networks, which give it addresses, as in Heat."""
        nics, network = own.get("networks"), asked(other, "network")
        if network is None or not isinstance(nics, Sequence):
            return False
        return any(isinstance(nic, Mapping) and network in (nic.get("network"), nic.get("uuid")) for nic in nics)

    @classmethod
    def needs(cls, given: Mapping[str, object], find: Find) -> Iterable[Need]:
        """Return the machine with the size of its flavor, its own ports and new volumes."""
        return server_needs(given, find)

    @property
    def _changes(self) -> ServerChanges:
        return ServerChanges(self)

    @property
    def _images(self) -> Images:
        return Images(self)

    # -- requests ------------------------------------------------------------------------------------

    def identity(self) -> JsonMap:
        given = self.facts.properties.get("name")
        return {"name": self.physical_name} if given is None else {"name": given, "description": self.physical_name}

    def create_args(self) -> JsonMap:
        props = self.props
        args = {**self.sent(), "flavorRef": props.flavor, "imageRef": props.image or "", "tags": props.tags or []}
        args |= {"metadata": texts(props.metadata), **placed(props, self.data)}
        args["networks"] = self._ports.wanted(self._specs(self.facts.properties))
        if not self._ports.nics and props.security_groups:
            args["security_groups"] = [{"name": name} for name in props.security_groups]
        text = self._user_data()
        if text:
            args["user_data"] = user_data.encoded(text)
        mapping = disks.mapping(props.image, props.block_device_mapping or (), props.block_device_mapping_v2 or ())
        if mapping:
            args["block_device_mapping_v2"] = mapping
        if props.personality:
            files = props.personality.items()
            args["personality"] = [{"path": path, "contents": user_data.encoded(str(text))} for path, text in files]
        return args

    def _user_data(self) -> str:
        props = self.props
        text = text_of(self.facts, props.user_data)
        url = f"{self.facts.services.public_url.rstrip('/')}/v1/"
        return user_data.in_format(props.user_data_format, text, self._first_metadata(), url, props.admin_user)

    def _first_metadata(self) -> JsonMap:
        """Return the initial metadata for an agent on the server."""
        return self.live_metadata() if self.has_agent else self.metadata

    def _specs(self, properties: Mapping[str, object], created: bool = False) -> list[JsonMap]:
        """Return the networks in coerced properties, with ids instead of names.

        Of those that are `created`, names may lead nowhere any more.
        """
        given = cast(Json, properties.get("networks"))
        lookup = self.known if created else self.resolved
        return cast(list[JsonMap], lookup({"networks": given})["networks"]) if given else []

    # -- create --------------------------------------------------------------------------------------

    def told(self) -> JsonMap:
        disks = as_maps(self.fetched.get(VOLUMES))
        if self.fetched.get("image") or not disks:
            return super().told()
        root: JsonMap = {"boot_index": 0, "volume_id": disks[0]["id"]}
        if GOES_WITH_IT in disks[0]:
            root[GOES_WITH_IT] = disks[0][GOES_WITH_IT]
        return {**super().told(), "block_device_mapping_v2": [root]}

    def handle_adopt(self) -> None:
        super().handle_adopt()
        specs = self._specs(self.facts.properties)
        if "nics" not in self.data and specs and self.physical_id is not None:
            self._ports.adopt(specs, self.physical_id)

    def survey(self) -> bool:
        """Draw the key before the server is made: the agent gets it with the user data."""
        has_changed = super().survey()
        has_changed |= self.open_metadata()
        if KEY not in self.data and self.has_agent:
            self.draw_key()
            has_changed = True
        return has_changed

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
            self._ports.prepare(specs, self._attached.groups(), self._cut_off)
        if self._ports.ready():
            self._make()
        return None

    def _make(self) -> None:
        self.publish()
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
        self.open_metadata()
        self.publish()
        changed, props, todo = change.changed, self.props, self._steps(change)
        self.data["todo"], self.data["doing"] = cast(Json, todo), None
        if "name" in changed:
            self.service("update_server", self.physical_id, **self.identity())
        if "metadata" in changed:
            self._set_metadata(change)
        if "security_groups" in changed:
            self._attached.set_groups()
        if "tags" in changed:
            self.service("set_server_tags", self.physical_id, cast(Json, props.tags or []))
        if "admin_pass" in changed and props.admin_pass is not None and "rebuild" not in todo:
            self.service("change_server_password", self.physical_id, props.admin_pass)
        return None

    def _steps(self, change: Change) -> list[str]:
        """Return the steps of an update that the service takes time for."""
        changed = change.changed
        wanted = {
            "rebuild": "user_data" in changed and self.props.user_data_update_policy == "REBUILD" or "image" in changed,
            "flavor": "flavor" in changed,
            "networks": self._changes_networks(change),
            "volumes": not changed.isdisjoint(disks.FORMS),
        }
        return [step for step, is_wanted in wanted.items() if is_wanted]

    def _changes_networks(self, change: Change) -> bool:
        """Note the changes of ports. Returns True if there may be some."""
        changed = change.changed
        if self._ports.readdress() or "networks" in changed:
            before = self._specs(change.before, created=True)
            after = self._specs(change.after, created="networks" not in changed)
            self._ports.change(before, after, self._attached.groups())
            self._ports.reclaim()
            return True
        # `detach_from` may have detached a port.
        return self._ports.reclaim() or not changed and not change.metadata_changed

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other server is to have one of the same volumes."""
        return bool(disks.volumes_of(self.facts.properties) & disks.volumes_of(properties))

    def takes(self, other: Resource[Schema]) -> bool:
        """True for a volume that is deleted with the server."""
        return other.physical_id in disks.volumes_of(self.facts.properties, deleted=True)

    def detach_from(self, gone: Resource[Schema]) -> None:
        """Release a trunk's parent port, or the addresses of own ports in a subnet."""
        if gone.type_name == "OS::Neutron::Trunk":
            self._ports.leave(gone.facts.properties["port"])
        else:
            ports = [nic["port"] for nic in self._ports.nics]
            users = [one for one in self.facts.users() if isinstance(one, CloudResource)]
            for user in users:
                if user.type_name in LEAD_HERE and user.fetched.get("port_id") in ports:
                    user.detach_from(self)
            self._ports.remove_addresses(gone.physical_id)

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
        thing = self._fetched = self.fetch()
        status = self.status_of(thing)
        if status == "ERROR" and self.data.get("doing") is None and todo[0] != "rebuild" or status in GONE:
            raise CloudError("compute.get_server", f"its status is {self.why(thing, 'update')}")
        if thing.get(TASK) is not None:
            return False
        if status in HALTED and todo[0] not in ("networks", "volumes"):
            text = f"its status is {status}: only a server that is ACTIVE or SHUTOFF can be rebuilt or resized"
            raise CloudError("compute.get_server", text)
        if self._is_done(str(todo[0]), thing, status):
            self.data["todo"], self.data["doing"] = todo[1:], None
            return len(todo) == 1
        return False

    def _is_done(self, step: str, thing: JsonMap, status: str) -> bool:
        """Begin or continue a step of the update. True if it is done."""
        if step == "networks":
            return self._ports.changed()
        if step == "volumes":
            return self._attached.has_volumes()
        if step == "flavor":
            return self._changes.resized(thing, status, self.props.flavor)
        return self._changes.rebuilt(thing, status, self._rebuild_image, self._rebuild_args)

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

    def handle_reboot(self) -> Json:
        """Reboot the server hard: one that does not answer takes no other request."""
        self.service("reboot_server", self.physical_id, "HARD")
        return None

    def check_reboot_complete(self, token: Json) -> bool | float:
        thing = self._fetched = self.fetch()
        status = self.status_of(thing)
        if status == "ERROR" or status in GONE:
            raise CloudError("compute.reboot_server", f"its status is {self.why(thing, 'reboot')}")
        return thing.get(TASK) is None and status == "ACTIVE"

    # -- delete --------------------------------------------------------------------------------------

    def handle_delete(self) -> Json:
        if self.facts.properties.get("image") is None:
            self._await_snapshots()
        return super().handle_delete()

    def _await_snapshots(self) -> None:
        """Raise ServiceConflict while snapshots of the server's volumes are being deleted.

        A volume that is deleted with its server would stay forever if it still had snapshots then.
        """
        for one in cast(list[JsonMap], self.fetched.get(VOLUMES) or []):
            found = self.cloud.call("block_storage.snapshots", volume_id=one["id"]) if one.get(GOES_WITH_IT) else None
            left = cast(list[JsonMap], found or [])
            if left and all(snapshot["status"] == "deleting" for snapshot in left):
                raise ServiceConflict(f"a snapshot of volume {one['id']}, which goes with the server, is being deleted")

    def handle_snapshot_delete(self) -> Json:
        if self.physical_id is None or self.status_of(self.fetched) not in IDLE:
            return self.handle_delete()
        self.data.pop("saved", None)
        self._images.save(self.physical_name)
        return {"image": self.data["snapshot_image_id"]}

    def check_delete_complete(self, token: Json) -> bool | float:
        if isinstance(token, dict) and not self.data.get("saved"):
            if not self._images.is_saved(str(token["image"])):
                return False
            self.data["saved"] = True
            self.handle_delete()
            return False
        if self.physical_id is not None and not self._is_gone():
            return False
        self._ports.release()
        self.close_metadata()
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
            self._images.save(name)
        return None

    def check_snapshot_complete(self, token: Json) -> bool | float:
        image = self.data.get("snapshot_image_id")
        return image is None or self._images.is_saved(str(image))

    def handle_delete_snapshot(self) -> None:
        image = self.data.get("snapshot_image_id")
        if image is not None:
            self._images.delete(str(image))

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
