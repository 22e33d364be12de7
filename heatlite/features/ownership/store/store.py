"""Resources that no template of a client has named yet."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from heatlite.core.config import Settings
from heatlite.features.ownership.errors import DefinitionOutdated
from heatlite.features.ownership.store.tables import MODELS, UnnamedResource
from heatlite.store.database.sql import chunks, marks
from heatlite.store.database.statements import Row, Value
from heatlite.store.feature_store import ConsistencyRule, FeatureStore, Moved, ObjectNews, OldRows, Series
from heatlite.store.records import EventRecord
from heatlite.store.stacks.adoptions import ROWS

_WITHOUT_OBJECT = ("Quota", "Assignment", "Association", "Attachment", "::ExtraRouteSet")
"""Parts of the names of types whose physical ids are those of other objects.

No pattern of LIKE: drivers would take its % for a mark.
"""
_ELSEWHERE = (
    "SELECT 1 FROM resource other JOIN stack elsewhere ON elsewhere.id = other.stack_id"
    " WHERE other.physical_id = resource.physical_id AND other.mapped_type = resource.mapped_type"
    " AND (other.stack_id <> resource.stack_id OR other.name <> resource.name) AND other.external_id IS NULL"
    " AND elsewhere.deleted_at IS NULL AND elsewhere.project = stack.project"
)
_PRESENT = (
    "EXISTS (SELECT 1 FROM resource WHERE resource.stack_id = unnamed_resource.stack_id"
    " AND resource.name = unnamed_resource.name)"
)
"""Condition on a row: its resource is there, perhaps with another object."""


class OwnershipStore(FeatureStore):
    """Resources whose definitions the server has written.

    They stay until a client sends a template that has them.
    """

    tables = MODELS
    series = Series("ownership", Path(__file__).parent)
    of_stacks = {"unnamed_resource": "stack_id"}
    rules = (
        ConsistencyRule(
            "an object has one owner",
            "resource",
            "SELECT resource.id, resource.physical_id FROM resource JOIN stack ON stack.id = resource.stack_id"
            " WHERE resource.physical_id IS NOT NULL AND resource.external_id IS NULL AND stack.deleted_at IS NULL"
            + "".join(f" AND REPLACE(mapped_type, '{one}', '') = mapped_type" for one in _WITHOUT_OBJECT)
            + f" AND EXISTS ({_ELSEWHERE})",
        ),
    )

    def check_definition(
        self, stack_id: str, defines: Callable[[Sequence[str]], bool], goes_back: bool, takes: bool = False
    ) -> None:
        """Raise DefinitionOutdated if a definition lacks such resources."""
        sql = (
            f"SELECT DISTINCT unnamed_resource.stack_id, name, {_PRESENT} FROM unnamed_resource WHERE stack_id IN"
            " (SELECT id FROM stack WHERE id = ? OR root_id = ? AND deleted_at IS NULL)"
        )
        found = self.database.read(sql, (stack_id, stack_id))
        paths = self._paths(stack_id, [(key, name) for key, name, is_present in found if is_present])
        missing = ["/".join(path) for path in paths if not defines(path)]
        if missing:
            raise DefinitionOutdated(missing, goes_back)
        if takes and found:
            sql = "DELETE FROM unnamed_resource WHERE stack_id IN (SELECT id FROM stack WHERE id = ? OR root_id = ?)"
            self.database.write(sql, (stack_id, stack_id))

    def _paths(self, root_id: str, found: Sequence[Row]) -> list[tuple[str, ...]]:
        """Return the paths of resources in a tree, sorted."""
        above = {} if all(key == root_id for key, _ in found) else self._above(root_id)
        paths = []
        for at, name in found:
            path = [str(name)]
            while at in above:
                at, name = above[at]
                path.insert(0, name)
            paths.append(tuple(path))
        return sorted(paths)

    def _above(self, root_id: str) -> dict[Value, tuple[Value, str]]:
        """Return the parent and the resource of each nested stack of a tree."""
        sql = "SELECT id, parent_id, parent_resource FROM stack WHERE root_id = ? AND deleted_at IS NULL"
        return {key: (parent, str(name)) for key, parent, name in self.database.read(sql, (root_id,))}

    def objects_seen(self, news: ObjectNews) -> list[EventRecord]:
        self._delete(self._ended(news.root_id, news.gone))
        found = [{"resource_id": row.id, "stack_id": row.stack_id, "name": row.name} for row in news.written]
        for some_rows in chunks(found, ROWS):
            self.database.change(UnnamedResource.insert_many(some_rows).on_conflict_ignore())
        return []

    def _ended(self, root_id: str, gone: Sequence[str]) -> list[str]:
        """Return the ids of the rows here whose resources end with these rows.

        A replacement has another one.
        """
        left: dict[str, set[str]] = {}
        for some in chunks(gone):
            sql = (  # CROSS keeps the order of the tables on SQLite: most trees have no row here
                "SELECT unnamed_resource.resource_id, other.id FROM unnamed_resource CROSS JOIN resource"
                " CROSS JOIN resource other"
                " WHERE unnamed_resource.stack_id IN (SELECT id FROM stack WHERE id = ? OR root_id = ?)"
                " AND resource.stack_id = unnamed_resource.stack_id AND resource.name = unnamed_resource.name"
                " AND other.stack_id = resource.stack_id AND other.name = resource.name"
                f" AND resource.id IN ({marks(some)})"
            )
            for key, other in self.database.read(sql, (root_id, root_id, *some)):
                left.setdefault(str(key), set()).add(str(other))
        return [key for key, rows in left.items() if rows <= {*gone}]

    def old_rows(self, settings: Settings, now: float, limit: int) -> Iterator[OldRows]:
        sql = f"SELECT resource_id FROM unnamed_resource WHERE NOT {_PRESENT} ORDER BY resource_id LIMIT ?"
        yield self._delete, [str(key) for (key,) in self.database.read(sql, (limit,))]

    def _delete(self, resource_ids: Sequence[str]) -> None:
        self.database.write_in("DELETE FROM unnamed_resource WHERE resource_id IN ()", resource_ids)

    def resources_moved(self, moved: Moved) -> None:
        moved.rename(self.database, "unnamed_resource", "name")
