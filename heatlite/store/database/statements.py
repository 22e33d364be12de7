"""Statements of a transaction that go to the server together.

A statement whose answer is not needed at once waits for the next one whose answer is. On a server all of them then take
one round trip; SQLite runs each at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

Value: TypeAlias = None | str | int | float | bool
Parameters: TypeAlias = Sequence[Value]
Row: TypeAlias = tuple[Any, ...]
"""A row of a SELECT, typed as its columns."""
Statement: TypeAlias = tuple[str, Parameters]


class Answer(Protocol):
    """The answer to a statement: the part of a DB-API cursor (PEP 249) in use here."""

    @property
    def rowcount(self) -> int: ...
    def fetchall(self) -> Sequence[Row]: ...


class Fetched(NamedTuple):
    """An answer whose rows have been read."""

    rowcount: int
    rows: Sequence[Row]

    def fetchall(self) -> Sequence[Row]:
        """Return all rows."""
        return self.rows


class Pipelined(Protocol):
    """A connection that runs several statements in one round trip."""

    def run(self, statements: Sequence[Statement]) -> Sequence[Answer]: ...


class Sent:
    """A statement of a transaction. Reading its answer runs all that wait."""

    def __init__(self, sql: str, parameters: Parameters, flush: Callable[[], None]) -> None:
        self.statement: Statement = (sql, parameters)
        self.answer: Answer | None = None
        self._flush = flush

    @property
    def rowcount(self) -> int:
        """Number of rows met."""
        return self._answered().rowcount

    def rows(self) -> Sequence[Row]:
        """Return the rows. Call it once."""
        return self._answered().fetchall()

    def _answered(self) -> Answer:
        if self.answer is None:
            self._flush()
        if self.answer is None:
            raise RuntimeError("the transaction has ended without this statement")
        return self.answer


@dataclass
class Waiting:
    """The statements of a thread's transaction that the server does not have yet."""

    begun: bool = False
    """True once the server has begun the transaction."""
    sent: list[Sent] = field(default_factory=list)

    def run(self, connection: Pipelined, sql: str, parameters: Parameters, in_transaction: bool) -> Answer:
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
