"""Commands on playbooks: list, show, put, delete; run, approve and reject their runs, and watch these."""

import argparse
import sys
import time
from pathlib import Path

from heatlite.cli.client import Client, Object, Stack, an_object, objects, part, text
from heatlite.cli.commands.actions import ENDED, find, line, pages
from heatlite.cli.errors import CommandError, describe
from heatlite.cli.output import progress, render
from heatlite.cli.session import Host, Session, connect
from heatlite.core.errors import Invalid
from heatlite.core.json import JsonMap

COLUMNS = ("name", "created_by", "created_at", "updated_at")
PLAN_COLUMNS = ("stage", "kind", "at_once", "node", "state", "id")
NESTED = 100
"""How many levels of nested stacks the nodes of a run may lie in."""


def list_(arguments: argparse.Namespace, host: Host) -> int:
    """The project's playbooks."""
    with connect(arguments, host, reads_only=True) as session:
        found, _ = pages(session.client, "/node_playbooks", "node_playbooks", {})
    render.rows(found, COLUMNS, arguments.format, arguments.column)
    return 0


def show(arguments: argparse.Namespace, host: Host) -> int:
    """A playbook as it was put."""
    with connect(arguments, host, reads_only=True) as session:
        path = f"/node_playbooks/{part(arguments.playbook)}"
        found = an_object(session.client.request("GET", path), "node_playbook")
    print(text(found.get("document")).rstrip("\n"))
    return 0


def put(arguments: argparse.Namespace, host: Host) -> int:
    """Keep a playbook."""
    document, name = _text(arguments.file), arguments.name or arguments.file.stem
    with connect(arguments, host) as session:
        session.client.request("PUT", f"/node_playbooks/{part(name)}", {"document": document})
    print(f"{name} is kept; run it with: heatlite node playbook run STACK {name}")
    return 0


def delete(arguments: argparse.Namespace, host: Host) -> int:
    """Forget a playbook."""
    with connect(arguments, host) as session:
        session.client.request("DELETE", f"/node_playbooks/{part(arguments.playbook)}")
    return 0


def run(arguments: argparse.Namespace, host: Host) -> int:
    """Put a run, or say what one would do."""
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
            render.rows(_planned(found), PLAN_COLUMNS, arguments.format, arguments.column)
            return 0
        after = client.last_event(stack, NESTED)
        asked = an_object(client.request("POST", path, body), "action")
        print(line(asked), flush=True)
        if not arguments.granted:
            approve_it = f"heatlite node playbook approve {text(asked.get('id'))}"
            print(f"Somebody has to approve it: {approve_it}", file=sys.stderr)
        return _wait(session, stack, asked, after) if arguments.wait else 0


def approve(arguments: argparse.Namespace, host: Host) -> int:
    """Have a run begin, as it was read just now."""
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


def reject(arguments: argparse.Namespace, host: Host) -> int:
    """End a run that nobody has approved."""
    with connect(arguments, host) as session:
        action_id = text(find(session.client, arguments.action).get("id"))
        path = f"/node_playbook_runs/{part(action_id)}/reject"
        print(line(an_object(session.client.request("POST", path), "action")))
    return 0


def _wait(session: Session, stack: Stack, action: Object, after: str | None) -> int:
    """Show what happens to the nodes until the run has ended; the exit code."""
    client, action_id = session.client, text(action.get("id"))
    try:
        with progress.view() as shown:
            ended = _follow(client, stack, action_id, after, shown)
    except KeyboardInterrupt:
        goes_on = "Nothing is sent to nodes until an engine runs" if session.embedded else "The run goes on"
        print(f"Interrupted. {goes_on}; watch it with: heatlite events -f {stack.name}", file=sys.stderr)
        raise
    print(line(ended))
    if ended.get("status") == "SUCCEEDED":
        return 0
    print(f"What became of each node: heatlite node actions --run {action_id}", file=sys.stderr)
    return 1


def _follow(client: Client, stack: Stack, action_id: str, after: str | None, shown: progress.View) -> Object:
    pause, rest = progress.FIRST_PAUSE, progress.Rest(stack.name)
    while True:
        # The status is read before the events, so that whatever led to it is among them.
        now = find(client, action_id)
        news = client.events(stack, after, NESTED)
        for event in news:
            after = text(event.get("id"))
            shown.add(stack, event)
        if now.get("status") in ENDED:
            return now
        rest.tell(now if now.get("status") == "SUSPENDED" else None)
        pause = progress.FIRST_PAUSE if news else min(pause * 1.5, progress.LONGEST_PAUSE)
        time.sleep(pause)


def _planned(plan: Object) -> list[Object]:
    """A line for each node of each stage."""
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
    """A playbook's text. Raises CommandError with all that is wrong with it."""
    from heatlite.template.playbook import read_playbook  # other commands do without it, and it takes time to load

    try:
        document = file.read_text("utf-8")
        read_playbook(document, str(file))
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{file}: no UTF-8 text") from None
    except Invalid as error:
        raise CommandError("\n".join(map(describe, error.problems)) or error.message) from None
    return document
