r"""Regular expressions from templates and requests, matched by RE2 in linear time.

Python's `re` backtracks: ``(a+)+$`` on sixty letters would block the process for years. The notation is RE2's; only
``\u0041`` and ``\Z`` of `re` are translated. RE2 has no look-around. Look-aheads at the beginning of a pattern are
tested as conditions of their own, which serves the usual rules for passwords and reserved prefixes.
Decision: docs/decisions/0004-regular-expressions.md.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias

import re2
from msgspec import Struct

MAX_LENGTH: Final = 2000
"""Characters of a pattern."""
MAX_GROUPS: Final = 100
"""Opening parentheses of a pattern: RE2 copies the places of groups at each step."""
MAX_MEMORY: Final = 512 << 10
"""Bytes that one program may use, including the states cached while matching. The library caches 128 programs."""
MAX_STEPS: Final = 300_000_000
"""Steps that the patterns of one template take together. A step takes 1 to 5 ns."""
STEPS_OF_INSTRUCTION: Final = 40
"""Steps of compiling one instruction."""
STEPS_OF_FAULT: Final = 500_000
"""Steps of compiling a pattern that is refused."""

_NOTATION: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|.)|\{,(?=\d+\})", re.DOTALL)
_FOREIGN_ESCAPES: Final = frozenset("CEPQp")
"""Escapes that RE2 has and `re` has not. Heat refuses them; ``\\pL`` makes large programs, ``\\C`` splits letters."""
_TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\\\]])*\]?|\((?:\?<?[=!])?|.", re.DOTALL)
"""An escape, a set, the start of a group, or another character."""
_LOOK_AHEAD: Final = ("(?=", "(?!")
_LOOK_AROUND: Final = frozenset({*_LOOK_AHEAD, "(?<=", "(?<!"})
_ENDS: Final = frozenset({"$", r"\Z", r"\z"})

Charge: TypeAlias = Callable[[int], None]
"""Counts steps. Raises TooMuchWork beyond a limit."""
_Check: TypeAlias = Callable[[str], bool]


class TooMuchWork(ValueError):
    """Matching would exceed the limits."""


class StepMeter:
    """Counter of the steps of the patterns of one template or request."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def charge(self, steps: int) -> None:
        """Count steps. Raises TooMuchWork beyond `MAX_STEPS`, and from then on always."""
        self._left -= steps
        if self._left < 0:
            raise TooMuchWork("patterns take too many steps; shorten them, their repetitions or the values")


class Match(Protocol):
    """A match of the library re2."""

    def group(self, number: int, /) -> str | None:
        """Return the text of a group; None if it took no part in the match."""

    def groups(self) -> Sequence[str | None]:
        """Return the texts of all groups."""

    def start(self) -> int:
        """Return the place where the match begins."""

    def end(self) -> int:
        """Return the place behind the match."""


class _Compiled(Protocol):
    """A pattern of the library re2, with the methods of `re.Pattern`."""

    programsize: int
    groups: int

    def match(self, text: str, /) -> Match | None:
        """Match at the beginning of the text."""

    def fullmatch(self, text: str, /) -> Match | None:
        """Match the whole text."""

    def search(self, text: str, /) -> Match | None:
        """Find the first match."""

    def finditer(self, text: str, /) -> Iterator[Match]:
        """Find all matches."""


