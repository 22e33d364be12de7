"""The command line of `heatlite migrate`, before it connects."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from heatlite.__main__ import main

CLOUD_MISSING = "cloud 'nowhere'" if find_spec("openstack") else "The cloud nowhere is set, but openstacksdk is not"


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
