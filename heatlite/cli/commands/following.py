"""Start of operations, and their results: parts that several commands share."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from heatlite.cli.client import Client, Stack, an_object, part, text
from heatlite.cli.errors import CommandError, Misuse, RefusedRequest
from heatlite.cli.output import progress
from heatlite.cli.session import Session
from heatlite.core.json import Json, dump

NEEDS_APPROVAL: Final = "ApprovalRequired"
"""Error of a change that needs an approval."""
PAUSE: Final = 1.0
"""Seconds between looks at an action that waits for its approval."""


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

    Waits for its approval, too, if it was made by `change`. Returns the exit code. Raises CommandError if another
    request deletes the stack, and as `await_begin`.
    """
    may_leave(arguments, session)
    after, began = session.client.last_event(stack, progress.NESTED), time.monotonic()
    if not await_begin(session, request(), arguments.no_wait):
        return 0
    if arguments.no_wait:
        return started(arguments, stack)
    return ended(arguments, require_stack(progress.wait(session, stack, after, again, arguments.format, began)))


def change(
    client: Client, method: str, path: str, body: Json = None, query: Mapping[str, str | Sequence[str]] | None = None
) -> Json:
    """Send a request that changes a stack, and return its answer.

    One that needs an approval waits for it. Its answer has an action that has not begun.
    """
    try:
        return client.request(method, path, body, query)
    except RefusedRequest as refusal:
        if refusal.kind != NEEDS_APPROVAL or path == "/stacks":
            raise
    answer = client.request(method, path, body, {**(query or {}), "approval": "wait"})
    print(text(an_object(answer, "action").get("status_reason")), file=sys.stderr)
    return answer


def await_begin(session: Session, answer: object, is_left: bool) -> bool:
    """Wait until the action of an answer has begun, if it waits for an approval.

    Returns False if it waits on without this command: it `is_left`, or there is no server. Raises CommandError if it
    is not approved.
    """
    action = answer.get("action") if isinstance(answer, Mapping) else None
    if not isinstance(action, Mapping):
        return True
    path = f"/actions/{part(text(action['id']))}"
    while action.get("status") == "INIT":
        if is_left or session.embedded:
            print(f"It begins once it is approved. Watch it with: heatlite action show {text(action['id'])}")
            return False
        time.sleep(PAUSE)
        action = an_object(session.client.request("GET", path), "action")
    if action.get("status") == "CANCELLED":
        raise CommandError(f"Nothing was begun: {text(action.get('status_reason'))}.")
    return True


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
