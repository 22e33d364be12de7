"""Engines that report for work."""

from heatlite.store.database.database import Database
from heatlite.store.records import ServiceRecord
from heatlite.store.tables import Service


class Services:
    """The engines."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def heartbeat(self, record: ServiceRecord) -> None:
        """Note that an engine is alive; its first beat makes it known."""
        seen = Service.update(updated_at=record.updated_at).where(Service.id == record.id)
        if self._database.change(seen) == 0:
            row = {"host": record.host, "binary": record.binary, "created_at": record.created_at}
            self._database.change(Service.insert(id=record.id, updated_at=record.updated_at, **row))

    def remove(self, service_id: str) -> None:
        """An engine has stopped in good order."""
        self._database.change(Service.delete().where(Service.id == service_id))

    def silent_since(self, moment: float) -> "list[str]":
        """The ids of engines that have not reported since."""
        rows = self._database.select(Service.select(Service.id).where(Service.updated_at < moment))
        return [service_id for (service_id,) in rows]

    def list(self) -> list[ServiceRecord]:
        """Every engine that has reported and not left, the oldest first."""
        columns = (Service.id, Service.host, Service.binary, Service.created_at, Service.updated_at)
        rows = self._database.select(Service.select(*columns).order_by(Service.created_at, Service.id))
        return [ServiceRecord(*row) for row in rows]
