"""GET /metrics: what it shows is what has happened."""

import builtins
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.ports import free_port
from heatlite import administration, wiring
from heatlite.api import metrics as metrics_module
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.core.runtime.meter import Count, Meter
from heatlite.core.status import ActionStatus, Verb
from heatlite.features.healing.parts import Healing
from heatlite.features.healing.store.store import HealingStore
from heatlite.serving import preflight
from heatlite.worker import serve_metrics
from tests.api.conftest import Heat, template, value
from tests.databases import away, sqlite
from tests.waiting import eventually

Shown = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[wiring.Embedded]:
    server = wiring.embedded(Settings(database=sqlite(tmp_path), metrics=True))
    yield server
    server.close()


class Watched(Heat):
    """A client that looks at the metrics, too."""

    def shown(self) -> Shown:
        answer = self.app.get("/metrics", headers={"Host": "127.0.0.1:8004"})
        assert answer.status_int == 200
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = [*text_string_to_metric_families(answer.text)]
        assert all(family.documentation for family in families if family.name.startswith("heatlite_"))
        samples = [sample for family in families for sample in family.samples]
        return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}


@pytest.fixture
def heat(server: wiring.Embedded) -> Watched:
    return Watched(server.app)


def of(shown: Shown, name: str, **labels: str) -> float:
    """One number; 0 where it has not been shown yet."""
    return shown.get((f"heatlite_{name}", frozenset(labels.items())), 0.0)


def requests(shown: Shown, method: str, route: str, code: int) -> float:
    return of(shown, "http_request_duration_seconds_count", method=method, route=route, code=str(code))


@pytest.mark.slow
def test_the_shipped_alerts_name_metrics_that_exist(heat: Watched) -> None:
    alerts = (Path(__file__).parents[2] / "templates" / "healing" / "alerts.yml").read_text()
    named = re.findall(r'(heatlite_\w+)(?:\{(\w+)="(\w+)"\})?', alerts)
    assert named
    shown = heat.shown()
    for name, label, content in named:
        labels = {(label, content)} if label else set()
        assert any(shown_name == name and labels <= has for shown_name, has in shown), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")
def test_requests_are_counted_by_route_and_answer(heat: Watched) -> None:
    path = heat.create(template(a=value()))
    for _ in range(3):
        heat.get(path + "/resources")
    heat.of("another").call("GET", "/stacks/unknown/0123", code=404)
    heat.call("GET", "/nothing/at/all", code=404)
    heat.call("BREW", "/stacks", code=405)
    shown = heat.shown()
    stack = "/v1/{project}/stacks/{stack_name}/{stack_id}"
    assert requests(shown, "POST", "/v1/{project}/stacks", 201) == 1
    assert requests(shown, "GET", f"{stack}/resources", 200) == 3
    assert requests(shown, "GET", stack, 404) == 1
    assert requests(shown, "GET", "", 404) == 1
    assert requests(heat.shown(), "GET", "/metrics", 200) == 1
    # No name that a caller chooses makes a series: neither a path's nor a method's.
    assert {dict(labels).get("method") for _, labels in shown} == {"GET", "POST", "TRACE", None}
    texts = {text for _, labels in shown for name, text in labels if name not in ("result", "state")}
    assert not any("unknown" in text or "demo" in text for text in texts)


@pytest.mark.slow
def test_how_things_stand(heat: Watched) -> None:
    def running() -> float:
        return of(heat.shown(), "actions", verb="CREATE", status="RUNNING")

    eventually(lambda: of(heat.shown(), "engines", status="up") == 1)
    before = heat.shown()
    assert of(before, "database_up") == 1
    assert running() == 0
    endless = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
    path = heat.create(template(a=endless), wait=False)
    eventually(lambda: running() == 1)
    heat.call("DELETE", path, code=204)
    eventually(lambda: all(count == 0 for (name, _), count in heat.shown().items() if name == "heatlite_actions"))
    assert of(heat.shown(), "commits_total") > of(before, "commits_total")


GROUP = {
    "type": "OS::Heat::ResourceGroup",
    "properties": {"count": 3, "resource_def": value("{{name-with-%index%}}")},
}


