"""Types that there are, and that cannot be used here and now: who asks may not, or the cloud has no such service."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Bar = Callable[[str], tuple[str, str] | None]
"""Given the name of a type: the error that it would be, and its text; None if nothing is in the way."""

_bar: ContextVar[Bar | None] = ContextVar("bar", default=None)


@contextmanager
def barring(bar: Bar) -> Iterator[None]:
    """Inside, and in this thread, templates are checked for types that `bar` has something against. (A context for the
    reason that `constraints.looked_up` is one.)"""
    token = _bar.set(bar)
    try:
        yield
    finally:
        _bar.reset(token)


def barred(type_name: str) -> tuple[str, str] | None:
    """What is against a type: the error's name and text."""
    bar = _bar.get()
    return None if bar is None else bar(type_name)
