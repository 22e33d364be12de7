"""Scenarios of simulated clouds."""

import pytest

from heatlite.core.config import BadSetting
from heatlite.core.json import Json
from heatlite.features.simulator.scenario import scenario
from heatlite.features.simulator.simulation import SimulatedFault
from tests.tables import table


def test_all_fields() -> None:
    found = scenario(
        {
            "latency": 1,
            "quotas": {"compute.server": 1, "block_storage.gigabytes": 2},
            "faults": [{"verb": "network.*", "raises": "timeout"}],
        },
        "cloud.yaml",
    )
    assert found.quotas == {"compute.server": 1, "block_storage.gigabytes": 2}
    assert found.faults == (SimulatedFault(verb="network.*", raises="timeout"),)


@table(
    ("written", "message"),
    [
        ({"latency": -1}, "$.latency: -1 is less than the minimum of 0"),
        ({"quotas": {"compute.sever": 1}}, "$.quotas: there is no kind compute.sever; did you mean compute.server?"),
        (
            {"faults": [{"verb": "compute.create_sever", "raises": "lost"}]},
            "$.faults[0].verb: there is no verb compute.create_sever; did you mean compute.create_server?",
        ),
        (
            {"faults": [{"verb": "*", "raises": "lost"}, {"verb": "qqq.*", "raises": "lost"}]},
            "$.faults[1].verb: there is no verb qqq.*",
        ),
    ],
)
def test_refused(written: Json, message: str) -> None:
    with pytest.raises(BadSetting) as refused:
        scenario(written, "cloud.yaml")
    assert str(refused.value) == f"cloud.yaml: {message}"