@pytest.mark.slow
def test_what_actions_and_handlers_did(heat: Watched) -> None:
    """A tree of two stacks, one that fails, deletions: as many of each as there were."""
    begun = time.time()
    tree = heat.create(template(group=GROUP, alone=value()), name="tree")
    fails = heat.create(template(a={"type": "OS::Heat::TestResource", "properties": {"fail": True}}), name="fails")
    assert heat.settle(fails)["stack_status"] == "CREATE_FAILED"
    for path in (tree, fails):
        heat.call("DELETE", path, code=204)

    def ended() -> float:
        return sum(count for (name, _), count in heat.shown().items() if name == "heatlite_actions_ended_total")

    eventually(lambda: ended() >= 6)  # each is counted once its commit is done
    shown = heat.shown()
    ends = {labels: count for (name, labels), count in shown.items() if name == "heatlite_actions_ended_total"}
    assert {(dict(labels)["verb"], dict(labels)["status"]): count for labels, count in ends.items()} == {
        ("CREATE", "SUCCEEDED"): 2,
        ("CREATE", "FAILED"): 1,
        ("DELETE", "SUCCEEDED"): 3,
    }
    for verb, actions, attempts in (("CREATE", 3, 4), ("DELETE", 3, 4)):
        # Each began once. One waited for a nested stack, and was claimed again unless that had ended already.
        assert of(shown, "action_wait_seconds_count", verb=verb) == actions
        eventually(lambda: of(heat.shown(), "attempt_duration_seconds_count", verb=verb) in (actions, attempts))  # noqa: B023
        assert of(shown, "attempt_duration_seconds_sum", verb=verb) < 60 + 10 * (time.time() - begun)
    calls = {
        (dict(labels)["type"], dict(labels)["verb"]): count
        for (name, labels), count in shown.items()
        if name == "heatlite_handler_duration_seconds_count"
    }
    assert calls.pop(("OS::Heat::TestResource", "CREATE")) >= 2  # a handler, and the check that fails
    assert calls.pop(("OS::Heat::TestResource", "DELETE")) == 1  # it takes no time, so no check follows
    assert calls == {("OS::Heat::Value", "CREATE"): 4}  # it has nothing to do for a deletion
    assert not any("name-with" in text or text in ("tree", "fails") for _, labels in shown for _, text in labels)


def test_a_worker_shows_its_metrics_at_a_port_of_its_own(tmp_path: Path) -> None:
    port = free_port()
    settings = Settings(database=sqlite(tmp_path), metrics=True, metrics_port=port)
    store = administration.open_store(settings)
    meter = wiring.metering(settings, store, Clock())
    stop = serve_metrics(settings, meter)
    meter.action_ended(Verb.CHECK, ActionStatus.CANCELLED)
    with pytest.raises(preflight.NoPort, match=f"port {port}: Address already in use. .*the setting metrics_port"):
        serve_metrics(settings, meter)
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        shown = answer.read().decode()
    assert 'heatlite_actions_ended_total{status="CANCELLED",verb="CHECK"} 1.0' in shown
    assert "heatlite_database_up 1.0" in shown
    stop()
    store.close()
    with pytest.raises(URLError):
        urlopen(f"http://127.0.0.1:{port}/metrics")
    for quiet in (replace(settings, metrics_port=0), replace(settings, metrics=False)):
        serve_metrics(quiet, Meter())()


