"""What a command tells its user instead of a traceback."""

from heatlite.core.errors import Problem


class CommandError(Exception):
    """The command cannot go on. The text is a sentence for the user."""


class Refused(CommandError):
    """The server answered with an error; the text is the server's own."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def describe(problem: Problem) -> str:
    """``hello.yaml:7:5: error: text (hint)``, the form that editors and CI systems can jump to."""
    place = f"{problem.source}:{problem.line}:{problem.column}" if problem.line else problem.source
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"{place}: {problem.severity}: {problem.text}{hint}"
