"""Calls of type code outside of steps: each error becomes a HeatliteError."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, cleaned, dump


class TypeFailed(HeatliteError):
    """The code of a type raised an unexpected error."""

    text = "{error}: {reason}"


class _TypeCode(AbstractContextManager[None]):
    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        # Types are plugins, which may raise anything.
        if isinstance(error, Exception) and not isinstance(error, HeatliteError):
            raise TypeFailed(error=type(error).__name__, reason=error) from error


_TYPE_CODE = _TypeCode()


def type_code() -> AbstractContextManager[None]:
    """Convert unexpected errors of a type to TypeFailed."""
    return _TYPE_CODE


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
