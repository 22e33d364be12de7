"""Intake tokens: credentials of monitoring systems that may only report."""

from collections.abc import Mapping

from heatlite.api.access.basic_header import credentials
from heatlite.api.request import Request
from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import HTTPForbidden, Unauthorized
from heatlite.features.healing.api.rules import REPORT
from heatlite.features.healing.store.sources import PREFIX, token_digest
from heatlite.features.healing.store.store import HealingStore
from heatlite.store.store import Store

NOTE_USE = 60.0
"""Seconds within which the use of a token is noted once."""


class IntakeTokenAccess:
    """Admits requests with an intake token as Bearer, or as the password of Basic."""

    challenge = 'Bearer realm="heatlite"'

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._rows = store.of(HealingStore)
        self._clock = clock

    def caller(self, req: Request, project: str, named: Mapping[str, str]) -> Context | None:
        """Return the caller of a request with an intake token, else None.

        Raises Unauthorized for an unknown or expired one, and HTTPForbidden for that of another project or source.
        """
        header = req.env.get("HTTP_AUTHORIZATION", "")
        scheme, _, given = header.partition(" ")
        token = given.strip() if scheme.lower() == "bearer" else credentials(header)[1].decode(errors="replace")
        if not token.startswith(PREFIX):
            return None
        found, now = self._rows.tokens.by_digest(token_digest(token)), self._clock.now()
        if found is None or found.expires_at is not None and found.expires_at <= now:
            raise Unauthorized(challenge=self.challenge)
        if found.project != project:
            raise HTTPForbidden(project=project)
        if found.source is not None and named.get("source", found.source) != found.source:
            raise HTTPForbidden(f"The intake token {found.name} may only report to the source {found.source}.")
        if now - (found.last_used_at or 0.0) >= NOTE_USE:
            with self._store.transaction():
                self._rows.tokens.used(found.id, now)
        user = f"intake token {found.name}"
        return Context(project, user, request_id=req.request_id, may=lambda rule: rule == REPORT, queued=req.queued)
