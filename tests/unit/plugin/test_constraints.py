"""Named constraints of packages, for properties and for parameters."""

from pathlib import Path

import pytest

from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import Json
from heatlite.plugin import custom_constraint
from heatlite.plugin.registry import Registry
from heatlite.template.document import Template
from heatlite.template.environment import Environment


@custom_constraint("tests.colour")
def check_colour(value: object) -> str | None:
    return None if value in ("red", "green") else "no colour"


def bind(constraint: str, value: Json, kind: str = "string") -> object:
    constraints: Json = [{"custom_constraint": constraint}]
    parameters: Json = {"p": {"type": kind, "constraints": constraints}}
    template = Template({"heat_template_version": "rocky", "parameters": parameters})
    return template.bind(Environment(parameters={"p": value}), {}).parameters["p"]


def test_for_parameters() -> None:
    assert bind("tests.colour", "red") == "red"
    assert bind("tests.colour", "red,green", "comma_delimited_list") == ["red", "green"]
    for value in ("blue", "red,blue"):
        with pytest.raises(StackValidationFailed, match=r"Error validating value 'blue': no colour$"):
            bind("tests.colour", value, "comma_delimited_list")
    with pytest.raises(StackValidationFailed, match="constraint not found"):
        bind("tests.zz", "a")
    assert bind("nova.flavor", "whatever") == "whatever"


def test_announced_by_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "shapes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shapes\nVersion: 1.0\n")
    names = "tests.shape = shapes_of_tests:check\ntests.broken = shapes_of_tests:gone\n"
    (info / "entry_points.txt").write_text(f"[heatlite.constraints]\n{names}")
    (tmp_path / "shapes_of_tests.py").write_text(
        "def check(value):\n    return None if value == 'round' else 'not round'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    Registry({})
    assert bind("tests.shape", "round") == "round"
    with pytest.raises(StackValidationFailed, match="'square': not round"):
        bind("tests.shape", "square")
    with pytest.raises(StackValidationFailed, match="the constraint cannot be loaded: AttributeError"):
        bind("tests.broken", "a")
