"""The registry of running engines."""

from collections.abc import Sequence

from heatlite.store.database.database import Database
from heatlite.store.database.limits import MAX_LEASE
from heatlite.store.records import ServiceRecord
from heatlite.store.rows import Rows
from heatlite.store.tables.actions import Service

_ROWS = Rows(ServiceRecord, Service)


class Services:
    """Engines that report by heartbeat."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def heartbeat(self, record: ServiceRecord) -> None:
        """Record an engine's heartbeat, and what it runs now; the first one adds it."""
        cells = _ROWS.cells(record)
        if self._database.change(Service.update(cells).where(Service.id == record.id)) == 0:
            self._database.change(Service.insert(cells))

    def remove(self, service_ids: Sequence[str]) -> None:
        """Remove engines that have stopped."""
        self._database.change(Service.delete().where(Service.id.in_(service_ids)))

    def silent_since(self, moment: float) -> "list[str]":
        """Return the ids of engines without a heartbeat since a moment."""
        rows = self._database.select(Service.select(Service.id).where(Service.updated_at < moment))
        return [service_id for (service_id,) in rows]

    def list(self) -> list[ServiceRecord]:
        """Return all engines, oldest first."""
        query = Service.select(*_ROWS.selected()).order_by(Service.created_at, Service.id)
        return _ROWS.records(self._database.select(query))

    def end_frozen_clients(self, lease: float) -> None:
        """End the connections whose clients froze in a statement longer than a lease ago."""
        if sql := self._database.backend.end_frozen_clients:
            self._database.read(sql, (min(lease, MAX_LEASE),))
