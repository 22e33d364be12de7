r"""Regular expressions from templates and requests, matched by RE2 in linear time.

Python's `re` backtracks: ``(a+)+$`` on sixty letters would block the process for years. Patterns are written for `re`,
so its notation is translated: ``\u0041``, ``\Z``, ``{,5}``, and classes such as ``\w``, which know all of Unicode.
RE2 has no look-around. Look-aheads at the beginning of a pattern are tested as conditions of their own, which serves
the usual rules for passwords. Decision: docs/decisions/0004-regular-expressions.md.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Final, Protocol, TypeAlias

import re2

from heatlite.core.records import record

MAX_MEMORY: Final = 2 << 20
"""Bytes that one program may use, including the states cached while matching."""
WORK_PER_CHARACTER: Final = 4000
"""Allowed product of program size and text length per written character.
Characters of pattern and text count. One unit takes 3 ns at worst."""
FREE_CHARACTERS: Final = 60
"""Added to the length of pattern and text: the syntax around them."""

MAX_GROUPS: Final = 100
"""Groups of a pattern with look-around, which are read recursively."""

_ESCAPE: Final = r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)"
_TOKEN: Final = re.compile(
    rf"{_ESCAPE}|\[\^?\]?(?:\\.|[^\\\]])*\]|\((?:\?(?:<?[=!]|:|P<\w+>))?|\{{,\d+\}}|.", re.DOTALL
)
"""An escape, a set, the start of a group, or another character."""
_IN_SET: Final = re.compile(rf"{_ESCAPE}|\[", re.DOTALL)
_LOOK_AHEAD: Final = ("(?=", "(?!")
_LOOK_AROUND: Final = frozenset({*_LOOK_AHEAD, "(?<=", "(?<!"})
_FOREIGN_ESCAPES: Final = frozenset("CEPQpz")
"""Escapes that RE2 has and `re` has not. Heat refuses them."""
_CLASSES: Final = {"s": r"\t-\r\x1c- "}
_UNICODE_CLASSES: Final = {"d": r"\p{Nd}", "w": r"\pL\pN_", "s": r"\t-\r\x1c- \x{85}\pZ"}

_Check: TypeAlias = Callable[[str], bool]


class TooMuchWork(ValueError):
    """Matching would exceed the limits."""


class Match(Protocol):
    """A match of the library re2."""

    def group(self, number: int, /) -> str | None:
        """Return the text of a group; None if it took no part in the match."""


class Compiled(Protocol):
    """A pattern of the library re2, with the methods of `re.Pattern`."""

    programsize: int

    def match(self, text: str, /) -> Match | None:
        """Match at the beginning of the text."""

    def fullmatch(self, text: str, /) -> Match | None:
        """Match the whole text."""

    def search(self, text: str, /) -> Match | None:
        """Find the first match."""

    def finditer(self, text: str, /) -> Iterator[Match]:
        """Find all matches."""

    def split(self, text: str, limit: int = 0, /) -> list[str]:
        """Split the text at the matches."""

    def sub(self, new: Callable[[Match], str], text: str, limit: int = 0, /) -> str:
        """Replace the matches."""


class Program:
    """A pattern without look-around, compiled.

    Raises ValueError with the reason if it is invalid.

    `flags` are letters of ``(?ims)``.
    """

    def __init__(self, text: str, flags: str = "") -> None:
        self.text = text
        self._flags = f"(?{flags})" if flags else ""
        self._ascii = self._compiled(_CLASSES)

    def __repr__(self) -> str:
        return f"Program({self.text!r})"

    def on(self, value: str) -> Compiled:
        """Return the object of the library that is to match the value. Raises TooMuchWork."""
        program = self._ascii if value.isascii() else self._unicode
        written = len(self.text) + len(value) + FREE_CHARACTERS
        if program.programsize * len(value) > written * WORK_PER_CHARACTER:
            raise TooMuchWork("it takes too many steps")
        return program

    def begins(self, value: str) -> bool:
        """Test whether a match starts at the beginning of the value. Raises TooMuchWork."""
        return self.on(value).match(value) is not None

    def matches(self, value: str) -> bool:
        """Test whether the whole value matches. Raises TooMuchWork."""
        return self.on(value).fullmatch(value) is not None

    @cached_property
    def _unicode(self) -> Compiled:
        """Compiled only when needed: the classes of Unicode make large programs."""
        try:
            return self._compiled(_UNICODE_CLASSES)
        except ValueError as error:
            raise TooMuchWork(str(error)) from error

    def _compiled(self, classes: Mapping[str, str]) -> Compiled:
        options = re2.Options()
        options.max_mem = MAX_MEMORY
        options.log_errors = False
        translated = (_translated(token, classes) for token in _tokens(self.text))
        try:
            compiled: Compiled = re2.compile(self._flags + "".join(translated), options)  # the library has no types
        except re2.error as error:
            (reason,) = error.args
            raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from error
        return compiled


class Pattern:
    """A pattern that whole values match.

    Raises ValueError with the reason if it is invalid.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        tokens = _tokens(text)
        self._check = Program(text).matches if _LOOK_AROUND.isdisjoint(tokens) else _any_branch(tokens)

    def matches(self, value: str) -> bool:
        """Test whether the whole value matches. Raises TooMuchWork."""
        return self._check(value)


