"""Commands on stacks: up, plan, down, retry, ls, show, resources, outputs, events."""

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from heatlite.cli.arguments import (
    COLUMN,
    ENVIRONMENT,
    FILE,
    LISTING,
    PARAMETER,
    STACK,
    CommandGroup,
    argument,
    minutes,
    repeatable,
)
from heatlite.cli.client import Client, Object, Stack, an_object, health_of, objects, text
from heatlite.cli.commands.validate import of_file, of_server
from heatlite.cli.errors import CommandError, Refused, describe
from heatlite.cli.files import Bundle, gather, parameters
from heatlite.cli.output import plans, progress, render
from heatlite.cli.session import Host, connect
from heatlite.core.config import SIMULATED
from heatlite.core.errors import Problem
from heatlite.core.json import JsonMap

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

NAME = argument("-n", "--name", help="name of the stack (default: the template's file name)")
SEND_FROM = repeatable(
    "--send-from",
    type=Path,
    metavar="DIR",
    help="also send files below this folder that the template names (repeatable; default: those below its own)",
)
ADOPT_CLOUD = argument(
    "--adopt-cloud", action="store_true", help="move the stack to the configured cloud, if it recorded another"
)
TEMPLATE = (FILE, ENVIRONMENT, PARAMETER, NAME, SEND_FROM, ADOPT_CLOUD)

commands = CommandGroup()


def stack_name(arguments: argparse.Namespace) -> str:
    """Return the given name, or a valid one made from the file's name."""
    if arguments.name:
        return str(arguments.name)
    name = re.sub(r"[^a-zA-Z0-9_.-]", "-", arguments.file.stem)[:255]
    if not name[:1].isalpha():
        raise CommandError(f"No stack name can be made from {arguments.file.name}. Use -n NAME.")
    return name


def _body(arguments: argparse.Namespace) -> JsonMap:
    bundle = gather(arguments.file, arguments.environment, arguments.send_from)
    _confirm_files(bundle)
    return bundle.body(parameters(arguments.parameter))


def _confirm_files(bundle: Bundle) -> None:
    """Ask for consent, on a terminal, to send files from other folders.

    Raises CommandError without consent.
    """
    if not bundle.outside:
        return
    print("These files outside of the template's folder would be sent to the server:", file=sys.stderr)
    for path, document in sorted(bundle.outside.items()):
        print(f"  {path} (named in {document})", file=sys.stderr)
    if not sys.stdin.isatty() or not _confirmed("Send them?"):
        folder = os.path.commonpath([path.parent for path in bundle.outside])
        raise CommandError(
            f"Nothing was sent. If you trust the template with these files: --send-from {shlex.quote(folder)}"
        )


@commands.command(
    "up",
    "create or update a stack, and wait for it",
    *TEMPLATE,
    argument("--timeout", type=minutes, metavar="MINUTES", help="time limit of the create or update"),
    argument("--confirm", action="store_true", help="show the plan and ask; the server then executes that plan only"),
    argument("--rollback", action="store_true", help="roll back after a failure"),
    argument("--tags", metavar="A,B", help="tags of the stack"),
)
def up(arguments: argparse.Namespace, host: Host) -> int:
    """Create or update the stack, wait, and print its outputs."""
    name = stack_name(arguments)
    body = _body(arguments)
    body["disable_rollback"] = not arguments.rollback
    if arguments.timeout is not None:
        body["timeout_mins"] = arguments.timeout
    if arguments.tags:
        body["tags"] = arguments.tags
    with connect(arguments, host) as session:
        client = session.client
        _check_cloud(arguments, client)
        again = f"heatlite up {arguments.file} -n {name}"
        stack = client.find_or_none(name)
        if stack is not None and stack.in_progress:
            print(f"{name} is {stack.status}: waiting for that first.", file=sys.stderr)
            stack = progress.wait(session, stack, client.last_event(stack), again)
        if arguments.adopt_cloud and stack is not None:
            body["adopt_cloud"] = True
        after = None
        with _explained(arguments, host, client, body):
            if arguments.confirm:
                found, digest = plans.fetch(client, stack, name, body)
                plans.draw(found)
                if not _confirmed():
                    raise CommandError("Nothing was done.")
                if digest is not None:
                    body["plan_digest"] = digest
            if stack is None:
                made = an_object(client.request("POST", "/stacks", {"stack_name": name, **body}), "stack")
                stack = client.find(text(made.get("id")))
            else:
                after = client.last_event(stack)
                client.request("PUT", stack.path, body)
        done = progress.wait(session, stack, after, again)
        if done is None:
            raise CommandError(f"The stack {name} is gone: it was deleted meanwhile.")
        if progress.is_failure(done):
            return 1
        for item in _outputs(client, done):
            if item.get("output_error"):
                print(f"{text(item.get('output_key'))}: {text(item.get('output_error'))}", file=sys.stderr)
            else:
                print(f"{text(item.get('output_key'))} = {render.cell(item.get('output_value'))}")
    return 0


def _check_cloud(arguments: argparse.Namespace, client: Client) -> None:
    """Print a note for a simulated cloud.

    Raises CommandError if the server uses another cloud than asked for.
    """
    cloud = an_object(client.request("GET", "/build_info")).get("cloud")
    wanted = arguments.cloud
    if wanted is not None and wanted != cloud:
        where = f"in the cloud {cloud}" if cloud else "without a cloud"
        raise CommandError(f"The server of this database makes resources {where}, not in {wanted}.")
    if cloud == SIMULATED:
        print("The cloud is simulated: nothing in it is real.", file=sys.stderr)


