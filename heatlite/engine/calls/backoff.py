"""Retries after transient failures: their number and their times.

The row's token keeps the progress of the retries beside the handler's answer, so it survives a crash.
"""

import secrets

from msgspec import Struct, field

JITTER = 2.0
"""Seconds of random delay at most, so that many retries do not coincide."""


def back_off(failed: int) -> float:
    """Return the seconds until the next attempt after `failed` attempts."""
    return 2.0**failed + JITTER * secrets.SystemRandom().random()


class Retry(Struct, omit_defaults=True):
    """The attempts at one step, as the row's token has them."""

    attempts: int = 0
    """The number of attempts that have failed for transient reasons."""
    cleanup_before_retry: bool = field(default=False, name="clears")
    """Remove the remains of the failed attempt before the next one."""
    starts_at: int | float | None = None
    """The time of the next attempt: seconds since the epoch."""
