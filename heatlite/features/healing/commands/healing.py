"""Commands on healing: the policy and the brakes of a stack, and incidents."""

import argparse
from pathlib import Path

from heatlite.cli.arguments import (
    FOLLOWED,
    LIMIT,
    LISTING,
    STACK,
    WATCH,
    YES,
    CommandGroup,
    argument,
    filters,
    only,
    repeatable,
)
from heatlite.cli.client import Client, Object, an_object, objects, part, text
from heatlite.cli.commands.actions import matching, pages, print_page
from heatlite.cli.commands.following import start
from heatlite.cli.errors import CommandError
from heatlite.cli.files import load_file
from heatlite.cli.output import plans, render
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, connect, tell_facts
from heatlite.core.actions.repairs import RepairStep
from heatlite.core.json import JsonMap
from heatlite.features.healing.terms import policy_of_yaml

SCOPE_COLUMNS = ("scope", "members", "unhealthy", "allowed", "breaker", "state", "failures", "next_window")
POLICY_COLUMNS = ("stack_name", "mode", "version", "updated_by", "updated_at", "stack_id")
INCIDENT_COLUMNS = (
    "path", "state", "reason", "source", "summary", "id", "also", "due", "created_at", "closed_as", "root_stack_id",
)  # fmt: skip

FILE = argument("file", metavar="FILE", help="YAML or JSON")
INCIDENT = argument("incident", metavar="INCIDENT", help="id of the incident")

healing = CommandGroup("healing", "show and set what heatlite repairs by itself")
incidents = CommandGroup("incident", "list, show, close and approve incidents")
commands = CommandGroup(subgroups=(healing, incidents))

BRAKE = repeatable("--ignore", metavar="BRAKE", help="brake that does not hold this repair (repeatable)")


def overview(client: Client, stack: str) -> Object:
    """Return policy, scopes and open incidents of a stack."""
    return an_object(client.request("GET", f"{client.find(stack).path}/healing"))


@healing.command(
    "show",
    "show the scopes of a stack with their brakes, or its policy",
    *LISTING,
    STACK,
    argument("--policy", action="store_true", help="show the policy instead"),
    examples=("healing show web", "healing show web --policy -f yaml"),
)
def show(arguments: argparse.Namespace, host: Host) -> int:
    """Show the scopes of a stack; with --policy, its policy."""
    with connect(arguments, host, reads_only=True) as session:
        found = overview(session.client, arguments.stack)
    if arguments.policy:
        if found.get("policy") is None:
            raise CommandError(f"Stack {arguments.stack} has no healing policy: nothing is repaired.")
        render.one(an_object(found, "policy"), arguments.format, arguments.column)
        return 0
    render.listing(objects(found, "scopes"), SCOPE_COLUMNS, arguments, f"scopes of stack {arguments.stack}")
    return 0


@healing.command("list", "list the healing policies of the project", *LISTING, examples=("healing list",))
def list_policies(arguments: argparse.Namespace, host: Host) -> int:
    """List the stacks that have a policy."""
    with connect(arguments, host, reads_only=True) as session:
        found, _ = pages(session.client, "/healing", "healing_policies", {})
    rows = [{**one, "mode": an_object(one, "policy").get("mode", "off")} for one in found]
    render.listing(rows, POLICY_COLUMNS, arguments, "healing policies")
    return 0


@healing.command("set", "set the healing policy of a stack", STACK, FILE, examples=("healing set web policy.yaml",))
def set_(arguments: argparse.Namespace, host: Host) -> int:
    """Set the policy of a stack from a file."""
    document = policy_of_yaml(load_file(Path(arguments.file), "Healing policy").data)
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        answer = an_object(session.client.request("PUT", f"{stack.path}/healing", document))
    print(f"{arguments.stack}: healing policy version {text(answer.get('version'))}")
    return 0


@healing.command(
    "off", "remove the healing policy of a stack: nothing is repaired then", STACK, YES,
    examples=("healing off web",),
)
def off(arguments: argparse.Namespace, host: Host) -> int:
    """Remove the policy of a stack."""
    need_consent(arguments, "off removes the healing policy")
    agree(arguments, f"Remove the healing policy of {arguments.stack}?")
    with connect(arguments, host) as session:
        session.client.request("DELETE", f"{session.client.find(arguments.stack).path}/healing")
    print(f"{arguments.stack}: no healing policy")
    return 0


@healing.command(
    "acknowledge",
    "let a scope be repaired again after too many failures",
    STACK,
    argument("scope", metavar="SCOPE", help="path of a group, or type:TYPE"),
    examples=("healing acknowledge web members",),
)
def acknowledge(arguments: argparse.Namespace, host: Host) -> int:
    """End the suspension of a scope."""
    with connect(arguments, host) as session:
        path = f"{session.client.find(arguments.stack).path}/healing/acknowledge"
        session.client.request("POST", path, {"scope": arguments.scope})
    print(f"{arguments.scope}: RUNNING; its incidents need a new report")
    return 0


