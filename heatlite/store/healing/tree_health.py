"""Health of whole trees, for lists of stacks."""

from collections import Counter
from collections.abc import Sequence

from heatlite.core.healing import UNCONFIRMED
from heatlite.store.database.database import Database, Value
from heatlite.store.database.sql import chunks, marks
from heatlite.store.healing.records import StackHealth

_SUSPECTED, _UNKNOWN, _UNHEALTHY = range(3)
"""Health of a resource, best first."""

_FAILED_BEFORE_LOCK = '["CHECK","FAILED",%'
_KNOWN = "[null,%"
"""Begin of the column `health` of a row whose health is known."""


class TreeHealth:
    """Counts of trees by health."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_roots(self, root_ids: Sequence[str]) -> dict[str, StackHealth]:
        """Return the counts of those of the trees where something is wrong.

        One query per `IN_LIMIT` trees. Its rows are incidents, unwell resources and suspended scopes.
        """
        found: dict[str, StackHealth] = {}
        for some in chunks(root_ids):
            found.update(self._of(some))
        return found

    def _of(self, roots: Sequence[str]) -> dict[str, StackHealth]:
        worst: dict[tuple[str, str], int] = {}
        held, suspended = Counter[str](), Counter[str]()
        for root_id, row_id, state, health, is_held, is_scope in self._database.read(*self._query(roots)):
            if is_scope:
                suspended[root_id] += 1
                continue
            held[root_id] += is_held
            if state is not None:
                health = _SUSPECTED if state in UNCONFIRMED else _UNHEALTHY
            worst[root_id, row_id] = max(health, worst.get((root_id, row_id), health))
        counts = Counter((root_id, health) for (root_id, _), health in worst.items())
        return {
            root_id: StackHealth(
                counts[root_id, _UNHEALTHY], counts[root_id, _UNKNOWN], counts[root_id, _SUSPECTED], held[root_id],
                suspended[root_id],
            )
            for root_id in {*held, *suspended}
        }  # fmt: skip

    def _query(self, roots: Sequence[str]) -> tuple[str, list[Value]]:
        """Return the query.

        Its columns: root, row, state of an incident, health of the row, held, suspended scope.
        """
        quote = self._database.quote
        resource, stack, health = quote("resource"), quote("stack"), quote("health")
        # Servers scan the whole table for `id IN (…) OR root_id IN (…)`. Deleted stacks have no rows.
        # A CROSS JOIN keeps SQLite from beginning with all resources.
        sql = (
            f"WITH root AS (SELECT id FROM {stack} WHERE id IN ({marks(roots)})), tree AS ("
            "SELECT id, id AS root_id FROM root UNION ALL SELECT below.id, below.root_id FROM root"
            f" CROSS JOIN {stack} below WHERE below.root_id = root.id)"
        )
        is_failed = "item.before_lock IS NULL AND item.verb = 'CHECK' AND item.status = 'FAILED'"
        failed = f"({is_failed} OR item.before_lock LIKE ?)"
        unknown = f"(item.{health} IS NOT NULL AND item.{health} NOT LIKE ?)"
        nests = f"EXISTS (SELECT 1 FROM {stack} nested WHERE nested.id = item.physical_id)"
        sql += (
            " SELECT root_id, resource_id, state, NULL, CASE WHEN reason IS NULL THEN 0 ELSE 1 END, 0 FROM incident"
            " WHERE root_id IN (SELECT id FROM root) AND due IS NOT NULL UNION ALL SELECT tree.root_id, item.id, NULL,"
            f" CASE WHEN {failed} AND NOT ({unknown} AND {nests}) THEN {_UNHEALTHY} ELSE {_UNKNOWN} END, 0, 0"
            f" FROM tree CROSS JOIN {resource} item WHERE item.stack_id = tree.id AND ({failed} OR {unknown}) UNION ALL"
            " SELECT root_id, scope_digest, NULL, NULL, 0, 1 FROM healing_scope"
            " WHERE root_id IN (SELECT id FROM root) AND is_suspended = ?"
        )
        row = (_FAILED_BEFORE_LOCK, _KNOWN)
        return sql, [*roots, *row, *row, True]
