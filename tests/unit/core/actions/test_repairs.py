"""Selections of resources that a restricted update repairs."""

import msgspec
import pytest

from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.json import dump
from tests.tables import table

REPLACE, REBUILD = RepairStep.REPLACE, RepairStep.REBUILD
SELECTION = Selection({"db": REBUILD, "web/2": REPLACE, "web/3/server": REPLACE}, ("i1",))


@table(
    ("name", "step", "leads"),
    [("db", REBUILD, False), ("web", None, True), ("we", None, False), ("lb", None, False)],
)
def test_parts(name: str, step: RepairStep | None, leads: bool) -> None:
    assert (SELECTION.step(name), SELECTION.leads_to(name)) == (step, leads)


def test_below() -> None:
    assert SELECTION.below("web") == Selection({"2": REPLACE, "3/server": REPLACE})
    assert SELECTION.below("web").below("3") == Selection({"server": REPLACE})
    assert SELECTION.below("lb", compares=True) == Selection({}, compares=True)


@table(
    ("path", "covered"),
    [("db", True), ("db/x", True), ("web", False), ("web/2", True), ("web/20", False), ("web/3", False)],
)
def test_covers(path: str, covered: bool) -> None:
    assert SELECTION.selects(tuple(path.split("/"))) is covered


@pytest.mark.parametrize("selection", [SELECTION, Selection({}, compares=True)])
def test_stored(selection: Selection) -> None:
    assert msgspec.json.decode(dump(selection), type=Selection) == selection
