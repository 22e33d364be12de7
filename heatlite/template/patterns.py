"""Regular expressions that strangers write, matched within bounds.

Python's `re` tries one way after the other: ``(a+)+$`` takes longer than anybody lives for a text of fifty letters,
and no other thread runs meanwhile. So how many ways there can be is estimated before; where they are too many, all
ways are followed at once, as a set of places in the text, which finds the same words and whose steps are counted.
The steps allowed grow with what was written, so that whoever wants more work from us has to send more.

Expressions are read by the parser of `re` itself, so both ways speak the same language.
Decision: docs/decisions/0004-regular-expressions.md.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]  # known to no stub, there since 3.11
from typing import Any, Final

STEPS_AT_ONCE: Final = 4
"""Steps over sets of places, per character of pattern and text: each is some 0.3 µs."""
STEPS_IN_TURN: Final = 40
"""Steps of `re`, per character: each is some 0.02 µs."""
FREE_CHARACTERS: Final = 60
"""Are added to every pattern and text, which are not written without something around them."""
MAX_DEPTH: Final = 100
"""Groups within each other; deeper ones are only matched by `re`."""
TOO_MANY: Final = 10**9
"""Ways, where counting ends."""
MAX_TIMES: Final = 100
"""Repetitions of something that matches in several ways; beyond, there are too many ways."""
NARROW: Final = 512
"""Characters in the ranges of one set; beyond, `re` takes too long to prepare it."""
FOLDED_SETS: Final = 3
"""Sets of one pattern within which case is ignored; the same."""
REMEMBERED_BITS: Final = 10**8


class TooMuchWork(ValueError):
    """Whether the text matches cannot be found out within the bounds."""


class Pattern:
    """A regular expression of Python, with flags of `re`. Raises ValueError with the reason if it is none."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self.text = text
        self.flags = flags
        try:
            parsed = _parser.parse(text, flags)
            reader = _Reader()
            self._root = reader.sequence(parsed, parsed.state.flags)
            self._pattern: re.Pattern[str] | None = None if reader.slow else _compiler.compile(parsed)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(str(error)) from error

    def matches(self, value: str) -> bool:
        """Whether the whole value matches. Raises TooMuchWork."""
        ends = self._ends(value, re.Pattern.fullmatch)
        return bool(ends >> len(value) & 1)

    def begins(self, value: str) -> bool:
        """Whether something at the beginning of the value matches. Raises TooMuchWork."""
        return self._ends(value, re.Pattern.match) != 0

    def occurs(self, value: str) -> bool:
        """Whether something anywhere in the value matches. Raises TooMuchWork."""
        written = len(self.text) + len(value) + FREE_CHARACTERS
        if self._pattern is not None and self.search_steps(value) <= written * STEPS_IN_TURN:
            return self._pattern.search(value) is not None
        if not self._root.at_once:
            raise TooMuchWork("it goes back too often")
        everywhere = (1 << len(value) + 1) - 1
        return self._root.ends(everywhere, _Walk(value, written * STEPS_AT_ONCE)) != 0

    def search_steps(self, value: str) -> int:
        """How many steps `re` needs at most to find all that match in the value; each is some 0.02 µs."""
        return (self._root.steps * _Bound(1, 1)).number(len(value))

    def compiled(self) -> re.Pattern[str]:
        """For `re`, where it matters what matches, and not only whether. Raises TooMuchWork."""
        if self._pattern is None:
            raise TooMuchWork("its sets are too large")
        return re.compile(self.text, self.flags)

    def _ends(self, value: str, match: Callable[[re.Pattern[str], str], re.Match[str] | None]) -> int:
        """The places where a match of the value ends; the one that `match` finds where it can be asked."""
        written = len(self.text) + len(value) + FREE_CHARACTERS
        if self._pattern is not None and self._root.steps.number(len(value)) <= written * STEPS_IN_TURN:
            found = match(self._pattern, value)
            return 0 if found is None else 1 << found.end()
        if not self._root.at_once:
            raise TooMuchWork("it goes back too often")
        return self._root.ends(1, _Walk(value, written * STEPS_AT_ONCE))


@lru_cache(maxsize=64)
def _kept(text: str, flags: int) -> Pattern:
    return Pattern(text, flags)


def read_pattern(text: str, flags: int = 0) -> Pattern:
    """As `Pattern(text, flags)`; short ones are kept for a while, since many parameters may share one."""
    return _kept(text, flags) if len(text) <= 1000 else Pattern(text, flags)


