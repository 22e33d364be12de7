"""Commands on the database and its keys: fsck, db, keys."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from heatlite.cli.arguments import LISTING, YES, CommandGroup, argument
from heatlite.cli.client import Object
from heatlite.cli.errors import CommandError, Misuse
from heatlite.cli.output import render
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, settings
from heatlite.core.errors import abbreviated

FSCK_COLUMNS = ("entity", "id", "detail", "rule")


FILE = argument("file", type=Path, metavar="FILE", help="backup of a SQLite database; its key is in FILE.key")

database = CommandGroup("db", "upgrade the database, show its migrations, back it up or restore it")
commands = CommandGroup(subgroups=[database])


@database.command(
    "status", "show the migrations of the database", *LISTING, server=False,
    examples=("db status", "db status --database postgresql://heatlite@db.example/heatlite"),
)
def status(arguments: argparse.Namespace, host: Host) -> int:
    chosen = settings(arguments, host)
    steps: list[Object] = [{"migration": name, "applied": done} for name, done in host.migration_status(chosen)]
    render.listing(steps, ("migration", "applied"), arguments, "migrations")
    return 0


@database.command(
    "upgrade", "upgrade the tables, and show the migrations", *LISTING, server=False,
    examples=("db upgrade --config /etc/heatlite/heatlite.toml",),
)
def upgrade(arguments: argparse.Namespace, host: Host) -> int:
    host.upgrade(settings(arguments, host))
    return status(arguments, host)


def _ask_for_force(arguments: argparse.Namespace, effect: str, question: str) -> None:
    if arguments.force:
        need_consent(arguments, f"--force {effect}")
        agree(arguments, question)


@database.command(
    "backup",
    "copy a SQLite database to a file",
    FILE,
    argument("--force", action="store_true", help="overwrite FILE"),
    YES,
    server=False,
    examples=("db backup heatlite-backup.db", "db backup --force heatlite-backup.db"),
)
def back_up(arguments: argparse.Namespace, host: Host) -> int:
    _ask_for_force(arguments, "overwrites the backup", "Backup with --force?")
    chosen = settings(arguments, host)
    key = host.back_up(chosen, arguments.file, arguments.force)
    print(f"Wrote {arguments.file}.")
    if key is not None:
        print(f"Wrote {key}, the key of the secrets in it: store it apart from the backup.")
    elif chosen.encryption_keys:
        print("Its secrets are encrypted with the setting encryption_keys: keep these for the backup.")
    return 0


@database.command(
    "restore",
    "install a backup; keeps the previous database beside it",
    FILE,
    *LISTING,
    argument("--force", action="store_true", help="ignore faults that fsck finds"),
    YES,
    server=False,
    examples=("db restore heatlite-backup.db",),
)
def restore(arguments: argparse.Namespace, host: Host) -> int:
    """Install a backup as the database."""
    _ask_for_force(arguments, "restores a database with faults", "Restore with --force?")
    chosen, file = settings(arguments, host), arguments.file
    try:
        file.open("rb").close()
    except OSError as error:
        raise Misuse(f"{file}: {error.strerror}") from None
    installed, aside, found = host.restore(chosen, file, arguments.force)
    if found:
        render.listing(_rules(found), FSCK_COLUMNS, arguments, "faults")
    if not installed:
        raise CommandError(
            f"Nothing is restored: heatlite fsck finds these faults in {file}. Use --force to install it anyway."
        )
    print(f"Restored {file} as {chosen.shown_database}.", file=sys.stderr)
    if aside is not None:
        print(f"The previous database is {aside}.", file=sys.stderr)
    return 0


@commands.command(
    "keys",
    "print a new encryption key, or encrypt all secrets with the first key",
    argument(
        "what", choices=("new", "rotate"), metavar="{new,rotate}", help="new: print a key; rotate: encrypt everything"
    ),
    server=False,
    examples=("keys new",),
)
def keys(arguments: argparse.Namespace, host: Host) -> int:
    """Print a new key, or encrypt all secrets with the first key."""
    if arguments.what == "new":
        print(host.new_key())
        return 0
    count, unreadable, lost, wiped = host.reencrypt(settings(arguments, host))
    print(f"Rows encrypted with the first key: {count}")
    if not wiped:
        print("Old secrets may remain in the file: another process uses it, or the disk is full. Run it again alone.")
    if unreadable:
        raise CommandError(
            f"No key decrypts {abbreviated(unreadable)}. Add the key that encrypted them after the"
            " others, and try again."
        )
    if lost:
        raise CommandError(
            f"Rows of features that this program cannot read keep their old keys: {', '.join(lost)}. Keep all"
            " keys, install these features, and try again."
        )
    return 0


@commands.command("fsck", "check the database for orphaned rows", *LISTING, server=False, examples=("fsck",))
def fsck(arguments: argparse.Namespace, host: Host) -> int:
    found = host.inconsistencies(settings(arguments, host))
    rows = _rules(found)
    if not rows and arguments.format == "table":
        print("No orphaned rows.")
    else:
        render.listing(rows, FSCK_COLUMNS, arguments, "faults")
    return 1 if rows else 0


def _rules(found: Sequence[tuple[str, str, str, str]]) -> list[Object]:
    return [dict(zip(("rule", "entity", "id", "detail"), row, strict=True)) for row in found]
