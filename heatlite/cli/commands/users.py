"""Commands that write account files: user add, user token."""

import argparse
import getpass
import sys

from heatlite.cli.arguments import CommandGroup, argument, repeatable
from heatlite.cli.commands.maintenance import coming
from heatlite.cli.errors import CommandError, Misuse
from heatlite.cli.session import Host, Projects, settings
from heatlite.core.clock import Clock, from_text
from heatlite.core.context import ADMIN

DEFAULT_PROJECT, DEFAULT_ROLE = "default", "member"

USER = argument("user", metavar="USER", help="name")
PROJECT = repeatable(
    "--project",
    metavar="PROJECT[=ROLE,ROLE]",
    help="roles in a project: reader, member, heat_stack_user, or admin, which administers all projects"
    " (repeatable; default: default=member)",
)

commands = CommandGroup("user", "users of a server with `auth` basic or tokens")


@commands.command(
    "add", "set the password of a user, and roles", USER, PROJECT, server=False,
    examples=("user add mia --project web=member",),
)
def add(arguments: argparse.Namespace, host: Host) -> int:
    """Set the password of a user, from the terminal or stdin, and roles in projects."""
    projects = _projects(arguments.project)
    path = host.add_user(settings(arguments, host), arguments.user, _new_password(arguments.user), projects)
    print(f"Wrote {path}. A server with auth = basic accepts {arguments.user} from now on.")
    _warn_of_admin(arguments.user, projects)
    return 0


@commands.command(
    "token",
    "create a token for a user, and print it once",
    USER,
    PROJECT,
    argument("--expires", metavar="TIME", help="expiry time: 2026-11-21T18:00:00Z, +2h, +30d"),
    server=False,
    examples=("user token ci --expires +30d",),
)
def token(arguments: argparse.Namespace, host: Host) -> int:
    """Create a token, and print it once."""
    expires = None if arguments.expires is None else from_text(coming(arguments.expires, Clock(), "--expires"))
    projects = _projects(arguments.project)
    print(host.give_token(settings(arguments, host), arguments.user, projects, expires))
    _warn_of_admin(arguments.user, projects)
    return 0


def _warn_of_admin(user: str, projects: Projects) -> None:
    """Print a note on the role `admin`: it counts in all projects."""
    if any(ADMIN in roles for roles in projects.values()):
        print(f"{user} is an administrator of all projects: the role admin in one counts for all.", file=sys.stderr)


def _projects(given: list[str]) -> Projects:
    """Read entries ``PROJECT=ROLE,ROLE``. Raises CommandError."""
    out = {}
    for entry in given or [DEFAULT_PROJECT]:
        project, equals, roles = entry.partition("=")
        found = frozenset(role for role in (roles if equals else DEFAULT_ROLE).split(",") if role)
        if not project or "/" in project or not found:
            raise Misuse(f"--project {entry}: the form is PROJECT or PROJECT=ROLE,ROLE.")
        out[project] = found
    return out


def _new_password(user: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password = getpass.getpass(f"New password of {user}: ")
    if password != getpass.getpass("Repeat the password: "):
        raise CommandError("The passwords differ; nothing is written.")
    return password
