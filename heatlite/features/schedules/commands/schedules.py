"""Commands on schedules: operations on stacks at set times."""

import argparse
from collections.abc import Sequence
from http import HTTPStatus

from heatlite.cli.arguments import LIMIT, LISTING, STACK, CommandGroup, argument, number
from heatlite.cli.client import Client, Object, Stack, an_object, objects, part, text
from heatlite.cli.commands.actions import pages, print_page
from heatlite.cli.commands.groups import span
from heatlite.cli.commands.maintenance import moment
from heatlite.cli.errors import Misuse, RefusedRequest
from heatlite.cli.output import render
from heatlite.cli.session import Host, connect
from heatlite.core.clock import Clock
from heatlite.core.json import JsonMap

COLUMNS = ("next_at", "kind", "name", "stack_name", "do", "cron", "timezone", "owner", "enabled", "last", "id")
NAME = argument("name", metavar="NAME", help="name or id of the schedule")
KEYS = ("name", "cron", "timezone", "do", "starts_at", "ends_at", "enabled", "window")
"""Keys of an answer that a body has, too."""

ENDS = {"suspend": "is suspended", "delete": "is deleted"}
"""Tasks of which a plan tells."""

commands = CommandGroup("schedule", "list, add and remove what stacks do at set times")


@commands.command(
    "list",
    "list what will happen by itself, the next first",
    argument("stack", metavar="STACK", nargs="?", help="of this stack, by name or id"),
    *LISTING,
    LIMIT,
    examples=("schedule list", "schedule list web"),
)
def list_(arguments: argparse.Namespace, host: Host) -> int:
    """List schedules, timed actions, series and the ends of locks."""
    query: dict[str, str] = {}
    with connect(arguments, host, reads_only=True) as session:
        if arguments.stack is not None:
            query["stack"] = session.client.find(arguments.stack).id
        found, are_more = pages(session.client, "/schedules", "schedules", query, arguments.limit)
    rows = [{**one, "do": ", ".join(an_object(one, "do")), "last": _result(one.get("last"))} for one in found]
    print_page(rows, are_more, COLUMNS, arguments, "schedules")
    return 0


@commands.command(
    "add",
    "let a stack do something at set times",
    STACK,
    argument("name", metavar="NAME", help="name of the schedule, unique in the stack"),
    argument("task", choices=("suspend", "resume", "check", "resize"), help="what to do"),
    argument("group", metavar="GROUP", nargs="?", help="of resize: the path of the group"),
    argument("--cron", required=True, metavar="LINE", help="minute, hour, day of month, month, day of week"),
    argument("--timezone", default="UTC", metavar="ZONE", help="of the line, such as Europe/Vienna (default: UTC)"),
    argument("--desired", type=number, metavar="NUMBER", help="of resize: number of members"),
    argument("--min", type=number, metavar="NUMBER", help="of resize: fewest members from then on"),
    argument("--max", type=number, metavar="NUMBER", help="of resize: most members from then on"),
    argument("--window", type=span, metavar="SPAN", help="wait so long for a busy stack: 30s, 2h (default: 1h)"),
    argument("--starts", metavar="TIME", help="nothing before: 2026-11-21T18:00:00Z, +30m, +2h, +1d"),
    argument("--ends", metavar="TIME", help="nothing after: as --starts"),
    argument("--paused", action="store_true", help="add it paused"),
    examples=(
        "schedule add web sleep suspend --cron '0 20 * * 1-5' --timezone Europe/Vienna",
        "schedule add web night resize members --desired 2 --cron '0 22 * * *'",
    ),
)
def add(arguments: argparse.Namespace, host: Host) -> int:
    """Add a schedule."""
    body: JsonMap = {
        "name": arguments.name,
        "cron": arguments.cron,
        "timezone": arguments.timezone,
        "do": {arguments.task: _options(arguments)},
        "enabled": not arguments.paused,
    }
    if arguments.window is not None:
        body["window"] = arguments.window
    for flag, key in (("starts", "starts_at"), ("ends", "ends_at")):
        if getattr(arguments, flag) is not None:
            body[key] = moment(getattr(arguments, flag), Clock(), f"--{flag}")
    with connect(arguments, host) as session:
        path = session.client.find(arguments.stack).path
        _told(an_object(session.client.request("POST", f"{path}/schedules", body)))
    return 0


