"""Sizes of stacks in characters of JSON (docs/decisions/0019-budgets.md)."""

from collections.abc import Sequence

from msgspec import Struct

from heatlite.store.database.database import Database
from heatlite.store.tables.stacks import StackSize

_ROWS = 200
"""Rows in one INSERT: SQLite before 3.32 takes 999 parameters."""


class DefinitionSize(Struct, frozen=True):
    """Size of a nested stack's environment and generated template.

    A template in the parent's files does not count.
    """

    stack_id: str
    root_id: str
    size: int
    is_new: bool
    """True if the stack is added in the same transaction."""


class StackSizes:
    """The sizes of live stacks. Deleting a stack removes its row (`Stacks.save_many`)."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sum = (
            "SELECT SUM(definition + CASE WHEN stack_id = ? THEN 0 ELSE resources END)"
            " FROM stack_size WHERE root_id = ?"
        )
        self._update = "UPDATE stack_size SET resources = ? WHERE stack_id = ?"

    def of_tree(self, root_id: str, without: str | None = None) -> int:
        """Return the size of a tree; of the stack `without` only its definition counts."""
        ((total,),) = self._database.read(self._sum, (without or "", root_id))
        return int(total or 0)

    def of(self, stack_ids: Sequence[str]) -> int:
        """Return the size of some stacks."""
        sql = "SELECT SUM(definition + resources) FROM stack_size WHERE stack_id IN ()"
        return sum(int(size or 0) for (size,) in self._database.read_in(sql, stack_ids))

    def record_resources(self, stack_id: str, root_id: str, size: int) -> None:
        """Write the size of a stack's resources."""
        if not self._database.write(self._update, (size, stack_id)):
            self._add(stack_id, root_id, resources=size)

    def record_definitions(self, sizes: Sequence[DefinitionSize]) -> None:
        """Write the sizes of nested stacks' definitions."""
        new = [
            {"stack_id": one.stack_id, "root_id": one.root_id, "definition": one.size, "resources": 0}
            for one in sizes
            if one.is_new
        ]
        for start in range(0, len(new), _ROWS):
            self._database.change(StackSize.insert_many(new[start : start + _ROWS]))
        for one in sizes:
            if not one.is_new:
                known = StackSize.stack_id == one.stack_id
                if not self._database.change(StackSize.update(definition=one.size).where(known)):
                    self._add(one.stack_id, one.root_id, definition=one.size)

    def _add(self, stack_id: str, root_id: str, definition: int = 0, resources: int = 0) -> None:
        """Add a row unless it exists.

        MariaDB does not count a row that an UPDATE leaves as it is.
        """
        row = {"stack_id": stack_id, "root_id": root_id, "definition": definition, "resources": resources}
        self._database.change(StackSize.insert(row).on_conflict_ignore())
