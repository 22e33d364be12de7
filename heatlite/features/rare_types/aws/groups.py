"""CloudFormation's scaling groups of servers, and their launch configurations."""

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, cast

from heatlite.core.errors import EntityNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.features.rare_types.aws.balancing import LoadBalancer
from heatlite.plugin import ChildStack, Member, Resource, Schema, SupportStatus, prop
from heatlite.plugin.groups import SizeLimits
from heatlite.plugin.needs import Find, Need, unknown, whole
from heatlite.plugin.resource import P_co
from heatlite.resources.heat.groups.members import template_of
from heatlite.resources.heat.groups.rolling import Rolling
from heatlite.resources.heat.groups.scaling import ScalingGroup, SizeRules
from heatlite.template.expression import UNKNOWN
from heatlite.template.types import Fault, NestedTemplate

SERVER: Final = "AWS::EC2::Instance"
"""The type of the members."""
MAX_PAUSE: Final = 3600
NO_SOURCE: Final = "If without InstanceId, ImageId and InstanceType are required."
NO_INSTANCE: Final = "InstanceId is not supported: write image and flavor of the server into a launch configuration"


# -- AWS::AutoScaling::LaunchConfiguration -----------------------------------------------------------


class EbsDevice(Schema):
    DeleteOnTermination: bool = prop(True, doc="True if the volume is deleted with the server.")
    Iops: float | None = prop(doc="Accepted as in Heat, without effect.")
    SnapshotId: str | None = prop(custom="cinder.snapshot", doc="The snapshot to create the volume from.")
    VolumeSize: str | None = prop(doc="The volume's size in GB.")
    VolumeType: str | None = prop(doc="Accepted as in Heat, without effect.")


class BlockDevice(Schema):
    DeviceName: str = prop(doc="The name of the device in the server.")
    Ebs: EbsDevice | None = prop(doc="The volume.")
    NoDevice: dict[str, Json] | None = prop(doc="Accepted as in Heat, without effect.")
    VirtualName: str | None = prop(doc="Accepted as in Heat, without effect.")


class Pair(Schema):
    Key: str = prop(doc="The key.")
    Value: str = prop(doc="The value.")


class LaunchConfigurationProps(Schema):
    BlockDeviceMappings: list[BlockDevice] | None = prop(doc="Volumes of the servers.")
    ImageId: str | None = prop(custom="glance.image", doc="The image of the servers.")
    InstanceId: str | None = prop(custom="nova.server", doc="A server to take the configuration from.")
    InstanceType: str | None = prop(custom="nova.flavor", doc="The flavor of the servers.")
    KernelId: str | None = prop(doc="Accepted as in Heat, without effect.")
    KeyName: str | None = prop(custom="nova.keypair", doc="The key pair for the servers.")
    NovaSchedulerHints: list[Pair] | None = prop(doc="Hints for the scheduler.")
    RamDiskId: str | None = prop(doc="Accepted as in Heat, without effect.")
    SecurityGroups: list[Json] | None = prop(doc="The servers' security groups.")
    UserData: str | None = prop(doc="Instructions for the first boot of the servers.")

    def fault_instance(self) -> str | None:
        return NO_INSTANCE if self.InstanceId is not None else None

    def fault_image(self) -> str | None:
        return NO_SOURCE if self.ImageId is None and self.InstanceId is None else None

    def fault_flavor(self) -> str | None:
        return NO_SOURCE if self.InstanceType is None and self.InstanceId is None else None


class LaunchConfiguration(Resource[LaunchConfigurationProps], type="AWS::AutoScaling::LaunchConfiguration"):
    """The configuration of a group's servers.

    A change replaces it and updates the group.
    """

    quick = True

    def handle_create(self) -> None:
        self.physical_id = self.physical_name


# -- groups ------------------------------------------------------------------------------------------


class ServerRollingUpdate(Schema):
    MaxBatchSize: int = prop(1, between=(1, None), doc="Maximum number of servers changed at once.")
    MinInstancesInService: int = prop(
        0, between=(0, None), doc="Minimum number of servers left unchanged during each batch."
    )
    PauseTime: str = prop("PT0S", doc="The pause between the batches: PT#H#M#S, one hour at most.")

    def rolling(self) -> Rolling:
        """Return the policy."""
        return Rolling(self.MaxBatchSize, self.MinInstancesInService, seconds_of(self.PauseTime))


class Policy(Schema):
    """Base of the update policies: rolling updates under a type-specific name."""

    @classmethod
    def examine(cls, values: Mapping[str, object]) -> tuple[dict[str, object], list[Fault]]:
        coerced, faults = super().examine(values)
        for name, given in coerced.items():
            pause = given.get("PauseTime") if isinstance(given, Mapping) else None
            text = _pause_fault(pause) if isinstance(pause, str) and not faults else None
            if text is not None:
                faults.append(Fault((name, "PauseTime"), text))
        return coerced, faults


_DURATION: Final = re.compile(r"PT(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?")


