"""Queries for lists of stacks: filters, tags, sort keys."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import and_, or_

import peewee
from msgspec import Struct

from heatlite.core.status import Verb
from heatlite.store.database.backend import Backend
from heatlite.store.database.statements import Value
from heatlite.store.feature_store import HealthTable, StackFilter
from heatlite.store.tables.access import AccountProject
from heatlite.store.tables.health import FAILED_BEFORE_LOCK
from heatlite.store.tables.stacks import Resource, Stack


class StackQuery(Struct, frozen=True):
    """A query for a list of stacks, named as in Heat's query string."""

    filters: Mapping[str, Sequence[str]] = {}
    """Accepted values by filter."""
    search: str = ""
    """A part of the name, in any case."""
    tags: Sequence[str] = ()
    """A stack must have all of them."""
    tags_any: Sequence[str] = ()
    not_tags: Sequence[str] = ()
    """A stack must not have all of them."""
    not_tags_any: Sequence[str] = ()
    locked: bool = False
    """Only stacks with a lock of their own."""
    unhealthy: bool = False
    """Only roots of trees with an unhealthy resource, as `ProjectCounts` counts them."""
    of_features: Sequence[tuple[StackFilter, Value]] = ()
    """Filters of features with their values; None: the filter has no parameter."""
    show_deleted: bool = False
    show_nested: bool = False
    sort_keys: Sequence[str] = ()
    """stack_name, stack_status, creation_time, updated_time; others are ignored. Empty: newest first."""
    sort_dir: str | None = None
    """asc (the default with sort keys) or desc."""
    limit: int | None = None
    marker: str | None = None
    """Id of the last stack of the page before; an unknown one is ignored."""


_EQUAL_TO: Mapping[str, peewee.ColumnBase] = {
    "id": Stack.id,
    "name": Stack.name,
    "stack_name": Stack.name,
    "action": Stack.verb,
    "stack_action": Stack.verb,
    "tenant": Stack.project,
    "tenant_id": Stack.project,
    "username": Stack.username,
    "stack_owner": Stack.username,
    "owner_id": Stack.parent_id,
    "parent": Stack.parent_id,
    "stack_status_reason": Stack.status_reason,
}

_NEVER = peewee.SQL("1 = 0")

# NULL sorts first on all databases, as in Heat on MariaDB.
SORTED_BY: Mapping[str, peewee.ColumnBase] = {
    "stack_name": Stack.name,
    "stack_status": Stack.status,
    "creation_time": Stack.created_at,
    "updated_time": peewee.fn.COALESCE(Stack.updated_at, 0.0),
}


def list_conditions(
    project: str | None, query: StackQuery, backend: Backend, tables: Iterable[HealthTable]
) -> list[peewee.ColumnBase]:
    """Return the conditions of a list, without its marker."""
    has_tag = partial(_has_tag, backend)
    out: list[peewee.ColumnBase] = [*in_project(project)]
    if not query.show_deleted:
        out.append(Stack.deleted_at.is_null())
    if not query.show_nested:
        out.append(Stack.parent_id.is_null())
    for name, values in query.filters.items():
        out += _filter(name, values)
    if query.search:
        out.append(_contains(backend, peewee.fn.LOWER(Stack.name), query.search.lower()))
    if query.locked:
        out.append(Stack.lock_level.is_null(False))
    if query.unhealthy:
        out.append(_is_unhealthy(project, tables))
    out += [_passes(one, value, project) for one, value in query.of_features]
    if query.tags:
        out.append(_joined(and_, map(has_tag, dict.fromkeys(query.tags))))
    if query.tags_any:
        out.append(_any(map(has_tag, dict.fromkeys(query.tags_any))))
    if query.not_tags:
        out.append(~_joined(and_, map(has_tag, dict.fromkeys(query.not_tags))))
    if query.not_tags_any:
        out.append(~_any(map(has_tag, dict.fromkeys(query.not_tags_any))))
    return out or [Stack.id.is_null(False)]  # peewee takes no empty list of them


