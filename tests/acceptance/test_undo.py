"""The page docs/undo.md: its commands one after another, on a simulated cloud."""

import re
import shlex
from pathlib import Path
from textwrap import dedent

import pytest

from heatlite.__main__ import main

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"^    (?:\$ )?heatlite (.*?)(?:  +#.*)?$", re.MULTILINE)
FILE = re.compile(r"^    cat > (\S+) <<'EOF'\n(.*?)^    EOF$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_commands_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/undo.md").read_text().partition("\n## What is kept")[0]
    assert "    export HEATLITE_CLOUD=simulated\n" in page
    monkeypatch.setenv("HEATLITE_CLOUD", "simulated")
    for name, text in FILE.findall(page):
        Path(name).write_text(dedent(text))
    commands = [shlex.split(line) for line in COMMAND.findall(page)]
    assert len(commands) == 9
    shown = []
    for words in commands:
        asks = ["--yes"] if words[0] == "undo" and "--yes" not in words else []
        assert main([*words, *asks]) == 0, words
        shown.append(capsys.readouterr().out)
    said = "~ environment.parameters.flavor: null → m1.medium"
    assert shown[3] == f"{said}\n" and said in page
    assert "shop: UPDATE_COMPLETE" in shown[4] and "1 updated, 1 unchanged" in shown[4]
    assert [line.split()[3] for line in shown[2].splitlines()[1:]] == ["2", "1"]
