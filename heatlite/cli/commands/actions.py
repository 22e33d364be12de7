"""Commands on actions: list, show, signal, wait."""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from urllib.parse import parse_qsl, urlsplit

from heatlite.cli.arguments import (
    LIMIT,
    LISTING,
    WAIT_TIMEOUT,
    WATCH,
    YES,
    CommandGroup,
    argument,
    filters,
    only,
    repeatable,
)
from heatlite.cli.client import Client, Object, an_object, objects, part, text
from heatlite.cli.errors import RefusedRequest
from heatlite.cli.output import render
from heatlite.cli.output.progress import FIRST_PAUSE, MAX_PAUSE, goes_on, lost, tell_outage
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, Session, connect
from heatlite.cli.transport import Unreachable
from heatlite.core.wire.actions import Action, Transition
from heatlite.core.wire.base import columns

_WORD, *_OTHERS = columns(Action)
COLUMNS = (_WORD, "stack", *_OTHERS)
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
TIMED_OUT = 124
"""Exit code after a timeout, as of timeout(1)."""

ACTION = argument("action", metavar="ACTION", help="id, name, or the beginning of the id")

commands = CommandGroup("action", "list, show, signal and wait for actions")


def find(client: Client, action: str) -> Object:
    """Return an action by its id, its name, or the beginning of its id."""
    return an_object(client.request("GET", f"/actions/{part(action)}"), "action")


def line(action: Object) -> str:
    """Return the state of an action as a line of text."""
    status, reason = text(action.get("status")), text(action.get("status_reason"))
    shown = f"{text(action.get('name'))} {text(action.get('id'))}: {status}  {reason}".rstrip()
    return render.escaped(shown, sys.stdout)


@commands.command(
    "list",
    "list actions, newest first",
    argument("stack", metavar="STACK", nargs="?", help="of this stack, by name or id; others: --target"),
    *LISTING,
    only("--status", "STATUS", "with this status (repeatable, or separated by commas)"),
    only("--action", "ACTION", "of this kind: STACK_UPDATE … (repeatable, or separated by commas)"),
    only("--cause", "CAUSE", "with this cause: 'RPC Request', Healing … (repeatable, or separated by commas)"),
    only("--name", "NAME", "with this name (repeatable, or separated by commas)"),
    only("--target", "STACK", "of this stack, by name or id (repeatable)"),
    repeatable(
        "--sort",
        metavar="KEY[:asc|:desc]",
        help="a key of an action, such as start_time (repeatable, or separated by commas)",
    ),
    LIMIT,
    WATCH,
    examples=("action list --status RUNNING,SUSPENDED", "action list --target web"),
)
def list_(arguments: argparse.Namespace, host: Host) -> int:
    """List the actions of the project, newest first unless --sort is given."""
    query = filters(arguments, "name", "action", "cause", "status", "sort")
    with connect(arguments, host, reads_only=True) as session:
        stacks = [*filter(None, [arguments.stack]), *arguments.target]
        if stacks:
            query["target"] = ",".join(session.client.find(stack).id for stack in stacks)
        for _ in render.watching(arguments.watch):
            found, are_more = pages(session.client, "/actions", "actions", {**query}, arguments.limit)
            names = session.client.names()
            named = [{**one, "stack": names.get(text(one.get("target")))} for one in found]
            print_page(named, are_more, COLUMNS, arguments, matching("actions", query))
    return 0


def pages(client: Client, path: str, key: str, query: dict[str, str], limit: int = 0) -> tuple[list[Object], bool]:
    """Read a list page by page: all rows, or the first `limit`.

    Returns the rows, and True if there are more.
    """
    found: list[Object] = []
    while True:
        if limit:
            query["limit"] = str(limit - len(found))
        page = client.request("GET", path, query=query)
        found += objects(page, key)
        following = following_marker(page)
        if not following or (limit and len(found) >= limit):
            return found, bool(following)
        query |= following


def matching(of: str, query: Mapping[str, object]) -> str:
    """Return what a list is of, for a table without rows. `query` has the filters."""
    return f"{of} that match" if query else of


def print_page(
    found: Sequence[Object], are_more: bool, columns: Sequence[str], arguments: argparse.Namespace, of: str
) -> None:
    """Print the result of `pages`. `of` as in `listing`."""
    render.listing(found, columns, arguments, of)
    if are_more:
        print(f"There are more rows: use --limit {2 * arguments.limit}, or --limit 0 for all.", file=sys.stderr)


