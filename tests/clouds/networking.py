"""All network types in one stack, changed in place and deleted, for both clouds."""

from typing import Any

from tests.clouds.engine import OnCloud
from tests.engine.conftest import attr, ref, resource, template

SHOWN = (
    "net", "subnet", "port", "lone", "router", "ip", "forward", "rule", "trunk", "pool", "scope", "pooled",
)  # fmt: skip
ADMINISTERED = ("provider", "policy", "segment", "rbac", "limit", "mark", "least", "quota")


def networking(engine: OnCloud) -> dict[str, Any]:
    """Objects that a user may make."""

    def written(**changed: Any) -> Any:
        given = {
            "port": {"tags": ["b", "a"]},
            "lone": {},
            "router": {"external_gateway_info": {"network": "public"}},
            "routes": {"routes": [{"destination": "10.50.0.0/16", "nexthop": "10.40.0.9"}]},
            "group": {"rules": [{"protocol": "tcp", "port_range_min": 22, "port_range_max": 22}]},
            "trunk": {"sub_ports": []},
            **changed,
        }
        return template(
            net=resource("OS::Neutron::Net"),
            subnet=resource("OS::Neutron::Subnet", network_id=ref("net"), cidr="10.40.0.0/24",
                            dns_nameservers=["8.8.8.8"]),
            port=resource("OS::Neutron::Port", network=ref("net"), security_groups=[ref("group")], **given["port"]),
            other=resource("OS::Neutron::Port", network=ref("net")),
            lone=resource("OS::Neutron::Port", network=ref("net"), **given["lone"]),
            parent=resource("OS::Neutron::Port", network=ref("net")),
            child=resource("OS::Neutron::Port", network=ref("net"), port_security_enabled=False),
            router=resource("OS::Neutron::Router", **given["router"]),
            interface=resource("OS::Neutron::RouterInterface", router=ref("router"), subnet=ref("subnet")),
            bare=resource("OS::Neutron::Router"),
            gateway=resource("OS::Neutron::RouterGateway", router_id=ref("bare"), network="public"),
            routes=resource("OS::Neutron::ExtraRouteSet", router=ref("router"), **given["routes"]),
            ip=resource("OS::Neutron::FloatingIP", floating_network="public", port_id=ref("port")),
            spare=resource("OS::Neutron::FloatingIP", floating_network="public"),
            link=resource("OS::Neutron::FloatingIPAssociation", floatingip_id=ref("spare"), port_id=ref("other")),
            shared=resource("OS::Neutron::FloatingIP", floating_network="public"),
            forward=resource("OS::Neutron::FloatingIPPortForward", floating_ip=ref("shared"),
                             internal_port=ref("child"), external_port=80,
                             internal_ip_address=attr("child", "fixed_ips", 0, "ip_address"),  # type: ignore[arg-type]
                             internal_port_number=8080, protocol="tcp"),
            group=resource("OS::Neutron::SecurityGroup", description="ours", **given["group"]),
            rule=resource("OS::Neutron::SecurityGroupRule", security_group=ref("group"), protocol="icmp",
                          remote_ip_prefix="10.0.0.0/8"),
            trunk=resource("OS::Neutron::Trunk", port=ref("parent"), **given["trunk"]),
            scope=resource("OS::Neutron::AddressScope"),
            pool=resource("OS::Neutron::SubnetPool", prefixes=["10.41.0.0/16"], default_prefixlen=24,
                          address_scope=ref("scope")),
            second=resource("OS::Neutron::Net"),
            pooled=resource("OS::Neutron::Subnet", network=ref("second"), subnetpool=ref("pool"), gateway_ip=""),
            outputs={name: attr(name, "show") for name in SHOWN},
        )  # fmt: skip

    engine.take_stock()
    stack = engine.well(engine.create(written()))
    made = engine.seen(stack)
    changes = written(
        port={"admin_state_up": False, "name": "renamed"},
        lone={"fixed_ips": [{"subnet": ref("subnet")}, {"ip_address": "10.40.0.99"}]},
        router={"external_gateway_info": {"network": "public"}, "name": "renamed", "tags": ["t"]},
        routes={"routes": [{"destination": "10.51.0.0/16", "nexthop": "10.40.0.8"}]},
        group={"rules": [{"direction": "egress", "protocol": "udp"}, {"remote_mode": "remote_group_id"}]},
        trunk={"sub_ports": [{"port": ref("child"), "segmentation_type": "vlan", "segmentation_id": 7}]},
    )
    before = {row.name: row.id for row in engine.rows(stack)}
    stack = engine.well(engine.put(stack, changes))
    assert {row.name: row.id for row in engine.rows(stack)} == before
    changed = engine.seen(stack)
    engine.well(engine.check(stack))
    reasons = {row.name: row.status_reason for row in engine.rows(stack)}
    for name in ("interface", "gateway", "routes", "link", "forward", "rule", "trunk"):
        engine.mark(stack, name)
    stack = engine.well(engine.put(stack, changes))
    engine.well(engine.check(stack))
    engine.gone(stack)
    return {"made": made, "changed": changed, "checked": reasons}


def network_administration(engine: OnCloud) -> dict[str, Any]:
    """Objects that only an administrator may make."""

    def written(rate: int, **more: Any) -> Any:
        return template(
            provider=resource("OS::Neutron::ProviderNet", network_type="vlan", physical_network="physnet1",
                              segmentation_id="917", shared=False, **more),
            policy=resource("OS::Neutron::QoSPolicy", description="ours"),
            limit=resource("OS::Neutron::QoSBandwidthLimitRule", policy=ref("policy"), max_kbps=rate),
            mark=resource("OS::Neutron::QoSDscpMarkingRule", policy=ref("policy"), dscp_mark=16),
            least=resource("OS::Neutron::QoSMinimumBandwidthRule", policy=ref("policy"), min_kbps=rate // 10),
            net=resource("OS::Neutron::Net", qos_policy=ref("policy")),
            segment=resource("OS::Neutron::Segment", network=ref("net"), network_type="vlan",
                             physical_network="physnet1", segmentation_id=918),
            rbac=resource("OS::Neutron::RBACPolicy", object_type="network", object_id=ref("net"),
                          target_tenant="somebody", action="access_as_shared"),
            project=resource("OS::Keystone::Project"),
            quota=resource("OS::Neutron::Quota", project=ref("project"), port=rate),
            outputs={name: attr(name, "show") for name in ADMINISTERED},
        )  # fmt: skip

    engine.take_stock()
    stack = engine.well(engine.create(written(1000)))
    made = engine.seen(stack)
    stack = engine.well(engine.put(stack, written(2000, name="renamed")))
    changed = engine.seen(stack)
    engine.well(engine.check(stack))
    engine.gone(stack)
    return {"made": made, "changed": changed}
