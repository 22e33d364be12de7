"""Commands on health, protection, keys and the maintenance lock."""

import argparse
import re
import sys
from datetime import timedelta

from heatlite.cli.arguments import EXPIRES, FOLLOWED, LISTING, REASON, STACK, YES, CommandGroup, argument
from heatlite.cli.client import Object, Stack, an_object, objects, part, text
from heatlite.cli.commands.following import await_begin, follow_request, may_leave, start
from heatlite.cli.errors import Misuse
from heatlite.cli.output import render
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, Session, connect
from heatlite.core.clock import Clock, from_text, to_text
from heatlite.core.json import JsonMap
from heatlite.core.wire.base import columns
from heatlite.core.wire.locks import SuppressedRequest

SUPPRESSED = columns(SuppressedRequest)
SHOWN = SUPPRESSED[:8]
"""Columns without `--column`, which can choose all."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

RESOURCE = argument("resource", metavar="RESOURCE", help="name, physical id, or path of a member: web/2")
PROTECTED = argument(
    "resource", metavar="RESOURCE", nargs="?", help="name, or path of a member: web/2 (default: the stack itself)"
)

commands = CommandGroup()


def moment(given: str, clock: Clock, flag: str = "--expires") -> str:
    """Convert an ISO 8601 time, or ``+2h``, ``30m``, ``1d`` from now, to UTC text.

    Raises Misuse.
    """
    relative = re.fullmatch(r"\+?([0-9]{1,6})([smhd])", given)
    try:
        if relative:
            ahead = timedelta(**{_UNITS[relative[2]]: int(relative[1])})
            return str(to_text(clock.now() + ahead.total_seconds()))
        return str(to_text(from_text(given)))
    except (ValueError, OverflowError):
        raise Misuse(
            f"{flag} {given}: a time is given as 2026-11-21T18:00:00Z, or from now as +30m, +2h, +1d."
        ) from None


def coming(given: str, clock: Clock, flag: str) -> str:
    """Convert the expiry of a token to UTC text.

    Raises Misuse for a time that is over, or none.
    """
    found = moment(given, clock, flag)
    if from_text(found) <= clock.now():
        raise Misuse(f"{flag} {given}: {found} is over; a token that ends then admits nobody.")
    return found


def _mark(arguments: argparse.Namespace, host: Host, unhealthy: bool) -> int:
    body: JsonMap = {"mark_unhealthy": unhealthy}
    if arguments.reason is not None:
        body["resource_status_reason"] = arguments.reason
    with connect(arguments, host) as session:
        root = session.client.find(arguments.stack)
        stack, resource = session.client.within(root, arguments.resource)
        path = f"{stack.path}/resources/{part(resource)}"
        session.client.request("PATCH", path, body)
        after = an_object(session.client.request("GET", path), "resource")
    told = f"{text(after.get('resource_status'))}  {text(after.get('resource_status_reason'))}".rstrip()
    print(render.folded(f"{root.name}.{arguments.resource}: {told}", sys.stdout))
    if unhealthy:
        print(f"The next heatlite up replaces it. See: heatlite explain {root.name}", file=sys.stderr)
    return 0


@commands.command(
    "mark-unhealthy", "mark a resource unhealthy: the next update replaces it", STACK, RESOURCE, REASON,
    examples=("mark-unhealthy web member_1 --reason 'disk errors'",),
)
def mark_unhealthy(arguments: argparse.Namespace, host: Host) -> int:
    return _mark(arguments, host, unhealthy=True)


@commands.command(
    "mark-healthy", "remove such a mark", STACK, RESOURCE, REASON,
    examples=("mark-healthy web member_1 --reason repaired",),
)
def mark_healthy(arguments: argparse.Namespace, host: Host) -> int:
    """Remove the mark of a resource."""
    return _mark(arguments, host, unhealthy=False)


@commands.command(
    "rotate-keys", "generate new keys for signed URLs and tokens of a stack", STACK,
    examples=("rotate-keys web",),
)
def rotate_keys(arguments: argparse.Namespace, host: Host) -> int:
    """Generate new keys for signed URLs and tokens of a stack and its nested stacks."""
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        session.client.request("POST", f"{stack.path}/actions", {"rotate_keys": None})
    print(f"{stack.name}: earlier signed URLs and tokens are invalid.")
    return 0


def _protection(arguments: argparse.Namespace, host: Host, action: str) -> int:
    value: JsonMap = {}
    if arguments.reason is not None:
        value["reason"] = arguments.reason
    with connect(arguments, host) as session:
        client = session.client
        stack, resource = client.find(arguments.stack), None
        where = stack.name
        if arguments.resource is not None:
            stack, resource = client.within(stack, arguments.resource)
            value["resource"] = resource
            where += f".{arguments.resource}"
        client.action(stack, action, value)
        found = client.find(stack.id).fields
        if resource is not None:
            answer = client.request("GET", f"{stack.path}/resources/{part(resource)}")
            found = an_object(answer, "resource")
    held = found.get("protection")
    if held is None:
        print(f"{where}: not protected")
    else:
        now = an_object(held)
        reason = f": {text(now.get('reason'))}" if now.get("reason") else ""
        told = f"{where}: protected by {text(now.get('protected_by'))} since {text(now.get('protected_at'))}{reason}"
        print(render.folded(told, sys.stdout))
    return 0


@commands.command(
    "protect",
    "protect a stack from deletion, or a resource from deletion and replacement",
    STACK,
    PROTECTED,
    argument("--reason", help="reason, shown in events and error messages"),
    examples=("protect web --reason production", "protect web database"),
)
def protect(arguments: argparse.Namespace, host: Host) -> int:
    return _protection(arguments, host, "protect")


@commands.command(
    "unprotect", "remove such a protection", STACK, PROTECTED, REASON,
    examples=("unprotect web database",),
)
def unprotect(arguments: argparse.Namespace, host: Host) -> int:
    """Remove the protection of a stack or a resource."""
    return _protection(arguments, host, "unprotect")


def _seconds(given: str) -> float:
    """Convert ``30s``, ``10m``, ``1h``, ``1d`` to seconds. Raises Misuse."""
    found = re.fullmatch(r"([0-9]{1,6})([smhd])", given)
    if found is None:
        raise Misuse(f"--every {given}: a pause is given as 30s, 10m, 1h or 1d.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])}).total_seconds()


@commands.command(
    "check",
    "check that every object exists and is healthy",
    STACK,
    argument("--every", metavar="PAUSE", help="repeat after this pause: 30s, 10m, 1h, 1d"),
    argument("--at", metavar="TIME", help="start time: 2026-11-21T18:00:00Z, +30m, +2h, +1d"),
    argument("--believe-absent", action="store_true", help="mark what is not found, even most objects of a service"),
    *FOLLOWED,
    examples=("check web", "check web --every 10m"),
)
def check(arguments: argparse.Namespace, host: Host) -> int:
    """Check every object now or at a time; with --every, repeatedly."""
    value: JsonMap = {}
    if arguments.every is not None:
        value["interval"] = _seconds(arguments.every)
    if arguments.at is not None:
        value["not_before"] = moment(arguments.at, Clock(), "--at")
    if arguments.believe_absent:
        value["believe_absent"] = True
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        if arguments.at is None:
            again = f"heatlite check {stack.name}"
            return start(arguments, session, stack, {"check": value or None}, again)
        session.client.action(stack, "check", value)
    print(f"{stack.name}: check scheduled at {value['not_before']}")
    return 0


@commands.command(
    "lock",
    "lock a stack for maintenance",
    STACK,
    argument("--level", choices=("all", "stacks"), default="all", help="stacks; or all, their resources too (default)"),
    argument("--reason", help="reason, shown in error messages"),
    argument("--expires", metavar="TIME", help=EXPIRES),
    YES,
    *FOLLOWED,
    aliases=["action-lock"],
    examples=("lock web --reason 'rack 7' --expires +2h", "lock web --level stacks"),
)
def lock(arguments: argparse.Namespace, host: Host) -> int:
    """Lock a stack for maintenance, or change its lock."""
    value: JsonMap = {"level": arguments.level}
    if arguments.reason is not None:
        value["reason"] = arguments.reason
    if arguments.expires is not None:
        value["expires_at"] = moment(arguments.expires, Clock())
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        may_leave(arguments, session)
        if arguments.level == "all" and not arguments.yes:
            _ask_for_lock(arguments, session, stack)
        again = f"heatlite events -f {stack.name}"
        return start(arguments, session, stack, {"lock": value}, again)


def _ask_for_lock(arguments: argparse.Namespace, session: Session, stack: Stack) -> None:
    """Ask before locking all resources of another user's stack.

    Raises CommandError without consent.
    """
    owner = text(stack.fields.get("stack_owner"))
    user = text(an_object(session.client.request("GET", "/build_info")).get("user"))
    if owner and owner != user:
        effect = f"The stack {stack.name} belongs to {owner}"
        need_consent(arguments, effect)
        agree(arguments, f"{effect}. Lock it with all its resources?")


@commands.command(
    "unlock", "remove the maintenance lock", STACK, YES, *FOLLOWED, aliases=["action-unlock"],
    examples=("unlock web",),
)
def unlock(arguments: argparse.Namespace, host: Host) -> int:
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        again = f"heatlite events -f {stack.name}"
        return start(arguments, session, stack, {"unlock": None}, again)


def _row(entry: Object) -> Object:
    """Return an entry with its stack and effect as text."""
    effect = an_object(entry.get("effect"))
    shown = ", ".join(f"{key}: {render.cell(value)}" for key, value in effect.items() if value not in ([], {}, None))
    shown += "" if entry.get("replayable") else " (not kept whole: it cannot be replayed)"
    return {**entry, "stack": an_object(entry.get("stack")).get("name"), "effect": shown}


@commands.command(
    "lock-status",
    "show the lock and the requests that it suppressed",
    STACK,
    *LISTING,
    (
        argument("--replay", metavar="ID", help="repeat a suppressed request"),
        argument("--drop", metavar="ID", help="drop a suppressed request"),
    ),
    examples=("lock-status web", "lock-status web --replay 7"),
)
def lock_status(arguments: argparse.Namespace, host: Host) -> int:
    """Show the lock and the suppressed requests; or replay or drop one of them."""
    reads_only = arguments.replay is None and arguments.drop is None
    with connect(arguments, host, reads_only) as session:
        client = session.client
        stack = client.find(arguments.stack)
        if arguments.replay is not None:
            path = f"{stack.path}/lock/suppressed/{part(arguments.replay)}/replay"
            again = f"heatlite events -f {stack.name}"
            done = follow_request(
                session, stack, lambda: await_begin(arguments, session, client.request("POST", path)), again
            )
            return done.exit_code
        if arguments.drop is not None:
            client.request("DELETE", f"{stack.path}/lock/suppressed/{part(arguments.drop)}")
            print(f"Dropped {arguments.drop}.")
            return 0
        found = an_object(client.request("GET", f"{stack.path}/lock"))
    if arguments.format in ("json", "yaml"):
        render.one(found, arguments.format, arguments.column)
        return 0
    held = found.get("lock")
    chosen = SUPPRESSED if arguments.column else SHOWN
    suppressed: list[Object] = [_row(entry) for entry in objects(found, "suppressed")]
    if arguments.format == "value":
        render.rows(suppressed, chosen, "value", arguments.column)
        return 0
    since = ""
    if held is None:
        print(f"{stack.name} is not locked.")
    else:
        render.one(an_object(held), "table", ())
        since = text(an_object(held).get("locked_at"))
    meanwhile = [entry for entry in suppressed if since and text(entry.get("last_time")) >= since]
    before = [entry for entry in suppressed if entry not in meanwhile]
    for listed, when in ((meanwhile, f"since {since}"), (before, "before that" if since else "while it was locked")):
        if listed:
            heading = f"\nRefused or ignored {when} (--replay ID repeats it, --drop ID removes it):"
            print(render.folded(heading, sys.stdout))
            render.rows(listed, chosen, "table", arguments.column)
    dropped = found.get("dropped")
    if dropped is not None:
        lost = an_object(dropped)
        count, last = text(lost.get("count")), text(lost.get("last_time"))
        print(f"\nThe list was full: {count} older entries were dropped, the last one at {last}.")
    return 0
