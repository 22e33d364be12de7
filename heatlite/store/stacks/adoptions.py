"""Objects that unfinished adoptions take over.

A resource's row has the id of its object when its adoption has ended. Until then a claim keeps the object from other
adoptions.
"""

from collections.abc import Collection

from heatlite.store.actions.table import OPEN
from heatlite.store.database.database import Database
from heatlite.store.database.sql import chunks
from heatlite.store.tables.stacks import AdoptedObject

ROWS = 200
"""Rows in one INSERT: SQLite before 3.32 takes 999 parameters."""


class Adoptions:
    """Claims of objects by trees of stacks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def forget_ended(self) -> None:
        """Remove the claims of adoptions that have ended: their rows have the ids."""
        running = f"SELECT root_id FROM action WHERE verb = 'ADOPT' AND {OPEN}"
        self._database.write(f"DELETE FROM adopted_object WHERE root_id NOT IN ({running})")

    def claimed(self, keys: Collection[str], root_id: str) -> frozenset[str]:
        """Return those of the keys that other trees have claimed."""
        others = "SELECT id FROM adopted_object WHERE id IN () AND root_id <> ?"
        return frozenset(str(key) for (key,) in self._database.read_in(others, [*keys], root_id))

    def claim(self, keys: Collection[str], root_id: str) -> None:
        """Claim objects by digests for a tree, which may have claimed them before."""
        for some in chunks(sorted(keys), ROWS):
            rows = [{"id": key, "root_id": root_id} for key in some]
            self._database.change(AdoptedObject.insert_many(rows).on_conflict_ignore())
