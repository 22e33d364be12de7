"""Command init: writes an example."""

import argparse
import shutil
from pathlib import Path

import heatlite
from heatlite.cli.arguments import CommandGroup, argument
from heatlite.cli.errors import CommandError, Misuse
from heatlite.cli.session import Host

PACKAGE = Path(heatlite.__file__).parent
FOLDERS = (PACKAGE / "examples", PACKAGE.parent / "templates")
"""Places of the examples: an installed package, a checkout."""

EXAMPLE = argument("example", nargs="?", default="hello", metavar="EXAMPLE", help="its name (default: hello)")

commands = CommandGroup()


@commands.command("init", "write an example template", EXAMPLE, server=False, examples=("init", "init network"))
def init(arguments: argparse.Namespace, host: Host) -> int:  # noqa: ARG001 - signature of commands
    """Write a template, or a folder of files, into the current folder."""
    known = examples()
    source = known.get(arguments.example)
    if source is None:
        raise Misuse(f"There is no example {arguments.example}; there are: {', '.join(known)}.")
    target = Path(source.name)
    if target.exists():
        raise CommandError(f"{target} is there already; move it, or use another folder.")
    if source.is_dir():
        shutil.copytree(source, target)
        print(f"Wrote {target}/: {', '.join(sorted(path.name for path in target.iterdir()))}")
    else:
        shutil.copyfile(source, target)
        print(f"Wrote {target}; create it with: heatlite up {target}")
    return 0


def examples() -> dict[str, Path]:
    """Return the examples by name. Raises CommandError."""
    for folder in FOLDERS:
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.iterdir())}
    raise CommandError("The examples are not installed.")
