"""From an alert to a repair with Prometheus, Alertmanager and `heatlite serve`."""

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.store.database.backend import Dialect
from heatlite.store.store import Store
from tests import brokers
from tests.acceptance.processes import Server, Worker
from tests.acceptance.shared_cloud import SharedCloud
from tests.databases import SERVERS as SERVERS_OF_DATABASES
from tests.databases import whole
from tests.faults.servers import PostgreSQL
from tests.features.healing.acceptance.monitoring import (
    SHIPPED,
    Alertmanager,
    Exporter,
    Prometheus,
    program,
    shipped,
    simulated_servers,
)
from tests.waiting import eventually

pytestmark = pytest.mark.slow

SERVERS = 6
PATIENCE = 240
HOLD = 4
"""Seconds: longer than a scrape, an evaluation and the interval of a group together."""


@dataclass
class Site:
    """A stack of six servers that are watched."""

    home: Path
    server: Server
    exporter: Exporter
    alertmanagers: list[Alertmanager]
    prometheus: Prometheus
    path: str
    group: str
    cloud: SharedCloud | None = None

    def stop(self, *servers: str) -> None:
        """Kill servers: their exporters answer no longer."""
        self.exporter.stopped.update(servers)
        for server in servers if self.cloud is not None else ():
            self.cloud.kill(server)

    def restart_prometheus(self) -> None:
        """Start it anew: it forgets since when its alerts fire."""
        self.prometheus.close()
        self.prometheus = Prometheus(self.home, self.server, self.exporter, *self.alertmanagers)

    def replace_alertmanager(self) -> None:
        """Start another one in place of the first, which knows no alert yet."""
        before, peer = self.alertmanagers[:2]
        before.close()
        folder = self.home / "alertmanager-new"
        folder.mkdir()
        self.alertmanagers[0] = Alertmanager(folder, self.server, before.token.read_text(), peer=peer.address)

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


@contextmanager
def watched(
    home: Path, server: Server, servers: Callable[[], list[str]], peers: int = 1, cloud: SharedCloud | None = None
) -> Iterator[Site]:
    """A stack of six servers, watched by a cluster of Alertmanagers."""
    with ExitStack() as ends:
        path = server.create("shop", shipped("stack.yaml"))
        assert server.settled(path) == "CREATE_COMPLETE", server.stack(path)
        created: Any = server.request("POST", "/health_tokens", {"name": "alertmanager", "source": "alertmanager"})
        token = created.data["health_token"]["token"]
        exporter = Exporter(servers)
        ends.callback(exporter.close)
        alertmanagers: list[Alertmanager] = []
        for number in range(peers):
            folder = home / f"alertmanager-{number}"
            folder.mkdir()
            first = alertmanagers[0].address if number else ""
            alertmanagers.append(Alertmanager(folder, server, token, peer=None if peers == 1 else first))
        ends.callback(lambda: [one.close() for one in alertmanagers])
        prometheus = Prometheus(home, server, exporter, *alertmanagers)
        group = server.find(server.resources(path)["web"])
        site = Site(home, server, exporter, alertmanagers, prometheus, path, group, cloud)
        ends.callback(lambda: site.prometheus.close())
        eventually(lambda: [*site.prometheus.up().values()] == ["1"] * SERVERS, "all servers are watched", PATIENCE)
        yield site


@contextmanager
def simulated(home: Path, peers: int = 1) -> Iterator[Site]:
    """`heatlite serve` on SQLite with a simulated cloud."""
    for name in ("prometheus", "prometheus-alertmanager"):
        program(name)
    server = Server(home, HEATLITE_CLOUD="simulated", HEATLITE_METRICS="true")
    try:
        servers = partial(simulated_servers, home / "heatlite.cloud")
        with watched(home, server, servers, peers) as site:
            yield site
        server.stop()
        assert server.complaints() == ""
    finally:
        server.kill()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with simulated(tmp_path) as site:
        yield site


