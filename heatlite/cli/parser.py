"""Parsers of command lines, which know their commands and arguments."""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, NoReturn

MISUSE = 2
"""Exit code for a wrong command line or setting, as of argparse."""

EMPTY = "is empty; is a variable of the shell not set?"
"""Error for an empty name."""

_PERCENT = re.compile(r"-\d*\.?\d+%")


class CommandParser(argparse.ArgumentParser):
    """A parser of a command, or of a word before commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: dict[str, CommandParser] = {}
        """Parsers of the commands below, by name and alias."""
        self.arguments: list[argparse.Action] = []
        """Arguments of the command, without those that all commands have."""
        self.general: list[argparse.Action] = []
        """Those that all commands have."""
        self.default = ""
        """The command below for a word that is none, and for no word; "": there is none."""
        self.examples: Sequence[str] = ()
        """Command lines for the help, without the name of the program."""

    def add_commands(self, **options: Any) -> None:
        """Have commands below."""
        self._added: Any = self.add_subparsers(metavar="COMMAND", required=True, **options)

    def add_command(self, name: str, summary: str, aliases: Sequence[str] = (), **options: Any) -> "CommandParser":
        """Add a command below."""
        made: CommandParser = self._added.add_parser(
            name, help=summary, description=summary, aliases=[*aliases], **options
        )
        self.commands.update(dict.fromkeys((name, *aliases), made))
        return made

    def completed(self, words: Sequence[str]) -> Sequence[str]:
        """Return a command line with the default command of its first word."""
        group = self.commands.get(words[0]) if words else None
        if group is None or not group.default or words[1:2] in (["-h"], ["--help"]):
            return words
        return words if {*words[1:2]} & {*group.commands} else [words[0], group.default, *words[1:]]

    def below(self) -> Iterator["CommandParser"]:
        """Iterate over this parser and all below."""
        yield self
        for child in dict.fromkeys(self.commands.values()):
            yield from child.below()

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit."""
        self.print_usage(sys.stderr)
        print_error(f"{self.prog}: error: {message}\nSee: {self.prog} --help")
        self.exit(MISUSE)


def print_error(text: str) -> None:
    """Print to standard error, in lines as wide as the terminal."""
    from heatlite.cli.output.render import folded

    print(folded(text, sys.stderr), file=sys.stderr)


def filled(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return `read`, with an error for an empty text."""

    @wraps(read)
    def checked(given: str) -> Any:
        if not given:
            raise argparse.ArgumentTypeError(EMPTY)
        return read(given)

    return checked


def with_percents_last(words: Sequence[str]) -> list[str]:
    """Move words such as ``-10%`` behind ``--``: to argparse they are options."""
    percents = [word for word in words if _PERCENT.fullmatch(word)]
    if not percents or "--" in words:
        return [*words]
    return [*(word for word in words if word not in percents), "--", *percents]
