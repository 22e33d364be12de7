"""Errors that a command prints instead of a traceback."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from heatlite.core.errors import ErrorAnswer, Problem

MOST_LINES: Final = 40
"""Problems that a command prints as text."""
NO_ADDRESS = "{shown!r} is not the address of a server; an example is http://127.0.0.1:8004."


class CommandError(Exception):
    """The command failed. The text is a sentence for the user."""

    exit_code = 1


class Misuse(CommandError):
    """Error in the command line: an argument, a setting, or an impossible question."""

    exit_code = 2


class LeftWaiting(Exception):
    """A request waits for its approval without this command, which has not failed."""

    def __init__(self, action_id: str, message: str) -> None:
        super().__init__(message)
        self.action_id = action_id


class RefusedRequest(ErrorAnswer, CommandError):
    """The server answered with an error, whose text this is."""

    def __init__(self, message: str, status: int, kind: str = "") -> None:
        """`kind` is the `error.type` of the answer."""
        super().__init__(message, status)
        self.kind = kind

    @property
    def is_outage(self) -> bool:
        """True if the server cannot answer now, such as in an outage of its database."""
        return self.status == HTTPStatus.SERVICE_UNAVAILABLE


def listed(problems: Sequence[Problem]) -> str:
    """Return a line for each problem.

    Of very many, the first errors, and how many more there are.
    """
    more = len(problems) - MOST_LINES
    if more <= 0:
        return "\n".join(map(describe, problems))
    first = sorted(problems, key=lambda problem: problem.severity != "error")[:MOST_LINES]
    lines = [describe(problem) for problem in problems if problem in first]
    return "\n".join([*lines, f"{more} more: heatlite validate --format json lists all"])


def describe(problem: Problem) -> str:
    """Return ``hello.yaml:7:5: error: text (hint)``, which editors and CI parse."""
    place = f"{problem.source}:{problem.line}:{problem.column}" if problem.line else problem.source
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"{place}: {problem.severity}: {problem.text}{hint}"
