"""Declaration of commands: decorators with name, help text and arguments."""

import argparse
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from heatlite.cli.parser import EMPTY, CommandParser, filled
from heatlite.core.json import JsonMap

if TYPE_CHECKING:
    from heatlite.cli.client import Client, Stack
    from heatlite.cli.session import Host
    from heatlite.core.errors import Problem

SHORTEST_PAUSE = 0.1
"""Seconds between the requests of --watch, so that it does not keep a server busy."""

DECIMAL = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
"""Pattern of a number.

`int` and `float` also read ``1_0``, spaces around a number, and the digits of other scripts.
"""

Sections: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]
"""Titles of the help → modules → their commands."""

Run: TypeAlias = Callable[[argparse.Namespace, "Host"], int]
"""Runs a command. Returns the exit code."""


Then: TypeAlias = Callable[[argparse.Namespace, "Client", "Stack"], bool | None]
"""Goes on after a command of another module, with its arguments and the stack."""


Keys: TypeAlias = Callable[[argparse.Namespace], JsonMap]
"""Returns the keys that an option of a feature adds to the body of a command."""


Review: TypeAlias = Callable[[argparse.Namespace, "Host"], "Sequence[Problem]"]
"""Returns further problems of the files that `validate` looks at."""


class Argument(Struct, frozen=True):
    """An argument, as `ArgumentParser.add_argument` takes it."""

    flags: tuple[str, ...]
    options: dict[str, Any]


Arguments: TypeAlias = Argument | tuple[Argument, ...]
"""An argument, or several that exclude each other."""


def argument(*flags: str, **options: Any) -> Argument:
    """Declare an argument."""
    return Argument(flags, options)


def repeatable(*flags: str, **options: Any) -> Argument:
    """Declare a flag that may be given several times. Its value is a list."""
    return Argument(flags, {"action": "append", "default": [], **options})


class Command(Struct, frozen=True):
    """A command with its arguments. `server` adds the flags that choose a server."""

    name: str
    summary: str
    run: Run
    arguments: tuple[Arguments, ...]
    aliases: Sequence[str]
    server: bool
    examples: Sequence[str]

    def add_to(self, above: CommandParser) -> None:
        """Add the parser of the command."""
        raw = argparse.RawDescriptionHelpFormatter
        parser = above.add_command(self.name, self.summary, self.aliases, formatter_class=raw)
        parser.examples = self.examples
        parser.epilog = "\n".join(["examples:", *(f"  heatlite {one}" for one in self.examples)])
        parser.set_defaults(run=self.run, parser=parser, further=(), keys=(), filters=(), reviews=())
        for one in self.arguments:
            group = parser if isinstance(one, Argument) else parser.add_mutually_exclusive_group()
            for each in (one,) if isinstance(one, Argument) else one:
                is_word = not each.flags[0].startswith("-")
                read = {"type": filled(each.options.get("type", str))} if is_word else {}
                parser.arguments.append(group.add_argument(*each.flags, **{**each.options, **read}))
        common = parser.add_argument_group("server and settings")
        for general in (*(SERVER if self.server else ()), CONFIG, DATABASE):
            parser.general.append(common.add_argument(*general.flags, **general.options))


class CommandGroup:
    """The commands of a module. With a name, they are commands of two words."""

    def __init__(
        self, name: str = "", summary: str = "", subgroups: Sequence["CommandGroup"] = (), default: str = ""
    ) -> None:
        """`default` is the command of a line whose second word is none of the commands."""
        self._name = name
        self._default = default
        self._summary = summary
        self._subgroups = subgroups
        self._commands: list[Command] = []
        self._options: list[tuple[str, Argument, Then]] = []
        self._filters: list[tuple[str, Argument]] = []
        self._bodies: list[tuple[str, Argument, Keys]] = []
        self._reviews: list[tuple[Argument, Review]] = []

    def review(self, one: Argument, problems: Review) -> None:
        """Add an option to `validate`, if the parser has that. `problems` looks further."""
        self._reviews.append((one, problems))

    def filter(self, command: str, one: Argument) -> None:
        """Add a flag to a list of another module, if the parser has that.

        The flag is a key of the request's query.
        """
        self._filters.append((command, one))

    def option(self, command: str, one: Argument, then: Then) -> None:
        """Add an option to a command of another module, if the parser has that.

        The command calls `then` once the server has taken its request. A list calls it before it asks for its rows:
        True says that all is printed.
        """
        self._options.append((command, one, then))

    def body(self, command: str, one: Argument, keys: Keys) -> None:
        """Add an option to a command of another module, if the parser has that.

        `keys` are added to the definition that the command sends.
        """
        self._bodies.append((command, one, keys))

    def command(
        self,
        name: str,
        summary: str,
        *arguments: Arguments,
        examples: Sequence[str],
        aliases: Sequence[str] = (),
        server: bool = True,
    ) -> Callable[[Run], Run]:
        """Make a function the command with this name.

        `examples` are command lines for its help, without the name of the program.
        """

        def add(run: Run) -> Run:
            self._commands.append(Command(name, summary, run, arguments, aliases, server, examples))
            return run

        return add

    def add_to(self, above: CommandParser) -> None:
        """Add the parsers of all commands."""
        if self._name:
            above = above.add_command(self._name, self._summary)
            above.add_commands(title="commands")
            above.default = self._default
        for command in self._commands:
            command.add_to(above)
        for group in self._subgroups:
            group.add_to(above)

    def extend(self, above: CommandParser) -> None:
        """Add the options to commands of other modules, once all of them have been added."""
        for name, one, then in self._options:
            parser = above.commands.get(name)
            if parser is not None:
                parser.arguments.append(parser.add_argument(*one.flags, **one.options))
                parser.set_defaults(further=(*parser.get_default("further"), then))
        for name, one, keys in self._bodies:
            parser = above.commands.get(name)
            if parser is not None:
                parser.arguments.append(parser.add_argument(*one.flags, **one.options))
                parser.set_defaults(keys=(*parser.get_default("keys"), keys))
        for one, problems in self._reviews:
            parser = above.commands.get("validate")
            if parser is not None:
                parser.arguments.append(parser.add_argument(*one.flags, **one.options))
                parser.set_defaults(reviews=(*parser.get_default("reviews"), problems))
        for name, one in self._filters:
            parser = above.commands.get(name)
            if parser is not None:
                flag = parser.add_argument(*one.flags, action="store_true", **one.options)
                parser.arguments.append(flag)
                parser.set_defaults(filters=(*parser.get_default("filters"), flag.dest))


