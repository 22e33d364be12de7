"""Commands on approvals."""

import argparse

from heatlite.cli.arguments import LIMIT, LISTING, WATCH, YES, CommandGroup, argument, filters, only
from heatlite.cli.client import Object, an_object, objects, part, text
from heatlite.cli.commands.actions import follow_action, matching, pages, print_page
from heatlite.cli.output import plans, render
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, Session, connect
from heatlite.core.json import dump

COLUMNS = (
    "id", "subject", "state", "stack_name", "resource", "because", "requested_by", "requested_at", "expires_at",
    "decided_by", "action_id",
)  # fmt: skip
APPROVAL = argument("approval", metavar="ID", help="id of the approval, or its first characters (4 or more)")
REASON = argument("--reason", default="", help="text for the record")

approvals = CommandGroup("approval", "list, show, approve and reject what waits for a decision")
commands = CommandGroup(subgroups=(approvals,))


@approvals.command(
    "list",
    "list approvals, newest first",
    *LISTING,
    only("--state", "STATE", "in this state (repeatable)"),
    only("--subject", "SUBJECT", "of this subject: update, delete, node_action … (repeatable)"),
    only("--stack", "STACK", "of this stack (repeatable)"),
    only("--requested-by", "USER", "that this user has requested (repeatable)"),
    LIMIT,
    WATCH,
    examples=("approval list --state PENDING", "approval list --stack web --watch"),
)
def list_(arguments: argparse.Namespace, host: Host) -> int:
    """List the approvals of the project, newest first."""
    query = filters(arguments, "state", "subject", "stack", "requested_by")
    with connect(arguments, host, reads_only=True) as session:
        for _ in render.watching(arguments.watch):
            found, are_more = pages(session.client, "/approvals", "approvals", {**query}, arguments.limit)
            print_page(found, are_more, COLUMNS, arguments, matching("approvals", query))
    return 0


@approvals.command(
    "show", "show an approval with its content: what will run, and where", *LISTING, APPROVAL,
    examples=("approval show 1f0c6f2e",),
)
def show(arguments: argparse.Namespace, host: Host) -> int:
    """Show an approval; as a table with its content drawn."""
    with connect(arguments, host, reads_only=True) as session:
        found = _find(session, arguments.approval)
    content = an_object(found, "content")
    if arguments.format != "table":
        render.one(found, arguments.format, arguments.column)
        return 0
    render.one({key: value for key, value in found.items() if key != "content"}, arguments.format, arguments.column)
    draw(content)
    return 0


@approvals.command(
    "approve", "show the content of an approval, ask, and approve it", APPROVAL, REASON, YES,
    examples=("approval approve 1f0c6f2e", "approval approve 1f0c6f2e -y --reason 'as agreed'"),
)
def approve(arguments: argparse.Namespace, host: Host) -> int:
    """Approve, after a look at the content. Without a server, carry it out."""
    need_consent(arguments, "approve may begin an operation")
    with connect(arguments, host) as session:
        found = _find(session, arguments.approval)
        content = an_object(found, "content")
        draw(content)
        agree(arguments, f"Approve the {text(found['subject'])} of {_target(found)}?")
        body = {"digest": text(found["digest"]), "reason": arguments.reason}
        answer = session.client.request("POST", f"/approvals/{part(text(found['id']))}/approve", body)
        action_id = text(an_object(answer, "approval").get("action_id"))
        again = "it passes once the request is sent again, which a schedule or an expiry does itself"
        print(f"{_target(found)}: approved; {f'heatlite action show {action_id}' if action_id else again}")
        if action_id and session.embedded and "plan" in content and "not_before" not in content:
            return 0 if follow_action(session, action_id) == "SUCCEEDED" else 1
    return 0


@approvals.command(
    "reject", "reject what waits for an approval", APPROVAL, REASON,
    examples=("approval reject 1f0c6f2e --reason 'not before Monday'",),
)
def reject(arguments: argparse.Namespace, host: Host) -> int:
    """Reject."""
    with connect(arguments, host) as session:
        found = _find(session, arguments.approval)
        path = f"/approvals/{part(text(found['id']))}/reject"
        session.client.request("POST", path, {"reason": arguments.reason})
    print(f"{_target(found)}: rejected")
    return 0


def draw(content: Object) -> None:
    """Print what an approval begins."""
    if "plan" in content:
        plans.draw(objects(an_object(content, "plan"), "resources"), is_whole=False)
        if "not_before" in content:
            print(f"It begins at {text(content['not_before'])}.")
    elif content:
        print(dump(dict(content)))


def _find(session: Session, reference: str) -> Object:
    return an_object(session.client.request("GET", f"/approvals/{part(reference)}"), "approval")


def _target(found: Object) -> str:
    resource = text(found.get("resource"))
    return f"{text(found['stack_name'])}{f' ({resource})' if resource else ''}"
