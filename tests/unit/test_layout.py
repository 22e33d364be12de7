"""Layout of the folders."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "heatlite"


def test_each_folder_of_the_unit_tests_is_a_package() -> None:
    folder = ROOT / "tests" / "unit"
    tested = {path.parent.relative_to(folder) for path in folder.rglob("*.py")}
    assert [str(path) for path in sorted(tested) if not (PACKAGE / path / "__init__.py").is_file()] == []
