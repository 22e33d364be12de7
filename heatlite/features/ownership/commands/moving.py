"""Command that gives resources other names."""

import argparse
from pathlib import Path

from heatlite.cli.arguments import STACK, YES, CommandGroup, argument
from heatlite.cli.client import objects, text
from heatlite.cli.commands.following import change
from heatlite.cli.errors import Misuse
from heatlite.cli.files import load_file
from heatlite.cli.output import plans, render, template_files
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, connect, tell_facts
from heatlite.core.json import Json, JsonMap, as_map, as_maps, as_texts, dump
from heatlite.features.ownership.commands.importing import FORMAT

commands = CommandGroup()


@commands.command(
    "move",
    "move resources to other names or stacks, without a change of their objects",
    STACK,
    argument("places", metavar="FROM [STACK:]TO", nargs="*", help="the path of a resource, and the new one"),
    argument("--from-file", type=Path, metavar="FILE", help="the `move` of the API as YAML"),
    template_files.WRITE,
    YES,
    FORMAT,
    examples=("move shop db database --write shop.yaml", "move shop data/vol vol", "move shop db archive:db"),
)
def move(arguments: argparse.Namespace, host: Host) -> int:
    """Show the plan of a move, ask, and move."""
    need_consent(arguments, "move changes a stack")
    asked = _asked(arguments)
    if arguments.write is not None:
        load_file(arguments.write)
    with connect(arguments, host) as session:
        client, stack = session.client, session.client.find(arguments.stack)
        stored = template_files.stored(client, stack)
        plan = client.plan(stack, "move", asked)
        if arguments.format == "text":
            for one in objects(plan, "resources"):
                shown = f"{plans.path_of(one)} {text(one.get('cause'))}"
                render.line(f"> {shown}  ({text(one.get('resource_type'))})", "yellow")
            for warning in as_texts(plan.get("breaks")):
                render.line(f"! {warning}", "red")
            if plan.get("after"):
                print("The next update then does:")
                plans.draw(objects(plan, "after"))
            tell_facts(host, client, stack, plan)
        agree(arguments, "Move them?")
        body: JsonMap = {**asked, "plan_digest": text(plan.get("digest"))}
        change(arguments, session, "POST", f"{stack.path}/actions", {"move": body})
    moved = asked["moved"]
    print(dump({"moved": moved}) if arguments.format == "json" else f"{stack.name}: {len(as_maps(moved))} moved")
    if arguments.write is not None:
        template_files.write(arguments.write, stored, plan)
    return 0


def _asked(arguments: argparse.Namespace) -> JsonMap:
    """Return the body of the request. Raises Misuse."""
    if arguments.from_file is not None:
        if arguments.places:
            raise Misuse("Give either FROM TO or --from-file.")
        given = load_file(arguments.from_file, "Environment").data
        return as_map(given.get("move", given))
    if len(arguments.places) != 2:
        raise Misuse("Give the path of a resource and the new one: heatlite move STACK FROM TO.")
    old, new = arguments.places
    other, colon, path = new.partition(":")
    moved: list[Json] = [{"from": old, "to": path if colon else new}]
    return {"moved": moved, **({"to_stack": other} if colon else {})}
