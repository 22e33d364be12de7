"""Queries for lists of stacks: filters, tags, sort keys."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import and_, or_

import peewee

from heatlite.core.status import Verb
from heatlite.store.database.database import Dialect
from heatlite.store.tables.access import AccountProject
from heatlite.store.tables.stacks import Stack


@dataclass(frozen=True, slots=True)
class StackQuery:
    """A query for a list of stacks, named as in Heat's query string."""

    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Accepted values by filter. Unknown filters are ignored, as in Heat."""
    tags: Sequence[str] = ()
    """A stack must have all of them."""
    tags_any: Sequence[str] = ()
    not_tags: Sequence[str] = ()
    """A stack must not have all of them."""
    not_tags_any: Sequence[str] = ()
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


def list_conditions(project: str | None, query: StackQuery, dialect: Dialect) -> list[peewee.ColumnBase]:
    """Return the conditions of a list, without its marker."""
    has_tag = partial(_has_tag, dialect)
    out: list[peewee.ColumnBase] = [*in_project(project)]
    if not query.show_deleted:
        out.append(Stack.deleted_at.is_null())
    if not query.show_nested:
        out.append(Stack.parent_id.is_null())
    for name, values in query.filters.items():
        out += _filter(name, values)
    out += map(has_tag, query.tags)
    if query.tags_any:
        out.append(_any(map(has_tag, query.tags_any)))
    if query.not_tags:
        out.append(~reduce(and_, map(has_tag, query.not_tags)))
    out += (~has_tag(tag) for tag in query.not_tags_any)
    return out or [Stack.id.is_null(False)]  # peewee takes no empty list of them


def _has_tag(dialect: Dialect, tag: str) -> peewee.ColumnBase:
    find = peewee.fn.strpos if dialect is Dialect.POSTGRESQL else peewee.fn.instr
    found: peewee.ColumnBase = find(Stack.tags, f",{tag},") > 0
    return found


def in_project(project: str | None) -> Sequence[peewee.ColumnBase]:
    return () if project is None else (Stack.project == project,)


def _filter(name: str, values: Sequence[str]) -> list[peewee.ColumnBase]:
    match name:
        case "status" | "stack_status":
            return [_any(_is_state(value) for value in values)]
        case "timeout_mins":
            return [Stack.timeout_mins.in_([int(value) for value in values if value.isdecimal() and len(value) < 10])]
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
    return reduce(or_, conditions, _NEVER)
