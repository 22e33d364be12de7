"""Commands `readers` and `refresh`, and the option `--from` of `up` and `plan`."""

import argparse
import shlex

from heatlite.cli.arguments import FOLLOWED, LISTING, STACK, YES, CommandGroup, argument, repeatable
from heatlite.cli.client import an_object, objects, text
from heatlite.cli.commands.following import start
from heatlite.cli.errors import Misuse
from heatlite.cli.output import plans, render
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, connect, tell_facts
from heatlite.core.json import JsonMap
from heatlite.core.wire.base import columns
from heatlite.features.parameter_sources.wire import ShownReader

commands = CommandGroup()


@commands.command(
    "readers",
    "list the stacks that have values from outputs of a stack",
    STACK,
    *LISTING,
    examples=("readers base", "readers base -f json"),
)
def readers(arguments: argparse.Namespace, host: Host) -> int:
    """List readers of a stack, a row for each parameter."""
    with connect(arguments, host, reads_only=True) as session:
        stack = session.client.find(arguments.stack)
        found = objects(session.client.request("GET", f"{stack.path}/readers"), "readers")
    render.listing(found, columns(ShownReader), arguments, f"readers of stack {stack.name}")
    return 0


@commands.command(
    "refresh",
    "read outputs of other stacks again, and wait for the update",
    STACK,
    argument("name", nargs="*", metavar="NAME", help="parameter (default: all that have values from other stacks)"),
    YES,
    *FOLLOWED,
    examples=("refresh web", "refresh web net_id --yes"),
)
def refresh(arguments: argparse.Namespace, host: Host) -> int:
    """Show the plan of an update that reads again, ask, and begin it."""
    need_consent(arguments, "`refresh` changes a stack")
    body: JsonMap = {"refresh": arguments.name or True}
    with connect(arguments, host) as session:
        client, stack = session.client, session.client.find(arguments.stack)
        if not arguments.yes:
            answer = client.request("PATCH", f"{stack.path}/preview", body, {"plan": "True"})
            plan = an_object(answer, "plan")
            resources = objects(plan, "resources")
            plans.draw(resources)
            tell_facts(host, client, stack, plan)
            if plans.has_changes(resources):
                agree(arguments, "Do it?")
            body["plan_digest"] = text(plan.get("digest"))
        again = shlex.join(["heatlite", "refresh", stack.name, *arguments.name])
        return start(arguments, session, stack, body, again, "PATCH", "")


def _sources(arguments: argparse.Namespace) -> JsonMap:
    """Return the key of a body for what `--from` names. Raises Misuse."""
    found: JsonMap = {}
    for given in arguments.sources:
        name, _, place = given.partition("=")
        stack, _, output = place.rpartition(".")
        if not (name and stack and output):
            raise Misuse(f"--from {given}: a source is given as NAME=STACK.OUTPUT.")
        project, slash, stack = stack.rpartition("/")
        found[name] = {"stack": stack, "output": output, **({"project": project} if slash else {})}
    return {"parameter_sources": found} if found else {}


for command in ("up", "plan"):
    commands.body(
        command,
        repeatable(
            "--from",
            dest="sources",
            metavar="NAME=STACK.OUTPUT",
            help="parameter with the value of an output of another stack; PROJECT/STACK.OUTPUT (repeatable)",
        ),
        _sources,
    )