def _confirmed(question: str = "Do it?") -> bool:
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@commands.command("plan", "show the changes that `up` would make", *TEMPLATE, *LISTING)
def plan(arguments: argparse.Namespace, host: Host) -> int:
    """Show the changes that `up` would make."""
    name = stack_name(arguments)
    body = _body(arguments)
    with connect(arguments, host, reads_only=True) as session:
        client = session.client
        stack = client.find_or_none(name)
        if arguments.adopt_cloud and stack is not None:
            body["adopt_cloud"] = True
        with _explained(arguments, host, client, body):
            found, _ = plans.fetch(client, stack, name, body)
    if arguments.format == "table" and not arguments.column:
        plans.draw(found)
    else:
        render.rows(plans.rows(found), plans.COLUMNS, arguments.format, arguments.column)
    return 0


@contextmanager
def _explained(arguments: argparse.Namespace, host: Host, client: Client, body: JsonMap) -> Iterator[None]:
    """Extend the error for a rejected template: list all problems with their places.

    The server reports the first one only. The others are found here, or by the server if they need the cloud.
    """
    try:
        yield
    except Refused as error:
        if error.status != HTTPStatus.BAD_REQUEST:
            raise
        from heatlite.template.review import in_order  # a slow import that other commands do not need

        given = parameters(arguments.parameter)
        found = of_file(arguments.file, arguments.environment, given, host.types())
        known = {problem.text for problem in found}
        found += [problem for problem in _problems_of_server(arguments, client, body) if problem.text not in known]
        faults = in_order(problem for problem in found if problem.severity == "error")
        lines = [] if any(problem.text in str(error) for problem in faults) else [str(error)]
        raise Refused("\n".join([*lines, *map(describe, faults)]), error.status) from None


def _problems_of_server(arguments: argparse.Namespace, client: Client, body: JsonMap) -> list[Problem]:
    """Return all problems that the server finds in the body; none if it fails."""
    sent = {name: value for name, value in body.items() if name not in ("plan_digest", "adopt_cloud")}
    try:
        bundle = gather(arguments.file, arguments.environment)
        answer = client.request("POST", "/validate", sent, {"all_errors": "true"})
    except CommandError:
        return []
    return of_server(objects(answer, "problems"), bundle)


@commands.command(
    "down",
    "delete a stack, and wait until it is gone",
    STACK,
    argument("--force", action="store_true", help="leave behind, and list, objects that cannot be deleted"),
)
def down(arguments: argparse.Namespace, host: Host) -> int:
    """Delete the stack and wait until it is gone. With --force, ignore failures."""
    with connect(arguments, host) as session:
        client = session.client
        stack = client.find(arguments.stack)
        after = client.last_event(stack)
        try:
            client.request("DELETE", f"{stack.path}?force=true" if arguments.force else stack.path)
        except Refused as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            now = client.again(stack)
            if now is not None and now.status != "DELETE_IN_PROGRESS":
                raise
            print(f"{stack.name} is being deleted already: waiting for that.", file=sys.stderr)
        done = progress.wait(session, stack, after, f"heatlite down {stack.name}")
    if done is not None and not done.failed and "Left behind: " in done.status_reason:
        print(f"{stack.name}: {done.status_reason}", file=sys.stderr)
    return 1 if done is not None and done.failed else 0


@commands.command("retry", "continue a failed create or update", STACK)
def retry(arguments: argparse.Namespace, host: Host) -> int:
    """Continue a failed create or update, and wait for it."""
    with connect(arguments, host) as session:
        client = session.client
        stack = client.find(arguments.stack)
        after = client.last_event(stack)
        client.action(stack, "retry")
        done = progress.wait(session, stack, after, f"heatlite retry {stack.name}")
    return 1 if done is not None and done.failed else 0


@commands.command("ls", "list stacks", *LISTING)
def ls(arguments: argparse.Namespace, host: Host) -> int:
    """List the stacks of the project."""
    with connect(arguments, host, reads_only=True) as session:
        found = session.client.stacks()
    render.rows(found, STACK_COLUMNS, arguments.format, arguments.column)
    return 0


@commands.command("show", "show a stack", STACK, *LISTING)
def show(arguments: argparse.Namespace, host: Host) -> int:
    """Show a stack."""
    with connect(arguments, host, reads_only=True) as session:
        found = session.client.show(arguments.stack)
    render.one(found, arguments.format, arguments.column)
    return 0


@commands.command("resources", "list the resources of a stack", STACK, *LISTING)
def resources(arguments: argparse.Namespace, host: Host) -> int:
    """List the resources of a stack."""
    with connect(arguments, host, reads_only=True) as session:
        found = session.client.resources(session.client.find(arguments.stack))
    found.sort(key=lambda item: text(item.get("resource_name")))
    shown = [{**item, "health": health_of(item)} for item in found]
    render.rows(shown, RESOURCE_COLUMNS, arguments.format, arguments.column)
    return 0


def _outputs(client: Client, stack: Stack) -> list[Object]:
    shown = client.show(stack.id)
    return objects(shown, "outputs") if shown.get("outputs") else []


@commands.command("outputs", "list the outputs of a stack", STACK, *LISTING)
def outputs(arguments: argparse.Namespace, host: Host) -> int:
    """List the outputs of a stack with their values."""
    with connect(arguments, host, reads_only=True) as session:
        found = _outputs(session.client, session.client.find(arguments.stack))
    render.rows(found, OUTPUT_COLUMNS, arguments.format, arguments.column)
    return 0


@commands.command(
    "events",
    "list the events of a stack",
    STACK,
    argument("-f", "--follow", action="store_true", help="print new events until Ctrl-C"),
    argument("--format", choices=("log", *render.FORMATS), default="log"),
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
