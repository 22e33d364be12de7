"""The type of a value that survives a trip through JSON, and the one way we write it."""

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
JsonMap: TypeAlias = dict[str, Json]

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_encode_sorted = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode


def dump(value: object) -> str:
    """JSON text without white space."""
    return _encode(value)


def canonical(value: object) -> str:
    """JSON text that is equal for equal values, whatever the order of their keys."""
    return _encode_sorted(value)
