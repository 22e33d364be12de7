"""Lists of a project's actions in pages, and search by id or name.

A page has a constant cost: it is read range by range, each range along one index. A single statement would be shorter,
but each of the three databases plans it badly in its own way.
"""

import re
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from heatlite.core.errors import HTTPBadRequest
from heatlite.core.status import ActionStatus, Cause, Verb
from heatlite.store.actions.table import ROWS
from heatlite.store.database.sql import chunks, marks
from heatlite.store.database.statements import Row, Value
from heatlite.store.records import ActionRecord, Relations
from heatlite.store.secrets.cipher import PREFIX
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table

MIN_ID_LENGTH = 4
"""Least number of characters of an id in a search."""

_INDEXED = {
    "name": "name", "target": "stack_id", "action": "verb", "created_at": "seq", "status": "status", "cause": "cause",
}  # fmt: skip
"""Sort keys with an index, and their columns. `seq` has the order of creation, independent of clocks."""
SORTED_BY = _INDEXED | {
    "id": "id",
    "status_reason": "status_reason",
    "control": "coalesce(control, '')",
    "owner": "coalesce(owner, '')",
    "user": "requested_by",
    "updated_at": "coalesce(updated_at, 0)",
    "not_before": "coalesce(not_before, 0)",
    "start_time": "coalesce(started_at, 0)",
    "stop_time": "coalesce(finished_at, 0)",
    "end_time": "coalesce(finished_at, 0)",
    "deadline": "coalesce(deadline, 0)",
    "timeout": "timeout",
    "interval": "action.interval",
    "attempt": "attempt",
    "retries": "retries",
    "parent": "coalesce(parent_id, '')",
}
"""Sort keys and their columns. What is not set comes first."""
MAX_SORTED = 10_000
"""Actions that a list sorts by a key without an index."""

Order: TypeAlias = list[tuple[str, bool]]
"""Columns, each with True for descending. The last is always `seq`, so that there are no ties."""
Condition: TypeAlias = tuple[str, Sequence[Value]]
"""SQL with ``?`` for each parameter, and the parameters."""


class ActionQuery(Struct, frozen=True):
    """A query for a list of actions. An empty filter accepts all values."""

    limit: int
    name: Sequence[str] = ()
    target: Sequence[str] = ()
    stack: Sequence[str] = ()
    """As `target`; an action passes both."""
    cause: Sequence[Cause] = ()
    verb: Sequence[Verb] = ()
    status: Sequence[ActionStatus] = ()
    sort: Sequence[tuple[str, bool]] = ()
    """Different keys of SORTED_BY, each with True for descending. Empty: newest first."""
    marker: str | None = None
    """Id of the last action of the page before."""


