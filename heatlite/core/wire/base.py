"""Bodies and answers as structs.

The server reads bodies and builds answers with them. `tools.openapi` makes the schemas of their types and docstrings,
and with them the tables of the reference. The command line takes its columns from them.
"""

from functools import cache
from typing import Annotated, TypeAlias, TypeVar, get_args

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import astuple, fields

from heatlite.core.clock import to_text
from heatlite.core.json import AnyMap, JsonMap

Kind = TypeVar("Kind", bound="Answer")

ShortText: TypeAlias = Annotated[str, Meta(max_length=255)]
_TIME = Meta(extra_json_schema={"format": "date-time"})
Time: TypeAlias = Annotated[str, _TIME]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Paths: TypeAlias = Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(min_length=1, max_length=1000)]
"""Paths of resources that a body names."""
_LINK = {"href": {"type": "string"}, "rel": {"type": "string"}}
Links: TypeAlias = list[Annotated[AnyMap, Meta(extra_json_schema={"properties": _LINK, "required": [*_LINK]})]]


class Body(Struct, frozen=True, forbid_unknown_fields=True):
    """A body, or the value of an action, that has no other keys."""


class Answer(Struct, frozen=True, kw_only=True):
    """An object of an answer. A field that is UNSET is no key of it."""


def column(place: int, name: str = "") -> Meta:
    """Mark a field as a column of the command line's table, at a place.

    `name` is that of a column which the command line makes of the field.
    """
    return Meta(extra={"column": (place, name)})


@cache
def columns(*kinds: type[Answer]) -> tuple[str, ...]:
    """Return the columns of a table of answers that have the fields of these kinds."""
    found = []
    for field in (one for kind in kinds for one in fields(kind)):
        for mark in getattr(field.type, "__metadata__", ()):
            if isinstance(mark, Meta) and mark.extra and "column" in mark.extra:
                place, name = mark.extra["column"]
                found.append((place, name or field.encode_name))
    return tuple(name for _, name in sorted(found))


def shown(answer: Struct) -> JsonMap:
    """Return an answer as JSON. Lists make hundreds: plain fields cost no call."""
    found: JsonMap = dict(zip(answer.__struct_encode_fields__, astuple(answer), strict=True))
    for name in _uneven(type(answer)):
        value: object = found[name]
        if value is UNSET:
            del found[name]
        elif isinstance(value, Struct):
            found[name] = shown(value)
        elif isinstance(value, list):
            found[name] = [shown(one) for one in value]
    return found


@cache
def _uneven(kind: type[Struct]) -> tuple[str, ...]:
    """Return the keys whose fields may be UNSET or have structs."""
    return tuple(field.encode_name for field in fields(kind) if _is_uneven(field.type))


def _is_uneven(kind: object) -> bool:
    if kind is UnsetType or (isinstance(kind, type) and issubclass(kind, Struct)):
        return True
    return any(map(_is_uneven, get_args(kind)))


@cache
def _times(kind: type[Answer]) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind) if _is_time(field.type))


def _is_time(kind: object) -> bool:
    return _TIME in getattr(kind, "__metadata__", ()) or any(map(_is_time, get_args(kind)))


def filled(kind: type[Kind], record: Struct, **more: object) -> Kind:
    """Return the answer whose fields are those of a record, apart from `more`.

    Times of the record are seconds since the epoch.
    """
    timed = _times(kind)
    values = {
        name: to_text(getattr(record, name)) if name in timed else getattr(record, name)
        for name in kind.__struct_fields__
        if name not in more
    }
    return kind(**values, **more)
