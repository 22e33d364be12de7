"""Links, paths and lines of the documents, and the references of the code to them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(path for path in ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
SOURCES = sorted(path for room in ("heatlite", "tests", "benchmarks") for path in (ROOT / room).rglob("*.py"))
LONGEST_LINE = 120
UNUSED_DECISIONS = {20}

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/?)`")
IN_CODE = re.compile(r"\bdocs/[\w./-]+")


def names_of(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines outside of code blocks, with their numbers."""
    is_code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("    "):
            yield number, line


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    titles = (line.lstrip("#").strip() for _, line in prose(path) if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def is_there(path: str, document: Path) -> bool:
    """True if a path exists beside the document, in the repository or in the package."""
    return any((folder / path).exists() for folder in (document.parent, ROOT, ROOT / "heatlite"))


@pytest.mark.parametrize("name", names_of(DOCUMENTS))
def test_every_link_resolves(name: str) -> None:
    document, broken = ROOT / name, []
    for number, line in prose(document):
        for target in LINK.findall(line):
            path, _, anchor = target.partition("#")
            if "://" in path:
                continue
            linked = (document.parent / path) if path else document
            if not linked.exists() or anchor and anchor not in anchors(linked):
                broken.append(f"{name}:{number}: {target}")
    assert broken == []


@pytest.mark.parametrize("name", names_of(DOCUMENTS))
def test_every_named_file_is_there(name: str) -> None:
    """A name in backticks is a path of the repository if it begins with one of its folders, or ends with .py."""
    document, missing = ROOT / name, []
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    for number, line in prose(document):
        for path in NAMED.findall(line):
            is_path = "/" in path and (path.split("/")[0] in folders or path.endswith(".py"))
            if is_path and not is_there(path, document):
                missing.append(f"{name}:{number}: {path}")
    assert missing == []


@pytest.mark.parametrize("name", names_of(DOCUMENTS))
def test_lines_of_prose_are_short(name: str) -> None:
    lines = prose(ROOT / name)
    assert [number for number, line in lines if len(line) > LONGEST_LINE and not line.startswith("|")] == []


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text()
    files = sorted(path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    assert re.findall(r"^\| \[\d{4}\]\(([^)]+)\)", index, re.MULTILINE) == files
    numbers = {int(name[:4]) for name in files}
    assert set(range(1, max(numbers) + 1)) - numbers == UNUSED_DECISIONS


def test_the_code_refers_to_documents_that_are_there() -> None:
    """A decision may be named by its number alone: docs/decisions/0010."""
    missing = []
    for source in SOURCES:
        for path in IN_CODE.findall(source.read_text()):
            target = path.rstrip("./-")
            if not list(ROOT.glob(f"{target}*")):
                missing.append(f"{source.relative_to(ROOT)}: {path}")
    assert missing == []
