"""A state file of Terraform becomes a template and an import that changes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.json import as_map
from heatlite.core.wire.resources import MOST_RESOURCES
from heatlite.features.migrate.commands import EMPTY
from heatlite.features.migrate.terraform import from_state
from heatlite.plugin.registry import Registry
from heatlite.template.dialects import dialect_of
from heatlite.template.source.loader import load
from tests.api.conftest import Heat, template
from tests.api.test_commands import Here
from tests.resource_types import ALL_TYPES

INSIDE = "module.base[0]"
SECRET = "hunter2hunter2"
PROVIDER = 'provider["registry.terraform.io/terraform-provider-openstack/openstack"]'


def get(name: str) -> dict[str, str]:
    return {"get_resource": name}


def of(kind: str, **properties: Any) -> dict[str, Any]:
    return {"type": kind, "properties": properties}


OBJECTS = {
    "net": of("OS::Neutron::Net", name="backend", admin_state_up=False),
    "sub": of(
        "OS::Neutron::Subnet",
        network=get("net"),
        cidr="10.0.0.0/24",
        enable_dhcp=False,
        dns_nameservers=["192.0.2.53"],
        allocation_pools=[{"start": "10.0.0.10", "end": "10.0.0.99"}],
    ),
    "router": of("OS::Neutron::Router", name="way", external_gateway_info={"network": "public"}),
    "leg": of("OS::Neutron::RouterInterface", router=get("router"), subnet=get("sub")),
    "group": of("OS::Neutron::SecurityGroup", name="web", description="of the web"),
    "rule": of(
        "OS::Neutron::SecurityGroupRule",
        security_group=get("group"),
        protocol="tcp",
        port_range_min=80,
        port_range_max=80,
        remote_ip_prefix="0.0.0.0/0",
    ),
    "key": of("OS::Nova::KeyPair", name="mine", public_key="ssh-ed25519 AAAA me"),
    "family": of("OS::Nova::ServerGroup", name="apart", policies=["anti-affinity"]),
    "port": of(
        "OS::Neutron::Port", network=get("net"), fixed_ips=[{"subnet": get("sub")}], security_groups=[get("group")]
    ),
    "web": of(
        "OS::Nova::Server",
        name="web",
        image="cirros",
        flavor="m1.small",
        key_name=get("key"),
        networks=[{"port": get("port")}],
        admin_pass=SECRET,
        metadata={"tier": "gold"},
    ),
    "disk_a": of("OS::Cinder::Volume", size=1, name="a", metadata={"role": "db"}),
    "disk_b": of("OS::Cinder::Volume", size=2, name="b"),
    "attached": of("OS::Cinder::VolumeAttachment", instance_uuid=get("web"), volume_id=get("disk_a")),
    "address": of("OS::Neutron::FloatingIP", floating_network="public"),
    "at": of("OS::Neutron::FloatingIPAssociation", floatingip_id=get("address"), port_id=get("port")),
    "lb": of("OS::Octavia::LoadBalancer", name="front", vip_subnet=get("sub")),
    "listener": of("OS::Octavia::Listener", loadbalancer=get("lb"), protocol="HTTP", protocol_port=80),
    "pool": of("OS::Octavia::Pool", listener=get("listener"), protocol="HTTP", lb_algorithm="ROUND_ROBIN"),
    "member": of("OS::Octavia::PoolMember", pool=get("pool"), address="10.0.0.11", protocol_port=80, subnet=get("sub")),
    "monitor": of("OS::Octavia::HealthMonitor", pool=get("pool"), type="HTTP", delay=5, timeout=3, max_retries=2),
    "zone": of("OS::Designate::Zone", name="example.org.", email="a@example.org"),
    "record": of(
        "OS::Designate::RecordSet", zone=get("zone"), name="www.example.org.", type="A", records=["192.0.2.1"]
    ),
}
"""Objects that Terraform has made."""


def state(ids: dict[str, str]) -> dict[str, Any]:
    """Return the state file of these objects, as the provider writes it."""
    resources = []

    def has(kind: str, name: str, *instances: dict[str, Any], mode: str = "managed", module: str | None = None) -> None:
        one = {"mode": mode, "type": kind, "name": name, "provider": PROVIDER, "instances": list(instances)}
        resources.append(one if module is None else {"module": module, **one})

    def at(attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"schema_version": 0, "attributes": {"region": "RegionOne", **attributes}, **more}

    nothing: dict[str, Any] = {"description": "", "tags": [], "value_specs": None, "tenant_id": "demo"}
    net = {
        "id": ids["net"],
        "name": "backend",
        "admin_state_up": False,
        "shared": False,
        "external": False,
        "mtu": 1450,
    }
    has("openstack_networking_network_v2", "main", at({**net, **nothing, "all_tags": []}), module=INSIDE)
    sub = {
        "id": ids["sub"], "network_id": ids["net"], "cidr": "10.0.0.0/24", "ip_version": 4, "enable_dhcp": False,
        "dns_nameservers": ["192.0.2.53"], "allocation_pool": [{"start": "10.0.0.10", "end": "10.0.0.99"}],
        "gateway_ip": "10.0.0.1", "no_gateway": False, "prefix_length": None, "subnetpool_id": "", "name": "",
    }  # fmt: skip
    has("openstack_networking_subnet_v2", "main", at({**sub, **nothing}), module=INSIDE)
    router = {"id": ids["router"], "name": "way", "external_network_id": "public", "enable_snat": True}
    has("openstack_networking_router_v2", "way", at({**router, "admin_state_up": True, **nothing}))
    leg = {"id": "a port", "router_id": ids["router"], "subnet_id": ids["sub"], "port_id": "a port"}
    has("openstack_networking_router_interface_v2", "leg", at(leg))
    group = {"id": ids["group"], "name": "web", "stateful": True, "delete_default_rules": None}
    has("openstack_networking_secgroup_v2", "web", at({**nothing, **group, "description": "of the web"}))
    rule = {
        "id": ids["rule"], "security_group_id": ids["group"], "protocol": "tcp", "port_range_min": 80,
        "port_range_max": 80, "remote_ip_prefix": "0.0.0.0/0", "direction": "ingress", "ethertype": "IPv4",
        "remote_group_id": "",
    }  # fmt: skip
    has("openstack_networking_secgroup_rule_v2", "web", at({**nothing, **rule}, index_key="http"))
    key = {"id": "mine", "name": "mine", "public_key": "ssh-ed25519 AAAA me", "private_key": SECRET, "user_id": ""}
    has("openstack_compute_keypair_v2", "mine", at(key, sensitive_attributes=[_path("private_key")]))
    has(
        "openstack_compute_servergroup_v2",
        "apart",
        at({"id": ids["family"], "name": "apart", "policies": ["anti-affinity"]}),
    )
    port = {
        "id": ids["port"], "network_id": ids["net"], "fixed_ip": [{"subnet_id": ids["sub"], "ip_address": ""}],
        "security_group_ids": [ids["group"]], "device_id": ids["web"], "device_owner": "compute:nova",
        "mac_address": "fa:16:3e:00:00:01", "admin_state_up": True, "port_security_enabled": True, "dns_name": "",
        "all_fixed_ips": ["10.0.0.11"], "allowed_address_pairs": [], "name": "",
    }  # fmt: skip
    has("openstack_networking_port_v2", "web", at({**nothing, **port}, index_key=0))
    network = {"uuid": ids["net"], "port": ids["port"], "name": "backend", "fixed_ip_v4": "10.0.0.11", "mac": "fa:16"}
    web = {
        "id": ids["web"], "name": "web", "flavor_name": "m1.small", "flavor_id": "2", "image_name": "cirros",
        "image_id": "x", "key_pair": "mine", "network": [network], "metadata": {"tier": "gold"}, "admin_pass": SECRET,
        "user_data": "5f4dcc3b", "all_metadata": {"tier": "gold"}, "access_ip_v4": "10.0.0.11", "power_state": "active",
        "config_drive": None, "block_device": [], "security_groups": ["web"],
    }  # fmt: skip
    has("openstack_compute_instance_v2", "web", at(web, index_key=0, sensitive_attributes=[_path("admin_pass")]))
    disks = {"a": {"size": 1, "metadata": {"role": "db"}}, "b": {"size": 2, "metadata": {}}}
    common = {"volume_type": "__DEFAULT__", "snapshot_id": "", "source_vol_id": None, "attachment": []}
    each = ({"id": ids[f"disk_{key}"], "name": key, **common, **more} for key, more in disks.items())
    has("openstack_blockstorage_volume_v3", "disk", *(at(one, index_key=one["name"]) for one in each))
    link = {
        "id": f"{ids['web']}/{ids['disk_a']}",
        "instance_id": ids["web"],
        "volume_id": ids["disk_a"],
        "device": "/dev/vdb",
    }
    has("openstack_compute_volume_attach_v2", "disk", at(link))
    address = {"id": ids["address"], "pool": "public", "address": "192.0.2.7", "port_id": "", "fixed_ip": ""}
    has("openstack_networking_floatingip_v2", "web", at({**nothing, **address}))
    link = {"id": ids["address"], "floating_ip": "192.0.2.7", "port_id": ids["port"], "fixed_ip": "10.0.0.11"}
    has("openstack_networking_floatingip_associate_v2", "web", at(link))
    lb = {"id": ids["lb"], "name": "front", "vip_subnet_id": ids["sub"], "loadbalancer_provider": "amphora"}
    has("openstack_lb_loadbalancer_v2", "front", at({**nothing, **lb, "admin_state_up": True, "vip_port_id": "x"}))
    listener = {
        "id": ids["listener"],
        "loadbalancer_id": ids["lb"],
        "protocol": "HTTP",
        "protocol_port": 80,
        "default_pool_id": ids["pool"],
        "connection_limit": -1,
    }
    has("openstack_lb_listener_v2", "front", at(listener))
    pool = {
        "id": ids["pool"],
        "listener_id": ids["listener"],
        "loadbalancer_id": "",
        "protocol": "HTTP",
        "lb_method": "ROUND_ROBIN",
        "persistence": [],
    }
    has("openstack_lb_pool_v2", "front", at(pool))
    member = {
        "id": ids["member"],
        "pool_id": ids["pool"],
        "address": "10.0.0.11",
        "protocol_port": 80,
        "subnet_id": ids["sub"],
        "weight": 1,
    }
    has("openstack_lb_member_v2", "web", at(member))
    monitor = {"id": ids["monitor"], "pool_id": ids["pool"], "type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 2}
    has("openstack_lb_monitor_v2", "front", at(monitor))
    has(
        "openstack_dns_zone_v2",
        "org",
        at({"id": ids["zone"], "name": "example.org.", "email": "a@example.org", "type": "PRIMARY"}),
    )
    record = {
        "id": f"{ids['zone']}/{ids['record']}",
        "zone_id": ids["zone"],
        "name": "www.example.org.",
        "type": "A",
        "records": ["192.0.2.1"],
    }
    has("openstack_dns_recordset_v2", "www", at(record))
    has("openstack_images_image_v2", "cirros", at({"id": "x"}), mode="data")
    has("aws_instance", "other", at({"id": "i-1"}, index_key='a"b'))
    has("openstack_identity_user_v3", "me", at({"id": "u", "password": SECRET}))
    has("openstack_networking_network_v2", "old", at({"id": "gone"}, deposed="1234"))
    return {
        "version": 4,
        "terraform_version": "1.9.0",
        "serial": 7,
        "lineage": "x",
        "outputs": {},
        "resources": resources,
    }


def _path(name: str) -> list[dict[str, str]]:
    return [{"type": "get_attr", "value": name}]


def disks(count: int) -> list[dict[str, Any]]:
    """Return the resources of a state with volumes, each made of the next one."""
    one = {"mode": "managed", "type": "openstack_blockstorage_volume_v3", "name": "disk", "provider": PROVIDER}
    each = ({"id": f"id-{number}", "size": 1, "source_vol_id": f"id-{number + 1}"} for number in range(count))
    return [{**one, "instances": [{"index_key": at, "attributes": disk} for at, disk in enumerate(each)]}]


@pytest.mark.parametrize("count", [0, 1, MOST_RESOURCES, MOST_RESOURCES + 1, 2 * MOST_RESOURCES + 3])
def test_law_a_part_refers_to_itself_and_those_before(count: int) -> None:
    state = {"version": 4, "resources": disks(count)}
    found = from_state(state, Registry(ALL_TYPES), dialect_of(EMPTY))
    before = dict[str, Any]()
    parts = [*found.parts]
    for definitions, objects in parts:
        assert len(objects) <= MOST_RESOURCES
        assert definitions.keys() == before.keys() | objects.keys() and not before.keys() & objects.keys()
        sources = [as_map(one["properties"])["source_volid"] for one in definitions.values()]
        assert {as_map(one)["get_resource"] for one in sources if isinstance(one, dict)} <= definitions.keys()
        before = {**definitions}
    assert before == found.resources and len(before) == count
    assert len(parts) == max(1, -(-count // MOST_RESOURCES))


def test_nothing_refers_to_what_is_left_out() -> None:
    disk = disks(2)
    disk[0]["instances"][1]["attributes"] = {"id": "id-1"}
    found = from_state({"version": 4, "resources": disk}, Registry(ALL_TYPES), dialect_of(EMPTY))
    assert {name: as_map(one["properties"])["source_volid"] for name, one in found.resources.items()} == {
        "disk_0": "id-1"
    }


@pytest.mark.slow
def test_more_objects_than_one_import_takes(
    clouded: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heat, here, out, count = clouded, Here(clouded), tmp_path / "out", MOST_RESOURCES + 20
    objects = {f"r{number}": of("OS::Neutron::Net", name=f"many{number}") for number in range(10)}
    objects |= {f"d{number}": of("OS::Cinder::Volume", name=f"v{number}", size=1) for number in range(count - 10)}
    made = heat.create(template(**objects), "many")
    rows = heat.get(f"{made}/resources")["resources"]
    heat.call("DELETE", f"{made}/abandon", None, 200)
    heat.settle(made)
    kinds = {
        "OS::Neutron::Net": "openstack_networking_network_v2",
        "OS::Cinder::Volume": "openstack_blockstorage_volume_v3",
    }
    resources = []
    for row in rows:
        name = row["resource_name"]
        attributes = {"id": row["physical_resource_id"], **objects[name]["properties"]}
        kind = kinds[row["resource_type"]]
        one = {"mode": "managed", "type": kind, "name": name, "provider": PROVIDER}
        resources.append({**one, "instances": [{"attributes": attributes}]})
    file = tmp_path / "terraform.tfstate"
    file.write_text(json.dumps({"version": 4, "resources": resources}))
    assert here(f"migrate terraform {file} --out {out}") == 0
    told = capsys.readouterr().out
    commands = [line.strip().removeprefix("heatlite ") for line in told.splitlines() if "heatlite import" in line]
    assert len(commands) == 2
    for one in commands:
        assert here(f"{one.replace('STACK', 'large')} --yes") == 0
    assert here(f"plan {out / 'template.yaml'} -n large --detailed-exitcode") == 0
    path = heat.call("GET", "/stacks/large", code=302).location
    found = heat.get(f"{path[path.index('/stacks/'):]}/resources?limit=1000")["resources"]
    ids = {row["resource_name"]: row["physical_resource_id"] for row in rows}
    assert {row["resource_name"]: row["physical_resource_id"] for row in found} == ids
    assert {row["resource_status"] for row in found} == {"ADOPT_COMPLETE"}


@pytest.mark.slow
def test_the_plan_of_the_import_is_empty(clouded: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heat, here, out = clouded, Here(clouded), tmp_path / "out"
    made = heat.create(template(**OBJECTS), "terraform")
    rows = heat.get(f"{made}/resources")["resources"]
    assert {row["resource_status_reason"] for row in rows} == {"state changed"}
    ids = {row["resource_name"]: row["physical_resource_id"] for row in rows}
    heat.call("DELETE", f"{made}/abandon", None, 200)
    heat.settle(made)
    file = tmp_path / "terraform.tfstate"
    file.write_text(json.dumps(state(ids)))
    assert here(f"migrate terraform {file} --out {out}") == 0
    told = capsys.readouterr().out
    assert "terraform state rm 'module.base[0].openstack_networking_network_v2.main'" in told
    assert """'openstack_blockstorage_volume_v3.disk["a"]'""" in told
    texts = {one.name: one.read_text() for one in out.iterdir()}
    assert {*texts} == {"template.yaml", "import.yaml", "report.json"}
    assert [name for name, text in {**texts, "told": told}.items() if SECRET in text] == []
    written, report = load(texts["template.yaml"]).data["resources"], json.loads(texts["report.json"])
    assert len(written) == len(OBJECTS)
    assert written["web_0_networking_port"]["properties"]["network"] == get("base_0_main_networking_network")
    assert written["web_0_compute_instance"]["properties"]["networks"] == [{"port": get("web_0_networking_port")}]
    assert written["disk_b"] == of("OS::Cinder::Volume", name="b", size=2, volume_type="__DEFAULT__")
    assert {one["address"] for one in report["left_out"]} == {
        "data.openstack_images_image_v2.cirros",
        'aws_instance.other["a\\"b"]',
        "openstack_identity_user_v3.me",
        "openstack_networking_network_v2.old",
    }
    secrets = [(one["path"], one["pointer"]) for one in report["omitted"] if one["why"] == "secret"]
    assert secrets == [("mine", "/private_key"), ("web_0_compute_instance", "/admin_pass")]
    heat.call("POST", "/validate", {"template": texts["template.yaml"]}, 200)
    assert here(f"import shop {out / 'template.yaml'} --from-file {out / 'import.yaml'} --yes") == 0
    assert here(f"plan {out / 'template.yaml'} -n shop --detailed-exitcode") == 0
    assert here(f"migrate terraform {file} --out {out}") == 1
    assert "Name a new folder" in capsys.readouterr().err
    broken: list[dict[str, Any]] = [
        {"index_key": 0, "attributes": {"id": "a", "size": "many"}},
        {"index_key": 1, "attributes": {"id": "b", "size": 1, "metadata": [1]}},
        {"index_key": 2},
    ]
    disk = {"mode": "managed", "type": "openstack_blockstorage_volume_v3", "name": "disk", "instances": broken}
    leg = {**disk, "type": "openstack_networking_router_interface_v2", "instances": [{"attributes": {"id": "p"}}]}
    file.write_text(json.dumps({"version": 4, "resources": [disk, leg, {}, {"instances": 1}]}))
    assert here(f"migrate terraform {file} --out {tmp_path / 'broken'}") == 0
    report = json.loads((tmp_path / "broken" / "report.json").read_text())
    whys = ["it is about to be replaced, or has no object"] * 2
    assert [one["why"] for one in report["left_out"]][:2] == whys
    assert "size is needed" in report["left_out"][2]["why"]
    assert [one["address"] for one in report["imported"]] == ["openstack_blockstorage_volume_v3.disk[1]"]
    assert report["omitted"] == [{"path": "disk_1", "pointer": "/metadata", "why": "unusable"}]
    file.write_text('{"version": 3}')
    assert here(f"migrate terraform {file} --out {tmp_path / 'none'}") == 1
    assert "no state file of version 4" in capsys.readouterr().err
