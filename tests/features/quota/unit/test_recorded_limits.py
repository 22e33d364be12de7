"""Recorded answers of Nova, Cinder and Neutron (2025.1) as limits.

A project with a server, a server group, a key pair, a volume of 2 GiB, a network and a subnet.
"""

import json
from pathlib import Path

import pytest

from heatlite.clients.connection import Connections
from heatlite.clients.finders import Finders
from heatlite.features.quota.limits import QuotaLimit, read
from tests.clouds.services import Answer, clouds_yaml, fake_cloud
from tests.tables import table

pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())
COMPUTE = {
    "instances": (1000, 1), "cores": (10_000, 1), "ram": (10_000_000, 64), "server_groups": (1000, 1),
    "key_pairs": (1000, 1),
}  # fmt: skip
BLOCK_STORAGE = {
    "volumes": (1000, 1), "per_volume_gigabytes": (-1, 0), "snapshots": (1000, 0), "gigabytes": (100_000, 2),
    "backups": (1000, 0), "backup_gigabytes": (100_000, 0), "volumes___DEFAULT__": (-1, 1),
    "gigabytes___DEFAULT__": (-1, 2), "snapshots___DEFAULT__": (-1, 0), "groups": (10, 0),
}  # fmt: skip
NETWORK = {
    "network": (1000, 1), "subnet": (1000, 1), "subnetpool": (-1, 0), "port": (5000, 1), "router": (1000, 0),
    "floatingip": (1000, 0), "rbac_policy": (10, 0), "security_group": (1000, 1), "security_group_rule": (5000, 4),
    "trunk": (-1, 0),
}  # fmt: skip
PLACES = {"compute": "/compute/v2.1", "block-storage": "/volume/v3"}
VERSIONS = {
    "/compute/v2.1": {"id": "v2.1", "version": "2.96", "min_version": "2.1"},
    "/volume/v3": {"id": "v3.0", "version": "3.71", "min_version": "3.0"},
}
CASES = [
    *((name, COMPUTE) for name in RECORDED if name.startswith("compute")),
    ("block_storage", BLOCK_STORAGE),
    ("network", NETWORK),
]


@pytest.mark.slow
@table("name, expected", CASES)
def test_what_the_services_have_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, expected: dict[str, tuple[int, int]]
) -> None:
    told, service = RECORDED[name], name.partition(" ")[0]

    def answer(_method: str, path: str, _body: object) -> Answer:
        place = path.partition("?")[0].rstrip("/")
        if place in VERSIONS:
            link = {"rel": "self", "href": f"{cloud.url}{place}/"}
            return Answer(body={"version": {**VERSIONS[place], "status": "CURRENT", "links": [link]}})
        return Answer(body=told.get(place.rpartition("/")[2], told))

    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    with fake_cloud(answer) as cloud:
        cloud.more = PLACES
        clouds_yaml(tmp_path, lab=cloud.entry())
        found = read(Finders(Connections("lab", 60.0).open(), lambda: 0.0), "PROJECT", service)
    assert found == {f"{service}.{kind}": QuotaLimit(*numbers) for kind, numbers in expected.items()}
