"""Interface of counters and timers. Only `heatlite.api.metrics` knows Prometheus."""

from collections.abc import Mapping

from msgspec import Struct

from heatlite.core.status import ActionStatus, Verb

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Variable with the folder through which processes share their counts.

prometheus_client reads it when it is imported.
"""


class Count(Struct, frozen=True):
    """Counter of a feature."""

    name: str
    text: str
    labels: tuple[str, ...]
    series: tuple[tuple[str, ...], ...] = ()
    """Labels of the series that begin with 0: an increase from 0 has to be seen."""


class Durations(Struct, frozen=True):
    """Histogram of a feature: durations up to hours."""

    name: str
    text: str
    labels: tuple[str, ...]


class Gauge(Struct, frozen=True):
    """Present numbers of a feature."""

    name: str
    text: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]
    """Numbers by labels."""


class Meter:
    """Counts nothing: used without metrics.

    All methods may be called from any thread. Durations are in seconds.
    """

    def request_answered(self, method: str, route: str, code: int, seconds: float) -> None:
        """Count an answered request, or the head of an event stream.

        `route` is a template of the route table; "" for none.
        """

    def signal_ignored(self, reason: str) -> None:
        """Count a signal without effect."""

    def action_begun(self, verb: Verb, waited: float) -> None:
        """Count an action that a worker has claimed for the first time."""

    def attempt_ended(self, verb: Verb, seconds: float) -> None:
        """Count an attempt that has ended or released its action."""

    def action_ended(self, verb: Verb, status: ActionStatus) -> None:
        """Count an ended action."""

    def handler_called(self, type_name: str, verb: Verb, seconds: float) -> None:
        """Count a call of a handler, or of its check, that returned or raised.

        Nested stacks do not count.
        """

    def declare(self, *metrics: Count | Durations) -> None:
        """Show metrics of a feature from now on."""

    def count(self, metric: Count, *labels: str, number: int = 1) -> None:
        """Add to a declared counter."""

    def observe(self, metric: Durations, *labels: str, seconds: float) -> None:
        """Add a duration to a declared histogram."""

    def committed(self) -> None:
        """Count a written transaction."""

    def database_unavailable(self) -> None:
        """Count an access that failed because the database is unavailable."""

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return b""
