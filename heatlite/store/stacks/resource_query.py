"""Queries for lists of resources."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from heatlite.core.status import Verb
from heatlite.store.database.backend import Backend
from heatlite.store.database.sql import marks
from heatlite.store.database.statements import Value
from heatlite.store.feature_store import HealthTable
from heatlite.store.tables.health import MAY_BE_UNWELL

INDEXED = 64
"""Characters of a physical id or name in its index."""


class ResourceQuery(Struct, frozen=True):
    """Filters of a list of resources.

    An empty one accepts all values, of several values one is enough.
    """

    type: Sequence[str] = ()
    """Parts of the type's name."""
    status: Sequence[str] = ()
    """COMPLETE and the like, or CREATE_COMPLETE."""
    name: Sequence[str] = ()
    action: Sequence[str] = ()
    id: Sequence[str] = ()
    physical_resource_id: Sequence[str] = ()
    unwell_of: str | None = None
    """A tree: only those of its resources whose health may be other than good."""

    @property
    def accepts_all(self) -> bool:
        """True without filters."""
        return self == _ALL


_ALL = ResourceQuery()

CURRENT = (
    "NOT EXISTS (SELECT 1 FROM {resource} other WHERE other.stack_id = item.stack_id AND other.name = item.name"
    " AND (item.verb = 'DELETE' AND other.verb <> 'DELETE'"
    " OR (item.verb = 'DELETE' OR other.verb <> 'DELETE') AND other.id > item.id))"
)
"""The condition for the current row of a name, as `current_rows` finds it; others wait for their clean-up."""


def has_one_of(backend: Backend, values: Sequence[str], column: str = "physical_id") -> tuple[str, Sequence[str]]:
    """Return a condition on the physical id or name, by an index, and its values."""
    # The index has the first characters: MariaDB finds them itself.
    if backend.finds_prefixes:
        return f"{column} IN ({marks(values)})", values
    begins = [one[:INDEXED] for one in values]
    indexed = f"substr({column}, 1, {INDEXED}) IN ({marks(begins)})"
    return f"{indexed} AND {column} IN ({marks(values)})", (*begins, *values)


def conditions(
    backend: Backend, query: ResourceQuery, tables: Sequence[HealthTable]
) -> Iterator[tuple[str, Sequence[Value]]]:
    """Yield the conditions on a row `item` of the table `resource`, and their values."""
    for column, wanted in (("name", query.name), ("verb", query.action), ("id", query.id)):
        if wanted:
            yield f"item.{column} IN ({marks(wanted)})", wanted
    if query.status:
        yield _one_of([_state(value) for value in query.status])
    if query.type:
        yield _one_of([(f"{backend.find_text}(item.type, ?) > 0", (part,)) for part in query.type])
    if query.physical_resource_id:
        yield has_one_of(backend, query.physical_resource_id)
    if query.unwell_of is not None:
        found = [f"SELECT resource_id FROM {one.name} WHERE root_id = ? AND {one.stands}" for one in tables]
        known = "".join(f" OR item.id IN ({one})" for one in found)
        yield f"({MAY_BE_UNWELL}{known})", (query.unwell_of,) * len(found)


def _one_of(alternatives: Sequence[tuple[str, Sequence[Value]]]) -> tuple[str, Sequence[Value]]:
    return f"({' OR '.join(sql for sql, _ in alternatives)})", [one for _, values in alternatives for one in values]


def _state(value: str) -> tuple[str, Sequence[Value]]:
    verb, _, status = value.partition("_")
    if verb in Verb.__members__:
        return "item.verb = ? AND item.status = ?", (verb, status)
    return "item.status = ?", (value,)
