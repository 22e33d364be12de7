"""Calls of type code outside of steps: each error becomes a HeatliteError."""

from collections.abc import Iterator
from contextlib import contextmanager

from heatlite.core.errors import HeatliteError


class TypeFailed(HeatliteError):
    """The code of a type raised an unexpected error."""

    text = "{error}: {reason}"


@contextmanager
def type_code() -> Iterator[None]:
    """Convert unexpected errors of a type to TypeFailed."""
    try:
        yield
    except HeatliteError:
        raise
    except Exception as error:  # Types are plugins, which may raise anything.
        raise TypeFailed(error=type(error).__name__, reason=error) from error
