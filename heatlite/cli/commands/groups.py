"""Commands on the members of groups."""

import argparse
import re

from heatlite.cli.arguments import DECIMAL, NO_WAIT, STACK, YES, CommandGroup, argument, is_whole, number
from heatlite.cli.client import an_object, objects, part, text
from heatlite.cli.commands.actions import follow_action
from heatlite.cli.commands.following import change, may_leave
from heatlite.cli.errors import Misuse
from heatlite.cli.output import plans
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, Session, connect, tell_facts
from heatlite.core.clock import UNITS
from heatlite.core.json import Json, JsonMap, parse

CRITERIA = ("OLDEST_FIRST", "YOUNGEST_FIRST", "RANDOM", "OLDEST_PROFILE_FIRST")


def span(given: str) -> int:
    """Read a time span in seconds: ``30``, ``30s``, ``10m``, ``2h``, ``1d``.

    Raises ArgumentTypeError.
    """
    digits, unit = (given[:-1], given[-1]) if given and given[-1] in UNITS else (given, "s")
    if not is_whole(digits):
        raise argparse.ArgumentTypeError(f"{given!r} is no time span such as 30s, 10m, 2h or 1d")
    return int(digits) * UNITS[unit]


GROUP = argument("group", metavar="GROUP", help="name of the group, or path to it: web/inner")
MEMBERS = argument("members", metavar="MEMBER", nargs="+", help="name or physical id (repeatable)")
COUNT = argument("--count", type=number, default=1, metavar="NUMBER", help="number of members (default: 1)")
CUT = argument("--best-effort", action="store_true", help="stop at the limit instead of refusing")
ANYWAY = argument("--ignore-cooldown", action="store_true", help="scale even in the cooldown")
GRACE = argument("--grace-period", type=span, metavar="SPAN", help="time before the deletion: 30s, 10m")
POLICY = argument("policy", metavar="POLICY", help="name of the policy, unique in the group")
OPTIONS = argument("--options", metavar="JSON", help="options of its type, as an object of JSON")
PRIORITY = argument("--priority", type=number, metavar="NUMBER", help="lower ones decide first (default: by the type)")

commands = CommandGroup("group", "resize groups, and replace or delete their members")


def start(arguments: argparse.Namespace, host: Host, path: str, body: JsonMap) -> int:
    """Start an operation on a resource and wait for its action.

    Returns 1 unless it SUCCEEDED.
    """
    with connect(arguments, host) as session:
        return carry_out(arguments, session, path, body)


def carry_out(arguments: argparse.Namespace, session: Session, path: str, body: JsonMap) -> int:
    """Start an operation on a resource in a session; otherwise as `start`."""
    may_leave(arguments, session)
    action_id = begin(arguments, session, path, body)
    if arguments.no_wait:
        return 0
    return 0 if follow_action(session, action_id) == "SUCCEEDED" else 1


def begin(arguments: argparse.Namespace, session: Session, path: str, body: JsonMap) -> str:
    """Start an operation on a resource. Returns the id of its action."""
    below = "/".join(map(part, path.split("/")))
    found = session.client.find(arguments.stack)
    answer = change(arguments, session, "POST", f"{found.path}/resources/{below}/actions", body)
    return text(an_object(answer, "action").get("id"))


@commands.command(
    "resize",
    "set the number of members",
    STACK,
    GROUP,
    argument(
        "size",
        metavar="SIZE",
        help="4: this number; +2, -1: so many more or less; +50%%, -10%%; template; same, with --min or --max",
    ),
    argument("--min", type=number, metavar="NUMBER", help="fewest members, until the template has another number"),
    argument("--max", type=number, metavar="NUMBER", help="most members, as --min"),
    argument("--min-step", type=number, metavar="NUMBER", help="smallest change by a percentage"),
    CUT,
    NO_WAIT,
    examples=("group resize web members 5", "group resize web members same --min 2 --max 8"),
)
def resize(arguments: argparse.Namespace, host: Host) -> int:
    """Resize a group; ``template`` returns to its size and limits."""
    if arguments.size == "template":
        return start(arguments, host, arguments.group, {"resize": {"follow_template": True}})
    given = {"min_size": arguments.min, "max_size": arguments.max}
    limits: JsonMap = {key: value for key, value in given.items() if value is not None}
    if arguments.size == "same":
        if not limits:
            raise Misuse("Give --min or --max, or another size.")
        return start(arguments, host, arguments.group, {"resize": limits})
    kind = "CHANGE_IN_CAPACITY" if arguments.size.startswith(("+", "-")) else "EXACT_CAPACITY"
    digits = arguments.size
    if digits.endswith("%"):
        kind, digits = "CHANGE_IN_PERCENTAGE", digits[:-1]
    if re.fullmatch(f"[+-]?{DECIMAL}", digits) is None:
        raise Misuse(f"{arguments.size!r} is no size: 4, +2, -1, +50%, -10%, same or template.")
    options: JsonMap = {"adjustment_type": kind, "number": float(digits), "strict": not arguments.best_effort}
    if arguments.min_step is not None:
        options["min_step"] = arguments.min_step
    return start(arguments, host, arguments.group, {"resize": {**options, **limits}})


