"""Commands on drift: lists, reverts and acceptances."""

import argparse
import sys
import time
from collections.abc import Iterator

from heatlite.cli.arguments import FOLLOWED, LISTING, STACK, YES, CommandGroup, argument, only
from heatlite.cli.client import Client, Object, an_object, objects, text
from heatlite.cli.commands.actions import following_marker
from heatlite.cli.commands.following import change, follow_request, require_stack, start
from heatlite.cli.errors import Misuse
from heatlite.cli.files import load_file
from heatlite.cli.output import plans, render, template_files
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, connect, tell_facts
from heatlite.core.json import JsonMap, as_map, dump
from heatlite.features.drift.states import DriftState

COLUMNS = ("resource", "property", "stored", "live", "since", "state", "type", "physical_id", "stack_id")

drift = CommandGroup("drift", "list what differs from the stored properties, put it back, or accept it", default="show")
commands = CommandGroup(subgroups=(drift,))
commands.filter("ls", argument("--drifted", help="only those with a drifted resource"))


@drift.command(
    "show",
    "list the differences of a stack, or of all stacks",
    argument("stack", nargs="?", metavar="STACK", help="name or id (default: all stacks of the project)"),
    *LISTING,
    only("--state", "STATE", f"in this state: {', '.join(DriftState)} (repeatable; default: drifted)"),
    argument("--ignored", action="store_true", help="also show what the definition ignores"),
    argument("--check", action="store_true", help="check the stack first"),
    argument("--detailed-exitcode", action="store_true", help="exit with 1 if something is drifted"),
    examples=("drift show", "drift show web --check", "drift show web --check --detailed-exitcode -f json"),
)
def show(arguments: argparse.Namespace, host: Host) -> int:
    """List differences, a row for each."""
    if arguments.check and arguments.stack is None:
        raise Misuse("--check needs a stack.")
    query = {"state": ",".join(arguments.state)} if arguments.state else {}
    query |= {"ignored": "true"} if arguments.ignored else {}
    with connect(arguments, host, reads_only=not arguments.check) as session:
        client, path = session.client, "/drift"
        if arguments.stack is not None:
            stack = client.find(arguments.stack)
            path = f"{stack.path}/drift"
            if arguments.check:
                again = f"heatlite drift {stack.name} --check"
                require_stack(follow_request(session, stack, lambda: client.action(stack, "check", None), again))
        counts, found = _read(client, path, query)
        names = {} if arguments.stack is not None else client.names()
    rows = [row for one in found for row in _rows(one, names)]
    what = "differences" if arguments.stack is None else f"differences of stack {arguments.stack}"
    render.listing(rows, COLUMNS, arguments, what)
    if arguments.format == "table":
        way_on = ""
        if arguments.stack is not None and counts.get("drifted"):
            name = arguments.stack
            way_on = f" Put back: heatlite drift revert {name}. Accept: heatlite drift accept {name}."
            way_on += " Ignore: ignore_drift."
        print(render.folded(_summary(counts) + way_on, sys.stderr), file=sys.stderr)
    return int(arguments.detailed_exitcode and counts.get("drifted") != 0)


@drift.command(
    "revert",
    "put back what differs",
    STACK,
    argument("path", metavar="PATH", nargs="*", help="resource, such as web/2 (default: all that is drifted)"),
    YES,
    FOLLOWED,
    examples=("drift revert web", "drift revert web group/2 --yes --no-wait"),
)
def revert(arguments: argparse.Namespace, host: Host) -> int:
    """Show the plan of a revert, ask, and begin it."""
    need_consent(arguments, "drift revert changes resources")
    asked: JsonMap = {"resources": arguments.path} if arguments.path else {}
    with connect(arguments, host) as session:
        client, stack = session.client, session.client.find(arguments.stack)
        plan = client.plan(stack, "revert_drift", asked)
        if arguments.format == "text":
            plans.draw(objects(plan, "resources"))
            tell_facts(host, client, stack, plan)
        agree(arguments, "Do it?")
        body: JsonMap = {**asked, "plan_digest": text(plan.get("digest"))}
        again = " ".join(("heatlite drift revert", stack.name, *arguments.path))
        return start(arguments, session, stack, {"revert_drift": body}, again)


@drift.command(
    "accept",
    "make the definition say what differs; no object changes",
    STACK,
    argument("path", metavar="PATH", nargs="*", help="resource, such as data/vol (default: all that is drifted)"),
    template_files.WRITE,
    YES,
    examples=("drift accept web", "drift accept web data/vol --write web.yaml"),
)
def accept(arguments: argparse.Namespace, host: Host) -> int:
    """Show the plan of an acceptance, ask, and accept."""
    need_consent(arguments, "drift accept changes a definition")
    if arguments.write is not None:
        load_file(arguments.write)
    asked: JsonMap = {"resources": arguments.path} if arguments.path else {}
    with connect(arguments, host) as session:
        client, stack = session.client, session.client.find(arguments.stack)
        stored = template_files.stored(client, stack)
        plan = client.plan(stack, "accept_drift", asked)
        patches = {part: objects(plan, f"{part}_patch") for part in ("template", "parameters")}
        for name, edits in as_map(plan.get("files")).items():
            patches[name] = objects(as_map(edits), "template_patch")
        for part, patch in patches.items():
            for one in patch:
                value = "" if one.get("op") == "remove" else f" {dump(one.get('value'))}"
                render.line(f"~ {part} {text(one.get('path'))}: {text(one.get('op'))}{value}", "yellow")
        tell_facts(host, client, stack, plan)
        agree(arguments, "Accept it?")
        body: JsonMap = {**asked, "plan_digest": text(plan.get("digest"))}
        change(arguments, session, "POST", f"{stack.path}/actions", {"accept_drift": body})
    print(f"{stack.name}: accepted")
    if arguments.write is not None:
        template_files.write(arguments.write, stored, plan)
    return 0


def _read(client: Client, path: str, query: dict[str, str]) -> tuple[Object, list[Object]]:
    """Return the numbers of a list, and its resources of all pages."""
    found: list[Object] = []
    while True:
        page = client.request("GET", path, query=query)
        drift = an_object(page, "drift")
        found += objects(drift, "resources")
        following = following_marker(page)
        if not following:
            return drift, found
        query = {**query, **following}


def _rows(one: Object, names: dict[str, str]) -> Iterator[Object]:
    """Yield a row for each difference of a resource; one for a resource without any."""
    where = text(one.get("path"))
    stack = names.get(text(one.get("root_stack_id")))
    shown: Object = {
        "resource": where if stack is None else f"{stack}: {where}",
        "state": one.get("state"),
        "since": one.get("since"),
        "type": one.get("resource_type"),
        "physical_id": one.get("physical_resource_id"),
        "stack_id": one.get("stack_id"),
    }
    differences = objects(one, "differences")
    for each in differences:
        ignored = " (ignored)" if each.get("ignored") else ""
        sides = {side: each.get(side, "-") for side in ("stored", "live")}
        yield {**shown, "property": text(each.get("path")) + ignored, **sides}
    if not differences:
        yield shown


def _summary(counts: Object) -> str:
    """Return the numbers as a sentence."""
    parts = [f"{text(counts.get('drifted'))} drifted", f"{text(counts.get('in_sync'))} in sync"]
    for key, words in (("unknown", "could not be looked at"), ("not_checked", "not checked")):
        if counts.get(key):
            parts.append(f"{text(counts.get(key))} {words}")
    checked = text(counts.get("checked_at"))
    when = f", checked {render.age(checked, time.time())} ago" if checked else ""
    return f"{', '.join(parts)}{when}."
