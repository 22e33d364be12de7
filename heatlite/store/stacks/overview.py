"""Counts of a project, for overviews."""

from msgspec import Struct

from heatlite.features.healing.terms import UNHEALTHY
from heatlite.store.database.database import Database
from heatlite.store.database.sql import marks
from heatlite.store.tables.health import IS_UNHEALTHY, MAY_BE_UNWELL


class ProjectCounts(Struct, frozen=True):
    """Numbers of live root stacks, and of decisions that wait for a user."""

    stacks: int
    failed: int
    in_progress: int
    locked: int
    unhealthy: int
    """Stacks with a resource that is CHECK_FAILED or has an incident in a state of `UNHEALTHY`."""
    waiting: int
    """Node actions and runs of playbooks that need an approval, and proposed repairs."""


_STACKS = """
SELECT COUNT(*), COALESCE(SUM(CASE WHEN status = 'FAILED' THEN 1 ELSE 0 END), 0),
       COALESCE(SUM(CASE WHEN status = 'IN_PROGRESS' THEN 1 ELSE 0 END), 0),
       COALESCE(SUM(CASE WHEN lock_level IS NOT NULL THEN 1 ELSE 0 END), 0)
FROM stack WHERE project = ? AND parent_id IS NULL AND deleted_at IS NULL
"""
_UNHEALTHY = f"""
SELECT COUNT(DISTINCT root_id) FROM (
    SELECT root_id FROM incident WHERE project = ? AND state IN ({marks(UNHEALTHY)})
    UNION ALL
    SELECT COALESCE(stack.root_id, stack.id) FROM stack JOIN resource item ON item.stack_id = stack.id
    WHERE stack.project = ? AND stack.deleted_at IS NULL AND {MAY_BE_UNWELL} AND {IS_UNHEALTHY}
) found
"""
_WAITING = """
SELECT (SELECT COUNT(*) FROM node_action WHERE project = ? AND state = 'PENDING_APPROVE' AND run_id IS NULL)
     + (SELECT COUNT(*) FROM action WHERE project = ? AND verb = 'PLAYBOOK' AND status = 'INIT')
     + (SELECT COUNT(*) FROM incident WHERE project = ? AND state = 'PROPOSED')
"""


class Overview:
    """Counts by project."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, project: str) -> ProjectCounts:
        """Return the counts of a project."""
        ((stacks, failed, in_progress, locked),) = self._database.read(_STACKS, [project])
        ((unhealthy,),) = self._database.read(_UNHEALTHY, [project, *UNHEALTHY, project])
        ((waiting,),) = self._database.read(_WAITING, [project] * 3)
        return ProjectCounts(stacks, int(failed), int(in_progress), int(locked), unhealthy, waiting)
