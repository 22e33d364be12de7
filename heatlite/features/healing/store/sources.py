"""Sources of reports, and the tokens that open them."""

import hashlib
from collections.abc import Sequence

import peewee

from heatlite.core.json import JsonMap, dump, parse
from heatlite.features.healing.store.records import HealthSourceRecord, HealthTokenRecord
from heatlite.features.healing.store.tables import HealthSource, HealthToken
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Value
from heatlite.store.rows import Rows

_SOURCES = Rows(HealthSourceRecord, HealthSource)
_TOKENS = Rows(HealthTokenRecord, HealthToken)


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
        columns = self._database.quote(*_SOURCES.columns)  # written out: each request of a source reads it
        sql = f"SELECT {columns} FROM health_source WHERE project = ? AND name = ?"
        return next(iter(_SOURCES.records(self._database.read(sql, (project, name)))), None)

    def reported(self, project: str, name: str, now: float, results: Sequence[JsonMap], most: int) -> None:
        """Note a request, and keep its results; at most so many of all.

        The same result of a key is kept once.
        """
        if not results:
            sql = "UPDATE health_source SET last_report_at = ? WHERE project = ? AND name = ?"
            if self._database.write(sql, (now, project, name)):
                return
        # It locks the row, so that no results of a report at the same time are lost.
        self._put(project, name, last_report_at=now)
        current = self.get(project, name)
        known = [] if current is None else current.results
        by_key = {(str(one["key"]), str(one["result"])): one for one in (*known, *results)}
        kept = dump(sorted(by_key.values(), key=lambda one: str(one["time"]))[-most:])
        self._database.change(HealthSource.update(results=kept).where(_is(project, name)))

    def put_document(self, project: str, name: str, document: JsonMap | None) -> None:
        """Replace the document of a source, and add the source if it is new."""
        self._put(project, name, document=None if document is None else dump(document))

    def acknowledge(self, project: str, name: str, now: float) -> None:
        """End the storm of a source, if there is one; its window counts anew."""
        self._put(project, name, storm_since=None, window_from=now)

    def _put(self, project: str, name: str, **changes: Value) -> None:
        """Write fields of a source, and add it if it is new.

        Another request may write other fields at the same time.
        """
        row = _SOURCES.cells(HealthSourceRecord(project, name)) | changes
        self._database.upsert("health_source", row, ["project", "name"], [*changes])

    def count(self, project: str) -> int:
        """Return the number of sources with a row."""
        ((number,),) = self._database.select(
            HealthSource.select(peewee.fn.COUNT(HealthSource.name)).where(HealthSource.project == project)
        )
        return int(number)

    def begin_storm(self, project: str, name: str, now: float) -> bool:
        """Begin the storm of a source. Returns False if another engine was faster."""
        self._database.change(HealthSource.insert(project=project, name=name).on_conflict_ignore())
        calm = _is(project, name) & HealthSource.storm_since.is_null()
        return self._database.change(HealthSource.update(storm_since=now).where(calm)) == 1

    def end_storm(self, project: str, name: str, now: float) -> bool:
        """End the storm of a source; its window counts anew.

        Returns False if another engine was faster.
        """
        stormy = _is(project, name) & HealthSource.storm_since.is_null(False)
        return self._database.change(HealthSource.update(storm_since=None, window_from=now).where(stormy)) == 1

    def storms(self) -> list[HealthSourceRecord]:
        """Return the sources with a storm."""
        query = HealthSource.select(*_SOURCES.selected()).where(HealthSource.storm_since.is_null(False))
        return _SOURCES.records(self._database.select(query))

    def last_reports(self) -> dict[str, float]:
        """Return the time of the last request by format."""
        found: dict[str, float] = {}
        query = HealthSource.select(HealthSource.name, HealthSource.document, HealthSource.last_report_at)
        for name, document, at in self._database.select(query.where(HealthSource.last_report_at.is_null(False))):
            form = name if document is None else str(parse(document)["format"])
            found[form] = max(found.get(form, 0.0), at)
        return found

    def delete(self, project: str, name: str) -> bool:
        """Remove a source. Returns whether it existed."""
        return self._database.change(HealthSource.delete().where(_is(project, name))) == 1


class HealthTokens:
    """Intake tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def insert(self, record: HealthTokenRecord) -> None:
        """Add a token."""
        self._database.change(HealthToken.insert(_TOKENS.cells(record)))

    def by_digest(self, digest: str) -> HealthTokenRecord | None:
        """Return the token with the digest, even an expired one."""
        query = HealthToken.select(*_TOKENS.selected()).where(HealthToken.digest == digest)
        return next(iter(_TOKENS.records(self._database.select(query))), None)

    def list(self, project: str) -> list[HealthTokenRecord]:
        """Return the tokens of a project, oldest first."""
        query = HealthToken.select(*_TOKENS.selected()).where(HealthToken.project == project)
        ordered = query.order_by(HealthToken.created_at, HealthToken.id)
        return _TOKENS.records(self._database.select(ordered))

    def count(self, project: str) -> int:
        """Return the number of tokens of a project."""
        ((number,),) = self._database.select(
            HealthToken.select(peewee.fn.COUNT(HealthToken.id)).where(HealthToken.project == project)
        )
        return int(number)

    def used(self, token_id: str, now: float) -> None:
        """Note the use of a token."""
        self._database.change(HealthToken.update(last_used_at=now).where(HealthToken.id == token_id))

    def delete(self, project: str, token_id: str) -> bool:
        """Remove a token of a project. Returns whether it existed."""
        mine = (HealthToken.project == project) & (HealthToken.id == token_id)
        return self._database.change(HealthToken.delete().where(mine)) == 1


def _is(project: str, name: str) -> peewee.ColumnBase:
    return (HealthSource.project == project) & (HealthSource.name == name)
