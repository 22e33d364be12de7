"""Commands on playbooks: list, show, put, delete; run, approve and reject."""

import argparse
import sys
import time
from pathlib import Path

from heatlite.cli.arguments import LISTING, STACK, CommandGroup, argument, named, number
from heatlite.cli.client import Client, Object, Stack, an_object, objects, part, text
from heatlite.cli.commands.actions import ACTION, ENDED, find, line, pages
from heatlite.cli.errors import CommandError, Misuse, RefusedRequest, describe
from heatlite.cli.output import progress, render
from heatlite.cli.session import Host, Session, connect
from heatlite.cli.transport import Unreachable
from heatlite.core.errors import Invalid
from heatlite.core.json import JsonMap

COLUMNS = ("name", "created_by", "created_at", "updated_at")
PLAN_COLUMNS = ("stage", "kind", "at_once", "node", "state", "id")
NESTED = 100
"""Levels of nested stacks whose events a run shows."""

NAME = argument("playbook", metavar="NAME", help="name")
WAIT = argument("--wait", action="store_true", help="watch the run until it has ended (exit code 1: it failed)")

commands = CommandGroup("playbook", "store playbooks, and run them on the nodes of a stack")


@commands.command("list", "list the playbooks of the project", *LISTING, examples=("node playbook list",))
def list_(arguments: argparse.Namespace, host: Host) -> int:
    with connect(arguments, host, reads_only=True) as session:
        found, _ = pages(session.client, "/node_playbooks", "node_playbooks", {})
    render.listing(found, COLUMNS, arguments, "playbooks")
    return 0


@commands.command("show", "print a playbook", NAME, examples=("node playbook show restart",))
def show(arguments: argparse.Namespace, host: Host) -> int:
    with connect(arguments, host, reads_only=True) as session:
        path = f"/node_playbooks/{part(arguments.playbook)}"
        found = an_object(session.client.request("GET", path), "node_playbook")
    print(text(found.get("document")).rstrip("\n"))
    return 0


@commands.command(
    "put",
    "create or replace a playbook",
    argument("file", type=Path, metavar="FILE", help="YAML or JSON"),
    argument("-n", "--name", type=named, help="name (default: the file's)"),
    examples=("node playbook put restart.yaml",),
)
def put(arguments: argparse.Namespace, host: Host) -> int:
    document, name = _text(arguments.file), arguments.name or arguments.file.stem
    with connect(arguments, host) as session:
        session.client.request("PUT", f"/node_playbooks/{part(name)}", {"document": document})
    print(f"{name} is stored; run it with: heatlite node playbook run STACK {name}")
    return 0


@commands.command("delete", "delete a playbook; its runs continue", NAME, examples=("node playbook delete restart",))
def delete(arguments: argparse.Namespace, host: Host) -> int:
    with connect(arguments, host) as session:
        session.client.request("DELETE", f"/node_playbooks/{part(arguments.playbook)}")
    return 0


@commands.command(
    "run",
    "create a run of a playbook on a stack, to be approved",
    *LISTING,
    STACK,
    argument("playbook", metavar="NAME|FILE", help="stored playbook, or a file (with / or .yaml in its name)"),
    argument("--dry-run", action="store_true", help="only show the stages and their nodes"),
    argument("--granted", action="store_true", help="approve it at once"),
    argument("--timeout", type=number, metavar="SECONDS", help="time limit from the approval on"),
    WAIT,
    examples=("node playbook run web restart --dry-run", "node playbook run web restart --granted --wait"),
)
def run(arguments: argparse.Namespace, host: Host) -> int:
    """Create a run, or preview it."""
    body: JsonMap = {}
    if _is_file(arguments.playbook):
        body["document"] = _text(Path(arguments.playbook))
    else:
        body["playbook"] = arguments.playbook
    if arguments.granted:
        body["approval"] = "granted"
    if arguments.timeout:
        body["timeout"] = arguments.timeout
    with connect(arguments, host, reads_only=arguments.dry_run) as session:
        client = session.client
        stack = client.find(arguments.stack)
        path = f"{stack.path}/node_playbook_runs"
        if arguments.dry_run:
            found = an_object(client.request("POST", path, {**body, "dry_run": True}))
            render.listing(_planned(found), PLAN_COLUMNS, arguments, f"nodes of stack {stack.name} for these stages")
            return 0
        after = client.last_event(stack, NESTED)
        asked = an_object(client.request("POST", path, body), "action")
        print(line(asked), flush=True)
        if not arguments.granted:
            approve_it = f"heatlite node playbook approve {text(asked.get('id'))}"
            print(f"It needs an approval: {approve_it}", file=sys.stderr)
        return _wait(session, stack, asked, after) if arguments.wait else 0


