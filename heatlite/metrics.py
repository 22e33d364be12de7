"""Metrics for Prometheus.

The only module that imports its client library (extra `metrics`).
Gauges read the database at each scrape; every process shows the same. Counters and histograms are those of the
process: scrape each. Labels are bounded: verbs, routes, registered resource types; never names of stacks or projects.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily, Metric

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.healing import OPEN_INCIDENTS, Brake
from heatlite.core.meter import Meter
from heatlite.core.status import LIVE_ACTIONS, ActionStatus, Verb
from heatlite.store.store import Store

SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""Bounds of buckets in seconds, for durations of milliseconds."""

LONG = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
"""Bounds of buckets in seconds, for durations up to hours."""

ON_STACKS = [verb for verb in Verb if verb not in (Verb.INIT, Verb.ROLLBACK)]
"""Verbs of actions."""


class Metrics(Meter):
    """The metrics of this process, in a registry of their own."""

    def __init__(self, store: Store, clock: Clock) -> None:
        registry = self.registry = CollectorRegistry()
        registry.register(DatabaseGauges(store, clock))  # first: the counters below count its errors
        requests = Histogram(
            "heatlite_http_request_duration_seconds",
            "Requests, by route and answer; of a stream of events until it begins.",
            ("method", "route", "code"),
            buckets=SHORT,
            registry=registry,
        )
        self._waits = Histogram(
            "heatlite_action_wait_seconds",
            "From the moment at which an action might begin until a worker took it for the first time.",
            ("verb",),
            buckets=LONG,
            registry=registry,
        )
        self._attempts = Histogram(
            "heatlite_attempt_duration_seconds",
            "Duration from a worker's claim of an action to its release.",
            ("verb",),
            buckets=LONG,
            registry=registry,
        )
        self._ended = Counter("heatlite_actions_ended", "Actions that are over.", ("verb", "status"), registry=registry)
        handlers = Histogram(
            "heatlite_handler_duration_seconds",
            "Calls of resource types: a handler, or one question of its check.",
            ("type", "verb"),
            buckets=SHORT,
            registry=registry,
        )
        # Finding a series costs as much as adding to it.
        self._request, self._handler = cache(requests.labels), cache(handlers.labels)
        self._ignored = Counter("heatlite_signals_ignored", "Signals without effect.", ("reason",), registry=registry)
        self._commits = Counter("heatlite_commits", "Transactions written.", registry=registry)
        text = "Database reads and writes that failed because the database was unavailable."
        self._unavailable = Counter("heatlite_database_unavailable", text, registry=registry)
        ProcessCollector(registry=registry)

    def request_answered(self, method: str, route: str, code: int, seconds: float) -> None:
        self._request(method, route, code).observe(seconds)

    def signal_ignored(self, reason: str) -> None:
        self._ignored.labels(reason).inc()

    def action_begun(self, verb: Verb, waited: float) -> None:
        self._waits.labels(verb).observe(waited)

    def attempt_ended(self, verb: Verb, seconds: float) -> None:
        self._attempts.labels(verb).observe(seconds)

    def action_ended(self, verb: Verb, status: ActionStatus) -> None:
        self._ended.labels(verb, status).inc()

    def handler_called(self, type_name: str, verb: Verb, seconds: float) -> None:
        self._handler(type_name, verb).observe(seconds)

    def committed(self) -> None:
        self._commits.inc()

    def database_unavailable(self) -> None:
        self._unavailable.inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)


class DatabaseGauges:
    """Gauges that read the database at each scrape."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges. Without a database, yields only `heatlite_database_up`."""
        found: list[Metric] = []
        with suppress(DatabaseUnavailable):  # reported by the first gauge
            found = [self._actions(), self._oldest(), self._engines()]
            found += [self._incidents(), self._held(), self._scopes(), self._storms()]
        yield GaugeMetricFamily("heatlite_database_up", "Whether the database answers.", value=bool(found))
        yield from found

    def _actions(self) -> Metric:
        text = "Actions that hold their targets: they run, wait, or may be taken."
        family = GaugeMetricFamily("heatlite_actions", text, labels=("verb", "status"))
        counts = self._store.actions.count_live()
        for verb in ON_STACKS:
            for status in LIVE_ACTIONS:
                family.add_metric((verb, status), counts.get((verb, status), 0))
        return family

    def _oldest(self) -> Metric:
        since = self._store.actions.oldest_ready(self._clock.now())
        return GaugeMetricFamily(
            "heatlite_oldest_ready_action_age_seconds",
            "Age of the oldest READY action that no worker has claimed; 0 without one.",
            value=0.0 if since is None else max(0.0, self._clock.now() - since),
        )

    def _engines(self) -> Metric:
        text = "Engines that have not left, by whether they report."
        family = GaugeMetricFamily("heatlite_engines", text, labels=("status",))
        now = self._clock.now()
        up = [service.is_up(now) for service in self._store.services.list()]
        family.add_metric(("up",), sum(up))
        family.add_metric(("down",), len(up) - sum(up))
        return family

    def _incidents(self) -> Metric:
        family = GaugeMetricFamily("heatlite_incidents", "Open incidents, by state.", labels=("state",))
        counts = self._store.incidents.count_by_state()
        for state in OPEN_INCIDENTS:
            family.add_metric((state,), counts.get(state, 0))
        return family

    def _held(self) -> Metric:
        family = GaugeMetricFamily("heatlite_healing_held", "Held incidents, by the first reason.", labels=("reason",))
        counts = self._store.incidents.count_by_reason()
        for brake in Brake:
            family.add_metric((brake,), counts.get(brake, 0))
        return family

    def _scopes(self) -> Metric:
        text = "Scopes whose breaker is open, or that are suspended after failed repairs."
        family = GaugeMetricFamily("heatlite_healing_scopes", text, labels=("state",))
        opened, suspended = self._store.healing_scopes.counts()
        family.add_metric(("open",), opened)
        family.add_metric(("suspended",), suspended)
        return family

    def _storms(self) -> Metric:
        text = "Sources that report many resources at once, so that nothing is marked or repaired."
        return GaugeMetricFamily("heatlite_health_storms", text, value=len(self._store.health_sources.storms()))


def serve(metrics: Metrics, host: str, port: int) -> Callable[[], None]:
    """Serve the metrics at a port, at any path.

    Returns a function that stops the server.
    Raises OSError if the port is not available.
    """
    server, thread = start_http_server(port, host, metrics.registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
