"""Commands on nodes and what is done on them: list, show, run, approve, reject, cancel, orchestrate, wait."""

import argparse
import json
import sys
from pathlib import Path

from heatlite.cli.client import Client, Object, an_object, objects, part, text
from heatlite.cli.commands.actions import TIMED_OUT, follow, pages, tell
from heatlite.cli.errors import CommandError, Refused
from heatlite.cli.output import render
from heatlite.cli.session import Host, connect
from heatlite.core.json import Json, JsonMap

NODE_COLUMNS = ("name", "state", "agent", "url", "kinds", "unfinished", "seen_at", "reason", "id", "stack_id")
COLUMNS = ("id", "node", "kind", "state", "requester", "requested_by", "created_at", "finished_at", "error")
HISTORY_COLUMNS = ("time", "state", "origin", "user", "reason")
ENDED = ("DONE", "FAILED", "CANCELLED", "LOST")


def _find(client: Client, action: str) -> Object:
    """A node action by its id."""
    return an_object(client.request("GET", f"/node_actions/{part(action)}"), "node_action")


def _line(action: Object) -> str:
    what = f"{text(action.get('kind'))} on {text(action.get('node'))}"
    return f"{text(action.get('id'))} {what}: {text(action.get('state'))}  {text(action.get('error'))}".rstrip()


def nodes(arguments: argparse.Namespace, host: Host) -> int:
    """The nodes of a stack and of those nested in it, with their agents' state."""
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find(arguments.stack)
        found = objects(session.client.request("GET", f"{stack.path}/nodes"), "nodes")
    render.rows(found, NODE_COLUMNS, arguments.format, arguments.column)
    return 0


def list_(arguments: argparse.Namespace, host: Host) -> int:
    """Node actions of the project or of a stack, newest first unless --sort says otherwise."""
    query = {
        name: ",".join(getattr(arguments, name))
        for name in ("node", "kind", "state", "requester", "run_id", "sort")
        if getattr(arguments, name)
    }
    if "run_id" in query:
        query["run"] = query.pop("run_id")
    with connect(arguments, host, reads_only=True) as session:
        of = "" if arguments.stack is None else session.client.find(arguments.stack).path
        found, are_more = pages(session.client, f"{of}/node_actions", "node_actions", query, arguments.limit)
    tell(found, are_more, COLUMNS, arguments)
    return 0


def show(arguments: argparse.Namespace, host: Host) -> int:
    """Everything about one; with --history its states instead."""
    with connect(arguments, host, reads_only=True) as session:
        found = _find(session.client, arguments.action)
    if arguments.history:
        render.rows(objects(found, "history"), HISTORY_COLUMNS, arguments.format, arguments.column)
    else:
        render.one(found, arguments.format, arguments.column)
    return 0


def run(arguments: argparse.Namespace, host: Host) -> int:
    """Ask for one."""
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
        print(f"Somebody has to approve it: heatlite node approve {text(asked.get('id'))}", file=sys.stderr)
    return 0


def _kind(arguments: argparse.Namespace) -> str:
    if arguments.kind is None and arguments.script is None:
        raise CommandError("What is to be done? Name a KIND, or a file with --script.")
    return text(arguments.kind) if arguments.kind is not None else "script"


def _args(arguments: argparse.Namespace) -> JsonMap:
    """The arguments: a JSON object, and what is given one by one, which goes before it; for a script that is its
    inputs."""
    given: Json = {}
    if arguments.args is not None:
        try:
            given = json.loads(arguments.args)
        except ValueError as error:
            raise CommandError(f"--args is no JSON: {error}.") from None
        if not isinstance(given, dict):
            raise CommandError("--args has to be a JSON object.")
    out: JsonMap = {**given} if isinstance(given, dict) else {}
    single: JsonMap = {}
    for one in arguments.arg:
        name, equals, value = one.partition("=")
        if not equals:
            raise CommandError(f"--arg {name}: has to be NAME=VALUE.")
        single[name] = value
    if arguments.script is None:
        return {**out, **single}
    inputs = out.get("inputs")
    single = {**(inputs if isinstance(inputs, dict) else {}), **single}
    return {**out, "config": _text_of(arguments.script), "inputs": single}


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise CommandError(f"{file}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{file}: is not UTF-8.") from None


def decide(arguments: argparse.Namespace, host: Host) -> int:
    """Approve, reject or cancel node actions; what cannot be is said, the others are done."""
    failed = False
    with connect(arguments, host) as session:
        for action in arguments.action:
            try:
                body: JsonMap | None = None
                if arguments.decision != "cancel":
                    body = {"digest": _find(session.client, action).get("digest")}
                path = f"/node_actions/{part(action)}/{arguments.decision}"
                decided = an_object(session.client.request("POST", path, body), "node_action")
            except Refused as error:
                failed = True
                print(f"heatlite: {action}: {error} (HTTP {error.status})", file=sys.stderr)
                continue
            print(_line(decided))
            if decided.get("cancel_asked") and decided.get("state") not in ENDED:
                print("Its agent is asked to end it.", file=sys.stderr)
    return int(failed)


def orchestrate(arguments: argparse.Namespace, host: Host) -> int:
    """Have somebody look after the nodes of a stack's tree now."""
    with connect(arguments, host) as session:
        session.client.request("POST", f"{session.client.find(arguments.stack).path}/orchestrate")
    return 0


def wait(arguments: argparse.Namespace, host: Host) -> int:
    """Wait until one has ended, and say each state that it takes."""
    with connect(arguments, host) as session:
        last = follow(
            session,
            lambda: _find(session.client, arguments.action),
            lambda action: (text(action.get("state")), _line(action)),
            ENDED,
            arguments.timeout,
            ("The node action goes on", f"heatlite node wait {arguments.action}"),
        )
    return TIMED_OUT if last not in ENDED else 0 if last == "DONE" else 1


def token(arguments: argparse.Namespace, host: Host) -> int:
    """The URL at which the agent beside a resource registers; whoever has it can be that agent."""
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find(arguments.stack)
        path = f"{stack.path}/resources/{part(arguments.resource)}/metadata"
        metadata = an_object(session.client.request("GET", path), "metadata")
    agent = metadata.get("heatlite_agent")
    if not isinstance(agent, dict) or not agent.get("register"):
        raise CommandError(
            f"No agent can register beside {arguments.resource}: its metadata has no heatlite_agent. That have"
            " OS::Heat::DeployedServer and OS::Nova::Server, once they are made."
        )
    print(text(agent["register"]))
    return 0