class CompiledPattern:
    """A pattern without look-around, compiled.

    Only with `captures` its matches have groups. `flags` are letters of ``(?ims)``. Raises ValueError with the reason
    if it is invalid. All methods raise TooMuchWork.
    """

    def __init__(self, text: str, charge: Charge, flags: str = "", captures: bool = False) -> None:
        verify_size(text)
        self.text = text
        self._charge = charge
        options = re2.Options()
        options.max_mem = MAX_MEMORY
        options.log_errors = False
        options.never_capture = not captures
        translated = _NOTATION.sub(_translated, text)
        charge(0)  # no work for a template that has none left
        try:
            self._compiled: _Compiled = re2.compile(f"(?{flags}){translated}" if flags else translated, options)
        except re2.error as error:
            charge(STEPS_OF_FAULT)
            (reason,) = error.args
            raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from error
        charge(STEPS_OF_INSTRUCTION * self._compiled.programsize)

    def __repr__(self) -> str:
        return f"Program({self.text!r})"

    def begins(self, value: str) -> bool:
        """Test whether a match starts at the beginning of the value."""
        self._charge(self._steps(value))
        return self._compiled.match(value) is not None

    def matches(self, value: str) -> bool:
        """Test whether the whole value matches."""
        self._charge(self._steps(value))
        return self._compiled.fullmatch(value) is not None

    def search(self, value: str) -> Match | None:
        """Return the first match in the value, or None."""
        self._charge(self._steps(value))
        return self._compiled.search(value)

    def finditer(self, value: str) -> Iterator[Match]:
        """Iterate over the matches in the value. Each is a search, maybe to the end."""
        steps = self._steps(value)
        self._charge(steps)
        for found in self._compiled.finditer(value):
            yield found
            self._charge(steps * (len(value) - found.end()) // (len(value) + 1))

    def _steps(self, value: str) -> int:
        """Return the steps of a match at worst. Groups are copied at each."""
        return self._compiled.programsize * (len(value) + 1) * (self._compiled.groups + 8) // 8


class Pattern:
    """A pattern that whole values match.

    Raises ValueError with the reason if it is invalid.
    """

    def __init__(self, text: str, charge: Charge) -> None:
        verify_size(text)
        self.text = text
        looks = any(opening in text for opening in _LOOK_AROUND)
        self._check = _any_branch(_tokens(text), charge) if looks else CompiledPattern(text, charge).matches

    def matches(self, value: str) -> bool:
        """Test whether the whole value matches. Raises TooMuchWork."""
        return self._check(value)


def verify_size(text: str) -> None:
    """Raise ValueError for a pattern that is too long or has too many groups."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a pattern has at most {MAX_LENGTH} characters, this one has {len(text)}")
    if text.count("(") > MAX_GROUPS:
        raise ValueError(f"more than {MAX_GROUPS} groups")


def _translated(found: re.Match[str]) -> str:
    """Return an escape of Python's notation in RE2's."""
    token = found[0]
    if token == "{,":
        raise ValueError("write {0,n} in place of {,n}")
    if token[1] in _FOREIGN_ESCAPES:
        raise ValueError(f"bad escape {token}")
    if code := found[1] or found[2]:
        return f"\\x{{{code}}}"
    return r"\z" if token == r"\Z" else token


# -- look-ahead ------------------------------------------------------------------------------------


def _tokens(text: str) -> list[str]:
    """Split a pattern, without look-arounds that may occur zero times.

    They demand nothing.
    """
    tokens: list[str] = _TOKEN.findall(text)
    for place in reversed([place for place, token in enumerate(tokens) if token in _LOOK_AROUND]):
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


class _Branch(Struct, frozen=True):
    """Alternative of a pattern: tests from its beginning on, and of the rest."""

    conditions: Sequence[_Check]
    rest: CompiledPattern

    def holds(self, value: str) -> bool:
        return all(condition(value) for condition in self.conditions)

    def matches(self, value: str) -> bool:
        return self.holds(value) and self.rest.matches(value)


def _any_branch(tokens: Sequence[str], charge: Charge) -> _Check:
    """Return a test whether any alternative matches the whole value."""
    branches = _branches(tokens, charge)
    return lambda value: any(branch.matches(value) for branch in branches)


def _branches(tokens: Sequence[str], charge: Charge) -> list[_Branch]:
    found, start, place = [], 0, 0
    while place < len(tokens):
        if tokens[place] == "|":
            found.append(_branch(tokens[start:place], charge))
            start = place + 1
        place = _group_end(tokens, place) if tokens[place].startswith("(") else place + 1
    return [*found, _branch(tokens[start:], charge)]


def _branch(tokens: Sequence[str], charge: Charge) -> _Branch:
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
            conditions.append(partial(_looks_ahead, CompiledPattern("".join(inside), charge), opening == "(?="))
        elif _ENDS.issuperset(after):
            conditions.append(_any_branch(inside, charge))
            return _Branch(conditions, CompiledPattern("(?s:.*)", charge))
        else:
            branches = _branches(inside, charge)
            if any(branch.rest.text for branch in branches):
                break
            conditions.append(partial(_any_holds, branches))
        tokens = after
    if not _LOOK_AROUND.isdisjoint(tokens):
        raise ValueError("look-around is only supported as look-ahead at the beginning")
    return _Branch(conditions, CompiledPattern("".join(tokens), charge))


def _looks_ahead(program: CompiledPattern, wanted: bool, value: str) -> bool:
    return program.begins(value) is wanted


def _any_holds(branches: Sequence[_Branch], value: str) -> bool:
    return any(branch.holds(value) for branch in branches)
