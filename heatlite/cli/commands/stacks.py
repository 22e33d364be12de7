"""Commands that show stacks: ls, show, resources, outputs, events, history."""

import argparse
import time
from collections.abc import Mapping, Sequence

from heatlite.cli.arguments import COLUMN, FORMATS, LIMIT, LISTING, STACK, WATCH, WIDE, CommandGroup, argument, number
from heatlite.cli.client import Object, counts_of, fact_of, health_of, objects, text, with_facts
from heatlite.cli.commands.actions import matching, pages, print_page
from heatlite.cli.errors import CommandError, Misuse
from heatlite.cli.output import page, progress, render
from heatlite.cli.session import Host, connect
from heatlite.core.status import Status, Verb
from heatlite.core.wire.base import columns
from heatlite.core.wire.events import Event
from heatlite.core.wire.resources import HealthOfResource, Resource
from heatlite.core.wire.stacks import ListedStack

RESOURCE_COLUMNS = columns(Resource, HealthOfResource)
FOUND_COLUMNS = (
    "physical_resource_id",
    "root_stack_name",
    "path",
    "owned",
    "resource_status",
    "health",
    "resource_type",
    "root_stack_id",
)
HISTORY_COLUMNS = ("created_at", "action", "operation", "status", "user", "status_reason", "end_time", "cause", "id")
HISTORY_KEY = 4
"""Place of the columns of features."""
OUTPUT_COLUMNS = ("output_key", "output_value", "description")

commands = CommandGroup()


def _status(given: str) -> str:
    """Read a status of stacks, with or without its operation.

    Raises ArgumentTypeError.
    """
    found = given.upper()
    verb, _, last = found.partition("_")
    if found in list(Status) or (verb in list(Verb) and last in list(Status)):
        return found
    known = ", ".join(Status)
    raise argparse.ArgumentTypeError(f"{given!r} is no status: {known}, or such as CREATE_FAILED")


@commands.command(
    "ls",
    "list stacks",
    *LISTING,
    argument("--search", default="", metavar="TEXT", help="only those with this part of a name"),
    argument("--status", type=_status, metavar="STATUS", help="only those with this status: FAILED, CREATE_COMPLETE"),
    argument("--locked", action="store_true", help="only locked ones"),
    argument("--unhealthy", action="store_true", help="only those with an unhealthy resource"),
    WATCH,
    examples=("ls", "ls --watch", "ls --unhealthy -f value -c stack_name"),
)
def ls(arguments: argparse.Namespace, host: Host) -> int:
    """List the stacks of the project."""
    given = {"search": arguments.search, "status": arguments.status}
    wanted = {name: value for name, value in given.items() if value}
    wanted |= {name: "true" for name in ("locked", "unhealthy", *arguments.filters) if getattr(arguments, name)}
    with connect(arguments, host, reads_only=True) as session:
        for _ in render.watching(arguments.watch):
            found = session.client.stacks(wanted)
            chosen = with_facts(found, columns(ListedStack))
            if arguments.format not in ("json", "yaml"):
                found = [{**_told(stack, chosen), "health": counts_of(stack)} for stack in found]
            render.listing(found, chosen, arguments, matching("stacks", wanted))
    return 0


def _told(item: Object, columns: Sequence[str]) -> Object:
    """Return a listed object with texts in place of the facts of features."""
    return {**item, **{key: fact_of(item, key) for key in columns if isinstance(item.get(key), Mapping)}}


@commands.command("show", "show a stack", STACK, *LISTING, examples=("show web", "show web -f json -c outputs"))
def show(arguments: argparse.Namespace, host: Host) -> int:
    """Show a stack: a page for people; with a format or columns, its fields."""
    with connect(arguments, host, reads_only=True) as session:
        found = session.client.show(arguments.stack)
        if arguments.format == "table" and not arguments.column and arguments.output is None:
            stack = session.client.find(arguments.stack)
            page.draw(page.gather(session.client, stack), found, session.client.resources(stack, progress.NESTED))
            return 0
    render.one(found, arguments.format, arguments.column)
    return 0


@commands.command("explain", "explain the state of a stack, and what to do next", STACK, examples=("explain web",))
def explain(arguments: argparse.Namespace, host: Host) -> int:
    """Explain a stack's state: failures, waits, locks, marks, and next commands."""
    with connect(arguments, host, reads_only=True) as session:
        facts = page.gather(session.client, session.client.find(arguments.stack))
    page.explain(facts)
    return 0


@commands.command(
    "history", "list what was done to a stack, newest first", STACK, *LISTING, LIMIT,
    examples=("history web", "history web --limit 5 -f json"),
)
def history(arguments: argparse.Namespace, host: Host) -> int:
    """List the actions of a stack: when, what, by whom, and how it ended."""
    with connect(arguments, host, reads_only=True) as session:
        client, stack = session.client, session.client.find(arguments.stack)
        if any(answers(arguments, client, stack) for answers in arguments.further):
            return 0
        found, are_more = pages(client, "/actions", "actions", {"target": stack.id}, arguments.limit)
        noted: dict[str, Object] = {}
        for feature in host.features():
            for action_id, keys in feature.noted(client, stack).items():
                noted[action_id] = {**noted.get(action_id, {}), **keys}
    more = dict.fromkeys(key for keys in noted.values() for key in keys)
    rows = [{**one, "user": _user(one), **more, **noted.get(text(one.get("id")), {})} for one in found]
    columns = (*HISTORY_COLUMNS[:HISTORY_KEY], *more, *HISTORY_COLUMNS[HISTORY_KEY:])
    print_page(rows, are_more, columns, arguments, f"actions of stack {arguments.stack}")
    return 0