@commands.command("approve", "approve a run", ACTION, WAIT, examples=("node playbook approve 1a2b --wait",))
def approve(arguments: argparse.Namespace, host: Host) -> int:
    """Approve a run as it was read now."""
    with connect(arguments, host) as session:
        client = session.client
        found = find(client, arguments.action)
        inputs, stack = found.get("inputs"), client.find(text(found.get("target")))
        digest = inputs.get("digest") if isinstance(inputs, dict) else None
        after = client.last_event(stack, NESTED)
        path = f"/node_playbook_runs/{part(text(found.get('id')))}/approve"
        approved = an_object(client.request("POST", path, {"digest": digest} if digest else None), "action")
        print(line(approved), flush=True)
        return _wait(session, stack, approved, after) if arguments.wait else 0


@commands.command("reject", "reject an unapproved run", ACTION, examples=("node playbook reject 1a2b",))
def reject(arguments: argparse.Namespace, host: Host) -> int:
    with connect(arguments, host) as session:
        action_id = text(find(session.client, arguments.action).get("id"))
        path = f"/node_playbook_runs/{part(action_id)}/reject"
        print(line(an_object(session.client.request("POST", path), "action")))
    return 0


def _wait(session: Session, stack: Stack, action: Object, after: str | None) -> int:
    """Show events of the nodes until the run has ended. Returns the exit code."""
    client, action_id = session.client, text(action.get("id"))
    try:
        with progress.view() as shown:
            ended = _follow(client, stack, action_id, after, shown)
    except KeyboardInterrupt:
        goes_on = "Nothing is sent to nodes until an engine runs" if session.embedded else "The run continues"
        print(f"Interrupted. {goes_on}; watch it with: heatlite events -f {stack.name}", file=sys.stderr)
        raise
    except Unreachable as error:
        raise progress.lost(error, f"heatlite action wait {action_id}") from None
    print(line(ended))
    if ended.get("status") == "SUCCEEDED":
        return 0
    print(f"Result of each node: heatlite node actions --run {action_id}", file=sys.stderr)
    return 1


def _follow(client: Client, stack: Stack, action_id: str, after: str | None, shown: progress.ProgressView) -> Object:
    pause, notice, is_told = progress.FIRST_PAUSE, progress.SuspensionNotice(stack.name), False
    while True:
        try:
            # Read the status before the events, so that these include its cause.
            now = find(client, action_id)
            news = client.events(stack, after, NESTED)
        except RefusedRequest as error:
            is_told = progress.tell_outage(error, is_told)
            time.sleep(progress.MAX_PAUSE)
            continue
        for event in news:
            after = text(event.get("id"))
            shown.add(stack, event)
        if now.get("status") in ENDED:
            return now
        notice.update(now if now.get("status") == "SUSPENDED" else None)
        pause = progress.FIRST_PAUSE if news else min(pause * 1.5, progress.MAX_PAUSE)
        time.sleep(pause)


def _planned(plan: Object) -> list[Object]:
    """Return a row for each node of each stage."""
    return [
        {
            "stage": stage.get("name"),
            "kind": stage.get("kind"),
            "at_once": stage.get("at_once"),
            "node": node.get("name"),
            "state": node.get("state"),
            "id": node.get("id"),
        }
        for stage in objects({**plan}, "stages")
        for node in objects({**stage}, "nodes")
    ]


def _is_file(given: str) -> bool:
    return "/" in given or given.endswith((".yaml", ".yml", ".json"))


def _text(file: Path) -> str:
    """Return the text of a playbook. Raises CommandError with all of its problems."""
    from heatlite.features.nodes.playbook_text import read_playbook  # a slow import that other commands do not need

    try:
        document = file.read_text("utf-8")
        read_playbook(document, str(file))
    except OSError as error:
        raise Misuse(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Misuse(f"{file}: not UTF-8 text") from None
    except Invalid as error:
        raise CommandError("\n".join(map(describe, error.problems)) or error.message) from None
    return document
