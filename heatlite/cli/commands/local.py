"""Commands that are about this installation: serve, api, worker, services, db, fsck, keys, types, schema, env …"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import indent

from heatlite.cli.client import Object, an_object, objects, part, text
from heatlite.cli.errors import CommandError
from heatlite.cli.output import render
from heatlite.cli.session import Host, address, connect, settings
from heatlite.core.config import Settings
from heatlite.core.json import Json

SERVICE_COLUMNS = ("engine_id", "host", "status", "updated_at", "running", "actions")

FSCK_COLUMNS = ("entity", "id", "detail", "rule")

MOST_NAMED = 10
"""Rows that are named when no key opens them."""

CLOUDS = Path("clouds.yaml")
CLOUD = "heatlite"
OURS = "# Written by `heatlite clouds`, which may overwrite it."

_MISLEADING = ("OS_AUTH_URL", "OS_PASSWORD", "OS_PROJECT_ID", "OS_PROJECT_NAME", "OS_USERNAME")
"""Any of these in the environment breaks `auth_type: none`, even where a cloud is named."""


def serve(arguments: argparse.Namespace, host: Host) -> int:
    """Be the server, until interrupted."""
    host.serve(settings(arguments))
    return 0


def api(arguments: argparse.Namespace, host: Host) -> int:
    """Be the API of workers in other processes, until interrupted."""
    host.serve_api(settings(arguments))
    return 0


def worker(arguments: argparse.Namespace, host: Host) -> int:
    """Be one of those workers, until interrupted."""
    host.work(settings(arguments))
    return 0


def schema(arguments: argparse.Namespace, host: Host) -> int:  # noqa: ARG001 - every command takes both
    """Print a JSON Schema of templates, for editors."""
    print(json.dumps(host.json_schema(), indent=2))
    return 0


def database(arguments: argparse.Namespace, host: Host) -> int:
    """Bring the database up to date, show its migrations, back it up or restore it."""
    chosen = settings(arguments)
    file: Path | None = arguments.file
    if (file is not None) != (arguments.what in ("backup", "restore")):
        raise CommandError("Either: heatlite db upgrade | status, or: heatlite db backup | restore FILE")
    if file is not None:
        return (_back_up if arguments.what == "backup" else _restore)(arguments, host, chosen, file)
    if arguments.what == "upgrade":
        host.upgrade(chosen)
    steps: list[Object] = [{"migration": name, "applied": done} for name, done in host.migration_status(chosen)]
    render.rows(steps, ("migration", "applied"), arguments.format, arguments.column)
    return 0


def _back_up(arguments: argparse.Namespace, host: Host, chosen: Settings, file: Path) -> int:
    key = host.back_up(chosen, file, arguments.force)
    print(f"Wrote {file}.")
    if key is not None:
        print(f"Wrote {key}, the key of the secrets in it: keep it with the backup, in another place.")
    elif chosen.encryption_keys:
        print("Its secrets are encrypted with the setting encryption_keys: keep these with the backup.")
    return 0


def _restore(arguments: argparse.Namespace, host: Host, chosen: Settings, file: Path) -> int:
    installed, aside, found = host.restore(chosen, file, arguments.force)
    if found:
        render.rows(_rules(found), FSCK_COLUMNS, arguments.format, arguments.column)
    if not installed:
        raise CommandError(
            f"Nothing is restored: heatlite fsck finds these faults in {file}. Add --force to install it as it is."
        )
    print(f"Restored {file} as {chosen.shown_database}.", file=sys.stderr)
    if aside is not None:
        print(f"The database of before is {aside}.", file=sys.stderr)
    return 0


def keys(arguments: argparse.Namespace, host: Host) -> int:
    """Print a new key for secrets, or encrypt those that are stored with the first of the keys."""
    if arguments.what == "new":
        print(host.new_key())
        return 0
    count, unreadable, wiped = host.rotate_keys(settings(arguments))
    print(f"Rows encrypted with the first key: {count}")
    if not wiped:
        print("Something else uses the database: what was there before may still lie in the file. Do it again alone.")
    if unreadable:
        more = "" if len(unreadable) <= MOST_NAMED else f" and {len(unreadable) - MOST_NAMED} more"
        raise CommandError(
            f"No key opens what is encrypted in {', '.join(unreadable[:MOST_NAMED])}{more}. Add the key that it was"
            " written with, behind the others, and try again."
        )
    return 0


def fsck(arguments: argparse.Namespace, host: Host) -> int:
    """Prove that nothing is held, leased or in progress of which nobody takes care; list what is."""
    found = host.inconsistencies(settings(arguments))
    rows = _rules(found)
    if not rows and arguments.format == "table":
        print("Nothing is orphaned.")
    else:
        render.rows(rows, FSCK_COLUMNS, arguments.format, arguments.column)
    return 1 if rows else 0


def _rules(found: Sequence[tuple[str, str, str, str]]) -> list[Object]:
    return [dict(zip(("rule", "entity", "id", "detail"), row, strict=True)) for row in found]


def services(arguments: argparse.Namespace, host: Host) -> int:
    """List the engines, and what each is doing."""
    with connect(arguments, host, reads_only=True) as session:
        found = objects(session.client.request("GET", "/services"), "services")
    if arguments.format != "json":
        found = [{**engine, "actions": _names(engine.get("actions"))} for engine in found]
    render.rows(found, SERVICE_COLUMNS, arguments.format, arguments.column)
    return 0


def _names(actions: Json) -> str:
    """The names of actions in one line."""
    listed = actions if isinstance(actions, list) else []
    return ", ".join(text(action.get("name")) for action in listed if isinstance(action, Mapping))


def environment(arguments: argparse.Namespace, host: Host) -> int:
    """Shell lines that point `openstack` at the server: ``eval "$(heatlite env)"``."""
    stale = sorted(name for name in os.environ if name.startswith("OS_"))
    if stale:
        print(f"unset {' '.join(stale)}")
    chosen = settings(arguments)
    print(f"export OS_AUTH_TYPE={_auth_type(chosen)}")
    print(f"export OS_ENDPOINT={shlex.quote(''.join(address(arguments, host)))}")
    if chosen.token is not None:
        print(f"export OS_TOKEN={shlex.quote(chosen.token)}")
    elif chosen.username is not None:
        print(f"export OS_USERNAME={shlex.quote(chosen.username)}")
        if chosen.password is None:
            print(f"read -rsp {shlex.quote(f'Password of {chosen.username}: ')} OS_PASSWORD && export OS_PASSWORD")
        else:
            print(f"export OS_PASSWORD={shlex.quote(chosen.password)}")
    return 0


def _auth_type(chosen: Settings) -> str:
    """How `openstack` has to prove who it is, going by what the user has."""
    return "admin_token" if chosen.token is not None else "none" if chosen.username is None else "http_basic"


def clouds(arguments: argparse.Namespace, host: Host) -> int:
    """Write ./clouds.yaml with the cloud `heatlite`."""
    try:
        if not arguments.force and CLOUDS.exists() and not CLOUDS.read_text("utf-8").startswith(OURS):
            raise CommandError(f"{CLOUDS} exists and is not ours; --force overwrites it.")
        endpoint = "".join(address(arguments, host))
        chosen = settings(arguments)
        secret = {"token": chosen.token} if chosen.token else {"username": chosen.username, "password": chosen.password}
        auth = {"endpoint": endpoint, **{key: value for key, value in secret.items() if value is not None}}
        if len(auth) > 1:
            CLOUDS.touch(0o600)
            CLOUDS.chmod(0o600)
        CLOUDS.write_text(
            f"{OURS}\n"
            "clouds:\n"
            f"  {CLOUD}:\n"
            f"    auth_type: {_auth_type(chosen)}\n"
            "    auth:\n"
            + "".join(f"      {key}: {json.dumps(value)}\n" for key, value in auth.items()),
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