@lru_cache(maxsize=64)
def _cached(text: str) -> Pattern:
    return Pattern(text)


def read_pattern(text: str) -> Pattern:
    """Return `Pattern(text)`. Short ones are cached, since many parameters share them."""
    return _cached(text) if len(text) <= 1000 else Pattern(text)


# -- notation --------------------------------------------------------------------------------------


def _translated(token: str, classes: Mapping[str, str]) -> str:
    """Return a token of Python's notation in RE2's."""
    if token in _LOOK_AROUND:
        raise ValueError(f"look-around is only supported as look-ahead at the beginning: {token}")
    if token.startswith("\\"):
        return _escape(token, classes)
    if token.startswith("[") and len(token) > 1:
        start = 2 if token.startswith("[^") else 1
        return token[:start] + _IN_SET.sub(lambda found: _in_set(found[0], classes), token[start:])
    return token.replace("{,", "{0,")


def _escape(token: str, classes: Mapping[str, str]) -> str:
    kind = token[1:2]
    if kind in classes:
        return f"[{classes[kind]}]"
    if kind.lower() in classes and kind != "U":
        return f"[^{classes[kind.lower()]}]"
    return r"\z" if token == r"\Z" else _in_set(token, classes)


def _in_set(token: str, classes: Mapping[str, str]) -> str:
    kind = token[1:2]
    if kind in _FOREIGN_ESCAPES:
        raise ValueError(f"bad escape {token}")
    if len(token) > 2:  # \u and \U
        return f"\\x{{{token[2:]}}}"
    if token == "[":
        return r"\["
    return classes.get(kind, token)


# -- look-ahead ------------------------------------------------------------------------------------


def _tokens(text: str) -> list[str]:
    """Split a pattern, without look-arounds that may occur zero times.

    They demand nothing.
    """
    tokens: list[str] = _TOKEN.findall(text)
    looks = [place for place, token in enumerate(tokens) if token in _LOOK_AROUND]
    if looks and sum(token.startswith("(") for token in tokens) > MAX_GROUPS:
        raise ValueError(f"more than {MAX_GROUPS} groups in a pattern with look-around")
    for place in reversed(looks):
        after = _group_end(tokens, place)
        if "".join(tokens[after : after + 1]) in ("*", "?"):
            del tokens[place : after + 1]
    return tokens


def _group_end(tokens: Sequence[str], start: int) -> int:
    """Return the place behind the group that starts there."""
    depth = 0
    for place in range(start, len(tokens)):
        depth += tokens[place].startswith("(") - (tokens[place] == ")")
        if depth == 0:
            return place + 1
    raise ValueError("missing )")


@record(frozen=True, slots=True)
class _Branch:
    """Alternative of a pattern: tests from its beginning on, and of the rest."""

    conditions: Sequence[_Check]
    rest: Program

    def holds(self, value: str) -> bool:
        return all(condition(value) for condition in self.conditions)

    def matches(self, value: str) -> bool:
        return self.holds(value) and self.rest.matches(value)


def _any_branch(tokens: Sequence[str]) -> _Check:
    """Return a test whether any alternative matches the whole value."""
    branches = _branches(tokens)
    return lambda value: any(branch.matches(value) for branch in branches)


def _branches(tokens: Sequence[str]) -> list[_Branch]:
    found, start, place = [], 0, 0
    while place < len(tokens):
        if tokens[place] == "|":
            found.append(_branch(tokens[start:place]))
            start = place + 1
        place = _group_end(tokens, place) if tokens[place].startswith("(") else place + 1
    return [*found, _branch(tokens[start:])]


def _branch(tokens: Sequence[str]) -> _Branch:
    conditions: list[_Check] = []
    while tokens and not _LOOK_AROUND.isdisjoint(tokens):
        if tokens[0] in ("^", r"\A"):
            tokens = tokens[1:]
            continue
        if not tokens[0].startswith("("):
            break
        end = _group_end(tokens, 0)
        opening, inside, after = tokens[0], tokens[1 : end - 1], tokens[end:]
        if opening in _LOOK_AHEAD:
            conditions.append(partial(_looks_ahead, Program("".join(inside)), opening == "(?="))
        elif all(token in ("$", r"\Z") for token in after):
            conditions.append(_any_branch(inside))
            return _Branch(conditions, Program("(?s:.*)"))
        else:
            branches = _branches(inside)
            if any(branch.rest.text for branch in branches):
                break
            conditions.append(partial(_any_holds, branches))
        tokens = after
    return _Branch(conditions, Program("".join(tokens)))


def _looks_ahead(program: Program, wanted: bool, value: str) -> bool:
    return program.begins(value) is wanted


def _any_holds(branches: Sequence[_Branch], value: str) -> bool:
    return any(branch.holds(value) for branch in branches)