def others(site: Site) -> list[Any]:
    """The members that stay."""
    return [row for row in site.rows() if row["resource_name"] != "2"]


def one_server_stops(site: Site) -> None:
    """It is replaced once, and nothing else is touched.

    In the modes `off` and `propose` nothing is replaced.
    """
    short = {"confirm": {"hold": 1}}  # one server is no outage: the hold may be short
    known, updates = {one["id"] for one in site.incidents()}, site.updates()
    site.put_policy(mode="off", **short)
    before, rows = site.members(), others(site)
    site.stop(before["2"])

    def shown() -> list[tuple[str, str, str]]:
        new = [one for one in site.incidents() if one["id"] not in known]
        return [(one["path"], one["state"], one["closed_as"] or one["reason"]) for one in new]

    eventually(lambda: shown() == [("web/2", "MARKED", "mode_off")], "the server is marked", PATIENCE)
    site.put_policy(mode="propose", **short)
    eventually(lambda: shown() == [("web/2", "PROPOSED", "awaiting_approval")], "a plan waits", PATIENCE)
    assert (site.members(), site.updates()) == (before, updates)

    site.put_policy(**short)
    eventually(lambda: shown() == [("web/2", "CLOSED", "healed")], "the incident is closed", PATIENCE)
    after = site.members()
    assert after["2"] not in before.values()
    assert {**after, "2": before["2"]} == before
    assert set(site.exporter.servers()) == set(after.values())
    assert site.updates() == updates + 1
    assert site.server.settled(site.path) == "UPDATE_COMPLETE"
    assert others(site) == rows
    late = {"key": "late", "status": "unhealthy", "physical_id": before["2"]}
    answer: Any = site.server.request("POST", "/health/generic", {"reports": [late]}).data
    assert answer["counts"] == {"stale": 1}
    tokens: Any = site.server.request("GET", "/health_tokens").data
    assert tokens["health_tokens"][0]["last_used_at"] is not None


def the_monitoring_fails(site: Site, *marked: str) -> None:
    """All servers seem to be down.

    A user's update replaces those that were marked before, and no other.
    """
    site.put_policy(mode="off")
    before = site.members()
    site.stop(*(before[name] for name in marked))
    rows = site.rows

    def states() -> dict[str, str]:
        return {one["path"].removeprefix("web/"): one["state"] for one in site.incidents() if one["closed_at"] is None}

    eventually(lambda: states() == dict.fromkeys(marked, "MARKED"), "these are marked", PATIENCE)
    before_it = rows()
    site.exporter.stopped.update(before.values())
    eventually(lambda: len(states()) == SERVERS, "all servers are reported", PATIENCE)
    site.put_policy()
    # The hold has passed, and the brakes hold the mark.
    held = {**dict.fromkeys(before, "CONFIRMED"), **dict.fromkeys(marked, "MARKED")}
    eventually(lambda: states() == held, "the reports stand", PATIENCE)
    why = [{one["reason"], *one["also"]} & {"storm", "breaker_open"} for one in site.incidents()]
    assert why == [{"storm", "breaker_open"}] * SERVERS
    assert site.scope()["breaker"] == "open"
    if site.cloud is None:  # several processes at one port show no metrics
        eventually(lambda: "HeatliteBreakerOpen" in site.prometheus.firing(), "people are told", PATIENCE)
    assert [{**row, "health": None} for row in rows()] == [{**row, "health": None} for row in before_it]
    shown = {row["resource_name"]: row["health"]["state"] for row in rows()}
    assert shown == {**dict.fromkeys(before, "suspected"), **dict.fromkeys(marked, "unhealthy")}
    events = site.server.listed(site.path, "events")
    assert [one["resource_status"] for one in events if "BREAKER" in one["resource_status"]] == ["HEALING_BREAKER_OPEN"]
    assert site.server.request("PATCH", site.path, {}).status == 202
    assert site.server.settled(site.path) == "UPDATE_COMPLETE"
    assert {name for name, one in site.members().items() if one != before[name]} == {*marked}

    site.exporter.stopped.clear()
    eventually(lambda: states() == {}, "the outage is over", PATIENCE)
    assert {one["closed_as"] for one in site.incidents()} <= {"resolved", "replaced_by_update"}
    assert site.scope()["breaker"] == "closed"
    assert {name for name, one in site.members().items() if one != before[name]} == {*marked}
    assert site.updates() == 1
    assert [row for row in rows() if row["resource_name"] not in marked] == [
        row for row in before_it if row["resource_name"] not in marked
    ]


