"""Commands that are about this machine: serve, db, types, schema, env, clouds."""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from heatlite.cli import render
from heatlite.cli.client import Object, an_object, objects, part, text
from heatlite.cli.errors import CommandError
from heatlite.cli.session import Host, address, connect, settings
from heatlite.core.json import Json

CLOUDS = Path("clouds.yaml")
CLOUD = "heatlite"
OURS = "# Written by `heatlite clouds`, which may overwrite it."

_MISLEADING = ("OS_AUTH_URL", "OS_PASSWORD", "OS_PROJECT_ID", "OS_PROJECT_NAME", "OS_USERNAME")
"""Any of these in the environment breaks `auth_type: none`, even where a cloud is named."""


def serve(arguments: argparse.Namespace, host: Host) -> int:
    """Be the server, until interrupted."""
    host.serve(settings(arguments))
    return 0


def schema(arguments: argparse.Namespace, host: Host) -> int:  # noqa: ARG001 - every command takes both
    """Print a JSON Schema of templates, for editors."""
    print(json.dumps(host.json_schema(), indent=2))
    return 0


def database(arguments: argparse.Namespace, host: Host) -> int:
    """Bring the database up to date, or say how it stands."""
    chosen = settings(arguments)
    if arguments.what == "upgrade":
        host.upgrade(chosen)
    steps: list[Object] = [{"migration": name, "applied": done} for name, done in host.migration_status(chosen)]
    render.rows(steps, ("migration", "applied"), arguments.format, arguments.column)
    return 0


def environment(arguments: argparse.Namespace, host: Host) -> int:
    """Shell lines that point `openstack` at the server: ``eval "$(heatlite env)"``."""
    stale = sorted(name for name in os.environ if name.startswith("OS_"))
    if stale:
        print(f"unset {' '.join(stale)}")
    print("export OS_AUTH_TYPE=none")
    print(f"export OS_ENDPOINT={shlex.quote(''.join(address(arguments, host)))}")
    return 0


def clouds(arguments: argparse.Namespace, host: Host) -> int:
    """Write ./clouds.yaml with the cloud `heatlite`."""
    try:
        if not arguments.force and CLOUDS.exists() and not CLOUDS.read_text("utf-8").startswith(OURS):
            raise CommandError(f"{CLOUDS} exists and is not ours; --force overwrites it.")
        endpoint = "".join(address(arguments, host))
        CLOUDS.write_text(
            f"{OURS}\n"
            "clouds:\n"
            f"  {CLOUD}:\n"
            "    auth_type: none\n"
            "    auth:\n"
            f"      endpoint: {render.cell([endpoint])[1:-1]}\n",
            "utf-8",
        )
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{CLOUDS}: {error}") from None
    print(f"Wrote {CLOUDS}. Use it with: export OS_CLOUD={CLOUD}")
    misleading = [name for name in _MISLEADING if os.environ.get(name)]
    if misleading:
        print(f"These get in its way, unset them first: unset {' '.join(misleading)}", file=sys.stderr)
    return 0


def _yes(value: Json) -> str:
    return "yes" if value else ""


def _draw_type(found: Object) -> None:
    print(text(found.get("resource_type")))
    if found.get("description"):
        print(f"  {text(found.get('description'))}")
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


def types(arguments: argparse.Namespace, host: Host) -> int:
    """List the resource types, or show one with its properties and attributes."""
    query = {"with_description": "True"}
    words: list[str] = arguments.what
    if words and (words[0] != "show" or len(words) != 2):
        raise CommandError("Either: heatlite types, or: heatlite types show TYPE")
    with connect(arguments, host, reads_only=True) as session:
        if words:
            answer = session.client.request("GET", f"/resource_types/{part(words[1])}", query=query)
            found = an_object(answer)
            if arguments.format == "table" and not arguments.column:
                _draw_type(found)
            else:
                render.one(found, arguments.format, arguments.column)
            return 0
        listed = objects(session.client.request("GET", "/resource_types", query=query), "resource_types")
    if arguments.format == "table":
        listed = [{**item, "description": text(item.get("description")).partition("\n")[0]} for item in listed]
    render.rows(listed, ("resource_type", "description"), arguments.format, arguments.column)
    return 0
