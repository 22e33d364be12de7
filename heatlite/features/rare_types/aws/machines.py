"""Machines."""

from collections.abc import Mapping
from typing import cast

from heatlite.core.json import Json, JsonMap, as_map, as_maps
from heatlite.features.rare_types.aws.base import Mapped, Tag
from heatlite.plugin import Change, Resource, Schema, prop
from heatlite.plugin.signing import Node
from heatlite.resources.cinder import attaching
from heatlite.resources.nova.attachments import VOLUMES
from heatlite.resources.nova.server import Server
from heatlite.template.expression import UNKNOWN


class Ebs(Schema):
    delete_on_termination: bool = prop(True, alias="DeleteOnTermination", doc="True if it is deleted with the machine.")
    iops: float | None = prop(alias="Iops", doc="Without effect.")
    snapshot_id: str | None = prop(alias="SnapshotId", find="cinder.snapshot", doc="The snapshot to create it from.")
    size: str | None = prop(alias="VolumeSize", doc="Its size in GiB.")
    kind: str | None = prop(alias="VolumeType", doc="Without effect.")


class Disk(Schema):
    device: str = prop(alias="DeviceName", doc="The name of the device on the machine.")
    ebs: Ebs | None = prop(alias="Ebs", doc="The volume.")
    no_device: dict[str, Json] | None = prop(alias="NoDevice", doc="Without effect.")
    virtual_name: str | None = prop(alias="VirtualName", doc="Without effect.")

    def fault(self) -> str | None:
        if self.ebs is None or self.ebs.snapshot_id is None:
            return "each of the BlockDeviceMappings needs Ebs with a SnapshotId"
        return None


class Hint(Schema):
    key: str = prop(alias="Key", doc="The key.")
    value: str = prop(alias="Value", doc="The value.")


class Attached(Schema):
    volume_id: str = prop(alias="VolumeId", find="cinder.volume", doc="The volume, by name or id.")
    device: str = prop(alias="Device", doc="The device on the machine, such as /dev/vdc.")


GROUPS_BESIDE_INTERFACES = (
    "SecurityGroups and SecurityGroupIds cannot be given together with NetworkInterfaces, which have groups"
)


class InstanceProps(Schema):
    image: str = prop(alias="ImageId", find="glance.image", doc="The image that it boots, by name or id.")
    flavor: str = prop(alias="InstanceType", update=True, find="nova.flavor", doc="The flavor, by name or id.")
    key_name: str | None = prop(alias="KeyName", find="nova.keypair", doc="The key pair for logins.")
    availability_zone: str | None = prop(alias="AvailabilityZone", blank=True, doc="Its availability zone.")
    no_api_termination: str | None = prop(alias="DisableApiTermination", doc="Without effect.")
    kernel: str | None = prop(alias="KernelId", doc="Without effect.")
    monitoring: bool | None = prop(alias="Monitoring", doc="Without effect.")
    placement_group: str | None = prop(alias="PlacementGroupName", doc="Without effect.")
    address: str | None = prop(alias="PrivateIpAddress", doc="Without effect; use a network interface instead.")
    ram_disk: str | None = prop(alias="RamDiskId", doc="Without effect.")
    groups: list[Json] | None = prop(alias="SecurityGroups", doc="Its security groups, by names.")
    group_ids: list[Json] | None = prop(alias="SecurityGroupIds", doc="Its security groups, by ids.")
    interfaces: list[Json] | None = prop(
        alias="NetworkInterfaces",
        update=True,
        doc="Its network interfaces: ids, or maps with NetworkInterfaceId and DeviceIndex.",
    )
    source_dest_check: bool | None = prop(alias="SourceDestCheck", doc="Without effect.")
    subnet: str | None = prop(alias="SubnetId", update=True, doc="The subnet that it is connected to, by id.")
    tags: list[Tag] | None = prop(alias="Tags", update=True, doc="Its metadata.")
    hints: list[Hint] | None = prop(alias="NovaSchedulerHints", doc="Hints for the scheduler.")
    tenancy: str | None = prop(alias="Tenancy", one_of=("dedicated", "default"), doc="Without effect.")
    user_data: str | None = prop(alias="UserData", doc="Instructions for its first boot.")
    volumes: list[Attached] = prop([], alias="Volumes", doc="The volumes to attach once it runs.")
    disks: list[Disk] | None = prop(
        alias="BlockDeviceMappings", doc="The volumes to create from snapshots at its first boot."
    )

    def fault_groups(self) -> str | None:
        return GROUPS_BESIDE_INTERFACES if self.interfaces and self.groups else None

    def fault_group_ids(self) -> str | None:
        return GROUPS_BESIDE_INTERFACES if self.interfaces and self.group_ids else None

    def fault_kinds_of_interfaces(self) -> str | None:
        kinds = {type(one) for one in self.interfaces or []}
        maps = [one for one in self.interfaces or [] if isinstance(one, Mapping)]
        if len(kinds) > 1 or any(not {"NetworkInterfaceId", "DeviceIndex"} <= one.keys() for one in maps):
            return "NetworkInterfaces are all ids, or all maps with NetworkInterfaceId and DeviceIndex"
        if any(not str(one["DeviceIndex"]).isdecimal() for one in maps):
            return "NetworkInterfaces: DeviceIndex is a whole number"
        return None


