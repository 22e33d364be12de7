"""Commands that show stacks: ls, show, resources, outputs, events."""

import argparse
import time

from heatlite.cli.arguments import COLUMN, FORMATS, LISTING, STACK, WATCH, CommandGroup, argument
from heatlite.cli.client import health_of, text
from heatlite.cli.output import progress, render
from heatlite.cli.session import Host, connect

STACK_COLUMNS = ("stack_name", "stack_status", "creation_time", "updated_time", "locked", "id")
RESOURCE_COLUMNS = (
    "resource_name",
    "physical_resource_id",
    "resource_type",
    "resource_status",
    "health",
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
            render.rows(session.client.stacks(), STACK_COLUMNS, arguments.format, arguments.column)
    return 0


@commands.command("show", "show a stack", STACK, *LISTING)
def show(arguments: argparse.Namespace, host: Host) -> int:
    """Show a stack."""
    with connect(arguments, host, reads_only=True) as session:
        found = session.client.show(arguments.stack)
    render.one(found, arguments.format, arguments.column)
    return 0


@commands.command("resources", "list the resources of a stack", STACK, *LISTING, WATCH)
def resources(arguments: argparse.Namespace, host: Host) -> int:
    """List the resources of a stack."""
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find(arguments.stack)
        for _ in render.watching(arguments.watch):
            found = session.client.resources(stack)
            found.sort(key=lambda item: text(item.get("resource_name")))
            shown = [{**item, "health": health_of(item)} for item in found]
            render.rows(shown, RESOURCE_COLUMNS, arguments.format, arguments.column)
    return 0


@commands.command("outputs", "list the outputs of a stack", STACK, *LISTING)
def outputs(arguments: argparse.Namespace, host: Host) -> int:
    """List the outputs of a stack with their values."""
    with connect(arguments, host, reads_only=True) as session:
        found = session.client.outputs(session.client.find(arguments.stack))
    render.rows(found, OUTPUT_COLUMNS, arguments.format, arguments.column)
    return 0


@commands.command(
    "events",
    "list the events of a stack",
    STACK,
    argument("-f", "--follow", action="store_true", help="print new events until Ctrl-C"),
    argument("--format", choices=("log", *FORMATS), default="log"),
    COLUMN,
)
def events(arguments: argparse.Namespace, host: Host) -> int:
    """List the events of a stack, oldest first. With --follow, continue with new ones."""
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find(arguments.stack)
        found = session.client.events(stack)
        if arguments.format != "log":
            render.rows(found, EVENT_COLUMNS, arguments.format, arguments.column)
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
