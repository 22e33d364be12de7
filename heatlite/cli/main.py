"""``heatlite``: parses the command line, runs a command and reports its errors."""

import argparse
import os
import sys
from collections.abc import Sequence

from heatlite import __version__
from heatlite.cli.arguments import Run
from heatlite.cli.commands import (
    actions,
    database,
    maintenance,
    nodes,
    openstack,
    server,
    stacks,
    template_test,
    types,
    users,
    validate,
)
from heatlite.cli.errors import CommandError, Refused
from heatlite.cli.output.progress import report
from heatlite.cli.session import Host
from heatlite.core.config import BadSetting
from heatlite.core.errors import HeatliteError

MODULES = (
    stacks, template_test, validate, maintenance, actions, nodes, types, openstack, server, database, users,
)  # fmt: skip
"""Modules with commands, in the order of the help text."""

MISUSE = 2
"""Exit code for a wrong command line or setting, as of argparse."""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as in shells."""


def build_parser() -> argparse.ArgumentParser:
    """Build the parser with all commands."""
    parser = argparse.ArgumentParser(prog="heatlite", description="Stacks from Heat templates, in one process.")
    parser.add_argument("--version", action="version", version=f"heatlite {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in MODULES:
        module.commands.add_to(subparsers)
    return parser


def run(arguments: Sequence[str] | None, host: Host) -> int:
    """Run one command line. Returns the exit code.

    docs/reference/exit-codes.md lists the codes.
    """
    parsed = build_parser().parse_args(arguments)
    command: Run = parsed.run
    try:
        return command(parsed, host)
    except Refused as error:
        report(parsed, str(error), error.status)
        print(f"heatlite: {error} (HTTP {error.status})", file=sys.stderr)
    except CommandError as error:
        report(parsed, str(error))
        print(f"heatlite: {error}", file=sys.stderr)
        return error.exit_code
    except HeatliteError as error:
        report(parsed, error.message)
        print(f"heatlite: {error.message}", file=sys.stderr)
        return MISUSE if isinstance(error, BadSetting) else 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe (``heatlite events … | head``), so nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
