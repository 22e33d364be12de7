"""Metrics of a real server."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.processes import Server
from tests.waiting import eventually

TEMPLATE = {"heat_template_version": "2021-04-16", "resources": {"a": {"type": "Example::Local::File"}}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path, HEATLITE_METRICS="true")
    yield started
    started.kill()


def shown(server: Server) -> dict[str, float]:
    """The metrics, each summed over its labels."""
    answer = server.request("GET", "/metrics")
    assert answer.status == 200
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(str(answer.data)):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


@pytest.mark.slow
def test_a_server_shows_what_it_did(server: Server) -> None:
    begun = time.time()
    assert server.settled(server.create("s", TEMPLATE)) == "CREATE_COMPLETE"
    eventually(lambda: shown(server).get("heatlite_attempt_duration_seconds_count") == 1, "the attempt is over")
    found = shown(server)
    assert found["heatlite_actions_ended_total"] == 1
    assert found["heatlite_action_wait_seconds_count"] == 1
    assert 0 <= found["heatlite_action_wait_seconds_sum"] <= time.time() - begun
    assert found["heatlite_handler_duration_seconds_count"] == 2  # a handler and its check
    assert found["heatlite_http_request_duration_seconds_count"] > 3
    assert found["process_resident_memory_bytes"] > 10**7
    server.stop()
    assert server.complaints() == ""