def _options(arguments: argparse.Namespace) -> JsonMap:
    """Return the options of the task. Raises Misuse."""
    given = {"min_size": arguments.min, "max_size": arguments.max, "desired_capacity": arguments.desired}
    sizes: JsonMap = {key: value for key, value in given.items() if value is not None}
    if arguments.task == "resize":
        if arguments.group is None:
            raise Misuse("resize needs the path of a group.")
        return {"resource": arguments.group, **sizes}
    if sizes or arguments.group is not None:
        raise Misuse(f"{arguments.task} takes no group and no size.")
    return {}


@commands.command("show", "show a schedule", *LISTING, STACK, NAME, examples=("schedule show web sleep",))
def show(arguments: argparse.Namespace, host: Host) -> int:
    """Show a schedule."""
    with connect(arguments, host, reads_only=True) as session:
        found = session.client.request("GET", _path(session.client, arguments))
    render.one(an_object(found, "schedule"), arguments.format, arguments.column)
    return 0


@commands.command("remove", "remove a schedule", STACK, NAME, examples=("schedule remove web sleep",))
def remove(arguments: argparse.Namespace, host: Host) -> int:
    """Remove a schedule. What it has begun goes on."""
    with connect(arguments, host) as session:
        session.client.request("DELETE", _path(session.client, arguments))
    print(f"{arguments.name}: removed")
    return 0


@commands.command("pause", "let a schedule do nothing", STACK, NAME, examples=("schedule pause web sleep",))
def pause(arguments: argparse.Namespace, host: Host) -> int:
    """Let a schedule do nothing until `unpause`."""
    return _enable(arguments, host, enabled=False)


@commands.command(
    "unpause", "let a paused schedule go on; what it missed is not made up for", STACK, NAME,
    examples=("schedule unpause web sleep",),
)  # fmt: skip
def unpause(arguments: argparse.Namespace, host: Host) -> int:
    """Let a schedule go on."""
    return _enable(arguments, host, enabled=True)


def _enable(arguments: argparse.Namespace, host: Host, enabled: bool) -> int:
    with connect(arguments, host) as session:
        path = _path(session.client, arguments)
        found = an_object(session.client.request("GET", path), "schedule")
        body: JsonMap = {key: found[key] for key in KEYS}
        _told(an_object(session.client.request("PUT", path, {**body, "enabled": enabled})))
    return 0


def _path(client: Client, arguments: argparse.Namespace) -> str:
    return f"{client.find(arguments.stack).path}/schedules/{part(arguments.name)}"


def _told(answer: Object) -> None:
    found = an_object(answer, "schedule")
    when = f"next at {text(found.get('next_at'))}" if found.get("next_at") else "nothing is to come"
    print(f"{text(found.get('name'))}: {when if found.get('enabled') else 'paused'}")


def _result(last: object) -> str:
    return text(last.get("result")) if isinstance(last, dict) else ""


def planned(client: Client, stack: Stack) -> Sequence[str]:
    """Return when a stack sleeps, and when it ends, for a plan of its update."""
    try:
        found = objects(client.request("GET", "/schedules", query={"stack": stack.id}), "schedules")
    except RefusedRequest as error:
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            raise
        return ()  # the feature is off there, or the policy hides it
    coming = [(task, one) for one in found if one.get("next_at") for task in an_object(one, "do")]
    firsts = (next(((task, one) for task, one in coming if task == wanted), None) for wanted in ENDS)
    return [
        f"{stack.name} {ENDS[task]} at {text(one.get('next_at'))} ({text(one.get('kind')).replace('_', ' ')}"
        f" {text(one.get('name'))}, by {text(one.get('owner'))})"
        for task, one in filter(None, firsts)
    ]