def following_marker(page: object) -> dict[str, str]:
    """Return the marker of the next page, if there is one."""
    for one in objects(page, "links") if isinstance(page, dict) and "links" in page else ():
        if one.get("rel") == "next":
            return {key: value for key, value in parse_qsl(urlsplit(text(one.get("href"))).query) if key == "marker"}
    return {}


@commands.command(
    "show",
    "show an action",
    *LISTING,
    ACTION,
    argument("--history", action="store_true", help="show its status transitions instead"),
    examples=("action show 1a2b --history",),
)
def show(arguments: argparse.Namespace, host: Host) -> int:
    """Show an action; with --history, its transitions."""
    with connect(arguments, host, reads_only=True) as session:
        found = find(session.client, arguments.action)
        if arguments.history:
            path = f"/actions/{part(text(found.get('id')))}/history"
            moves = objects(session.client.request("GET", path), "history")
            render.listing(moves, columns(Transition), arguments, "transitions")
            return 0
    render.one(found, arguments.format, arguments.column)
    return 0


@commands.command(
    "signal",
    "cancel, suspend or resume an action",
    ACTION,
    argument("signal", choices=("CANCEL", "SUSPEND", "RESUME"), type=str.upper, help="what it is to do"),
    argument("--force", action="store_true", help="with CANCEL: force-cancel even if a worker holds the action"),
    YES,
    examples=("action signal 1a2b CANCEL",),
)
def signal(arguments: argparse.Namespace, host: Host) -> int:
    if arguments.force:
        need_consent(arguments, "--force takes the action from its worker")
        agree(arguments, f"Cancel {arguments.action}, even if a worker holds it?")
    body = {"signal": arguments.signal, **({"force": True} if arguments.force else {})}
    with connect(arguments, host) as session:
        answer = session.client.request("POST", f"/actions/{part(arguments.action)}", body)
    asked = an_object(answer, "action")
    print(line(asked))
    if asked.get("control") and asked.get("status") not in ENDED:
        print(f"The action will {text(asked.get('control'))} as soon as possible.", file=sys.stderr)
    return 0


@commands.command(
    "wait", "wait until an action has ended: exit code 0 if it SUCCEEDED, else 1", ACTION, WAIT_TIMEOUT,
    examples=("action wait 1a2b --timeout 600",),
)
def wait(arguments: argparse.Namespace, host: Host) -> int:
    """Wait until an action has ended. Prints each status."""
    with connect(arguments, host) as session:
        last = follow_action(session, text(find(session.client, arguments.action).get("id")), arguments.timeout)
    return TIMED_OUT if last not in ENDED else 0 if last == "SUCCEEDED" else 1


def follow_action(session: Session, action_id: str, timeout: float | None = None) -> str:
    """Print the states of an action until it has ended. Returns the last one."""
    return follow(
        session,
        lambda: find(session.client, action_id),
        lambda action: (text(action.get("status")), line(action)),
        ENDED,
        timeout,
        ("The action continues", f"heatlite action wait {action_id}"),
    )


def follow(
    session: Session,
    poll: Callable[[], Object],
    describe: Callable[[Object], tuple[str, str]],
    ended: Collection[str],
    timeout: float | None,
    hint: tuple[str, str],
) -> str:
    """Poll an object until its state is one of `ended`, or the timeout is over.

    Prints each new state, and returns the last one. `describe` returns a state and its line; `timeout` is in seconds.
    After Ctrl-C, prints `hint` (the effect on the work, and the command that waits again), and raises
    KeyboardInterrupt. Raises Unreachable if the server is lost, Refused.
    """
    ends = None if timeout is None else time.monotonic() + timeout
    pause, before, is_told = FIRST_PAUSE, None, False
    try:
        while True:
            try:
                state, line = describe(poll())
            except RefusedRequest as error:
                if before is None:
                    raise
                if not error.is_outage:
                    print(goes_on(hint[1]), file=sys.stderr)
                    raise
                state, line, is_told = before, "", tell_outage(error, is_told)
            if state != before:
                before, pause = state, FIRST_PAUSE
                print(line, flush=True)
            if state in ended:
                return state
            if ends is not None and time.monotonic() >= ends:
                print(f"heatlite: Not ended within {timeout:g} seconds.", file=sys.stderr)
                return state
            time.sleep(pause if ends is None else min(pause, max(0.0, ends - time.monotonic())))
            pause = min(pause * 1.5, MAX_PAUSE)
    except KeyboardInterrupt:
        effect = "The work pauses here; nothing is lost" if session.embedded else hint[0]
        print(f"Interrupted. {effect}; wait again with: {hint[1]}", file=sys.stderr)
        raise
    except Unreachable as error:
        raise lost(error, hint[1]) from None
