"""Declared shapes of arguments, and helpers that all functions use."""

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from heatlite.core.errors import StackValidationFailed
from heatlite.template.expression import FunctionCall, deferred, entries, fields

MAX_TEXT: Final = 8 * 1024 * 1024
"""Characters that one function may produce: nested calls multiply."""
MAX_ITEMS: Final = 100_000
"""Items that one function may produce."""


class Items(Struct, frozen=True):
    """A list of `low` to `high` arguments."""

    text: str
    """Error text for anything else; ``%s`` stands for the name of the function."""
    low: int = 0
    high: int | None = None
    may_be_call: bool = False
    """Accept a call that gives the list only when it is resolved."""

    def check(self, call: FunctionCall, arguments: object) -> None:
        given = entries(arguments)
        if given is None and self.may_be_call and deferred(arguments):
            return
        if given is None or len(given) < self.low or (self.high is not None and len(given) > self.high):
            raise call.fault(self.text % call.name)


class Fields(Struct, frozen=True):
    """A map with the keys `needed`, and no others than these and `optional`."""

    needed: Collection[str]
    syntax: str
    optional: Collection[str] | None = None
    """None allows all keys."""

    def check(self, call: FunctionCall, arguments: object) -> None:
        given = fields(arguments)
        if given is None:
            raise call.fault(f'Arguments to "{call.name}" must be a map')
        foreign = () if self.optional is None else given.keys() - {*self.needed, *self.optional}
        if foreign or not given.keys() >= set(self.needed):
            raise call.fault(f'"{call.name}" syntax should be {self.syntax}')


def wrong(text: str) -> StackValidationFailed:
    """Return the error for arguments that cannot be used; to be raised."""
    return StackValidationFailed(text)


def sequence(value: object) -> Sequence[object]:
    """Return the value if it is a list with items. Raises StackValidationFailed."""
    if not isinstance(value, list) or not value:
        raise wrong("Arguments must be a string or a list with items")
    return value


def brief(value: object) -> str:
    """Return the value as Python writes it, of a long one the type and size.

    A part of a hidden value would not be masked.
    """
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4300 digits
        return "a number of too many digits"
    if len(text) <= 80:
        return text
    kind = "text" if isinstance(value, str) else "list" if isinstance(value, list) else "value"
    return f"a {kind} of {len(text)} characters"
