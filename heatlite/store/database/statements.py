"""Statements of a transaction that go to the server together.

A statement whose answer is not needed at once waits for the next one whose answer is. On a server all of them then take
one round trip; SQLite runs each at once.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

Value: TypeAlias = None | str | int | float | bool
Parameters: TypeAlias = Sequence[Value]
Row: TypeAlias = tuple[Any, ...]
"""A row of a SELECT, typed as its columns."""
Statement: TypeAlias = tuple[str, Parameters]


class FetchedRows(Struct, frozen=True):
    """The answer to a statement."""

    rowcount: int
    rows: Sequence[Row]


class Connection(Protocol):
    """A connection that runs several statements, on a server in one round trip."""

    @property
    def is_lost(self) -> bool: ...
    def run(self, statements: Sequence[Statement]) -> Sequence[FetchedRows]: ...
    def close(self) -> None: ...


class Sent:
    """A statement of a transaction. Reading its answer runs all that wait."""

    def __init__(self, sql: str, parameters: Parameters, flush: Callable[[], None]) -> None:
        self.statement: Statement = (sql, parameters)
        self.answer: FetchedRows | None = None
        self._flush = flush

    @property
    def rowcount(self) -> int:
        """Number of rows met."""
        return self._answered().rowcount

    def rows(self) -> Sequence[Row]:
        """Return the rows. Call it once."""
        return self._answered().rows

    def _answered(self) -> FetchedRows:
        if self.answer is None:
            self._flush()
        if self.answer is None:
            raise RuntimeError("the transaction has ended without this statement")
        return self.answer


class PendingStatements(Struct):
    """The statements of a thread's transaction that the server does not have yet."""

    begun: bool = False
    """True once the server has begun the transaction."""
    sent: list[Sent] = []

    def run(self, connection: Connection, sql: str, parameters: Parameters, in_transaction: bool) -> FetchedRows:
        """Run all that waits, then a statement; return its answer.

        The first call in a transaction begins it.
        """
        if not in_transaction:
            return connection.run([(sql, parameters)])[0]
        before: list[Statement] = [] if self.begun else [("BEGIN", ())]
        waiting = [one.statement for one in self.sent]
        self.begun = True  # even if one of them fails
        answers = connection.run([*before, *waiting, (sql, parameters)])
        for one, answer in zip(self.sent, answers[len(before) :], strict=False):
            one.answer = answer
        self.sent.clear()
        return answers[-1]

    def clear(self) -> None:
        """Forget the transaction."""
        self.begun = False
        self.sent.clear()
