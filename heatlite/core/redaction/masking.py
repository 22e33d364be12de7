"""Masking of secrets in texts.

Code that works with secrets announces them here. Reasons and log lines written meanwhile are masked.
"""

import base64
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Final
from urllib.parse import quote, quote_plus, urlsplit

from heatlite.core.json import Json, dump, heat_text

MASK: Final = "******"

MIN_SUBSTRING = 6
"""Length in characters below which a secret is replaced only as a separate word."""

MIN_LENGTH = 3
"""Minimum length of a secret in characters. Shorter values occur in every text."""

MAX_VALUES = 1000
"""Maximum number of values to search for. With more, the whole text is replaced."""


def origin(url: str, path: bool = False) -> str:
    """Return a URL for messages: ``scheme://host:port``, and a harmless path.

    User, password and query are never shown.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path if path else ''}"


def scheme(url: str) -> str:
    """Return the scheme of a URL for messages, "" without one.

    The text may begin with a user and a password.
    """
    found, colon, _ = url.partition("://")
    return found if colon else ""


class Mask:
    """Replaces values by stars, also in JSON, Python, URL and base64 notation.

    A text that decodes as a whole (base64) to one with a secret is replaced, and so is a map in a secret, with
    its keys. Hashes or parts of a value, as made by template functions, are not found.
    """

    def __init__(self, values: Callable[[], Iterable[object]]) -> None:
        """Create a mask. `values` is called at the first use.

        Each value of lists and maps counts; true, false and null do not.
        """
        self._ask = values
        self._learned: list[str] = []

    def learn(self, secret: str) -> None:
        """Add a secret of `MIN_SUBSTRING` characters at least."""
        self._learned.extend(sorted(_forms(secret), key=len, reverse=True))

    @cached_property
    def _values(self) -> tuple[object, ...]:
        return tuple(self._ask())

    @cached_property
    def _maps(self) -> dict[frozenset[str], list[Mapping[str, object]]]:
        """Return the maps in the values by their keys, which are secret, too.

        One without a text is none: it occurs everywhere, as ``{"enabled": true}``.
        """
        found: dict[frozenset[str], list[Mapping[str, object]]] = {}
        for one in (one for value in self._values for one in _maps(value)):
            if any(_texts(one)):
                found.setdefault(frozenset(one), []).append(one)
        return found

    @cached_property
    def _forms(self) -> tuple[list[str], re.Pattern[str] | None] | None:
        """Return the long values and a pattern for short ones; None: too many values."""
        texts = set()
        for text in (text for value in self._values for text in _texts(value)):  # one value may occur many times
            texts.add(text)
            if len(texts) > MAX_VALUES:
                return None
        for value in self._values:
            if any(_maps(value)):
                texts |= {dump(value), heat_text(value), repr(value)}
        # The longest first, or the rest of a longer one would stay visible.
        forms = sorted({form for text in texts for form in _forms(text)}, key=len, reverse=True)
        short = "|".join(re.escape(form) for form in forms if len(form) < MIN_SUBSTRING)
        pattern = re.compile(rf"(?<!\w)(?:{short})(?!\w)") if short else None
        return [form for form in forms if len(form) >= MIN_SUBSTRING], pattern

    def text(self, text: str) -> str:
        """Return the text with secrets masked."""
        if self._forms is None:
            return MASK
        decoded = _decoded(text)
        return self._searched(text) if decoded is None or self.text(decoded) == decoded else MASK

    def _searched(self, text: str) -> str:
        long, short = self._forms or ([], None)
        for form in (*long, *self._learned):
            text = text.replace(form, MASK)
        return text if short is None else short.sub(MASK, text)

    def json(self, value: Json) -> Json:
        """Return the value with secrets masked; a non-text that contains one becomes text."""
        if self._forms == ([], None) and not self._learned:
            return value
        if self._maps:
            value = _without(value, self._maps)
        return _with_leaves(value, iter(self._all([*_leaves(value)])))

    def _all(self, texts: list[str]) -> list[str]:
        """Return texts with secrets masked.

        Each search for a secret takes its time, so all texts are searched at once. None has NUL, usually.
        """
        if self._forms is not None:
            coded = {at: decoded for at, text in enumerate(texts) if (decoded := _decoded(text)) is not None}
            found = self._searched("\0".join(texts)).split("\0")
            if len(found) == len(texts):
                for at, text in zip(coded, self._all([*coded.values()]) if coded else (), strict=True):
                    if text != coded[at]:
                        found[at] = MASK
                return found
        return [self.text(text) for text in texts]


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_URL_SAFE = str.maketrans("-_", "+/")


def _decoded(text: str) -> str | None:
    """Return what a text says in base64; None for other texts."""
    compact = "".join(text.split()) if "\n" in text else text
    if not _BASE64.fullmatch(compact):
        return None
    digits = compact.rstrip("=").translate(_URL_SAFE)
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True).decode()
    except ValueError:
        return None


def _maps(value: object) -> Iterator[Mapping[str, object]]:
    """Yield the maps at any depth."""
    if isinstance(value, Mapping):
        yield value
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _maps(item)


def _without(value: Json, maps: Mapping[frozenset[str], list[Mapping[str, object]]]) -> Json:
    """Return a value with stars in each of the maps, and in place of its keys."""
    if isinstance(value, Mapping):
        if value in maps.get(frozenset(value), ()):
            return {MASK: MASK}
        return {key: _without(item, maps) for key, item in value.items()}
    return [_without(item, maps) for item in value] if isinstance(value, list | tuple) else value


def _leaves(value: Json) -> Iterator[str]:
    """Yield keys, texts and numbers, as texts."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _with_leaves(value: Json, leaves: Iterator[str]) -> Json:
    """Return a value with other keys, texts and numbers, in the order of `_leaves`."""
    if isinstance(value, Mapping):
        return {next(leaves): _with_leaves(item, leaves) for item in value.values()}
    if isinstance(value, list | tuple):
        return [_with_leaves(item, leaves) for item in value]
    if value is None or isinstance(value, bool):
        return value
    leaf = next(leaves)
    return leaf if isinstance(value, str) or leaf == MASK else value


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, int | float | str) and not isinstance(value, bool) and len(str(value).strip()) >= MIN_LENGTH:
        yield str(value)


