"""Counts of a project, for overviews."""

from collections.abc import Sequence

from msgspec import Struct

from heatlite.store.database.database import Database
from heatlite.store.feature_store import FeatureStore, tables_of
from heatlite.store.tables.health import IS_UNHEALTHY, MAY_BE_UNWELL


class ProjectCounts(Struct, frozen=True):
    """Numbers of live root stacks, and of decisions that wait for a user."""

    stacks: int
    failed: int
    in_progress: int
    locked: int
    unhealthy: int
    """Stacks with a resource that is CHECK_FAILED, or that a health table says is unhealthy."""
    waiting: int
    """Decisions of features: approvals and proposed repairs."""


_STACKS = """
SELECT COUNT(*), COALESCE(SUM(CASE WHEN status = 'FAILED' THEN 1 ELSE 0 END), 0),
       COALESCE(SUM(CASE WHEN status = 'IN_PROGRESS' THEN 1 ELSE 0 END), 0),
       COALESCE(SUM(CASE WHEN lock_level IS NOT NULL THEN 1 ELSE 0 END), 0)
FROM stack WHERE project = ? AND parent_id IS NULL AND deleted_at IS NULL
"""
_UNHEALTHY = f"""
SELECT COALESCE(stack.root_id, stack.id) root_id FROM stack JOIN resource item ON item.stack_id = stack.id
WHERE stack.project = ? AND stack.deleted_at IS NULL AND {MAY_BE_UNWELL} AND {IS_UNHEALTHY}
"""


class Overview:
    """Counts by project."""

    def __init__(self, database: Database, features: Sequence[FeatureStore]) -> None:
        self._database = database
        self._features = features

    def of(self, project: str) -> ProjectCounts:
        """Return the counts of a project."""
        ((stacks, failed, in_progress, locked),) = self._database.read(_STACKS, [project])
        parts = [_UNHEALTHY]
        for table in tables_of(self._features):
            parts.append(f"SELECT root_id FROM {table.name} WHERE project = ? AND {table.unhealthy}")
        every = f"SELECT COUNT(DISTINCT root_id) FROM ({' UNION ALL '.join(parts)}) found"
        ((unhealthy,),) = self._database.read(every, [project] * len(parts))
        counts = [count for one in self._features for count in one.decisions]
        every = f"SELECT {' + '.join(['0', *(f'({one})' for one in counts)])}"
        ((waiting,),) = self._database.read(every, [project] * len(counts))
        return ProjectCounts(stacks, int(failed), int(in_progress), int(locked), unhealthy, waiting)