@pytest.mark.slow
def test_a_server_that_stops_is_replaced_once(site: Site) -> None:
    one_server_stops(site)


@pytest.mark.slow
def test_an_outage_of_the_monitoring_replaces_nothing(site: Site) -> None:
    the_monitoring_fails(site)


@pytest.mark.slow
def test_two_alertmanagers_and_a_prometheus_that_restarts(tmp_path: Path) -> None:
    """Both send the alert, and it begins twice: one incident, one repair."""
    with simulated(tmp_path, peers=2) as site:
        eventually(lambda: [len(one.peers()) for one in site.alertmanagers] == [2, 2], "they are a cluster")
        site.put_policy(mode="off", confirm={"hold": 1})
        before = site.members()
        site.exporter.stopped.add(before["2"])

        def states() -> list[str]:
            return [one["state"] for one in site.incidents()]

        eventually(lambda: states() == ["MARKED"], "the server is marked", PATIENCE)
        incident = site.incidents()[0]["id"]

        def begins() -> set[str]:
            found: Any = site.server.request("GET", f"/incidents/{incident}").data
            return {one["starts_at"] for one in found["incident"]["alerts"]}

        assert len(begins()) == 1
        # Alertmanager keeps the begin of an alert that it knows: one of the two starts anew as well.
        site.replace_alertmanager()
        site.restart_prometheus()
        eventually(lambda: len(begins()) == 2, "the alert begins again", PATIENCE)
        site.alertmanagers[1].close()  # what follows comes from the other one
        site.put_policy(confirm={"hold": 1})
        eventually(lambda: states() == ["CLOSED"], "the incident is closed", PATIENCE)
        assert site.incidents()[0]["closed_as"] == "healed"
        after = site.members()
        assert {name for name in before if before[name] != after[name]} == {"2"}
        assert site.updates() == 1


@pytest.fixture
def distributed(tmp_path: Path) -> Iterator[Site]:
    """Yield the same with two API processes, two workers, PostgreSQL and RabbitMQ.

    They share a simulated cloud.
    """
    for name in ("prometheus", "prometheus-alertmanager"):
        program(name)
    with ExitStack() as ends:
        try:
            database = ends.enter_context(SERVERS_OF_DATABASES[Dialect.POSTGRESQL].database(f"healing_{os.getpid()}"))
            broker = ends.enter_context(brokers.broker("RabbitMQ"))
        except (DatabaseUnavailable, MissingLibrary, brokers.NoBroker) as error:
            pytest.skip(f"no PostgreSQL and RabbitMQ to test with: {error}")
        store = whole(database)
        store.upgrade()
        store.close()
        cloud = SharedCloud()
        ends.callback(cloud.close)
        variables = {"HEATLITE_BROKER": broker.url, "HEATLITE_QUEUE_PREFIX": broker.prefix, **cloud.variables}
        program_with_cloud = "tests.acceptance.shared_cloud"
        server = Server(
            tmp_path, 0, "api", database, program=program_with_cloud, HEATLITE_API_PROCESSES="2", **variables
        )
        server.patient = True
        ends.callback(server.kill)
        for _ in range(2):
            ends.callback(Worker(tmp_path, database, program=program_with_cloud, **variables).kill)
        yield ends.enter_context(watched(tmp_path, server, cloud.servers, cloud=cloud))
        assert server.complaints() == ""