SERVERS = {"ImageId": "image", "InstanceType": "flavor", "KeyName": "key_name"}
"""Properties of an instance, and what they are called of a server."""
GROUPS = ("SecurityGroups", "SecurityGroupIds")


class Instance(Mapped[InstanceProps], Node[InstanceProps], type="AWS::EC2::Instance", kind="compute.server"):
    """A machine: an OS::Nova::Server."""

    name_limit = Server.name_limit
    mapped = Server
    address_attribute = "PrivateIp"
    counts = Server.counts
    unshown = Server.unshown
    gives_way = True  # its ports
    puts_back = frozenset({*GROUPS, "Volumes"})
    joins = frozenset({"AWS::EC2::Subnet", "OS::Neutron::Subnet"})

    @classmethod
    def translated(cls, given: Mapping[str, object]) -> JsonMap:
        groups = [one for name in GROUPS for one in _items(given, name)]
        disks = [_disk(one) for one in _maps(given, "BlockDeviceMappings")]
        found: dict[str, object] = {
            "image": given.get("ImageId"),
            "flavor": given.get("InstanceType"),
            "key_name": given.get("KeyName"),
            "availability_zone": given.get("AvailabilityZone"),
            "user_data": given.get("UserData"),
            "security_groups": groups,
            "networks": _networks(given),
            "metadata": {str(one["Key"]): one["Value"] for one in _maps(given, "Tags")},
            "scheduler_hints": _hints(_maps(given, "NovaSchedulerHints")),
            "block_device_mapping": disks or None,
        }
        return cast(JsonMap, found)

    def live_properties(self) -> Mapping[str, Json] | None:
        """Return what the server tells, by Amazon's names."""
        live, given = self.other.live_properties(), self.facts.properties
        if live is None:
            return None
        found = {name: live[its] for name, its in SERVERS.items() if given.get(name) is not None and its in live}
        if given.get("Tags") is not None:
            metadata = as_map(live.get("metadata"))
            keys = dict.fromkeys([*(str(one["Key"]) for one in _maps(given, "Tags")), *metadata])
            found["Tags"] = [{"Key": key, "Value": metadata[key]} for key in keys if key in metadata]
        if "networks" in live:
            found |= self._live_networks(as_maps(live["networks"]))
        if "security_groups" in live:
            found |= self._live_groups(cast(list[Json], live["security_groups"]))
        if given.get("Volumes"):
            known = as_maps(self.known({"Volumes": given["Volumes"]})["Volumes"])
            attached = {one["id"] for one in as_maps(self.other.fetched.get(VOLUMES))}
            pairs = zip(_items(given, "Volumes"), known, strict=True)
            found["Volumes"] = [one for one, volume in pairs if volume["VolumeId"] in attached]
        return found

    def _live_networks(self, networks: list[JsonMap]) -> JsonMap:
        """Return the interfaces of the machine, or the subnet that it is in."""
        if interfaces := _items(self.facts.properties, "NetworkInterfaces"):
            held = dict.fromkeys(one.get("port") for one in networks)
            kept = [one for one in interfaces if _port_of(one) in held]
            further = [port for port in held if port not in map(_port_of, interfaces)]
            if isinstance(interfaces[0], Mapping):
                count = len(interfaces)
                more = [{"NetworkInterfaceId": one, "DeviceIndex": count + at} for at, one in enumerate(further)]
                return {"NetworkInterfaces": [*kept, *more]}
            return {"NetworkInterfaces": [*kept, *further]}
        own = next((one for one in networks if "port" not in one), {})
        return {"SubnetId": own["subnet"] if "subnet" in own else self._subnet_of(own.get("fixed_ip"))}

    def _subnet_of(self, address: Json) -> Json:
        """Return the subnet of an address of the machine."""
        ports = as_maps(self.cloud.call("compute.server_interfaces", self.physical_id))
        addresses = [one for port in ports for one in as_maps(port["fixed_ips"])]
        return next((one["subnet_id"] for one in addresses if one["ip_address"] == address), None)

    def _live_groups(self, groups: list[Json]) -> JsonMap:
        """Return the security groups of the machine. Further ones are with those given."""
        given = {name: _items(self.facts.properties, name) for name in GROUPS}
        found = {name: [one for one in items if one in groups] for name, items in given.items() if items}
        *_, last = found
        found[last] += [one for one in groups if not any(one in items for items in given.values())]
        return cast(JsonMap, found)

    def check_create_complete(self, token: Json) -> bool | float:
        answer = super().check_create_complete(token)
        return self._has_volumes() if answer is True else answer

    def _has_volumes(self) -> bool:
        """Attach the volumes that the machine lacks. Returns True if it has all."""
        server = str(self.physical_id)
        for one in self.props.volumes:
            attaching.attach(self.cloud, server, one.volume_id, one.device)
        return all(attaching.is_attached(self.cloud, server, one.volume_id) for one in self.props.volumes)

    def handle_update(self, change: Change) -> Json:
        super().handle_update(change)
        return ["Volumes"] if "Volumes" in change.changed else None

    def check_update_complete(self, token: Json) -> bool | float:
        answer = super().check_update_complete(None)
        return self._has_volumes() if answer is True and token else answer

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other resource is to attach one of the same volumes."""
        both = (self.facts.properties, properties)
        own, new = ({str(one.get("VolumeId")) for one in _maps(given, "Volumes")} for given in both)
        return bool(own & new)

    def detach_from(self, gone: Resource[Schema]) -> None:
        self.other.detach_from(gone)

    def live_metadata(self) -> JsonMap:
        return {**super().live_metadata(), **self.agent_metadata()}

    # -- suspend, resume and the maintenance lock ----------------------------------------------------

    def handle_suspend(self) -> Json:
        return self.other.handle_suspend()

    def check_suspend_complete(self, token: Json) -> bool | float:
        return self.other.check_suspend_complete(token)

    def handle_resume(self) -> Json:
        return self.other.handle_resume()

    def check_resume_complete(self, token: Json) -> bool | float:
        return self.other.check_resume_complete(token)

    def handle_lock(self) -> Json:
        return self.other.handle_lock()

    def check_lock_complete(self, token: Json) -> bool | float:
        return self.other.check_lock_complete(token)

    def handle_unlock(self) -> Json:
        return self.other.handle_unlock()

    def check_unlock_complete(self, token: Json) -> bool | float:
        return self.other.check_unlock_complete(token)

    # -- what the template may ask -------------------------------------------------------------------

    def attr_AvailabilityZone(self) -> str | None:  # noqa: N802 - Amazon's
        """The availability zone that it runs in."""
        return cast(str | None, self.fetched.get("OS-EXT-AZ:availability_zone") or self.props.availability_zone)

    def attr_PrivateDnsName(self) -> str | None:  # noqa: N802 - Amazon's
        """Its private address."""
        return self._within()

    def attr_PrivateIp(self) -> str | None:  # noqa: N802 - Amazon's
        """Its private address."""
        return self._within()

    def attr_PublicDnsName(self) -> str | None:  # noqa: N802 - Amazon's
        """Its public address; without one, its private address."""
        return self._without() or self._within()

    def attr_PublicIp(self) -> str | None:  # noqa: N802 - Amazon's
        """Its public address; without one, its private address."""
        return self._without() or self._within()

    def _within(self) -> str | None:
        networks = cast(dict[str, list[JsonMap]], self.fetched.get("addresses") or {})
        fixed = [one for addresses in networks.values() for one in addresses if one.get(ADDRESS_TYPE) != "floating"]
        return str(fixed[0]["addr"]) if fixed else None

    def _without(self) -> str | None:
        """Return the floating IP.

        The network service knows it earlier than the compute service.
        """
        if not self.fetched:
            return None
        for port in cast(list[JsonMap], self.cloud.call("network.ports", device_id=self.physical_id)):
            for one in cast(list[JsonMap], self.cloud.call("network.ips", port_id=port["id"])):
                return str(one["floating_ip_address"])
        return None


ADDRESS_TYPE = "OS-EXT-IPS:type"


def _items(given: Mapping[str, object], name: str) -> list[Json]:
    """Return the known items of a list; [] while the list is unknown."""
    value = given.get(name)
    return [item for item in value if item is not UNKNOWN] if isinstance(value, list) else []


def _maps(given: Mapping[str, object], name: str) -> list[JsonMap]:
    return [cast(JsonMap, one) for one in _items(given, name)]


def _networks(given: Mapping[str, object]) -> list[JsonMap] | None:
    interfaces = _items(given, "NetworkInterfaces")
    if interfaces:
        in_order = sorted(interfaces, key=lambda one: int(str(one["DeviceIndex"])) if isinstance(one, Mapping) else 0)
        return [{"port": _port_of(one)} for one in in_order]
    return [{"subnet": cast(Json, given["SubnetId"])}] if given.get("SubnetId") is not None else None


def _port_of(interface: Json) -> Json:
    return interface["NetworkInterfaceId"] if isinstance(interface, Mapping) else interface


def _hints(hints: list[JsonMap]) -> JsonMap | None:
    """Return the hints as a map. A key given several times has a list of its values."""
    found: JsonMap = {}
    for one in hints:
        key, value = str(one["Key"]), one["Value"]
        earlier = found.get(key)
        found[key] = value if earlier is None else [*earlier, value] if isinstance(earlier, list) else [earlier, value]
    return found or None


def _disk(disk: JsonMap) -> JsonMap:
    ebs = cast(JsonMap, disk.get("Ebs") or {})
    found: JsonMap = {
        "device_name": disk["DeviceName"],
        "snapshot_id": ebs.get("SnapshotId"),
        "volume_size": ebs.get("VolumeSize"),
        "delete_on_termination": ebs.get("DeleteOnTermination", True),
    }
    return {name: value for name, value in found.items() if value is not None}
