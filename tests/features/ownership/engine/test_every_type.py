"""Generated definitions for the objects of every type that has one in a cloud."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.json import dump
from heatlite.engine.state.unit_of_work import MOVED_FROM
from heatlite.plugin.nested import StackResource
from heatlite.store.records import StackRecord
from tests.features.ownership.engine.conftest import Imported
from tests.tables import sampled
from tests.types.marking import EXAMPLES
from tests.types.standing import Standing

SAY_LITTLE = frozenset(
    {
        "AWS::EC2::EIPAssociation", "AWS::EC2::Instance", "AWS::EC2::NetworkInterface", "AWS::EC2::RouteTable",
        "AWS::EC2::SecurityGroup", "AWS::EC2::SubnetRouteTableAssociation", "AWS::EC2::VPCGatewayAttachment",
        "AWS::EC2::VolumeAttachment", "AWS::ElasticLoadBalancing::LoadBalancer", "OS::Aodh::CompositeAlarm",
        "OS::Aodh::GnocchiAggregationByResourcesAlarm", "OS::Barbican::Order", "OS::Cinder::EncryptedVolumeType",
        "OS::Cinder::QoSAssociation", "OS::Cinder::Quota", "OS::Cinder::VolumeAttachment", "OS::Glance::WebImage",
        "OS::Keystone::GroupRoleAssignment", "OS::Keystone::UserRoleAssignment", "OS::Neutron::ExtraRouteSet",
        "OS::Neutron::FloatingIPAssociation", "OS::Neutron::Quota", "OS::Neutron::RouterGateway",
        "OS::Neutron::RouterInterface", "OS::Nova::FloatingIPAssociation", "OS::Nova::Quota", "OS::Octavia::Quota",
    }
)  # fmt: skip
"""Types whose objects do not tell what their definitions need. The body gives it."""
LISTED = frozenset({"thing", "balancer"})
"""Names that properties have as text: of an `AccessPolicy`, and as the reference of a load balancer of AWS."""


def renamed(imported: Imported, stack: StackRecord) -> None:
    """Rename the resources of a stack.

    Rows keep all but names, those before too, and the next update does what the plan says.
    """
    cloudy = imported.cloudy
    names = {row.name: f"{row.name}_moved" for row in cloudy.rows(stack) if row.name not in LISTED}

    def new(name: str) -> str:
        return names.get(name, name)

    rows = cloudy.rows(stack)
    before = []
    for row in rows:
        data = {**row.data, MOVED_FROM: row.name} if row.name in names else row.data
        before.append(replace(row, name=new(row.name), requires=tuple(sorted(map(new, row.requires))), data=data))
    told = [(event.id, new(event.resource_name)) for event in cloudy.events(stack) if event.resource_name != stack.name]
    cloudy.clock.pass_(1)  # some types are made anew by each update that is later than they are
    later = imported.move_plan(stack, names).later
    stack = imported.moved(stack, names)
    assert cloudy.rows(stack) == before
    events = [event for event in cloudy.events(stack) if event.verb != "MOVE" and event.resource_name != stack.name]
    assert [(event.id, event.resource_name) for event in events] == told
    assert imported.first_plan(stack) == {"/".join(one.path): one.action for one in later}


@pytest.mark.slow
@pytest.mark.parametrize("file", sampled(EXAMPLES, 8), ids=lambda file: file.stem)
def test_law_nothing_is_to_do_after_a_move_or_a_generated_import(tmp_path: Path, file: Path) -> None:
    standing = Standing(tmp_path, file)
    cloudy, stack, secrets = standing.cloudy, standing.marks.stack, list[str]()
    imported, entries = Imported(cloudy), dict[str, dict[str, Any]]()
    renamed(imported, stack)
    stack = cloudy.get(stack)
    for row in cloudy.rows(stack):
        kind = cloudy.components.reader.resources_of(stack).type_of(row)
        if kind.cloud_service and not issubclass(kind, StackResource) and row.external_id is None:
            entry = entries[row.name] = {"type": row.type, "id": row.physical_id}
            if row.type in SAY_LITTLE:
                entry["filter"] = row.properties
            elif kind.within:
                entry["filter"] = {kind.within: row.properties[kind.within]}
            else:
                secrets += map(dump, kind.schema.secret_values(row.properties))
    cloudy.components.exports.abandon(cloudy.who, stack)
    cloudy.settle(stack)
    empty = imported.empty()
    if entries:
        plan = imported.plan(empty, entries)
        assert plan.later == ()
        assert [one.action for one in plan.resources] == ["import"] * len(entries)
        assert [secret for secret in secrets if secret in dump(plan.details)] == []
        assert imported.first_plan(imported.done(empty, entries)) == {}
    standing.ends.close()
