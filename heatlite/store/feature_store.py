"""Stores of features, and the questions of the core's rows and lists to them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import peewee
from msgspec import Struct

from heatlite.core.config import Settings
from heatlite.core.differences import Differences
from heatlite.core.json import JsonMap
from heatlite.core.runtime.meter import Gauge
from heatlite.store.database.database import Database
from heatlite.store.database.sql import chunks, marks
from heatlite.store.records import ActionRecord, EventRecord, HealthNote, ResourceRecord
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.large_values import ProjectValues

OldRows: TypeAlias = tuple[Callable[[Sequence[str]], object], Sequence[str]]
"""A function that removes rows, and the ids of those that are due."""


class ConsistencyRule(Struct, frozen=True):
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


class RootRows(Struct, frozen=True):
    """A table with rows of trees, whose root's id is in the column `root`."""

    table: str
    root: str


class StackFilter(Struct, frozen=True):
    """A filter of lists of stacks."""

    roots: str
    """Query for the ids of the root stacks that pass."""
    takes_time: bool = False
    """True if its value is a time, which is the query's parameter.

    Otherwise it is a flag: ``false`` lets all pass.
    """
    project: str = ""
    """Column with the project of a row, for a further condition of the query."""


class Series(Struct, frozen=True):
    """The migrations of the core, or of a feature."""

    feature: str
    """Name of the feature; empty for the core."""
    folder: Path
    """It has the folder `migrations` of scripts, and may have a `schema.sql`."""

    @property
    def scripts(self) -> Path:
        """The folder of the scripts."""
        return self.folder / "migrations"

    @property
    def schema(self) -> Path:
        """The tables that the scripts make on SQLite, a statement a line.

        `tools.schema` writes it.
        """
        return self.folder / "schema.sql"

    def recorded(self, script: str) -> str:
        """Return the name of a script in the database: ``reports.0001_reports``."""
        return f"{self.feature}.{script}" if self.feature else script

    def has(self, name: str) -> bool:
        """Return whether a name in the database is one of this series.

        It may be that of a newer program.
        """
        return name.rpartition(".")[0] == self.feature


class Update(Struct, frozen=True):
    """A successful update of a row's object."""

    row: ResourceRecord
    names: frozenset[str]
    """The properties that it wrote."""
    is_observed: bool
    """True if it has read the object before: now all properties are as stored, apart from what is ignored."""


class ObjectNews(Struct, frozen=True):
    """Facts about the objects of one stack that a commit adds.

    Rows that it removes are still there.
    """

    project: str
    root_id: str
    time: float
    compared: Mapping[str, tuple[ResourceRecord, Differences]] = {}
    """By id, rows whose objects a check has compared with them."""
    unseen: Mapping[str, ResourceRecord] = {}
    """By id, rows whose objects a check was to compare with them, and could not look at."""
    updated: Mapping[str, Update] = {}
    """By id, rows whose objects an update has changed, or has found as wanted."""
    gone: Sequence[str] = ()
    """Ids of the rows that the commit removes."""
    written: Sequence[ResourceRecord] = ()
    """Rows whose definitions the server has written."""
    judged: Mapping[str, tuple[ResourceRecord, Differences]] = {}
    """By id, rows whose known differences another definition judges. Nobody has looked at their objects."""

    def __bool__(self) -> bool:
        return bool(self.compared or self.unseen or self.judged or self.updated or self.gone or self.written)


class TreeStack(Struct, frozen=True):
    """A stack of a tree."""

    root_id: str
    stack_id: str
    path: tuple[str, ...] = ()
    """The names of resources that lead to it from the root."""


