"""The command `audit`: who changed what, and what was refused."""

import argparse

from heatlite.cli.arguments import LIMIT, LISTING, WATCH, CommandGroup, argument, filters, only
from heatlite.cli.commands.actions import matching, pages, print_page
from heatlite.cli.output import render
from heatlite.cli.session import Host, connect

COLUMNS = (
    "time", "user", "operation", "stack_name", "resource_name", "target", "outcome", "reason", "address", "times",
    "status", "request_id", "plan_digest", "action_id", "approval_id",
)  # fmt: skip

commands = CommandGroup()


@commands.command(
    "audit",
    "list the requests that changed something, and the refused ones, newest first",
    *LISTING,
    only("--user", "USER", "of this user (repeatable)"),
    only("--operation", "OPERATION", "for this operation, such as stacks:delete (repeatable)"),
    only("--outcome", "OUTCOME", "with this outcome: done, refused or failed (repeatable)"),
    only("--stack", "STACK", "on this stack (repeatable)"),
    only("--address", "ADDRESS", "from this address (repeatable)"),
    argument("--since", metavar="TIME", help="only those from this time on: 2026-11-22T12:00:00Z"),
    argument("--until", metavar="TIME", help="only those before this time"),
    LIMIT,
    WATCH,
    examples=("audit --stack web", "audit --outcome refused --since 2026-11-22T12:00:00Z"),
)
def audit(arguments: argparse.Namespace, host: Host) -> int:
    """List the audit log of the project."""
    query = filters(arguments, "user", "operation", "outcome", "stack", "address")
    query |= {name: str(getattr(arguments, name)) for name in ("since", "until") if getattr(arguments, name)}
    with connect(arguments, host, reads_only=True) as session:
        for _ in render.watching(arguments.watch):
            found, are_more = pages(session.client, "/audit", "audit", {**query}, arguments.limit)
            print_page(found, are_more, COLUMNS, arguments, matching("audited requests", query))
    return 0
