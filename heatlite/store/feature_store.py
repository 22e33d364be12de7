"""Stores of features, and the questions of the core's rows and lists to them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from heatlite.core.config import Settings
from heatlite.core.meter import Gauge
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

    rules: Sequence[Rule] = ()
    """Rules of consistency of its rows."""
    health: HealthTable | None = None
    decisions: str = ""
    """Query for the number of decisions of a project that wait for a user. Its parameter is the project."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self.encryption = encryption
        self.database = encryption.database

    def tree_changed(self, root_id: str, now: float) -> None:
        """Wake all that waits for a change of a tree."""

    def resource_marked(self, root_id: str, now: float) -> None:
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

    def old_rows(self, settings: Settings, now: float, limit: int) -> Iterator[OldRows]:
        """Yield the rows that retention removes, at most `limit` at a time."""
        yield from ()


def tables_of(stores: Sequence[FeatureStore]) -> tuple[HealthTable, ...]:
    """Return the health tables of some stores."""
    return tuple(one.health for one in stores if one.health is not None)