class _Walk:
    """One match: the text, the steps that are left, and what was found out so far.

    A set of places is an integer whose bit n stands for the place before the character n.
    """

    def __init__(self, text: str, steps: int) -> None:
        self.text = text
        self.steps = steps
        self.known: dict[tuple[int, int], int] = {}
        self._places: dict[int, int] = {}

    def step(self, more: int = 0) -> None:
        self.steps -= 1 + len(self.text) // 1024 + more
        if self.steps < 0:
            raise TooMuchWork("it takes too many steps")

    def places(self, kind: "_Leaf") -> int:
        """Where something of the kind stands."""
        found = self._places.get(id(kind))
        if found is None:
            self.step(20 + len(self.text) // 4)
            found = self._places[id(kind)] = kind.places(self.text)
        return found


def _bits(places: Iterable[int], size: int) -> int:
    """The set of these places; shifting a one to each would take quadratic time."""
    digits = bytearray(b"0") * (size + 1)
    for place in places:
        digits[size - place] = 49  # "1"
    return int(digits, 2)


@dataclass(frozen=True, slots=True)
class _Bound:
    """At most `factor` · (n+1) ** `degree` of something, in a text of n characters."""

    factor: int
    degree: int = 0

    def __add__(self, other: "_Bound") -> "_Bound":
        return _Bound(min(self.factor + other.factor, TOO_MANY), max(self.degree, other.degree))

    def __mul__(self, other: "_Bound") -> "_Bound":
        if self is _ONE or other is _ONE:
            return other if self is _ONE else self
        return _Bound(min(self.factor * other.factor, TOO_MANY), self.degree + other.degree)

    def number(self, length: int) -> int:
        if self.factor >= TOO_MANY or self.degree > 8:
            return TOO_MANY
        return self.factor * int((length + 1) ** self.degree)


_ONE: Final = _Bound(1)


class _Node(ABC):
    """A part of an expression."""

    __slots__ = ("at_once", "steps", "ways")

    def __init__(self, ways: _Bound, steps: _Bound, at_once: bool = True) -> None:
        self.ways = ways
        """In how many ways it can match from one place on."""
        self.steps = steps
        """What `re` needs to go through all of them."""
        self.at_once = at_once
        """Whether `ends` can be used."""

    @abstractmethod
    def ends(self, starts: int, walk: _Walk) -> int:
        """The places where a match ends that begins at one of `starts`."""


class _Leaf(_Node):
    """One character of a kind, or (width 0) a place of a kind, such as the end."""

    __slots__ = ("_make", "_pattern", "width")

    def __init__(self, make: Callable[[], re.Pattern[str]], width: int) -> None:
        super().__init__(_ONE, _ONE)
        self._make = make
        self._pattern: re.Pattern[str] | None = None
        self.width = width

    def places(self, text: str) -> int:
        if self._pattern is None:
            self._pattern = self._make()
        return _bits((match.start() for match in self._pattern.finditer(text)), len(text))

    def ends(self, starts: int, walk: _Walk) -> int:
        walk.step()
        return (starts & walk.places(self)) << self.width


class _Wide(_Leaf):
    """One character of a set that `re` is slow to prepare; `make` gives the categories in it."""

    __slots__ = ("folded", "inverted", "ranges")

    def __init__(
        self, make: Callable[[], re.Pattern[str]], ranges: Sequence[tuple[int, int]], inverted: bool, folded: bool
    ) -> None:
        super().__init__(make, 1)
        self.ranges = ranges
        self.inverted = inverted
        self.folded = folded
        """Whether upper and lower case are the same."""

    def places(self, text: str) -> int:
        found = super().places(text) | _bits((i for i, one in enumerate(text) if self.has(one)), len(text))
        return found ^ (1 << len(text)) - 1 if self.inverted else found

    def has(self, one: str) -> bool:
        codes = [ord(one)]
        if self.folded:
            codes += [ord(other) for other in (one.lower(), one.upper(), one.upper().lower()) if len(other) == 1]
        return any(low <= code <= high for code in codes for low, high in self.ranges)


class _Sequence(_Node):
    __slots__ = ("items",)

    def __init__(self, items: Sequence[_Node]) -> None:
        ways, steps = _ONE, _ONE
        for item in items:
            steps += ways * item.steps
            ways *= item.ways
            if steps.number(0) == TOO_MANY:
                break  # whatever follows
        super().__init__(ways, steps, all(item.at_once for item in items))
        self.items = items

    def ends(self, starts: int, walk: _Walk) -> int:
        for item in self.items:
            if not starts:
                break
            starts = item.ends(starts, walk)
        return starts


class _Either(_Node):
    __slots__ = ("items",)

    def __init__(self, items: Sequence[_Node]) -> None:
        steps = sum((item.steps for item in items), _ONE)
        super().__init__(sum((item.ways for item in items), _Bound(0)), steps, all(item.at_once for item in items))
        self.items = items

    def ends(self, starts: int, walk: _Walk) -> int:
        found = 0
        for item in self.items:
            found |= item.ends(starts, walk)
        return found


class _Repeat(_Node):
    __slots__ = ("high", "item", "low")

    def __init__(self, item: _Node, low: int, high: int | None) -> None:
        if item.ways == _ONE:
            times = _Bound(1, 1) if high is None else _Bound(high + 1)
            ways = times if high is None else _Bound(high - low + 1)
            steps = times * item.steps
        elif high is None or high > MAX_TIMES:
            ways = steps = _Bound(TOO_MANY)
        else:
            ways = power = _ONE
            for _ in range(high):
                power *= item.ways
                ways += power
            steps = ways * item.steps
        super().__init__(ways, steps, item.at_once)
        self.item = item
        self.low = low
        self.high = high

    def ends(self, starts: int, walk: _Walk) -> int:
        key = (id(self), starts)
        found = walk.known.get(key)
        if found is not None:
            walk.step()
        else:
            if len(walk.known) * (len(walk.text) + 500) > REMEMBERED_BITS:
                walk.known.clear()
            found = walk.known[key] = self._ends(starts, walk)
        return found

    def _ends(self, starts: int, walk: _Walk) -> int:
        item = self.item
        for _ in range(self.low):
            walk.step()
            following = item.ends(starts, walk)
            if following == starts:  # for good: places only move on
                break
            starts = following
        if isinstance(item, _Leaf) and item.width == 1 and self.high is None:
            # Adding carries each start through the run of ones that it stands in, to the place behind the run.
            walk.step()
            kind = walk.places(item)
            return ((starts & kind) + kind ^ kind) | starts
        found = starts
        times = self.low
        while starts and (self.high is None or times < self.high):
            walk.step()
            starts = item.ends(starts, walk) & ~found
            found |= starts
            times += 1
        return found


class _Ahead(_Node):
    """What follows has to match, or must not."""

    __slots__ = ("item", "wanted")

    def __init__(self, item: _Node, wanted: bool) -> None:
        super().__init__(item.ways, item.steps, item.at_once)
        self.item = item
        self.wanted = wanted

    def ends(self, starts: int, walk: _Walk) -> int:
        found = 0
        left = starts
        while left:
            walk.step()
            one = left & -left
            left ^= one
            if (self.item.ends(one, walk) != 0) is self.wanted:
                found |= one
        return found


class _Behind(_Node):
    """What is before, `width` characters, has to match, or must not."""

    __slots__ = ("item", "wanted", "width")

    def __init__(self, item: _Node, width: int, wanted: bool) -> None:
        super().__init__(item.ways, item.steps, item.at_once)
        self.item = item
        self.width = width
        self.wanted = wanted

    def ends(self, starts: int, walk: _Walk) -> int:
        walk.step()
        found = self.item.ends(starts >> self.width, walk)
        return starts & found if self.wanted else starts & ~found


class _Other(_Node):
    """What depends on how something before it was matched: only `re` can tell."""

    __slots__ = ()

    def __init__(self, ways: _Bound, steps: _Bound) -> None:
        super().__init__(ways, steps, at_once=False)

    def ends(self, starts: int, walk: _Walk) -> int:  # noqa: ARG002
        raise TooMuchWork("it goes back too often")


class _Reader:
    """From the tree that the parser of `re` makes to nodes."""

    def __init__(self) -> None:
        self.leaves: dict[tuple[object, object, int], _Leaf] = {}
        self.repeats: dict[tuple[int, int, int | None], _Repeat] = {}
        """Of leaves."""
        self.folded = 0
        """Sets within which case is ignored."""
        self.slow = False
        """Whether `re` would need milliseconds to prepare the sets."""

    def sequence(self, parsed: Iterable[tuple[object, Any]], flags: int, depth: int = 0) -> _Node:
        if depth > MAX_DEPTH:
            return _Other(_Bound(TOO_MANY), _Bound(TOO_MANY))
        items = [self.node(operator, argument, flags, depth + 1) for operator, argument in parsed]
        return items[0] if len(items) == 1 else _Sequence(items)

    def node(self, operator: object, argument: Any, flags: int, depth: int) -> _Node:
        match operator:
            case _constants.LITERAL | _constants.NOT_LITERAL | _constants.ANY | _constants.IN:
                return self.leaf(operator, argument, flags, 1)
            case _constants.AT:
                return self.leaf(operator, argument, flags, 0)
            case _constants.BRANCH:
                return _Either([self.sequence(part, flags, depth) for part in argument[1]])
            case _constants.SUBPATTERN:
                _, added, removed, part = argument
                if added & _KINDS:
                    flags &= ~_KINDS
                return self.sequence(part, (flags | added) & ~removed, depth)
            case _constants.MAX_REPEAT | _constants.MIN_REPEAT:
                low, high, part = argument
                most = None if high is _constants.MAXREPEAT else int(high)
                item = self.sequence(part, flags, depth)
                if not isinstance(item, _Leaf):
                    return _Repeat(item, int(low), most)
                key = (id(item), int(low), most)
                if key not in self.repeats:
                    self.repeats[key] = _Repeat(item, int(low), most)
                return self.repeats[key]
            case _constants.ASSERT | _constants.ASSERT_NOT:
                direction, part = argument
                item = self.sequence(part, flags, depth)
                wanted = operator is _constants.ASSERT
                return _Ahead(item, wanted) if direction > 0 else _Behind(item, part.getwidth()[0], wanted)
            case _constants.FAILURE:
                return _Either([])
            case _constants.ATOMIC_GROUP:
                item = self.sequence(argument, flags, depth)
                return _Other(item.ways, item.steps)
            case _constants.POSSESSIVE_REPEAT:
                low, high, part = argument
                endless = high is _constants.MAXREPEAT
                repeat = _Repeat(self.sequence(part, flags, depth), int(low), None if endless else int(high))
                return _Other(repeat.ways, repeat.steps)
            case _constants.GROUPREF:
                return _Other(_ONE, _Bound(1, 1))
            case _constants.GROUPREF_EXISTS:
                _, one, other = argument
                either = _Either([self.sequence(part or (), flags, depth) for part in (one, other)])
                return _Other(either.ways, either.steps)
        raise ValueError(f"{operator} is not known")

    def leaf(self, operator: object, argument: Any, flags: int, width: int) -> _Leaf:
        key = (operator, repr(argument) if operator is _constants.IN else argument, flags)
        if operator is _constants.IN and flags & re.IGNORECASE:
            self.folded += 1
            self.slow |= self.folded > FOLDED_SETS
        if key not in self.leaves:
            self.leaves[key] = self.made(operator, argument, flags, width)
        return self.leaves[key]

    def made(self, operator: object, argument: Any, flags: int, width: int) -> _Leaf:
        items: list[tuple[object, Any]] = argument if operator is _constants.IN else []
        ranges = [given for what, given in items if what is _constants.RANGE]
        if not items or (self.folded <= FOLDED_SETS and sum(high - low for low, high in ranges) <= NARROW):
            return _Leaf(_compiled(operator, argument, flags), width)
        self.slow = True
        ranges += [(given, given) for what, given in items if what is _constants.LITERAL]
        rest = [item for item in items if item[0] is _constants.CATEGORY]
        make = _compiled(_constants.IN, rest, flags) if rest else _compiled(_constants.FAILURE, (), flags)
        return _Wide(make, ranges, items[0][0] is _constants.NEGATE, bool(flags & re.IGNORECASE))


def _compiled(operator: object, argument: object, flags: int) -> Callable[[], re.Pattern[str]]:
    """What makes the pattern of one leaf, once it is needed."""

    def make() -> re.Pattern[str]:
        state = _parser.State()
        state.flags = flags
        made: re.Pattern[str] = _compiler.compile(_parser.SubPattern(state, [(operator, argument)]), flags)
        return made

    return make


_KINDS: Final = re.ASCII | re.LOCALE | re.UNICODE
