"""Parts of objects: checks compare them, and converging updates repair them."""

from pathlib import Path
from typing import Any

import pytest

from heatlite.plugin import CloudResource
from tests.engine.conftest import ADMIN, resource
from tests.types.conftest import Cloudy
from tests.types.marking import TYPES, templates
from tests.types.standing import Standing

BY_A_VERDICT = "a check finds it unhealthy"
OF_ITS_ID = "the physical id tells"
NOT_SHOWN = "the service does not show it"
UNSEEN = {
    ("AWS::EC2::EIP", "InstanceId"): "an address leads to a port",
    ("AWS::EC2::EIPAssociation", "AllocationId"): BY_A_VERDICT,
    ("AWS::EC2::EIPAssociation", "EIP"): BY_A_VERDICT,
    ("AWS::EC2::EIPAssociation", "InstanceId"): BY_A_VERDICT,
    ("AWS::EC2::EIPAssociation", "NetworkInterfaceId"): BY_A_VERDICT,
    ("AWS::EC2::Instance", "InstanceType"): "values of machines of Amazon are not compared",
    ("AWS::EC2::Instance", "NetworkInterfaces"): "values of machines of Amazon are not compared",
    ("AWS::EC2::Instance", "SubnetId"): "values of machines of Amazon are not compared",
    ("AWS::ElasticLoadBalancing::LoadBalancer", "Instances"): "a group changes them itself",
    ("OS::Aodh::Alarm", "alarm_actions"): "they also contain the queues",
    ("OS::Aodh::Alarm", "matching_metadata"): "it is part of a query",
    ("OS::Aodh::GnocchiAggregationByResourcesAlarm", "query"): "the service shows it in another form",
    ("OS::Aodh::GnocchiResourcesAlarm", "alarm_queues"): "they are among the actions",
    ("OS::Cinder::QoSAssociation", "volume_types"): BY_A_VERDICT,
    ("OS::Cinder::VolumeAttachment", "instance_uuid"): BY_A_VERDICT,
    ("OS::Cinder::VolumeAttachment", "mountpoint"): "a hypervisor may choose another one",
    ("OS::Cinder::VolumeAttachment", "volume_id"): OF_ITS_ID,
    ("OS::Keystone::GroupRoleAssignment", "group"): "the assignments are compared",
    ("OS::Keystone::User", "groups"): NOT_SHOWN,
    ("OS::Keystone::UserRoleAssignment", "user"): "the assignments are compared",
    ("OS::Neutron::FloatingIPAssociation", "floatingip_id"): OF_ITS_ID,
    ("OS::Neutron::FloatingIPAssociation", "port_id"): OF_ITS_ID,
    ("OS::Nova::FloatingIPAssociation", "floating_ip"): OF_ITS_ID,
    ("OS::Nova::FloatingIPAssociation", "server_id"): OF_ITS_ID,
    ("OS::Nova::Server", "networks"): "interfaces may come and go while it runs",
    ("OS::Nova::Server", "user_data"): NOT_SHOWN,
}
"""Properties that an update changes in place, and that no check compares, with the reasons."""


@pytest.mark.full
@pytest.mark.share(5, whole=2)
@pytest.mark.parametrize("file", templates())
def test_a_check_compares_what_an_update_changes(tmp_path: Path, file: str) -> None:
    one = Standing(tmp_path, file)
    resources = one.cloudy.components.reader.resources_of(one.marks.stack)
    unseen = set()
    for row in one.cloudy.rows(one.marks.stack):
        kind = TYPES.get(row.type)
        live = resources.make(row).live_properties() if issubclass(kind, CloudResource) else None
        for name in kind.schema.updatable if live is not None else ():
            if row.properties.get(name) is not None and not kind.schema.fields[name].secret and name not in live:
                unseen.add((row.type, name))
    one.ends.close()
    assert unseen <= UNSEEN.keys()


PARTS: dict[str, tuple[Any, str, Any]] = {
    "specs of QoS": (resource("OS::Cinder::QoSSpecs", name="n", specs={"a": "1"}), "specs", {"a": "2", "b": "1"}),
    "specs of a volume type": (
        resource("OS::Cinder::VolumeType", name="n", metadata={"a": "1"}), "extra_specs", {"b": "1"},
    ),
    "specs of a flavor": (
        resource("OS::Nova::Flavor", name="n", ram=64, vcpus=1, extra_specs={"a": 1}), "extra_specs", {},
    ),
    "access to a flavor": (
        resource("OS::Nova::Flavor", name="n", ram=64, vcpus=1, is_public=False, tenants=["demo"]), "_access", [],
    ),
    "hosts of an aggregate": (
        resource("OS::Nova::HostAggregate", name="n", hosts=["fake-1"]), "hosts", ["fake-2"],
    ),
    "metadata of an aggregate": (
        resource("OS::Nova::HostAggregate", name="n", metadata={"a": "1"}), "metadata", {"a": "1", "b": "2"},
    ),
    "tags of a network": (resource("OS::Neutron::Net", tags=["a", "b"]), "tags", ["b", "c"]),
}  # fmt: skip
"""A resource, the attribute of its object that has the part, and another value."""


@pytest.mark.parametrize("part", PARTS)
def test_a_check_names_the_part_and_converge_repairs_it(cloudy: Cloudy, part: str) -> None:
    cloudy.who = ADMIN
    given, name, other = PARTS[part]
    stack = cloudy.made({"it": given})
    wanted = cloudy.thing(stack, "it")[name]
    kind: Any = TYPES.get(given["type"])
    for drifted in (wanted, other):
        cloudy.admin.put(kind.kind, {**cloudy.thing(stack, "it"), name: drifted})
        stack = cloudy.check(stack)
        assert stack.status == "COMPLETE", cloudy.why(stack)
        assert ("differs" in cloudy.row(stack, "it").status_reason) is (drifted != wanted)
    before = cloudy.ids(stack)
    stack = cloudy.patch(stack, converge=True)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert (cloudy.thing(stack, "it")[name], cloudy.ids(stack)) == (wanted, before)
