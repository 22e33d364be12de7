"""Commands on health, on protection and on the maintenance lock."""

import argparse
import re
from collections.abc import Callable
from datetime import timedelta

from heatlite.cli.client import Object, Stack, an_object, objects, part, text
from heatlite.cli.errors import CommandError
from heatlite.cli.output import progress, render
from heatlite.cli.session import Host, Session, connect
from heatlite.core.clock import Clock, from_text, to_text
from heatlite.core.json import JsonMap

SUPPRESSED_COLUMNS = ("id", "time", "count", "stack", "request", "target", "requested_by", "effect")
MORE_COLUMNS = (*SUPPRESSED_COLUMNS, "last_time", "detail")
"""Beside those that are shown, what `--column` can ask for."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment(given: str, clock: Clock, flag: str = "--expires") -> str:
    """``+2h``, ``30m``, ``1d`` from now, or an ISO 8601 time, as UTC text. Raises CommandError."""
    relative = re.fullmatch(r"\+?(\d{1,6})([smhd])", given)
    try:
        if relative:
            ahead = timedelta(**{_UNITS[relative[2]]: int(relative[1])})
            return str(to_text(clock.now() + ahead.total_seconds()))
        return str(to_text(from_text(given)))
    except (ValueError, OverflowError):
        raise CommandError(
            f"{flag} {given}: a time is given as 2026-11-21T18:00:00Z, or from now as +30m, +2h, +1d."
        ) from None


def _mark(arguments: argparse.Namespace, host: Host, unhealthy: bool) -> int:
    body: JsonMap = {"mark_unhealthy": unhealthy}
    if arguments.reason is not None:
        body["resource_status_reason"] = arguments.reason
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        path = f"{stack.path}/resources/{part(arguments.resource)}"
        session.client.request("PATCH", path, body)
        after = an_object(session.client.request("GET", path), "resource")
    name, status = text(after.get("resource_name")), text(after.get("resource_status"))
    print(f"{stack.name}.{name}: {status}  {text(after.get('resource_status_reason'))}".rstrip())
    return 0


def mark_unhealthy(arguments: argparse.Namespace, host: Host) -> int:
    """Say that a resource is broken; the next update replaces it."""
    return _mark(arguments, host, unhealthy=True)


def mark_healthy(arguments: argparse.Namespace, host: Host) -> int:
    """Take the mark back."""
    return _mark(arguments, host, unhealthy=False)


def rotate_keys(arguments: argparse.Namespace, host: Host) -> int:
    """Draw new keys for the signed URLs and tokens of a stack, and of those nested in it."""
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        session.client.request("POST", f"{stack.path}/actions", {"rotate_keys": None})
    print(f"{stack.name}: new keys. Signed URLs and tokens of before prove nothing any more.")
    return 0


def _protection(arguments: argparse.Namespace, host: Host, action: str) -> int:
    value: JsonMap = {}
    if arguments.resource is not None:
        value["resource"] = arguments.resource
    if arguments.reason is not None:
        value["reason"] = arguments.reason
    with connect(arguments, host) as session:
        client = session.client
        stack = client.find(arguments.stack)
        client.action(stack, action, value)
        where, found = stack.name, client.find(arguments.stack).fields
        if arguments.resource is not None:
            where += f".{arguments.resource}"
            answer = client.request("GET", f"{stack.path}/resources/{part(arguments.resource)}")
            found = an_object(answer, "resource")
    held = found.get("protection")
    if held is None:
        print(f"{where}: not protected")
    else:
        now = an_object(held)
        reason = f": {text(now.get('reason'))}" if now.get("reason") else ""
        print(f"{where}: protected by {text(now.get('protected_by'))} since {text(now.get('protected_at'))}{reason}")
    return 0


def protect(arguments: argparse.Namespace, host: Host) -> int:
    """Protect a stack from deletion, or a resource from deletion and replacement."""
    return _protection(arguments, host, "protect")


def unprotect(arguments: argparse.Namespace, host: Host) -> int:
    """Lift that."""
    return _protection(arguments, host, "unprotect")


def _start(session: Session, stack: Stack, request: Callable[[], object]) -> int:
    """Make a request that may start something on the stack, and see it through."""
    after = session.client.last_event(stack)
    request()
    done = progress.wait(session, stack, after, f"heatlite events -f {stack.name}")
    return 1 if done is not None and done.failed else 0


def _seconds(given: str) -> float:
    """``30s``, ``10m``, ``1h``, ``1d``. Raises CommandError."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", given)
    if found is None:
        raise CommandError(f"--every {given}: a pause is given as 30s, 10m, 1h or 1d.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])}).total_seconds()


def check(arguments: argparse.Namespace, host: Host) -> int:
    """Look whether every object is there and well: now, or at a time, and with --every again and again."""
    value: JsonMap = {}
    if arguments.every is not None:
        value["interval"] = _seconds(arguments.every)
    if arguments.at is not None:
        value["not_before"] = moment(arguments.at, Clock(), "--at")
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        if arguments.at is None:
            return _start(session, stack, lambda: session.client.action(stack, "check", value or None))
        session.client.action(stack, "check", value)
    print(f"{stack.name}: to be checked at {value['not_before']}")
    return 0


def lock(arguments: argparse.Namespace, host: Host) -> int:
    """Lock a stack for maintenance, or change its lock."""
    value: JsonMap = {"level": arguments.level}
    if arguments.reason is not None:
        value["reason"] = arguments.reason
    if arguments.expires is not None:
        value["expires_at"] = moment(arguments.expires, Clock())
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        return _start(session, stack, lambda: session.client.action(stack, "lock", value))


def unlock(arguments: argparse.Namespace, host: Host) -> int:
    """Lift the maintenance lock."""
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        return _start(session, stack, lambda: session.client.action(stack, "unlock"))


def _row(entry: Object) -> Object:
    """An entry with its stack and its effect as texts."""
    effect = an_object(entry.get("effect"))
    shown = ", ".join(f"{key}: {text(value)}" for key, value in effect.items() if value not in ([], {}, None))
    shown += "" if entry.get("replayable") else " (too large to be replayed)"
    return {**entry, "stack": an_object(entry.get("stack")).get("name"), "effect": shown}


def lock_status(arguments: argparse.Namespace, host: Host) -> int:
    """The lock and what it has refused; replay or drop one of those."""
    reads_only = arguments.replay is None and arguments.drop is None
    with connect(arguments, host, reads_only) as session:
        client = session.client
        stack = client.find(arguments.stack)
        if arguments.replay is not None:
            path = f"{stack.path}/lock/suppressed/{part(arguments.replay)}/replay"
            return _start(session, stack, lambda: client.request("POST", path))
        if arguments.drop is not None:
            client.request("DELETE", f"{stack.path}/lock/suppressed/{part(arguments.drop)}")
            print(f"Dropped {arguments.drop}.")
            return 0
        found = an_object(client.request("GET", f"{stack.path}/lock"))
    if arguments.format in ("json", "yaml"):
        render.one(found, arguments.format, arguments.column)
        return 0
    held = found.get("lock")
    columns = MORE_COLUMNS if arguments.column else SUPPRESSED_COLUMNS
    suppressed: list[Object] = [_row(entry) for entry in objects(found, "suppressed")]
    if arguments.format == "value":
        render.rows(suppressed, columns, "value", arguments.column)
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
            print(f"\nRefused or ignored {when} (--replay ID does it now, --drop ID forgets it):")
            render.rows(listed, columns, "table", arguments.column)
    dropped = found.get("dropped")
    if dropped is not None:
        lost = an_object(dropped)
        count, last = text(lost.get("count")), text(lost.get("last_time"))
        print(f"\nThe list was full: {count} older entries were dropped to make room, the last one at {last}.")
    return 0
