"""Calls of type code outside of steps: each error becomes a HeatliteError."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, cleaned, dump


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


def ask(question: Callable[[], Json]) -> Json:
    """Return the answer of a type about its object, with ``?`` for lone surrogates.

    Neither a database nor a client takes these.
    """
    with type_code():
        found = question()
        if isinstance(found, str) and found.isascii():
            return found
        try:
            dump(found).encode()
        except UnicodeEncodeError:
            found = cleaned(found)
        except (RecursionError, TypeError):
            pass  # such as UNKNOWN in a preview
        return found
