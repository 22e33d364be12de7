"""Commands that write the files of accounts: user add, user token."""

import argparse
import getpass
import sys

from heatlite.cli.commands.maintenance import moment
from heatlite.cli.errors import CommandError
from heatlite.cli.session import Host, Projects, settings
from heatlite.core.clock import Clock, from_text
from heatlite.core.context import ADMIN

DEFAULT_PROJECT, DEFAULT_ROLE = "default", "member"


def add(arguments: argparse.Namespace, host: Host) -> int:
    """Set a user's password, which is asked for or read from stdin, and his roles in some projects."""
    projects = _projects(arguments.project)
    path = host.add_user(settings(arguments), arguments.user, _new_password(arguments.user), projects)
    print(f"Wrote {path}. A server with auth = basic knows {arguments.user} from now on.")
    _tell_of_admin(arguments.user, projects)
    return 0


def token(arguments: argparse.Namespace, host: Host) -> int:
    """Give out a token, which is printed now and never again."""
    expires = None if arguments.expires is None else from_text(moment(arguments.expires, Clock()))
    projects = _projects(arguments.project)
    print(host.give_token(settings(arguments), arguments.user, projects, expires))
    _tell_of_admin(arguments.user, projects)
    return 0


def _tell_of_admin(user: str, projects: Projects) -> None:
    """Say what the role `admin` means, which is not what it looks like."""
    if any(ADMIN in roles for roles in projects.values()):
        print(f"{user} is an administrator of all projects: the role admin in one counts for all.", file=sys.stderr)


def _projects(given: list[str]) -> Projects:
    """``PROJECT=ROLE,ROLE``, each of them with its roles. Raises CommandError."""
    out = {}
    for entry in given or [DEFAULT_PROJECT]:
        project, equals, roles = entry.partition("=")
        found = frozenset(role for role in (roles if equals else DEFAULT_ROLE).split(",") if role)
        if not project or "/" in project or not found:
            raise CommandError(f"--project {entry}: it is given as PROJECT or PROJECT=ROLE,ROLE.")
        out[project] = found
    return out


def _new_password(user: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password = getpass.getpass(f"New password of {user}: ")
    if password != getpass.getpass("The same again: "):
        raise CommandError("These were two different passwords; nothing is written.")
    return password
