"""Static types: properties have the types of their annotations."""

import sys
from pathlib import Path

import pytest

mypy = pytest.importorskip("mypy.api")

SOURCE = """
from heatlite.plugin import Json, JsonMap, Resource, Schema, prop

class Inner(Schema):
    port: int = prop(80)

class Props(Schema):
    length: int = prop(32, between=(1, 512), doc="How long.")
    salt: str | None = prop(doc="Salt.")
    on: bool = prop(False)
    wait: float = prop(0)
    inner: Inner | None = prop()
    inners: list[Inner] = prop([{"port": 1}])

class Thing(Resource[Props], type="Test::Thing"):
    def handle_create(self) -> Json:
        reveal_type(self.props.length)
        reveal_type(self.props.salt)
        reveal_type(self.props.inners[0].port)
        self.props.lenght
        return None

class Wrong(Schema):
    length: int = prop("32")
"""


@pytest.mark.slow
def test_mypy_sees_the_properties(tmp_path: Path) -> None:
    (tmp_path / "thing.py").write_text(SOURCE)
    limit = sys.getrecursionlimit()
    try:
        report, _, _ = mypy.run(["--strict", "--show-error-codes", str(tmp_path / "thing.py")])
    finally:
        sys.setrecursionlimit(limit)  # mypy leaves it sixteen times as high
    found = dict(line.split("thing.py:")[1].split(":", 1) for line in report.splitlines() if "thing.py:" in line)
    assert sorted(map(int, found)) == [17, 18, 19, 20, 24]
    assert '"int"' in found["17"]
    assert '"str | None"' in found["18"]
    assert '"int"' in found["19"]
    assert "lenght" in found["20"]
    assert "[attr-defined]" in found["20"]
    assert "[assignment]" in found["24"]
