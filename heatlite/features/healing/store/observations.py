"""Observations: episodes of keys."""

import hashlib
from collections.abc import Iterable, Sequence, Set

from heatlite.core.json import canonical
from heatlite.features.healing.store.records import ObservationRecord
from heatlite.features.healing.store.tables import Observation
from heatlite.features.healing.terms import Word
from heatlite.store.database.sql import IN_LIMIT, chunks, marks
from heatlite.store.rows import Codec, Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table
from heatlite.store.writes.record_store import RecordStore


def open_key(*parts: str) -> str:
    """Return the digest that keeps one open row for the parts."""
    return hashlib.sha256(canonical(parts).encode()).hexdigest()


def _open_key(record: ObservationRecord) -> str | None:
    return open_key(record.project, record.source, record.key) if record.is_open else None


class _IsOpen(dict[str | None, bool]):
    """False for no key."""

    def __missing__(self, key: str | None) -> bool:
        return key is not None


_ROWS = Rows(
    ObservationRecord,
    Observation,
    names={"is_open": "open_key"},
    codecs={"is_open": Codec(words=_IsOpen())},
    computed={"open_key": _open_key},
)


class Observations(RecordStore[ObservationRecord]):
    """Observations. Each method is one statement, or one per `IN_LIMIT` rows."""

    def __init__(self, encryption: FieldEncryption) -> None:
        fixed = ("project", "source", "key", "starts_at", "first_seen")
        super().__init__(encryption, Table(encryption, _ROWS, fixed=fixed))

    def open(self, project: str, source: str, keys: Iterable[str]) -> dict[str, ObservationRecord]:
        """Return the open episodes of the keys, by key."""
        digests = [open_key(project, source, key) for key in dict.fromkeys(keys)]
        return {record.key: record for record in self._table.select_in("WHERE open_key IN ()", digests)}

    def lock(self, records: Iterable[ObservationRecord]) -> list[ObservationRecord]:
        """Return those episodes that still exist as they are now, locked.

        The locks last until the transaction ends. They are taken in the order of the ids, so that no two transactions
        wait for each other.
        """
        for_update = self._database.backend.for_update
        found: list[ObservationRecord] = []
        for some in chunks(sorted({one.id for one in records})):
            found += self._table.send_select(f"WHERE id IN ({marks(some)}) ORDER BY id{for_update}", some)()
        return found

    def open_of_incident(self, incident_id: str) -> list[ObservationRecord]:
        """Return the open episodes of an incident."""
        rest = "WHERE incident_id = ? AND open_key IS NOT NULL"
        return self._table.select(rest, (incident_id,))

    def open_with_prefix(self, project: str, source: str, prefix: str) -> list[ObservationRecord]:
        """Return the open episodes of the keys that begin with a text."""
        column = self._database.quote("key")
        rest = f"WHERE project = ? AND source = ? AND open_key IS NOT NULL AND substr({column}, 1, ?) = ?"
        return self._table.select(rest, (project, source, len(prefix), prefix))

    def at(self, project: str, source: str, episodes: Set[tuple[str, float]]) -> list[ObservationRecord]:
        """Return the known ones of some episodes, each given as its key and start."""
        found: list[ObservationRecord] = []
        column = self._database.quote("key")
        for some in chunks([*episodes], IN_LIMIT // 2):
            keys, starts = zip(*some, strict=True)
            which = f"{column} IN ({marks(keys)}) AND starts_at IN ({marks(starts)})"
            rest = f"WHERE project = ? AND source = ? AND {which}"
            found += self._table.select(rest, (project, source, *keys, *starts))
        return [one for one in found if (one.key, one.starts_at) in episodes]

    def of_incident(self, incident_id: str, limit: int) -> list[ObservationRecord]:
        """Return the newest episodes of an incident, earliest first."""
        rest = "WHERE incident_id = ? ORDER BY first_seen DESC, id DESC LIMIT ?"
        return self._table.select(rest, (incident_id, limit))[::-1]

    def standing(self, incident_ids: Sequence[str]) -> dict[str, bool]:
        """Return the incidents with episodes: True if one is open.

        It stands while its source is blind: that it does not see the target is no recovery.
        """
        stands = "MAX(CASE WHEN open_key IS NOT NULL THEN 1 ELSE 0 END)"
        sql = f"SELECT incident_id, {stands} FROM observation WHERE incident_id IN () GROUP BY incident_id"
        return {incident_id: bool(stands) for incident_id, stands in self._database.read_in(sql, incident_ids)}

    def mute(self, incident_id: str, physical_id: str) -> None:
        """Mute the open episodes of an incident for an object."""
        sql = "UPDATE observation SET muted_for = ? WHERE incident_id = ? AND open_key IS NOT NULL"
        self._database.write(sql, (physical_id, incident_id))

    def blind_paths(self, project: str, source: str, root_id: str) -> frozenset[str]:
        """Return the paths of a tree at which the source cannot see.

        "" is that of an episode without a target.
        """
        sql = (
            "SELECT DISTINCT path FROM observation WHERE project = ? AND source = ? AND word = ?"
            " AND open_key IS NOT NULL AND (path = '' OR root_id = ?)"
        )
        return frozenset(path for (path,) in self._database.read(sql, (project, source, str(Word.BLIND), root_id)))

    def blind_since(self, project: str, source: str) -> float | None:
        """Return the time from which a source sees no target; None: it sees."""
        sql = (
            "SELECT MIN(first_seen) FROM observation WHERE project = ? AND source = ? AND word = ?"
            " AND open_key IS NOT NULL AND path = ''"
        )
        ((since,),) = self._database.read(sql, (project, source, str(Word.BLIND)))
        return None if since is None else float(since)

    def count(self, project: str) -> tuple[int, int]:
        """Return the numbers of open and of all episodes of a project."""
        sql = "SELECT COUNT(open_key), COUNT(*) FROM observation WHERE project = ?"
        ((is_open, every),) = self._database.read(sql, (project,))
        return int(is_open), int(every)

    def oldest_ended(self, project: str, limit: int) -> list[str]:
        """Return the ids of the episodes of a project that ended first."""
        sql = "SELECT id FROM observation WHERE project = ? AND ended_at IS NOT NULL ORDER BY ended_at LIMIT ?"
        return [number for (number,) in self._database.read(sql, (project, limit))]

    def older_than(self, moment: float, limit: int) -> list[str]:
        """Return the ids of episodes that ended before a moment."""
        sql = "SELECT id FROM observation WHERE ended_at < ? ORDER BY ended_at LIMIT ?"
        return [number for (number,) in self._database.read(sql, (moment, limit))]

    def left_by_incidents(self, moment: float, limit: int) -> list[str]:
        """Return the ids of episodes of incidents that were closed before a moment.

        Those with a report since then stay. Others may be open: their end was never reported.
        """
        sql = (
            "SELECT o.id FROM incident i JOIN observation o ON o.incident_id = i.id"
            " WHERE i.closed_at < ? AND o.last_seen < ? ORDER BY i.closed_at LIMIT ?"
        )
        return [number for (number,) in self._database.read(sql, (moment, moment, limit))]