class Moved(Struct, frozen=True):
    """Resources that get other names, or go to another stack, in one step.

    Two of a stack may swap their names.
    """

    source: TreeStack
    target: TreeStack
    names: Mapping[str, str]
    """New names by the old ones."""
    nested: Sequence[str] = ()
    """Ids of all stacks nested in resources that go to another stack."""

    def covers(self, path: str) -> bool:
        """Return whether a resource of the source's tree gets another place.

        Its path may be the same there.
        """
        names, depth = path.split("/"), len(self.source.path)
        return tuple(names[:depth]) == self.source.path and len(names) > depth and names[depth] in self.names

    def path(self, path: str) -> str:
        """Return the new path of a resource of the source's tree."""
        if not self.covers(path):
            return path
        names, depth = path.split("/"), len(self.source.path)
        return "/".join((*self.target.path, self.names[names[depth]], *names[depth + 1 :]))

    def change_root(self, database: Database, table: str, stack: str = "stack_id", root: str = "root_id") -> None:
        """Change the root of the nested stacks in a table.

        `stack` and `root` are the columns with the ids of a stack and its root.
        """
        for some in chunks(self.nested if self.source.root_id != self.target.root_id else ()):
            sql = f"UPDATE {table} SET {root} = ? WHERE {stack} IN ({marks(some)})"
            database.write(sql, (self.target.root_id, *some))

    def rename(self, database: Database, table: str, column: str, stack: str = "stack_id", root: str = "") -> None:
        """Change the names of resources in a column of a table, and their stack.

        `stack` and `root` are the columns with the ids of the stack and its root. With `root` that of the nested stacks
        changes, too.
        """
        if root:
            self.change_root(database, table, stack, root)
        cases, names = " ".join(["WHEN ? THEN ?"] * len(self.names)), [*self.names]
        places = {stack: self.target.stack_id, **({root: self.target.root_id} if root else {})}
        places = {} if self.source == self.target else places
        database.write(
            f"UPDATE {table} SET {column} = CASE {column} {cases} ELSE {column} END"
            + "".join(f", {one} = ?" for one in places)
            + f" WHERE {stack} = ? AND {column} IN ({marks(names)})",
            (*(text for pair in self.names.items() for text in pair), *places.values(), self.source.stack_id, *names),
        )


