"""Reports of monitoring, such as alerts of Alertmanager: sources and tokens."""

import re
import secrets
from http import HTTPStatus
from typing import Annotated

from falcon import Response
from msgspec import Meta

from heatlite.api.request import Request
from heatlite.api.wire import bodies
from heatlite.core.clock import Clock, to_text
from heatlite.core.errors import EntityNotFound, HTTPBadRequest, RequestLimitExceeded
from heatlite.core.ids import new_id
from heatlite.core.json import AnyMap, JsonMap, whole_numbers
from heatlite.core.wire.base import Body, Time
from heatlite.features.healing.api.cloud_events import reports_of
from heatlite.features.healing.api.views import taken
from heatlite.features.healing.intake.formats import time_of
from heatlite.features.healing.intake.intake import Intake
from heatlite.features.healing.store.records import HealthTokenRecord
from heatlite.features.healing.store.sources import PREFIX, token_digest
from heatlite.features.healing.store.store import HealingStore
from heatlite.store.store import Store

TOKEN_BYTES = 20
MAX_TOKENS = 100
"""Intake tokens of a project."""
SOURCE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class NewToken(Body, frozen=True):
    """A new intake token."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    """Name of the token, for people."""
    source: Annotated[str, Meta(max_length=64)] | None = None
    """The only source that it opens; default: all sources of the project."""
    expires_at: Time | None = None
    """Time from which it is refused: ISO 8601, in the future; default: never."""


class Sources:
    """P/health/{source} and below."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def on_post(self, req: Request, resp: Response, source: str) -> None:
        """Take the reports of a monitoring system. Only a 503 asks for a retry."""
        resp.media = taken(self._intake.take(req.caller, source, reports_of(req)))

    on_put = on_post

    def on_get(self, req: Request, resp: Response, source: str) -> None:
        """Show a source and its last results."""
        record, document = self._intake.document(req.caller.project, source)
        resp.media = {
            "source": {
                "name": source,
                "format": document.format,
                "document": record.document,
                "last_report_at": to_text(record.last_report_at),
                "storm_since": to_text(record.storm_since),
                "blind_since": to_text(self._intake.blind_since(req.caller.project, source)),
                "results": list(record.results),
            }
        }

    def on_put_config(self, req: Request, resp: Response, source: str) -> None:
        """Replace the document of a source."""
        _check_name(source)
        self._intake.configure(req.caller.project, source, whole_numbers(bodies.checked(req, AnyMap)))
        self.on_get(req, resp, source)

    def on_delete_config(self, req: Request, resp: Response, source: str) -> None:
        """Return a source to its defaults, or remove it if its name has none."""
        self._intake.configure(req.caller.project, source, None)
        resp.status = HTTPStatus.NO_CONTENT

    def on_post_acknowledge(self, req: Request, resp: Response, source: str) -> None:
        """End the storm of a source."""
        self._intake.acknowledge(req.caller.project, source)
        resp.status = HTTPStatus.NO_CONTENT


class IntakeTokens:
    """P/health_tokens and below."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._rows = store.of(HealingStore)
        self._clock = clock

    def on_get(self, req: Request, resp: Response) -> None:
        """List the intake tokens of the project."""
        resp.media = {"health_tokens": [_token(one) for one in self._rows.tokens.list(req.caller.project)]}

    def on_post(self, req: Request, resp: Response) -> None:
        """Create an intake token. Only this answer has the token itself."""
        given, now = bodies.checked(req, NewToken), self._clock.now()
        expires_at = None if given.expires_at is None else time_of(given.expires_at)
        if given.source is not None:
            _check_name(given.source)
        if expires_at is not None and expires_at <= now:
            raise HTTPBadRequest(
                f"'expires_at' is {to_text(expires_at)}, which is not in the future. Give a later time, or none for a"
                " token that does not expire."
            )
        token = PREFIX + secrets.token_hex(TOKEN_BYTES)
        record = HealthTokenRecord(
            new_id(),
            req.caller.project,
            given.name,
            token_digest(token),
            given.source,
            req.caller.user or "",
            now,
            expires_at,
        )
        req.concerns(target=record.id)
        with self._store.transaction():
            self._store.limit_locks.take(f"intake tokens of {req.caller.project}")
            if self._rows.tokens.count(req.caller.project) >= MAX_TOKENS:
                raise RequestLimitExceeded(message=f"the project has {MAX_TOKENS} intake tokens. Delete one first.")
            self._rows.tokens.insert(record)
        resp.status = HTTPStatus.CREATED
        resp.media = {"health_token": {**_token(record), "token": token}}

    def on_delete_one(self, req: Request, resp: Response, token_id: str) -> None:
        """Delete an intake token."""
        with self._store.transaction():
            if not self._rows.tokens.delete(req.caller.project, token_id):
                raise EntityNotFound(entity="Health token", name=token_id)
        resp.status = HTTPStatus.NO_CONTENT


def _check_name(source: str) -> None:
    if SOURCE_NAME.fullmatch(source) is None:
        raise HTTPBadRequest("The name of a source has 1 to 64 small letters, digits, - and _.")


def _token(record: HealthTokenRecord) -> JsonMap:
    return {
        "id": record.id,
        "name": record.name,
        "source": record.source,
        "created_by": record.created_by,
        "created_at": to_text(record.created_at),
        "expires_at": to_text(record.expires_at),
        "last_used_at": to_text(record.last_used_at),
    }
