"""Limits of `yaql` expressions: calls, iterator steps and values are work.

The library's own limits cover single arguments and no iterators. Loops in C end only with their iterator. So every
function of the library is wrapped, and iterators count their steps.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Set
from datetime import datetime, timedelta, tzinfo
from typing import Final, TypeAlias

from heatlite.core.errors import StackValidationFailed

Charge: TypeAlias = Callable[[int], None]
"""`Bindings.charge` of a template."""

CALL: Final = 200
"""Work of a function call (some 50 µs), of a callback, and of a step:"""
CALL_BACK: Final = 20
STEP: Final = 4
LUMP: Final = 1000
"""Unit of charging: each charge gives a template a little back (`WORK_EACH`)."""

MAX_OBJECTS: Final = 200_000
"""The most `weight` of one value; a part that is there twice counts twice.
C prints, compares and hashes all of it."""
DEEPEST: Final = 200
"""Maximum depth of lists and maps, since C hashes them without a limit."""
MAX_BITS: Final = 80_000
"""Of a whole number: as many as the library's memory quota has."""
MAX_MODULAR_BITS: Final = 2048
MAX_DIGITS: Final = 1000
"""Maximum digits left of the point for `round`."""
MAX_REPEATED: Final = 200
"""Items of a list that `*` makes."""
MAX_CHARACTERS: Final = 100_000
"""Of a text that a function makes."""

LOOKS: Final = frozenset(
    {
        "#get_context_data", "#operator_.", "#operator_?.", "#operator_->", "#indexer", "#list", "#map", "#finalize",
        "all", "any", "coalesce", "def", "filter", "first", "get", "isBoolean", "isDict", "isInteger", "isIterable",
        "isList", "isNumber", "isSet", "isString", "items", "keys", "last", "len", "let", "limit", "map", "select",
        "selectMany", "skip", "switch", "take", "unpack", "values", "where", "with",
    }
)  # fmt: skip
"""Functions that do not look into their first argument.
All others may, and it counts each time."""


class Counted(Iterator[object]):
    """An iterator of which each step counts. Its text has no address."""

    def __init__(self, inner: Iterator[object], meter: "WorkMeter") -> None:
        self._inner = inner
        self._meter = meter

    def __iter__(self) -> "Counted":
        again = iter(self._inner)
        return self if again is self._inner else Counted(again, self._meter)

    def __next__(self) -> object:
        self._meter.charge(STEP)
        return self._meter.let_out(next(self._inner))

    def __repr__(self) -> str:
        return "<an iterator>"


