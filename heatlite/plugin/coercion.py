"""Coercion of property values to the kinds of the wire.

Rules and error texts are Heat's.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, cast

from heatlite.core.json import Json


class PropertyKind(StrEnum):
    """The type of a property as the wire names it."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    MAP = "map"
    LIST = "list"
    ANY = "any"


def _string(value: object) -> Json:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return str(value)
    raise ValueError(f"Value must be a string; got {value!r}")


def _integer(value: object) -> Json:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    raise ValueError(f"Value '{value}' is not an integer")


def _number(value: object) -> Json:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return value
    raise ValueError(f"Value '{value}' is not a number")


def _boolean(value: object) -> Json:
    if isinstance(value, bool):
        return value
    lowered = value.lower() if isinstance(value, str) else ""
    if lowered not in ("true", "false"):
        raise ValueError(f'"{value}" is not a valid boolean')
    return lowered == "true"


def _list(value: object) -> Json:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    raise ValueError(f'"{value!r}" is not a list')


def _map(value: object) -> Json:
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f'"{value}" is not a map')


def _any(value: object) -> Json:
    return cast(Json, value)  # templates resolve to JSON


CONVERTERS: Final[Mapping[PropertyKind, Callable[[object], Json]]] = {
    PropertyKind.STRING: _string,
    PropertyKind.INTEGER: _integer,
    PropertyKind.NUMBER: _number,
    PropertyKind.BOOLEAN: _boolean,
    PropertyKind.LIST: _list,
    PropertyKind.MAP: _map,
    PropertyKind.ANY: _any,
}

NULLS: dict[PropertyKind, Json] = {
    PropertyKind.STRING: "",
    PropertyKind.INTEGER: 0,
    PropertyKind.NUMBER: 0,
    PropertyKind.BOOLEAN: False,
    PropertyKind.LIST: [],
    PropertyKind.MAP: {},
    PropertyKind.ANY: None,
}


def convert(kind: PropertyKind, value: object) -> Json:
    """Return the value as one of this kind. Raises ValueError with Heat's text.

    Booleans and integers become text where text is expected. Numeric text becomes a number, the texts true and false
    become booleans. A null becomes the kind's empty value.
    """
    return NULLS[kind] if value is None else CONVERTERS[kind](value)
