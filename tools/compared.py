"""The page on what checks compare of each resource type.

Run it as a module from a checkout::

    python -m tools.compared > docs/reference/compared.md
"""

from collections.abc import Iterator, Mapping
from typing import Final

from heatlite.core.config import Settings
from heatlite.feature import registry
from heatlite.plugin.cloud import CloudResource
from heatlite.plugin.resource import ResourceType

_REASONS: Final[Mapping[str, Mapping[str, str]]] = {
    "a check finds it unhealthy": {
        "AWS::EC2::EIPAssociation": "AllocationId EIP InstanceId NetworkInterfaceId",
        "AWS::EC2::SubnetRouteTableAssociation": "RouteTableId SubnetId",
        "AWS::EC2::VPCGatewayAttachment": "InternetGatewayId VpcId",
        "AWS::EC2::VolumeAttachment": "InstanceId VolumeId",
        "OS::Cinder::QoSAssociation": "qos_specs volume_types",
        "OS::Cinder::VolumeAttachment": "instance_uuid",
        "OS::Neutron::ExtraRouteSet": "router routes",
        "OS::Neutron::RouterGateway": "network router_id",
        "OS::Neutron::RouterInterface": "port router subnet",
    },
    "the physical id tells": {
        "AWS::EC2::RouteTable": "VpcId",
        "AWS::IAM::AccessKey": "UserName",
        "OS::Cinder::Quota": "project",
        "OS::Cinder::VolumeAttachment": "volume_id",
        "OS::Neutron::FloatingIPAssociation": "floatingip_id port_id",
        "OS::Neutron::Quota": "project",
        "OS::Nova::FloatingIPAssociation": "floating_ip server_id",
        "OS::Nova::Quota": "project",
        "OS::Octavia::Quota": "project",
        "OS::Swift::Container": "name",
    },
    "nothing can change it": {
        "OS::Barbican::CertificateContainer": (
            "certificate_ref intermediates_ref private_key_passphrase_ref private_key_ref"
        ),
        "OS::Barbican::RSAContainer": "private_key_passphrase_ref private_key_ref public_key_ref",
        "OS::Cinder::EncryptedVolumeType": "volume_type",
        "OS::Designate::RecordSet": "name zone",
        "OS::Neutron::FloatingIPPortForward": "floating_ip",
        "OS::Neutron::QoSBandwidthLimitRule": "policy",
        "OS::Neutron::QoSDscpMarkingRule": "policy",
        "OS::Neutron::QoSMinimumBandwidthRule": "policy",
        "OS::Neutron::QoSMinimumPacketRateRule": "policy",
        "OS::Nova::KeyPair": "user",
        "OS::Nova::ServerGroup": "policies rules",
        "OS::Octavia::L7Rule": "l7policy",
        "OS::Octavia::Listener": "loadbalancer",
        "OS::Octavia::Pool": "listener loadbalancer",
        "OS::Octavia::PoolMember": "pool",
    },
    "it matters only when the object is made": {
        "AWS::EC2::Instance": "BlockDeviceMappings NovaSchedulerHints UserData",
        "AWS::EC2::Volume": "SnapshotId",
        "AWS::ElasticLoadBalancing::LoadBalancer": "Subnets",
        "OS::Barbican::Order": (
            "algorithm bit_length ca_id expiration mode name payload_content_type profile request_data request_type"
            " subject_dn"
        ),
        "OS::Barbican::Secret": "payload_content_encoding payload_content_type",
        "OS::Cinder::Volume": "image scheduler_hints",
        "OS::Glance::WebImage": "location",
        "OS::Neutron::FloatingIP": "floating_subnet",
        "OS::Neutron::Subnet": "prefixlen",
        "OS::Nova::Server": "personality reservation_id scheduler_hints user_data_format",
    },
    "the service does not show it": {
        "AWS::IAM::User": "LoginProfile",
        "OS::Keystone::User": "groups",
        "OS::Nova::Server": "user_data",
    },
    "it is no part of the object": {
        "AWS::EC2::Subnet": "AvailabilityZone",
        "AWS::EC2::VPC": "CidrBlock",
        "AWS::ElasticLoadBalancing::LoadBalancer": "SecurityGroups",
        "AWS::IAM::User": "Policies",
        "OS::Keystone::Region": "enabled",
        "OS::Neutron::Port": "replacement_policy",
        "OS::Nova::KeyPair": "save_private_key",
        "OS::Nova::Server": (
            "deployment_swift_data flavor_update_policy image_update_policy software_config_transport"
            " user_data_update_policy"
        ),
        "OS::Swift::Container": "PurgeOnDelete X-Account-Meta",
    },
    "the service shows it in another form": {
        "AWS::EC2::Volume": "Tags",
        "AWS::ElasticLoadBalancing::LoadBalancer": "HealthCheck Listeners",
        "AWS::S3::Bucket": "AccessControl Tags WebsiteConfiguration",
        "OS::Aodh::GnocchiAggregationByResourcesAlarm": "query",
        "OS::Barbican::GenericContainer": "secrets",
    },
    "the service may move it": {"AWS::EC2::Instance": "AvailabilityZone", "OS::Nova::Server": "availability_zone"},
    "a hypervisor may choose another one": {
        "AWS::EC2::VolumeAttachment": "Device",
        "OS::Cinder::VolumeAttachment": "mountpoint",
    },
    "the assignments are compared": {
        "OS::Keystone::GroupRoleAssignment": "group",
        "OS::Keystone::UserRoleAssignment": "user",
    },
    "a group changes them itself": {"AWS::ElasticLoadBalancing::LoadBalancer": "Instances"},
}
"""Properties that no check compares, by reason and type."""

