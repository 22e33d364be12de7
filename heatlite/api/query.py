"""Query strings. Error texts are Heat's."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar
from urllib.parse import parse_qsl

from heatlite.api.request import Request
from heatlite.core.clock import from_text
from heatlite.core.errors import HTTPBadRequest, Invalid, InvalidValue
from heatlite.plugin.signing import Proof

MAX_INTEGER = 2**31 - 1
"""The largest integer that every database accepts."""

Choice = TypeVar("Choice")

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)


def truth(name: str, value: object, error: type[Invalid] = HTTPBadRequest) -> bool:
    """Read a JSON boolean, or the text true or false in any case. Raises `error`."""
    text = str(value).lower() if isinstance(value, (bool, str)) else ""
    if text not in ("true", "false"):
        raise error(f'Unrecognized value "{value}" for "{name}", acceptable values are: true, false.')
    return text == "true"


def non_negative(name: str, value: object) -> int:
    """Read a non-negative integer or its text. Raises HTTPBadRequest."""
    text = str(value) if isinstance(value, (int, str)) else ""
    if _INTEGER.fullmatch(text) is None:
        raise HTTPBadRequest(f"Only integer is acceptable by '{name}'.")
    number = int(text)
    if number < 0:
        raise HTTPBadRequest(f"Value '{number}' is invalid for '{name}' which only accepts non-negative integer.")
    if number > MAX_INTEGER:
        raise HTTPBadRequest(f"Value '{number}' is invalid for '{name}': the largest is {MAX_INTEGER}.")
    return number


def values(req: Request, name: str) -> tuple[str, ...]:
    """Return every value of a key in order."""
    found = req.params.get(name, ())
    return (found,) if isinstance(found, str) else tuple(found)


def text(req: Request, name: str, blank: bool = False) -> str | None:
    """Return the last value of a key.

    With `blank`, an empty one counts as none, as in Heat's lists.
    """
    found = values(req, name)
    return (found[-1] or None if blank else found[-1]) if found else None


FAIL_FAST = "fail_fast"
"""Key that the sender of a signal appends; it is no part of what is signed."""


def proof(req: Request) -> Proof:
    """Return the proof of the right to signal: the signature of the URL, or a token."""
    given = parse_qsl(req.query_string, keep_blank_values=True)
    signed = [one for one in given if one[0] != FAIL_FAST]
    return Proof(signed, req.get_header("X-Auth-Token"))


def flag(req: Request, name: str, default: bool = False, blank: bool = False) -> bool:
    """Return a boolean (`truth`). `blank` as in `text`."""
    found = text(req, name, blank)
    return default if found is None else truth(name, found)


def number(req: Request, name: str, blank: bool = False) -> int | None:
    """Return a non-negative integer (`non_negative`). `blank` as in `text`."""
    found = text(req, name, blank)
    return None if found is None else non_negative(name, found)


def moment(req: Request, name: str) -> float | None:
    """Return a time in ISO 8601 as seconds since the epoch. Raises HTTPBadRequest."""
    found = text(req, name)
    if found is None:
        return None
    try:
        return from_text(found)
    except (ValueError, OverflowError):
        raise HTTPBadRequest(f"{name} is not a time in ISO 8601, such as 2026-11-22T12:00:00Z.") from None


def direction(req: Request) -> str | None:
    """Return `sort_dir`: asc, desc or None. Raises InvalidValue."""
    found = text(req, "sort_dir", blank=True)
    if found not in (None, "asc", "desc"):
        raise InvalidValue(f'Unknown sort direction "{found}", acceptable values are: asc, desc.')
    return found


def words(req: Request, name: str) -> tuple[str, ...]:
    """Return a list separated by commas, of one key or several."""
    return tuple(word for value in values(req, name) for word in value.split(",") if word)


def check_known(req: Request, names: Collection[str]) -> None:
    """Raise HTTPBadRequest for an unknown key."""
    unknown = [name for name in req.params if name not in names]
    if unknown:
        known = f"there are: {', '.join(names)}" if names else f"{req.method} {req.path} takes none"
        raise HTTPBadRequest(f"Unknown query key {', '.join(unknown)}; {known}.")


def several(req: Request, name: str) -> tuple[str, ...]:
    """Return a list as `words` does. Raises HTTPBadRequest for a key without a value."""
    found = words(req, name)
    if name in req.params and not found:
        raise HTTPBadRequest(f"{name} has no value; omit it to get all.")
    return found


def one_of(req: Request, name: str, choices: Collection[str]) -> str:
    """Return one of some words. Raises HTTPBadRequest."""
    found = text(req, name) or ""
    if found not in choices:
        raise HTTPBadRequest(f"Unknown {name} {found}; there are: {', '.join(choices)}.")
    return found


def several_of(req: Request, name: str, choices: Mapping[str, Choice]) -> tuple[Choice, ...]:
    """Return a list of choices, mapped to their values. Raises HTTPBadRequest."""
    found = several(req, name)
    for word in found:
        if word not in choices:
            raise HTTPBadRequest(f"Unknown {name} {word}; there are: {', '.join(choices)}.")
    return tuple(choices[word] for word in found)


def sort(req: Request, keys: Collection[str]) -> list[tuple[str, bool]]:
    """Read `sort`: ``key:direction,…``, each key once; the default direction is asc.

    Returns keys, with True for a descending order. Raises HTTPBadRequest.
    """
    out: dict[str, bool] = {}
    for word in several(req, "sort"):
        key, colon, given = word.partition(":")
        if key not in keys:
            raise HTTPBadRequest(f"Unknown sort key {key}; there are: {', '.join(keys)}.")
        if colon and given not in ("asc", "desc"):
            raise HTTPBadRequest(f'Unknown sort direction "{given}" of {key}, acceptable values are: asc, desc.')
        if key in out:
            raise HTTPBadRequest(f"The sort key {key} occurs twice.")
        out[key] = given == "desc"
    return list(out.items())


def filters(req: Request, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the values of the keys that have any. Values of one key are alternatives."""
    return {name: values(req, name) for name in names if any(values(req, name))}
