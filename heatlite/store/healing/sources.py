"""Sources of reports, and the tokens that open them."""

import hashlib
import json
from dataclasses import asdict

import peewee

from heatlite.core.json import dump
from heatlite.store.database.database import Database, Row
from heatlite.store.healing.records import HealthSourceRecord, HealthTokenRecord
from heatlite.store.tables.healing import HealthSource, HealthToken

_SOURCE = (
    HealthSource.project,
    HealthSource.name,
    HealthSource.document,
    HealthSource.last_report_at,
    HealthSource.storm_since,
    HealthSource.window_from,
    HealthSource.results,
)
_TOKEN = (
    HealthToken.id,
    HealthToken.project,
    HealthToken.name,
    HealthToken.digest,
    HealthToken.source,
    HealthToken.created_by,
    HealthToken.created_at,
    HealthToken.expires_at,
    HealthToken.last_used_at,
)


PREFIX = "hlh_"
"""Begin of each intake token."""


def token_digest(token: str) -> str:
    """Return the digest under which an intake token is stored."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


class HealthSources:
    """Sources by project and name.

    A source without a row has never reported and has its defaults.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, project: str, name: str) -> HealthSourceRecord | None:
        """Return a source; None without a row."""
        found = self._database.select(HealthSource.select(*_SOURCE).where(_is(project, name)))
        return _source(found[0]) if found else None

    def save(self, record: HealthSourceRecord) -> None:
        """Write a source, and add it if it is new."""
        changed = {
            "document": None if record.document is None else dump(record.document),
            "last_report_at": record.last_report_at,
            "storm_since": record.storm_since,
            "window_from": record.window_from,
            "results": dump(record.results),
        }
        row = {"project": record.project, "name": record.name, **changed}
        if self._database.change(HealthSource.insert(row).on_conflict_ignore()) == 0:
            self._database.change(HealthSource.update(changed).where(_is(record.project, record.name)))

    def set_storm(self, project: str, name: str, since: float | None) -> bool:
        """Begin or end the storm of a source. Returns False if another engine was faster."""
        self._database.change(HealthSource.insert(project=project, name=name).on_conflict_ignore())
        before = HealthSource.storm_since.is_null(since is not None)
        update = HealthSource.update(storm_since=since).where(_is(project, name) & before)
        return self._database.change(update) == 1

    def storms(self) -> list[HealthSourceRecord]:
        """Return the sources with a storm."""
        query = HealthSource.select(*_SOURCE).where(HealthSource.storm_since.is_null(False))
        return [_source(row) for row in self._database.select(query)]

    def delete(self, project: str, name: str) -> bool:
        """Remove a source. Returns whether it existed."""
        return self._database.change(HealthSource.delete().where(_is(project, name))) == 1


class HealthTokens:
    """Intake tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def insert(self, record: HealthTokenRecord) -> None:
        """Add a token."""
        self._database.change(HealthToken.insert(asdict(record)))

    def by_digest(self, digest: str) -> HealthTokenRecord | None:
        """Return the token with the digest, even an expired one."""
        found = self._database.select(HealthToken.select(*_TOKEN).where(HealthToken.digest == digest))
        return HealthTokenRecord(*found[0]) if found else None

    def list(self, project: str) -> list[HealthTokenRecord]:
        """Return the tokens of a project, oldest first."""
        query = HealthToken.select(*_TOKEN).where(HealthToken.project == project)
        rows = self._database.select(query.order_by(HealthToken.created_at, HealthToken.id))
        return [HealthTokenRecord(*row) for row in rows]

    def used(self, token_id: str, now: float) -> None:
        """Note the use of a token."""
        self._database.change(HealthToken.update(last_used_at=now).where(HealthToken.id == token_id))

    def delete(self, project: str, token_id: str) -> bool:
        """Remove a token of a project. Returns whether it existed."""
        mine = (HealthToken.project == project) & (HealthToken.id == token_id)
        return self._database.change(HealthToken.delete().where(mine)) == 1


def _is(project: str, name: str) -> peewee.ColumnBase:
    return (HealthSource.project == project) & (HealthSource.name == name)


def _source(row: Row) -> HealthSourceRecord:
    project, name, document, last_report_at, storm_since, window_from, results = row
    document = None if document is None else json.loads(document)
    return HealthSourceRecord(
        project, name, document, last_report_at, storm_since, window_from, tuple(json.loads(results))
    )
