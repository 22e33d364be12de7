"""Commands on nodes, node actions and agents."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from heatlite.cli import agent_package
from heatlite.cli.arguments import (
    LIMIT,
    LISTING,
    STACK,
    WAIT_TIMEOUT,
    WATCH,
    CommandGroup,
    argument,
    filters,
    only,
    repeatable,
)
from heatlite.cli.client import Client, Object, an_object, objects, part, text
from heatlite.cli.commands.actions import TIMED_OUT, follow, matching, pages, print_page
from heatlite.cli.errors import CommandError, Misuse, RefusedRequest
from heatlite.cli.output import render
from heatlite.cli.session import Host, connect
from heatlite.core.json import Json, JsonMap, as_map, parse
from heatlite.features.nodes.commands import playbooks

NODE_COLUMNS = ("name", "state", "agent", "url", "kinds", "unfinished", "seen_at", "reason", "id", "stack_id")
COLUMNS = ("node", "kind", "state", "created_at", "error", "id", "requester", "requested_by", "finished_at")
HISTORY_COLUMNS = ("time", "state", "origin", "user", "reason")
ENDED = ("DONE", "FAILED", "CANCELLED", "LOST")

NODE_ACTION = argument("action", metavar="ID", help="id")
NODE_ACTIONS = argument("action", metavar="ID", nargs="+", help="id (repeatable)")

commands = CommandGroup("node", "machines with an agent, and actions on them", [playbooks.commands])


def _find(client: Client, action: str) -> Object:
    """Return a node action by its id."""
    return an_object(client.request("GET", f"/node_actions/{part(action)}"), "node_action")


def _line(action: Object) -> str:
    what = f"{text(action.get('kind'))} on {text(action.get('node'))}"
    return f"{text(action.get('id'))} {what}: {text(action.get('state'))}  {text(action.get('error'))}".rstrip()


@commands.command(
    "list", "list the nodes of a stack with the state of their agents", *LISTING, STACK, WATCH,
    examples=("node list web",),
)
def nodes(arguments: argparse.Namespace, host: Host) -> int:
    """List the nodes of a stack and its nested stacks."""
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find(arguments.stack)
        for _ in render.watching(arguments.watch):
            answer = an_object(session.client.request("GET", f"{stack.path}/nodes"))
            render.listing(objects(answer, "nodes"), NODE_COLUMNS, arguments, f"nodes of stack {stack.name}")
            _print_waits(answer)
            _print_refusals(answer)
    return 0


def _print_waits(answer: Object) -> None:
    """Print the stack actions that node actions wait for, by the last orchestration."""
    orchestration = answer.get("orchestration")
    report = orchestration.get("report") if isinstance(orchestration, Mapping) else None
    held_by = report.get("held_by") if isinstance(report, Mapping) else None
    for action in held_by if isinstance(held_by, list) else ():
        print(f"Work waits for a stack action: heatlite action show {text(action)}", file=sys.stderr)


def _print_refusals(answer: Object) -> None:
    """Print which agents the server refuses, and why."""
    for one in objects(answer, "refused"):
        where = f"the agent at {text(one.get('address'))}"
        print(f"{text(one.get('name'))}: {where} is refused: {text(one.get('reason'))}", file=sys.stderr)


@commands.command(
    "actions",
    "list node actions, newest first",
    *LISTING,
    argument("stack", metavar="STACK", nargs="?", help="only those of this stack and its nested stacks"),
    only("--node", "NODE", "on this node, by name or id (repeatable, or separated by commas)"),
    only("--kind", "KIND", "of this kind (repeatable, or separated by commas)"),
    only("--state", "STATE", "in this state (repeatable, or separated by commas)"),
    only("--requester", "WHO", "from: user, playbook, deployment, agent (repeatable, or separated by commas)"),
    only("--run", "ID", "of this playbook run (repeatable)", dest="run_id"),
    repeatable(
        "--sort",
        metavar="KEY[:asc|:desc]",
        help="created_at, updated_at, node, kind, state (repeatable, or separated by commas)",
    ),
    LIMIT,
    examples=("node actions web --state PENDING_APPROVE",),
)
def list_(arguments: argparse.Namespace, host: Host) -> int:
    """List node actions of the project or of a stack."""
    query = filters(arguments, "node", "kind", "state", "requester", "run_id", "sort")
    if "run_id" in query:
        query["run"] = query.pop("run_id")
    with connect(arguments, host, reads_only=True) as session:
        path = "" if arguments.stack is None else session.client.find(arguments.stack).path
        found, are_more = pages(session.client, f"{path}/node_actions", "node_actions", {**query}, arguments.limit)
    print_page(found, are_more, COLUMNS, arguments, matching("node actions", query))
    return 0


@commands.command(
    "show",
    "show a node action",
    *LISTING,
    NODE_ACTION,
    argument("--history", action="store_true", help="show its state transitions instead"),
    examples=("node show 1f0c6f2e-… --history",),
)
def show(arguments: argparse.Namespace, host: Host) -> int:
    """Show a node action; with --history, its transitions."""
    with connect(arguments, host, reads_only=True) as session:
        found = _find(session.client, arguments.action)
    if arguments.history:
        render.listing(objects(found, "history"), HISTORY_COLUMNS, arguments, "transitions")
    else:
        render.one(found, arguments.format, arguments.column)
    return 0


@commands.command(
    "run",
    "create a node action",
    STACK,
    argument("node", metavar="NODE", help="name or id"),
    argument("kind", metavar="KIND", nargs="?", help="kind of action (with --script: script)"),
    repeatable("--arg", metavar="NAME=VALUE", help="an argument, or an input of the script (repeatable)"),
    argument("--args", metavar="JSON", help="arguments as a JSON object"),
    argument("--script", type=Path, metavar="FILE", help="run the script in this file"),
    argument("--granted", action="store_true", help="approve it at once, if permitted"),
    argument("--id", metavar="UUID", help="id of the new action; repeating the request with it has no effect"),
    examples=("node run web db service.restart --arg service=postgresql", "node run web db --script fix.sh"),
)
def run(arguments: argparse.Namespace, host: Host) -> int:
    body: JsonMap = {"node": arguments.node, "kind": _kind(arguments), "args": _args(arguments)}
    if arguments.granted:
        body["approval"] = "granted"
    if arguments.id is not None:
        body["id"] = arguments.id
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        asked = an_object(session.client.request("POST", f"{stack.path}/node_actions", body), "node_action")
    print(_line(asked))
    if asked.get("state") == "PENDING_APPROVE":
        print(f"It needs an approval: heatlite node approve {text(asked.get('id'))}", file=sys.stderr)
    return 0


def _kind(arguments: argparse.Namespace) -> str:
    if arguments.kind is None and arguments.script is None:
        raise Misuse("Give a KIND, or a file with --script.")
    return text(arguments.kind) if arguments.kind is not None else "script"


def _args(arguments: argparse.Namespace) -> JsonMap:
    """Return the arguments: the JSON object of --args, with those of --arg, which win.

    For a script, --arg sets its inputs.
    """
    given: Json = {}
    if arguments.args is not None:
        try:
            given = parse(arguments.args)
        except ValueError as error:
            raise Misuse(f"--args is not JSON: {error}.") from None
        if not isinstance(given, dict):
            raise Misuse("--args must be a JSON object.")
    out = {**as_map(given)}
    single: JsonMap = {}
    for one in arguments.arg:
        name, equals, value = one.partition("=")
        if not equals:
            raise Misuse(f"--arg {name}: must be NAME=VALUE.")
        single[name] = value
    if arguments.script is None:
        return {**out, **single}
    single = {**as_map(out.get("inputs")), **single}
    return {**out, "config": _text_of(arguments.script), "inputs": single}


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise Misuse(f"{file}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Misuse(f"{file}: is not UTF-8.") from None


@commands.command("approve", "approve node actions", NODE_ACTIONS, examples=("node approve 1f0c6f2e-…",))
def approve(arguments: argparse.Namespace, host: Host) -> int:
    return _decide(arguments, host, "approve")


@commands.command("reject", "reject unapproved node actions", NODE_ACTIONS, examples=("node reject 1f0c6f2e-…",))
def reject(arguments: argparse.Namespace, host: Host) -> int:
    return _decide(arguments, host, "reject")


@commands.command(
    "cancel", "cancel node actions; agents end those that run as soon as they can", NODE_ACTIONS,
    examples=("node cancel 1f0c6f2e-…",),
)
def cancel(arguments: argparse.Namespace, host: Host) -> int:
    return _decide(arguments, host, "cancel")


def _decide(arguments: argparse.Namespace, host: Host, decision: str) -> int:
    """Decide on node actions.

    Prints an error for each failure, and continues with the others.
    """
    failed = False
    with connect(arguments, host) as session:
        for action in arguments.action:
            try:
                body: JsonMap | None = None
                if decision != "cancel":
                    body = {"digest": _find(session.client, action).get("digest")}
                path = f"/node_actions/{part(action)}/{decision}"
                decided = an_object(session.client.request("POST", path, body), "node_action")
            except RefusedRequest as error:
                failed = True
                print(f"heatlite: {action}: {error} (HTTP {error.status})", file=sys.stderr)
                continue
            print(_line(decided))
            if decided.get("cancel_asked") and decided.get("state") not in ENDED:
                print("The agent was asked to cancel it.", file=sys.stderr)
    return int(failed)


@commands.command("orchestrate", "orchestrate the nodes of a stack now", STACK, examples=("node orchestrate web",))
def orchestrate(arguments: argparse.Namespace, host: Host) -> int:
    """Orchestrate the nodes of a stack's tree now."""
    with connect(arguments, host) as session:
        session.client.request("POST", f"{session.client.find(arguments.stack).path}/orchestrate")
    return 0


