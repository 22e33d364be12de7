"""Commands on stacks: up, plan, down, ls, show, events, resources, outputs."""

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

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


def stack_name(arguments: argparse.Namespace) -> str:
    """The name given, else one made from the file's name by the rule for stack names."""
    if arguments.name:
        return str(arguments.name)
    name = re.sub(r"[^a-zA-Z0-9_.-]", "-", arguments.file.stem)[:255]
    if not name[:1].isalpha():
        raise CommandError(f"No stack name can be made from {arguments.file.name}; give one with -n NAME.")
    return name


def _body(arguments: argparse.Namespace) -> JsonMap:
    bundle = gather(arguments.file, arguments.environment, arguments.send_from)
    _ask_for(bundle)
    return bundle.body(parameters(arguments.parameter))


def _ask_for(bundle: Bundle) -> None:
    """List what would be sent from elsewhere than the template's folder. Raises CommandError unless the user consents.

    Only a terminal can be asked.
    """
    if not bundle.outside:
        return
    print("These files are outside of the folder of the template, and would be sent to the server:", file=sys.stderr)
    for path, document in sorted(bundle.outside.items()):
        print(f"  {path} (named in {document})", file=sys.stderr)
    if not sys.stdin.isatty() or not _confirmed("Send them?"):
        folder = os.path.commonpath([path.parent for path in bundle.outside])
        raise CommandError(
            f"Nothing was sent. If you trust the template with these: --send-from {shlex.quote(folder)}"
        )


def up(arguments: argparse.Namespace, host: Host) -> int:
    """Create the stack, or update it; wait; print its outputs."""
    name = stack_name(arguments)
    body = _body(arguments)
    body["disable_rollback"] = not arguments.rollback
    if arguments.timeout is not None:
        body["timeout_mins"] = arguments.timeout
    if arguments.tags:
        body["tags"] = arguments.tags
    with connect(arguments, host) as session:
        client = session.client
        _tell_cloud(arguments, client)
        again = f"heatlite up {arguments.file} -n {name}"
        stack = client.find_or_none(name)
        if stack is not None and stack.in_progress:
            print(f"{name} is {stack.status}: waiting for that first.", file=sys.stderr)
            stack = progress.wait(session, stack, client.last_event(stack), again)
        if arguments.adopt_cloud and stack is not None:
            body["adopt_cloud"] = True
        after = None
        with _all_told(arguments, host, client, body):
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
            raise CommandError(f"The stack {name} is gone: somebody has deleted it.")
        if progress.is_failure(done):
            return 1
        for item in _outputs(client, done):
            if item.get("output_error"):
                print(f"{text(item.get('output_key'))}: {text(item.get('output_error'))}", file=sys.stderr)
            else:
                print(f"{text(item.get('output_key'))} = {render.cell(item.get('output_value'))}")
    return 0


def _tell_cloud(arguments: argparse.Namespace, client: Client) -> None:
    """Say so where nothing real is made. Raises CommandError where the server makes it elsewhere than asked for."""
    cloud = an_object(client.request("GET", "/build_info")).get("cloud")
    wanted = arguments.cloud
    if wanted is not None and wanted != cloud:
        where = f"in the cloud {cloud}" if cloud else "without a cloud"
        raise CommandError(f"The server that works on this database makes resources {where}, not in {wanted}.")
    if cloud == SIMULATED:
        print("The cloud is simulated: nothing in it is real.", file=sys.stderr)


def _confirmed(question: str = "Do it?") -> bool:
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def plan(arguments: argparse.Namespace, host: Host) -> int:
    """Say what `up` would do, without doing it."""
    name = stack_name(arguments)
    body = _body(arguments)
    with connect(arguments, host, reads_only=True) as session:
        client = session.client
        stack = client.find_or_none(name)
        if arguments.adopt_cloud and stack is not None:
            body["adopt_cloud"] = True
        with _all_told(arguments, host, client, body):
            found, _ = plans.fetch(client, stack, name, body)
    if arguments.format == "table" and not arguments.column:
        plans.draw(found)
    else:
        render.rows(plans.rows(found), plans.COLUMNS, arguments.format, arguments.column)
    return 0