class WorkMeter:
    """Counter of the work of one evaluation."""

    def __init__(self, charge: Charge) -> None:
        self._charge = charge
        self._open = 0
        self._weighed: dict[int, tuple[object, int, int]] = {}
        """By `id`: the value, which so keeps its id; its weight and its depth."""

    def charge(self, work: int) -> None:
        """Count `work`. Raises StackValidationFailed where the template has no more."""
        self._open += work
        if self._open >= LUMP:
            self.settle()

    def settle(self) -> None:
        """Charge what was counted."""
        work, self._open = self._open, 0
        self._charge(work)

    def let_out(self, value: object) -> object:
        """A result: of an iterator each step counts.

        Raises StackValidationFailed for what is too large.
        """
        if isinstance(value, Iterator):
            return value if isinstance(value, Counted) else Counted(value, self)
        if isinstance(value, (tuple, list, Mapping, Set)):
            self.weight(value)
        return value

    def let_in(self, value: object) -> object:
        """An argument: an iterator counted, and so each call of a function."""
        if isinstance(value, Iterator):
            return value if isinstance(value, Counted) else Counted(value, self)
        if callable(value) and hasattr(value, "__unwrapped__"):
            return self._counted_call(value)
        return value

    def _counted_call(self, function: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            self.charge(CALL_BACK)
            return self.let_out(function(*given, **named))

        call.__unwrapped__ = function.__unwrapped__  # type: ignore[attr-defined]  # the library asks for it
        return call

    def weight(self, value: object) -> int:
        """Return the work of reading a value: `expression.weight`.

        Each part is looked at once.
        """
        return self._weigh(value, 0)[0]

    def _weigh(self, value: object, level: int) -> tuple[int, int]:
        if isinstance(value, str):
            return 1 + (len(value) >> 7), 0
        if isinstance(value, int):
            return 1 + (value.bit_length() >> 10), 0
        if not isinstance(value, (tuple, list, Mapping, Set)):
            return 1, 0
        known = self._weighed.get(id(value))
        if known is None or known[0] is not value:
            total, depth = 1, 0
            if level <= DEEPEST:
                for part in _parts(value):
                    self.charge(1)
                    weight, below = self._weigh(part, level + 1)
                    total, depth = total + weight, max(depth, below + 1)
            if level + depth > DEEPEST:
                raise StackValidationFailed(f"lists and maps lie in each other deeper than {DEEPEST}")
            if total > MAX_OBJECTS:
                raise StackValidationFailed("the expression makes too much data")
            known = self._weighed[id(value)] = (value, total, depth)
        return known[1], known[2]


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield item
    elif isinstance(value, (tuple, list, Set)):
        yield from value


def counted(name: str, function: Callable[..., object], meter: Callable[[], WorkMeter]) -> Callable[..., object]:
    """Wrap a function of the library with counting.

    `meter` returns the meter of the running evaluation.
    """
    looks, check = name in LOOKS, CHECKS.get(name)

    def call(*given: object, **named: object) -> object:
        at = meter()
        arguments = (*given, *named.values())
        at.charge(CALL + sum(map(at.weight, arguments[1:] if looks else arguments)))
        if check is not None:
            check(*arguments)
        result = function(*map(at.let_in, given), **{key: at.let_in(value) for key, value in named.items()})
        return at.let_out(result)

    return call


# -- what would take long within one call ------------------------------------------------------------


def _shift(value: object, bits: object) -> None:
    if isinstance(value, int) and isinstance(bits, int) and value.bit_length() + bits > MAX_BITS:
        raise ValueError("the number is too large")


def _times(left: object, right: object, *_engine: object) -> None:
    for many, times in ((left, right), (right, left)):
        if isinstance(times, int):
            if isinstance(many, (tuple, list)) and len(many) * times > MAX_REPEATED:
                raise ValueError(f"a list of more than {MAX_REPEATED} items")
            if isinstance(many, str) and len(many) * times > MAX_CHARACTERS:
                raise ValueError("the text is too long")
            if isinstance(many, int) and many.bit_length() + times.bit_length() > MAX_BITS:
                raise ValueError("the number is too large")


def _pow(a: object, b: object, c: object = None) -> None:
    if not isinstance(a, int) or not isinstance(b, int):
        return
    if c is None and max(a.bit_length(), 1) * b > MAX_BITS:
        raise ValueError("the power is too large")
    if isinstance(c, (int, float)) and max(b.bit_length(), int(c).bit_length()) > MAX_MODULAR_BITS:
        raise ValueError("the power is too large")


def _round(_number: object, digits: object = 0) -> None:
    if isinstance(digits, int) and digits < -MAX_DIGITS:
        raise ValueError(f"there are no numbers with {-digits} digits")


def _replace(*given: object) -> None:
    """``text.replace(old, new)`` and ``text.replace({old: new, …})``."""
    texts = [one for one in given if isinstance(one, str)]
    if len(texts) == 3:
        _bound_replaced(texts[0], texts[1], texts[2])
    size = len(texts[0]) if texts else 0
    for one in given:
        if isinstance(one, Mapping) and texts:
            for old, new in one.items():
                size *= 1 + len(str(new)) // max(1, len(str(old)))
                if size > MAX_CHARACTERS:
                    raise ValueError("the text is too long")


def _bound_replaced(text: str, old: str, new: str) -> None:
    if len(text) + (text.count(old) if old else len(text) + 1) * len(new) > MAX_CHARACTERS:
        raise ValueError("the text is too long")


def _concat(*texts: object) -> None:
    if sum(len(one) for one in texts if isinstance(one, str)) > MAX_CHARACTERS:
        raise ValueError("the text is too long")


def _text(value: object) -> None:
    """Refuse text of values that are no data: it would be a memory address."""
    if isinstance(value, (tuple, list, Mapping, Set)):
        for part in _parts(value):
            _text(part)
    elif value is not None and not isinstance(value, (str, bool, int, float, datetime, timedelta, tzinfo)):
        raise ValueError("the value has no text: make a list of it")


def _format(_date: object, form: object) -> None:
    """A width in a form is an amount of memory."""
    if isinstance(form, str) and re.search(r"%[^%A-Za-z]*\d{3}", form):
        raise ValueError("the form is too wide")


CHECKS: Final[Mapping[str, Callable[..., None]]] = {
    "#operator_*": _times,
    "shiftBitsLeft": _shift,
    "pow": _pow,
    "round": _round,
    "replace": _replace,
    "concat": _concat,
    "#operator_+": _concat,
    "str": _text,
    "format": _format,
}
"""By the name of a function: what refuses arguments before it is called.
Takes them in the order of its parameters."""

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_QUOTE: Final = re.compile("[\"']")
MAX_SHOWN: Final = 200
"""Characters. Python itself shows only so many of a text that is no number."""


def text_of(error: Exception) -> str:
    """Return an error text of the library without addresses.

    Of a long one only the beginning, without values: a part of a hidden value would not be masked.
    """
    text = _ADDRESS.sub("", str(error))
    return text if len(text) <= MAX_SHOWN else f"{_QUOTE.split(text, maxsplit=1)[0][:MAX_SHOWN]}…"
