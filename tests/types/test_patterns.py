"""Patterns of public templates, each resource marked in turn.

Ids in scripts, machines that signal, several disks, keys of machines, configurations in parts.
"""

from pathlib import Path

import pytest

from tests.engine.conftest import place  # noqa: F401 - a fixture
from tests.tables import few
from tests.types.marking import FOLDERS, ROOT, read
from tests.types.standing import Standing, Stands, standing, stands  # noqa: F401 - fixtures

FILES = [str(path.relative_to(ROOT)) for folder in FOLDERS for path in sorted(folder.glob("patterns/*"))]


@pytest.mark.slow
@pytest.mark.parametrize("file", few(FILES))
def test_it_comes_and_goes(file: str, tmp_path: Path) -> None:
    one = Standing(tmp_path, file)
    with one.ends:
        one.marks.check()
        assert None not in one.cloudy.outputs(one.marks.stack).values()
        gone = one.cloudy.delete(one.marks.stack)
        assert gone.status == "COMPLETE", one.cloudy.why(gone)
        assert one.census() == one.empty


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "name"),
    few((file, name) for file in FILES for name in read(file).get("resources") or read(file)["Resources"]),
)
def test_what_is_marked_is_replaced(stands: Stands, file: str, name: str) -> None:  # noqa: F811
    """Everything else stays, and a second update has nothing to do."""
    with stands(file) as one:
        one.marks.replaced(name)