def _forms(text: str) -> set[str]:
    whole = text.encode(errors="surrogatepass")
    coded = base64.b64encode(whole).decode()
    forms = {text, text.strip(), dump(text)[1:-1], heat_text(text)[1:-1], repr(text)[1:-1], coded}
    return forms | {quote(whole), quote(whole, safe=""), quote_plus(whole)}


_SECRET_NAME = re.compile(r"passw|passphrase|secret|token|credential|private_?key|api_?key|access_?key", re.IGNORECASE)


def without_named(value: Json) -> Json:
    """Mask values under secret names.

    A name is a key, or the ``name`` beside an input.
    """
    if isinstance(value, Mapping):
        names_secret = _SECRET_NAME.search(str(value.get("name", "")))
        return {
            key: MASK if _SECRET_NAME.search(key) or names_secret and key == "value" else without_named(item)
            for key, item in value.items()
        }
    return [without_named(item) for item in value] if isinstance(value, list | tuple) else value


def named_secrets(value: Json) -> Iterator[Json]:
    """Return the values that `without_named` masks.

    They can then be masked elsewhere, too.
    """
    if isinstance(value, Mapping):
        names_secret = _SECRET_NAME.search(str(value.get("name", "")))
        for key, item in value.items():
            if _SECRET_NAME.search(key) or names_secret and key == "value":
                yield item
            else:
                yield from named_secrets(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from named_secrets(item)


NOTHING = Mask(tuple)
"""Mask that hides nothing."""

_mask: ContextVar[Mask | None] = ContextVar("mask", default=None)


@contextmanager
def hiding(mask: Mask | None) -> Iterator[None]:
    """Context in which `masked` applies `mask`."""
    token = _mask.set(mask)
    try:
        yield
    finally:
        _mask.reset(token)


def masked(text: str) -> str:
    """Return a text with the secrets of this thread's work masked."""
    mask = _mask.get()
    return text if mask is None else mask.text(text)


def masked_json(value: Json) -> Json:
    """Return a value with the secrets of this thread's work masked."""
    mask = _mask.get()
    return value if mask is None else mask.json(value)


def learn(secret: str) -> None:
    """Add a new secret to the mask of this thread's work."""
    mask = _mask.get()
    if mask is not None:
        mask.learn(secret)


_formatter = logging.Formatter()


def mask_record(record: logging.LogRecord) -> None:
    """Mask the secrets in a log record and its traceback."""
    if _mask.get() is None:
        return
    record.msg, record.args = masked(record.getMessage()), ()
    if record.exc_info:
        record.exc_text = masked(_formatter.formatException(record.exc_info))
