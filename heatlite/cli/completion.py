"""Completion of a shell: commands, options, and the names of what there is."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from io import StringIO

from heatlite.cli import contexts, transport
from heatlite.cli.client import Client, text
from heatlite.cli.errors import CommandError
from heatlite.cli.parser import CommandParser
from heatlite.cli.session import Host, connect
from heatlite.core.errors import HeatliteError

Read = Callable[[Client, argparse.Namespace, str], Iterable[str]]
"""Reads the names of one kind; the last argument is the beginning of a word."""

Completer = Callable[..., list[str]]

MAX_SECONDS = 3.0
"""Longest wait for an answer of a server: the shell stands still meanwhile."""


def begun(environ: Mapping[str, str] = os.environ) -> str:
    """Return the command of the line that a shell completes; empty while it is typed."""
    words = environ.get("COMP_LINE", "")[: int(environ.get("COMP_POINT", 0))].split(" ")
    return words[1] if len(words) > 2 else ""


def complete(parser: CommandParser, host: Host) -> None:
    """Answer a shell's request for completions, and exit."""
    import argcomplete

    sys.stdin = StringIO()  # no question about a password in the middle of a line
    transport.TIMEOUT_SECONDS = MAX_SECONDS
    completers = {**{name: _names(host, read) for name, read in SERVED.items()}, **LOCAL}
    for one in parser.below():
        for action in (*one.arguments, *one.general):
            if isinstance(action.metavar, str):
                kind = "--context" if "--context" in action.option_strings else action.metavar
                if kind in completers:
                    action.completer = completers[kind]  # type: ignore[attr-defined]  # argcomplete reads it
    argcomplete.autocomplete(parser, always_complete_options=False)


def _names(host: Host, read: Read) -> Completer:
    def names(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        for flag in ("endpoint", "project", "config", "database", "context", "cacert", "cloud", "username"):
            if not hasattr(parsed_args, flag):
                setattr(parsed_args, flag, None)
        try:
            with connect(parsed_args, host, reads_only=True) as session:
                found = read(session.client, parsed_args, prefix)
                return sorted(name for name in found if name.startswith(prefix))
        except (CommandError, HeatliteError):
            return []  # a shell has no place for errors

    return names


def _stacks(client: Client, _: argparse.Namespace, __: str) -> Iterable[str]:
    return [text(one.get("stack_name")) for one in client.stacks()]


def _resources(client: Client, arguments: argparse.Namespace, prefix: str) -> Iterable[str]:
    """Return paths of resources: of the stack, or after ``group/`` of what is in it."""
    stack, _ = client.within(client.find(arguments.stack), prefix)
    outer = prefix[: prefix.rfind("/") + 1]
    return [outer + text(one.get("resource_name")) for one in client.resources(stack)]


def _members(client: Client, arguments: argparse.Namespace, _: str) -> Iterable[str]:
    group = f"{arguments.group}/"
    return [path.removeprefix(group) for path in _resources(client, arguments, group)]


def _contexts(**_: object) -> list[str]:
    try:
        return list(contexts.read().named)
    except CommandError:
        return []


def _examples(**_: object) -> list[str]:
    from heatlite.cli.commands.init import examples

    return list(examples())


SERVED: Mapping[str, Read] = {
    "STACK": _stacks,
    "RESOURCE": _resources,
    "PATH": _resources,
    "GROUP": _resources,
    "NODE": _resources,
    "MEMBER": _members,
}
"""Metavars of arguments → what reads their names from the server."""

LOCAL: Mapping[str, Completer] = {"--context": _contexts, "EXAMPLE": _examples}
