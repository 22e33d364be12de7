"""Guards on the command line: options of commands, and the end of a bake."""

import argparse
import re
from collections.abc import Mapping

from heatlite.cli.arguments import STACK, CommandGroup, argument
from heatlite.cli.client import Object, text
from heatlite.cli.errors import Misuse
from heatlite.cli.session import Host, PlanFacts, connect
from heatlite.core.clock import UNITS
from heatlite.core.json import Json, JsonMap

commands = CommandGroup()


def span(given: str) -> int:
    """Return the seconds of ``600``, ``30s``, ``10m`` or ``2h``.

    Raises ArgumentTypeError.
    """
    found = re.fullmatch(r"([0-9]{1,6})([smhd]?)", given)
    if found is None:
        raise argparse.ArgumentTypeError(f"{given!r} is no time: write 600, 30s, 10m, 2h or 1d")
    return int(found[1]) * UNITS[found[2] or "s"]


@commands.command(
    "end-bake",
    "begin the clean-up of an update that bakes",
    STACK,
    argument("--reason", metavar="TEXT", help="why, for the events and the log"),
    examples=("end-bake web", "end-bake web --reason 'the graphs look well'"),
)
def end_bake(arguments: argparse.Namespace, host: Host) -> int:
    """End the time in which an update can be taken back: its old objects are deleted."""
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        session.client.action(stack, "end_bake", {"reason": arguments.reason} if arguments.reason else None)
        print(f"{stack.name}: the bake has ended, the old objects are deleted")
    return 0


def condition(given: str) -> tuple[str, str]:
    """Return place and value of ``labels.severity=critical``.

    Raises ArgumentTypeError.
    """
    place, found, value = given.partition("=")
    if not found or not re.fullmatch(r"(labels|annotations)\..+", place):
        raise argparse.ArgumentTypeError(f"{given!r} is no alert: write labels.severity=critical")
    return place, value


def _guard(arguments: argparse.Namespace) -> JsonMap:
    """Return the guard of an update. Raises Misuse."""
    if arguments.bake is None:
        if arguments.alert or arguments.unknown:
            raise Misuse("--alert and --unknown need --bake.")
        return {}
    guard: JsonMap = {"bake": arguments.bake}
    if arguments.alert:
        values: dict[str, list[Json]] = {}
        for place, value in arguments.alert:
            values.setdefault(place, []).append(value)
        guard["alerts"] = [{**values}]
    if arguments.unknown:
        guard["unknown"] = arguments.unknown
    return {"guard": guard}


def _of_bake(_arguments: argparse.Namespace) -> JsonMap:
    """Return no key of its own: `_guard` reads the option."""
    return {}


BAKE = argument("--bake", type=span, metavar="TIME", help="keep old objects so long after the changes: 10m, 2h")
ALERT = argument(
    "--alert",
    type=condition,
    action="append",
    default=[],
    metavar="LABEL=VALUE",
    help="roll back if such an alert comes while it bakes: labels.severity=critical (repeatable; default: any)",
)
UNKNOWN = argument("--unknown", choices=("wait", "pass"), help="if no source of alerts is heard (default: wait)")

for _command in ("up", "plan", "undo"):
    commands.body(_command, BAKE, _guard)
    commands.body(_command, ALERT, _of_bake)
    commands.body(_command, UNKNOWN, _of_bake)


def planned(facts: Object) -> PlanFacts:
    """Return the lines of a plan with a guard."""
    guard = facts.get("guard")
    if not isinstance(guard, Mapping):
        return PlanFacts()
    paths, alerts = guard.get("not_taken_back"), guard.get("alerts")
    wanted = " or ".join(map(_condition, alerts)) if isinstance(alerts, list) else "each on the stack"
    lines = [f"guard  {told(int(text(guard.get('bake')) or 0))}, alerts: {wanted}"]
    if guard.get("unknown") != "pass":
        lines.append("it ends only once a source of alerts was heard, or by `heatlite end-bake`; else --unknown pass")
    if isinstance(paths, list) and paths:
        lines.append(f"not taken back, made again: {', '.join(map(text, paths))}")
    return PlanFacts(lines)


def _condition(given: object) -> str:
    found = given if isinstance(given, dict) else {}
    return " and ".join(f"{place}={'|'.join(map(str, values))}" for place, values in found.items())


def told(seconds: int) -> str:
    """Return a time in its largest whole unit: ``10m``."""
    unit = next((one for one in ("d", "h", "m") if seconds and seconds % UNITS[one] == 0), "s")
    return f"{seconds // UNITS[unit]}{unit}"
