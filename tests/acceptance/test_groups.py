"""The page docs/groups.md: its commands one after another, on a simulated cloud."""

import re
import shlex
from pathlib import Path

import pytest

from heatlite.__main__ import main

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"^    heatlite (.*?)(?:  +#.*)?$", re.MULTILINE)


@pytest.mark.slow
def test_the_commands_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HEATLITE_CLOUD", "simulated")
    assert main(["up", "--yes", str(ROOT / "templates/healing/stack.yaml"), "-n", "shop"]) == 0
    page = (ROOT / "docs/groups.md").read_text().partition("\n## Members with their objects")
    assert page[1], "joins and leaves need objects of a cloud: tests/types/test_membership.py"
    commands = [shlex.split(line) for line in COMMAND.findall(page[0])]
    assert len(commands) == 7
    for words in commands:
        asks = ["--yes"] if words[:2] == ["group", "delete"] else []
        assert main([*words, *asks]) == 0, words
