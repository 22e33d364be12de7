"""Resource rows."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeVar

from heatlite.core.clouds import CloudIdentity
from heatlite.core.json import Json, dump, parse, parser
from heatlite.core.status import Status, Verb
from heatlite.store.database.sql import chunks, marks
from heatlite.store.database.statements import Value
from heatlite.store.feature_store import FeatureStore, tables_of
from heatlite.store.records import (
    HealthRecord,
    HolderRecord,
    PreviousState,
    ResourceRecord,
    StackPlace,
    StackRecord,
)
from heatlite.store.rows import Codec, Rows
from heatlite.store.secrets.cipher import PREFIX
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.stacks.resource_query import CURRENT, INDEXED, ResourceQuery, conditions, has_one_of
from heatlite.store.tables.health import HAS_FAILED, begins
from heatlite.store.tables.stacks import Resource, Stack
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import LargeValues
from heatlite.store.writes.record_store import RecordStore

_previous = parser(PreviousState)


def _health_text(health: HealthRecord) -> str:
    """Return health as stored: the states in it are texts of JSON in JSON."""
    hidden = (None if state is None else dump(state) for state in (health.before, health.before_lock))
    return dump((health.since, health.reason, health.marked, *hidden))


def _health(text: str) -> HealthRecord:
    since, reason, marked, *hidden = parse(text)
    return HealthRecord(since, reason, marked, *(None if state is None else _previous(state) for state in hidden))


_ROWS = Rows(ResourceRecord, Resource, codecs={"health": Codec(_health_text, _health)})

Nested = TypeVar("Nested", StackRecord, StackPlace)

_TREE = (
    "(SELECT id FROM stack WHERE id = ? UNION ALL SELECT id FROM stack WHERE root_id = ? AND deleted_at IS NULL) tree"
)
"""Ids of a live tree, a table to join. Servers scan the whole table for `stack_id = ? OR stack_id IN (…)`."""

# The token of a stack with hidden values does not tell a hook.
_IS_NOTEWORTHY = (
    f"({HAS_FAILED} OR item.protection IS NOT NULL"
    f""" OR {begins('item.token', '{"hook":')} OR {begins('item.token', '{"attempts":')}"""
    f" OR {begins('item.token', PREFIX)})"
)


class Resources(RecordStore[ResourceRecord]):
    """Resource rows. Each method is one statement, or one per `IN_LIMIT` rows."""

    def __init__(
        self, encryption: FieldEncryption, large_values: LargeValues, features: Sequence[FeatureStore]
    ) -> None:
        fixed = ("stack_id", "name", "created_at")
        table = Table(encryption, _ROWS, fixed=fixed, stack="stack_id", large_values=large_values)
        super().__init__(encryption, table)
        self._features = features

    def of(self, stack_id: str) -> list[ResourceRecord]:
        """Return the rows of a stack, oldest first."""
        return self._table.select("WHERE stack_id = ? ORDER BY id", (stack_id,))

    def send_of(self, stack_id: str) -> Callable[[], list[ResourceRecord]]:
        """Do as `of` by `Database.send`. Returns a call that returns the rows."""
        return self._table.send_select("WHERE stack_id = ? ORDER BY id", (stack_id,))

    def of_tree(self, root_id: str) -> list[ResourceRecord]:
        """Return the rows of a live tree, oldest first."""
        rest = f"WHERE stack_id IN (SELECT id FROM {_TREE}) ORDER BY id"
        return self._table.select(rest, (root_id, root_id))

    def outlines(self, root_id: str) -> list[ResourceRecord]:
        """Return the rows of a live tree, oldest first, with little but their states."""
        read = self._database.read(
            "SELECT id, stack_id, name, type, mapped_type, verb, status, created_at, physical_id FROM resource"
            f" WHERE stack_id IN (SELECT id FROM {_TREE}) ORDER BY id",
            (root_id, root_id),
        )
        verbs, statuses = {one.value: one for one in Verb}, {one.value: one for one in Status}
        return [
            ResourceRecord(
                key, stack, name, kind, mapped, verbs[verb], statuses[status], "", since, None, "", physical_id
            )
            for key, stack, name, kind, mapped, verb, status, since, physical_id in read
        ]

    def noteworthy(self, root_id: str) -> list[ResourceRecord]:
        """Return the rows of a tree that have failed, are protected, or wait.

        They wait at a hook, or for the next attempt.
        """
        within = f"item.stack_id IN (SELECT id FROM {_TREE})"
        return self._table.select(f"AS item WHERE {within} AND {_IS_NOTEWORTHY} ORDER BY item.id", (root_id, root_id))

    def by_name(self, stack_id: str, names: Sequence[str]) -> list[ResourceRecord]:
        """Return the rows of a stack with one of the names, oldest first."""
        out: list[ResourceRecord] = []
        for some in chunks(names):
            rest = f"WHERE stack_id = ? AND name IN ({marks(some)}) ORDER BY id"
            out += self._table.select(rest, (stack_id, *some))
        return out

    def listed(self, stack_ids: Sequence[str], query: ResourceQuery) -> list[ResourceRecord]:
        """Return the current rows of stacks that pass the filters.

        Stack by stack, oldest first.
        """
        out: list[ResourceRecord] = []
        for some in chunks(stack_ids):
            out += self._listed(some, query, (), "item.id", None)
        return out

    def page(
        self, stack_ids: Sequence[str], query: ResourceQuery, after: str | None, limit: int
    ) -> list[ResourceRecord]:
        """Return the first of these rows: stack by stack, by name.

        Without filters it reads no more than it returns. `after` is the name of a resource of the first stack, which is
        then alone: its rows after that one.
        """
        begin = () if after is None else ("item.name > ?", (after,))
        return self._listed(stack_ids, query, [begin] if begin else (), "item.name", limit)

    def _listed(
        self,
        stack_ids: Sequence[str],
        query: ResourceQuery,
        begin: Sequence[tuple[str, Sequence[Value]]],
        order: str,
        limit: int | None,
    ) -> list[ResourceRecord]:
        one = len(stack_ids) == 1
        within = "item.stack_id = ?" if one else f"item.stack_id IN ({marks(stack_ids)})"
        filters = conditions(self._database.backend, query, tables_of(self._features))
        found = [(within, stack_ids), *begin, *filters]
        current = CURRENT.format(resource=self._table.name)
        rest = f"AS item WHERE {' AND '.join([*(sql for sql, _ in found), current])}"
        rest += f" ORDER BY {order}" if one else f" ORDER BY item.stack_id, {order}"
        values = [value for _, some in found for value in some]
        if limit is not None:
            rest, values = f"{rest} LIMIT ?", [*values, limit]
        return self._table.select(rest, values)

    def of_doubled(
        self, stack_ids: Sequence[str], names: Sequence[str] | None
    ) -> dict[tuple[str, str], list[ResourceRecord]]:
        """Return the rows of resources that have several, oldest first, by stack and name.

        Only of some names, if they are given.
        """
        resource, found = self._database.quote("resource"), list[tuple[Value, ...]]()
        for stacks in chunks(stack_ids):
            for some in [()] if names is None else chunks(names):
                named = f" AND name IN ({marks(some)})" if some else ""
                sql = f"SELECT stack_id, name FROM {resource} WHERE stack_id IN ({marks(stacks)}){named}"
                found += self._database.read(f"{sql} GROUP BY stack_id, name HAVING COUNT(*) > 1", (*stacks, *some))
        doubled: dict[tuple[str, str], list[ResourceRecord]] = {(str(key), str(name)): [] for key, name in found}
        for stack_id in {key for key, _ in doubled}:
            for row in self.by_name(stack_id, [name for key, name in doubled if key == stack_id]):
                doubled[row.stack_id, row.name].append(row)
        return doubled

    def with_token(self, stack_ids: Sequence[str]) -> list[ResourceRecord]:
        """Return the rows of some stacks whose handler's check is open."""
        return self._table.select_in("WHERE stack_id IN () AND token IS NOT NULL ORDER BY id", stack_ids)

    def find(self, stack_id: str, name_or_physical_id: str) -> list[ResourceRecord]:
        """Return the rows of a stack with the name, else those with the physical id."""
        by_name = self.by_name(stack_id, [name_or_physical_id])
        if by_name:
            return by_name
        rest = "WHERE stack_id = ? AND physical_id = ? ORDER BY id"
        return self._table.select(rest, (stack_id, name_or_physical_id))

    def types(self, root_id: str) -> frozenset[str]:
        """Return the mapped types of the resources in a live tree."""
        sql = f"SELECT DISTINCT mapped_type FROM {_TREE} JOIN resource ON resource.stack_id = tree.id"
        rows = self._database.read(sql, (root_id, root_id))
        return frozenset(str(name) for (name,) in rows)

    def any_protected(self, root_id: str) -> bool:
        """Return whether a live tree has a protected stack or resource."""
        within = "SELECT 1 FROM resource WHERE resource.stack_id = tree.id AND resource.protection IS NOT NULL"
        sql = f"SELECT 1 FROM {_TREE} JOIN stack ON stack.id = tree.id WHERE stack.protection IS NOT NULL"
        return bool(self._database.read(f"{sql} OR EXISTS ({within}) LIMIT 1", (root_id, root_id)))

    def protected(self, stack_ids: Sequence[str]) -> ResourceRecord | None:
        """Return the first protected resource of the stacks."""
        for some in chunks(stack_ids):
            rest = f"WHERE stack_id IN ({marks(some)}) AND protection IS NOT NULL ORDER BY id LIMIT 1"
            for row in self._table.select(rest, some):
                return row
        return None

    def any_failed_in_tree(self, root_id: str) -> bool:
        """Return whether a resource of a live tree has failed."""
        within = "SELECT 1 FROM resource WHERE resource.stack_id = tree.id AND resource.status = 'FAILED'"
        return bool(self._database.read(f"SELECT 1 FROM {_TREE} WHERE EXISTS ({within}) LIMIT 1", (root_id, root_id)))

    def any_failed(self, stack_ids: Sequence[str]) -> bool:
        """Return whether a resource of the stacks has failed."""
        return self._any(stack_ids, "status = 'FAILED'")

    def any_suspended(self, stack_ids: Sequence[str]) -> bool:
        """Return whether a resource of the stacks is suspended or failed to suspend."""
        return self._any(stack_ids, "verb = 'SUSPEND'")

    def _any(self, stack_ids: Sequence[str], condition: str) -> bool:
        for some in chunks(stack_ids):
            if self._table.select(f"WHERE stack_id IN ({marks(some)}) AND {condition} LIMIT 1", some):
                return True
        return False

    def states(self, ids: Sequence[str]) -> dict[str, tuple[Verb, Status]]:
        """Return the states of the existing rows of the ids."""
        resource, found = self._database.quote("resource"), {}
        sql = f"SELECT id, verb, status FROM {resource} WHERE id IN ()"
        for row_id, verb, status in self._database.read_in(sql, ids):
            found[row_id] = Verb(verb), Status(status)
        return found

    def count_in_tree(self, root_id: str) -> int:
        """Return the number of rows in a live tree."""
        sql = f"SELECT COUNT(*) FROM {_TREE} JOIN resource ON resource.stack_id = tree.id"
        ((count,),) = self._database.read(sql, (root_id, root_id))
        return int(count)

    def count(self, stack_ids: Sequence[str]) -> int:
        """Return the number of rows of stacks."""
        sql = f"SELECT COUNT(*) FROM {self._database.quote('resource')} WHERE stack_id IN ()"
        return sum(int(number) for (number,) in self._database.read_in(sql, stack_ids))

    def has_object(self, project: str, physical_id: str) -> bool:
        """Return whether a live stack of the project has the physical id."""
        stacks = Stack.select(Stack.id).where(Stack.project == project, Stack.deleted_at.is_null())
        found = Resource.select(Resource.id).where(Resource.physical_id == physical_id, Resource.stack_id.in_(stacks))
        return len(self._database.select(found.limit(1))) > 0

    def objects_of_project(self, project: str, physical_ids: Sequence[str]) -> list[tuple[str, str]]:
        """Return the rows of a project that have one of the physical ids: id and root.

        Only live stacks count.
        """
        found: list[tuple[str, str]] = []
        for some in chunks(physical_ids):
            has_one, values = has_one_of(self._database.backend, some)
            sql = (
                "SELECT resource.id, COALESCE(stack.root_id, stack.id) FROM resource"
                " JOIN stack ON stack.id = resource.stack_id"
                f" WHERE {has_one}"
                " AND stack.project = ? AND stack.deleted_at IS NULL"
            )
            found += [(str(row), str(root)) for row, root in self._database.read(sql, (*values, project))]
        return found

    def holders_elsewhere(
        self, root_id: str, column: Literal["physical_id", "physical_name"], values: Sequence[str]
    ) -> list[HolderRecord]:
        """Return the rows in live stacks of other trees that have one of the ids or names.

        Rows with an `external_id` only refer to an object.
        """
        found = list[HolderRecord]()
        for some in chunks(values):
            has_one, parameters = has_one_of(self._database.backend, some, column)
            found += [one for _, one in self._holders(f"{has_one} AND root.id <> ?", (*parameters, root_id))]
        return found

    def in_the_making(self) -> list[tuple[HolderRecord, frozenset[str]]]:
        """Return the rows of live stacks that are being created and have no id yet.

        Also names that their objects may have.
        """
        where = "resource.verb = 'CREATE' AND resource.status = 'IN_PROGRESS' AND resource.physical_id IS NULL"
        found, names = dict(self._holders(where, ())), dict[str, list[Json]]()
        for row in self._table.select_in("WHERE id IN ()", [*found]):
            names[row.id] = [row.physical_name, row.properties.get("name")]
        return [
            (one, frozenset(name for name in names.get(key, ()) if isinstance(name, str)))
            for key, one in found.items()
        ]

    def _holders(self, where: str, parameters: Sequence[Value]) -> Iterator[tuple[str, HolderRecord]]:
        """Yield rows in live stacks that may own an object, with their ids."""
        stack = self._database.quote("stack")
        sql = (
            "SELECT resource.id, resource.name, resource.mapped_type, resource.physical_name, resource.physical_id,"
            " stack.project, CASE WHEN root.deleted_at IS NULL THEN root.name ELSE stack.name END, root.cloud"
            f" FROM resource JOIN {stack} ON stack.id = resource.stack_id"
            f" JOIN {stack} root ON root.id = COALESCE(stack.root_id, stack.id)"
            f" WHERE {where} AND external_id IS NULL AND stack.deleted_at IS NULL ORDER BY resource.id"
        )
        for key, name, kind, called, object_id, project, root, cloud in self._database.read(sql, parameters):
            place = None if cloud is None else CloudIdentity.from_json(parse(cloud))
            yield str(key), HolderRecord(name, kind, called, object_id, project, root, place)

    def objects(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the physical ids of those of the rows that have one."""
        resource = self._database.quote("resource")
        sql = f"SELECT id, physical_id FROM {resource} WHERE id IN () AND physical_id IS NOT NULL"
        return dict(self._database.read_in(sql, ids))

    def with_objects(self, project: str, physical_ids: Sequence[str]) -> list[ResourceRecord]:
        """Return the rows in live stacks of the project with these physical ids."""
        stack = self._database.quote("stack")
        out: list[ResourceRecord] = []
        for some in chunks(physical_ids):
            has_one, values = has_one_of(self._database.backend, some)
            live = f"stack_id IN (SELECT id FROM {stack} WHERE project = ? AND deleted_at IS NULL)"
            out += self._table.select(f"WHERE {has_one} AND {live} ORDER BY id", (*values, project))
        return out

    def attached(self, nested: Sequence[Nested]) -> list[Nested]:
        """Return those of the `descendants` of a stack that belong to a resource.

        One that was retained when its resource was deleted belongs to none, nor do the stacks nested in it.
        """
        resource, links = self._database.quote("resource"), set[tuple[Value, ...]]()
        for some in chunks([one.id for one in nested]):
            has_one, values = has_one_of(self._database.backend, some)
            links.update(self._database.read(f"SELECT stack_id, physical_id FROM {resource} WHERE {has_one}", values))
        kept, left = list[Nested](), set[str]()
        for one in nested:
            if (one.parent_id, one.id) in links and one.parent_id not in left:
                kept.append(one)
            else:
                left.add(one.id)
        return kept

    def of_type_with_object(self, mapped_type: str, physical_id: str) -> list[ResourceRecord]:
        """Return the rows of a type in live stacks of any project with the physical id."""
        # The index has the first characters of the ids: MariaDB finds them itself.
        begins = [] if self._database.backend.finds_prefixes else [physical_id[:INDEXED]]
        indexed = f"substr(physical_id, 1, {INDEXED}) = ? AND " if begins else ""
        stack = self._database.quote("stack")
        rest = (
            f"WHERE {indexed}physical_id = ? AND mapped_type = ? AND stack_id IN"
            f" (SELECT id FROM {stack} WHERE deleted_at IS NULL) ORDER BY id"
        )
        return self._table.select(rest, (*begins, physical_id, mapped_type))
