"""Type of JSON values, and functions that write them."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from typing import Any, TypeAlias

Json: TypeAlias = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
JsonMap: TypeAlias = dict[str, Json]

MAX_DEPTH = 100
"""Levels of lists and maps in a body. The bound makes recursion safe."""


def _encoder(sort_keys: bool) -> Callable[[object], str]:
    """Return a function that writes JSON text without white space.

    It makes the C part of the encoder once: JSONEncoder makes one for each text, which takes longer than most texts.
    The search for circles, which no value of a template has, takes as long as the rest.
    """
    made = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False, sort_keys=sort_keys)
    if c_make_encoder is None:
        return made.encode
    parts = c_make_encoder(None, made.default, encode_basestring, None, ":", ",", sort_keys, False, True)
    return lambda value: "".join(parts(value, 0))


dump = _encoder(sort_keys=False)
"""Return JSON text without white space."""

canonical = _encoder(sort_keys=True)
"""Return JSON text that is equal for equal values, with sorted keys."""


_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # in C if there is a C part


def parse(text: str) -> Any:
    """Return the value of a text that `dump` has written.

    Raises ValueError. `json.loads` takes three times as long for the short texts of rows: it also skips white space.
    """
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        end = None
    if end != len(text):
        raise ValueError(f"not a JSON text: {text[:100]}")
    return value


_ESCAPE = re.compile(r"\\(?:\\|u0000)")
"""An escaped backslash, or NUL. Another escape after an escaped backslash is text."""


def cleaned(value: object) -> Any:
    """Return a value with ``?`` for NUL and lone surrogates, which no database keeps.

    Raises RecursionError for a value that is too deep.
    """
    text = json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()
    return json.loads(_ESCAPE.sub(lambda found: "?" if found[0] == "\\u0000" else found[0], text))


def as_map(value: object) -> JsonMap:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def overlaid(below: Json, above: Json) -> Json:
    """Return a value with another on top. Maps are merged, others replaced."""
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        return {**below, **{key: overlaid(below.get(key), value) for key, value in above.items()}}
    return above


def as_maps(value: object) -> list[JsonMap]:
    """Return the JSON objects of a list; none for any other value."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    """Return a text; None for any other value."""
    return value if isinstance(value, str) else None


def as_texts(value: object) -> tuple[str, ...]:
    """Return the items of a list as texts; none for any other value."""
    return tuple(map(str, value)) if isinstance(value, list) else ()


def whole_numbers(value: Json) -> Json:
    """Return a value in which whole numbers are integers, also those written as 2.0.

    JSON has one kind of numbers, and schemas accept both.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: whole_numbers(one) for name, one in value.items()}
    return [whole_numbers(one) for one in value] if isinstance(value, list) else value


def is_deeper(value: Json, most: int) -> bool:
    """Return True if lists and maps are nested deeper than `most` levels."""
    level = [value]
    for _ in range(most):
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))  # a check of a union takes three times as long
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


def size(value: object, most: int) -> int:
    """Return the approximate size of a value in characters of JSON, up to `most`.

    A part that is referenced twice counts twice, as in the text. So a small graph of shared parts cannot pass for
    small.
    """
    total, todo = 0, [value]
    while todo and total <= most:
        one = todo.pop()
        if type(one) is str:  # most values: a check of an abstract class takes ten times as long
            total += len(one) + 3
        elif type(one) is dict:
            total += 2 + 4 * len(one) + sum(map(len, map(str, one)))
            todo.extend(one.values())
        elif type(one) is list:
            total += 2
            todo.extend(one)
        elif isinstance(one, str):
            total += len(one) + 3
        elif isinstance(one, int):
            total += 2 + one.bit_length() // 3
        elif isinstance(one, (list, tuple)):
            total += 2
            todo.extend(one)
        elif isinstance(one, Mapping):
            total += 2 + 4 * len(one) + sum(map(len, map(str, one)))
            todo.extend(one.values())
        else:
            total += 5
    return total
