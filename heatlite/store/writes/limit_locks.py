"""Locks of limits: transactions that count and then insert follow each other.

Without one, clients at once each count the rows before any of them inserts, and together exceed the limit.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from heatlite.store.database.database import Database
from heatlite.store.database.sql import marks
from heatlite.store.tables.stacks import LimitLock


class LimitLocks:
    """Locks by name.

    Nothing is stored on SQLite, where a transaction has the whole file.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._has_rows = database.backend.has_row_locks

    def take(self, *names: str) -> None:
        """Lock the names until the transaction ends.

        Each is the limited thing with its owner: ``stacks of p1``.
        """
        if not self._has_rows:
            return
        sql = "SELECT name FROM limit_lock WHERE name = ? FOR UPDATE"
        for name in sorted(names):
            while not self._database.read(sql, (name,)):
                self._add(name)

    def has_room(self, name: str, limit: int, count: Callable[[], int]) -> bool:
        """Lock a name, and return True if there are fewer than `limit` things.

        Call it before each insertion. A transaction counts the things once, and again at the limit.
        """
        memo, key = self._database.transaction_memo, f"number of {name}"
        known = memo.get(key)
        if known is None:
            self.take(name)
        number = known if isinstance(known, int) and known < limit else count()
        memo[key] = number + 1
        return number < limit

    def _add(self, name: str) -> None:
        """Add the row of a name. Another transaction may be adding it: wait for its end."""
        if self._database.backend.duplicates_deadlock:
            # Of those that wait for a row that is rolled back, MariaDB lets one go on, and the others deadlock with it.
            # So the row has a transaction of its own, in another thread.
            with ThreadPoolExecutor(1) as other:
                other.submit(self._add_alone, name).result()
        else:
            self._insert(name)

    def _add_alone(self, name: str) -> None:
        try:
            with self._database.transaction():
                self._insert(name)
        finally:
            self._database.close()

    def _insert(self, name: str) -> None:
        self._database.upsert("limit_lock", {"name": name}, ["name"], ["name"])

    def names(self, limit: int) -> Sequence[str]:
        """Return names that have rows."""
        return [name for (name,) in self._database.select(LimitLock.select(LimitLock.name).limit(limit))]

    def forget(self, names: Sequence[str]) -> None:
        """Remove the rows that no transaction holds. The next use adds them again."""
        wanted = f"SELECT name FROM limit_lock WHERE name IN ({marks(names)}) FOR UPDATE SKIP LOCKED"
        free = [name for (name,) in self._database.read(wanted, names)]
        if free:
            self._database.change(LimitLock.delete().where(LimitLock.name.in_(free)))