@pytest.mark.slow
def test_on_a_database_server_and_a_broker(distributed: Site) -> None:
    """One member is marked before the outage."""
    the_monitoring_fails(distributed, "4")
    one_server_stops(distributed)


TROUBLE = {
    "heat_template_version": "2021-04-16",
    "resources": {name: {"type": "OS::Heat::TestResource"} for name in "abd"},
}
BUSY = {
    "heat_template_version": "2021-04-16",
    "resources": {
        "c": {"type": "OS::Heat::TestResource"},
        "handle": {"type": "OS::Heat::WaitConditionHandle", "depends_on": "c"},
        "wait": {
            "type": "OS::Heat::WaitCondition",
            "properties": {"handle": {"get_resource": "handle"}, "timeout": 600},
        },
    },
}


@pytest.mark.slow
def test_alertmanager_against_trouble(tmp_path: Path) -> None:
    """A wrong token, a stopped database, a busy and a locked stack, many alerts."""
    with ExitStack() as ends:
        program("prometheus-alertmanager")
        database = PostgreSQL()
        ends.callback(database.close)
        database.start()
        store = whole(database.url)
        store.upgrade()
        store.close()
        server = Server(tmp_path, database=database.url)
        ends.callback(server.kill)
        path, busy = server.create("s", TROUBLE), server.create("busy", BUSY)
        assert server.settled(path) == "CREATE_COMPLETE"
        policy = {"healing_policy": "2026-11-22", "grace": 0, "confirm": {"hold": 0}}
        for one in (path, busy):
            assert server.request("PUT", f"{one}/healing", policy).status == 200
        created: Any = server.request("POST", "/health_tokens", {"name": "alertmanager", "source": "alertmanager"})
        alertmanager = Alertmanager(tmp_path, server, "hlh_wrong", max_alerts=9999, repeat_interval="1h")
        ends.callback(alertmanager.close)

        def incident(resource: str) -> dict[str, Any] | None:
            found: Any = server.request("GET", f"/incidents?path={resource}").data
            return dict(found["incidents"][0]) if found["incidents"] else None

        def fire(name: str, resource: str, stack: str = "s", number: int = 1) -> None:
            alertmanager.fire(number, alertname=name, heatlite_stack=stack, heatlite_resource=resource)

        fire("WrongToken", "a")
        eventually(lambda: alertmanager.said("unexpected status code 401"), "the token is refused", PATIENCE)
        assert incident("a") is None
        alertmanager.token.write_text(created.data["health_token"]["token"])
        eventually(lambda: incident("a") is not None, "the next interval brings the alert", PATIENCE)

        database.stop()
        fire("Stopped", "b")
        eventually(lambda: alertmanager.said("unexpected status code 503"), "the database is away", PATIENCE)
        database.start()
        eventually(lambda: incident("b") is not None, "a retry brings the alert", PATIENCE)

        eventually(lambda: "wait" in server.resources(busy), "the condition is awaited")
        fire("Busy", "c", "busy")
        eventually(lambda: (incident("c") or {}).get("reason") == "busy", "the report waits for the stack", PATIENCE)
        assert server.request("POST", f"{busy}/resources/handle/signal", {"status": "SUCCESS"}).status == 200
        assert server.settled(busy) == "CREATE_COMPLETE"
        eventually(lambda: (incident("c") or {})["state"] == "MARKED", "the resource is marked", PATIENCE)

        assert server.request("POST", f"{path}/actions", {"lock": {"level": "stacks"}}).status == 200
        assert server.settled(path) == "LOCK_COMPLETE"
        fire("Locked", "d")

        def suppressed() -> list[str]:
            found: Any = server.request("GET", f"{path}/lock").data
            return [one["target"] for one in found["suppressed"] if one["request"] == "mark_unhealthy"]

        eventually(lambda: "d" in suppressed(), "the mark is listed", PATIENCE)
        assert server.request("POST", f"{path}/actions", {"unlock": None}).status == 200
        assert server.settled(path) == "UNLOCK_COMPLETE"

        fire("Many", "d", number=5001)
        eventually(lambda: alertmanager.said("unexpected status code 400"), "too many alerts are refused", PATIENCE)
        assert incident("d") is None
        fire("Again", "d")
        eventually(lambda: incident("d") is not None, "a new report counts", PATIENCE)
        found: Any = server.request("GET", f"/incidents/{(incident('b') or {})['id']}").data
        assert [one["reports"] for one in found["incident"]["alerts"]] == [1]


