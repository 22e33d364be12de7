"""Start of operations, and their results: parts that several commands share."""

import argparse
import time
from collections.abc import Callable

from heatlite.cli.client import Stack
from heatlite.cli.errors import CommandError, Misuse
from heatlite.cli.output import progress
from heatlite.cli.session import Session
from heatlite.core.json import dump


def may_leave(arguments: argparse.Namespace, session: Session) -> None:
    """Check that something goes on with the work after --no-wait. Raises Misuse."""
    if arguments.no_wait and session.embedded:
        raise Misuse(
            "--no-wait needs a running server (heatlite serve). Without one, this command does the work itself."
        )


def start(
    arguments: argparse.Namespace, session: Session, stack: Stack, request: Callable[[], object], again: str
) -> int:
    """Make a request and wait for the operation that it starts.

    Returns the exit code. Raises CommandError if another request deletes the stack.
    """
    may_leave(arguments, session)
    if arguments.no_wait:
        request()
        return started(arguments, stack)
    return ended(arguments, require_stack(follow_request(session, stack, request, again, arguments.format)))


def require_stack(done: progress.Followed) -> progress.Followed:
    """Return the end of an operation. Raises CommandError if the stack is gone."""
    if done.gone:
        name = done.before.name
        raise CommandError(f"The stack {name} is gone: it was deleted meanwhile. See: heatlite audit --stack {name}")
    return done


def follow_request(
    session: Session, stack: Stack, request: Callable[[], object], again: str, form: str = "text"
) -> progress.Followed:
    """Make a request, and follow the operation that it may start."""
    after = session.client.last_event(stack, progress.NESTED)
    began = time.monotonic()
    request()
    return progress.wait(session, stack, after, again, form, began)


def started(arguments: argparse.Namespace, stack: Stack) -> int:
    """Tell that the operation goes on without this command. Returns the exit code."""
    if arguments.format == "json":
        print(dump({"type": "started", "stack_name": stack.name, "id": stack.id}))
    else:
        print(f"{stack.name}: started. Watch it with: heatlite events -f {stack.name}")
    return 0


def ended(arguments: argparse.Namespace, done: progress.Followed) -> int:
    """Print the record of the result, if wanted. Returns the exit code."""
    if arguments.format == "json":
        print(dump(done.record()))
    return done.exit_code
