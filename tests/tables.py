"""Tables of cases of one pure rule, run as one test."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest


def table(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with each row of a table, as one test that names the rows that fail.

    It stands in place of `pytest.mark.parametrize`, which collects, sets up and reports each case: that takes longer
    than the case of a pure rule. All rows share the fixtures of the test, so each must begin from a state that it makes
    itself.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    single = isinstance(names, str) and len(columns) == 1
    cases = [dict(zip(columns, [row] if single else row, strict=True)) for row in rows]
    assert cases, "a table without rows tests nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(*arguments: Any, **fixtures: Any) -> None:
            failed = []
            for case in cases:
                try:
                    test(*arguments, **fixtures, **case)
                except Exception as error:  # noqa: BLE001 - the others are tried, too
                    error.add_note(f"in the row {case!r}")
                    failed.append(error)
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(cases)} rows fail", failed)

        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in columns]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorate


def sampled(rows: Iterable[Any], each: int, others: pytest.MarkDecorator = pytest.mark.slow) -> list[Any]:
    """Return rows for `pytest.mark.parametrize`, with a mark on most.

    The first of `each` rows stays as it is. Use it for the table of a rule that has a faster test of its own. A row
    that is a tuple has a value for each name.
    """
    out = []
    for number, row in enumerate(rows):
        out.append(_marked(row, [others] if number % each else []))
    return out


def few(rows: Iterable[Any]) -> list[Any]:
    """Return rows for `pytest.mark.parametrize` that each cost an engine or a server.

    The first stays as it is, one more is slow, the rest are thorough. Use it where the rule has a faster test, or where
    each row takes the same way through the code.
    """
    given = list(rows)
    marks = [[], *([pytest.mark.thorough] for _ in given[1:])]
    if len(given) > 1:
        marks[len(given) // 2] = [pytest.mark.slow]
    return [_marked(row, mark) for row, mark in zip(given, marks, strict=True)]


def _marked(row: Any, marks: list[pytest.MarkDecorator]) -> Any:
    """Return a row, or a `pytest.param`, with further marks."""
    given = row if hasattr(row, "marks") else pytest.param(*(row if isinstance(row, tuple) else (row,)))
    return pytest.param(*given.values, marks=[*given.marks, *marks], id=given.id)