NOT_COMPARED: Final[Mapping[tuple[str, str], str]] = {
    (kind, name): reason
    for reason, kinds in _REASONS.items()
    for kind, names in kinds.items()
    for name in names.split()
}
"""The reasons by type and property."""

NO_EFFECT: Final = "Without effect"
"""The text of a property that is accepted for Heat's sake begins so. Such ones are not compared."""

INTRODUCTION: Final = """# Reference: properties that checks compare

A check compares the properties that the template gives with those of the object
([drift](../drift.md)). The table has the types whose objects tell some, with the properties that an update, or one with
`converge`, changes in place. Of the others a check compares those that the object tells by the same name. Secrets, such
as passwords, are never compared, and properties without effect neither. Of the networks of servers the `tag` is not
compared, and of their volumes only whether they are attached. All other types take no part: their drift is
`not_checked`.

| Type | Compared | Not compared |
|---|---|---|"""


def page() -> str:
    """Return the page, in Markdown."""
    return "\n".join([INTRODUCTION, *_rows(), ""])


def _rows() -> Iterator[str]:
    types = registry(Settings(database=""))
    for name in sorted(types.names()):
        kind = types.get(name)
        if issubclass(kind, CloudResource) and not kind.old_name_of and not kind.gone:
            compared, others = ", ".join(_compared(kind)), ", ".join(_others(kind))
            if compared or others:
                yield f"| `{name}` | {compared or '-'} | {others or '-'} |"


def _compared(kind: ResourceType) -> Iterator[str]:
    for name in sorted(kind.schema.updatable | kind.puts_back):
        if not kind.schema.fields[name].secret and (kind.type_name, name) not in NOT_COMPARED:
            yield f"`{name}`"


def _others(kind: ResourceType) -> Iterator[str]:
    for name, field in sorted(kind.schema.fields.items()):
        if field.secret:
            yield f"`{name}` (secret)"
        elif reason := NOT_COMPARED.get((kind.type_name, name)):
            yield f"`{name}` ({reason})"


if __name__ == "__main__":
    print(page(), end="")
