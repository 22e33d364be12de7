"""Health of whole trees, for lists of stacks."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

from heatlite.store.database.database import Database
from heatlite.store.database.sql import IN_LIMIT, chunks, marks
from heatlite.store.feature_store import FeatureStore, HealthTable, tables_of
from heatlite.store.records import StackHealth
from heatlite.store.tables.health import IS_UNHEALTHY, IS_UNKNOWN, MAY_BE_UNWELL

_SUSPECTED, _UNKNOWN, _UNHEALTHY = range(3)
"""Health of a resource, best first."""
_MOST_NAMES = IN_LIMIT
"""Ids in one query, which names each tree several times."""


class TreeHealth:
    """Counts of trees by health."""

    def __init__(self, database: Database, features: Sequence[FeatureStore]) -> None:
        self._database = database
        self._features = features
        self._query = cache(self._make_query)

    def of_roots(self, root_ids: Sequence[str]) -> dict[str, StackHealth]:
        """Return the counts of those of the trees where something is wrong.

        One query per so many trees. Its rows are unwell resources, rows of health tables and suspended scopes.
        """
        tables = tables_of(self._features)
        found: dict[str, StackHealth] = {}
        for some in chunks(root_ids, _MOST_NAMES // (2 + 2 * len(tables))):
            found.update(self._of(some, tables))
        return found

    def _of(self, roots: Sequence[str], tables: tuple[HealthTable, ...]) -> dict[str, StackHealth]:
        rows = self._database.read(self._query(len(roots), tables), [*roots] * (2 + 2 * len(tables)))
        if not rows:
            return {}  # as mostly
        worst: dict[tuple[str, str], int] = {}
        held, suspended = Counter[str](), Counter[str]()
        for root_id, row_id, health, is_held in rows:
            if row_id is None:
                suspended[root_id] += 1
                continue
            held[root_id] += is_held
            worst[root_id, row_id] = max(health, worst.get((root_id, row_id), health))
        counts = Counter((root_id, health) for (root_id, _), health in worst.items())
        return {
            root_id: StackHealth(
                counts[root_id, _UNHEALTHY], counts[root_id, _UNKNOWN], counts[root_id, _SUSPECTED], held[root_id],
                suspended[root_id],
            )
            for root_id in {*held, *suspended}
        }  # fmt: skip

    def _make_query(self, number: int, tables: Sequence[HealthTable]) -> str:
        """Return the query for so many trees.

        Its parameters: their ids, for each part. Its columns: root, row, health, held. Row is NULL for a suspended
        scope.
        """
        resource, stack, some = self._database.quote("resource"), self._database.quote("stack"), marks("?" * number)
        nests = f"EXISTS (SELECT 1 FROM {stack} nested WHERE nested.id = item.physical_id)"
        health = f"CASE WHEN {IS_UNHEALTHY} AND NOT ({IS_UNKNOWN} AND {nests}) THEN {_UNHEALTHY} ELSE {_UNKNOWN} END"
        is_unwell = f"{MAY_BE_UNWELL} AND ({IS_UNHEALTHY} OR {IS_UNKNOWN})"
        # Not one part with a common table expression of the tree: SQLite would make it anew for each use. A CROSS JOIN
        # keeps SQLite from beginning with all resources.
        parts = [
            f"SELECT item.stack_id, item.id, {health}, 0 FROM {resource} item"
            f" WHERE item.stack_id IN ({some}) AND {is_unwell}",
            f"SELECT below.root_id, item.id, {health}, 0 FROM {stack} below CROSS JOIN {resource} item"
            f" WHERE below.root_id IN ({some}) AND item.stack_id = below.id AND {is_unwell}",
        ]
        for table in tables:
            worse = f"CASE WHEN {table.unhealthy} THEN {_UNHEALTHY} ELSE {_SUSPECTED} END"
            parts += [
                f"SELECT root_id, resource_id, {worse}, CASE WHEN {table.held} THEN 1 ELSE 0 END FROM {table.name}"
                f" WHERE root_id IN ({some}) AND {table.stands}",
                f"SELECT root_id, NULL, 0, 0 FROM ({table.suspended}) scope WHERE root_id IN ({some})",
            ]
        return " UNION ALL ".join(parts)
