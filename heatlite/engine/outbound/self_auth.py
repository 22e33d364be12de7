"""Service token for requests of this installation to itself.

`OS::Heat::Stack` without a region sends them. They need no account, and no caller's token, which may have expired.
"""

from typing import Final

from heatlite.core.clock import Clock
from heatlite.store.secrets.cipher import Cipher

HEADER: Final = "X-Heatlite-Self"
LIFETIME: Final = 300
"""Validity of a token in seconds; clocks of several machines may differ."""


class SelfAuth:
    """Signs and verifies requests for a project with the installation's keys."""

    def __init__(self, cipher: Cipher, clock: Clock) -> None:
        self._cipher = cipher
        self._clock = clock

    def headers(self, project: str) -> dict[str, str]:
        """Return the header of such a request."""
        until = str(int(self._clock.now()) + LIFETIME)
        return {HEADER: f"{until}:{self._cipher.sign(_text(project, until))}"}

    def verify(self, project: str, claim: str) -> bool:
        """True if the header proves a request of this installation."""
        until, _, signature = claim.partition(":")
        fresh = until.isdecimal() and len(until) < 12 and self._clock.now() < int(until)
        return fresh and self._cipher.verify(_text(project, until), signature)


def _text(project: str, until: str) -> str:
    return f"request of heatlite to itself\n{until}\n{project}"