@commands.command(
    "scale-out", "add members", STACK, GROUP, COUNT, CUT, ANYWAY, NO_WAIT,
    examples=("group scale-out web members --count 2",),
)
def scale_out(arguments: argparse.Namespace, host: Host) -> int:
    """Add members to a group."""
    return start(arguments, host, arguments.group, {"scale_out": _scaling(arguments)})


@commands.command(
    "scale-in",
    "remove members by a criterion, failed ones first",
    STACK,
    GROUP,
    COUNT,
    argument("--criteria", choices=CRITERIA, type=str.upper, help="default: by a policy, else OLDEST_FIRST"),
    GRACE,
    CUT,
    ANYWAY,
    NO_WAIT,
    examples=("group scale-in web members --criteria OLDEST_FIRST",),
)
def scale_in(arguments: argparse.Namespace, host: Host) -> int:
    """Remove members of a group."""
    options: JsonMap = {"criteria": arguments.criteria, "grace_period": arguments.grace_period}
    given: JsonMap = {key: value for key, value in options.items() if value is not None}
    return start(arguments, host, arguments.group, {"scale_in": {**_scaling(arguments), **given}})


def _scaling(arguments: argparse.Namespace) -> JsonMap:
    return {
        "count": arguments.count,
        "strict": not arguments.best_effort,
        "ignore_cooldown": arguments.ignore_cooldown,
    }


@commands.command(
    "delete",
    "delete members",
    STACK,
    GROUP,
    MEMBERS,
    argument("--refill", action="store_true", help="have new members, with new names, in their places"),
    GRACE,
    YES,
    NO_WAIT,
    examples=("group delete web members 2 --refill",),
)
def delete(arguments: argparse.Namespace, host: Host) -> int:
    """Delete members of a group."""
    need_consent(arguments, "`group delete` deletes members")
    options: JsonMap = {
        "members": arguments.members,
        "reduce": not arguments.refill,
        **({} if arguments.grace_period is None else {"grace_period": arguments.grace_period}),
    }
    with connect(arguments, host) as session:
        if not arguments.yes:
            _show_plan(arguments, host, session, "delete_members", options)
            agree(arguments, f"Delete {', '.join(arguments.members)} of {arguments.group}?")
        return carry_out(arguments, session, arguments.group, {"delete_members": options})


@commands.command(
    "leave",
    "let members leave, and their objects stay",
    STACK,
    GROUP,
    MEMBERS,
    argument("--refill", action="store_true", help="have new members, with new names, in their places"),
    argument("--into", metavar="STACK", help="move them to a stack; needed for members that are nested stacks"),
    YES,
    NO_WAIT,
    examples=("group leave web members 2", "group leave web members 2 --refill", "group leave web members 2 --into db"),
)
def leave(arguments: argparse.Namespace, host: Host) -> int:
    """Show what leaves a group, ask, and let it leave."""
    into: JsonMap = {} if arguments.into is None else {"into": arguments.into}
    options: JsonMap = {"members": arguments.members, "reduce": not arguments.refill, **into}
    return _as_planned(arguments, host, "leave", options)


@commands.command(
    "join",
    "make existing objects members",
    STACK,
    GROUP,
    argument("objects", metavar="ID", nargs="+", help="id of an object, or NAME=ID with a name for the member"),
    argument("--by-name", action="store_true", help="find the objects by their exact names instead of ids"),
    argument("--resource", action="store_true", help="ID is a resource of the stack that has the group; it moves"),
    argument("--ids", action="store_true", help="NAME=ID are the objects of one member, a template that names them"),
    argument("--changes", choices=("refuse", "list"), default="refuse", help="objects that differ (default: refuse)"),
    YES,
    NO_WAIT,
    examples=(
        "group join web members 6b23c1",
        "group join web members 2=6b23c1 --changes list",
        "group join web members --resource lone",
        "group join web members --ids server=6b23c1 port=5c0fd1",
    ),
)
def join(arguments: argparse.Namespace, host: Host) -> int:
    """Show what joins a group and what the next update changes, ask, and let it join."""
    if arguments.by_name + arguments.resource + arguments.ids > 1:
        raise Misuse("Give one of --by-name, --resource and --ids.")
    key = "name" if arguments.by_name else "resource" if arguments.resource else "id"
    pairs = [one.rpartition("=") for one in arguments.objects]
    if arguments.ids and not all(name for name, _, _ in pairs):
        raise Misuse("--ids needs NAME=ID for each object.")
    members: list[Json] = [{key: found, "as": name} if name else {key: found} for name, _, found in pairs]
    if arguments.ids:
        members = [{"ids": {name: found for name, _, found in pairs}}]
    return _as_planned(arguments, host, "join", {"members": members, "changes": arguments.changes})


