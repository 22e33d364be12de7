"""Counters and timers, as interfaces for the code that reports to them.

Only `heatlite.metrics` knows Prometheus.
"""

from heatlite.core.status import ActionStatus, Verb


class Meter:
    """Counts nothing: used where no metrics are configured.

    All methods may be called from any thread.

    Durations are in seconds.
    """

    def request_answered(self, method: str, route: str, code: int, seconds: float) -> None:
        """A request got its answer, or the head of a stream.

        `route` is a template of the route table; "" for none.
        """

    def action_begun(self, verb: Verb, waited: float) -> None:
        """A worker has taken an action for the first time."""

    def attempt_ended(self, verb: Verb, seconds: float) -> None:
        """A worker has let go of an action, or brought it to its end."""

    def action_ended(self, verb: Verb, status: ActionStatus) -> None:
        """An action is over."""

    def handler_called(self, type_name: str, verb: Verb, seconds: float) -> None:
        """A type's handler, or one question of its check, has returned or raised.

        Not called for nested stacks.
        """

    def committed(self) -> None:
        """A transaction was written."""

    def database_unavailable(self) -> None:
        """The database did not take something now."""

    def text(self) -> bytes:
        """Everything so far, and how things stand, in Prometheus' text format."""
        return b""
