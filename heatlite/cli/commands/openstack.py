"""Commands that configure `openstack` for a server: env, clouds."""

import argparse
import os
import shlex
import sys
from pathlib import Path

from heatlite.cli.arguments import CommandGroup, argument
from heatlite.cli.errors import CommandError, Misuse
from heatlite.cli.session import Host, address, endpoint, settings
from heatlite.core.config import Auth, Settings
from heatlite.core.json import dump

CLOUDS = Path("clouds.yaml")
CLOUD = "heatlite"
HEADER = "# Written by `heatlite clouds`, which may overwrite it."

_CONFLICTING = ("OS_AUTH_URL", "OS_PASSWORD", "OS_PROJECT_ID", "OS_PROJECT_NAME", "OS_USERNAME")
"""Variables that break `auth_type: none`, even with a named cloud."""

commands = CommandGroup()


@commands.command("env", "print shell commands that configure `openstack` for the server", examples=("env",))
def environment(arguments: argparse.Namespace, host: Host) -> int:
    """Print shell commands for `openstack`: ``eval "$(heatlite env)"``."""
    chosen = settings(arguments, host)
    auth_type = _auth_type(arguments, chosen)
    stale = sorted(name for name in os.environ if name.startswith("OS_"))
    if stale:
        print(f"unset {' '.join(stale)}")
    print(f"export OS_AUTH_TYPE={auth_type}")
    print(f"export OS_ENDPOINT={shlex.quote(''.join(address(arguments, host)))}")
    if chosen.token is not None:
        print(f"export OS_TOKEN={shlex.quote(chosen.token)}")
    elif chosen.username is not None:
        print(f"export OS_USERNAME={shlex.quote(chosen.username)}")
        if chosen.password is None:
            print(f"read -rsp {shlex.quote(f'Password of {chosen.username}: ')} OS_PASSWORD && export OS_PASSWORD")
        else:
            print(f"export OS_PASSWORD={shlex.quote(chosen.password)}")
    return 0


def _auth_type(arguments: argparse.Namespace, chosen: Settings) -> str:
    """Return the `auth_type` for the credentials in the settings.

    Raises Misuse if there are none and the server of these settings needs some.
    """
    if chosen.token is not None:
        return "admin_token"
    if chosen.username is not None:
        return "http_basic"
    if chosen.auth is not Auth.NONE and endpoint(arguments) is None:
        needed = "HEATLITE_USERNAME and HEATLITE_PASSWORD" if chosen.auth is Auth.BASIC else "HEATLITE_TOKEN"
        raise Misuse(f"The server has auth = {chosen.auth.value}: set {needed}.")
    return "none"


@commands.command(
    "clouds",
    "write ./clouds.yaml for `openstack --os-cloud heatlite`",
    argument("--force", action="store_true", help="overwrite a file that heatlite has not written"),
    examples=("clouds",),
)
def clouds(arguments: argparse.Namespace, host: Host) -> int:
    """Write ./clouds.yaml with the cloud `heatlite`."""
    try:
        if not arguments.force and CLOUDS.exists() and not CLOUDS.read_text("utf-8").startswith(HEADER):
            raise CommandError(f"{CLOUDS} exists and was not written by heatlite; --force overwrites it.")
        url = "".join(address(arguments, host))
        chosen = settings(arguments, host)
        secret = {"token": chosen.token} if chosen.token else {"username": chosen.username, "password": chosen.password}
        auth = {"endpoint": url, **{key: value for key, value in secret.items() if value is not None}}
        if len(auth) > 1:
            CLOUDS.touch(0o600)
            CLOUDS.chmod(0o600)
        CLOUDS.write_text(
            f"{HEADER}\n"
            "clouds:\n"
            f"  {CLOUD}:\n"
            f"    auth_type: {_auth_type(arguments, chosen)}\n"
            "    auth:\n" + "".join(f"      {key}: {dump(value)}\n" for key, value in auth.items()),
            "utf-8",
        )
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{CLOUDS}: {error}") from None
    print(f"Wrote {CLOUDS}. Use it with: export OS_CLOUD={CLOUD}")
    conflicting = [name for name in _CONFLICTING if os.environ.get(name)]
    if conflicting:
        print(f"These variables conflict with it: unset {' '.join(conflicting)}", file=sys.stderr)
    return 0
