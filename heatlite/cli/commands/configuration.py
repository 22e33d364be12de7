"""Commands on the configuration of heatlite itself: config, completion."""

import argparse
from pathlib import Path

from heatlite.cli import contexts
from heatlite.cli.arguments import CONTEXT, LISTING, CommandGroup, argument
from heatlite.cli.client import Object
from heatlite.cli.output import render
from heatlite.cli.session import FLAGS, Host, settings
from heatlite.core import config
from heatlite.core.runtime.extras import MissingLibrary

COLUMNS = ("name", "value", "origin")
CONTEXT_COLUMNS = ("name", "endpoint", "project", "username", "in_use")

config_commands = CommandGroup("config", "settings and contexts in use")
commands = CommandGroup(subgroups=[config_commands])


@config_commands.command(
    "show", "list the settings with their values and origins", CONTEXT, *LISTING, server=False,
    examples=("config show", "config show --context prod"),
)
def show(arguments: argparse.Namespace, host: Host) -> int:
    """List the settings with their values and origins; secrets are not shown."""
    chosen = settings(arguments, host)
    flags = {name: getattr(arguments, name, None) for name in FLAGS}
    file: Path | None = arguments.config
    values = config.all_values(chosen, host.features)
    origins = config.origins(values, flags, file, contexts.environment(arguments))
    found: list[Object] = []
    secrets = config.secret_names(host.features())
    for name, value in values.items():
        shown = "(set)" if value and name in secrets else str("" if value is None else value)
        if name == "database":
            shown = chosen.shown_database
        found.append({"name": name, "value": shown, "origin": origins[name]})
    render.listing(found, COLUMNS, arguments, "settings")
    return 0


@config_commands.command(
    "contexts", "list the contexts: named servers", CONTEXT, *LISTING, server=False,
    examples=("config contexts",),
)
def list_contexts(arguments: argparse.Namespace, host: Host) -> int:  # noqa: ARG001 - signature of commands
    """List the contexts of the user."""
    known = contexts.read()
    used = contexts.chosen(arguments, known)
    found = [
        {
            "name": name,
            "endpoint": given.get("endpoint"),
            "project": given.get("project"),
            "username": given.get("username"),
            "in_use": name == used,
        }
        for name, given in known.named.items()
    ]
    render.listing(found, CONTEXT_COLUMNS, arguments, f"contexts in {known.path}")
    return 0


@commands.command(
    "completion",
    "print the shell code that completes commands and names",
    argument("shell", choices=("bash", "zsh", "fish"), help="your shell"),
    server=False,
    examples=("completion bash",),
)
def completion(arguments: argparse.Namespace, host: Host) -> int:  # noqa: ARG001 - signature of commands
    """Print the code for a shell: ``eval "$(heatlite completion bash)"``."""
    try:
        from argcomplete import shellcode  # type: ignore[attr-defined]  # it has no `__all__`
    except ImportError:
        raise MissingLibrary("Completion", "argcomplete", "cli") from None
    print(shellcode(["heatlite"], shell=arguments.shell))
    return 0