def _passes(one: StackFilter, value: Value, project: str | None) -> peewee.ColumnBase:
    sql, values = one.roots, [] if value is None else [value]
    if one.project and project is not None:
        sql, values = f"{sql} AND {one.project} = ?", [*values, project]
    found: peewee.ColumnBase = Stack.id.in_(peewee.SQL(f"({sql})", values))
    return found


def _has_tag(backend: Backend, tag: str) -> peewee.ColumnBase:
    return _contains(backend, Stack.tags, f",{tag},")


def _contains(backend: Backend, column: peewee.ColumnBase, part: str) -> peewee.ColumnBase:
    find = getattr(peewee.fn, backend.find_text)
    found: peewee.ColumnBase = find(column, part) > 0
    return found


def _is_unhealthy(project: str | None, tables: Iterable[HealthTable]) -> peewee.ColumnBase:
    inner = Stack.alias()
    is_failed = Resource.before_lock.is_null() & (Resource.verb == "CHECK") & (Resource.status == "FAILED")
    was_failed = peewee.fn.SUBSTR(Resource.before_lock, 1, len(FAILED_BEFORE_LOCK)) == FAILED_BEFORE_LOCK
    failed = inner.select(peewee.fn.COALESCE(inner.root_id, inner.id)).join(Resource, on=Resource.stack_id == inner.id)
    failed = failed.where(inner.deleted_at.is_null(), is_failed | was_failed)
    if project is not None:
        failed = failed.where(inner.project == project)
    found = Stack.id.in_(failed)
    for one in tables:
        table = peewee.Table(one.name)
        marked = table.select(table.c.root_id).where(peewee.SQL(one.unhealthy))
        found |= Stack.id.in_(marked if project is None else marked.where(table.c.project == project))
    return found


def in_project(project: str | None) -> Sequence[peewee.ColumnBase]:
    return () if project is None else (Stack.project == project,)


def _filter(name: str, values: Sequence[str]) -> list[peewee.ColumnBase]:
    match name:
        case "status" | "stack_status":
            return [_any(map(_is_state, dict.fromkeys(values)))]
        case "timeout_mins":
            numbers = [int(one) for one in values if one.isascii() and one.isdecimal() and len(one) < 10]
            return [Stack.timeout_mins.in_(numbers)]
        case "disable_rollback":
            return [Stack.disable_rollback.in_([value.lower() == "true" for value in values])]
        case "stack_user_project_id":
            projects = AccountProject.select(AccountProject.root_id)
            roots = projects.where(AccountProject.project_id.in_(list(values)))
            return [Stack.id.in_(roots) | Stack.root_id.in_(roots)]
        case _:
            return [_EQUAL_TO[name].in_(list(values))] if name in _EQUAL_TO else []


def _is_state(value: str) -> peewee.ColumnBase:
    """Return the condition for ``COMPLETE`` or ``CREATE_COMPLETE``."""
    verb, _, status = value.partition("_")
    if verb in Verb.__members__:
        return (Stack.verb == verb) & (Stack.status == status)
    return Stack.status == value


def _any(conditions: Iterable[peewee.ColumnBase]) -> peewee.ColumnBase:
    found = [*conditions]
    return _joined(or_, found) if found else _NEVER


def _joined(
    join: Callable[[peewee.ColumnBase, peewee.ColumnBase], peewee.ColumnBase], conditions: Iterable[peewee.ColumnBase]
) -> peewee.ColumnBase:
    """Join one or more conditions in pairs, and the pairs.

    One after another they would be too deep for peewee and for SQLite.
    """
    found = [*conditions]
    while len(found) > 1:
        found = [join(*found[at : at + 2]) if at + 1 < len(found) else found[at] for at in range(0, len(found), 2)]
    return found[0]
