"""Commands that take stacks over from a Heat, and objects from Terraform."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from heatlite.cli.arguments import YES, CommandGroup, argument
from heatlite.cli.errors import CommandError, Misuse
from heatlite.cli.files import load_file
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, connect
from heatlite.core.config import load as load_settings
from heatlite.core.json import Json, JsonMap, dump, pretty
from heatlite.core.wire.why import words
from heatlite.feature import installed, registry
from heatlite.features.migrate import transport
from heatlite.features.migrate.ledger import DONE, MigrationLedger, MigrationState, StackMove, load, moved
from heatlite.features.migrate.moves import Migration
from heatlite.features.migrate.source import stack_names
from heatlite.features.migrate.terraform import TakenState, from_state
from heatlite.template.dialects import dialect_of
from heatlite.template.source.rewriting import written

EMPTY: JsonMap = {"heat_template_version": "2021-04-16"}

migrate = CommandGroup("migrate", "take stacks over from a Heat, without touching their objects")
commands = CommandGroup(subgroups=(migrate,))

STACKS = argument("stacks", nargs="*", metavar="HEAT_STACK", help="stacks of the Heat (default: see --all)")
COMMON = (
    argument("--all", action="store_true", help="all stacks of the Heat's project"),
    argument("--from", dest="source", required=True, metavar="CLOUD", help="cloud with the Heat: see --cloud"),
    argument(
        "--record", type=Path, default=Path("migration.json"), metavar="FILE",
        help="state of each stack; with it the commands continue (default: migration.json)",
    ),
    argument("-f", "--format", choices=("text", "json"), default="text", help="form of the report"),
)  # fmt: skip
VALUES = argument(
    "--values", type=Path, metavar="FILE", help="hidden parameters, which Heat does not show: stack → name → value"
)


@migrate.command(
    "plan", "report what can be taken, and what will differ; writes to the record only", STACKS, VALUES, *COMMON,
    examples=("migrate plan --from heat --all", "migrate plan web --from heat --values values.yaml -f json"),
)
def plan(arguments: argparse.Namespace, host: Host) -> int:
    """Judge stacks. The exit code is 1 if one of them cannot be taken."""
    with _migration(arguments, host) as (migration, ledger, names):
        return _each(arguments, ledger, names, migration.plan, MigrationState.BLOCKED)


@migrate.command(
    "run", "adopt stacks; one whose first plan has changes is undone", STACKS, VALUES, *COMMON, YES,
    examples=("migrate run --from heat --all --values values.yaml --yes",),
)
def run(arguments: argparse.Namespace, host: Host) -> int:
    """Take stacks. The exit code is 1 if one of them was not taken."""
    need_consent(arguments, "migrate run adopts stacks")
    with _migration(arguments, host) as (migration, ledger, names):
        agree(arguments, f"Adopt {', '.join(names)}?")
        return _each(
            arguments,
            ledger,
            names,
            migration.run,
            MigrationState.BLOCKED,
            MigrationState.UNDONE,
            MigrationState.ADOPTING,
        )


@migrate.command(
    "finish", "let go of taken stacks in the Heat: abandon, else retain by an update", STACKS, *COMMON, YES,
    examples=("migrate finish --from heat --all --yes",),
)
def finish(arguments: argparse.Namespace, host: Host) -> int:
    """Let go of stacks in the Heat. The exit code is 1 if one is still the Heat's."""
    need_consent(arguments, "migrate finish changes stacks in the Heat")
    arguments.values = None
    with _migration(arguments, host) as (migration, ledger, names):
        agree(arguments, f"Let go of {', '.join(names)} in {arguments.source}?")
        return _each(
            arguments,
            ledger,
            names,
            migration.finish,
            *(set(MigrationState) - {MigrationState.RELEASED, MigrationState.RETAINED}),
        )


