"""Names of stacks and resources for the completion of a shell."""

import argparse
from collections.abc import Callable, Iterable

from heatlite.cli.client import Client, text
from heatlite.cli.errors import CommandError
from heatlite.cli.session import Host, connect
from heatlite.core.errors import HeatliteError

Completer = Callable[..., list[str]]


def complete(parser: argparse.ArgumentParser, host: Host) -> None:
    """Answer a shell's request for completions, if this is one, and exit."""
    import argcomplete

    for one in _below(parser):
        for action in one._actions:
            if action.metavar == "STACK":
                action.completer = _names(host, _stacks)  # type: ignore[attr-defined]  # argcomplete reads it
            elif action.metavar == "RESOURCE":
                action.completer = _names(host, _resources)  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _below(parser: argparse.ArgumentParser) -> Iterable[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in set(action.choices.values()):
                yield from _below(child)


def _names(host: Host, read: Callable[[Client, argparse.Namespace], Iterable[str]]) -> Completer:
    def names(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        for flag in ("endpoint", "project", "config", "database", "context", "cacert", "cloud", "username"):
            if not hasattr(parsed_args, flag):
                setattr(parsed_args, flag, None)
        try:
            with connect(parsed_args, host, reads_only=True) as session:
                return [name for name in read(session.client, parsed_args) if name.startswith(prefix)]
        except (CommandError, HeatliteError):
            return []  # a shell has no place for errors

    return names


def _stacks(client: Client, _: argparse.Namespace) -> Iterable[str]:
    return [text(one.get("stack_name")) for one in client.stacks()]


def _resources(client: Client, arguments: argparse.Namespace) -> Iterable[str]:
    return [text(one.get("resource_name")) for one in client.resources(client.find(arguments.stack))]
