"""Requests of this installation to itself: a stack that a template puts beside its own (`OS::Heat::Stack`, no region).

Where callers are asked who they are, these need no account, and nobody's token, which may have ended by then.
"""

from typing import Final

from heatlite.core.clock import Clock
from heatlite.store.secrets.cipher import Cipher

HEADER: Final = "X-Heatlite-Self"
LIFETIME: Final = 300
"""Seconds that a proof is good for: clocks of several machines may differ."""


class Ourselves:
    """Proves to all that have the same keys that a request for a project comes from one of them."""

    def __init__(self, cipher: Cipher, clock: Clock) -> None:
        self._cipher = cipher
        self._clock = clock

    def headers(self, project: str) -> dict[str, str]:
        """What such a request carries."""
        until = str(int(self._clock.now()) + LIFETIME)
        return {HEADER: f"{until}:{self._cipher.sign(_text(project, until))}"}

    def sent(self, project: str, claim: str) -> bool:
        """Whether a request with this header is one."""
        until, _, signature = claim.partition(":")
        fresh = until.isdecimal() and len(until) < 12 and self._clock.now() < int(until)
        return fresh and self._cipher.verify(_text(project, until), signature)


def _text(project: str, until: str) -> str:
    return f"request of heatlite to itself\n{until}\n{project}"
