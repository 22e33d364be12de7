"""Answers of real services as limits, and services that do not answer."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from heatlite.clients.cloud import CloudError, CloudUnavailable
from heatlite.clients.finders import Finders
from heatlite.core.clouds import CloudIdentity
from heatlite.core.json import Json
from heatlite.features.quota.limits import (
    NO_ANSWER,
    Before,
    Deadline,
    LimitReader,
    LimitsReading,
    QuotaAccount,
    QuotaLimit,
    identify,
    read,
)
from tests.tables import table

PROJECT = "6f70656e737461636b20342065766572"
NOVA_2_1 = {
    "maxServerMeta": 128, "maxPersonality": 5, "maxTotalInstances": 10, "maxPersonalitySize": 10240,
    "maxTotalRAMSize": 51200, "maxTotalCores": 20, "maxTotalKeypairs": 100, "totalRAMUsed": 512,
    "totalInstancesUsed": 1, "totalFloatingIpsUsed": 0, "totalSecurityGroupsUsed": 0, "totalCoresUsed": 1,
}  # fmt: skip
"""As older versions tell, without server groups."""
NOVA_2_57 = {
    "maxServerMeta": 128, "maxTotalInstances": -1, "maxTotalRAMSize": 51200, "maxTotalCores": 20,
    "maxTotalKeypairs": -1, "maxServerGroups": 10, "maxServerGroupMembers": 10, "totalRAMUsed": 0, "totalCoresUsed": 0,
    "totalInstancesUsed": 0, "totalServerGroupsUsed": 2, "maxImageMeta": 128,
}  # fmt: skip
CINDER = {
    "id": PROJECT, "volumes": 10, "volumes_fast": -1, "gigabytes": 1000, "gigabytes_fast": 5, "snapshots": 10,
    "per_volume_gigabytes": -1, "groups": 10, "usage": {"volumes": 1, "gigabytes": 2, "gigabytes_fast": 1},
    "reservation": {"volumes": 1, "gigabytes": 0},
}  # fmt: skip
"""As openstacksdk makes it of the answer with usage."""
NEUTRON = {
    "network": {"limit": 100, "used": 3, "reserved": 1}, "port": {"limit": -1, "used": 7, "reserved": 0},
    "rbac_policy": {"limit": 10, "used": 0, "reserved": 0}, "project": PROJECT,
}  # fmt: skip
OCTAVIA = {"load_balancer": 2, "loadbalancer": 2, "listener": -1, "pool": 3, "member": 50, "health_monitor": None}


class Told:
    """A cloud that answers what is written here."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    @property
    def place(self) -> CloudIdentity:
        return CloudIdentity("lab", "https://keystone.example/v3", "RegionOne", None)

    @property
    def identity(self) -> CloudIdentity:
        found = self.call("identity.token")
        return CloudIdentity("lab", "https://keystone.example/v3", "RegionOne", str(found))

    def has(self, service: str) -> bool:
        return any(verb.startswith(f"{service}.") for verb in self.answers)

    def call(self, verb: str, *arguments: Json, **attributes: Json) -> Json:
        self.asked.append(verb)
        answer = self.answers[verb]
        if isinstance(answer, CloudError):
            raise answer
        return answer() if callable(answer) else answer


def finders(answers: Mapping[str, Any]) -> Finders:
    return Finders(Told(answers), lambda: 0.0)


KEYS = {"compute.keypairs": [{"name": "a"}, {"name": "b"}]}
CASES = [
    (
        "compute",
        {"compute.get_limits": {"absolute": NOVA_2_1, "rate": []}, **KEYS},
        {"instances": (10, 1), "cores": (20, 1), "ram": (51200, 512), "key_pairs": (100, 2)},
    ),
    (
        "compute",
        {"compute.get_limits": {"absolute": NOVA_2_57}},
        {"instances": (-1, 0), "cores": (20, 0), "ram": (51200, 0), "server_groups": (10, 2), "key_pairs": (-1, 0)},
    ),
    (
        "block_storage",
        {"block_storage.get_quota_set": CINDER},
        {
            "volumes": (10, 2), "volumes_fast": (-1, 0), "gigabytes": (1000, 2), "gigabytes_fast": (5, 1),
            "snapshots": (10, 0), "per_volume_gigabytes": (-1, 0), "groups": (10, 0),
        },
    ),
    ("network", {"network.get_quota": NEUTRON}, {"network": (100, 4), "port": (-1, 7), "rbac_policy": (10, 0)}),
    (
        "load_balancer",
        {
            "load_balancer.get_quota": OCTAVIA,
            "load_balancer.load_balancers": [{"id": "1"}],
            "load_balancer.pools": [{"members": [{"id": "a"}, {"id": "b"}]}, {"members": [{"id": "c"}]}],
        },
        {
            "loadbalancer": (2, 1), "listener": (-1, 0), "pool": (3, 2), "member": (50, 3), "healthmonitor": (-1, 0),
        },
    ),
]  # fmt: skip


