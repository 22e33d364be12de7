"""The same files on both clouds: the same states, events and outputs."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from heatlite.clients.cloud import CloudConflict, CloudError
from heatlite.core.status import LockLevel
from tests.clouds.conftest import Begin
from tests.clouds.engine import OnCloud
from tests.clouds.networking import network_administration, networking
from tests.clouds.real import EVERYTHING
from tests.engine.conftest import attr, ref, resource, template
from tests.waiting import eventually

TEMPLATES = Path(__file__).parents[2] / "templates"

Seen = dict[str, Any]

ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")

ONLY_SIMULATED = {
    # For administrators alone, there.
    "provider:network_type", "provider:physical_network", "provider:segmentation_id", "is_default",
    "binding:host_id", "binding:profile", "binding:vif_details", "binding:vif_type", "resource_request",
    "distributed", "ha", "OS-EXT-SRV-ATTR:instance_name", "OS-EXT-SRV-ATTR:user_data",
    # By which it knows whose something is.
    "project_id",
    # Null there as well, or not there at all.
    "fault",
    "revision_number",
    # Extensions that this cloud does not have.
    "dns_publish_fixed_ip", "segment_id", "propagate_uplink_status",
}  # fmt: skip
"""Attributes that the simulated cloud tells, and the real one does not."""

THEIR_OWN = {
    "revision_number", "user_id", "device", "host_name", "standard_attr_id", "fingerprint",
    # Of a server's port: its name, where Neutron has an extension for names.
    "dns_name", "dns_assignment",
    # Of a server: those of its ports.
    "security_groups",
}  # fmt: skip
"""Attributes of objects that may be other ones on each cloud."""

SHOWN = ("net", "subnet", "port")


# -- files of our own ------------------------------------------------------------------------------------


def network(engine: OnCloud) -> Seen:
    """A network with all its parts: changed in place, checked and deleted."""

    def written(**more: Any) -> Any:
        return template(
            net=resource("OS::Neutron::Net", tags=["one"], **more),
            subnet=resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.7.0.0/24", host_routes=[]),
            port=resource("OS::Neutron::Port", network=ref("net"), fixed_ips=[{"ip_address": "10.7.0.7"}]),
            key=resource("OS::Nova::KeyPair", name="two-clouds", save_private_key=True),
            outputs={
                **{name: attr(name, "show") for name in SHOWN},
                "address": attr("port", "fixed_ips", 0, "ip_address"),  # type: ignore[arg-type]
            },
        )

    engine.take_stock()
    stack = engine.well(engine.create(written()))
    made = engine.seen(stack)
    stack = engine.well(engine.put(stack, written(name="renamed", admin_state_up=False)))
    changed = engine.seen(stack)
    engine.well(engine.check(stack))
    reasons = {row.name: row.status_reason for row in engine.rows(stack)}
    engine.gone(stack)
    return {"made": made, "changed": changed, "checked": reasons}


def server(engine: OnCloud) -> Seen:
    """templates/server.yaml: made, checked, replaced, locked, unlocked, deleted."""
    written = (TEMPLATES / "server.yaml").read_text()
    engine.take_stock()
    stack = engine.well(engine.create(written))
    # Neutron tells Nova of the floating address by and by.
    eventually(lambda: '"floating"' in json.dumps(engine.objects(stack)), "the server has its public address")
    made = {**engine.seen(stack), "objects": engine.objects(stack)}
    engine.well(engine.check(stack))
    before = {row.name: row.physical_id for row in engine.rows(stack)}
    engine.mark(stack, "server", reason="it hangs")
    stack = engine.well(engine.put(stack, written))
    after = {row.name: row.physical_id for row in engine.rows(stack)}
    assert sorted(name for name in after if after[name] != before[name]) == ["server"]
    replaced = engine.seen(stack)
    key = after["server"]
    stack = engine.lock(stack, LockLevel.ALL, "a new disk")
    assert _get(engine, "compute.get_server", key)["locked"] is True
    with pytest.raises(CloudConflict) as refused:
        engine.cloud.call("compute.reboot_server", key, "SOFT")
    engine.unlock(stack)
    assert _get(engine, "compute.get_server", key)["locked"] is False
    told = {row.name: row.status_reason for row in engine.rows(stack)}
    engine.gone(stack)
    words = refused.value.reason.replace(str(key), "<server>")
    return {"made": made, "replaced": replaced, "refused": (refused.value.status, words), "unlocked": told}


def identity_administration(engine: OnCloud) -> Seen:
    """Identity types as administrator: changed in place, checked, refused, deleted."""
    kinds = ("domain", "project", "below", "role", "group", "user", "service", "endpoint", "region")

    def written(project: str = "red", **more: Any) -> Any:
        given = {"role": ref("role"), "project": ref("project")}
        return template(
            domain=resource("OS::Keystone::Domain", name="hl-realm", **more),
            project=resource("OS::Keystone::Project", name=f"hl-{project}", domain=ref("domain"), tags=["a"], **more),
            below=resource("OS::Keystone::Project", parent=ref("project"), domain=ref("domain")),
            role=resource("OS::Keystone::Role", name="hl-role"),
            group=resource("OS::Keystone::Group", name="hl-group", domain=ref("domain"), roles=[given], **more),
            user=resource(
                "OS::Keystone::User", name="hl-user", domain=ref("domain"), password="secret", email="a@b.c",
                default_project=ref("project"), groups=[ref("group")],
                roles=[given, {"role": "member", "domain": ref("domain")}], **more,
            ),
            other=resource("OS::Keystone::User"),
            more=resource("OS::Keystone::UserRoleAssignment", user=ref("other"), roles=[{**given, "role": "reader"}]),
            others=resource("OS::Keystone::Group"),
            theirs=resource(
                "OS::Keystone::GroupRoleAssignment", group=ref("others"), roles=[{**given, "role": "member"}]
            ),
            service=resource("OS::Keystone::Service", name="hl-service", type="hl", **more),
            region=resource("OS::Keystone::Region", id="hl-region", parent_region="RegionOne", **more),
            endpoint=resource(
                "OS::Keystone::Endpoint", name="hl-end", service=ref("service"), region=ref("region"),
                interface="public", url=f"http://{project}",
            ),
            outputs={name: attr(name, "show") for name in kinds},
        )  # fmt: skip

    engine.take_stock()
    stack = engine.well(engine.create(written(description="before")))
    made = engine.seen(stack)
    stack = engine.well(engine.put(stack, written("blue", description="after")))
    changed = engine.seen(stack)
    ids = {row.name: row.physical_id for row in engine.rows(stack)}
    engine.cloud.call("identity.unassign_project_role_from_user", ids["project"], ids["user"], ids["role"])
    engine.cloud.call("identity.delete_endpoint", ids["endpoint"])
    refused = {
        f"{verb} {sorted(given)}": refusal(engine, f"identity.{verb}", *arguments, **given)
        for verb, arguments, given in (
            ("create_role", (), {"name": "hl-role"}),
            ("create_user", (), {"name": "hl-user", "domain_id": ids["domain"]}),
            ("create_user", (), {"name": "x", "domain_id": "nowhere"}),
            ("create_group", (), {"name": "hl-group", "domain_id": ids["domain"]}),
            ("create_project", (), {"name": "hl-blue", "domain_id": ids["domain"]}),
            ("create_domain", (), {"name": "hl-realm"}),
            ("create_region", (), {"id": "hl-region"}),
            ("create_endpoint", (), {"service_id": "no", "interface": "public", "url": "http://a"}),
            ("update_project", (ids["project"],), {"domain_id": "default"}),
            ("update_user", (ids["user"],), {"domain_id": "default"}),
            ("update_role", (ids["role"],), {"name": "member"}),
            ("delete_domain", (ids["domain"],), {}),
            ("delete_project", (ids["project"],), {}),
            ("get_user", ("nobody",), {}),
            ("get_region", ("nowhere",), {}),
            ("assign_project_role_to_user", (ids["project"], "nobody", ids["role"]), {}),
            ("unassign_project_role_from_user", (ids["project"], ids["user"], ids["role"]), {}),
            ("remove_user_from_group", ("nobody", ids["group"]), {}),
        )
    }
    stack = engine.check(stack)
    missed = {row.name: row.status for row in engine.rows(stack)}
    drifted = "roles is" in engine.row(stack, "user").status_reason
    engine.gone(stack)
    return {"made": made, "changed": changed, "missed": missed, "drifted": drifted, "refused": refused}


def refusal(engine: OnCloud, verb: str, *arguments: Any, **given: Any) -> tuple[str, int | None, str]:
    """A refusal of the cloud: our error, the HTTP status and the text without ids."""
    with pytest.raises(CloudError) as refused:
        engine.cloud.call(verb, *arguments, **given)
    return type(refused.value).__name__, refused.value.status, ID.sub("<id>", refused.value.reason)


# -- other people's files --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Surroundings:
    """Objects that these templates need."""

    key: str
    net: str
    subnet: str


@contextmanager
def furnished(engine: OnCloud) -> Iterator[Surroundings]:
    """A key pair, and a network called `private`."""
    call = engine.cloud.call
    net = engine.thing(call("network.create_network", name="private"))["id"]
    subnet = engine.thing(call("network.create_subnet", network_id=net, ip_version=4, cidr="10.30.0.0/24"))["id"]
    call("compute.create_keypair", name="theirs")
    try:
        yield Surroundings("theirs", net, subnet)
    finally:
        engine.clear()
        call("compute.delete_keypair", "theirs")
        call("network.delete_network", net)


def new_network(engine: OnCloud, corpus: Path) -> Seen:
    """hot/servers_in_new_neutron_net.yaml"""
    with furnished(engine) as there:
        parameters = {
            "key_name": there.key, "image": "cirros", "flavor": "m1.nano", "public_net": "public",
            "private_net_name": "ours", "private_net_cidr": "10.31.0.0/24", "private_net_gateway": "10.31.0.1",
            "private_net_pool_start": "10.31.0.10", "private_net_pool_end": "10.31.0.20",
        }  # fmt: skip
        return _lifecycle(engine, corpus / "servers_in_new_neutron_net.yaml", parameters)


def existing_network(engine: OnCloud, corpus: Path) -> Seen:
    """hot/servers_in_existing_neutron_net.yaml, with a router for its floating IPs."""
    call = engine.cloud.call
    with furnished(engine) as there:
        public = engine.thing(call("network.find_network", "public"))["id"]
        router = engine.thing(call("network.create_router", external_gateway_info={"network_id": public}))["id"]
        call("network.add_interface_to_router", router, there.subnet)
        parameters = {
            "key_name": there.key, "image": "cirros", "flavor": "m1.nano", "public_net_id": public,
            "private_net_id": there.net, "private_subnet_id": there.subnet,
        }  # fmt: skip
        seen = _lifecycle(engine, corpus / "servers_in_existing_neutron_net.yaml", parameters)
        call("network.remove_interface_from_router", router, there.subnet)
        call("network.delete_router", router)
        return seen


def hello_world(engine: OnCloud, corpus: Path) -> Seen:
    """hot/hello_world.yaml"""
    with furnished(engine) as there:
        parameters = {"key_name": there.key, "image": "cirros", "flavor": "m1.nano", "admin_pass": "Secret1"}
        return _lifecycle(engine, corpus / "hello_world.yaml", parameters)


def vm_with_cinder(engine: OnCloud, corpus: Path) -> Seen:
    """hot/vm_with_cinder.yaml"""
    with furnished(engine) as there:
        parameters = {"key_name": there.key, "image": "cirros", "flavor": "m1.nano"}
        return _lifecycle(engine, corpus / "vm_with_cinder.yaml", parameters)


LACKED = ("OS::Octavia::*", "OS::Aodh::*")
"""Types whose services this cloud does not have."""


def autoscaling(engine: OnCloud, corpus: Path) -> Seen:
    """hot/autoscaling.yaml without the types that the cloud lacks, scaled up and down."""
    with furnished(engine) as there:
        public = engine.thing(engine.cloud.call("network.find_network", "public"))["id"]
        parameters = {
            "image": "cirros", "key": there.key, "flavor": "m1.nano", "database_flavor": "m1.nano",
            "network": "private", "subnet_id": there.subnet, "external_network_id": public,
        }  # fmt: skip
        environment = {"resource_registry": dict.fromkeys(LACKED, "OS::Heat::None"), "parameters": parameters}
        engine.take_stock()
        stack = engine.create(
            (corpus / "autoscaling.yaml").read_text(),
            environment=environment,
            files={"lb_server.yaml": (corpus / "lb_server.yaml").read_text()},
        )
        engine.well(stack)
        sizes = [_servers(engine)]
        for policy in ("web_server_scaleup_policy", "web_server_scaledown_policy"):
            engine.components.signals.signal(engine.who, engine.get(stack), engine.row(stack, policy), {})
            engine.settle_tree(stack)
            sizes.append(_servers(engine))
            engine.later(61)
        states = engine.states(stack)
        engine.gone(stack)
        return {"resources": states, "sizes": sizes}


def keystone(engine: OnCloud, corpus: Path) -> Seen:
    """hot/keystone/*: all of them at once, as an administrator; one of them updated."""
    folder = corpus / "keystone"
    parameters = {
        "keystone_domain": {"domain_name": "hl-domain"},
        "keystone_group": {
            "group_name": "hl-group", "group_description": "d", "group_domain": "default", "group_role": "member",
            "group_role_domain": "default", "group_role_project": "admin",
        },
        "keystone_project": {
            "project_name": "hl-project", "project_description": "d", "project_enabled": "true",
            "project_domain": "default",
        },
        "keystone_region": {"region_id": "hl-child", "parent_region_id": "hl-parent"},
        "keystone_role": {"role_name": "hl-role"},
        "keystone_service": {"name": "hl-one", "type": "hl-one", "description": "d"},
        "keystone_service_endpoint": {
            "name": "hl-two", "type": "hl-two", "description": "d", "region": "RegionOne",
            "public_url": "http://hl-p", "internal_url": "http://hl-i", "admin_url": "http://hl-a",
        },
        "keystone_user": {
            "user_name": "hl-user", "user_description": "d", "user_domain": "default", "user_enabled": "true",
            "user_email": "a@b.c", "user_password": "secret", "user_default_project": "admin",
            "user_groups": "hl-staff", "group_role": "member", "group_role_domain": "default",
            "group_role_project": "admin",
        },
        "keystone": {},
    }  # fmt: skip
    engine.take_stock()
    with engine.alone(), staff(engine):
        stacks = {}
        for name, given in parameters.items():
            written = (folder / f"{name}.yaml").read_text()
            stacks[name] = engine.create(written, name, wait=False, environment={"parameters": given})
        seen = {name: engine.seen(engine.well(engine.settle(stack))) for name, stack in stacks.items()}
        sample = engine.well(engine.put(stacks["keystone"], (folder / "keystone_updated.yaml").read_text()))
        seen["updated"] = engine.seen(sample)
        for stack in stacks.values():
            engine.well(engine.check(stack))
        for stack in stacks.values():
            engine.delete(stack, wait=False)
        for stack in stacks.values():
            engine.well(engine.settle(stack))
    assert engine.holdings() == engine.before
    return seen


@contextmanager
def staff(engine: OnCloud) -> Iterator[None]:
    """A group of users."""
    key = engine.thing(engine.cloud.call("identity.create_group", name="hl-staff", domain_id="default"))["id"]
    try:
        yield
    finally:
        engine.cloud.call("identity.delete_group", key)


def _lifecycle(engine: OnCloud, file: Path, parameters: dict[str, str]) -> Seen:
    """Created, checked, and deleted."""
    written = file.read_text()
    engine.take_stock()
    stack = engine.well(engine.create(written, environment={"parameters": parameters}))
    made = engine.seen(stack)
    engine.well(engine.check(stack))
    reasons = {row.name: row.status_reason for row in engine.rows(stack)}
    engine.gone(stack)
    return {"made": made, "checked": reasons}


def _get(engine: OnCloud, verb: str, key: object) -> dict[str, Any]:
    return engine.thing(engine.cloud.call(verb, str(key)))


def _servers(engine: OnCloud) -> int:
    found = engine.cloud.call("compute.servers")
    assert isinstance(found, list)
    return len(found)


OURS: list[Callable[[OnCloud], Seen]] = [network, networking, network_administration, server, identity_administration]
THEIRS: list[Callable[[OnCloud, Path], Seen]] = [
    new_network, existing_network, hello_world, vm_with_cinder, autoscaling, keystone,
]  # fmt: skip
ADMINISTRATORS = {"keystone", "network_administration", "identity_administration"}


@pytest.mark.parametrize("scenario", OURS, ids=lambda one: one.__name__)
def test_ours_simulated(scenario: Callable[[OnCloud], Seen], simulated: Begin) -> None:
    scenario(simulated(admin=scenario.__name__ in ADMINISTRATORS))


@pytest.mark.corpus
@pytest.mark.parametrize("scenario", THEIRS, ids=lambda one: one.__name__)
def test_theirs_simulated(scenario: Callable[[OnCloud, Path], Seen], simulated: Begin, corpus: Path) -> None:
    scenario(simulated(admin=scenario.__name__ in ADMINISTRATORS), corpus)


@pytest.mark.cloud
@pytest.mark.parametrize("scenario", OURS if EVERYTHING else [server], ids=lambda one: one.__name__)
def test_ours_on_both(scenario: Callable[[OnCloud], Seen], simulated: Begin, real_cloud: Begin) -> None:
    admin = scenario.__name__ in ADMINISTRATORS
    same(scenario(real_cloud(admin=admin)), scenario(simulated(admin=admin)))


@pytest.mark.cloud
@pytest.mark.corpus
@pytest.mark.parametrize("scenario", THEIRS, ids=lambda one: one.__name__)
def test_theirs_on_both(
    scenario: Callable[[OnCloud, Path], Seen], simulated: Begin, real_cloud: Begin, corpus: Path
) -> None:
    admin = scenario.__name__ in ADMINISTRATORS
    same(scenario(real_cloud(admin=admin), corpus), scenario(simulated(admin=admin), corpus))


def same(real: Any, simulated: Any) -> None:
    """The simulated cloud has done as the real one has."""
    differ = list(differences("", real, simulated))
    assert not differ, "\n".join(["the simulated cloud is not as the real one:", *differ])


def differences(where: str, real: Any, simulated: Any) -> list[str]:
    """Differences of the simulated from the real cloud, except what it does not show."""
    if isinstance(real, dict) and isinstance(simulated, dict):
        lacks = sorted(simulated.keys() - real.keys() - ONLY_SIMULATED)
        extra = [f"{where}.{key}: not there, but {simulated[key]!r}" for key in lacks]
        both = sorted((real.keys() & simulated.keys()) - THEIR_OWN)
        return extra + [one for key in both for one in differences(f"{where}.{key}", real[key], simulated[key])]
    if _are_maps(real) and _are_maps(simulated) and len(real) == len(simulated):
        pairs = enumerate(zip(_sorted(real, simulated), _sorted(simulated, real), strict=True))
        return [one for index, (its, ours) in pairs for one in differences(f"{where}[{index}]", its, ours)]
    return [] if real == simulated else [f"{where}: {real!r}, but {simulated!r}"]


def _are_maps(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _sorted(these: list[Seen], those: list[Seen]) -> list[Seen]:
    """In an order that does not depend on what only these have."""
    both = {key for one in these for key in one} & {key for one in those for key in one} - THEIR_OWN
    return sorted(these, key=lambda one: json.dumps([one.get(key) for key in sorted(both)]))