def named(given: str) -> str:
    """Read a name. Raises ArgumentTypeError if it is empty."""
    if not given:
        raise argparse.ArgumentTypeError(EMPTY)
    return given


def minutes(given: str) -> int:
    """Read a number of minutes from 1. Raises ArgumentTypeError."""
    if not is_whole(given) or int(given) < 1:
        raise argparse.ArgumentTypeError(f"{given!r} is not a whole number of minutes from 1")
    return int(given)


def number(given: str) -> int:
    """Read a whole number from 0. Raises ArgumentTypeError."""
    if not is_whole(given):
        raise argparse.ArgumentTypeError(f"{given!r} is not a whole number")
    return int(given)


def is_whole(given: str) -> bool:
    """Return True for the text of a whole number from 0."""
    return given.isascii() and given.isdecimal()


def seconds(given: str) -> float:
    """Read a number of seconds. Raises ArgumentTypeError."""
    found = float(given) if re.fullmatch(DECIMAL, given) else math.inf
    if math.isinf(found):
        raise argparse.ArgumentTypeError(f"{given!r} is not a number of seconds")
    return found


def pause(given: str) -> float:
    """Read a pause between requests, in seconds. Raises ArgumentTypeError."""
    found = seconds(given)
    if found < SHORTEST_PAUSE:
        raise argparse.ArgumentTypeError(f"{given!r} is too short: at least {SHORTEST_PAUSE} seconds")
    return found


def cloud(purpose: str) -> Argument:
    """Declare ``--cloud``."""
    names = "an entry of clouds.yaml, envvars (the OS_* variables), or simulated"
    return argument("--cloud", metavar="NAME", help=f"{purpose}: {names}")


def only(flag: str, metavar: str, which: str, **options: Any) -> Argument:
    """Declare a filter of a list."""
    return repeatable(flag, metavar=metavar, help=f"only those {which}", **{"type": named, **options})


def filters(arguments: argparse.Namespace, *names: str) -> dict[str, str]:
    """Return the query of the given filters (`only`) of a list."""
    return {name: ",".join(given) for name in names if (given := getattr(arguments, name))}


CONFIG = argument("--config", type=Path, metavar="FILE", help="settings file (default: heatlite.toml of the user)")
DATABASE = argument("--database", metavar="URL", help="database (default: SQLite in the user's data folder)")
CLOUD = cloud("cloud for resources")
CONTEXT = argument("--context", metavar="NAME", help="context of contexts.toml (HEATLITE_CONTEXT; `heatlite config`)")
SERVER = (
    CONTEXT,
    argument("--endpoint", metavar="URL", help="URL of the server (HEATLITE_ENDPOINT; default: on this machine)"),
    argument("--project", help="project (HEATLITE_PROJECT; default: default)"),
    argument("--username", metavar="NAME", help="user (HEATLITE_USERNAME, _PASSWORD; or HEATLITE_TOKEN)"),
    argument("--cacert", metavar="FILE", help="authorities for https, PEM (HEATLITE_CACERT; default: the system's)"),
    CLOUD,  # without a server, the command does the work itself
)

FORMATS = ("table", "json", "yaml", "csv", "value")
FORMAT = argument("-f", "--format", choices=FORMATS, default="table", help="default: table")
COLUMN = repeatable("-c", "--column", metavar="COLUMN", help="show only this column (repeatable)")
WIDE = argument("-o", "--output", choices=("wide",), help="wide: a table with all columns, whole cells and times")
LISTING = (FORMAT, COLUMN, WIDE)
LIMIT = argument(
    "--limit", type=number, default=100, metavar="NUMBER", help="maximum number of rows (default: 100; 0: all)"
)

FILE = argument("file", type=Path, metavar="FILE", help="template")
ENVIRONMENT = repeatable("-e", "--environment", type=Path, metavar="FILE", help="environment (repeatable)")
PARAMETER = repeatable("-P", "--parameter", metavar="NAME=VALUE", help="parameter (repeatable)")

STACK = argument("stack", metavar="STACK", help="name or id")
REASON = argument("--reason", help="reason")
EXPIRES = "expiry time: 2026-11-21T18:00:00Z, +30m, +2h, +1d"
YES = argument("-y", "--yes", action="store_true", help="do not ask")
NO_WAIT = argument("--no-wait", action="store_true", help="return at once; needs a running server")
EVENTS_FORMAT = argument(
    "-f", "--format", choices=("text", "json"), default="text", help="json: one line per event, and one for the result"
)
FOLLOWED = (NO_WAIT, EVENTS_FORMAT)
"""Arguments of commands that start an operation and follow it."""

WATCH = argument(
    "--watch", nargs="?", type=pause, const=2.0, metavar="SECONDS", help="repeat until Ctrl-C (default: each 2 s)"
)
WAIT_TIMEOUT = argument("--timeout", type=seconds, metavar="SECONDS", help="maximum waiting time (exit code 124)")
