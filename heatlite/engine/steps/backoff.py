"""What is tried again because the reason of its failure may pass: how often, and when (heat-engine §5, §9).

How far the attempts have come is in the row's token, beside what the handler keeps there: a crash starts nothing anew.
"""

import secrets

from heatlite.core.json import JsonMap
from heatlite.engine.steps.step import Work

JITTER = 2.0
"""Seconds that chance adds to a back-off at the most, so that many do not come back at the same moment."""


def back_off(failed: int) -> float:
    """Seconds until the next attempt after so many that have failed."""
    return 2.0**failed + JITTER * secrets.SystemRandom().random()


def kept(work: Work) -> JsonMap:
    """What the row's token says of the attempts."""
    token: JsonMap = {}
    if work.attempts:
        token["attempts"] = work.attempts
    if work.clears:
        token["clears"] = True
    if work.waits:
        token["starts_at"] = work.starts_at
    return token


def take_up(work: Work, token: JsonMap) -> None:
    """Go on where the token says."""
    attempts, starts_at = token.get("attempts"), token.get("starts_at")
    work.attempts = attempts if isinstance(attempts, int) else 0
    work.clears = token.get("clears") is True
    work.starts_at = starts_at if isinstance(starts_at, int | float) else None
    if "token" in token:
        work.token, work.handled = token["token"], True
