"""Type of JSON values, and functions that read and write JSON texts."""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import msgspec

Json: TypeAlias = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
JsonMap: TypeAlias = dict[str, Json]

AnyMap: TypeAlias = dict[str, Any]
"""A JSON object in a struct that is read from JSON. msgspec knows no type that names itself, as `Json` does."""

MAX_DEPTH = 100
"""Levels of lists and maps in a body. The bound makes recursion safe."""


def _writer(sort_keys: bool) -> Callable[[object], str]:
    write = msgspec.json.Encoder(order="sorted" if sort_keys else None).encode
    python = json.JSONEncoder(
        separators=(",", ":"), ensure_ascii=False, sort_keys=sort_keys, default=msgspec.to_builtins
    )

    def written(value: object) -> str:
        try:
            return write(value).decode()
        except (TypeError, UnicodeEncodeError):  # a key such as True, a subclass of str, half of a surrogate pair
            return python.encode(value)

    return written


dump = _writer(sort_keys=False)
"""Return JSON text without white space. It has null for NaN and infinite numbers."""

canonical = _writer(sort_keys=True)
"""Return JSON text that is equal for equal values, with sorted keys."""


def heat_text(value: object, sort_keys: bool = False) -> str:
    """Return JSON text as Heat writes it: with spaces, in ASCII."""
    return json.dumps(value, sort_keys=sort_keys)


def pretty(value: object, indent: int = 2) -> str:
    """Return JSON text for people. Without an indent it is one line, with spaces."""
    return msgspec.json.format(dump(value), indent=indent)


_read = msgspec.json.Decoder().decode


def parse(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    As Python's json, accepts NaN, infinite numbers and halves of surrogate pairs: the database may have some. Raises
    ValueError, which names line and column.
    """
    try:
        return _read(text)
    except ValueError:
        return json.loads(text)


def decoder(kind: Any) -> Callable[[str | bytes], Any]:
    """Return the fastest function that reads a JSON text as a type, such as a struct.

    It refuses some texts that `parser` accepts. Raises ValueError.
    """
    return msgspec.json.Decoder(kind).decode


def parser(kind: Any) -> Callable[[str | bytes], Any]:
    """Return a function that reads a JSON text as a type, such as a struct.

    It accepts what `parse` accepts.
    """
    read = decoder(kind)

    def typed(text: str | bytes) -> Any:
        try:
            return read(text)
        except ValueError:
            return msgspec.convert(parse(text), kind)

    return typed


def parse_finite(text: str) -> Any:
    """Return the value of a JSON text.

    Raises ValueError, also for NaN and numbers that would be infinite: no JSON can repeat them.
    """
    try:
        return _read(text)
    except ValueError:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


_ESCAPE = re.compile(r"\\(?:\\|u0000)")
"""An escaped backslash, or NUL. Another escape after an escaped backslash is text."""


def without_nul(text: str, mark: str) -> str:
    """Return a JSON text with `mark` for each escaped NUL, which no database keeps."""
    return _ESCAPE.sub(lambda found: mark if found[0] == "\\u0000" else found[0], text)


def cleaned(value: object) -> Any:
    """Return a value with ``?`` for NUL and lone surrogates, which no database keeps.

    Raises RecursionError for a value that is too deep.
    """
    text = json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()
    return json.loads(without_nul(text, "?"))


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


def pointer(path: Iterable[str | int]) -> str:
    """Return the JSON Pointer (RFC 6901) of a path of keys and indexes."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def steps(pointer: str) -> tuple[str, ...]:
    """Return the steps of a JSON Pointer."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def same(one: object, other: object) -> bool:
    """Equal, and true is not 1 (Python holds them equal, JSON does not)."""
    if one != other:
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(value, other[key]) for key, value in one.items() if type(value) is not str)
    if isinstance(one, list) and isinstance(other, list):
        return all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool)


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