@migrate.command(
    "terraform", "write a template and an import of what a state file of Terraform or OpenTofu has; asks nobody",
    argument("state", type=Path, metavar="STATE", help="state file of version 4: terraform state pull > FILE"),
    argument("--out", type=Path, required=True, metavar="DIR", help="new folder for the files"),
    examples=("migrate terraform terraform.tfstate --out shop",),
)
def terraform(arguments: argparse.Namespace, _: Host) -> int:
    """Write a template and an import. Nothing else changes."""
    state, out = load_file(arguments.state, "State").data, arguments.out
    if state.get("version") != 4:
        raise CommandError(f"{arguments.state} is no state file of version 4: terraform state pull writes one.")
    found = from_state(state, registry(load_settings(installed)), dialect_of(EMPTY))
    try:
        out.mkdir(parents=True)
        steps = [*_write_imports(out, found)]
        (out / "report.json").write_text(pretty(found.report) + "\n")
    except OSError as error:
        raise CommandError(f"--out {out}: {error.strerror}. Name a new folder.") from None
    print(f"{out}: {len(found.taken)} resources, {len(found.left_out)} left out (report.json says why). Next:")
    for template, objects in steps:
        print(f"  heatlite import STACK {words(str(template))} --from-file {words(str(objects))}")
    if found.taken:
        print("Then Terraform is to forget them:")
        print(f"  terraform state rm {words(*found.taken.values())}")
    return 0


def _write_imports(out: Path, found: TakenState) -> Iterator[tuple[Path, Path]]:
    """Write template and objects of each import into one stack, and yield their files.

    The last template is that of the whole stack.
    """
    parts = [*found.parts]
    for number, (resources, objects) in enumerate(parts, 1):
        template = out / ("template.yaml" if number == len(parts) else f"template-{number}.yaml")
        map_file = out / ("import.yaml" if len(parts) == 1 else f"import-{number}.yaml")
        template.write_text(written({**EMPTY, "resources": {**resources}}))
        map_file.write_text(written({"import": {"resources": {**objects}}}))
        yield template, map_file


@contextmanager
def _migration(arguments: argparse.Namespace, host: Host) -> Iterator[tuple[Migration, MigrationLedger, list[str]]]:
    """Connect both sides. Yields the migration with the names of its stacks."""
    if arguments.all == bool(arguments.stacks):
        raise Misuse("Name stacks, or give --all.")
    hidden = _values(arguments.values)
    try:
        ledger = load(arguments.record)
    except (OSError, ValueError, KeyError) as error:
        raise CommandError(f"--record {arguments.record}: {error}") from None
    source, place = transport.client(arguments.source)
    _bind(arguments, ledger, place)
    with connect(arguments, host, reads_only=arguments.run is plan) as session:
        names = _names(arguments, ledger, stack_names(source)) if arguments.all else list(arguments.stacks)
        yield Migration(source, session.client, ledger, hidden), ledger, names


def _bind(arguments: argparse.Namespace, ledger: MigrationLedger, place: str) -> None:
    """Keep the record to one Heat: its stacks would seem to be gone in another one.

    Raises CommandError.
    """
    if ledger.heat not in ("", place):
        raise CommandError(
            f"--record {arguments.record}: it is of another Heat or project, {ledger.heat}. For {place} name another"
            " file, and another --from for this one."
        )
    ledger.heat = place


def _names(arguments: argparse.Namespace, ledger: MigrationLedger, listed: list[str]) -> list[str]:
    """Return all stacks of the Heat; to finish, those taken."""
    if arguments.run is finish:
        return [one.name for one in ledger.moves.values() if one.state in DONE]
    return listed


def _values(file: Path | None) -> Mapping[str, Mapping[str, Json]]:
    data = {} if file is None else load_file(file, "Values").data
    if not all(isinstance(one, dict) for one in data.values()):
        raise CommandError(f"--values {file}: it has a map of parameters for each stack.")
    return {name: one for name, one in data.items() if isinstance(one, dict)}


def _each(
    arguments: argparse.Namespace,
    ledger: MigrationLedger,
    names: list[str],
    step: Callable[[str], StackMove],
    *bad: MigrationState,
) -> int:
    """Do a step for each stack and report.

    The others go on after a stack that fails.
    """
    done: list[StackMove] = []
    has_failed = False
    for name in names:
        try:
            move = step(name)
        except CommandError as error:
            has_failed = True
            known = ledger.find(name) or StackMove(name, "", MigrationState.BLOCKED)
            move = moved(known, known.state, str(error))
        except OSError as error:
            raise CommandError(f"--record {arguments.record}: {error.strerror}. Run it again to continue.") from None
        done.append(move)
        if arguments.format == "text":
            print("\n".join(move.lines()), flush=True)
    if arguments.format == "json":
        print(dump({"stacks": [move.to_json() for move in done]}))
    return 1 if has_failed or any(move.state in bad for move in done) else 0
