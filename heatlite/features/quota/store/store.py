"""The store of reservations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import peewee
from msgspec import convert

from heatlite.core.config import Settings
from heatlite.core.json import parse
from heatlite.core.runtime.meter import Gauge
from heatlite.features.quota.store.records import Reservation
from heatlite.features.quota.store.tables import QuotaRelease, QuotaReservation
from heatlite.store.actions.table import LIVE
from heatlite.store.database.sql import chunks, marks
from heatlite.store.feature_store import ConsistencyRule, FeatureStore, OldRows, Series
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import ProjectValues

if TYPE_CHECKING:
    from heatlite.store.store import Store

KEPT_SECONDS = 7200
"""Age of releases that are removed. No limits are remembered for as long."""

_ROWS = Rows(Reservation, QuotaReservation)
_ALIVE = f"EXISTS (SELECT 1 FROM action WHERE action.id = action_id AND {LIVE})"


def lock_place(store: "Store", place: str) -> None:
    """Lock a project of a cloud until the transaction ends."""
    store.limit_locks.take(f"quota of {place}")


class QuotaStore(FeatureStore):
    """Reservations of actions."""

    tables = (QuotaReservation, QuotaRelease)
    series = Series("quota", Path(__file__).parent)
    rules = (
        ConsistencyRule(
            "a reservation is of an action that has not ended",
            "quota_reservation",
            f"SELECT action_id, holder FROM quota_reservation WHERE NOT {_ALIVE}",
        ),
    )

    def __init__(self, encryption: FieldEncryption, project_values: ProjectValues) -> None:
        super().__init__(encryption, project_values)
        self._table = Table(encryption, _ROWS, key="action_id")

    def insert(self, record: Reservation) -> None:
        """Add the reservation of an action."""
        self.database.change(QuotaReservation.insert(_ROWS.cells(record)))

    def release(self, action_id: str, failed: bool, now: float, lock: Callable[[str], None]) -> None:
        """Remove the reservation of an action, if it has one, and note that.

        `lock` locks the place of the reservation, so that releases become visible in their order. A release without
        amounts says that limits are to be read again: of an action that changes them, or has `failed`, perhaps at one.
        """
        sql = "SELECT place, amounts FROM quota_reservation WHERE action_id = ?"
        for place, amounts in self.database.read(sql, (action_id,)):
            lock(str(place))
            self.database.change(QuotaReservation.delete().where(QuotaReservation.action_id == action_id))
            last = self.last_release(str(place))
            old = "DELETE FROM quota_release WHERE place = ? AND released_at < ? AND id < ?"
            self.database.write(old, (place, now - KEPT_SECONDS, last))
            # The last one has stayed: a database may use the highest number again.
            for one in (amounts, "{}") if failed else (amounts,):
                self.database.change(QuotaRelease.insert(place=place, amounts=one, released_at=now))

    def last_release(self, place: str) -> int:
        """Return the number of the last release in a project of a cloud; 0 without one."""
        ((number,),) = self.database.read("SELECT MAX(id) FROM quota_release WHERE place = ?", (place,))
        return number if isinstance(number, int) else 0

    def released(self, place: str, after: int) -> list[Mapping[str, int]]:
        """Return the amounts of releases after one, by its number."""
        sql = "SELECT amounts FROM quota_release WHERE place = ? AND id > ?"
        return [convert(parse(str(one)), dict[str, int]) for (one,) in self.database.read(sql, (place, after))]

    def open(self, place: str) -> list[Reservation]:
        """Return the reservations of live actions in a project of a cloud.

        For a decision lock the place first, in the same transaction.
        """
        return self._table.select(f"WHERE place = ? AND {_ALIVE} ORDER BY action_id", (place,))

    def made(self, reservations: Sequence[Reservation]) -> Mapping[str, frozenset[str]]:
        """Return the paths of parts that have an object, by action."""
        if not reservations:
            return {}
        within = self._stacks([one.root_id for one in reservations])
        rows = self._objects([*within])
        return {one.action_id: frozenset(_made(one, within, rows)) for one in reservations}

    def _stacks(self, root_ids: Sequence[str]) -> dict[str, tuple[str | None, str]]:
        """Return the parents of the stacks in some trees.

        With each is the name of the resource that stands for the stack there.
        """
        found: dict[str, tuple[str | None, str]] = {}
        for some in chunks(sorted(set(root_ids))):
            within = marks(some)
            sql = f"SELECT id, parent_id, parent_resource FROM stack WHERE id IN ({within}) OR root_id IN ({within})"
            for key, parent, name in self.database.read(sql, (*some, *some)):
                found[str(key)] = (None if parent is None else str(parent), str(name or ""))
        return found

    def _objects(self, stack_ids: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
        """Return the names and ids of the rows that have an object, by stack."""
        found: dict[str, list[tuple[str, str]]] = {}
        resource = self.database.quote("resource")
        sql = f"SELECT stack_id, name, id FROM {resource} WHERE stack_id IN () AND physical_id IS NOT NULL"
        for stack, name, key in self.database.read_in(sql, stack_ids):
            found.setdefault(str(stack), []).append((str(name), str(key)))
        return found

    def old_rows(self, settings: Settings, now: float, limit: int) -> Iterator[OldRows]:
        # Of actions that ended while the feature was off.
        sql = f"SELECT action_id FROM quota_reservation WHERE NOT {_ALIVE} ORDER BY action_id LIMIT ?"
        yield self._table.delete, [str(key) for (key,) in self.database.read(sql, (limit,))]

    def gauges(self) -> Iterator[Gauge]:
        query = QuotaReservation.select(peewee.fn.COUNT(QuotaReservation.action_id))
        ((count,),) = self.database.select(query)
        text = "Actions that have reserved room in quotas of the cloud."
        yield Gauge("heatlite_quota_reservations", text, (), {(): float(count)})


def _made(
    one: Reservation,
    parents: Mapping[str, tuple[str | None, str]],
    rows: Mapping[str, Sequence[tuple[str, str]]],
) -> Iterator[str]:
    """Yield the paths of a reservation's parts that have an object."""
    former = {path: row_id for part in one.parts for path, row_id in part.paths.items()}
    for stack_id, objects in rows.items():
        names: list[str] = []
        at: str | None = stack_id
        while at is not None and at != one.stack_id:
            at, name = parents.get(at, (None, ""))
            names.append(name)
        if at is None:
            continue  # beside the stack of the action
        for name, row_id in objects:
            path = "/".join((*reversed(names), name))
            if path in former and former[path] != row_id:
                yield path
