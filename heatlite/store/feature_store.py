"""Stores of features, and the questions of the core's rows and lists to them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import peewee
from msgspec import Struct

from heatlite.core.config import Settings
from heatlite.core.meter import Gauge
from heatlite.store.large_values import ProjectValues
from heatlite.store.records import HealthNote
from heatlite.store.secrets.field_encryption import FieldEncryption

OldRows: TypeAlias = tuple[Callable[[Sequence[str]], object], Sequence[str]]
"""A function that removes rows, and the ids of those that are due."""


class Rule(Struct, frozen=True):
    """A rule of consistency."""

    text: str
    entity: str
    """Kind of the rows that break it."""
    sql: str
    """Query for id and a detail of each row that breaks it; ``{late}`` is a time."""


class HealthTable(Struct, frozen=True):
    """A table whose rows tell about the health of resources.

    It has the columns `project`, `root_id` and `resource_id`. Conditions are on its columns, without a prefix.
    """

    name: str
    stands: str
    """Condition on the rows that count. Their resources are unhealthy, or suspected to be."""
    unhealthy: str
    """Condition on those of unhealthy resources."""
    held: str
    """Condition on those that are held back."""
    suspended: str
    """Query for the root of each scope of a tree that is suspended."""


class FeatureStore:
    """Rows of a feature. Each method takes part in the caller's transaction."""

    tables: Sequence[type[peewee.Model]] = ()
    rules: Sequence[Rule] = ()
    """Rules of consistency of its rows."""
    health: HealthTable | None = None
    decisions: Sequence[str] = ()
    """Queries for numbers of decisions of a project that wait for a user. Their parameter is the project."""
    unended: str = ""
    """Query for work of the feature that has not ended and whose id is `depended`. Actions may wait for it."""

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        self.encryption = encryption
        self.database = encryption.database

    def engine_started(self) -> None:
        """Release what engines held. Only for an engine that holds the engine lock."""

    def has_work(self, project: str, work_id: str) -> bool:
        """Return whether the project has work with the id."""
        return False

    def running(self, root_id: str) -> Sequence[str]:
        """Return the ids of work on a tree that actions on its resources wait for."""
        return ()

    def results(self, ids: Sequence[str], root_id: str) -> Mapping[str, bool | None]:
        """Return whether those of the ids that are work of the feature have succeeded.

        None: it has not ended. Locks those of other trees than that of `root_id`.
        """
        return {}

    def deployed(self, project: str, server_id: str, now: float) -> None:
        """Make due what carries out the deployments of a server."""

    def tree_changed(self, root_id: str, now: float) -> None:
        """Wake all that waits for a change of a tree."""

    def resource_marked(self, root_id: str, is_unhealthy: bool, now: float) -> None:
        """Wake all that looks at the marks of a tree."""

    def stacks_removed(self, stack_ids: Sequence[str]) -> None:
        """Remove the rows of removed stacks."""

    def health_of(self, resource_ids: Sequence[str]) -> Sequence[HealthNote]:
        """Return the notes on the health of resources, oldest first."""
        return ()

    def health_in(self, root_id: str) -> Sequence[HealthNote]:
        """Return the notes on the health of a tree's resources, oldest first."""
        return ()

    def gauges(self) -> Iterator[Gauge]:
        """Yield present numbers of its rows, for metrics."""
        yield from ()

    def totals(self) -> Iterator[Gauge]:
        """Yield gauges that read whole tables. They are asked for rarely."""
        yield from ()

    def old_rows(self, settings: Settings, now: float, limit: int) -> Iterator[OldRows]:
        """Yield the rows that retention removes, at most `limit` at a time."""
        yield from ()


def tables_of(stores: Sequence[FeatureStore]) -> tuple[HealthTable, ...]:
    """Return the health tables of some stores."""
    return tuple(one.health for one in stores if one.health is not None)
