"""Commands on the change policies of a project and of its stacks."""

import argparse
from pathlib import Path

from heatlite.cli.arguments import LISTING, YES, CommandGroup, argument
from heatlite.cli.client import Client, Object, an_object, text
from heatlite.cli.commands.groups import span
from heatlite.cli.files import load_file
from heatlite.cli.output import render
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, connect
from heatlite.core.json import Json
from heatlite.features.change_policy.document import of_yaml

COLUMNS = ("key", "value", "from")
FILE = argument("file", metavar="FILE", help="YAML or JSON")
STACK = argument("stack", metavar="STACK", nargs="?", help="name or id (default: the policy of the project)")

policies = CommandGroup("change-policy", "show and set what changes of stacks need")
commands = CommandGroup(subgroups=(policies,))


@policies.command(
    "show", "show the change policy that counts for a project or a stack", *LISTING, STACK,
    examples=("change-policy show", "change-policy show web"),
)
def show(arguments: argparse.Namespace, host: Host) -> int:
    """Show what counts, and where it comes from."""
    with connect(arguments, host, reads_only=True) as session:
        found = an_object(session.client.request("GET", _path(session.client, arguments.stack)))
    rows: list[Object] = [{"key": key, **an_object(one)} for key, one in an_object(found, "effective").items()]
    render.listing(rows, COLUMNS, arguments, "keys")
    return 0


@policies.command(
    "set", "replace the change policy of a project or a stack", FILE, STACK,
    examples=("change-policy set policy.yaml", "change-policy set policy.yaml web"),
)
def set_(arguments: argparse.Namespace, host: Host) -> int:
    """Set a policy from a file."""
    document = of_yaml(_with_seconds(load_file(Path(arguments.file), "Change policy").data))
    with connect(arguments, host) as session:
        answer = session.client.request("PUT", _path(session.client, arguments.stack), document)
    print(f"{_whose(arguments)}: change policy version {text(an_object(answer).get('version'))}")
    return 0


@policies.command(
    "off", "remove the change policy of a project or a stack", STACK, YES,
    examples=("change-policy off", "change-policy off web"),
)
def off(arguments: argparse.Namespace, host: Host) -> int:
    """Remove a policy."""
    need_consent(arguments, "off removes the change policy")
    agree(arguments, f"Remove the change policy of {_whose(arguments)}?")
    with connect(arguments, host) as session:
        session.client.request("DELETE", _path(session.client, arguments.stack))
    print(f"{_whose(arguments)}: no change policy")
    return 0


def _path(client: Client, stack: str | None) -> str:
    return "/change_policy" if stack is None else f"{client.find(stack).path}/change_policy"


def _whose(arguments: argparse.Namespace) -> str:
    return arguments.stack or "project"


def _with_seconds(document: Json) -> Json:
    """Return a document with its spans (``7d``) in seconds.

    The server refuses what is none.
    """
    if not isinstance(document, dict):
        return document
    found = {key: _seconds(value) if key in ("approval_ttl", "bake") else value for key, value in document.items()}
    return {**found, "guard": _with_seconds(found["guard"])} if "guard" in found else found


def _seconds(value: Json) -> Json:
    try:
        return span(value) if isinstance(value, str) else value
    except argparse.ArgumentTypeError:
        return value