def seconds_of(duration: str) -> int:
    """Return the seconds of an ISO 8601 duration such as ``PT1H2M3S``.

    Raises ValueError.
    """
    match = _DURATION.fullmatch(duration)
    if match is None or duration == "PT":
        raise ValueError("Only ISO 8601 duration format of the form PT#H#M#S is supported.")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 3600 * hours + 60 * minutes + seconds


def _pause_fault(pause: str) -> str | None:
    try:
        return "Maximum PauseTime is 1 hour." if seconds_of(pause) > MAX_PAUSE else None
    except ValueError as error:
        return str(error)


class ServerGroup(ScalingGroup[P_co]):
    """Base of the groups of servers.

    The policy applies when the launch configuration changes.
    """

    policy_name: ClassVar[str]
    """The name of the rolling update in the update_policy section."""

    counts = ("compute.instances",)

    @classmethod
    def needs(cls, given: Mapping[str, object], find: Find) -> Iterable[Need]:  # noqa: ARG003
        """Return the servers while their launch configuration is not known.

        Later the members count.
        """
        if given.get("LaunchConfigurationName") is not UNKNOWN:
            return []
        sizes = (whole(given.get(name)) for name in ("Size", "DesiredCapacity", "MinSize"))
        servers = Need("compute.instances", next((one for one in sizes if one is not None), 0))
        beside = ["load_balancer.member"] if given.get("LoadBalancerNames") else []
        return [servers, *map(unknown, ("compute.cores", "compute.ram", "network.port", *beside))]

    @property
    def definitions(self) -> Mapping[str, Json]:
        """The servers, without the pool members beside them."""
        every = super().definitions
        return {name: one for name, one in every.items() if isinstance(one, Mapping) and one.get("type") == SERVER}

    def well(self) -> list[Member]:
        servers = self.definitions
        return [member for member in super().well() if member.name in servers]

    def stack_of(self, members: Mapping[str, Json], pause: float = 0.0) -> ChildStack:
        """Add a pool member for each server and each listener of the load balancers."""
        pools: JsonMap = {}
        for balancer in self._balancers():
            for pool, port in balancer.pools.items():
                pools |= {f"{name}-{pool}": self._pool_member(name, pool, port) for name in members}
        return super().stack_of({**members, **pools}, pause)

    def _balancers(self) -> list[LoadBalancer]:
        """Return the load balancers of the group: those of other types get no members."""
        names = self.facts.properties.get("LoadBalancerNames")
        given = names if isinstance(names, list) else []
        found = [self.facts.sibling(name) for name in given if isinstance(name, str)]
        return [one for one in found if isinstance(one, LoadBalancer)]

    def _pool_member(self, server: str, pool: str, port: int) -> JsonMap:
        properties: JsonMap = {"pool": pool, "address": {"get_attr": [server, "PrivateIp"]}, "protocol_port": port}
        if "SubnetId" in self.more_properties():
            properties["subnet"] = self.more_properties()["SubnetId"]
        return {"type": "OS::Octavia::PoolMember", "properties": properties}

    def definition(self) -> Json:
        reference = self.facts.properties["LaunchConfigurationName"]
        if not isinstance(reference, str):
            return None
        found = self.facts.sibling(reference)
        if found is None:
            raise EntityNotFound(entity="Launch Configuration", name=reference)
        given = self.facts.properties.get("Tags")
        tags = given if isinstance(given, list) else []
        server: JsonMap = {
            "type": SERVER,
            "properties": {**found.facts.properties, **self.more_properties(), "Tags": [*tags, *self.own_tags(tags)]},
        }
        return {**server, "metadata": found.metadata} if found.metadata else server

    def own_tags(self, given: list[Json]) -> list[Json]:
        """Return the tags that identify the servers of a group.

        A given tag for metering takes the place of the group's name.
        """
        if any(isinstance(tag, Mapping) and str(tag.get("Key")).startswith("metering.") for tag in given):
            return []
        return [{"Key": "metering.groupname", "Value": self.physical_name}]

    def more_properties(self) -> JsonMap:
        """Return the properties of the servers that come from the group itself."""
        return {}

    def rolling(self, definition: Json) -> Rolling | None:
        policies = self.update_policy
        assert policies is not None
        given = getattr(policies(policies.coerce(self.facts.update_policy)), self.policy_name)
        before = self.facts.before
        if given is None or before is None:
            return None
        if not (self.unfinished or "LaunchConfigurationName" in self.schema.diff(before, self.facts.properties)):
            return None
        return cast(ServerRollingUpdate, given).rolling()

    def attr_InstanceList(self) -> str | None:  # noqa: N802  # Heat's name
        """Public addresses of the servers, with commas between them."""
        return ",".join([str(member.attribute("PublicIp") or "0.0.0.0") for member in self.well()]) or None


def _one_server(size: object) -> NestedTemplate | None:
    """Return a template with one server, used until the launch configuration is known."""
    if size == 0:
        return None
    server = cast(Json, {"type": SERVER, "properties": UNKNOWN})
    return NestedTemplate(template_of({"member": server}), size if isinstance(size, int) else 1, facades=False)


