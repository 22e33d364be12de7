"""Commands that show stacks: ls, show, resources, outputs, events."""

import argparse
import time

from heatlite.cli.arguments import COLUMN, FORMATS, LISTING, STACK, WATCH, WIDE, CommandGroup, argument, number
from heatlite.cli.client import counts_of, health_of, path_of, text
from heatlite.cli.output import page, progress, render
from heatlite.cli.session import Host, connect

STACK_COLUMNS = (
    "stack_name",
    "stack_status",
    "health",
    "locked",
    "protected",
    "creation_time",
    "updated_time",
    "stack_owner",
    "id",
    "stack_status_reason",
)
RESOURCE_COLUMNS = (
    "resource_name",
    "resource_status",
    "health",
    "protected",
    "resource_type",
    "physical_resource_id",
    "resource_status_reason",
    "updated_time",
)
EVENT_COLUMNS = (
    "event_time",
    "resource_name",
    "resource_status",
    "resource_status_reason",
    "physical_resource_id",
    "id",
)
OUTPUT_COLUMNS = ("output_key", "output_value", "description")

commands = CommandGroup()


@commands.command("ls", "list stacks", *LISTING, WATCH)
def ls(arguments: argparse.Namespace, host: Host) -> int:
    """List the stacks of the project."""
    with connect(arguments, host, reads_only=True) as session:
        for _ in render.watching(arguments.watch):
            found = session.client.stacks()
            if arguments.format not in ("json", "yaml"):
                found = [{**stack, "health": counts_of(stack)} for stack in found]
            render.listing(found, STACK_COLUMNS, arguments)
    return 0


@commands.command("show", "show a stack", STACK, *LISTING)
def show(arguments: argparse.Namespace, host: Host) -> int:
    """Show a stack: a page for people; with a format or columns, its fields."""
    with connect(arguments, host, reads_only=True) as session:
        found = session.client.show(arguments.stack)
        if arguments.format == "table" and not arguments.column and arguments.output is None:
            page.draw(page.gather(session.client, session.client.find(arguments.stack)), found)
            return 0
    render.one(found, arguments.format, arguments.column)
    return 0


@commands.command("explain", "explain the state of a stack, and what to do next", STACK)
def explain(arguments: argparse.Namespace, host: Host) -> int:
    """Explain a stack's state: failures, waits, locks, marks, and next commands."""
    with connect(arguments, host, reads_only=True) as session:
        page.explain(page.gather(session.client, session.client.find(arguments.stack)))
    return 0


@commands.command(
    "resources",
    "list the resources of a stack",
    STACK,
    *LISTING,
    argument("--nested", type=number, default=0, metavar="LEVELS", help="levels of nested stacks to include"),
    WATCH,
)
def resources(arguments: argparse.Namespace, host: Host) -> int:
    """List the resources of a stack."""
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find(arguments.stack)
        for _ in render.watching(arguments.watch):
            found = [
                {
                    **item,
                    "resource_name": path_of(item),
                    "health": health_of(item),
                    "protected": bool(item.get("protection")),
                }
                for item in session.client.resources(stack, arguments.nested)
            ]
            found.sort(key=lambda item: text(item.get("resource_name")))
            render.listing(found, RESOURCE_COLUMNS, arguments)
    return 0


@commands.command("outputs", "list the outputs of a stack", STACK, *LISTING)
def outputs(arguments: argparse.Namespace, host: Host) -> int:
    """List the outputs of a stack with their values."""
    with connect(arguments, host, reads_only=True) as session:
        found = session.client.outputs(session.client.find(arguments.stack))
    render.listing(found, OUTPUT_COLUMNS, arguments)
    return 0


@commands.command(
    "events",
    "list the events of a stack",
    STACK,
    argument("-f", "--follow", action="store_true", help="print new events until Ctrl-C"),
    argument("--format", choices=("log", *FORMATS), default="log"),
    COLUMN,
    WIDE,
)
def events(arguments: argparse.Namespace, host: Host) -> int:
    """List the events of a stack, oldest first. With --follow, continue with new ones."""
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find(arguments.stack)
        found = session.client.events(stack)
        if arguments.format != "log":
            render.listing(found, EVENT_COLUMNS, arguments)
            return 0
        shown = progress.Lines()
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
