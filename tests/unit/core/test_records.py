"""Copies of frozen records."""

from dataclasses import dataclass, replace

import pytest

from heatlite.core.records import changed
from heatlite.core.status import Status, Verb
from heatlite.store.records import ResourceRecord


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2


@pytest.mark.parametrize("changes", [{}, {"x": 5}, {"y": 6}, {"x": 7, "y": 8}])
def test_it_is_as_replace(changes: dict[str, int]) -> None:
    point = Point(1)
    assert changed(point, **changes) == replace(point, **changes)
    assert point == Point(1, 2)


def test_a_row_keeps_its_other_fields() -> None:
    row = ResourceRecord("i", "s", "n", "t", "t", Verb.INIT, Status.COMPLETE, "", 1.0, physical_name="p", data={"a": 1})
    assert changed(row, verb=Verb.CREATE) == replace(row, verb=Verb.CREATE)


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(KeyError):
        changed(Point(1), z=1)  # type: ignore[call-arg]