REPORTS = 100
"""Alerts of one request, each on another resource."""
REQUESTS = 40
CLIENTS = 8


@pytest.mark.slow
def test_the_same_reports_many_times_by_many_clients(serve: Callable[[], Server]) -> None:
    """Each alert is one observation, one incident, one mark and one event."""
    server = serve()
    resources = {f"r{n}": {"type": "OS::Heat::TestResource"} for n in range(REPORTS)}
    path = server.create("s", {"heat_template_version": "2021-04-16", "resources": resources})
    assert server.settled(path) == "CREATE_COMPLETE"
    policy = {"healing_policy": "2026-11-22", "grace": 0, "confirm": {"hold": 0}, "max_unhealthy": "100%"}
    assert server.request("PUT", f"{path}/healing", policy).status == 200
    source = {"format": "alertmanager", "storm": {"percent": 100, "least": REPORTS, "most": REPORTS}}
    assert server.request("PUT", "/health/alertmanager/config", source).status == 200
    alerts = [
        {
            "status": "firing", "startsAt": "2026-11-02T12:00:00Z", "fingerprint": f"f{n}",
            "labels": {"alertname": "Down", "heatlite_stack": "s", "heatlite_resource": f"r{n}"},
        }
        for n in range(REPORTS)
    ]  # fmt: skip

    def send(_: int) -> Counter[str]:
        """Send the request again after a 503, as Alertmanager does."""
        end = time.monotonic() + 600
        while time.monotonic() < end:
            answer: Any = server.request("POST", "/health/alertmanager", {"version": "4", "alerts": alerts}, 300)
            if answer.status == 200:
                return Counter(answer.data["counts"])
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5"), answer.data
            time.sleep(1)
        raise AssertionError("no request is accepted")

    with ThreadPoolExecutor(CLIENTS) as clients:
        counts = sum(clients.map(send, range(REQUESTS)), Counter[str]())
    assert counts == {"accepted": REPORTS, "repeated": (REQUESTS - 1) * REPORTS}
    names = set(resources)

    def marked() -> set[str]:
        rows = server.listed(path, "resources")
        return {row["resource_name"] for row in rows if row["resource_status"] == "CHECK_FAILED"}

    eventually(lambda: marked() == names, "all are marked")
    store = Store.open(f"sqlite:///{server.home / 'heatlite.db'}")
    incidents = store.database.read("SELECT path, state FROM incident ORDER BY path")
    assert [*map(tuple, incidents)] == [(name, "MARKED") for name in sorted(names)]
    episodes = store.database.read("SELECT key, reports FROM observation ORDER BY key")
    assert [*map(tuple, episodes)] == [(f"f{name[1:]}", REQUESTS) for name in sorted(names)]
    marks = store.database.read("SELECT resource_name FROM event WHERE verb = 'CHECK' AND status = 'FAILED'")
    assert Counter(str(name) for (name,) in marks) == dict.fromkeys(names, 1)
    store.close()
    server.stop()
    assert server.complaints() == ""


@pytest.mark.parametrize(
    "words",
    [
        ("promtool", "check", "config", "prometheus.yml"),
        ("promtool", "check", "rules", "rules.yml", "alerts.yml"),
        ("amtool", "check-config", "alertmanager.yml"),
    ],
)
def test_shipped_files_are_valid(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = copytree(SHIPPED, tmp_path / "healing")
    (folder / "heatlite.token").write_text("secret")
    done = subprocess.run([program(words[0]), *words[1:]], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