def _as_planned(arguments: argparse.Namespace, host: Host, key: str, asked: JsonMap) -> int:
    """Show the plan of an operation on a group, ask, and start what was shown."""
    need_consent(arguments, f"`group {key}` changes the members of a group")
    with connect(arguments, host) as session:
        digest = _show_plan(arguments, host, session, key, asked)
        agree(arguments, "Do it?")
        return carry_out(arguments, session, arguments.group, {key: {**asked, "plan_digest": digest}})


def _show_plan(arguments: argparse.Namespace, host: Host, session: Session, key: str, asked: JsonMap) -> str:
    """Show the plan of an operation on a group. Returns its digest."""
    stack = session.client.find(arguments.stack)
    plan = session.client.plan(stack, key, {**asked, "resource": arguments.group})
    plans.draw(objects(plan, "resources"))
    if plan.get("after"):
        print("The next update then does:")
        plans.draw(objects(plan, "after"))
    tell_facts(host, session.client, stack, plan)
    return text(plan.get("digest"))


@commands.command(
    "replace", "replace members under the same names", STACK, GROUP, MEMBERS, NO_WAIT,
    examples=("group replace web members 0 3",),
)
def replace(arguments: argparse.Namespace, host: Host) -> int:
    """Replace members of a group."""
    return start(arguments, host, arguments.group, {"replace_members": {"members": arguments.members}})


@commands.command(
    "attach-policy",
    "let a policy decide on changes of members",
    STACK,
    GROUP,
    POLICY,
    argument("type", metavar="TYPE", help="zone_placement, deletion, load_balancing, or a type of another package"),
    OPTIONS,
    PRIORITY,
    NO_WAIT,
    examples=(
        "group attach-policy web members leavers deletion --options '{\"criteria\": \"YOUNGEST_FIRST\"}'",
        "group attach-policy web members spread zone_placement --options '{\"zones\": [{\"name\": \"az1\"}]}'",
    ),
)
def attach_policy(arguments: argparse.Namespace, host: Host) -> int:
    """Attach a policy to a group."""
    return _policy(arguments, host, "attach_policy", {"type": arguments.type, **_policy_options(arguments)})


@commands.command(
    "update-policy",
    "change a policy of a group, or switch it off",
    STACK,
    GROUP,
    POLICY,
    OPTIONS,
    PRIORITY,
    argument("--disable", action="store_true", help="let it decide nothing"),
    argument("--enable", action="store_true", help="let it decide again"),
    NO_WAIT,
    examples=("group update-policy web members leavers --disable",),
)
def update_policy(arguments: argparse.Namespace, host: Host) -> int:
    """Change a policy of a group."""
    switch: JsonMap = {"enabled": arguments.enable} if arguments.enable != arguments.disable else {}
    return _policy(arguments, host, "update_policy", {**_policy_options(arguments), **switch})


@commands.command(
    "detach-policy", "take a policy from a group", STACK, GROUP, POLICY, NO_WAIT,
    examples=("group detach-policy web members leavers",),
)
def detach_policy(arguments: argparse.Namespace, host: Host) -> int:
    """Detach a policy from a group."""
    return _policy(arguments, host, "detach_policy", {})


def _policy_options(arguments: argparse.Namespace) -> JsonMap:
    """Return the options of a policy that the command has. Raises Misuse."""
    found: JsonMap = {} if arguments.priority is None else {"priority": arguments.priority}
    if arguments.options is not None:
        try:
            found["options"] = parse(arguments.options)
        except ValueError as error:
            raise Misuse(f"--options: {error}") from None
    return found


def _policy(arguments: argparse.Namespace, host: Host, key: str, options: JsonMap) -> int:
    return start(arguments, host, arguments.group, {key: {"name": arguments.policy, **options}})