class ActionList:
    """Lists the actions of projects, without requests."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self._table = Table(encryption, ROWS)
        self._database = database = encryption.database
        # Left out are requests, and the inputs of an adoption or a restore: a whole stack, maybe megabytes. No other
        # encrypted inputs are so long.
        shown = {
            "request": "NULL",
            "inputs": f"""CASE WHEN substr(inputs, 1, 13) = '{{"resources":' OR (length(inputs) > 4000 AND """
            f"""substr(inputs, 1, {len(PREFIX)}) = '{PREFIX}') THEN '{{}}' ELSE inputs END""",
        }
        self._shown = ", ".join(shown.get(name, database.quote(name)) for name in ROWS.columns)

    def page(self, project: str, query: ActionQuery) -> list[ActionRecord]:
        """Return a page of a project's actions.

        Raises HTTPBadRequest for an unknown marker, and if there is too much to sort.
        """
        order = _order(query.sort)
        self._check_sort(project, query)
        ranges: list[tuple[list[Condition], Order]] = [([], order)]
        if query.marker is not None:
            ranges = _after(order, self._keys(project, query.marker, order))
        found: list[ActionRecord] = []
        for conditions, within in ranges:
            if len(found) < query.limit:
                found += self._range(project, query, conditions, within, order[0][0], query.limit - len(found))
        return found

    def _keys(self, project: str, marker: str, order: Order) -> Row:
        columns = ", ".join(column for column, _ in order)
        sql = f"SELECT {columns} FROM action WHERE project = ? AND id = ?"
        for keys in self._database.read(sql, (project, marker)):
            return keys
        raise HTTPBadRequest(f"marker must be the id of an action of this project: there is no {marker}.")

    def _range(
        self, project: str, query: ActionQuery, conditions: Sequence[Condition], order: Order, first: str, limit: int
    ) -> list[ActionRecord]:
        """Return the first `limit` actions that pass the filters and the conditions.

        `first` is the first column of the list's order.
        """
        filters = _filters(query)
        walks: list[list[Condition]] = [[_in(column, values) for column, values in filters]]
        index = "" if filters or first not in _INDEXED.values() else first
        if filters and first == "seq":
            (index, each), *others = filters
            # In a form without an index, so that no planner chooses another one.
            rest = [_in(f"coalesce({column}, '')", values) for column, values in others]
            walks = [[(f"{index} = ?", [value]), *rest] for value in dict.fromkeys(each)]
        found: list[ActionRecord] = []
        for walk in walks:
            found += self._select([("project = ?", [project]), *walk, *conditions], limit, order, index)
        if len(walks) > 1:
            found.sort(key=lambda action: action.seq, reverse=order[0][1])
        return found[:limit]

    def _check_sort(self, project: str, query: ActionQuery) -> None:
        """Raise HTTPBadRequest if a key without an index sorts too many actions."""
        slow = [key for key, _ in query.sort if key not in _INDEXED]
        if not slow:
            return
        found = [("project = ?", [project]), *(_in(column, values) for column, values in _filters(query))]
        sql = f"SELECT 1 FROM action WHERE {' AND '.join(condition for condition, _ in found)} LIMIT {MAX_SORTED + 1}"
        values = [value for _, some in found for value in some]
        ((count,),) = self._database.read(f"SELECT COUNT(*) FROM ({sql}) found", values)
        if count > MAX_SORTED:
            raise HTTPBadRequest(
                f"Sorting by {slow[0]} takes at most {MAX_SORTED} actions, and more than that match. Add a filter, such"
                f" as stack; or sort by {', '.join(_INDEXED)}."
            )

    def find(self, project: str, reference: str, most: int) -> list[ActionRecord]:
        """Return a project's actions with this id, else this name, else this id prefix.

        At most `most`, newest first.
        """
        for column in ("id", "name"):
            found = self._select([("project = ?", [project]), (f"{column} = ?", [reference])], most, [("seq", True)])
            if found:
                return found
        digits = reference.replace("-", "").lower()
        if re.fullmatch(rf"[0-9a-f]{{{MIN_ID_LENGTH},32}}", digits) is None:
            return []
        # Whole ids as bounds: they sort alike under the collations of all databases.
        begins = ("id BETWEEN ? AND ?", [_dashed(digits.ljust(32, "0")), _dashed(digits.ljust(32, "f"))])
        found = self._select([begins, ("coalesce(project, '') = ?", [project])], most, [])
        return sorted(found, key=lambda action: -action.seq)

    def relations(self, actions: Sequence[ActionRecord]) -> dict[str, Relations]:
        """Return the dependencies and dependents of each action, by id.

        A parent depends on its children.
        """
        on: dict[str, list[str]] = {action.id: [] for action in actions}
        by: dict[str, list[str]] = {action.id: [action.parent_id] if action.parent_id else [] for action in actions}
        for some in chunks(list(on)):
            pairs = "SELECT dependent, depended FROM dependency WHERE"
            forward = f"{pairs} dependent IN ({marks(some)}) ORDER BY depended"
            for dependent, depended in self._database.read(forward, some):
                on[dependent].append(depended)
            backward = f"{pairs} depended IN ({marks(some)}) ORDER BY dependent"
            for dependent, depended in self._database.read(backward, some):
                by[depended].append(dependent)
            derived = f"SELECT parent_id, id FROM action WHERE parent_id IN ({marks(some)}) ORDER BY seq"
            for parent, child in self._database.read(derived, some):
                on[parent].append(child)
        return {action_id: Relations(tuple(on[action_id]), tuple(by[action_id])) for action_id in on}

    def _select(
        self, conditions: Sequence[Condition], limit: int, order: Order, index: str = ""
    ) -> list[ActionRecord]:
        """Return actions. `index` is the column whose index is to be used; "": any."""
        sql = f"SELECT {self._shown} FROM action"
        if index:
            name = f"action_project_{'seq' if index == 'seq' else f'{index}_seq'}"
            sql += self._database.backend.force_index.format(index=name)
        sql += f" WHERE {' AND '.join(condition for condition, _ in conditions)}"
        if order:
            sql += f" ORDER BY {', '.join(f'{column} DESC' if down else column for column, down in order)}"
        values = [value for _, values in conditions for value in values]
        return self._table.records(self._database.read(f"{sql} LIMIT {limit}", values))


def _filters(query: ActionQuery) -> list[tuple[str, Sequence[str]]]:
    """Return the columns that a query filters, and their values.

    The index of the first one is used: a target has few actions, and most actions have succeeded.
    """
    common = ActionStatus.SUCCEEDED in query.status
    filters: list[tuple[str, Sequence[str]]] = [
        ("stack_id", query.target),
        ("stack_id", query.stack),
        ("name", query.name),
        ("status", () if common else query.status),
        ("verb", query.verb),
        ("cause", query.cause),
        ("status", query.status if common else ()),
    ]
    return [(column, values) for column, values in filters if values]


def _in(column: str, values: Sequence[str]) -> Condition:
    return f"{column} IN ({marks(values)})", values


def _order(sort: Sequence[tuple[str, bool]]) -> Order:
    order = [(SORTED_BY[key], descending) for key, descending in sort] or [("seq", True)]
    numbered = next((at for at, (column, _) in enumerate(order) if column == "seq"), None)
    return [*order, ("seq", order[-1][1])] if numbered is None else order[: numbered + 1]


def _after(order: Order, keys: Sequence[Value]) -> list[tuple[list[Condition], Order]]:
    """Return the ranges that together follow the keys, each with its order."""
    ranges: list[tuple[list[Condition], Order]] = []
    for at in reversed(range(len(order))):
        equal = [(f"{column} = ?", [key]) for (column, _), key in zip(order[:at], keys, strict=False)]
        column, descending = order[at]
        ranges.append(([*equal, (f"{column} {'<' if descending else '>'} ?", [keys[at]])], order[at:]))
    return ranges


def _dashed(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