@commands.command(
    "wait", "wait until a node action has ended: exit code 0 if DONE, else 1", NODE_ACTION, WAIT_TIMEOUT,
    examples=("node wait 1f0c6f2e-…",),
)
def wait(arguments: argparse.Namespace, host: Host) -> int:
    """Wait until a node action has ended. Prints each state."""
    with connect(arguments, host) as session:
        last = follow(
            session,
            lambda: _find(session.client, arguments.action),
            lambda action: (text(action.get("state")), _line(action)),
            ENDED,
            arguments.timeout,
            ("The node action continues", f"heatlite node wait {arguments.action}"),
        )
    return TIMED_OUT if last not in ENDED else 0 if last == "DONE" else 1


@commands.command(
    "token",
    "print the URL at which the agent of a resource registers",
    STACK,
    argument("resource", metavar="RESOURCE", help="name"),
    examples=("node token web db",),
)
def token(arguments: argparse.Namespace, host: Host) -> int:
    """Print the registration URL for the agent of a resource. The URL is a secret."""
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find(arguments.stack)
        path = f"{stack.path}/resources/{part(arguments.resource)}/metadata"
        metadata = an_object(session.client.request("GET", path), "metadata")
    agent = metadata.get("heatlite_agent")
    if not isinstance(agent, dict) or not agent.get("register"):
        raise CommandError(
            f"No agent can register for {arguments.resource}: its metadata has no heatlite_agent. An"
            " OS::Heat::DeployedServer or OS::Nova::Server has one after its creation."
        )
    print(text(agent["register"]))
    return 0


@commands.command(
    "agent",
    "write heatlite-agent as one executable file",
    argument("file", type=Path, metavar="FILE", help="file to write"),
    server=False,
    examples=("node agent heatlite-agent",),
)
def agent(arguments: argparse.Namespace, host: Host) -> int:
    """Write the agent as one executable file."""
    try:
        agent_package.write(arguments.file)
    except OSError as error:
        raise CommandError(f"cannot write {arguments.file}: {error.strerror}") from None
    print(f"Wrote {arguments.file}. Copy it to a machine with Python 3.11 or newer, and run it there.")
    return 0
