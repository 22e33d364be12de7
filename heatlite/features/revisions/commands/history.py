"""Command `undo`, and revisions in `history`: numbers and differences."""

import argparse
import shlex

from heatlite.cli.arguments import FOLLOWED, STACK, YES, CommandGroup, argument, number
from heatlite.cli.client import Client, Object, Stack, objects, text
from heatlite.cli.commands.following import may_leave, start
from heatlite.cli.errors import Misuse, RefusedRequest
from heatlite.cli.output import plans, render
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, connect, tell_facts
from heatlite.core.json import JsonMap

COLUMNS = ("place", "old", "new")

commands = CommandGroup()


@commands.command(
    "undo",
    "update a stack to an earlier definition, and wait for it",
    STACK,
    argument("--to", type=number, metavar="N", help="revision (default: the one before that was COMPLETE)"),
    YES,
    *FOLLOWED,
    examples=("undo web", "undo web --to 3 --yes"),
)
def undo(arguments: argparse.Namespace, host: Host) -> int:
    """Show the plan of an undo, ask, and begin it."""
    need_consent(arguments, "`undo` changes a stack")
    asked: JsonMap = {} if arguments.to is None else {"to": arguments.to}
    for keys in arguments.keys:
        asked |= keys(arguments)
    with connect(arguments, host) as session:
        client, stack = session.client, session.client.find(arguments.stack)
        may_leave(arguments, session)
        if not arguments.yes:
            plan = client.plan(stack, "undo", asked)
            asked |= {"to": plan.get("to"), "plan_digest": text(plan.get("digest"))}
            print(f"Back to revision {text(plan.get('to'))}:")
            resources = objects(plan, "resources")
            plans.draw(resources)
            tell_facts(host, client, stack, plan)
            if plans.has_changes(resources):
                agree(arguments, "Do it?")
        words = ["heatlite", "undo", stack.name, *([] if arguments.to is None else ["--to", str(arguments.to)])]
        return start(arguments, session, stack, {"undo": asked}, shlex.join(words))


def numbers(client: Client, stack: Stack) -> dict[str, Object]:
    """Return the numbers of a stack's revisions, by the ids of actions.

    A nested stack has none, and so has a server without the feature.
    """
    try:
        found = objects(client.request("GET", f"{stack.path}/revisions"), "revisions")
    except RefusedRequest:
        return {}
    return {text(one.get("action_id")): {"revision": one.get("number")} for one in found}


def _differences(arguments: argparse.Namespace, client: Client, stack: Stack) -> bool:
    """Print what differs between two revisions, if that is wanted."""
    if arguments.diff is None:
        return False
    if len(arguments.diff) > 2 or any(not one.isdecimal() for one in arguments.diff):
        raise Misuse("--diff takes the numbers of at most two revisions.")
    one, *rest = arguments.diff or [_newest(client, stack)]
    found = client.request("GET", f"{stack.path}/revisions/{one}/diff", query={"with": rest[0]} if rest else {})
    changes = objects(found, "changes")
    if arguments.format != "table":
        render.listing(changes, COLUMNS, arguments, "differences")
        return True
    for each in changes:
        old, new = (render.inline(each.get(side)) or "null" for side in ("old", "new"))
        render.line(f"~ {text(each.get('place'))}: {old} → {new}", "yellow")
    if not changes:
        print("The revisions are equal.")
    return True


def _newest(client: Client, stack: Stack) -> str:
    return text(objects(client.request("GET", f"{stack.path}/revisions"), "revisions")[0].get("number"))


_DIFF = argument(
    "--diff",
    nargs="*",
    metavar="N",
    help="show what differs between two revisions (default: the newest one, or N, and the one before)",
)
commands.option("history", _DIFF, _differences)
