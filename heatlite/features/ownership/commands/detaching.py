"""Command that gives up objects alive."""

import argparse

from heatlite.cli.arguments import STACK, YES, CommandGroup, argument
from heatlite.cli.client import objects, text
from heatlite.cli.files import load_file
from heatlite.cli.output import render, template_files
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, connect
from heatlite.core.json import JsonMap, as_map, dump
from heatlite.features.ownership.commands.importing import FORMAT

commands = CommandGroup()


@commands.command(
    "detach",
    "give up objects of a stack, which stay alive",
    STACK,
    argument("name", metavar="NAME", nargs="+", help="resource"),
    argument("--as-external", action="store_true", help="keep references to the objects in the template"),
    template_files.WRITE,
    YES,
    FORMAT,
    examples=("detach shop db", "detach shop net --as-external --write shop.yaml"),
)
def detach(arguments: argparse.Namespace, host: Host) -> int:
    """Show the plan of a detachment, ask, and detach."""
    need_consent(arguments, "detach changes a stack")
    if arguments.write is not None:
        load_file(arguments.write)
    asked: JsonMap = {"resources": arguments.name, "as_external": arguments.as_external}
    with connect(arguments, host) as session:
        client, stack = session.client, session.client.find(arguments.stack)
        stored = client.request("GET", f"{stack.path}/template")
        plan = client.plan(stack, "detach", asked)
        if arguments.format == "text":
            for one in objects(plan, "resources"):
                shown = f"{text(one.get('resource_name'))} = {text(one.get('physical_resource_id'))}"
                render.line(f"- {shown}  ({text(one.get('resource_type'))})  {text(one.get('cause'))}", "yellow")
        agree(arguments, "Detach them?")
        body: JsonMap = {**asked, "plan_digest": text(plan.get("digest"))}
        answer = client.request("POST", f"{stack.path}/actions", {"detach": body})
    if arguments.format == "json":
        print(dump(answer))
    if arguments.write is not None:
        template_files.write(arguments.write, as_map(stored), plan)
    return 0
