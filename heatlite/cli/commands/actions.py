"""Commands on actions: list, show, signal, wait."""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Sequence
from urllib.parse import parse_qsl, urlsplit

from heatlite.cli.client import Client, Object, an_object, objects, part, text
from heatlite.cli.output import render
from heatlite.cli.output.progress import FIRST_PAUSE, LONGEST_PAUSE
from heatlite.cli.session import Host, Session, connect

COLUMNS = ("id", "name", "target", "status", "created_at", "stop_time", "status_reason")
HISTORY_COLUMNS = ("time", "from", "to", "attempt", "owner", "reason")
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
TIMED_OUT = 124
"""Exit code where the time to wait is over, as timeout(1) has it."""


def find(client: Client, action: str) -> Object:
    """An action by its id, its name, or the beginning of its id."""
    return an_object(client.request("GET", f"/actions/{part(action)}"), "action")


def line(action: Object) -> str:
    status, reason = text(action.get("status")), text(action.get("status_reason"))
    return f"{text(action.get('name'))} {text(action.get('id'))}: {status}  {reason}".rstrip()


def list_(arguments: argparse.Namespace, host: Host) -> int:
    """The project's actions, newest first unless --sort says otherwise."""
    query: dict[str, str] = {}
    for name in ("name", "action", "status", "sort"):
        if getattr(arguments, name):
            query[name] = ",".join(getattr(arguments, name))
    with connect(arguments, host, reads_only=True) as session:
        if arguments.target:
            query["target"] = ",".join(session.client.find(stack).id for stack in arguments.target)
        found, are_more = pages(session.client, "/actions", "actions", query, arguments.limit)
    tell(found, are_more, COLUMNS, arguments)
    return 0


def pages(client: Client, path: str, key: str, query: dict[str, str], limit: int = 0) -> tuple[list[Object], bool]:
    """What a list has under `key`, page by page: all of it, or the first `limit`; and whether there are more."""
    found: list[Object] = []
    while True:
        if limit:
            query["limit"] = str(limit - len(found))
        page = client.request("GET", path, query=query)
        found += objects(page, key)
        following = _following_marker(page)
        if not following or (limit and len(found) >= limit):
            return found, bool(following)
        query |= following


def tell(found: list[Object], are_more: bool, columns: Sequence[str], arguments: argparse.Namespace) -> None:
    """Print what `pages` has found."""
    render.rows(found, columns, arguments.format, arguments.column)
    if are_more:
        print(f"There are more: --limit {2 * arguments.limit} shows as many, --limit 0 all.", file=sys.stderr)


def _following_marker(page: object) -> dict[str, str]:
    """The marker of the next page, if there is one."""
    for one in objects(page, "links") if isinstance(page, dict) and "links" in page else ():
        if one.get("rel") == "next":
            return {key: value for key, value in parse_qsl(urlsplit(text(one.get("href"))).query) if key == "marker"}
    return {}


def show(arguments: argparse.Namespace, host: Host) -> int:
    """Everything about one action; with --history its moves instead."""
    with connect(arguments, host, reads_only=True) as session:
        found = find(session.client, arguments.action)
        if arguments.history:
            path = f"/actions/{part(text(found.get('id')))}/history"
            moves = objects(session.client.request("GET", path), "history")
            render.rows(moves, HISTORY_COLUMNS, arguments.format, arguments.column)
            return 0
    render.one(found, arguments.format, arguments.column)
    return 0


def signal(arguments: argparse.Namespace, host: Host) -> int:
    """Ask an action to stop, to rest, or to go on."""
    body = {"signal": arguments.signal, **({"force": True} if arguments.force else {})}
    with connect(arguments, host) as session:
        answer = session.client.request("POST", f"/actions/{part(arguments.action)}", body)
    asked = an_object(answer, "action")
    print(line(asked))
    if asked.get("control") and asked.get("status") not in ENDED:
        print(f"It was asked to {text(asked.get('control'))} and does that as soon as it can.", file=sys.stderr)
    return 0


def wait(arguments: argparse.Namespace, host: Host) -> int:
    """Wait until an action has ended, and say each status that it takes."""
    with connect(arguments, host) as session:
        action_id = text(find(session.client, arguments.action).get("id"))
        last = follow(
            session,
            lambda: find(session.client, action_id),
            lambda action: (text(action.get("status")), line(action)),
            ENDED,
            arguments.timeout,
            ("The action goes on", f"heatlite action wait {action_id}"),
        )
    return TIMED_OUT if last not in ENDED else 0 if last == "SUCCEEDED" else 1


def follow(
    session: Session,
    look: Callable[[], Object],
    told: Callable[[Object], tuple[str, str]],
    ended: Collection[str],
    timeout: float | None,
    word: tuple[str, str],
) -> str:
    """Look at something until its state is one of `ended` or the seconds are over, and print each state that it takes;
    the last one.

    `told`: the state, and the line that says it. `word`: what it does when nobody waits, and the command that waits
    again; KeyboardInterrupt goes on after that is said.
    """
    ends = None if timeout is None else time.monotonic() + timeout
    pause, before = FIRST_PAUSE, None
    try:
        while True:
            state, line = told(look())
            if state != before:
                before, pause = state, FIRST_PAUSE
                print(line, flush=True)
            if state in ended:
                return state
            if ends is not None and time.monotonic() >= ends:
                print(f"heatlite: It has not ended within {timeout:g} seconds.", file=sys.stderr)
                return state
            time.sleep(pause if ends is None else min(pause, max(0.0, ends - time.monotonic())))
            pause = min(pause * 1.5, LONGEST_PAUSE)
    except KeyboardInterrupt:
        goes_on = "The work stops here, and nothing is lost" if session.embedded else word[0]
        print(f"Interrupted. {goes_on}; wait again with: {word[1]}", file=sys.stderr)
        raise
