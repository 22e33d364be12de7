"""A region in the cloud of real services, with heatlite as its orchestration.

The region has the endpoints of the cloud's other services, a project with a user, a network and a stack domain. Nothing
else in the cloud sees it, so it stands beside what other tests do there.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from benchmarks.ports import free_port
from tests.acceptance.processes import Server
from tests.clouds import real

if TYPE_CHECKING:
    from openstack.connection import Connection

ORCHESTRATION = ("orchestration", "cloudformation")
NETWORK = "heat-net"
FLAVOR = "m1.nano"
LARGER_FLAVOR = "m1.tiny"
IMAGE = "cirros"


@dataclass
class Region:
    """Account names and addresses that a client of the region needs.

    Project and user have the region's name.
    """

    name: str
    auth_url: str
    password: str
    admin_password: str
    server: Server
    network: str
    """Id of the project's network."""
    clouds: Path
    """clouds.yaml with the clouds `ours` (a member of the project) and `ours-admin`."""

    @property
    def variables(self) -> dict[str, str]:
        """The OS_* variables of the member."""
        return {
            "OS_AUTH_URL": self.auth_url, "OS_USERNAME": self.name, "OS_PASSWORD": self.password,
            "OS_PROJECT_NAME": self.name, "OS_USER_DOMAIN_ID": "default", "OS_PROJECT_DOMAIN_ID": "default",
            "OS_REGION_NAME": self.name, "OS_IDENTITY_API_VERSION": "3",
        }  # fmt: skip


@contextmanager
def region(folder: Path, **settings: str) -> Iterator[Region]:
    """Make the region and start the server; `settings` are variables of the server.

    Leave nothing behind.
    """
    real.needed()
    with ExitStack() as undo:
        described = undo.enter_context(_project(folder))
        admin = connection(real.HOME / "clouds.yaml", "fakecloud")
        undo.callback(admin.close)
        ours = described["ours"]["auth"]
        name = ours["project_name"]
        services = {service.id: service for service in admin.identity.services()}
        old = [
            endpoint
            for endpoint in admin.identity.endpoints()
            if endpoint.region_id == "RegionOne" and services[endpoint.service_id].type not in ORCHESTRATION
        ]
        admin.identity.create_region(id=name)
        undo.callback(admin.identity.delete_region, name)
        for each in old:
            _endpoint(admin, undo, each.service_id, each.interface, name, each.url)
        admin_password = described["ours-admin"]["auth"]["password"]
        own = {"auth_url": ours["auth_url"], "username": "heat", "password": admin_password, "project_name": "service"}
        described["heatlite"] = {**described["ours"], "auth": {**ours, **own}}
        for cloud in described.values():
            cloud["region_name"] = name
        clouds = folder / "clouds.yaml"
        clouds.write_text(yaml.safe_dump({"clouds": described}))
        network = undo.enter_context(_network(clouds))
        port = free_port()
        variables = {
            "OS_CLIENT_CONFIG_FILE": str(clouds), "HEATLITE_CLOUD": "heatlite", "HEATLITE_AUTH": "keystone",
            **{f"HEATLITE_KEYSTONE_{key.upper()}": value for key, value in own.items()},
            "HEATLITE_REGIONS": f"{name}=http://127.0.0.1:{port}/v1/{{project}}",
            "HEATLITE_REGION_TOKENS": f"{name}={admin.auth_token}",
            **_stack_domain(admin, undo, name), **settings,
        }  # fmt: skip
        server = Server(folder, port, **variables)
        undo.callback(server.kill)
        # Horizon looks at the first service of a type only, which may be a Heat's. Those of other tests may go.
        heats = [one for one in services.values() if one.type == "orchestration" and one.name[:9] != "heatlite-"]
        service = heats[0].id if heats else None
        if service is None:
            service = admin.identity.create_service(type="orchestration", name=name).id
            undo.callback(admin.identity.delete_service, service)
        for interface in ("public", "internal", "admin"):
            _endpoint(admin, undo, service, interface, name, f"{server.url}/v1/%(project_id)s")
        yield Region(name, ours["auth_url"], ours["password"], admin_password, server, network, clouds)


def connection(clouds: Path, name: str) -> "Connection":
    """Return a connection to a cloud of the file."""
    from openstack.config import OpenStackConfig
    from openstack.connection import Connection

    return Connection(config=OpenStackConfig(config_files=[str(clouds)]).get_one(name))


@contextmanager
def _project(folder: Path) -> Iterator[dict[str, Any]]:
    """The clouds of a new project."""
    with real.project(folder) as path:
        yield yaml.safe_load(path.read_text())["clouds"]


def _endpoint(admin: "Connection", undo: ExitStack, service: str, interface: str, name: str, url: str) -> None:
    made = admin.identity.create_endpoint(service_id=service, interface=interface, region_id=name, url=url)
    undo.callback(admin.identity.delete_endpoint, made.id)


def _stack_domain(admin: "Connection", undo: ExitStack, name: str) -> dict[str, str]:
    """The settings of a new stack domain."""
    identity, administrator = admin.identity, f"{name}-agents"
    domain = identity.create_domain(name=administrator)
    undo.callback(identity.delete_domain, domain.id)
    undo.callback(identity.update_domain, domain.id, enabled=False)
    user = identity.create_user(name=administrator, domain_id=domain.id, password=administrator)
    role = identity.find_role("admin")
    identity.assign_domain_role_to_user(domain, user, role)
    return {
        "HEATLITE_STACK_USER_DOMAIN_NAME": administrator,
        "HEATLITE_STACK_DOMAIN_ADMIN": administrator,
        "HEATLITE_STACK_DOMAIN_ADMIN_PASSWORD": administrator,
    }


@contextmanager
def _network(clouds: Path) -> Iterator[str]:
    """The network that Heat's tests start servers in, behind a router."""
    ours = connection(clouds, "ours")
    network = ours.network
    net = network.create_network(name=NETWORK)
    subnet = network.create_subnet(network_id=net.id, name="heat-subnet", ip_version=4, cidr="10.0.5.0/24")
    outside = network.find_network("public", ignore_missing=False)
    router = network.create_router(name="heat-router", external_gateway_info={"network_id": outside.id})
    network.add_interface_to_router(router, subnet.id)
    try:
        yield net.id
    finally:
        _clear(ours)
        ours.close()


def _clear(ours: "Connection") -> None:
    """Delete all objects of the project."""
    for server in ours.compute.servers():
        ours.delete_server(server.id, wait=True)
    for volume in ours.block_storage.volumes():
        ours.delete_volume(volume.id, wait=True)
    network, project = ours.network, ours.current_project_id
    for trunk in network.trunks(project_id=project):
        network.delete_trunk(trunk)
    for address in network.ips(project_id=project):
        network.delete_ip(address)
    for router in network.routers(project_id=project):
        if router.routes:
            network.update_router(router, routes=[])
        for port in network.ports(device_id=router.id):
            network.remove_interface_from_router(router, None, port.id)
        network.delete_router(router)
    for port in network.ports(project_id=project):
        network.delete_port(port)
    for net in network.networks(project_id=project):
        network.delete_network(net)
