"""Health of whole trees, for lists of stacks."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

from heatlite.features.healing.store.records import StackHealth
from heatlite.features.healing.terms import UNCONFIRMED, IncidentState
from heatlite.store.database.database import Database
from heatlite.store.database.sql import IN_LIMIT, chunks, marks
from heatlite.store.tables.health import IS_UNHEALTHY, IS_UNKNOWN, MAY_BE_UNWELL

_SUSPECTED, _UNKNOWN, _UNHEALTHY = range(3)
"""Health of a resource, best first."""
_AT_ONCE = IN_LIMIT // 4
"""Trees of one query, which names them four times."""


class TreeHealth:
    """Counts of trees by health."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._query = cache(self._make_query)

    def of_roots(self, root_ids: Sequence[str]) -> dict[str, StackHealth]:
        """Return the counts of those of the trees where something is wrong.

        One query per `_AT_ONCE` trees. Its rows are incidents, unwell resources and suspended scopes.
        """
        found: dict[str, StackHealth] = {}
        for some in chunks(root_ids, _AT_ONCE):
            found.update(self._of(some))
        return found

    def _of(self, roots: Sequence[str]) -> dict[str, StackHealth]:
        rows = self._database.read(self._query(len(roots)), (*roots, *roots, *roots, *roots, True))
        if not rows:
            return {}  # as mostly
        worst: dict[tuple[str, str], int] = {}
        held, suspended = Counter[str](), Counter[str]()
        for root_id, row_id, state, health, is_held, is_scope in rows:
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

    def _make_query(self, number: int) -> str:
        """Return the query for so many trees.

        Its parameters: their ids four times, and True. Its columns: root, row, state of an incident, health of the row,
        held, suspended scope.
        """
        resource, stack, some = self._database.quote("resource"), self._database.quote("stack"), marks("?" * number)
        nests = f"EXISTS (SELECT 1 FROM {stack} nested WHERE nested.id = item.physical_id)"
        health = f"CASE WHEN {IS_UNHEALTHY} AND NOT ({IS_UNKNOWN} AND {nests}) THEN {_UNHEALTHY} ELSE {_UNKNOWN} END"
        is_unwell = f"{MAY_BE_UNWELL} AND ({IS_UNHEALTHY} OR {IS_UNKNOWN})"
        # Not one part with a common table expression of the tree: SQLite would make it anew for each use. A CROSS JOIN
        # keeps SQLite from beginning with all resources.
        return (
            "SELECT root_id, resource_id, state, NULL, CASE WHEN reason IS NULL THEN 0 ELSE 1 END, 0 FROM incident"
            f" WHERE root_id IN ({some}) AND due IS NOT NULL AND state <> '{IncidentState.SETTLING}'"
            f" UNION ALL SELECT item.stack_id, item.id, NULL, {health}, 0, 0 FROM {resource} item"
            f" WHERE item.stack_id IN ({some}) AND {is_unwell}"
            f" UNION ALL SELECT below.root_id, item.id, NULL, {health}, 0, 0"
            f" FROM {stack} below CROSS JOIN {resource} item"
            f" WHERE below.root_id IN ({some}) AND item.stack_id = below.id AND {is_unwell}"
            " UNION ALL SELECT root_id, scope_digest, NULL, NULL, 0, 1 FROM healing_scope"
            f" WHERE root_id IN ({some}) AND is_suspended = ?"
        )
