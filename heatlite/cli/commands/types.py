"""Commands on resource types: types, schema."""

import argparse
from collections.abc import Mapping
from textwrap import indent

from heatlite.cli.arguments import LISTING, CommandGroup, argument
from heatlite.cli.client import Object, objects, text
from heatlite.cli.errors import Misuse
from heatlite.cli.output import render
from heatlite.cli.session import Host, connect
from heatlite.core.json import Json, pretty

commands = CommandGroup()


def _yes(value: Json) -> str:
    return "yes" if value else ""


def _draw_type(found: Object) -> None:
    print(text(found.get("resource_type")))
    if found.get("description"):
        print(indent(text(found.get("description")), "  "))
    given = found.get("properties")
    properties: list[Object] = [
        {
            "property": name,
            "type": schema.get("type"),
            "required": _yes(schema.get("required")),
            "update": "in place" if schema.get("update_allowed") else "replaces",
            "default": schema.get("default"),
            "description": schema.get("description"),
        }
        for name, schema in (given.items() if isinstance(given, Mapping) else ())
        if isinstance(schema, Mapping)
    ]
    if properties:
        print()
        render.rows(properties, tuple(properties[0]), "table", ())
    given = found.get("attributes")
    attributes: list[Object] = [
        {"attribute": name, "description": schema.get("description")}
        for name, schema in (given.items() if isinstance(given, Mapping) else ())
        if isinstance(schema, Mapping)
    ]
    if attributes:
        print()
        render.rows(attributes, ("attribute", "description"), "table", ())


@commands.command(
    "types",
    "list the resource types; `types show TYPE` explains one",
    *LISTING,
    argument("what", nargs="*", metavar="show TYPE", help="explain one type"),
    examples=("types", "types show OS::Nova::Server"),
)
def types(arguments: argparse.Namespace, host: Host) -> int:
    """List the resource types, or show one with its properties and attributes."""
    words: list[str] = [] if arguments.what == ["list"] else arguments.what
    if words and (words[0] != "show" or len(words) != 2):
        raise Misuse("Either: heatlite types list, or: heatlite types show TYPE")
    with connect(arguments, host, reads_only=True) as session:
        if words:
            found = session.client.resource_type(words[1])
            if arguments.format == "table" and not arguments.column:
                _draw_type(found)
            else:
                render.one(found, arguments.format, arguments.column)
            return 0
        described = {"with_description": "True"}
        listed = objects(session.client.request("GET", "/resource_types", query=described), "resource_types")
    if arguments.format == "table":
        listed = [{**item, "description": text(item.get("description")).partition("\n")[0]} for item in listed]
    render.listing(listed, ("resource_type", "description"), arguments, "resource types")
    return 0


@commands.command("schema", "print a JSON Schema of templates, for editors", server=False, examples=("schema",))
def schema(arguments: argparse.Namespace, host: Host) -> int:  # noqa: ARG001 - signature of commands
    print(pretty(host.json_schema()))
    return 0
