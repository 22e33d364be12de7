"""The command line of `heatlite migrate`, before it connects."""

from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path

import pytest

from heatlite.__main__ import main
from heatlite.cli.errors import CommandError
from heatlite.features.migrate.commands import _bind, _each
from heatlite.features.migrate.ledger import MigrationLedger, MigrationState, StackMove, load

WEB = StackMove("web", "id", MigrationState.UNDONE)
CLOUD_MISSING = "cloud 'nowhere'" if find_spec("openstack") else "The cloud nowhere needs openstacksdk"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["plan"], 2, "Name stacks, or give --all."),
        (["plan", "web", "--all"], 2, "Name stacks, or give --all."),
        (["run", "web"], 2, "migrate run adopts stacks"),
        (["finish", "--all"], 2, "migrate finish changes stacks in the Heat"),
        (["plan", "web", "--record", "bad.json"], 1, "bad.json is no record of a migration"),
        (["plan", "web", "--values", "list.yaml"], 1, "it has a map of parameters for each stack"),
        (["plan", "web"], 1, f"--from nowhere: {CLOUD_MISSING}"),
    ],
)
def test_refusals(
    words: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "list.yaml").write_text("web: [1]")
    assert main(["migrate", *words, "--from", "nowhere"]) == code
    assert message in capsys.readouterr().err


def test_a_stack_that_cannot_be_asked_about_fails_the_command(tmp_path: Path) -> None:
    def refuse(_: str) -> StackMove:
        raise CommandError("no answer")

    arguments = Namespace(format="json", record=tmp_path / "record.json")
    assert _each(
        arguments, MigrationLedger(arguments.record, {"web": WEB}), ["web"], refuse, MigrationState.BLOCKED
    ) == 1


def test_a_record_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    arguments = Namespace(format="text", record=tmp_path / "nowhere" / "record.json")
    ledger = MigrationLedger(arguments.record)
    with pytest.raises(CommandError, match=r"nowhere/record\.json: No such file or directory\. Run it again"):
        _each(arguments, ledger, ["web"], lambda _: ledger.put(WEB), MigrationState.BLOCKED)


def test_a_record_is_of_one_heat(tmp_path: Path) -> None:
    """Its stacks would seem to be gone in another one, and count as released."""
    arguments = Namespace(record=tmp_path / "record.json")
    ledger = MigrationLedger(arguments.record)
    _bind(arguments, ledger, "http://one/v1/p")
    ledger.put(WEB)
    again = load(arguments.record)
    _bind(arguments, again, "http://one/v1/p")
    with pytest.raises(CommandError, match="it is of another Heat or project, http://one/v1/p"):
        _bind(arguments, again, "http://one/v1/q")