@pytest.mark.slow
def test_slow_clients_do_not_hold_the_port_of_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connection has a thread and may open a connection of the database."""
    port = free_port()
    settings = Settings(database=sqlite(tmp_path), metrics=True, metrics_port=port)
    store = administration.open_store(settings)
    stop = serve_metrics(settings, wiring.metering(settings, store, Clock()))

    def silent(opened: ExitStack) -> None:
        for _ in range(40):
            client = opened.enter_context(socket.create_connection(("127.0.0.1", port), 240))
            client.sendall(b"GET /metrics HTTP/1.1\r\n")

    def is_answered() -> bool:
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b"heatlite_database_up 1.0" in answer.read()
            return True
        return False

    before = threading.active_count()
    monkeypatch.setattr(metrics_module, "SCRAPE_SECONDS", 240.0)  # none ends while they are counted
    with ExitStack() as opened:
        silent(opened)
        assert threading.active_count() - before <= 2 * metrics_module.MAX_SCRAPES
    eventually(is_answered)
    monkeypatch.setattr(metrics_module, "SCRAPE_SECONDS", 0.5)
    with ExitStack() as opened:
        silent(opened)
        eventually(is_answered)
    stop()
    store.close()


@pytest.mark.slow
def test_a_database_that_is_away_is_seen(heat: Watched, server: wiring.Embedded, tmp_path: Path) -> None:
    with server.store.transaction():
        server.store.database.write("UPDATE stack SET name = name")
    with away(tmp_path):
        server.store.database.close()  # this thread's connection: the next one finds no file
        shown = heat.shown()
    assert of(shown, "database_up") == 0
    assert of(shown, "database_unavailable_total") >= 1
    assert of(shown, "commits_total") >= 1
    assert of(heat.shown(), "database_up") == 1


def test_nothing_is_there_unless_asked_for(refusing: Heat) -> None:
    assert refusing.app.get("/metrics", expect_errors=True).status_int == 404


def test_pages_of_other_sites_see_none(heat: Watched) -> None:
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        assert heat.app.get("/metrics", headers=headers, expect_errors=True).status_int == 403


def test_without_the_library_nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def fails(name: str, *more: Any, **named: Any) -> Any:
        if name.startswith(("prometheus_client", "heatlite.api.metrics")):
            raise ImportError(name, name="prometheus_client")
        return imported(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", fails)
    settings = Settings(database=sqlite(tmp_path), metrics=True, port=0)
    for start in (preflight.check_servable, wiring.embedded):
        with pytest.raises(MissingLibrary, match=r"The setting metrics needs prometheus_client, .*\[server\]"):
            start(settings)
    wiring.embedded(Settings(database=settings.database)).close()  # nothing was left behind


@pytest.mark.slow
def test_what_an_operator_looks_at_is_counted(heat: Watched, server: wiring.Embedded) -> None:
    path = heat.create(template(a={"type": "OS::Heat::TestResource"}, b=value()))
    heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
    report = {"key": "k", "status": "unhealthy", "stack": "s", "resource": "b"}
    heat.call("POST", "/health/generic", {"reports": [report, {**report, "stack": "none", "key": "l"}]}, code=200)
    heat.call("POST", f"{path}/actions", {"heal": {"resources": ["a"], "ignore": ["mode_off", "breaker_open"]}}, 200)
    heat.settle(path, "UPDATE_COMPLETE")

    def repairs() -> float:
        server.components.of(Healing).loop.sweep()
        return of(heat.shown(), "repairs_total", step="replace", result="succeeded")

    eventually(repairs)
    shown = heat.shown()
    assert of(shown, "repair_duration_seconds_count", step="replace") == 1
    assert of(shown, "health_reports_total", format="generic", result="accepted") == 1
    assert of(shown, "health_reports_total", format="generic", result="unknown") == 1
    assert of(shown, "health_last_report_timestamp_seconds", format="generic") > 0
    assert of(shown, "health_last_report_timestamp_seconds", format="aodh") == 0


def test_totals_are_counted(heat: Watched) -> None:
    path = heat.create(template(a={"type": "OS::Heat::TestResource"}))
    heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
    heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, code=200)
    heat.settle(path, "LOCK_COMPLETE")
    heat.fault("PATCH", path, {}, code=409)
    shown = heat.shown()
    names = ("resources_unhealthy", "stacks_locked", "suppressed_requests", "node_actions_to_approve")
    assert [of(shown, name) for name in names] == [1, 1, 1, 0]
    assert shown["heatlite_nodes", frozenset({("state", "UP")})] == 0
    assert shown["heatlite_resources_health_unknown", frozenset()] == 0


@pytest.mark.slow
def test_storms_are_counted(heat: Watched, server: wiring.Embedded) -> None:
    assert heat.shown()["heatlite_health_storms", frozenset()] == 0
    with server.store.transaction():
        server.store.of(HealingStore).sources.begin_storm("demo", "alertmanager", 1.0)
    assert of(heat.shown(), "health_storms") == 1


def test_counts_of_features_with_and_without_labels(server: wiring.Embedded) -> None:
    meter = metrics_module.ProcessMetrics(server.store, Clock(), lambda: True)
    plain, labelled = Count("plain", "Plain.", (), ((),)), Count("labelled", "By kind.", ("kind",), (("a",),))
    meter.declare(plain, labelled)
    assert b"plain_total 0.0" in meter.text()
    assert b'labelled_total{kind="a"} 0.0' in meter.text()
    meter.count(plain)
    meter.count(labelled, "a", number=2)
    assert b"plain_total 1.0" in meter.text()
    assert b'labelled_total{kind="a"} 2.0' in meter.text()
