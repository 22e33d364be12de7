"""The page on what checks compare of each resource type.

Run it as a module from a checkout::

    python -m tools.compared > docs/reference/compared.md
"""

from collections.abc import Iterator
from typing import Final

from heatlite.core.config import Settings
from heatlite.feature import registry
from heatlite.plugin.cloud import CloudResource
from heatlite.plugin.resource import ResourceType

BY_A_VERDICT = "a check finds it unhealthy"
OF_ITS_ID = "the physical id tells"
NOT_SHOWN = "the service does not show it"
NO_PART = "it is no part of the object"
NOT_COMPARED: Final = {
    ("AWS::EC2::EIP", "InstanceId"): "an address leads to a port",
    ("AWS::EC2::EIPAssociation", "AllocationId"): BY_A_VERDICT,
    ("AWS::EC2::EIPAssociation", "EIP"): BY_A_VERDICT,
    ("AWS::EC2::EIPAssociation", "InstanceId"): BY_A_VERDICT,
    ("AWS::EC2::EIPAssociation", "NetworkInterfaceId"): BY_A_VERDICT,
    ("AWS::EC2::Instance", "NetworkInterfaces"): "networks of machines of Amazon are not compared",
    ("AWS::EC2::Instance", "SubnetId"): "networks of machines of Amazon are not compared",
    ("AWS::ElasticLoadBalancing::LoadBalancer", "Instances"): "a group changes them itself",
    ("AWS::ElasticLoadBalancing::LoadBalancer", "SecurityGroups"): NO_PART,
    ("OS::Aodh::GnocchiAggregationByResourcesAlarm", "query"): "the service shows it in another form",
    ("OS::Cinder::QoSAssociation", "volume_types"): BY_A_VERDICT,
    ("OS::Cinder::VolumeAttachment", "instance_uuid"): BY_A_VERDICT,
    ("OS::Cinder::VolumeAttachment", "mountpoint"): "a hypervisor may choose another one",
    ("OS::Cinder::VolumeAttachment", "volume_id"): OF_ITS_ID,
    ("OS::Keystone::GroupRoleAssignment", "group"): "the assignments are compared",
    ("OS::Keystone::Region", "enabled"): NO_PART,
    ("OS::Keystone::User", "groups"): NOT_SHOWN,
    ("OS::Keystone::UserRoleAssignment", "user"): "the assignments are compared",
    ("OS::Neutron::ExtraRouteSet", "routes"): BY_A_VERDICT,
    ("OS::Neutron::FloatingIPAssociation", "floatingip_id"): OF_ITS_ID,
    ("OS::Neutron::FloatingIPAssociation", "port_id"): OF_ITS_ID,
    ("OS::Neutron::Port", "replacement_policy"): NO_PART,
    ("OS::Nova::FloatingIPAssociation", "floating_ip"): OF_ITS_ID,
    ("OS::Nova::FloatingIPAssociation", "server_id"): OF_ITS_ID,
    ("OS::Nova::Server", "deployment_swift_data"): NO_PART,
    ("OS::Nova::Server", "flavor_update_policy"): NO_PART,
    ("OS::Nova::Server", "image_update_policy"): NO_PART,
    ("OS::Nova::Server", "software_config_transport"): NO_PART,
    ("OS::Nova::Server", "user_data"): NOT_SHOWN,
    ("OS::Nova::Server", "user_data_update_policy"): NO_PART,
}
"""Properties that an update changes in place, and that no check compares, with the reasons."""

INTRODUCTION: Final = """# Reference: properties that checks compare

A check compares the properties that the template gives with those of the object
([drift](../drift.md)). The table has the types whose objects tell some, with the properties that an update, or one with
`converge`, changes in place. Of the others a check compares those that the object tells by the same name. Secrets, such
as passwords, are never compared. All other types take no part: their drift is `not_checked`.

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