@table("service, answers, expected", CASES)
def test_answers_of_services(service: str, answers: Mapping[str, Any], expected: dict[str, tuple[int, int]]) -> None:
    found = read(finders(answers), PROJECT, service)
    assert found == {f"{service}.{kind}": QuotaLimit(*numbers) for kind, numbers in expected.items()}


def test_a_service_that_the_cloud_lacks() -> None:
    assert read(finders({}), PROJECT, "network") is None


class Clock:
    time = 1000.0

    def now(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


def ask(
    reader: LimitReader, where: Finders, *services: str, fresh: bool = False, seconds: float = 60.0
) -> LimitsReading:
    account = QuotaAccount("lab", PROJECT)
    return reader.read(where, account, services, Deadline(seconds), Before, fresh)


def test_what_was_read_is_remembered_for_a_while(clock: Clock) -> None:
    reader, where = LimitReader(clock.now, 30.0), finders({"network.get_quota": NEUTRON})
    assert ask(reader, where, "network").is_fresh
    clock.time += 29
    again = ask(reader, where, "network")
    assert (again.is_fresh, again.read_at) == (False, 1000.0)
    assert ask(reader, where, "network", fresh=True).is_fresh
    clock.time += 30
    assert ask(reader, where, "network").is_fresh
    assert where.cloud.asked == ["network.get_quota"] * 3  # type: ignore[attr-defined]


@table(
    "error",
    [CloudUnavailable("network.get_quota", "broken", 503), CloudError("network.get_quota", "not for you", 403)],
)
def test_a_service_that_fails_is_unknown(error: CloudError) -> None:
    where = finders({"network.get_quota": error, "compute.get_limits": {"absolute": NOVA_2_57}})
    found = ask(LimitReader(Clock().now, 30.0), where, "network", "compute", "load_balancer")
    assert [*found.causes] == ["network"] and str(error.status) in found.causes["network"]
    assert found.left_out == {"load_balancer"}
    assert "compute.cores" in found.limits


def test_a_service_that_hangs_is_left_alone_for_a_while(clock: Clock) -> None:
    ends, calls = threading.Event(), list[str]()

    def hang() -> Json:
        calls.append("network")
        ends.wait(60)
        return {}

    where = finders({"network.get_quota": hang, "block_storage.get_quota_set": CINDER})
    reader = LimitReader(clock.now, 30.0)
    try:
        found = ask(reader, where, "network", seconds=0.2)
        assert found.causes == {"network": NO_ANSWER}
        found = ask(reader, where, "network", "block_storage", fresh=True)
        assert found.causes == {"network": NO_ANSWER} and found.is_fresh
        assert found.limits["block_storage.volumes"] == QuotaLimit(10, 2)
        assert calls == ["network"]
    finally:
        ends.set()


def test_a_project_that_is_not_known() -> None:
    refused = CloudError("identity.token", "who are you", 401)
    assert "who are you" in str(identify(finders({"identity.token": refused}), Deadline()))
    found = identify(finders({"identity.token": PROJECT}), Deadline())
    assert isinstance(found, QuotaAccount) and found.project == PROJECT and found.place.endswith(PROJECT)


def test_many_requests_at_once_all_get_an_answer(clock: Clock) -> None:
    reader, where = LimitReader(clock.now, 30.0), finders({"network.get_quota": NEUTRON})
    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(lambda _: ask(reader, where, "network", fresh=True), range(64)))
    assert [one.causes for one in found if one.causes] == []
