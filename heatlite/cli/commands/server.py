"""Commands on servers: serve, api, worker, services."""

import argparse
from collections.abc import Mapping

from heatlite.cli.arguments import CLOUD, LISTING, CommandGroup, argument, number
from heatlite.cli.client import objects, text
from heatlite.cli.output import render
from heatlite.cli.session import Host, connect, settings
from heatlite.core.json import Json

COLUMNS = ("engine_id", "host", "status", "updated_at", "running", "actions")

HOST = argument("--host", help="address to listen on (default: 127.0.0.1)")
PORT = argument("--port", type=number, help="port to listen on (default: 8004)")
PROCESSES = argument(
    "--processes",
    type=number,
    metavar="N",
    help="processes that answer requests, beside the engine; 0: one for all (default: by processors)",
)

commands = CommandGroup()


@commands.command(
    "serve", "run the server", HOST, PORT, PROCESSES, CLOUD, server=False,
    examples=("serve", "serve --port 8004 --cloud simulated"),
)
def serve(arguments: argparse.Namespace, host: Host) -> int:
    """Run the server until interrupted."""
    host.serve(settings(arguments, host))
    return 0


@commands.command(
    "api", "run the API without an engine, for any number of workers", HOST, PORT, CLOUD, server=False,
    examples=("api --host 0.0.0.0 --config /etc/heatlite/heatlite.toml",),
)
def api(arguments: argparse.Namespace, host: Host) -> int:
    """Run the API without an engine until interrupted."""
    host.serve_api(settings(arguments, host))
    return 0


@commands.command(
    "worker", "run an engine without the API", CLOUD, server=False,
    examples=("worker --config /etc/heatlite/heatlite.toml",),
)
def worker(arguments: argparse.Namespace, host: Host) -> int:
    """Run an engine without the API until interrupted."""
    host.work(settings(arguments, host))
    return 0


@commands.command("services", "list the engines and their running actions", *LISTING, examples=("services",))
def services(arguments: argparse.Namespace, host: Host) -> int:
    with connect(arguments, host, reads_only=True) as session:
        found = objects(session.client.request("GET", "/services"), "services")
    if arguments.format != "json":
        found = [{**engine, "actions": _names(engine.get("actions"))} for engine in found]
    render.listing(found, COLUMNS, arguments, "engines")
    return 0


def _names(actions: Json) -> str:
    """Return the names of actions in one line."""
    listed = actions if isinstance(actions, list) else []
    return ", ".join(text(action.get("name")) for action in listed if isinstance(action, Mapping))
