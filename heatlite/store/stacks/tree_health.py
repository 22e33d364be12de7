"""Health of whole trees and keys of features, for lists of stacks."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

from heatlite.core.json import JsonMap
from heatlite.core.wire.stacks import StackHealth
from heatlite.store.database.database import Database
from heatlite.store.database.sql import IN_LIMIT, chunks, marks
from heatlite.store.database.statements import Row
from heatlite.store.feature_store import FeatureStore, HealthTable, RootRows, merged, tables_of
from heatlite.store.tables.health import IS_UNHEALTHY, IS_UNKNOWN, MAY_BE_UNWELL

_SUSPECTED, _UNKNOWN, _UNHEALTHY = range(3)
"""Health of a resource, best first."""
_NOTED = 2
_MOST_NAMES = IN_LIMIT
"""Ids in one query, which names each tree several times."""


class TreeHealth:
    """Counts of trees by health, and the keys that features add to their roots."""

    def __init__(self, database: Database, features: Sequence[FeatureStore]) -> None:
        self._database = database
        self._features = features
        self._query = cache(self._make_query)

    def of_roots(self, root_ids: Sequence[str]) -> tuple[dict[str, StackHealth], dict[str, JsonMap]]:
        """Return the counts of trees where something is wrong, and keys of features.

        Both are by the root's id.
        One query per so many trees. Its rows are unwell resources, rows of health tables and suspended scopes, and
        names of tables with rows for `stack_facts`.
        """
        tables = tables_of(self._features)
        noted = tuple(one.stack_rows for one in self._features if one.stack_rows is not None)
        parts = 2 + 2 * len(tables) + len(noted)
        health: dict[str, StackHealth] = {}
        with_rows: dict[str, list[str]] = {}
        for some in chunks(root_ids, _MOST_NAMES // parts):
            rows = self._database.read(self._query(len(some), tables, noted), [*some] * parts)
            for root_id, table, _, is_held in rows:
                if is_held == _NOTED:
                    with_rows.setdefault(table, []).append(root_id)
            health.update(self._health([row for row in rows if row[-1] != _NOTED]))
        # Most features have none, and each look at a stack asks.
        stating = [one for one in self._features if type(one).stack_facts is not FeatureStore.stack_facts]
        facts = merged([
            one.stack_facts(root_ids, with_rows.get(one.stack_rows.table, []) if one.stack_rows else ())
            for one in stating
        ])
        return health, facts

    def _health(self, rows: Sequence[Row]) -> dict[str, StackHealth]:
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

    def _make_query(self, number: int, tables: Sequence[HealthTable], noted: Sequence[RootRows]) -> str:
        """Return the query for so many trees.

        Its parameters: their ids, for each part. Its columns: root, row, health, held. Row is NULL for a suspended
        scope. Held is `_NOTED` for a table with rows of the tree, whose name is in place of the row.
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
        parts += [
            f"SELECT id, '{one.table}', 0, {_NOTED} FROM {stack} root WHERE id IN ({some})"
            f" AND EXISTS (SELECT 1 FROM {one.table} WHERE {one.table}.{one.root} = root.id)"
            for one in noted
        ]
        return " UNION ALL ".join(parts)