class FeatureStore:
    """Rows of a feature. Each method takes part in the caller's transaction."""

    tables: Sequence[type[peewee.Model]] = ()
    series: Series | None = None
    """Migrations that make its tables. None: it has no tables, or those of the core make them, as in version 0.1.0."""
    holders: Sequence[type[peewee.Model]] = ()
    """Those of the tables whose rows refer to large values of their project."""
    tree_holders: Sequence[type[peewee.Model]] = ()
    """Those whose rows refer to large values of their tree, with the stack in the column `stack_id`."""
    rules: Sequence[ConsistencyRule] = ()
    """Rules of consistency of its rows."""
    health: HealthTable | None = None
    stack_filters: Mapping[str, StackFilter] = MappingProxyType({})
    """Filters of lists of stacks, by the key of the query."""
    of_stacks: Mapping[str, str] = MappingProxyType({})
    """Tables whose rows go with their stack → the column with its id."""
    stack_rows: RootRows | None = None
    """Rows without which a stack has only the keys that all have. None: `stack_facts` reads none."""
    decisions: Sequence[str] = ()
    """Queries for numbers of decisions of a project that wait for a user. Their parameter is the project."""
    unended: str = ""
    """Query for work of the feature that has not ended and whose id is `depended`. Actions may wait for it.

    It counts while the feature is off, too.
    """

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

    def resting(self, runs: Sequence[ActionRecord]) -> Collection[str]:
        """Return the ids of those of some waiting runs that hold nothing now."""
        return ()

    def results(self, ids: Sequence[str], root_id: str) -> Mapping[str, bool | None]:
        """Return whether those of the ids that are work of the feature have succeeded.

        None: it has not ended. Locks those of other trees than that of `root_id`.
        """
        return {}

    def note_deployed(self, project: str, server_id: str, now: float) -> None:
        """Make due what carries out the deployments of a server."""

    def tree_changed(self, root_id: str, now: float) -> None:
        """Wake all that waits for a change of a tree."""

    def tree_checked(self, root_id: str, now: float) -> None:
        """Wake all that looks at what a check of a tree has found."""

    def resource_marked(self, root_id: str, is_unhealthy: bool, now: float) -> None:
        """Wake all that looks at the marks of a tree."""

    def stacks_removed(self, stack_ids: Sequence[str]) -> None:
        """Remove the rows of removed stacks, also while the feature is off."""
        for table, column in self.of_stacks.items():
            for some in chunks(stack_ids):
                name = self.database.quote(table)
                self.database.send(f"DELETE FROM {name} WHERE {column} IN ({marks(some)})", some)

    def actions_removed(self, action_ids: Sequence[str]) -> None:
        """Keep what rows need of ended actions that go now.

        Also while the feature is off.
        """

    def objects_seen(self, news: ObjectNews) -> Sequence[EventRecord]:
        """Note facts about objects. Returns the events of what follows from them."""
        return ()

    def differences(self, project: str, root_id: str, stack_id: str) -> Mapping[str, Differences]:
        """Return what is known to differ in the objects of a stack, by the ids of rows."""
        return {}

    def resources_moved(self, moved: Moved) -> None:
        """Change names and paths of resources, also while the feature is off."""

    def check_definition(
        self, stack_id: str, defines: Callable[[Sequence[str]], bool], goes_back: bool, takes: bool = False
    ) -> None:
        """Raise the error that refuses a definition for a root stack.

        `defines` tells whether it has a resource, by the names that lead to it. With `goes_back` the stack had it
        before; else a client sends it. With `takes` the transaction gives it to the stack: note it.
        """

    def held(self, resource_ids: Sequence[str]) -> Mapping[str, str]:
        """Return why resources may not leave their places now, by id, with a way on."""
        return {}

    def health_of(self, resource_ids: Sequence[str]) -> Sequence[HealthNote]:
        """Return the notes on the health of resources, oldest first."""
        return ()

    def health_in(self, root_id: str) -> Sequence[HealthNote]:
        """Return the notes on the health of a tree's resources, oldest first."""
        return ()

    def stack_facts(self, root_ids: Sequence[str], noted: Sequence[str]) -> Mapping[str, JsonMap]:
        """Return further keys of root stacks, by id, for lists and details.

        `noted` are those with `stack_rows`, which one statement finds for all features.
        """
        return {}

    def resource_facts(self, resource_ids: Sequence[str]) -> Mapping[str, JsonMap]:
        """Return further keys of resources, by id, for lists and details."""
        return {}

    def gauges(self) -> Iterator[Gauge]:
        """Yield present numbers of its rows, for metrics."""
        yield from ()

    def totals(self) -> Iterator[Gauge]:
        """Yield gauges that read whole tables. They are asked for rarely."""
        yield from ()

    def old_rows(self, settings: Settings, now: float, limit: int) -> Iterator[OldRows]:
        """Yield the rows that retention removes, at most `limit` at a time."""
        yield from ()


def series_of(stores: Sequence[FeatureStore | type[FeatureStore]]) -> list[Series]:
    """Return the migrations of some stores. Stores of a feature may share them."""
    return [*dict.fromkeys(one.series for one in stores if one.series is not None)]


def present(database: Database, kinds: Sequence[type[FeatureStore]]) -> list[type[FeatureStore]]:
    """Return those of some stores whose tables the database has."""
    names = database.tables()
    return [kind for kind in kinds if all(model._meta.table_name in names for model in kind.tables)]


def tables_of(stores: Sequence[FeatureStore]) -> tuple[HealthTable, ...]:
    """Return the health tables of some stores."""
    return tuple(one.health for one in stores if one.health is not None)


def merged(found: Iterable[Mapping[str, JsonMap]]) -> dict[str, JsonMap]:
    """Return the keys of several features, by the id of stack or resource."""
    out: dict[str, JsonMap] = {}
    for one in found:
        for owner_id, keys in one.items():
            out[owner_id] = {**out.get(owner_id, {}), **keys}
    return out
