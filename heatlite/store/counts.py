"""Counts over all projects, for metrics."""

from msgspec import Struct

from heatlite.store.database.database import Database
from heatlite.store.tables.health import IS_UNHEALTHY, IS_UNKNOWN, MAY_BE_UNWELL


class Totals(Struct, frozen=True):
    """Counts of rows that tell what an operator has to look at."""

    unhealthy: int
    """Resources that are CHECK_FAILED."""
    unknown: int
    """Resources that the last check could not look at."""
    locked: int
    """Stacks with a lock of their own."""
    suppressed: int
    """Requests that locks have refused and that are listed."""


class Counts:
    """Counts. Reads whole tables, so it is not for requests."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def totals(self) -> Totals:
        """Return the counts."""
        unwell = f"SELECT COUNT(*) FROM {self._database.quote('resource')} item WHERE {MAY_BE_UNWELL}"
        locked = f"SELECT COUNT(*) FROM {self._database.quote('stack')} WHERE locked_at IS NOT NULL"
        return Totals(
            self._number(f"{unwell} AND {IS_UNHEALTHY}"),
            self._number(f"{unwell} AND {IS_UNKNOWN}"),
            self._number(locked),
            self._number("SELECT COALESCE(SUM(times), 0) FROM suppressed"),
        )

    def _number(self, sql: str) -> int:
        ((number,),) = self._database.read(sql)
        return int(number)
