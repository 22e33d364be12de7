"""Records and tables agree, and each record is read as it was written."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from enum import StrEnum
from inspect import get_annotations
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest
from msgspec import Struct

import heatlite
from heatlite.store.records import ProtectionRecord
from heatlite.store.rows import Rows
from heatlite.store.stacks.resources import _ROWS as RESOURCES


def _all_rows() -> Iterator[tuple[str, Rows[Any]]]:
    """Yield the rows of all modules of stores.

    Those of databases have none, and need drivers.
    """
    for module in pkgutil.walk_packages(heatlite.__path__, "heatlite."):
        if ".store." in module.name and not re.search("migrations|store.database", module.name):
            for name, found in vars(importlib.import_module(module.name)).items():
                if isinstance(found, Rows):
                    yield f"{module.name.removeprefix('heatlite.')}.{name}", found


ALL = dict(_all_rows())
every = pytest.mark.parametrize("rows", ALL.values(), ids=ALL.keys())


def types_of(record: type[Struct]) -> dict[str, Any]:
    known = {name: kind for base in record.__mro__ for name, kind in get_annotations(base).items()}
    return {name: known[name] for name in record.__struct_fields__}


def without_none(kind: Any) -> tuple[Any, bool]:
    """A type without None, and whether it had None."""
    if get_origin(kind) in (Union, UnionType):
        rest = [one for one in get_args(kind) if one is not type(None)]
        return rest[0], len(rest) < len(get_args(kind))
    return kind, False


def sample(kind: Any, name: str) -> Any:
    """A value of a type that is not its default."""
    kind, _ = without_none(kind)
    outer = get_origin(kind) or kind
    if outer is Any:
        return {"deep": [1, None, "ä"]}
    if outer is tuple:
        return (sample(get_args(kind)[0], name),)
    if outer is frozenset:
        return frozenset({sample(get_args(kind)[0], name)})
    if outer is dict or outer.__name__ == "Mapping":
        value = get_args(kind)[1]
        return {name: {"deep": [1, None, "ä"]} if value is Any else sample(value, "one")}
    if outer.__name__ == "Sequence":
        return [name]
    if issubclass(outer, StrEnum):
        return [*outer][-1]
    if issubclass(outer, Struct):
        if outer.__module__ == "heatlite.core.actions.payloads":
            return outer()
        # A text names the struct itself, which ends somewhere.
        fields = {field: one for field, one in types_of(outer).items() if not isinstance(one, str)}
        return outer(**{field: sample(one, field) for field, one in fields.items()})
    return {str: f"the {name}", int: 7, float: 1.5, bool: True}[outer]


def made(rows: Rows[Any], **fields: Any) -> Any:
    return rows.record(**{name: sample(kind, name) for name, kind in types_of(rows.record).items()} | fields)


@every
def test_a_record_is_read_as_it_was_written(rows: Rows[Any]) -> None:
    record = made(rows)
    (row,) = rows.rows([record])
    assert all(type(cell) in (str, int, float, bool) or cell is None for cell in row)
    assert rows.records([row[: len(rows.columns)]]) == [record]


@every
def test_none_is_read_as_it_was_written(rows: Rows[Any]) -> None:
    record = made(rows, **{name: None for name, kind in types_of(rows.record).items() if without_none(kind)[1]})
    (row,) = rows.rows([record])
    assert rows.records([row[: len(rows.columns)]]) == [record]


@every
def test_a_column_is_null_where_its_field_may_be_none(rows: Rows[Any]) -> None:
    known = rows.model._meta.fields
    plain = {name: kind for name, kind in types_of(rows.record).items() if name != "lock"}
    for column, (name, kind) in zip(rows.columns, plain.items(), strict=False):
        # NULL is an episode that has ended; a suppressed request is stored with the time of its last repeat; None as
        # the value of an output is the text null.
        if name not in ("is_open", "last_time", "value"):
            assert known[column].null >= without_none(kind)[1], name


def test_text_that_only_python_reads_is_read() -> None:
    (row,) = RESOURCES.rows([made(RESOURCES)])
    cells = dict(zip(RESOURCES.columns, row, strict=True))
    cells["properties"] = '{"size": Infinity}'
    cells["protection"] = '["ann \\ud800", 1.0, null]'
    (found,) = RESOURCES.records([(*cells.values(),)])
    assert found.properties == {"size": float("inf")}
    assert found.protection == ProtectionRecord("ann \ud800", 1.0)


def test_a_field_without_a_column_is_refused() -> None:
    class Longer(ProtectionRecord, frozen=True):
        unknown: str = ""

    with pytest.raises(KeyError):
        Rows(Longer, RESOURCES.model)
