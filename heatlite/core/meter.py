"""Interface of counters and timers. Only `heatlite.metrics` knows Prometheus."""

from collections.abc import Mapping

from heatlite.core.status import ActionStatus, Verb


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

    def reports_taken(self, form: str, counts: Mapping[str, int]) -> None:
        """Count the reports of a request by result. `form`: the format of the source."""

    def repair_ended(self, step: str, result: str, seconds: float) -> None:
        """Count a repair of a member that has ended."""

    def committed(self) -> None:
        """Count a written transaction."""

    def database_unavailable(self) -> None:
        """Count an access that failed because the database is unavailable."""

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return b""
