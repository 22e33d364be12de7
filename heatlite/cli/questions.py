"""Questions before a command changes or deletes something."""

import argparse
import sys

from heatlite.cli.errors import CommandError, Misuse


def need_consent(arguments: argparse.Namespace, effect: str) -> None:
    """Check that the command may ask: stdin is a terminal, or --yes is given.

    `effect` begins the error, as in "up changes a stack". Raises Misuse, also for the format json.
    """
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise Misuse(f"{effect}, and there is no terminal to ask on. Give --yes to go on without a question.")
    if getattr(arguments, "format", None) == "json":
        raise Misuse("The format json has no question: give --yes, too.")


def agree(arguments: argparse.Namespace, question: str) -> None:
    """Ask the question unless --yes is given. Raises CommandError without consent."""
    if not arguments.yes and not confirmed(question):
        raise CommandError("Nothing was done.")


def confirmed(question: str) -> bool:
    """Ask on stderr. The end of stdin means no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        print(file=sys.stderr)  # the prompt of the shell begins a line
        raise
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")