def _user(action: Object) -> str:
    """Return the user who asked for an action."""
    context = action.get("context")
    return text(context.get("user")) if isinstance(context, Mapping) else ""


@commands.command(
    "resources",
    "list the resources of a stack, or show one",
    STACK,
    argument("resource", nargs="?", metavar="RESOURCE", help="show this one only, by its path: web/2"),
    *LISTING,
    argument("--nested", type=number, default=0, metavar="LEVELS", help="levels of nested stacks to include"),
    WATCH,
    examples=("resources web --nested 2", "resources web -o wide"),
)
def resources(arguments: argparse.Namespace, host: Host) -> int:
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find(arguments.stack)
        for _ in render.watching(arguments.watch):
            if arguments.resource is not None:
                render.one(session.client.resource(stack, arguments.resource), arguments.format, arguments.column)
                continue
            found: list[Object] = [
                {
                    **item,
                    "resource_name": text(item.get("path")),
                    "health": health_of(item),
                    "protected": bool(item.get("protection")),
                }
                for item in session.client.resources(stack, arguments.nested)
            ]
            found.sort(key=lambda item: text(item.get("resource_name")))
            chosen = with_facts(found, RESOURCE_COLUMNS)
            if arguments.format not in ("json", "yaml"):
                found = [_told(item, chosen) for item in found]
            render.listing(found, chosen, arguments, f"resources of stack {stack.name}")
    return 0


@commands.command(
    "find",
    "find the resources that own an object, or refer to it, by its id in the cloud",
    argument("id", nargs="+", metavar="ID", help="physical id (repeatable)"),
    *LISTING,
    examples=("find 1f0c6f2e-…",),
)
def find(arguments: argparse.Namespace, host: Host) -> int:
    """List the resources of the project that have one of the physical ids."""
    with connect(arguments, host, reads_only=True) as session:
        query = {"physical_resource_id": arguments.id}
        found = objects(session.client.request("GET", "/resources", query=query), "resources")
    shown = [{**one, "health": health_of(one)} for one in found]
    render.listing(shown, FOUND_COLUMNS, arguments, "resources with these ids")
    return 0


@commands.command(
    "outputs",
    "list the outputs of a stack, or print one",
    STACK,
    argument("key", nargs="?", metavar="KEY", help="print the value of this output only"),
    *LISTING,
    examples=("outputs web -f json",),
)
def outputs(arguments: argparse.Namespace, host: Host) -> int:
    """List the outputs of a stack with their values; with a key, print that value."""
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find(arguments.stack)
        if arguments.key is not None:
            return _print_output(session.client.output(stack, arguments.key), arguments)
        found = session.client.outputs(stack)
    render.listing(found, OUTPUT_COLUMNS, arguments, f"outputs of stack {arguments.stack}")
    return 0


def _print_output(found: Object, arguments: argparse.Namespace) -> int:
    """Print the value of an output for a script, or its fields in a format.

    Raises CommandError for a value that cannot be determined.
    """
    if found.get("output_error"):
        raise CommandError(f"{text(found.get('output_key'))}: {text(found.get('output_error'))}")
    if arguments.format == "table" and not arguments.column:
        print(render.cell(found.get("output_value")))
    else:
        render.one(found, arguments.format, arguments.column)
    return 0


@commands.command(
    "events",
    "list the events of a stack",
    STACK,
    argument("-f", "--follow", action="store_true", help="print new events until Ctrl-C"),
    argument("--format", choices=("log", *FORMATS), default="log", help="default: log"),
    COLUMN,
    WIDE,
    examples=("events web", "events -f web"),
)
def events(arguments: argparse.Namespace, host: Host) -> int:
    """List the events of a stack, oldest first. With --follow, continue with new ones."""
    if arguments.format == "log" and (arguments.column or arguments.output):
        arguments.format = "table"
    if arguments.follow and arguments.format != "log":
        raise Misuse("--follow prints lines, without columns and formats. Leave out one or the other.")
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find(arguments.stack)
        found = session.client.events(stack)
        if arguments.format != "log":
            render.listing(found, columns(Event), arguments, f"events of stack {stack.name}")
            return 0
        shown = progress.LinesView()
        after: str | None = None
        pause = progress.FIRST_PAUSE
        while True:
            for item in found:
                shown.add(stack, item)
                after = text(item.get("id"))
            if not arguments.follow:
                return 0
            pause = progress.FIRST_PAUSE if found else min(pause * 1.5, progress.MAX_PAUSE)
            time.sleep(pause)
            found = session.client.events(stack, after)
