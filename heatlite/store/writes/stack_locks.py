"""Locks on rows of stacks that last until the transaction ends."""

from collections.abc import Iterable

from heatlite.store.database.database import Database


class StackLocks:
    """Locks stacks, and knows those that the transaction has locked already.

    Nothing is locked on SQLite, where a transaction has the whole file.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._has_rows = database.backend.has_row_locks

    def take(self, stack_ids: Iterable[str]) -> None:
        """Lock stacks without their roots, by `Database.send`."""
        if not self._has_rows:
            return
        for stack_id in sorted(set(stack_ids)):
            if _key(stack_id) not in self._database.transaction_memo:
                self._database.send("SELECT id FROM stack WHERE id = ? FOR UPDATE", (stack_id,))
                self.note((stack_id,))

    def note(self, stack_ids: Iterable[str]) -> None:
        """Note stacks that a statement of this transaction has locked."""
        self._database.transaction_memo.update(dict.fromkeys(map(_key, stack_ids), 1))


def _key(stack_id: str) -> str:
    return f"locked stack {stack_id}"
