"""Commands about nodes: machines with an agent."""

import argparse

from heatlite.agent import package
from heatlite.cli.errors import CommandError
from heatlite.cli.session import Host


def agent(arguments: argparse.Namespace, host: Host) -> int:  # noqa: ARG001 - every command takes both
    """Write the agent as one executable file."""
    try:
        package.write(arguments.file)
    except OSError as error:
        raise CommandError(f"cannot write {arguments.file}: {error.strerror}") from None
    print(f"Wrote {arguments.file}. Copy it to a machine with Python 3.11 or newer, and run it there.")
    return 0