@incidents.command(
    "list",
    "list incidents, newest first",
    *LISTING,
    only("--state", "STATE", "in this state (repeatable)"),
    only("--source", "SOURCE", "of this source (repeatable)"),
    LIMIT,
    WATCH,
    examples=("incident list --state PROPOSED", "incident list --watch"),
)
def list_(arguments: argparse.Namespace, host: Host) -> int:
    """List the incidents of the project, newest first."""
    query = filters(arguments, "state", "source")
    with connect(arguments, host, reads_only=True) as session:
        for _ in render.watching(arguments.watch):
            found, are_more = pages(session.client, "/incidents", "incidents", {**query}, arguments.limit)
            print_page(found, are_more, INCIDENT_COLUMNS, arguments, matching("incidents", query))
    return 0


@incidents.command(
    "show", "show an incident with its alerts and its history", *LISTING, INCIDENT,
    examples=("incident show 1f0c6f2e-…",),
)
def show_incident(arguments: argparse.Namespace, host: Host) -> int:
    with connect(arguments, host, reads_only=True) as session:
        answer = session.client.request("GET", f"/incidents/{part(arguments.incident)}")
    render.one(an_object(answer, "incident"), arguments.format, arguments.column)
    return 0


@incidents.command(
    "close",
    "close an incident, and mute its alerts until they have resolved once",
    INCIDENT,
    argument("--reason", default="", help="text for its history"),
    examples=("incident close 1f0c6f2e-… --reason 'was a test'",),
)
def close(arguments: argparse.Namespace, host: Host) -> int:
    with connect(arguments, host) as session:
        path = f"/incidents/{part(arguments.incident)}/close"
        answer = session.client.request("POST", path, {"reason": arguments.reason})
    print(f"{text(an_object(answer, 'incident').get('path'))}: CLOSED")
    return 0


@incidents.command(
    "approve", "begin the repair that an incident proposes", INCIDENT, YES,
    examples=("incident approve 1f0c6f2e-…",),
)
def approve(arguments: argparse.Namespace, host: Host) -> int:
    """Show the plan that an incident proposes, ask, and begin it."""
    need_consent(arguments, "approve begins a repair")
    with connect(arguments, host) as session:
        path = f"/incidents/{part(arguments.incident)}"
        found = an_object(session.client.request("GET", path), "incident")
        if not found.get("plan_digest"):
            state = text(found.get("state"))
            raise CommandError(
                f"Incident {arguments.incident} is {state}: it proposes no repair."
                f" See: heatlite incident show {arguments.incident}"
            )
        draw_proposal(session.client, found)
        agree(arguments, f"Repair {text(found.get('path'))}?")
        answer = session.client.request("POST", f"{path}/approve", {"plan_digest": found["plan_digest"]})
    print(f"{text(found.get('path'))}: {text(an_object(answer, 'incident').get('state'))}")
    return 0


def draw_proposal(client: Client, incident: Object) -> None:
    """Print the plan that an incident proposes: that of the step with its digest."""
    digest, root = text(incident["plan_digest"]), text(incident["root_stack_id"])
    found, _ = pages(client, "/incidents", "incidents", {"state": "PROPOSED"})
    paths = {text(one["path"]) for one in found if (one["plan_digest"], one["root_stack_id"]) == (digest, root)}
    stack = client.find(root)
    # Without a step the server takes the first possible one of the ladder. After a failed repair it is a later one.
    for step in (None, *RepairStep):
        asked: JsonMap = {"resources": sorted(paths | {text(incident["path"])})}
        if step is not None:
            asked["step"] = step.value
        plan = client.plan(stack, "heal", asked)
        if plan["digest"] == digest:
            plans.draw(objects(plan, "resources"))
            return
    print("The plan cannot be shown: something has changed, or more of the member is marked.")


@commands.command(
    "heal",
    "repair resources now, as far as the brakes allow",
    STACK,
    argument("path", metavar="PATH", nargs="*", help="resource, such as web/2 (default: all that is marked)"),
    argument("--step", choices=("replace", "rebuild", "reboot"), help="default: the first step of the policy"),
    BRAKE,
    YES,
    FOLLOWED,
    examples=("heal web", "heal web group/2 --ignore window_closed"),
)
def heal(arguments: argparse.Namespace, host: Host) -> int:
    """Show the plan of a repair, ask, and begin it."""
    need_consent(arguments, "heal replaces resources")
    asked: JsonMap = {"ignore": arguments.ignore}
    if arguments.path:
        asked["resources"] = arguments.path
    if arguments.step:
        asked["step"] = arguments.step
    with connect(arguments, host) as session:
        client, stack = session.client, session.client.find(arguments.stack)
        plan = client.plan(stack, "heal", asked)
        if arguments.format == "text":
            plans.draw(objects(plan, "resources"))
            tell_facts(host, client, stack, plan)
        agree(arguments, "Do it?")
        body: JsonMap = {"heal": {**asked, "plan_digest": text(plan.get("digest"))}}
        again = f"heatlite heal {stack.name}"
        return start(arguments, session, stack, body, again)
