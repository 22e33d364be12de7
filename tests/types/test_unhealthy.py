"""Replacement of unhealthy cloud objects, also of those that exist only once."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.status import state
from heatlite.template.source.loader import load_mapping
from tests.engine.conftest import ref, resource, template
from tests.tables import few
from tests.types.cinder.test_attachments import parts
from tests.types.conftest import Cloudy
from tests.types.neutron.test_neutron_types import CASES, CONNECTED, SUBNET
from tests.types.octavia.test_octavia_types import BASE, TREE

Resources = Mapping[str, Any]
ROLES = [{"role": "member", "project": "demo"}]
FLAVOR = {"ram": 64, "vcpus": 1}


def it(kind: str, around: Resources | None = None, **properties: object) -> Resources:
    return {**(around or {}), "it": resource(f"OS::{kind}", **properties)}


ZONE = {"zone": resource("OS::Designate::Zone", name="a.org.", email="a@a.org")}
TYPE = {"kind": resource("OS::Cinder::VolumeType", name="x")}
WHO = {"user": resource("OS::Keystone::User"), "group": resource("OS::Keystone::Group")}
LIVES: dict[str, Resources] = {
    **{case.type.removeprefix("OS::"): case.resources() for case in CASES},
    **{
        TREE[name]["type"].removeprefix("OS::"): {
            **BASE,
            **{other: one for other, one in TREE.items() if other not in (name, "rule")},
            "it": TREE[name],
        }
        for name in ("member", "monitor", "policy", "rule")
    },
    "Keystone::Role": it("Keystone::Role", name="x"),
    "Keystone::Project": it("Keystone::Project", name="x"),
    "Keystone::User": it("Keystone::User", name="x", roles=ROLES),
    "Keystone::Group": it("Keystone::Group", name="x", roles=ROLES),
    "Keystone::Domain": it("Keystone::Domain", name="x"),
    "Keystone::Region": it("Keystone::Region", id="x"),
    "Keystone::Service": it("Keystone::Service", name="x", type="t"),
    "Keystone::Endpoint": it("Keystone::Endpoint", service="nova", interface="public", url="http://a"),
    "Keystone::UserRoleAssignment": it("Keystone::UserRoleAssignment", WHO, user=ref("user"), roles=ROLES),
    "Keystone::GroupRoleAssignment": it("Keystone::GroupRoleAssignment", WHO, group=ref("group"), roles=ROLES),
    "Cinder::VolumeType": it("Cinder::VolumeType", name="x"),
    "Cinder::QoSSpecs": it("Cinder::QoSSpecs", name="x", specs={"a": "b"}),
    "Cinder::EncryptedVolumeType": it("Cinder::EncryptedVolumeType", TYPE, provider="luks", volume_type=ref("kind")),
    "Cinder::Quota": it("Cinder::Quota", project="demo", volumes=3),
    "Cinder::Volume": it("Cinder::Volume", size=1, name="x"),
    "Cinder::VolumeAttachment": {("it" if name == "a" else name): one for name, one in parts().items()},
    "Nova::KeyPair": it("Nova::KeyPair", name="x"),
    "Nova::Flavor": it("Nova::Flavor", name="x", **FLAVOR),
    "Nova::Flavor by id": it("Nova::Flavor", flavorid="9", **FLAVOR),
    "Nova::ServerGroup": it("Nova::ServerGroup", name="x"),
    "Nova::HostAggregate": it("Nova::HostAggregate", name="x", hosts=["fake-1"]),
    "Nova::Quota": it("Nova::Quota", project="demo", cores=3),
    "Swift::Container": it("Swift::Container", name="x"),
    "Designate::Zone": it("Designate::Zone", name="b.org.", email="a@a.org"),
    "Designate::RecordSet": it(
        "Designate::RecordSet", ZONE, zone=ref("zone"), name="x.a.org.", type="A", records=["10.0.0.1"]
    ),
    "Glance::WebImage": it(
        "Glance::WebImage", name="x", location="http://a", container_format="bare", disk_format="raw"
    ),
    "Barbican::Secret": it("Barbican::Secret", name="x", payload="p", payload_content_type="text/plain"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", few(LIVES))
def test_an_unhealthy_one_is_made_anew(cloudy: Cloudy, kind: str) -> None:
    empty = cloudy.census()
    stack = cloudy.made(LIVES[kind])
    before = cloudy.census()
    cloudy.mark(stack, "it")
    stack = cloudy.patch(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.census() == before
    assert cloudy.check(stack).status == "COMPLETE", cloudy.why(stack)
    cloudy.delete(stack)
    assert cloudy.census() == empty


def test_what_cannot_be_rebuilt_goes_first_too(cloudy: Cloudy) -> None:
    made = it("Cinder::QoSSpecs", name="x", specs={"a": "b"})["it"]
    stack = cloudy.made({"it": {**made, "update_policy": {"replacement": {"order": "rebuild"}}}})
    cloudy.mark(stack, "it")
    assert cloudy.patch(stack).status == "COMPLETE", cloudy.why(stack)


@pytest.mark.slow
def test_a_routers_interface_to_the_same_subnet_goes_first(cloudy: Cloudy) -> None:
    """By the subnet, a port in it, and another router that its gateway names."""
    interface = "OS::Neutron::RouterInterface"
    around = {
        **SUBNET,
        "one": resource("OS::Neutron::Router"),
        "two": resource("OS::Neutron::Router"),
        "port": resource("OS::Neutron::Port", network=ref("net"), fixed_ips=[{"subnet": ref("subnet")}]),
    }
    stack = cloudy.made({**around, "it": resource(interface, router=ref("one"), subnet=ref("subnet"))})
    stack = cloudy.changed(stack, {**around, "it": resource(interface, router=ref("two"), subnet=ref("subnet"))})
    without = {name: one for name, one in around.items() if name != "port"}
    stack = cloudy.changed(stack, {**around, "it": resource(interface, router=ref("two"), port=ref("port"))})
    assert cloudy.check(stack).status == "COMPLETE", cloudy.why(stack)
    stack = cloudy.changed(stack, {**without, "it": resource(interface, router=ref("two"), subnet=ref("subnet"))})
    assert cloudy.check(stack).status == "COMPLETE", cloudy.why(stack)


@pytest.mark.slow
def test_an_interface_that_a_floating_ip_needs_is_taken_over(cloudy: Cloudy) -> None:
    address = resource("OS::Neutron::FloatingIP", floating_network="public", port_id=ref("port"))
    stack = cloudy.made({**CONNECTED, "address": address})
    router, subnet = (cloudy.row(stack, name).physical_id for name in ("router", "subnet"))
    cloudy.mark(stack, "interface")
    stack = cloudy.patch(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.row(stack, "interface").physical_id == f"{router}:subnet_id={subnet}"
    assert cloudy.check(stack).status == "COMPLETE", cloudy.why(stack)


@pytest.mark.parametrize(
    ("kind", "changed"),
    few(
        [
            ("Keystone::Project", {"description": "b"}),
            ("Keystone::Group", {"description": "b"}),
            ("Cinder::VolumeType", {"description": "b"}),
        ]
    ),
)
def test_one_whose_update_failed_is_kept(troubled: Any, kind: str, changed: Resources) -> None:
    """Others use it: a rollback, or the next update, does not make it anew."""
    resources = LIVES[kind]
    cloudy = troubled(faults=[{"verb": "*.update_*", "number": 1, "raises": "refused"}])
    stack = cloudy.made(resources)
    before = cloudy.row(stack, "it").physical_id
    new = {"it": resource(f"OS::{kind}", **{**resources["it"]["properties"], **changed})}
    stack = cloudy.put(stack, template(**new))
    assert stack.status == "FAILED"
    stack = cloudy.changed(stack, new)
    assert cloudy.row(stack, "it").physical_id == before
    assert cloudy.thing(stack, "it")["description"] == "b"


TEMPLATES = Path(__file__).parents[2] / "templates"


def read(name: str) -> Any:
    return dict(load_mapping((TEMPLATES / name).read_text(), name, "Template").data)


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if "get_resource" in value:
            yield value["get_resource"]
        for one in value.values():
            yield from references(one)
    if isinstance(value, list):
        for one in value:
            yield from references(one)


def replaced_with(cloudy: Cloudy, resources: Resources, marked: str) -> set[str]:
    """The marked one, and those that name it in an immutable property."""
    found: set[str] = set()
    more = {marked}
    while more - found:
        found |= more
        for name, one in resources.items():
            fixed = one.get("properties", {}).keys() - cloudy.components.types.get(one["type"]).schema.updatable
            if any(found.intersection(references(one["properties"][key])) for key in fixed):
                more.add(name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", few(["network.yaml", "server.yaml"]))
def test_whatever_is_unhealthy_in_our_templates_is_made_anew(cloudy: Cloudy, name: str) -> None:
    """The rest stays, joined to what is new.

    Each by another process, which knows the cloud from before.
    """
    empty, document = cloudy.census(), read(name)
    stack = cloudy.create(document)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    full, resources = cloudy.census(), document["resources"]
    for marked in reversed(resources):
        before = {row.name: row.id for row in cloudy.rows(stack)}
        cloudy.close()
        cloudy.open()
        cloudy.mark(stack, marked)
        stack = cloudy.patch(stack)
        assert stack.status == "COMPLETE", (marked, cloudy.why(stack))
        after = {row.name: row.id for row in cloudy.rows(stack)}
        assert {one for one in after if after[one] != before[one]} == replaced_with(cloudy, resources, marked)
        assert cloudy.census() == full
        port = cloudy.thing(stack, "port")
        assert port["fixed_ips"]
        if name == "server.yaml":
            assert port["device_id"] == cloudy.row(stack, "server").physical_id
            assert cloudy.thing(stack, "address")["port_id"] == port["id"]
        assert cloudy.check(stack).status == "COMPLETE", (marked, cloudy.why(stack))
    cloudy.delete(stack)
    assert cloudy.census() == empty


@pytest.mark.slow
def test_an_update_that_was_refused_in_the_middle_is_mended_by_the_next(troubled: Any) -> None:
    """Also if a floating IP was detached, and the deletion needs a second attempt."""
    faults = [
        {"verb": "network.add_interface_to_router", "number": 2, "raises": "refused"},
        {"verb": "network.remove_interface_from_router", "number": 1, "raises": "conflict"},
    ]
    cloudy = troubled(faults=faults)
    stack = cloudy.create(read("server.yaml"))
    cloudy.mark(stack, "interface")
    cloudy.mark(stack, "router")
    address = cloudy.row(stack, "address").physical_id
    assert cloudy.patch(stack).status == "FAILED"
    assert cloudy.thing(stack, "address")["port_id"] is None
    stack = cloudy.patch(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.row(stack, "address").physical_id == address
    assert cloudy.thing(stack, "address")["port_id"] == cloudy.row(stack, "port").physical_id


@pytest.mark.slow
@pytest.mark.parametrize("where", few([{"network": ref("net")}, {"subnet": ref("subnet")}]))
def test_a_server_with_a_port_of_its_own_outlives_its_network(cloudy: Cloudy, where: Any) -> None:
    server = resource("OS::Nova::Server", image="cirros", flavor="m1.nano", networks=[where])
    stack = cloudy.made({**SUBNET, "server": server})
    before, full = cloudy.row(stack, "server").physical_id, cloudy.census()
    for marked in ("subnet", "net", "subnet"):
        cloudy.mark(stack, marked)
        stack = cloudy.patch(stack)
        assert stack.status == "COMPLETE", cloudy.why(stack)
        assert (cloudy.row(stack, "server").physical_id, cloudy.census()) == (before, full)
        (port,) = cloudy.admin.call("network.ports", device_id=before)  # type: ignore[misc, union-attr]
        subnet = cloudy.row(stack, "subnet").physical_id
        assert [one["subnet_id"] for one in port["fixed_ips"]] == [subnet]  # type: ignore


@pytest.mark.slow
def test_the_routes_of_a_router_outlive_the_interface_that_they_go_by(cloudy: Cloudy) -> None:
    routes = [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}]
    extra = resource("OS::Neutron::ExtraRouteSet", router=ref("router"), routes=routes)
    stack = cloudy.made({**CONNECTED, "routes": extra})
    for marked in ("subnet", "interface", "net"):
        cloudy.mark(stack, marked)
        stack = cloudy.patch(stack)
        assert stack.status == "COMPLETE", cloudy.why(stack)
        assert cloudy.thing(stack, "router")["routes"] == routes


@pytest.mark.slow
@pytest.mark.parametrize("verb", few(["create_subnet", "add_interface_to_router", "update_ip"]))
def test_a_rollback_joins_what_has_let_go(troubled: Any, verb: str) -> None:
    # The first update of the floating IP is for letting go.
    cloudy = troubled(faults=[{"verb": f"network.{verb}", "number": 2, "raises": "refused"}])
    address = resource("OS::Neutron::FloatingIP", floating_network="public", port_id=ref("port"))
    stack = cloudy.made({**CONNECTED, "address": address})
    before = cloudy.census()
    cloudy.mark(stack, "subnet")
    stack = cloudy.patch(stack, disable_rollback=False)
    assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE", cloudy.why(stack)
    assert cloudy.thing(stack, "address")["port_id"] == cloudy.row(stack, "port").physical_id
    assert cloudy.check(stack).status == "COMPLETE", cloudy.why(stack)
    assert cloudy.census() == before
