"""The command that lets a stack end by itself."""

import argparse
import sys

from heatlite.cli.arguments import STACK, CommandGroup, argument
from heatlite.cli.client import Client, Stack, an_object, text
from heatlite.cli.commands.maintenance import moment
from heatlite.cli.session import Host, connect
from heatlite.core.clock import Clock
from heatlite.core.json import JsonMap

NEVER = "never"

commands = CommandGroup()


@commands.command(
    "expire",
    "let a stack be deleted or suspended at a time, with warnings before",
    STACK,
    argument("time", metavar="TIME", help="2026-11-21T18:00:00Z, +30m, +2h, +7d; never: no more"),
    argument("--then", choices=("delete", "suspend"), help="what to do then (default: as before, else delete)"),
    examples=("expire web +7d", "expire web +12h --then suspend", "expire web never"),
)
def expire(arguments: argparse.Namespace, host: Host) -> int:
    """Set, extend or remove the expiry of a stack."""
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        if arguments.time == NEVER:
            session.client.request("DELETE", f"{stack.path}/expiry")
            print(f"{stack.name}: does not expire")
            return 0
        print(_put(session.client, stack, arguments.time, arguments.then))
    return 0


def _put(client: Client, stack: Stack, given: str, then: str | None = None) -> str:
    """Set or extend the expiry of a stack. Returns a sentence on it.

    `then`: None leaves what is to be done.
    """
    before = stack.fields.get("expiry")
    kept = before if isinstance(before, dict) else {}
    body: JsonMap = {key: kept[key] for key in ("then", "warn_before") if key in kept}
    body["expires_at"] = moment(given, Clock(), "an expiry")
    if then is not None:
        body["then"] = then
    found = an_object(an_object(client.request("PUT", f"{stack.path}/expiry", body)), "expiry")
    return f"{stack.name}: {text(found.get('then'))} at {text(found.get('expires_at'))}"


def _expires(arguments: argparse.Namespace, client: Client, stack: Stack) -> None:
    """Let a stack of `up` expire."""
    if arguments.expires is not None:
        print(_put(client, stack, arguments.expires), file=sys.stderr)


commands.option("up", argument("--expires", metavar="TIME", help="let the stack end then: as `expire`"), _expires)
