"""Commands on single resources and members of groups."""

import argparse

from heatlite.cli.arguments import NO_WAIT, STACK, CommandGroup, argument
from heatlite.cli.commands.groups import start
from heatlite.cli.session import Host

PATH = argument("path", metavar="PATH", help="name of a resource, or path to it: web/2; of a group: its members")

commands = CommandGroup("member", "check and recover resources")


@commands.command(
    "check", "check a resource, or the members of a group", STACK, PATH, NO_WAIT,
    examples=("member check web members/2",),
)
def check(arguments: argparse.Namespace, host: Host) -> int:
    """Check one resource, or all members of a group."""
    return start(arguments, host, arguments.path, {"check": {}})


@commands.command(
    "recover",
    "repair a resource, or the members of a group that are marked unhealthy",
    STACK,
    PATH,
    argument(
        "--operation",
        choices=("RECREATE", "REBUILD", "REBOOT"),
        default="RECREATE",
        type=str.upper,
        help="default: RECREATE",
    ),
    NO_WAIT,
    examples=("member recover web members/2 --operation REBOOT",),
)
def recover(arguments: argparse.Namespace, host: Host) -> int:
    """Replace, rebuild or reboot a resource, or the marked members of a group."""
    return start(arguments, host, arguments.path, {"recover": {"operation": arguments.operation}})
