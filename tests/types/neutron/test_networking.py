"""Types of the network service together, and refusals, on a simulated cloud."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.clients.cloud import CloudConflict, CloudError, CloudNotFound
from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import JsonMap
from tests.engine.conftest import attr, ref, resource, template
from tests.tables import few, sampled
from tests.types.conftest import Cloudy

NET = {"net": resource("OS::Neutron::Net")}
SUBNET = {**NET, "subnet": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24")}
PORT = {**SUBNET, "port": resource("OS::Neutron::Port", network=ref("net"))}


def addresses(port: JsonMap) -> list[str]:
    return [one["ip_address"] for one in port["fixed_ips"]]  # type: ignore[index, union-attr, call-overload, misc]


# -- order --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_nothing_refers_to_is_waited_for(cloudy: Cloudy) -> None:
    stack = cloudy.made({
        **PORT,
        "outside": resource("OS::Neutron::ProviderNet", network_type="flat", physical_network="x",
                            router_external=True),
        "outer": resource("OS::Neutron::Subnet", network=ref("outside"), cidr="192.0.2.0/24"),
        "router": resource("OS::Neutron::Router", external_gateway_info={"network": ref("outside")}),
        "bare": resource("OS::Neutron::Router"),
        "gateway": resource("OS::Neutron::RouterGateway", router_id=ref("bare"), network=ref("outside")),
        "interface": resource("OS::Neutron::RouterInterface", router_id=ref("router"), subnet_id=ref("subnet")),
        "ip": resource("OS::Neutron::FloatingIP", floating_network=ref("outside"), port_id=ref("port")),
        "spare": resource("OS::Neutron::FloatingIP", floating_network_id=ref("outside")),
        "other": resource("OS::Neutron::Port", network_id=ref("net")),
        "link": resource("OS::Neutron::FloatingIPAssociation", floatingip_id=ref("spare"), port_id=ref("other")),
        "routes": resource(
            "OS::Neutron::ExtraRouteSet",
            router=ref("router"),
            routes=[{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}],
        ),
    })  # fmt: skip
    requires = {row.name: set(row.requires) for row in cloudy.rows(stack)}
    assert requires["port"] == requires["other"] == {"net", "subnet"}
    assert requires["router"] == {"outside", "outer"}
    assert requires["gateway"] == {"bare", "outside", "outer"}
    assert requires["ip"] == {"outside", "port", "router", "gateway", "interface"}
    assert requires["spare"] == {"outside", "router", "gateway"}
    assert requires["link"] == {"spare", "other", "interface", "gateway"}
    assert requires["routes"] == {"router", "interface"}
    before = cloudy.delete(stack)
    assert before.status == "COMPLETE"
    assert cloudy.count("network.port") == cloudy.count("network.router") == 0


# -- addresses ----------------------------------------------------------------------------------------


def test_ports_have_one_address_of_each_version(cloudy: Cloudy) -> None:
    stack = cloudy.made({
        **SUBNET,
        "six": resource("OS::Neutron::Subnet", network=ref("net"), cidr="2001:db8::/64", ip_version=6),
        "own": resource("OS::Neutron::Subnet", network=ref("net"), cidr="2001:db8:1::/64", ip_version=6,
                        ipv6_ra_mode="slaac", ipv6_address_mode="slaac"),
        "port": resource("OS::Neutron::Port", network=ref("net"), mac_address="00:11:22:33:44:55"),
    })  # fmt: skip
    found = addresses(cloudy.thing(stack, "port"))
    assert sorted(found) == ["10.0.0.2", "2001:db8:1:0:211:22ff:fe33:4455", "2001:db8::2"]


@pytest.mark.parametrize("written", few([None, "", "~"]))
def test_a_subnet_without_a_router(cloudy: Cloudy, written: str | None) -> None:
    stack = cloudy.made({
        **NET,
        "subnet": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/30", gateway_ip=written),
        "one": resource("OS::Neutron::Port", network=ref("net")),
        "two": resource("OS::Neutron::Port", network=ref("net")),
    })  # fmt: skip
    assert cloudy.thing(stack, "subnet")["gateway_ip"] is None
    found = addresses(cloudy.thing(stack, "one")) + addresses(cloudy.thing(stack, "two"))
    assert sorted(found) == ["10.0.0.1", "10.0.0.2"]


def test_subnets_from_a_pool(cloudy: Cloudy) -> None:
    def subnet(**more: Any) -> Any:
        return resource("OS::Neutron::Subnet", network=ref("net"), subnetpool=ref("pool"), **more)

    stack = cloudy.made({
        **NET,
        "pool": resource("OS::Neutron::SubnetPool", prefixes=["10.8.0.0/22"], default_prefixlen=24),
        "a": subnet(),
        "b": subnet(prefixlen=23),
    })  # fmt: skip
    spans = {str(cloudy.thing(stack, name)["cidr"]) for name in "ab"}
    assert spans in ({"10.8.0.0/24", "10.8.2.0/23"}, {"10.8.2.0/24", "10.8.0.0/23"})


def test_a_network_that_is_full(cloudy: Cloudy) -> None:
    stack = cloudy.create(template(
        net=resource("OS::Neutron::Net"),
        subnet=resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/30"),
        one=resource("OS::Neutron::Port", network=ref("net")),
        two=resource("OS::Neutron::Port", network=ref("net")),
    ))  # fmt: skip
    assert stack.status == "FAILED"
    assert any("No more IP addresses available on network" in why for why in cloudy.why(stack))


def fixed(**more: Any) -> Any:
    return {**SUBNET, "port": resource("OS::Neutron::Port", network=ref("net"),
                                       fixed_ips=[{"ip_address": "10.0.0.50"}], **more)}  # fmt: skip


def test_a_port_has_the_address_of_the_one_that_it_replaces(cloudy: Cloudy) -> None:
    stack = cloudy.made(fixed())
    old = cloudy.row(stack, "port").physical_id
    cloudy.changed(stack, fixed(mac_address="00:11:22:33:44:55"))
    assert cloudy.row(stack, "port").physical_id != old
    assert addresses(cloudy.thing(stack, "port")) == ["10.0.0.50"]
    assert cloudy.count("network.port") == 1


@pytest.mark.slow
def test_and_so_has_the_one_that_a_rollback_makes(cloudy: Cloudy) -> None:
    stack = cloudy.made(fixed())
    broken = {**fixed(mac_address="00:11:22:33:44:55"),
              "late": resource("OS::Heat::TestResource", fail=True, depends_on="port")}  # fmt: skip
    stack = cloudy.put(stack, template(**broken), disable_rollback=False)
    assert (stack.verb, stack.status) == ("ROLLBACK", "COMPLETE")
    assert addresses(cloudy.thing(stack, "port")) == ["10.0.0.50"]
    assert cloudy.thing(stack, "port")["mac_address"] != "00:11:22:33:44:55"
    assert cloudy.count("network.port") == 1


# -- attributes ---------------------------------------------------------------------------------------


def test_attributes(cloudy: Cloudy) -> None:
    stack = cloudy.create(template(
        **PORT,
        router=resource("OS::Neutron::Router", external_gateway_info={"network": "public"}),
        outputs={
            "cidr": attr("port", "subnets", 0, "cidr"),  # type: ignore[arg-type]
            "mtu": attr("port", "network", "mtu"),
            "shown": attr("net", "show", "name"),
            "subnets": attr("net", "subnets", 0),  # type: ignore[arg-type]
            "snat": attr("router", "external_gateway_info", "enable_snat"),
        },
    ))  # fmt: skip
    outputs = cloudy.outputs(stack)
    assert outputs == {
        "cidr": "10.0.0.0/24",
        "mtu": 1450,
        "shown": cloudy.row(stack, "net").physical_name,
        "subnets": cloudy.row(stack, "subnet").physical_id,
        "snat": True,
    }


# -- what a failure leaves ----------------------------------------------------------------------------


@pytest.mark.slow
def test_what_has_failed_and_is_well_is_kept(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(faults=[{"verb": "network.update_port", "number": 1, "raises": "refused"}])
    stack = cloudy.made(PORT)
    made = cloudy.row(stack, "port").id
    changed = {**PORT, "port": resource("OS::Neutron::Port", network=ref("net"), name="new")}
    assert cloudy.put(stack, template(**changed)).status == "FAILED"
    cloudy.changed(stack, changed)
    assert cloudy.row(stack, "port").id == made
    assert cloudy.thing(stack, "port")["name"] == "new"


@pytest.mark.slow
@pytest.mark.parametrize("rolled_back", [True, False])
def test_what_a_failed_update_has_changed_is_changed_back(troubled: Callable[..., Cloudy], rolled_back: bool) -> None:
    # The update itself succeeds; its result cannot be read.
    cloudy = troubled(faults=[{"verb": "network.get_router", "number": 1, "raises": "refused"}])
    gateway = {"network": "public"}
    before = {"router": resource("OS::Neutron::Router", name="before", external_gateway_info=gateway)}
    stack = cloudy.made(before)
    made, ports = cloudy.row(stack, "router").id, cloudy.count("network.port")
    after = template(router=resource("OS::Neutron::Router", admin_state_up=False))
    stack = cloudy.put(stack, after, disable_rollback=not rolled_back)
    assert (stack.verb, stack.status) == (("ROLLBACK", "COMPLETE") if rolled_back else ("UPDATE", "FAILED"))
    if not rolled_back:
        stack = cloudy.check(stack)  # a check that finds it well does not tell what it has
        cloudy.changed(stack, before)
    thing = cloudy.thing(stack, "router")
    assert (thing["name"], thing["admin_state_up"], cloudy.count("network.port")) == ("before", True, ports)
    row = cloudy.row(stack, "router")
    assert (row.id, "tried" in row.data) == (made, False)


NETS = {"n": resource("OS::Neutron::Net"), "m": resource("OS::Neutron::Net")}
ROUTED = {
    **NETS,
    "s": resource("OS::Neutron::Subnet", network=ref("n"), cidr="10.0.0.0/24"),
    "t": resource("OS::Neutron::Subnet", network=ref("m"), cidr="10.1.0.0/24"),
    "r": resource("OS::Neutron::Router"),
}
MACHINE = {
    **NETS,
    "v": resource("OS::Nova::Server", image="cirros", flavor="m1.nano", networks=[{"network": ref("n")}]),
    "w": resource("OS::Cinder::Volume", size=1),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "rest", "before", "after"),
    few([
        (
            "network.delete_subnet", NETS,
            resource("OS::Neutron::Subnet", network=ref("n"), cidr="10.0.0.0/24"),
            resource("OS::Neutron::Subnet", network=ref("n"), cidr="10.0.1.0/24"),
        ),
        (
            "network.remove_interface_from_router", ROUTED,
            resource("OS::Neutron::RouterInterface", router=ref("r"), subnet=ref("s")),
            resource("OS::Neutron::RouterInterface", router=ref("r"), subnet=ref("t")),
        ),
        (
            "compute.delete_keypair", {},
            resource("OS::Nova::KeyPair", name="a"), resource("OS::Nova::KeyPair", name="b"),
        ),
        (
            "compute.delete_volume_attachment", MACHINE,
            resource("OS::Cinder::VolumeAttachment", instance_uuid=ref("v"), volume_id=ref("w")), None,
        ),
    ]),
    ids=["subnet", "interface", "key", "attachment"],
)  # fmt: skip
def test_what_a_failed_deletion_has_left_goes_before_its_like_is_made(
    troubled: Callable[..., Cloudy], verb: str, rest: dict[str, Any], before: Any, after: Any
) -> None:
    cloudy = troubled(faults=[{"verb": verb, "number": 1, "raises": "refused"}])
    stack, there = cloudy.made({**rest, "x": before}), cloudy.census()
    stack = cloudy.put(stack, template(**rest, **({} if after is None else {"x": after})))
    assert (stack.status, "x DELETE_FAILED" in cloudy.told(stack)) == ("FAILED", True)
    cloudy.changed(stack, {**rest, "x": before})
    assert cloudy.census() == there
    assert cloudy.check(stack).status == "COMPLETE"
    assert cloudy.delete(stack).status == "COMPLETE"


def test_what_goes_to_error_is_said_and_made_anew(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(faults=[{"verb": "network.create_port", "number": 1, "goes": "ERROR"}])
    stack = cloudy.made(PORT)
    assert cloudy.count("network.port") == 1
    assert cloudy.thing(stack, "port")["status"] == "DOWN"
    assert "port CREATE_FAILED" in cloudy.told(stack)


def test_tags_come_after_a_lost_answer(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(faults=[{"verb": "network.create_network", "number": 1, "raises": "lost"}])
    stack = cloudy.made({"net": resource("OS::Neutron::Net", name="known", tags=["a"])})
    assert cloudy.thing(stack, "net")["tags"] == ["a"]
    assert cloudy.thing(stack, "net")["description"] == cloudy.row(stack, "net").physical_name


def test_more_than_the_quota_allows(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(quotas={"network.port": 1})
    cloudy.who = replace(cloudy.who, options={"quota_check": "off"})  # so that the cloud refuses
    stack = cloudy.create(template(**PORT, other=resource("OS::Neutron::Port", network=ref("net"))))
    assert stack.status == "FAILED"
    assert any("Quota exceeded for resources: ['port']" in why for why in cloudy.why(stack))


def test_a_quota_counts_for_kinds_without_one_by_default(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(quotas={"network.address_scope": 1})
    scopes = {name: resource("OS::Neutron::AddressScope") for name in "ab"}
    stack = cloudy.create(template(**scopes))
    assert stack.status == "FAILED"
    assert any("Quota exceeded for resources: ['address_scope']" in why for why in cloudy.why(stack))


def test_a_floating_ip_without_a_way_out(cloudy: Cloudy) -> None:
    stack = cloudy.create(template(
        **PORT, ip=resource("OS::Neutron::FloatingIP", floating_network="public", port_id=ref("port"))
    ))  # fmt: skip
    assert stack.status == "FAILED"
    assert any("is not reachable from subnet" in why and "(HTTP 404)" in why for why in cloudy.why(stack))


@pytest.mark.slow
def test_a_port_in_use_holds_its_network(cloudy: Cloudy) -> None:
    stack = cloudy.made(SUBNET)
    port: Any = cloudy.view().call("network.create_port", network_id=cloudy.row(stack, "net").physical_id)
    stack = cloudy.delete(stack)
    assert stack.status == "FAILED"
    assert any("One or more ports have an IP allocation from this subnet" in why for why in cloudy.why(stack))
    cloudy.view().call("network.delete_port", port["id"])
    assert cloudy.delete(stack).status == "COMPLETE"


# -- security groups ----------------------------------------------------------------------------------


def test_a_port_without_groups_has_the_default_one(cloudy: Cloudy) -> None:
    grouped = resource("OS::Neutron::Port", network=ref("net"), security_groups=[ref("group")])
    resources = {**SUBNET, "group": resource("OS::Neutron::SecurityGroup"), "port": grouped}
    stack = cloudy.made(resources)
    assert cloudy.thing(stack, "port")["security_groups"] == [cloudy.row(stack, "group").physical_id]
    cloudy.changed(stack, {**resources, "port": PORT["port"]})
    (default,) = [one["id"] for one in cloudy.view().things("network.security_group") if one["name"] == "default"]
    assert cloudy.thing(stack, "port")["security_groups"] == [default]


@pytest.mark.slow
def test_rules_of_their_own_outlive_those_of_the_group(cloudy: Cloudy) -> None:
    alone = resource("OS::Neutron::SecurityGroupRule", security_group=ref("group"), protocol="icmp")
    resources = {"group": resource("OS::Neutron::SecurityGroup"), "alone": alone}
    stack = cloudy.made(resources)
    for rules in ([{"protocol": "udp"}], []):
        cloudy.changed(stack, {**resources, "group": resource("OS::Neutron::SecurityGroup", rules=rules)})
        cloudy.thing(stack, "alone")
        assert len(cloudy.view().things("network.security_group_rule")) == 4 + 3 + len(rules)


@pytest.mark.slow
def test_rules_that_stay_are_left_alone(cloudy: Cloudy) -> None:
    def rules(*ports: int) -> Any:
        rules = [{"protocol": "tcp", "port_range_min": one, "port_range_max": one} for one in ports]
        return {"group": resource("OS::Neutron::SecurityGroup", rules=rules)}

    def there() -> dict[object, object]:
        found = cloudy.view().things("network.security_group_rule")
        return {one["port_range_min"]: one["id"] for one in found if one["port_range_min"]}

    stack = cloudy.made(rules(22, 80))
    before = there()
    cloudy.changed(stack, rules(80, 443))
    assert there().keys() == {80, 443}
    assert there()[80] == before[80]


# -- what is refused before anything is made ------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "properties", "text"),
    few([
        ("Subnet", {"network": "public"}, "Either cidr or subnetpool must be given"),
        ("Subnet", {"network": "public", "cidr": "10.0.0.0/8", "prefixlen": 9}, "cidr and prefixlen"),
        ("Subnet", {"network": "public", "cidr": "10.0.0.0/8", "ipv6_ra_mode": "slaac"}, "are for IPv6"),
        ("Subnet", {"network": "public", "cidr": "10.0.0.0/8", "gateway_ip": "x"}, "x is no address"),
        ("Port", {"network": "nowhere"}, "The Network (nowhere) could not be found."),
        ("Port", {"network": "public", "network_id": "public"}, "Cannot use network and network_id at the same time"),
        ("RouterInterface", {"router": "r"}, "The Router (r) could not be found."),
        ("SecurityGroup", {"name": "default"}, "cannot be assigned the name"),
        ("SecurityGroup", {"rules": [{"protocol": "smtp"}]}, "not an allowed value"),
        ("SubnetPool", {"prefixes": []}, "length (0) is out of range"),
        ("SubnetPool", {"prefixes": ["10.0.0.0/8"], "min_prefixlen": 9, "max_prefixlen": 8}, "must not be greater"),
        ("Quota", {"project": "demo"}, "At least one of these must be given"),
        ("RBACPolicy", {"object_type": "qos_policy", "object_id": "a", "target_tenant": "b",
                        "action": "access_as_external"}, "is for networks"),
    ]),
)  # fmt: skip
def test_properties_that_make_no_sense(cloudy: Cloudy, kind: str, properties: dict[str, object], text: str) -> None:
    with pytest.raises(StackValidationFailed) as refused:
        cloudy.create(template(it=resource(f"OS::Neutron::{kind}", **properties)))
    assert text in str(refused.value)


# -- agents, and what others may see --------------------------------------------------------------------


def test_agents(cloudy: Cloudy) -> None:
    def agents(kind: str) -> list[str]:
        return [str(one["id"]) for one in cloudy.admin.things("network.agent") if one["agent_type"] == kind]

    (one, two), (three, four) = agents("DHCP agent"), agents("L3 agent")

    def written(dhcp: list[str], **router: object) -> Any:
        return {"net": resource("OS::Neutron::Net", dhcp_agent_ids=dhcp),
                "router": resource("OS::Neutron::Router", **router)}  # fmt: skip

    def serving(verb: str, name: str) -> list[str]:
        found: Any = cloudy.view().call(f"network.{verb}", cloudy.row(stack, name).physical_id)
        return [str(agent["id"]) for agent in found]

    stack = cloudy.made(written([one], l3_agent_id=three))
    assert serving("network_hosting_dhcp_agents", "net") == [one]
    assert serving("routers_hosting_l3_agents", "router") == [three]
    cloudy.changed(stack, written([two], l3_agent_ids=[four]))
    assert serving("network_hosting_dhcp_agents", "net") == [two]
    assert serving("routers_hosting_l3_agents", "router") == [four]
    cloudy.changed(stack, written([]))
    assert serving("network_hosting_dhcp_agents", "net") == serving("routers_hosting_l3_agents", "router") == []


@pytest.mark.slow
def test_what_another_project_is_shown(cloudy: Cloudy) -> None:
    policy = {"object_type": "network", "object_id": ref("net"), "action": "access_as_shared"}
    stack = cloudy.made({
        **SUBNET, "policy": resource("OS::Neutron::RBACPolicy", **policy, target_tenant="other"),
    })  # fmt: skip
    network, subnet = (cloudy.row(stack, name).physical_id for name in ("net", "subnet"))
    other = cloudy.view("other")
    assert isinstance(other.call("network.get_network", network), dict)
    assert isinstance(other.call("network.get_subnet", subnet), dict)
    port: Any = other.call("network.create_port", network_id=network)
    stack = cloudy.put(stack, template(**SUBNET))
    assert stack.status == "FAILED", "a port of another project holds the policy"
    other.call("network.delete_port", port["id"])
    cloudy.changed(stack, SUBNET)
    with pytest.raises(CloudNotFound):
        other.call("network.get_network", network)


# -- the simulated service by itself --------------------------------------------------------------------


def test_a_port_of_a_server_is_active_while_it_is_bound(cloudy: Cloudy) -> None:
    stack = cloudy.made(PORT)
    port = cloudy.row(stack, "port").physical_id
    view = cloudy.view()
    bound: Any = view.call("network.update_port", port, device_id="s", device_owner="compute:nova")
    assert bound["status"] == "ACTIVE"
    assert view.call("network.ports", device_id="s") == [bound]
    assert view.call("network.ports", fixed_ips="ip_address=10.0.0.2") == [bound]
    freed: Any = view.call("network.update_port", port, device_id="", device_owner="")
    assert freed["status"] == "DOWN"


REFUSED: list[tuple[str, tuple[object, ...], dict[str, object], type[CloudError]]] = [
    ("create_subnet", (), {"cidr": "10.0.0.128/25"}, CloudError),
    ("create_subnet", (), {"cidr": "10.1.0.5/24"}, CloudError),
    ("create_subnet", (), {"cidr": "10.1.0.0/24", "ip_version": 6}, CloudError),
    ("create_subnet_pool", (), {"prefixes": ["10.1.0.5/24"]}, CloudError),
    ("create_subnet", (), {"cidr": "10.1.0.0/24", "allocation_pools": [{"start": "10.2.0.1", "end": "10.2.0.2"}]},
     CloudError),
    ("create_subnet", (), {"cidr": "10.1.0.0/24", "allocation_pools": [{"start": "10.1.0.1", "end": "10.1.0.2"}]},
     CloudConflict),
    ("create_port", (), {"fixed_ips": [{"ip_address": "10.0.0.2"}]}, CloudConflict),
    ("create_port", (), {"fixed_ips": [{"ip_address": "10.9.0.2"}]}, CloudError),
    ("create_port", (), {"security_groups": ["nothing"]}, CloudNotFound),
    ("create_port", (), {"port_security_enabled": False, "allowed_address_pairs": [{"ip_address": "10.0.0.9"}]},
     CloudConflict),
    ("delete_network", ("net",), {}, CloudConflict),
    ("create_ip", (), {"floating_network_id": "net"}, CloudError),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "arguments", "attributes", "error"), sampled(REFUSED, 3, pytest.mark.thorough))
def test_it_refuses(
    cloudy: Cloudy, verb: str, arguments: tuple[Any, ...], attributes: dict[str, Any], error: type[CloudError]
) -> None:
    stack = cloudy.made(PORT)
    net = cloudy.row(stack, "net").physical_id
    if verb.startswith("create_") and "floating_network_id" not in attributes:
        attributes = {"network_id": net, **attributes}
    attributes = {name: net if value == "net" else value for name, value in attributes.items()}
    before = cloudy.census()
    with pytest.raises(CloudError) as refused:
        cloudy.view().call(f"network.{verb}", *(net for _ in arguments), **attributes)
    assert type(refused.value) is error
    assert cloudy.census() == before


# -- other people's files -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.corpus
def test_templates_of_the_corpus(cloudy: Cloudy, corpus: Path) -> None:
    files = corpus.parent / "cfn" / "F17"
    before = cloudy.census()
    base = cloudy.create((files / "Neutron.yaml").read_text(), "base")
    assert base.status == "COMPLETE", cloudy.why(base)
    outputs = cloudy.outputs(base)
    subnet = cloudy.row(base, "subnet").physical_id
    assert outputs["port_fixed_ips"] == [{"subnet_id": subnet, "ip_address": "10.0.3.21"}]
    assert outputs["the_network_status"] == "ACTIVE"

    inside = cloudy.made({
        "net": resource("OS::Neutron::Net"),
        "subnet": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24"),
        "router": resource("OS::Neutron::Router", external_gateway_info={"network": "public"}),
        "interface": resource("OS::Neutron::RouterInterface", router=ref("router"), subnet=ref("subnet")),
    }, "inside")  # fmt: skip
    parameters = {
        "external_network": "public",
        "internal_network": cloudy.row(inside, "net").physical_id,
        "internal_subnet": cloudy.row(inside, "subnet").physical_id,
    }
    text = (files / "Neutron_floating.template").read_text()
    floating = cloudy.create(text, "floating", environment={"parameters": parameters})
    assert floating.status == "COMPLETE", cloudy.why(floating)
    assert cloudy.thing(floating, "floating_ip")["fixed_ip_address"] == "10.0.0.10"
    for stack in (floating, inside, base):
        cloudy.delete(stack)
    assert cloudy.census() == before
