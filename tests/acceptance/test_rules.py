"""The page docs/rules.md: its commands one after another, on a simulated cloud."""

import re
import shlex
from pathlib import Path
from textwrap import dedent

import pytest

from heatlite.__main__ import main

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"^    (?:\$ )?heatlite (.*?)(?:  +#(.*))?$", re.MULTILINE)
FILE = re.compile(r"^    cat > (\S+) <<'EOF'\n(.*?)^    EOF$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_commands_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cel_expr_python", reason="cel-expr-python is not installed: pip install -e '.[rules]'")
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/rules.md").read_text().partition("\n## A rule")[0]
    assert "    export HEATLITE_CLOUD=simulated\n" in page
    monkeypatch.setenv("HEATLITE_CLOUD", "simulated")
    for name, text in FILE.findall(page):
        Path(name).write_text(dedent(text))
    commands = [(shlex.split(line), "ends with 1" in note) for line, note in COMMAND.findall(page)]
    assert len(commands) == 10
    shown = []
    for words, fails in commands:
        assert main(words) == fails, words
        shown.append("".join(capsys.readouterr()))
    said = "! deny no-public-ssh  sg: SSH is open to everybody\n"
    assert said in shown[3] and said in page
    for denied in (shown[4], shown[6], shown[7]):
        assert "because of a rule of a change policy: no-public-ssh at sg: SSH is open to everybody" in denied
