"""Records: quick frozen dataclasses, and their copies."""

from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import pytest

from heatlite.core.records import changed, record
from heatlite.core.status import Status, Verb
from heatlite.store.records import ResourceRecord
from tests.tables import table


@record(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    labels: list[str] = field(default_factory=list)
    secret: str = field(default="s", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Model:
    """The same by the standard library."""

    x: int
    y: int = 2
    labels: list[str] = field(default_factory=list)
    secret: str = field(default="s", repr=False, compare=False)


@record(frozen=True, slots=True)
class Named(Point):
    name: str = "n"

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError


def test_a_record_is_as_a_frozen_dataclass_with_slots() -> None:
    point, model = Point(1), Model(1)
    assert repr(point) == repr(model).replace("Model", "Point")
    assert Point.__slots__ == Model.__slots__  # type: ignore[attr-defined]
    assert Point.__match_args__ == Model.__match_args__
    assert [one.name for one in fields(point)] == [one.name for one in fields(model)]
    assert point == Point(1, labels=[], secret="t") != Point(1, 3)
    assert point != model
    assert point.labels is not Point(1).labels
    assert deepcopy(point) == point
    assert hash(replace(point, labels=())) == hash(Point(1, labels=()))  # type: ignore[arg-type]


@pytest.mark.full
def test_the_type_checker_refuses_to_change_a_record(tmp_path: Path) -> None:
    mypy = pytest.importorskip("mypy.api", reason="needs mypy (requirements/dev.txt)")
    lines = ("from heatlite.store.records import LockRecord", "def change(lock: LockRecord) -> None:")
    path = tmp_path / "change.py"
    path.write_text("\n".join((*lines, "    lock.reason = None")))
    found, _, code = mypy.run(["--strict", str(path)])
    assert code == 1
    assert 'Property "reason" defined in "LockRecord" is read-only' in found


def test_a_record_extends_another() -> None:
    assert Named(1, name="m") == replace(Named(1), name="m") != Named(1)
    with pytest.raises(ValueError):
        Named(1, name="")
    with pytest.raises(TypeError):
        Named()  # type: ignore[call-arg]


@table("changes", [{}, {"x": 5}, {"y": 6}, {"x": 7, "y": 8}])
def test_it_is_as_replace(changes: dict[str, int]) -> None:
    point = Point(1)
    assert changed(point, **changes) == replace(point, **changes)
    assert point == Point(1, 2)


def test_a_row_keeps_its_other_fields() -> None:
    row = ResourceRecord("i", "s", "n", "t", "t", Verb.INIT, Status.COMPLETE, "", 1.0, physical_name="p", data={"a": 1})
    assert changed(row, verb=Verb.CREATE) == replace(row, verb=Verb.CREATE)


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(TypeError):
        changed(Point(1), z=1)  # type: ignore[call-arg]
