"""Summaries of `up` count what the plan has counted, in its words."""

import re
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.json import dump

from .conftest import Heat, template
from .test_commands import Here, nobody

__all__ = ["nobody"]

BEFORE = ("absent", "whole", "failed", "waiting", "marked", "retained")
AFTER = ("gone", "same", "changed", "replaced")
UNTOLD = {("absent", "gone"), ("waiting", "gone")}
"""Nothing, and a resource that never began: its row goes without an event, though the plan names it."""
PAIRS = [(before, after) for before in BEFORE for after in AFTER if (before, after) not in UNTOLD]


def thing(before: str, after: str | None = None) -> dict[str, Any]:
    """A resource as it is before or after."""
    values: dict[str, Any] = {"value": "two" if after == "changed" else "one"}
    values["update_replace_value"] = "new" if after == "replaced" else "old"
    made: dict[str, Any] = {"type": "OS::Heat::TestResource", "properties": values}
    if before == "failed" and after is None:
        values["fail"] = True
    if before == "waiting" and after is None:
        made["depends_on"] = "failing"
    if before == "retained":
        made["deletion_policy"] = "Retain"
    return made


def group(members: dict[str, Any], count: int) -> dict[str, Any]:
    return {"type": "OS::Heat::ResourceGroup", "properties": {"count": count, "resource_def": members}}


def earlier() -> Any:
    made = {f"{before}_{after}": thing(before) for before, after in PAIRS if before != "absent"}
    groups = {f"g_{after}_{count}": group(thing("whole"), 2) for after in AFTER[1:] for count in (1, 2, 3)}
    return template(failing=thing("failed"), **made, **groups)


def later() -> Any:
    made = {f"{before}_{after}": thing(before, after) for before, after in PAIRS if after != "gone"}
    groups = {f"g_{after}_{count}": group(thing("whole", after), count) for after in AFTER[1:] for count in (1, 2, 3)}
    return template(**made, **groups)


def counted(sentence: str) -> dict[str, int]:
    """The numbers of ``1 added, 2 replaced`` that are not 0."""
    return {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", sentence) if count != "0"}


@pytest.mark.slow
def test_the_summary_counts_as_the_plan(heat: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here, file = Here(heat), tmp_path / "s.yaml"
    file.write_text(dump(earlier()))
    assert here(f"up {file} -y") == 1
    for _, after in [pair for pair in PAIRS if pair[0] == "marked"]:
        assert here(f"mark-unhealthy s marked_{after}") == 0
    file.write_text(dump(later()))
    capsys.readouterr()
    assert here(f"plan {file}") == 0
    planned = counted(capsys.readouterr().out.rpartition("Plan: ")[2])
    assert planned.keys() == {"added", "updated", "replaced", "deleted", "unchanged"}
    assert here(f"up {file} -y") == 0
    assert counted(capsys.readouterr().out.rpartition("\ns: ")[2].partition(" s: ")[2]) == planned
    assert here(f"up {file} -y") == 0
    capsys.readouterr()
    assert here("down s -y") == 0
