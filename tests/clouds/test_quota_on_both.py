"""Limits and usage of a project, on both clouds."""

import pytest

from heatlite.features.quota.assessment import Assessment
from heatlite.features.quota.limits import NO_ANSWER
from heatlite.features.quota.parts import Quotas
from tests.clouds.conftest import Begin
from tests.clouds.engine import OnCloud
from tests.waiting import eventually

KINDS = {
    "compute.instances", "compute.cores", "compute.ram", "compute.server_groups", "compute.key_pairs",
    "block_storage.volumes", "block_storage.gigabytes", "block_storage.snapshots",
    "network.network", "network.subnet", "network.port", "network.router", "network.floatingip",
    "network.security_group", "network.security_group_rule",
}  # fmt: skip
"""Those of the services that both have."""


def answered(engine: OnCloud) -> Assessment | None:
    """The limits; None if a service did not answer in time, as on a busy machine."""
    quotas = engine.server.components.of(Quotas)
    quotas.limits.forget()
    found = quotas.examiner.of_project(engine.who)
    return None if NO_ANSWER in found.causes.values() else found


def limits(engine: OnCloud) -> None:
    made = engine.thing(engine.cloud.call("network.create_network", name="hl-quota"))["id"]
    try:
        found = eventually(lambda: answered(engine), "all services answer")
    finally:
        engine.cloud.call("network.delete_network", made)
    assert found.causes == {}
    used = {one.kind: one.used or 0 for one in found.kinds}
    assert used.keys() >= KINDS
    assert used["network.network"] >= 1


@pytest.mark.cloud
def test_limits_and_usage_are_read(simulated: Begin, real_cloud: Begin) -> None:
    limits(simulated())
    limits(real_cloud())
