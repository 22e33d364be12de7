"""Command that gives up objects alive."""

import argparse

from heatlite.cli.arguments import STACK, YES, CommandGroup, argument
from heatlite.cli.client import an_object, objects, text
from heatlite.cli.commands.following import change
from heatlite.cli.files import load_file
from heatlite.cli.output import plans, render, template_files
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, connect, tell_facts
from heatlite.core.json import JsonMap, dump
from heatlite.features.ownership.commands.importing import FORMAT

commands = CommandGroup()


@commands.command(
    "detach",
    "give up objects of a stack, which stay alive",
    STACK,
    argument("path", metavar="PATH", nargs="+", help="resource, such as data/vol"),
    argument("--as-external", action="store_true", help="keep references to the objects in the template"),
    template_files.WRITE,
    YES,
    FORMAT,
    examples=("detach shop db data/vol", "detach shop net --as-external --write shop.yaml"),
)
def detach(arguments: argparse.Namespace, host: Host) -> int:
    """Show the plan of a detachment, ask, and detach."""
    need_consent(arguments, "detach changes a stack")
    if arguments.write is not None:
        load_file(arguments.write)
    asked: JsonMap = {"resources": arguments.path, "as_external": arguments.as_external}
    with connect(arguments, host) as session:
        client, stack = session.client, session.client.find(arguments.stack)
        stored = template_files.stored(client, stack)
        plan = client.plan(stack, "detach", asked)
        if arguments.format == "text":
            for one in objects(plan, "resources"):
                shown = f"{plans.path_of(one)} = {text(one.get('physical_resource_id'))}"
                render.line(f"- {shown}  ({text(one.get('resource_type'))})  {text(one.get('cause'))}", "yellow")
            tell_facts(host, client, stack, plan)
        agree(arguments, "Detach them?")
        body: JsonMap = {**asked, "plan_digest": text(plan.get("digest"))}
        answer = change(arguments, session, "POST", f"{stack.path}/actions", {"detach": body})
    if arguments.format == "text":
        print(f"{stack.name}: {len(objects(plan, 'resources'))} detached")
    else:
        done = an_object(answer, "action")["outputs"] if "action" in an_object(answer) else answer
        print(dump({"detached": an_object(done, "detached")}))
    if arguments.write is not None:
        template_files.write(arguments.write, stored, plan)
    return 0