# -- OS::Heat::InstanceGroup -------------------------------------------------------------------------


class InstanceGroupProps(Schema):
    AvailabilityZones: list[Json] = prop(doc="Accepted as in Heat, without effect.")
    LaunchConfigurationName: str = prop(update=True, doc="The launch configuration, by its reference.")
    Size: int = prop(update=True, doc="The number of servers.")
    LoadBalancerNames: list[Json] | None = prop(
        doc="Load balancers of the type AWS::ElasticLoadBalancing::LoadBalancer that the servers are members of."
    )
    Tags: list[Pair] | None = prop(doc="Tags of the servers.")

    def fault(self) -> str | None:
        return "The size of InstanceGroup can not be less than zero" if self.Size < 0 else None


class InstanceGroupPolicy(Policy):
    RollingUpdate: ServerRollingUpdate | None = prop(doc="Batches in which another launch configuration is applied.")


class InstanceGroup(ServerGroup[InstanceGroupProps], type="OS::Heat::InstanceGroup"):
    """A group with a fixed number of servers, created from a launch configuration."""

    update_policy = InstanceGroupPolicy
    policy_name = "RollingUpdate"

    @classmethod
    def nested_template(cls, given: Mapping[str, object]) -> NestedTemplate | None:
        coerced, faults = cls.schema.examine(given)
        return None if faults else _one_server(coerced.get("Size"))

    scaled_by_signals = False

    def size_limits(self) -> SizeLimits:
        return SizeLimits(0, self.facts.services.max_resources)

    def asked_size(self) -> int | None:
        return self.props.Size


# -- AWS::AutoScaling::AutoScalingGroup --------------------------------------------------------------


class CfnAutoScalingGroupProps(SizeRules):
    AvailabilityZones: list[Json] = prop(doc="Accepted as in Heat, without effect.")
    max_size: int = prop(alias="MaxSize", update=True, doc="Maximum number of servers.")
    min_size: int = prop(alias="MinSize", update=True, doc="Minimum number of servers.")
    Cooldown: int | None = prop(update=True, doc="Seconds after a scaling in which signals are ignored.")
    desired_capacity: int | None = prop(
        alias="DesiredCapacity", update=True, doc="The number of servers after a create or an update."
    )
    HealthCheckGracePeriod: int | None = prop(doc="Accepted as in Heat, without effect.")
    HealthCheckType: str | None = prop(one_of=("EC2", "ELB"), doc="Accepted as in Heat, without effect.")
    InstanceId: str | None = prop(custom="nova.server", doc="A server to copy the configuration from.")
    LaunchConfigurationName: str | None = prop(
        update=True, blank=True, doc="The launch configuration, by its reference."
    )
    LoadBalancerNames: list[Json] | None = prop(
        doc="Load balancers of the type AWS::ElasticLoadBalancing::LoadBalancer that the servers are members of."
    )
    Tags: list[Pair] | None = prop(doc="Tags of the servers.")
    VPCZoneIdentifier: list[str] | None = prop(doc="The subnet of the servers; exactly one.")

    def fault_zones(self) -> str | None:
        if self.VPCZoneIdentifier is not None and len(self.VPCZoneIdentifier) > 1:
            return "Anything other than one VPCZoneIdentifier is not supported."
        return None

    def fault_source(self) -> str | None:
        if (self.InstanceId is None) == (self.LaunchConfigurationName is None):
            return "Either 'InstanceId' or 'LaunchConfigurationName' must be provided."
        return None

    def fault_instance(self) -> str | None:
        return NO_INSTANCE if self.InstanceId is not None else None


class CfnAutoScalingGroupPolicy(Policy):
    AutoScalingRollingUpdate: ServerRollingUpdate | None = prop(
        doc="Batches in which another launch configuration is applied."
    )


class CfnAutoScalingGroup(ServerGroup[CfnAutoScalingGroupProps], type="AWS::AutoScaling::AutoScalingGroup"):
    """A group of servers created from a launch configuration.

    Scaling policies change its size within the limits.
    """

    update_policy = CfnAutoScalingGroupPolicy
    policy_name = "AutoScalingRollingUpdate"
    support_status = SupportStatus(version="2014.1")

    @classmethod
    def nested_template(cls, given: Mapping[str, object]) -> NestedTemplate | None:
        coerced, faults = cls.schema.examine(given)
        return None if faults else _one_server(coerced.get("DesiredCapacity", coerced.get("MinSize")))

    def own_tags(self, given: list[Json]) -> list[Json]:
        return [*super().own_tags(given), {"Key": "metering.AutoScalingGroupName", "Value": self.physical_name}]

    def more_properties(self) -> JsonMap:
        zones = self.props.VPCZoneIdentifier
        return {"SubnetId": zones[0]} if zones else {}

    def asked_size(self) -> int | None:
        return self.props.desired_capacity

    def size_limits(self) -> SizeLimits:
        props = self.props
        return SizeLimits(props.min_size, props.max_size, props.Cooldown or 0)
