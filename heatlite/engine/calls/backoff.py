"""Retries after transient failures: their number and their times.

The row's token keeps the progress of the retries beside the handler's answer, so it survives a crash.
"""

import secrets

from msgspec import Struct

from heatlite.core.json import JsonMap

JITTER = 2.0
"""Seconds of random delay at most, so that many retries do not coincide."""


def back_off(failed: int) -> float:
    """Return the seconds until the next attempt after `failed` attempts."""
    return 2.0**failed + JITTER * secrets.SystemRandom().random()


class Retry(Struct):
    """The attempts at one step."""

    attempts: int = 0
    """The number of attempts that have failed for transient reasons."""
    cleanup_before_retry: bool = False
    """Remove the remains of the failed attempt before the next one."""
    starts_at: float | None = None
    """The time of the next attempt: seconds since the epoch."""

    def to_json(self) -> JsonMap:
        """Return the part of the row's token that holds the retries."""
        token: JsonMap = {}
        if self.attempts:
            token["attempts"] = self.attempts
        if self.cleanup_before_retry:
            token["clears"] = True
        if self.starts_at is not None:
            token["starts_at"] = self.starts_at
        return token

    @classmethod
    def from_json(cls, token: JsonMap) -> "Retry":
        """Read the retries from a row's token."""
        attempts, starts_at = token.get("attempts"), token.get("starts_at")
        return cls(
            attempts if isinstance(attempts, int) else 0,
            token.get("clears") is True,
            starts_at if isinstance(starts_at, int | float) else None,
        )
