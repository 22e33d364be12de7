"""From an alert to a repair, with real parts: exporters, Prometheus, Alertmanager, `heatlite serve`."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from tests.acceptance.monitoring import SHIPPED, Alertmanager, Exporter, Prometheus, program, shipped
from tests.acceptance.processes import Server, eventually

SERVERS = 6
PATIENCE = 90
HOLD = 4
"""Seconds: longer than a scrape, an evaluation and the interval of a group together."""


@dataclass
class Site:
    """A stack of six servers that are watched."""

    server: Server
    exporter: Exporter
    prometheus: Prometheus
    path: str
    group: str

    def put_policy(self, **changes: object) -> None:
        """Set the shipped policy with shorter times."""
        policy = {**shipped("policy.yaml"), "grace": 1, "confirm": {"hold": HOLD}, "cooldown": 1, **changes}
        policy["ladder"][0]["settle"] = 60
        assert self.server.request("PUT", f"{self.path}/healing", policy).status == 200

    def members(self) -> dict[str, str]:
        return self.server.resources(self.group)

    def rows(self) -> list[Any]:
        return self.server.listed(self.group, "resources")

    def incidents(self) -> list[dict[str, Any]]:
        found: Any = self.server.request("GET", "/incidents").data
        return list(found["incidents"])

    def scope(self) -> dict[str, Any]:
        found: Any = self.server.request("GET", f"{self.path}/healing").data
        (scope,) = (one for one in found["scopes"] if one["scope"] == "web")
        return dict(scope)

    def updates(self) -> int:
        """The number of updates of the root stack."""
        root = self.path.rpartition("/")[2]
        found: Any = self.server.request("GET", f"/actions?action=STACK_UPDATE&target={root}").data
        return len(found["actions"])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    for name in ("prometheus", "prometheus-alertmanager"):
        program(name)
    with ExitStack() as ends:
        server = Server(tmp_path, HEATLITE_CLOUD="simulated", HEATLITE_METRICS="true")
        ends.callback(server.kill)
        path = server.create("shop", shipped("stack.yaml"))
        assert server.settled(path) == "CREATE_COMPLETE"
        created: Any = server.request("POST", "/health_tokens", {"name": "alertmanager", "source": "alertmanager"})
        token = created.data["health_token"]["token"]
        exporter = Exporter(tmp_path / "heatlite.cloud")
        ends.callback(exporter.close)
        alertmanager = Alertmanager(tmp_path, server, token)
        ends.callback(alertmanager.close)
        prometheus = Prometheus(tmp_path, server, exporter, alertmanager)
        ends.callback(prometheus.close)
        group = server.find(server.resources(path)["web"])
        site = Site(server, exporter, prometheus, path, group)
        eventually(lambda: [*prometheus.up().values()] == ["1"] * SERVERS, "all servers are watched", PATIENCE)
        yield site
        server.stop()
        assert server.complaints() == ""


@pytest.mark.full
def test_a_server_that_stops_is_replaced_once(site: Site) -> None:
    short = {"confirm": {"hold": 1}}  # one server is no outage: the hold may be short
    site.put_policy(mode="off", **short)
    before = site.members()
    site.exporter.stopped.add(before["2"])

    def shown() -> list[tuple[str, str, str]]:
        return [(one["path"], one["state"], one["reason"]) for one in site.incidents()]

    eventually(lambda: shown() == [("web/2", "MARKED", "mode_off")], "the server is marked", PATIENCE)
    site.put_policy(mode="propose", **short)
    eventually(lambda: shown() == [("web/2", "PROPOSED", "awaiting_approval")], "a plan waits", PATIENCE)
    assert (site.members(), site.updates()) == (before, 0)

    site.put_policy(**short)
    eventually(lambda: site.incidents()[0]["state"] == "CLOSED", "the incident is closed", PATIENCE)
    (incident,) = site.incidents()
    after = site.members()
    assert (incident["path"], incident["closed_as"]) == ("web/2", "healed")
    assert after["2"] not in before.values()
    assert {**after, "2": before["2"]} == before
    assert set(site.exporter.servers()) == set(after.values())
    assert site.updates() == 1
    assert site.server.settled(site.path) == "UPDATE_COMPLETE"
    states = {one["resource_name"]: one["resource_status"] for one in site.server.listed(site.group, "resources")}
    assert {states[name] for name in states if name != "2"} == {"CREATE_COMPLETE"}
    late = {"key": "late", "status": "unhealthy", "physical_id": before["2"]}
    answer: Any = site.server.request("POST", "/health/generic", {"reports": [late]}).data
    assert answer["counts"] == {"stale": 1}
    tokens: Any = site.server.request("GET", "/health_tokens").data
    assert tokens["health_tokens"][0]["last_used_at"] is not None


@pytest.mark.full
def test_an_outage_of_the_monitoring_replaces_nothing(site: Site) -> None:
    site.put_policy()
    before = site.members()
    rows = site.rows()
    site.exporter.stopped.update(before.values())
    eventually(lambda: len(site.incidents()) == SERVERS, "all servers are reported", PATIENCE)
    # The hold has passed, and the brakes hold the mark.
    eventually(lambda: {one["state"] for one in site.incidents()} == {"CONFIRMED"}, "the reports stand", PATIENCE)
    held = [{one["reason"], *one["also"]} & {"storm", "breaker_open"} for one in site.incidents()]
    assert held == [{"storm", "breaker_open"}] * SERVERS
    assert site.scope()["breaker"] == "open"
    eventually(lambda: "HeatliteBreakerOpen" in site.prometheus.firing(), "people are told", PATIENCE)
    assert [{**row, "health": None} for row in site.rows()] == [{**row, "health": None} for row in rows]
    assert [row["health"]["state"] for row in site.rows()] == ["suspected"] * SERVERS

    site.exporter.stopped.clear()
    closed = [("CLOSED", "resolved")] * SERVERS
    eventually(
        lambda: [(one["state"], one["closed_as"]) for one in site.incidents()] == closed, "the outage is over", PATIENCE
    )
    assert site.scope()["breaker"] == "closed"
    assert (site.members(), site.updates()) == (before, 0)
    assert site.rows() == rows


@pytest.mark.parametrize(
    "words", [("promtool", "check", "config", "prometheus.yml"), ("amtool", "check-config", "alertmanager.yml")]
)
def test_shipped_files_are_valid(tmp_path: Path, words: tuple[str, ...]) -> None:
    """`promtool check config` checks the rules, too."""
    folder = copytree(SHIPPED, tmp_path / "healing")
    (folder / "heatlite.token").write_text("secret")
    done = subprocess.run([program(words[0]), *words[1:]], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
