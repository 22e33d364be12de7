"""Commands on health: unhealthy resources, sources of reports, intake tokens."""

import argparse
from pathlib import Path

from heatlite.cli.arguments import LISTING, STACK, YES, CommandGroup, argument
from heatlite.cli.client import an_object, objects, part, text
from heatlite.cli.commands.maintenance import coming
from heatlite.cli.files import load_file
from heatlite.cli.output import render
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, connect
from heatlite.core.clock import Clock
from heatlite.core.json import JsonMap
from heatlite.features.healing.commands.healing import FILE, SCOPE_COLUMNS, overview
from heatlite.features.healing.terms import STOP_BRAKES

INCIDENT_COLUMNS = ("path", "state", "reason", "due", "also", "source", "summary", "id")
TOKEN_COLUMNS = ("id", "name", "source", "created_by", "created_at", "expires_at", "last_used_at")
SOURCE = argument("source", metavar="SOURCE", help="alertmanager, grafana, aodh, generic, or one of your own")

sources = CommandGroup("source", "show and set sources of reports")
tokens = CommandGroup("token", "create, list and delete intake tokens")
health = CommandGroup("health", "show what is unhealthy; sources of reports and their tokens", (sources, tokens))
commands = CommandGroup(subgroups=(health,))


@health.command(
    "show",
    "show the scopes and open incidents of a stack, and why nothing happens",
    *LISTING,
    STACK,
    argument("--check", action="store_true", help="exit with 1 if a stop brake holds an incident"),
    examples=("health show web", "health show web --check"),
)
def show(arguments: argparse.Namespace, host: Host) -> int:
    """Show the health of a stack."""
    with connect(arguments, host, reads_only=True) as session:
        found = overview(session.client, arguments.stack)
    incidents = objects(found, "incidents")
    if arguments.format in ("text", "table", None):
        render.listing(objects(found, "scopes"), SCOPE_COLUMNS, arguments, f"scopes of stack {arguments.stack}")
        print()
    render.listing(incidents, INCIDENT_COLUMNS, arguments, f"open incidents of stack {arguments.stack}")
    return int(arguments.check and any(one.get("reason") in STOP_BRAKES for one in incidents))


@sources.command(
    "show", "show a source with its document and its last results", *LISTING, SOURCE,
    examples=("health source show alertmanager",),
)
def show_source(arguments: argparse.Namespace, host: Host) -> int:
    with connect(arguments, host, reads_only=True) as session:
        found = an_object(session.client.request("GET", f"/health/{part(arguments.source)}"), "source")
    render.one(found, arguments.format, arguments.column)
    return 0


@sources.command(
    "put", "replace the document of a source", SOURCE, FILE,
    examples=("health source put alertmanager source.yaml",),
)
def put_source(arguments: argparse.Namespace, host: Host) -> int:
    document = load_file(Path(arguments.file), "Source").data
    with connect(arguments, host) as session:
        session.client.request("PUT", f"/health/{part(arguments.source)}/config", document)
    print(f"{arguments.source}: configured")
    return 0


@sources.command(
    "acknowledge", "end the storm of a source; its incidents need a new report", SOURCE,
    examples=("health source acknowledge alertmanager",),
)
def acknowledge_source(arguments: argparse.Namespace, host: Host) -> int:
    with connect(arguments, host) as session:
        session.client.request("POST", f"/health/{part(arguments.source)}/acknowledge")
    print(f"{arguments.source}: acknowledged; its incidents need a new report")
    return 0


@tokens.command(
    "create",
    "create an intake token, which may only report; it is shown once",
    argument("name", metavar="NAME", help="name, for lists"),
    argument("--source", metavar="SOURCE", help="the only source that it opens (default: all)"),
    argument("--expires-at", metavar="TIME", help="2027-01-01T00:00:00Z, +30d (default: never)"),
    examples=("health token create rack7 --source alertmanager --expires-at 2027-01-01T00:00:00Z",),
)
def create_token(arguments: argparse.Namespace, host: Host) -> int:
    """Create an intake token and print it."""
    ends = None if arguments.expires_at is None else coming(arguments.expires_at, Clock(), "--expires-at")
    body: JsonMap = {"name": arguments.name, "source": arguments.source, "expires_at": ends}
    with connect(arguments, host) as session:
        print(text(an_object(session.client.request("POST", "/health_tokens", body), "health_token").get("token")))
    return 0


@tokens.command("list", "list the intake tokens of the project", *LISTING, examples=("health token list",))
def list_tokens(arguments: argparse.Namespace, host: Host) -> int:
    with connect(arguments, host, reads_only=True) as session:
        found = objects(session.client.request("GET", "/health_tokens"), "health_tokens")
    render.listing(found, TOKEN_COLUMNS, arguments, "intake tokens")
    return 0


@tokens.command(
    "delete", "delete an intake token", argument("token", metavar="ID", help="id"), YES,
    examples=("health token delete 1f0c6f2e-…",),
)
def delete_token(arguments: argparse.Namespace, host: Host) -> int:
    need_consent(arguments, "delete ends the access of a monitoring system")
    agree(arguments, f"Delete intake token {arguments.token}?")
    with connect(arguments, host) as session:
        session.client.request("DELETE", f"/health_tokens/{part(arguments.token)}")
    print(f"{arguments.token}: deleted")
    return 0
