"""Guides, each step as it is written."""

import re
from pathlib import Path

import pytest

from heatlite.template.source.loader import load
from tests.api.conftest import Heat
from tests.api.test_commands import Here

DOCS = Path(__file__).parents[4] / "docs"
FILE = re.compile(r"```yaml\n# (\S+)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^    heatlite (.*)$", re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guide", "file", "resources"),
    [("ownership.md", "shop.yaml", {"net", "subnet", "disk"}), ("drift.md", "web.yaml", {"sg"})],
)
def test_from_scratch(
    clouded: Heat,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    guide: str,
    file: str,
    resources: set[str],
) -> None:
    text = (DOCS / guide).read_text().partition("## Try it\n")[2].partition("\n## ")[0]
    for name, content in FILE.findall(text):
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    here, commands = Here(clouded), COMMAND.findall(text)
    assert len(commands) > 4
    told = ""
    for command in commands:
        assert here(command) == 0, command
        told += capsys.readouterr().out
    assert {*load((tmp_path / file).read_text()).data["resources"]} == resources  # type: ignore[arg-type,misc]
    if guide == "drift.md":
        assert "/rules/-" in told and "port_range_min: 22" in (tmp_path / file).read_text()
