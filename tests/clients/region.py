"""A region in the cloud of real services, with an orchestration of its own.

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
from tests.clients import installing
from tests.clouds import real

if TYPE_CHECKING:
    from openstack.connection import Connection

ORCHESTRATION = ("orchestration", "cloudformation")
SERVICE = "heatlite-orchestration"
"""Name of the service in the catalog."""
NETWORK = "heat-net"
FLAVOR = "m1.nano"
LARGER_FLAVOR = "m1.tiny"
IMAGE = "cirros"


@dataclass
class BareRegion:
    """Names, passwords and addresses of a region without an orchestration.

    Project and user have the region's name.
    """

    name: str
    auth_url: str
    password: str
    admin_password: str
    network: str
    """Id of the project's network."""
    clouds: Path
    """clouds.yaml with the clouds `ours` (a member of the project), `ours-admin` and `heatlite` (the user `heat`)."""
    admin: "Connection"
    undo: ExitStack
    """Leaves the region as it was."""

    @property
    def variables(self) -> dict[str, str]:
        """The OS_* variables of the member."""
        return {
            "OS_AUTH_URL": self.auth_url, "OS_USERNAME": self.name, "OS_PASSWORD": self.password,
            "OS_PROJECT_NAME": self.name, "OS_USER_DOMAIN_ID": "default", "OS_PROJECT_DOMAIN_ID": "default",
            "OS_REGION_NAME": self.name, "OS_IDENTITY_API_VERSION": "3",
        }  # fmt: skip

    @property
    def agents(self) -> str:
        """Name of the stack domain, and name and password of its administrator."""
        return f"{self.name}-agents"

    def announce(self, url: str) -> None:
        """Put an orchestration into the catalog."""
        identity = self.admin.identity
        with installing.locked(SERVICE):
            # Horizon looks at the first service of a type only, so all regions share it.
            service = next(identity.services(type="orchestration"), None)
            service = service or identity.create_service(type="orchestration", name=SERVICE)
            self.undo.callback(_delete_unused, identity, service)
            for interface in ("public", "internal", "admin"):
                _endpoint(self.admin, self.undo, service.id, interface, self.name, f"{url}/v1/%(project_id)s")


@dataclass
class Region(BareRegion):
    """A region with a heatlite."""

    server: Server


@contextmanager
def bare_region(folder: Path) -> Iterator[BareRegion]:
    """Make the region. Leave nothing behind."""
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
        own = {"username": "heat", "password": admin_password, "project_name": "service"}
        described["heatlite"] = {**described["ours"], "auth": {**ours, **own}}
        for cloud in described.values():
            cloud["region_name"] = name
        clouds = folder / "clouds.yaml"
        clouds.write_text(yaml.safe_dump({"clouds": described}))
        network = undo.enter_context(_network(clouds))
        made = BareRegion(name, ours["auth_url"], ours["password"], admin_password, network, clouds, admin, undo)
        _stack_domain(admin, undo, made.agents)
        yield made


@contextmanager
def region(folder: Path, **settings: str) -> Iterator[Region]:
    """Make the region and start the server; `settings` are variables of the server.

    Leave nothing behind.
    """
    with bare_region(folder) as bare:
        port, name = free_port(), bare.name
        variables = {
            "OS_CLIENT_CONFIG_FILE": str(bare.clouds), "HEATLITE_CLOUD": "heatlite", "HEATLITE_AUTH": "keystone",
            "HEATLITE_KEYSTONE_AUTH_URL": bare.auth_url, "HEATLITE_KEYSTONE_USERNAME": "heat",
            "HEATLITE_KEYSTONE_PASSWORD": bare.admin_password, "HEATLITE_KEYSTONE_PROJECT_NAME": "service",
            "HEATLITE_REGIONS": f"{name}=http://127.0.0.1:{port}/v1/{{project}}",
            "HEATLITE_REGION_TOKENS": f"{name}={bare.admin.auth_token}",
            "HEATLITE_STACK_USER_DOMAIN_NAME": bare.agents, "HEATLITE_STACK_DOMAIN_ADMIN": bare.agents,
            "HEATLITE_STACK_DOMAIN_ADMIN_PASSWORD": bare.agents, **settings,
        }  # fmt: skip
        server = Server(folder, port, **variables)
        bare.undo.callback(server.kill)
        bare.announce(server.url)
        yield Region(**vars(bare), server=server)


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


def _delete_unused(identity: Any, service: Any) -> None:
    """Delete a service of tests if no region has it any more."""
    with installing.locked(SERVICE):
        if service.name == SERVICE and not list(identity.endpoints(service_id=service.id)):
            identity.delete_service(service)


def _stack_domain(admin: "Connection", undo: ExitStack, name: str) -> None:
    """Make a stack domain. Its administrator has its name, also as password."""
    identity = admin.identity
    domain = identity.create_domain(name=name)
    undo.callback(identity.delete_domain, domain.id)
    undo.callback(identity.update_domain, domain.id, enabled=False)
    user = identity.create_user(name=name, domain_id=domain.id, password=name)
    role = identity.find_role("admin")
    identity.assign_domain_role_to_user(domain, user, role)


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