@contextmanager
def _all_told(arguments: argparse.Namespace, host: Host, client: Client, body: JsonMap) -> Iterator[None]:
    """Where the server refuses a template for its first fault, tell all that is wrong with it, and where: what can be
    seen here, and what only the server can, which knows the cloud."""
    try:
        yield
    except Refused as error:
        if error.status != HTTPStatus.BAD_REQUEST:
            raise
        from heatlite.template.review import in_order  # other commands do without the language

        given = parameters(arguments.parameter)
        found = of_file(arguments.file, arguments.environment, given, host.types())
        known = {problem.text for problem in found}
        found += [problem for problem in _seen_there(arguments, client, body) if problem.text not in known]
        faults = in_order(problem for problem in found if problem.severity == "error")
        lines = [] if any(problem.text in str(error) for problem in faults) else [str(error)]
        raise Refused("\n".join([*lines, *map(describe, faults)]), error.status) from None


def _seen_there(arguments: argparse.Namespace, client: Client, body: JsonMap) -> list[Problem]:
    """All that the server has against the body; nothing where it refuses to tell: its first fault is told anyway."""
    sent = {name: value for name, value in body.items() if name not in ("plan_digest", "adopt_cloud")}
    try:
        bundle = gather(arguments.file, arguments.environment)
        answer = client.request("POST", "/validate", sent, {"all_errors": "true"})
    except CommandError:
        return []
    return of_server(objects(answer, "problems"), bundle)


def down(arguments: argparse.Namespace, host: Host) -> int:
    """Delete the stack and wait until it is gone; with --force it goes in any case."""
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


def retry(arguments: argparse.Namespace, host: Host) -> int:
    """Go on with a create or an update where it failed, and wait for it."""
    with connect(arguments, host) as session:
        client = session.client
        stack = client.find(arguments.stack)
        after = client.last_event(stack)
        client.action(stack, "retry")
        done = progress.wait(session, stack, after, f"heatlite retry {stack.name}")
    return 1 if done is not None and done.failed else 0


def ls(arguments: argparse.Namespace, host: Host) -> int:
    """List the project's stacks."""
    with connect(arguments, host, reads_only=True) as session:
        found = session.client.stacks()
    render.rows(found, STACK_COLUMNS, arguments.format, arguments.column)
    return 0


def show(arguments: argparse.Namespace, host: Host) -> int:
    """Everything about one stack."""
    with connect(arguments, host, reads_only=True) as session:
        found = session.client.show(arguments.stack)
    render.one(found, arguments.format, arguments.column)
    return 0


def resources(arguments: argparse.Namespace, host: Host) -> int:
    """List a stack's resources."""
    with connect(arguments, host, reads_only=True) as session:
        found = session.client.resources(session.client.find(arguments.stack))
    found.sort(key=lambda item: text(item.get("resource_name")))
    shown = [{**item, "health": health_of(item)} for item in found]
    render.rows(shown, RESOURCE_COLUMNS, arguments.format, arguments.column)
    return 0


def _outputs(client: Client, stack: Stack) -> list[Object]:
    shown = client.show(stack.id)
    return objects(shown, "outputs") if shown.get("outputs") else []


def outputs(arguments: argparse.Namespace, host: Host) -> int:
    """List a stack's outputs with their values."""
    with connect(arguments, host, reads_only=True) as session:
        found = _outputs(session.client, session.client.find(arguments.stack))
    render.rows(found, OUTPUT_COLUMNS, arguments.format, arguments.column)
    return 0


def events(arguments: argparse.Namespace, host: Host) -> int:
    """List a stack's events, oldest first; with --follow go on as more come."""
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
            pause = progress.FIRST_PAUSE if found else min(pause * 1.5, progress.LONGEST_PAUSE)
            time.sleep(pause)
            found = session.client.events(stack, after)
