"""Start of operations, and their results: parts that several commands share."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from heatlite.cli.client import Stack, an_object, text
from heatlite.cli.commands.actions import find
from heatlite.cli.errors import CommandError, LeftWaiting, Misuse, RefusedRequest
from heatlite.cli.output import progress
from heatlite.cli.session import Session
from heatlite.cli.transport import Unreachable
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
    arguments: argparse.Namespace,
    session: Session,
    stack: Stack,
    body: Json,
    again: str,
    method: str = "POST",
    below: str = "/actions",
) -> int:
    """Make a request on a stack and wait for the operation that it starts.

    Returns the exit code. Raises CommandError if another request deletes the stack, and as `change`.
    """
    may_leave(arguments, session)
    after, began = session.client.last_event(stack, progress.NESTED), time.monotonic()
    change(arguments, session, method, stack.path + below, body)
    if arguments.no_wait:
        return started(arguments, stack)
    return ended(arguments, require_stack(progress.wait(session, stack, after, again, arguments.format, began)))


def change(
    arguments: argparse.Namespace,
    session: Session,
    method: str,
    path: str,
    body: Json = None,
    query: Mapping[str, str | Sequence[str]] | None = None,
) -> Json:
    """Send a request that changes a stack, and return its answer once it has begun.

    One that needs an approval waits for it. Raises as `await_begin`.
    """
    try:
        answer = session.client.request(method, path, body, query)
    except RefusedRequest as refusal:
        if refusal.kind != NEEDS_APPROVAL:
            raise
        answer = session.client.request(method, path, body, {**(query or {}), "approval": "wait"})
        print(text(an_object(answer, "action").get("status_reason")), file=sys.stderr)
    return await_begin(arguments, session, answer)


def await_begin(arguments: argparse.Namespace, session: Session, answer: Json) -> Json:
    """Wait until the action of an answer has begun, if it waits for an approval.

    Returns the answer, or the action then. Raises LeftWaiting if it waits on without this command: with --no-wait, or
    without a server. Raises CommandError if it is not approved, and Unreachable, Refused.
    """
    action = answer.get("action") if isinstance(answer, Mapping) else None
    if not isinstance(action, Mapping) or action.get("status") not in ("INIT", "CANCELLED"):
        return answer
    action_id, is_told = text(action.get("id")), False
    again = f"heatlite action show {action_id}"
    if action.get("status") == "INIT" and (session.embedded or getattr(arguments, "no_wait", False)):
        raise LeftWaiting(action_id, f"It begins once it is approved. Watch it with: {again}")
    try:
        while action.get("status") == "INIT":
            time.sleep(PAUSE)
            try:
                action = find(session.client, action_id)
            except RefusedRequest as error:
                is_told = progress.tell_outage(error, is_told)
    except KeyboardInterrupt:
        back = f"take it back with: heatlite action signal {action_id} CANCEL"
        print(f"Interrupted. It begins once it is approved; watch it with: {again}; {back}", file=sys.stderr)
        raise
    except Unreachable as error:
        raise progress.lost(error, again) from None
    if action.get("status") == "CANCELLED":
        raise CommandError(f"Nothing was begun: {text(action.get('status_reason'))}.")
    return {"action": {**action}}


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
