"""Metrics for Prometheus.

The only module that imports its client library (extra `server`).
Gauges read the database at each scrape; every process shows the same. Counters and histograms are those of the
process: scrape each. Processes with the variable `SHARED` count together. Labels are bounded: verbs, routes, registered
resource types; never names of stacks or projects.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Metric,
    ProcessCollector,
    generate_latest,
    make_wsgi_app,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime.meter import SHARED, Count, Durations, Gauge, Meter
from heatlite.core.status import LIVE_ACTIONS, ActionStatus, Verb
from heatlite.engine.dispatch.hints import is_up
from heatlite.store.counts import Totals
from heatlite.store.store import Store

log = logging.getLogger(__name__)

SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""Bounds of buckets in seconds, for durations of milliseconds."""

LONG = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
"""Bounds of buckets in seconds, for durations up to hours."""

MAX_SCRAPES = 4
"""Scrapes that the port of a worker answers at once."""
SCRAPE_SECONDS = 10.0
"""Time limit of a connection to the port of a worker."""

COUNT_INTERVAL = 60.0
"""Seconds between two counts that read whole tables."""


ON_STACKS = [verb for verb in Verb if verb not in (Verb.INIT, Verb.ROLLBACK)]
"""Verbs of actions."""


class ProcessMetrics(Meter):
    """The metrics of this process, in a registry of their own."""

    def __init__(self, store: Store, clock: Clock, has_engine: Callable[[], bool]) -> None:
        """`has_engine` is that of `Components`."""
        self.registry = CollectorRegistry()
        self.registry.register(DatabaseGauges(store, clock, has_engine))  # first: the counters below count its errors
        shared = SHARED in os.environ
        if shared:
            MultiProcessCollector(self.registry)  # type: ignore[no-untyped-call]
        # Shared counts are collected from the files of all processes.
        registry = None if shared else self.registry
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
        text = "Signals and marks without effect."
        self._ignored = Counter("heatlite_signals_ignored", text, ("reason",), registry=registry)
        self._registry = registry
        self._counts: dict[str, Counter] = {}
        self._durations: dict[str, Histogram] = {}
        self._commits = Counter("heatlite_commits", "Transactions written.", registry=registry)
        text = "Database reads and writes that failed because the database was unavailable."
        self._unavailable = Counter("heatlite_database_unavailable", text, registry=registry)
        ProcessCollector(registry=self.registry)

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

    def declare(self, *metrics: Count | Durations) -> None:
        for one in metrics:
            match one:
                case Count() if one.name not in self._counts:
                    counter = Counter(one.name, one.text, one.labels, registry=self._registry)
                    self._counts[one.name] = counter
                    for labels in filter(None, one.series):
                        counter.labels(*labels)
                case Durations() if one.name not in self._durations:
                    found = Histogram(one.name, one.text, one.labels, buckets=LONG, registry=self._registry)
                    self._durations[one.name] = found

    def count(self, metric: Count, *labels: str, number: int = 1) -> None:
        counter = self._counts[metric.name]
        (counter.labels(*labels) if labels else counter).inc(number)

    def observe(self, metric: Durations, *labels: str, seconds: float) -> None:
        self._durations[metric.name].labels(*labels).observe(seconds)

    def committed(self) -> None:
        self._commits.inc()

    def database_unavailable(self) -> None:
        self._unavailable.inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)


class DatabaseGauges:
    """Gauges that read the database at each scrape."""

    def __init__(self, store: Store, clock: Clock, has_engine: Callable[[], bool]) -> None:
        self._store = store
        self._clock = clock
        self._has_engine = has_engine
        self._last: Totals | None = None
        self._rare: Sequence[Metric] = ()
        self._counted = 0.0

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges. Without a database, yields only `heatlite_database_up`."""
        found: list[Metric] = []
        with suppress(DatabaseUnavailable):  # reported by the first gauge
            found = [self._actions(), self._oldest(), self._engines()]
            found += _families(gauge for one in self._store.features for gauge in one.gauges())
            found += self._totals()
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
        up = [is_up(service, now, self._has_engine) for service in self._store.services.list()]
        family.add_metric(("up",), sum(up))
        family.add_metric(("down",), len(up) - sum(up))
        return family

    def _totals(self) -> Iterator[Metric]:
        if self._clock.now() - self._counted >= COUNT_INTERVAL or self._last is None:
            self._last, self._counted = self._store.counts.totals(), self._clock.now()
            self._rare = [*_families(found for one in self._store.features for found in one.totals())]
        last = self._last
        yield GaugeMetricFamily("heatlite_resources_unhealthy", "Resources that are CHECK_FAILED.", last.unhealthy)
        text = "Resources that the last check could not look at."
        yield GaugeMetricFamily("heatlite_resources_health_unknown", text, last.unknown)
        yield GaugeMetricFamily("heatlite_stacks_locked", "Stacks with a maintenance lock of their own.", last.locked)
        text = "Requests that a maintenance lock has refused, as listed with it."
        yield GaugeMetricFamily("heatlite_suppressed_requests", text, last.suppressed)
        yield from self._rare


def _families(gauges: Iterable[Gauge]) -> Iterator[Metric]:
    for gauge in gauges:
        family = GaugeMetricFamily(gauge.name, gauge.text, labels=gauge.labels)
        for labels, value in gauge.values.items():
            family.add_metric(labels, value)
        yield family


class _Handler(WSGIRequestHandler):
    """Answers one scrape, and logs none."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """Answers few scrapes at once, since each has a thread and a database connection."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)
        self._free = threading.BoundedSemaphore(MAX_SCRAPES)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread. Closes the connection if all threads are in use."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and end a connection that takes too long."""
        deadline = threading.Timer(SCRAPE_SECONDS, _end, (request,))
        deadline.daemon = True
        deadline.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the error of one connection."""
        log.debug("a scrape was not answered", exc_info=True)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # closed by now
        connection.shutdown(socket.SHUT_RDWR)


def serve(metrics: ProcessMetrics, host: str, port: int) -> Callable[[], None]:
    """Serve the metrics at a port, at any path.

    Returns a function that stops the server.
    Raises OSError if the port is not available.
    """
    server = make_server(host, port, make_wsgi_app(metrics.registry), _Server, _Handler)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
