"""Commands on stacks: up, plan, down, ls, show, events, resources, outputs."""

import argparse
import re
import sys
import time

from heatlite.cli import progress, render
from heatlite.cli.client import Client, Object, Stack, an_object, objects, text
from heatlite.cli.errors import CommandError
from heatlite.cli.files import gather
from heatlite.cli.session import Host, connect
from heatlite.core.json import JsonMap

STACK_COLUMNS = ("stack_name", "stack_status", "creation_time", "updated_time", "locked", "id")
RESOURCE_COLUMNS = (
    "resource_name",
    "physical_resource_id",
    "resource_type",
    "resource_status",
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


def parameters(given: list[str]) -> dict[str, str]:
    """``["a=1"]`` → ``{"a": "1"}``."""
    out = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise CommandError(f"-P {item}: a parameter is given as NAME=VALUE.")
        out[name] = value
    return out


def _body(arguments: argparse.Namespace) -> JsonMap:
    return gather(arguments.file, arguments.environment).body(parameters(arguments.parameter))


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
        again = f"heatlite up {arguments.file} -n {name}"
        stack = client.find_or_none(name)
        if stack is not None and stack.in_progress:
            print(f"{name} is {stack.status}: waiting for that first.", file=sys.stderr)
            stack = progress.wait(session, stack, client.last_event(stack), again)
        after = None
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


MARKS = {"added": "+", "updated": "~", "replaced": "±", "deleted": "-"}
_MARK_STYLES = {"added": "green", "updated": "yellow", "replaced": "magenta", "deleted": "red"}


def plan(arguments: argparse.Namespace, host: Host) -> int:
    """Say what `up` would do, without doing it."""
    name = stack_name(arguments)
    body = _body(arguments)
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find_or_none(name)
        if stack is None:
            answer = session.client.request("POST", "/stacks/preview", {"stack_name": name, **body})
            new = an_object(answer, "stack").get("resources")
            changes: dict[str, list[Object]] = {"added": objects({"resources": new}, "resources")}
        else:
            found = an_object(session.client.request("PUT", f"{stack.path}/preview", body), "resource_changes")
            changes = {kind: objects(found, kind) for kind in (*MARKS, "unchanged")}
    if arguments.format == "table" and not arguments.column:
        _draw_plan(changes)
        return 0
    listed: list[Object] = [
        {"change": kind, "resource_name": item.get("resource_name"), "resource_type": item.get("resource_type")}
        for kind, items in changes.items()
        for item in items
    ]
    render.rows(listed, ("change", "resource_name", "resource_type"), arguments.format, arguments.column)
    return 0


def _draw_plan(changes: dict[str, list[Object]]) -> None:
    for kind, mark in MARKS.items():
        for item in changes.get(kind, ()):
            shown = f"{mark} {text(item.get('resource_name'))}  ({text(item.get('resource_type'))})"
            render.line(shown, _MARK_STYLES[kind])
    counts = [f"{len(changes.get(kind, ()))} {kind}" for kind in (*MARKS, "unchanged")]
    print(f"Plan: {', '.join(counts)}.")


def down(arguments: argparse.Namespace, host: Host) -> int:
    """Delete the stack and wait until it is gone; with --force it goes in any case."""
    with connect(arguments, host) as session:
        client = session.client
        stack = client.find(arguments.stack)
        after = client.last_event(stack)
        client.request("DELETE", f"{stack.path}?force=true" if arguments.force else stack.path)
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
    render.rows(found, RESOURCE_COLUMNS, arguments.format, arguments.column)
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
