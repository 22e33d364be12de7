"""Refusals of services: the same errors on the simulated and on a real cloud."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from heatlite.clients.cloud import Ambiguous, CloudConflict, CloudError, CloudNotFound, OverQuota
from heatlite.clients.connection import Connections
from heatlite.core.json import Json
from tests.clouds.conftest import Begin
from tests.clouds.engine import OnCloud

Call = Callable[..., Json]

NOBODY = "11111111-2222-3333-4444-555555555555"


class Asked:
    """A project with something in it, and what it is answered."""

    def __init__(self, member: OnCloud, admin: OnCloud, project: str) -> None:
        self.call, self.admin, self.project = member.cloud.call, admin.cloud.call, project
        self.net = self._made("network.create_network", name="busy")
        self.subnet = self._made("network.create_subnet", network_id=self.net, ip_version=4, cidr="10.40.0.0/24")
        self.port = self._made("network.create_port", network_id=self.net)
        self.twins = [self._made("network.create_network", name="twin") for _ in range(2)]
        self.call("compute.create_keypair", name="there")
        flavor = self.call("compute.find_flavor", "m1.nano")
        assert isinstance(flavor, dict)
        self.flavor = flavor["id"]
        self.volume = self._made("block_storage.create_volume", size=1)
        member.wait_for(self._volume_is_there)

    def _volume_is_there(self) -> bool:
        volume = self.call("block_storage.get_volume", self.volume)
        assert isinstance(volume, dict)
        return volume["status"] == "available"

    def _made(self, verb: str, **attributes: Json) -> str:
        made = self.call(verb, **attributes)
        assert isinstance(made, dict)
        return str(made["id"])

    def close(self) -> None:
        """Take it away, and the quotas."""
        self.call("compute.delete_keypair", "there")
        self.call("block_storage.delete_volume", self.volume)
        self.call("network.delete_port", self.port)
        for net in (self.net, *self.twins):
            self.call("network.delete_network", net)
        for verb in ("compute.revert_quota_set", "block_storage.revert_quota_set", "network.delete_quota"):
            with suppress(CloudError):
                self.admin(verb, self.project)


def _image(asked: Asked) -> str:
    image = asked.call("image.find_image", "cirros")
    assert isinstance(image, dict)
    return str(image["id"])


def _server(asked: Asked, **more: Json) -> Json:
    given: dict[str, Json] = {
        "imageRef": _image(asked), "flavorRef": asked.flavor, "networks": [{"uuid": asked.net}]
    }  # fmt: skip
    return asked.call("compute.create_server", name="refused", **{**given, **more})


REFUSALS: dict[str, tuple[Callable[[Asked], Json], type[CloudError], int | None]] = {
    "no network": (lambda of: of.call("network.get_network", NOBODY), CloudNotFound, 404),
    "no server": (lambda of: of.call("compute.get_server", NOBODY), CloudNotFound, 404),
    "no volume": (lambda of: of.call("block_storage.get_volume", NOBODY), CloudNotFound, 404),
    "no image": (lambda of: of.call("image.get_image", NOBODY), CloudNotFound, 404),
    "twins": (lambda of: of.call("network.find_network", "twin"), Ambiguous, None),
    "network in use": (lambda of: of.call("network.delete_network", of.net), CloudConflict, 409),
    "subnet in use": (lambda of: of.call("network.delete_subnet", of.subnet), CloudConflict, 409),
    "address taken": (
        lambda of: [of.call("network.create_port", network_id=of.net, fixed_ips=[{"ip_address": "10.40.0.9"}])
                    for _ in range(2)],
        CloudConflict, 409,
    ),
    "subnets overlap": (
        lambda of: of.call("network.create_subnet", network_id=of.net, ip_version=4, cidr="10.40.0.0/25"),
        CloudError, 400,
    ),
    "no cidr": (
        lambda of: of.call("network.create_subnet", network_id=of.net, ip_version=4, cidr="10.40"), CloudError, 400,
    ),
    "of another project": (
        lambda of: of.call("network.create_network", name="x", project_id=NOBODY), CloudError, 400,
    ),
    "key twice": (lambda of: of.call("compute.create_keypair", name="there"), CloudConflict, 409),
    "server of no image": (lambda of: _server(of, imageRef=NOBODY), CloudError, 400),
    "server of no flavor": (lambda of: _server(of, flavorRef=NOBODY), CloudError, 400),
    "server of a volume that does not boot": (
        lambda of: _server(of, imageRef="", block_device_mapping_v2=[
            {"uuid": of.volume, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
        ]),
        CloudError, 400,
    ),
    "volume of two sources": (
        lambda of: of.call("block_storage.create_volume", size=1, imageRef=_image(of), source_volid=of.volume),
        CloudError, 400,
    ),
}  # fmt: skip
"""Request → kind of refusal."""

FOR_ADMINISTRATORS: dict[str, Callable[[Asked], Json]] = {
    "shared": lambda of: of.call("network.create_network", name="x", shared=True),
    "external": lambda of: of.call("network.create_network", **{"name": "x", "router:external": True}),
    "provider": lambda of: of.call("network.create_network", **{"name": "x", "provider:network_type": "vlan"}),
    "made shared": lambda of: of.call("network.update_network", of.net, shared=True),
    "on a host": lambda of: of.call("network.create_port", **{"network_id": of.net, "binding:host_id": "fake-1"}),
    "router": lambda of: of.call("network.create_router", name="x", ha=True),
    "qos": lambda of: of.call("network.create_qos_policy", name="x"),
    "ports": lambda of: of.call("network.update_quota", of.project, port=99),
    "flavor": lambda of: of.call("compute.create_flavor", name="x", ram=1, vcpus=1, disk=1),
    "specs": lambda of: of.call("compute.create_flavor_extra_specs", of.flavor, {"a": "b"}),
    "aggregate": lambda of: of.call("compute.create_aggregate", name="x"),
    "hosts": lambda of: of.call("compute.hypervisors"),
    "cores": lambda of: of.call("compute.update_quota_set", of.project, cores=99),
    "volume type": lambda of: of.call("block_storage.create_type", name="x"),
    "volume qos": lambda of: of.call("block_storage.create_qos_spec", name="x"),
    "volumes": lambda of: of.call("block_storage.update_quota_set", of.project, volumes=99),
    "image": lambda of: of.call(
        "image.create_image", name="x", visibility="public", disk_format="raw", container_format="bare"
    ),
    "users": lambda of: of.call("identity.users"),
    "a user": lambda of: of.call("identity.find_user", "admin"),
    "project": lambda of: of.call("identity.create_project", name="x"),
    "another project": lambda of: of.call("identity.get_project", NOBODY),
    "role": lambda of: of.call("identity.create_role", name="x"),
}
"""Requests that a member of a project may not make."""

QUOTAS: dict[str, tuple[str, dict[str, Json], Callable[[Asked], Json]]] = {
    "networks": ("network.update_quota", {"network": 3}, lambda of: of.call("network.create_network", name="x")),
    "servers": ("compute.update_quota_set", {"instances": 0}, _server),
    "volumes": (
        "block_storage.update_quota_set", {"volumes": 0}, lambda of: of.call("block_storage.create_volume", size=1),
    ),
}  # fmt: skip
"""Quotas and the types that they refuse."""


def refused(of: Asked, project: str) -> dict[str, tuple[type[CloudError], int | None]]:
    """Everything that is refused, as it is."""
    found = {}
    for name, ask in FOR_ADMINISTRATORS.items():
        error = _refusal(name, of, ask)
        assert (type(error), error.status) == (CloudError, 403), (name, error)
    for name, (ask, _, _) in REFUSALS.items():
        error = _refusal(name, of, ask)
        found[name] = (type(error), error.status)
    for name, (verb, quota, ask) in QUOTAS.items():
        of.admin(verb, project, **quota)
        error = _refusal(name, of, ask)
        found[name] = (type(error), None)
        assert error.status in (403, 409, 413)
    return found


def _refusal(name: str, of: Asked, ask: Callable[[Asked], Json]) -> CloudError:
    try:
        ask(of)
    except CloudError as error:
        assert error.reason
        assert error.status is None or error.request_id is not None
        return error
    pytest.fail(f"{name}: not refused")


EXPECTED = {name: (kind, status) for name, (_, kind, status) in REFUSALS.items()}
EXPECTED |= dict.fromkeys(QUOTAS, (OverQuota, None))


def test_simulated(simulated: Begin) -> None:
    member = simulated()
    of = Asked(member, member, member.who.project)
    of.admin = member.server.components.engine_services.services.clouds.of("admin").cloud.call
    assert refused(of, member.who.project) == EXPECTED


@pytest.mark.cloud
def test_real(real_cloud: Begin) -> None:
    member, admin = real_cloud(), real_cloud(admin=True)
    project = _project(member)
    of = Asked(member, admin, project)
    try:
        assert refused(of, project) == EXPECTED
        with pytest.raises(CloudNotFound):  # another project's objects are not there
            Connections("other", 30.0).of("").call("network.get_network", of.net)
    finally:
        for port in _all(of.call("network.ports", network_id=of.net)):
            if port["id"] != of.port:
                of.call("network.delete_port", port["id"])
        of.close()


def _project(member: OnCloud) -> str:
    """The id of the project: that of whatever it has."""
    return str(_all(member.cloud.call("network.security_groups"))[0]["project_id"])


def _all(answer: Json) -> list[dict[str, Any]]:
    assert isinstance(answer, list)
    return [one for one in answer if isinstance(one, dict)]
